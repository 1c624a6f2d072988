//! The policy engine: matches a call against all rules and returns a verdict.
//!
//! Start at [`Engine::decide`]; [`crate::load`] builds the engine. Shell commands are handled in `shell_call`,
//! protected files in `protection`, external checkers in `checks`.

mod brought;
mod call;
mod checks;
mod copies;
mod covered;
mod git_config;
mod git_repository;
mod git_shows;
mod index;
mod prefix;
mod protection;
mod read_tools;
mod reading;
mod remotes;
mod replaced;
mod repository;
mod shell_call;
mod stale_lists;
mod steered;
mod tree_changes;
mod tree_search;
mod working_dirs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::search_path::SearchPath;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::Effect;

use self::call::{Hit, PolicyCall};
use crate::checker::{self, CheckAnswer, CheckFailure, CheckerKind, CheckerRule, Resolver};
use crate::disk::Disk;
use crate::file::Problem;
use crate::request::{Decision, ExternalCheck, NO_RULE, Request, RuleSource, Verdict};
use crate::rule::{Rule, Unreadable, UnreadableScope};
use crate::tier::Tier;
use crate::tool_name::{CalledName, SHELL};

pub(crate) use self::prefix::base as program_base;
pub(crate) use self::shell_call::leaves_no_file;

/// Configuration of the engine in addition to rules.
#[derive(Clone)]
pub struct Options {
    /// The directories that belong to the workspace.
    pub workspaces: Vec<PathBuf>,
    /// Whether the folder is trusted.
    pub trusted: bool,
    /// `security.disableAlwaysAllow`, or secure mode.
    pub disable_always_allow: bool,
    /// `security.disableYoloMode`, or secure mode. The front ends reject the mode; this is for advice.
    pub disable_yolo: bool,
    /// `security.protectBuildFiles`.
    pub protect_build_files: bool,
    /// Files below the workspace that hooks and servers run; protected like build files.
    pub scripts: Vec<PathBuf>,
    /// Whether the user lets workspace policies allow more than the user's own.
    pub workspace_may_widen: bool,
    /// Where plans are kept.
    pub plans: Plans,
    /// `security.enableConseca`: every call needs a checker that this program does not have.
    pub conseca: bool,
    /// Resolves symlinks, if the caller has access to the disk.
    pub resolve: Option<Resolver>,
    /// Lists the files of patterns and trees. Without it, a command that depends on them is not known to be
    /// read-only.
    pub disk: Option<Arc<dyn Disk>>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Where git looks for the settings of the user and of the machine.
    pub git_settings: Vec<PathBuf>,
    /// The search path of bash. Without it, every program name is taken literally.
    pub search_path: Option<SearchPath>,
}

/// Where plans are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plans {
    /// In any folder called `plans`.
    Anywhere,
    /// In the folder `plans` of a session, below the project's state.
    OfSessions(PathBuf),
    /// In this folder.
    In(PathBuf),
}

impl Plans {
    fn holds(&self, folder: &Path, resolve: Option<&Resolver>) -> bool {
        let real = |path: &Path| checker::place(path, "", resolve);
        match self {
            Self::Anywhere => folder.file_name().is_some_and(|name| name == "plans"),
            Self::OfSessions(state) => {
                let session =
                    folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == "plans"));
                let state = real(state);
                session.is_some_and(|session| session == state || session.parent() == Some(&state))
            }
            Self::In(plans) => folder == real(plans),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workspaces: Vec::new(),
            trusted: true,
            disable_always_allow: false,
            disable_yolo: false,
            protect_build_files: true,
            scripts: Vec::new(),
            workspace_may_widen: false,
            plans: Plans::Anywhere,
            conseca: false,
            resolve: None,
            disk: None,
            home: None,
            git_settings: Vec::new(),
            search_path: None,
        }
    }
}

/// All active rules, sorted. Cheap to query.
#[derive(Clone)]
pub struct Engine {
    pub(crate) rules: Vec<Rule>,
    /// Rules about protected files, evaluated in addition to the others.
    pub(crate) protections: Vec<Rule>,
    pub(crate) checkers: Vec<CheckerRule>,
    pub(crate) unreadable: Vec<Unreadable>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) options: Options,
    /// Whether any rule denies specific commands, so that commands must be analysed even in yolo mode.
    pub(crate) denies_commands: bool,
    index: index::ProgramIndex,
}

/// Tools that are useless without the shell.
const SHELL_COMPANIONS: [&str; 2] = ["list_background_processes", "read_background_output"];

/// The properties of a tool that decide whether it is declared.
#[derive(Debug, Clone, Copy)]
pub struct ToolFacts<'a> {
    pub name: &'a str,
    pub server: Option<&'a str>,
    pub read_only: bool,
    pub annotations: Option<&'a pollux_domain::JsonObject>,
    pub subagent: Option<&'a str>,
}

impl Engine {
    pub(crate) fn assemble(
        mut rules: Vec<Rule>,
        protections: Vec<Rule>,
        mut checkers: Vec<CheckerRule>,
        unreadable: Vec<Unreadable>,
        problems: Vec<Problem>,
        options: Options,
    ) -> Self {
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.rank));
        checkers.sort_by_key(|rule| std::cmp::Reverse(rule.rank));
        let mut engine = Self {
            rules,
            protections,
            checkers,
            unreadable,
            problems,
            options,
            denies_commands: false,
            index: index::ProgramIndex::default(),
        };
        engine.rebuild_index();
        engine
    }

    /// Recomputes everything derived from the sorted rules.
    fn rebuild_index(&mut self) {
        self.index = index::ProgramIndex::new(&self.rules);
        self.denies_commands = self.rules.iter().any(|rule| {
            rule.decision == Decision::Deny && !rule.condition.is_always() && rule.tool.covers_shell()
        });
    }

    /// Problems in the loaded files.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether the yolo mode can be used.
    pub fn allows_yolo(&self) -> bool {
        !self.options.disable_yolo
    }

    /// The number of active rules.
    pub fn rule_count(&self) -> usize {
        self.rules.len() + self.protections.len()
    }

    /// Activates rules immediately, such as an "always allow" approval; they come first among equals.
    pub(crate) fn add(&mut self, rules: Vec<Rule>) {
        self.rules.splice(0..0, rules);
        self.rules.sort_by_key(|rule| std::cmp::Reverse(rule.rank));
        self.rebuild_index();
    }

    /// Decides on one call.
    pub fn decide(&self, request: &Request<'_>) -> Verdict {
        let call = PolicyCall::new(request);
        let mut verdict = match call.command {
            Some(_) if call.name.is_shell() => self.decide_shell(&call),
            _ => self.decide_plain(&call),
        };
        self.protect(&call, &mut verdict);
        self.fail_closed(&call, &mut verdict);
        self.check(&call, &mut verdict);
        settle(request.interactive, &mut verdict);
        verdict
    }

    /// Whether a tool is declared to the model: not if the first rule that applies to every call denies.
    pub fn exposes(&self, tool: &ToolFacts<'_>, mode: ApprovalMode, interactive: bool) -> bool {
        if tool.server.is_none() && SHELL_COMPANIONS.contains(&tool.name) {
            let shell = ToolFacts { name: SHELL, read_only: false, ..*tool };
            return self.shows(tool, mode, interactive) && self.shows(&shell, mode, interactive);
        }
        self.shows(tool, mode, interactive)
    }

    fn shows(&self, tool: &ToolFacts<'_>, mode: ApprovalMode, interactive: bool) -> bool {
        let args = pollux_domain::JsonObject::new();
        let request = Request {
            tool: tool.name,
            server: tool.server,
            read_only: tool.read_only,
            annotations: tool.annotations,
            args: &args,
            effect: &Effect::None,
            mode,
            interactive,
            subagent: tool.subagent,
        };
        let call = PolicyCall::new(&request);
        let mut silent = SettledTiers::default();
        for rule in self.candidates(&call) {
            let conditional = !rule.condition.is_always();
            if silent.includes(rule) || (rule.decision == Decision::Deny && conditional) {
                continue;
            }
            if rule.decision != Decision::Deny && self.may_only_tighten(rule, &call) {
                if !conditional {
                    silent.add(rule);
                }
                continue;
            }
            return rule.decision != Decision::Deny;
        }
        default_decision(mode, interactive) != Decision::Deny
    }

    /// The directories that belong to the workspace.
    pub(crate) fn workspaces(&self) -> &[PathBuf] {
        &self.options.workspaces
    }

    /// Applies an external checker's answer to a verdict; a failure denies.
    pub(crate) fn apply_check(
        &self,
        verdict: &mut Verdict,
        check: &ExternalCheck,
        answer: Result<CheckAnswer, CheckFailure>,
        interactive: bool,
    ) {
        let answer = answer
            .unwrap_or_else(|failure| CheckAnswer { decision: Decision::Deny, reason: failure.to_string() });
        let denies = answer.decision == Decision::Deny;
        tighten(verdict, answer.decision, Some(&check.source), answer.reason.clone());
        if denies {
            // The model should learn what to do differently.
            verdict.deny_message = Some(answer.reason);
        }
        settle(interactive, verdict);
    }

    fn decide_plain(&self, call: &PolicyCall<'_>) -> Verdict {
        let hit = self.first(call, None, self.candidates(call));
        let mut verdict = self.verdict(call, &hit);
        if hit.rule.is_some_and(|rule| rule.tier == Tier::Default) {
            self.keep_to_plan_files(call, &mut verdict);
        }
        if verdict.decision == Decision::Allow
            && call.request.mode != ApprovalMode::Yolo
            && let Some(reason) = self.extra_permissions(call)
        {
            tighten(&mut verdict, Decision::Ask, None, reason);
        }
        if verdict.decision == Decision::Allow
            && call.request.mode != ApprovalMode::Yolo
            && hit.rule.is_some_and(|rule| rule.tier == Tier::Default)
            && let Some(reason) = self.reads_secret(call)
        {
            tighten(&mut verdict, Decision::Ask, None, reason);
        }
        verdict
    }

    /// The rules for such calls, ignoring conditions.
    fn candidates<'e>(&'e self, call: &PolicyCall<'_>) -> impl Iterator<Item = &'e Rule> {
        self.rules.iter().filter(|rule| self.applies(rule, call))
    }

    /// The first candidate whose condition is met; for shell calls, with respect to one part of the command.
    fn first<'e>(
        &self,
        call: &PolicyCall<'_>,
        part: Option<&shell_call::PartSubject<'_>>,
        candidates: impl Iterator<Item = &'e Rule>,
    ) -> Hit<'e> {
        let mut silent = SettledTiers::default();
        let mut possible = None;
        let mut at_least_ask = None;
        let mut found = None;
        for rule in candidates {
            if silent.includes(rule) {
                continue;
            }
            match call.meets(rule, part) {
                call::ConditionMatch::No => continue,
                call::ConditionMatch::Perhaps => {
                    if rule.decision == Decision::Deny {
                        possible = possible.or(Some(rule));
                    }
                    continue;
                }
                call::ConditionMatch::Yes => {}
            }
            if rule.decision != Decision::Deny && self.may_only_tighten(rule, call) {
                if rule.decision == Decision::Ask {
                    at_least_ask = at_least_ask.or(Some(rule));
                }
                silent.add(rule);
                continue;
            }
            found = Some(rule);
            break;
        }
        let default = || default_decision(call.request.mode, call.request.interactive);
        let decision = found.map_or_else(default, |rule| rule.decision);
        match at_least_ask {
            Some(rule) if decision <= Decision::Ask => {
                Hit { rule: Some(rule), decision: Decision::Ask, possible }
            }
            _ => Hit { rule: found, decision, possible },
        }
    }

    /// Whether a rule's author may make a decision stricter, but not milder, than the rules below.
    fn may_only_tighten(&self, rule: &Rule, call: &PolicyCall<'_>) -> bool {
        rule.tier == Tier::Extension
            || (is_workspace(rule) && !self.options.workspace_may_widen)
            || call.opens_plan_mode(rule)
    }

    /// Whether a rule applies to such calls, ignoring its condition.
    fn applies(&self, rule: &Rule, call: &PolicyCall<'_>) -> bool {
        let request = call.request;
        rule.modes.includes(request.mode)
            && rule.interactive.is_none_or(|wanted| wanted == request.interactive)
            && !(self.options.disable_always_allow && rule.rank.is_always())
            && rule.tool.matches(&call.name)
            && rule.subagent.as_deref().is_none_or(|name| request.subagent == Some(name))
            && call.has_annotations(&rule.annotations)
    }

    fn verdict(&self, call: &PolicyCall<'_>, hit: &Hit<'_>) -> Verdict {
        let source = hit.rule.map(|rule| rule.source.clone());
        let mut verdict = Verdict {
            decision: hit.decision,
            reason: reason(hit, call),
            rule: source,
            deny_message: hit.rule.and_then(|rule| rule.deny_message.clone()),
            would_ask: false,
            shell: None,
            parts: Vec::new(),
            checks: Vec::new(),
        };
        if let Some(rule) = hit.possible {
            let reason = format!("it may be denied by {}", named(&rule.source));
            tighten(&mut verdict, Decision::Ask, Some(&rule.source), reason);
        }
        verdict
    }

    /// Rules that could not be read may have denied this call.
    fn fail_closed(&self, call: &PolicyCall<'_>, verdict: &mut Verdict) {
        for unreadable in &self.unreadable {
            let about = match &unreadable.about {
                UnreadableScope::Tools(tools) => tools.iter().any(|tool| tool.matches(&call.name)),
                UnreadableScope::Text(text) => call.changes() || call.name.is_spoken_of_in(text),
                UnreadableScope::Anything => true,
            };
            if about {
                tighten(verdict, Decision::Ask, None, unreadable.reason.clone());
            }
        }
    }

    fn check(&self, call: &PolicyCall<'_>, verdict: &mut Verdict) {
        for rule in &self.checkers {
            let applies = rule.modes.includes(call.request.mode)
                && rule.tool.matches(&call.name)
                && call.has_annotations(&rule.annotations)
                && call.meets_loosely(&rule.condition);
            if !applies || verdict.decision == Decision::Deny {
                continue;
            }
            match rule.kind {
                CheckerKind::External => {
                    let check = ExternalCheck::from(rule);
                    // A checker for several commands runs once for a line that contains two of them.
                    if !verdict.checks.contains(&check) {
                        verdict.checks.push(check);
                    }
                }
                CheckerKind::InProcess if rule.name == "allowed-path" => {
                    let directory = self.options.workspaces.first().map_or(Path::new("/"), PathBuf::as_path);
                    let answer = checker::allowed_path(
                        call.request.args,
                        rule.config.as_ref(),
                        &self.options.workspaces,
                        directory,
                        self.options.resolve.as_ref(),
                    );
                    tighten(verdict, answer.decision, Some(&rule.source), answer.reason);
                    if let Some(understood) = verdict.shell.take() {
                        let answer = self.touched_paths(call, &understood);
                        verdict.shell = Some(understood);
                        tighten(verdict, answer.decision, Some(&rule.source), answer.reason);
                    }
                }
                CheckerKind::InProcess if self.options.conseca => {
                    tighten(verdict, Decision::Deny, Some(&rule.source), checker::NO_CONSECA.to_owned());
                }
                CheckerKind::InProcess => {}
            }
        }
    }

    /// Whether a path stays in the workspace.
    fn inside(&self, directory: &Path, text: &str) -> bool {
        let resolve = self.options.resolve.as_ref();
        let path = checker::place(directory, text, resolve);
        self.options.workspaces.iter().any(|root| path.starts_with(checker::place(root, "", resolve)))
    }

    fn extra_permissions(&self, call: &PolicyCall<'_>) -> Option<String> {
        let wanted = call.request.args.get("additional_permissions")?;
        let mut paths = Vec::new();
        strings(wanted, &mut paths);
        let root = self.options.workspaces.first().map_or(Path::new("/"), PathBuf::as_path);
        let outside = paths.into_iter().find(|path| !self.inside(root, path))?;
        Some(format!("it requests access to `{outside}`, outside the workspace"))
    }
}

fn strings<'v>(value: &'v serde_json::Value, out: &mut Vec<&'v str>) {
    match value {
        serde_json::Value::String(text) => out.push(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        serde_json::Value::Object(map) => map.values().for_each(|item| strings(item, out)),
        _ => {}
    }
}

/// Tiers that have already decided on a call: their lower-priority rules were overridden by their own.
#[derive(Default)]
struct SettledTiers {
    workspace: bool,
    extension: bool,
}

impl SettledTiers {
    fn add(&mut self, rule: &Rule) {
        self.workspace |= is_workspace(rule);
        self.extension |= rule.tier == Tier::Extension;
    }

    fn includes(&self, rule: &Rule) -> bool {
        (self.workspace && is_workspace(rule)) || (self.extension && rule.tier == Tier::Extension)
    }
}

fn is_workspace(rule: &Rule) -> bool {
    rule.tier == Tier::Workspace && !rule.from_session
}

/// The decision when no rule matches.
fn default_decision(mode: ApprovalMode, interactive: bool) -> Decision {
    match (mode, interactive) {
        (ApprovalMode::Yolo, _) => Decision::Allow,
        (_, true) => Decision::Ask,
        (_, false) => Decision::Deny,
    }
}

/// Makes a verdict stricter, never more permissive.
fn tighten(verdict: &mut Verdict, decision: Decision, rule: Option<&RuleSource>, reason: String) {
    if decision > verdict.decision {
        verdict.decision = decision;
        verdict.rule = rule.cloned();
        verdict.reason = reason;
        verdict.deny_message = None;
    }
}

/// Without a terminal, a call that needs approval is denied.
fn settle(interactive: bool, verdict: &mut Verdict) {
    if verdict.decision == Decision::Ask && !interactive {
        verdict.decision = Decision::Deny;
        verdict.would_ask = true;
        verdict.reason = format!("{}; approval is not possible without a terminal", verdict.reason);
    }
    if verdict.decision == Decision::Deny {
        verdict.checks.clear();
    }
}

/// A rule as shown to users: its label and source.
pub(crate) fn named(source: &RuleSource) -> String {
    let line = source.line.map(|line| format!(":{line}")).unwrap_or_default();
    format!("rule `{}` ({}, {}{line})", source.label, source.tier, source.source)
}

fn reason(hit: &Hit<'_>, call: &PolicyCall<'_>) -> String {
    let Some(rule) = hit.rule else {
        let how = if call.request.interactive { "" } else { " without a terminal" };
        return format!("{NO_RULE} `{}` in `{}` mode{how}", call.request.tool, call.request.mode);
    };
    let name = named(&rule.source);
    match hit.decision {
        Decision::Allow => format!("allowed by {name}"),
        Decision::Ask => format!("{name} requires approval"),
        Decision::Deny => format!("denied by {name}"),
    }
}

/// The names under which a rule can refer to the called tool.
pub(crate) fn called<'a>(request: &Request<'a>) -> CalledName<'a> {
    let agent = request.args.get("agent_name").and_then(serde_json::Value::as_str);
    CalledName::new(request.tool, request.server, agent)
}

#[cfg(test)]
mod tests;
