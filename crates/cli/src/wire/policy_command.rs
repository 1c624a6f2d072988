//! The rules, tools and guards of a run, for `pollux policy`.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_agent::check_arguments;
use pollux_config::env::Env;
use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::exit::ExitKind;
use pollux_domain::model::ModelClient;
use pollux_domain::time::SystemClock;
use pollux_domain::tool::{Effect, Tool};
use pollux_exec::background::Background;
use pollux_model::catalogue::Catalogue;
use pollux_model::scripted::{ScriptedClient, Strictness};
use pollux_net::address::{AllowedHosts, judge};
use pollux_policy::engine::Engine;
use pollux_policy::explain::{self, Explanation};
use pollux_policy::request::{Decision, Request};
use pollux_policy::{Problem, Severity, canonical_tool_name};
use pollux_tools::ToolSetup;

use super::{Loaded, load_settings, policy, turn};
use crate::launch::{Options, PolicyCall};
use crate::policy_command::{Finding, Outcome, Rules};
use crate::report::Failure;
use crate::run::refuse_forbidden_yolo;

/// The rules of a run with these options, for `pollux policy`.
pub(crate) fn rules(options: &Options, env: &Env) -> Result<Box<dyn Rules>, Failure> {
    let loaded = load_settings(options, env)?;
    super::check_policy_files(options, &loaded)?;
    let workspace = Arc::new(turn::workspace(&loaded)?);
    let engine = policy::engine(options, &loaded, workspace.directories());
    let catalogue = Catalogue::with_settings(&loaded.groups.model.configs)
        .map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    // No call is made, so nobody is asked.
    let model = ScriptedClient::from_text("", Strictness::NonStrict, Arc::new(catalogue))
        .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
    let model: Arc<dyn ModelClient> = Arc::new(model);
    let setup = ToolSetup {
        workspace,
        filtering: loaded.groups.context.filtering.clone(),
        tools: loaded.groups.tools.clone(),
        child_env: Vec::new(),
        background: Arc::new(Background::new(loaded.home.tmp_dir().join("background-processes"))),
        clock: Arc::new(SystemClock),
    };
    let tools = turn::all_tools(setup, &loaded, &model)?;
    Ok(Box::new(OfARun { options: options.clone(), loaded, engine, tools }))
}

struct OfARun {
    options: Options,
    loaded: Loaded,
    engine: Arc<Engine>,
    tools: Vec<Arc<dyn Tool>>,
}

/// A call as its tool understands it.
struct Prepared {
    name: String,
    read_only: bool,
    args: JsonObject,
    effect: Effect,
}

impl Rules for OfARun {
    fn notes(&self) -> &[String] {
        &self.loaded.notes
    }

    fn explain(&self, call: &PolicyCall) -> Result<Outcome, Failure> {
        let mode = match self.mode(call)? {
            Ok(mode) => mode,
            Err(reason) => return Ok(refused(reason)),
        };
        let prepared = match self.prepare(call) {
            Ok(prepared) => prepared,
            Err(reason) => return Ok(refused(reason)),
        };
        let verdict = self.engine.decide(&Request {
            tool: &prepared.name,
            server: None,
            read_only: prepared.read_only,
            annotations: None,
            args: &prepared.args,
            effect: &prepared.effect,
            mode,
            interactive: !call.headless,
            subagent: None,
        });
        if verdict.decision == Decision::Allow
            && let Some(check) = verdict.checks.first()
        {
            return Ok(refused(format!(
                "the safety checker `{}` has to be asked, and this version cannot run it",
                check.name
            )));
        }
        Ok(outcome(&Explanation::from(&verdict)))
    }

    fn lint(&self, files: &[PathBuf]) -> Vec<Finding> {
        if files.is_empty() {
            return self.engine.problems().iter().map(finding).collect();
        }
        explain::lint(files).iter().map(finding).collect()
    }
}

impl OfARun {
    /// The mode that trust in the folder leaves; the inner error says why nothing runs at all.
    fn mode(&self, call: &PolicyCall) -> Result<Result<ApprovalMode, String>, Failure> {
        let mut options = self.options.clone();
        options.approval = call.mode.or(options.approval);
        refuse_forbidden_yolo(&options, &self.loaded.groups)?;
        match super::check_trust(&options, &self.loaded) {
            Ok(permission) => Ok(Ok(permission.approval)),
            Err(failure) if call.headless => Ok(Err(failure.message())),
            Err(_) if options.approval == Some(ApprovalMode::Plan) => Ok(Ok(ApprovalMode::Plan)),
            Err(_) => Ok(Ok(ApprovalMode::Default)),
        }
    }

    /// What the tool makes of the arguments; the error says why it refuses them.
    fn prepare(&self, call: &PolicyCall) -> Result<Prepared, String> {
        let named = |name: &str| self.tools.iter().find(|tool| tool.spec().name == name);
        let Some(tool) = named(&call.tool).or_else(|| named(canonical_tool_name(&call.tool))) else {
            // Of a server or an extension: what it does with its arguments is not known here.
            let (name, args) = (call.tool.clone(), call.args.clone());
            return Ok(Prepared { name, read_only: false, args, effect: Effect::None });
        };
        let spec = tool.spec();
        let args = tool.modernised(&call.args).unwrap_or_else(|| call.args.clone());
        check_arguments(&spec.parameters, &args)?;
        let effect = tool.prepare(&args).map_err(|error| error.0)?.effect();
        if let Effect::Fetch(urls) = &effect {
            reachable(urls)?;
        }
        Ok(Prepared { name: spec.name.clone(), read_only: spec.kind.is_read_only(), args, effect })
    }
}

/// Whether any of the pages may be fetched, as far as the addresses themselves tell.
fn reachable(urls: &[String]) -> Result<(), String> {
    let allowed = AllowedHosts::default();
    let mut refusal = None;
    for url in urls {
        let Ok(parsed) = url.parse() else { continue };
        match judge(&parsed, &allowed) {
            Ok(_) => return Ok(()),
            Err(why) => refusal = Some(format!("`{url}` is not fetched: {why}")),
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// No rule decided: the call cannot be made.
fn refused(reason: String) -> Outcome {
    outcome(&Explanation { decision: "deny", rule: None, source: None, parts: Vec::new(), reason })
}

fn outcome(explanation: &Explanation) -> Outcome {
    let mut text = format!("{}: {}\n", explanation.decision, explanation.reason);
    // A single part says nothing new.
    if explanation.parts.len() > 1 {
        for part in &explanation.parts {
            text.push_str(&format!("  {:5} `{}`: {}\n", part.decision, part.text, part.reason));
        }
    }
    Outcome {
        decision: explanation.decision,
        reason: explanation.reason.clone(),
        text,
        json: explanation.to_json(),
    }
}

fn finding(problem: &Problem) -> Finding {
    Finding { is_error: problem.severity == Severity::Error, text: problem.to_string() }
}
