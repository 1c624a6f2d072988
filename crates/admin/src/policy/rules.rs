//! The rules, tools and guards of a run, for `pollux policy`.

mod inventory;
mod past;

use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::ModelClient;
use pollux_domain::time::SystemClock;
use pollux_domain::tool::{Effect, Tool};
use pollux_exec::background::Background;
use pollux_host::request::Request as RunRequest;
use pollux_host::{
    Loaded, check_arguments, check_policy_files, check_trust, checker, load_settings, policy,
    refuse_forbidden_yolo, turn,
};
use pollux_model::catalogue::Catalogue;
use pollux_model::scripted::{ScriptedClient, Strictness};
use pollux_net::address::{AllowedHosts, judge};
use pollux_policy::engine::{Engine, ToolFacts};
use pollux_policy::explain::{self, Explanation};
use pollux_policy::plan_file::placed;
use pollux_policy::request::{Decision, Request, Verdict};
use pollux_policy::{BUILT_IN, Problem, Severity, canonical_tool_name, qualified_tool_name};
use pollux_tools::ToolSetup;

use super::{
    Depth, Finding, Inventory, Outcome, PastCall, PastSession, PastSessions, PolicyCall, PolicyView,
};

/// The rules of a run with these options, for `pollux policy`.
pub fn rules(options: &RunRequest, env: &Env) -> Result<Rules, Failure> {
    let loaded = load_settings(options, env)?;
    check_policy_files(options, &loaded)?;
    let workspace = Arc::new(turn::workspace(&loaded)?);
    let engine = policy::engine(options, &loaded, workspace.directories());
    let catalogue = Catalogue::with_settings(&loaded.groups.model.configs)
        .map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    // No call is made, so no approval is requested.
    let model = ScriptedClient::from_text("", Strictness::NonStrict, Arc::new(catalogue))
        .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
    let model: Arc<dyn ModelClient> = Arc::new(model);
    let background = Arc::new(Background::new(loaded.home.tmp_dir().join("background-processes")));
    let root = workspace.directories().first().map_or(loaded.env.cwd(), PathBuf::as_path).to_path_buf();
    let setup = ToolSetup {
        workspace,
        filtering: loaded.groups.context.filtering.clone(),
        tools: loaded.groups.tools.clone(),
        child_env: Vec::new(),
        background: Arc::clone(&background),
        sandbox: Default::default(),
        clock: Arc::new(SystemClock),
        client_terminals: None,
    };
    let tools = turn::all_tools(setup, &loaded, &model)?;
    let checkers = checker::programs(&loaded, &root, background);
    Ok(Rules { options: options.clone(), loaded, engine, tools, checkers })
}

/// The rules of a run.
pub struct Rules {
    options: RunRequest,
    loaded: Loaded,
    engine: Arc<Engine>,
    tools: Vec<Arc<dyn Tool>>,
    checkers: checker::Programs,
}

/// The tool that a call names.
struct Target<'a> {
    name: String,
    server: Option<String>,
    /// What it is made of; tools of servers and of later versions are only names here.
    tool: Option<&'a Arc<dyn Tool>>,
}

/// A call as its tool understands it.
struct Prepared {
    args: JsonObject,
    effect: Effect,
}

impl Rules {
    /// Lines about what was found on the way to them, for stderr.
    pub fn notes(&self) -> &[String] {
        &self.loaded.notes
    }

    /// The final outcome of a call.
    pub fn explain(&self, call: &PolicyCall, depth: Depth) -> Result<Outcome, Failure> {
        Ok(outcome(&match self.decide(call, depth)? {
            Ok(verdict) => Explanation::from(&verdict),
            // No rule decided: the call cannot be made.
            Err(reason) => {
                Explanation { decision: "deny", rule: None, source: None, parts: Vec::new(), reason }
            }
        }))
    }

    /// Everything in force in such runs; without a mode in all modes, without `headless` in all runs.
    pub fn inventory(&self, view: &PolicyView) -> Inventory {
        inventory::of(&self.engine, view)
    }

    /// Past sessions: these, or all of the project or of the home.
    pub fn sessions(&self, which: &[String], all_projects: bool) -> Result<PastSessions, Failure> {
        past::sessions(&self.loaded, which, all_projects)
    }

    /// The calls of a session, oldest first; the error names the file.
    pub fn calls(&self, session: &PastSession) -> Result<Vec<PastCall>, String> {
        past::calls(session)
    }

    /// What is wrong with these files and folders; without any, with those of a run.
    pub fn lint(&self, files: &[PathBuf]) -> Vec<Finding> {
        if files.is_empty() {
            return self.engine.problems().iter().map(finding).collect();
        }
        explain::lint(files).iter().map(finding).collect()
    }
}

impl Rules {
    /// The verdict on a call; the inner error says why nothing runs, whatever the rules say.
    fn decide(&self, call: &PolicyCall, depth: Depth) -> Result<Result<Verdict, String>, Failure> {
        let mode = match self.mode(&call.view)? {
            Ok(mode) => mode,
            Err(reason) => return Ok(Err(reason)),
        };
        let target = match self.target(&call.tool) {
            Ok(target) => target,
            Err(reason) => return Ok(Err(reason)),
        };
        let interactive = !call.view.headless;
        if !self.engine.exposes(&target.facts(), mode, interactive) {
            let verdict = self.engine.decide(&target.request(&call.args, &Effect::None, mode, interactive));
            let denied = verdict.decision == Decision::Deny;
            let reason = format!("`{}` is not offered to the model in this mode", target.name);
            return Ok(if denied { Ok(verdict) } else { Err(reason) });
        }
        let plan = (mode == ApprovalMode::Plan)
            .then(|| placed(&target.name, &call.args, &policy::plans_folder(&self.loaded)))
            .flatten();
        let prepared = match self.prepare(&target, plan.as_ref().unwrap_or(&call.args), depth) {
            Ok(prepared) => prepared,
            Err(reason) => return Ok(Err(reason)),
        };
        let request = target.request(&prepared.args, &prepared.effect, mode, interactive);
        let mut verdict = self.engine.decide(&request);
        match depth {
            Depth::Whole if !verdict.checks.is_empty() => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|error| {
                    Failure::new(ExitKind::Failure, "could not start the event loop").because(&error)
                })?;
                verdict = runtime.block_on(self.engine.checked(verdict, &request, &[], &self.checkers));
            }
            Depth::Still | Depth::Rules => {
                for check in &verdict.checks {
                    verdict
                        .reason
                        .push_str(&format!("; the safety checker `{}` would be consulted", check.name));
                }
            }
            Depth::Whole => {}
        }
        Ok(Ok(verdict))
    }

    /// The mode that trust in the folder leaves; the inner error says why nothing runs at all.
    fn mode(&self, view: &PolicyView) -> Result<Result<ApprovalMode, String>, Failure> {
        let mut options = self.options.clone();
        options.approval = view.mode.or(options.approval);
        refuse_forbidden_yolo(&options, &self.loaded.groups)?;
        match check_trust(&options, &self.loaded) {
            Ok(permission) => Ok(Ok(permission.approval)),
            Err(failure) if view.headless => Ok(Err(failure.message())),
            Err(_) if options.approval == Some(ApprovalMode::Plan) => Ok(Ok(ApprovalMode::Plan)),
            Err(_) => Ok(Ok(ApprovalMode::Default)),
        }
    }

    /// The tool of this name; the error says that there is none.
    fn target(&self, name: &str) -> Result<Target<'_>, String> {
        let known = canonical_tool_name(name);
        let named = |name: &str| self.tools.iter().find(|tool| tool.spec().name == name);
        if let Some(tool) = named(name).or_else(|| named(known)) {
            return Ok(Target { name: tool.spec().name.clone(), server: None, tool: Some(tool) });
        }
        if BUILT_IN.contains(&known) || name.starts_with("discovered_tool_") {
            return Ok(Target { name: known.to_owned(), server: None, tool: None });
        }
        let Some((name, server)) = self.servers_tool(name) else {
            return Err(format!("unknown tool `{name}`"));
        };
        match policy::only_servers(&self.loaded) {
            Some(only) if !only.iter().any(|other| other.eq_ignore_ascii_case(&server)) => {
                Err(format!("the server `{server}` is not started: it is not in `mcp.allowed`"))
            }
            _ => Ok(Target { name, server: Some(server), tool: None }),
        }
    }

    /// A tool of an MCP server: its registered name, and the server.
    fn servers_tool(&self, name: &str) -> Option<(String, String)> {
        let Some(rest) = name.strip_prefix("mcp_") else {
            let (server, tool) =
                name.split_once("__").filter(|(server, tool)| !server.is_empty() && !tool.is_empty())?;
            return Some((qualified_tool_name(server, tool), server.to_owned()));
        };
        // A configured server's name may hold underscores itself.
        let configured = policy::server_names(&self.loaded).into_iter();
        let fitting = configured.filter(|server| name.starts_with(&qualified_tool_name(server, "")));
        let server = match fitting.max_by_key(String::len) {
            Some(server) => server,
            None => rest.split_once('_').filter(|(_, tool)| !tool.is_empty())?.0.to_owned(),
        };
        Some((name.to_owned(), server))
    }

    /// What the tool makes of the arguments; the error says why it refuses them.
    fn prepare(&self, target: &Target<'_>, args: &JsonObject, depth: Depth) -> Result<Prepared, String> {
        let Some(tool) = target.tool.filter(|_| depth != Depth::Rules) else {
            return Ok(Prepared { args: args.clone(), effect: Effect::None });
        };
        let args = tool.modernised(args).unwrap_or_else(|| args.clone());
        check_arguments(&tool.spec().parameters, &args)?;
        let effect = tool.prepare(&args).map_err(|error| error.0)?.effect();
        if let Effect::Fetch(urls) = &effect {
            reachable(urls, &AllowedHosts::new(policy::allowed_hosts(&self.loaded)))?;
        }
        Ok(Prepared { args, effect })
    }
}

impl Target<'_> {
    fn read_only(&self) -> bool {
        self.tool.is_some_and(|tool| tool.spec().kind.is_read_only())
    }

    fn facts(&self) -> ToolFacts<'_> {
        ToolFacts {
            name: &self.name,
            server: self.server.as_deref(),
            read_only: self.read_only(),
            annotations: None,
            subagent: None,
        }
    }

    fn request<'a>(
        &'a self,
        args: &'a JsonObject,
        effect: &'a Effect,
        mode: ApprovalMode,
        interactive: bool,
    ) -> Request<'a> {
        Request {
            tool: &self.name,
            server: self.server.as_deref(),
            read_only: self.read_only(),
            annotations: None,
            args,
            effect,
            mode,
            interactive,
            subagent: None,
        }
    }
}

/// Whether any of the pages may be fetched, as far as the addresses themselves tell.
fn reachable(urls: &[String], allowed: &AllowedHosts) -> Result<(), String> {
    let mut refusal = None;
    for url in urls {
        let Ok(parsed) = url.parse() else { continue };
        match judge(&parsed, allowed) {
            Ok(_) => return Ok(()),
            Err(why) => refusal = Some(format!("`{url}` is not fetched: {why}")),
        }
    }
    refusal.map_or(Ok(()), Err)
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
