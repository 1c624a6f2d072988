//! Decisions on shell commands: every part of a command line must be allowed, and any part can deny the whole.
//!
//! Uses [`crate::shell`] for the analysis; does not parse shell text itself.

use std::cell::OnceCell;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::call_summary::quoted;
use serde_json::Value;

use super::reading::{NOHUP_FILE, ReadVerdict, is_behind_nohup};
use super::tree_changes::TreeChanges;
use super::working_dirs::{HARMLESS_TARGETS, WorkingDirs, with_target};
use super::{Engine, PolicyCall, prefix, tighten};
use crate::checker::place;
use crate::pattern::canonical_json;
use crate::request::{Decision, PartVerdict, Verdict};
use crate::rule::{Condition, Rule};
use crate::settings_rules;
use crate::shell::{self, CommandAnalysis, Part, Redirection};
use crate::tier::Tier;

/// One part of a command, with the texts that regexes are matched against.
pub(super) struct PartSubject<'p> {
    part: &'p Part,
    text: OnceCell<String>,
    normal: OnceCell<String>,
}

impl<'p> PartSubject<'p> {
    fn new(part: &'p Part) -> Self {
        Self { part, text: OnceCell::new(), normal: OnceCell::new() }
    }

    pub(super) fn part(&self) -> &Part {
        self.part
    }

    /// Whether the part runs directly, not with other privileges or on another host.
    pub(super) fn is_plain(&self) -> bool {
        prefix::opaque_wrappers(self.part) == 0 && matches!(self.part.words.first(), Some(Some(_)))
    }

    /// The call's arguments as if this part were the complete command.
    pub(super) fn text_subject(&self, call: &PolicyCall<'_>) -> &str {
        self.text.get_or_init(|| with_command(call, &self.part.text))
    }

    /// The same without quotes and the program's directory.
    fn normal_subject(&self, call: &PolicyCall<'_>) -> &str {
        self.normal.get_or_init(|| {
            let words = self.part.words.iter().enumerate().map(|(index, word)| match word.as_deref() {
                Some(program) if index == 0 => prefix::base(program),
                Some(word) => word,
                None => "?",
            });
            with_command(call, &words.collect::<Vec<_>>().join(" "))
        })
    }

    pub(super) fn subjects<'s>(&'s self, call: &'s PolicyCall<'_>) -> impl Iterator<Item = &'s str> {
        [self.text_subject(call), self.normal_subject(call)].into_iter()
    }
}

fn with_command(call: &PolicyCall<'_>, command: &str) -> String {
    let mut args = call.request.args.clone();
    // The description comes from the model: it must not satisfy a regex about the command.
    args.remove("description");
    args.insert("command".to_owned(), Value::from(command));
    canonical_json(&args)
}

impl Engine {
    pub(super) fn decide_shell(&self, call: &PolicyCall<'_>) -> Verdict {
        let understood = shell::analyse(call.command.unwrap_or_default());
        let places = WorkingDirs::new(self, call, &understood);
        let mut verdict: Option<Verdict> = None;
        let mut parts = Vec::with_capacity(understood.parts.len());
        let mut redirection_allowed = true;
        let nothing = Part::default();
        let subjects =
            if understood.parts.is_empty() { std::slice::from_ref(&nothing) } else { &understood.parts };
        let exported = exported(&understood);
        let mut decided: Vec<PartDecision> =
            subjects.iter().map(|part| self.decide_part(call, part, &places, &exported)).collect();
        if decided.iter().any(|one| one.vouched) {
            decided.iter_mut().for_each(PartDecision::tolerate);
        }
        let changes = TreeChanges::new(self, &places, &understood, call.command.unwrap_or_default());
        if call.request.mode != ApprovalMode::Yolo {
            for (at, (part, decision)) in subjects.iter().zip(&mut decided).enumerate() {
                let changed = self.uses_changed_files(&changes, at, part, decision.harmless, &places);
                let patched = || {
                    let may_change = changes.may_write_before(at, &understood);
                    self.patches_protected(call, part, &understood, &places, may_change)
                };
                let shown = || {
                    let is_open = !decision.spelt_out && decision.verdict.decision == Decision::Allow;
                    is_open.then(|| self.git_shows(part, &understood, &places, changes.any())).flatten()
                };
                let shown = || Some(format!("{}: {}", quoted(&part.text), shown()?));
                if let Some(why) = changed.or_else(|| decision.broad.then(patched).flatten()).or_else(shown) {
                    tighten(&mut decision.verdict, Decision::Ask, None, why);
                }
            }
        }
        let spelt_out = decided.iter().all(|one| one.spelt_out);
        for (part, PartDecision { verdict: found, may_redirect, .. }) in subjects.iter().zip(decided) {
            redirection_allowed &= may_redirect;
            if !understood.parts.is_empty() {
                parts.push(PartVerdict {
                    text: part.text.clone(),
                    decision: found.decision,
                    rule: found.rule.clone(),
                    reason: found.reason.clone(),
                });
            }
            if verdict.as_ref().is_none_or(|worst| found.decision > worst.decision) {
                verdict = Some(found);
            }
        }
        let mut verdict =
            verdict.unwrap_or_else(|| self.verdict(call, &self.first(call, None, self.candidates(call))));
        self.weigh_redirections(call, &understood, &places, redirection_allowed, &mut verdict);
        if !redirection_allowed && changes.any() && call.request.mode != ApprovalMode::Yolo {
            weigh_changed_targets(&understood, &mut verdict);
        }
        if verdict.decision == Decision::Allow
            && call.request.mode != ApprovalMode::Yolo
            && !spelt_out
            && let Some(why) = self.lists_behind_links(&understood, &places)
        {
            tighten(&mut verdict, Decision::Ask, None, why);
        }
        self.weigh_doubts(call, &understood, &mut verdict);
        self.weigh_place(call, &understood, &places, &mut verdict);
        if understood.exposes && call.request.mode != ApprovalMode::Yolo {
            let reason =
                "it prints or passes on an environment variable that may contain a secret".to_owned();
            tighten(&mut verdict, Decision::Ask, None, reason);
        }
        verdict.parts = parts;
        verdict.shell = Some(understood);
        verdict
    }

    /// The decision on one part.
    fn decide_part(
        &self,
        call: &PolicyCall<'_>,
        part: &Part,
        places: &WorkingDirs,
        exported: &[(String, Option<String>)],
    ) -> PartDecision {
        let subject = PartSubject::new(part);
        let about = self.index.about(&self.rules, part);
        let hit = self.first(call, Some(&subject), about.into_iter().filter(|rule| self.applies(rule, call)));
        let mut verdict = self.verdict(call, &hit);
        let yolo = call.request.mode == ApprovalMode::Yolo;
        let by_nobody = hit.rule.is_none_or(|rule| rule.tier == Tier::Default);
        let unlisted = hit.rule.is_some_and(settings_rules::is_remainder);
        let mut harmless = false;
        if hit.decision != Decision::Allow && hit.possible.is_none() && (by_nobody || unlisted) {
            let asked = by_nobody && verdict.decision == Decision::Ask;
            let nohup = self.writes_nohup_file(part, places).or_else(|| {
                let may_write = call.request.mode == ApprovalMode::AutoEdit || !is_behind_nohup(part);
                (!may_write).then(|| format!("`nohup` writes to `{NOHUP_FILE}`"))
            });
            let given = || shell::takes_variables(part, exported).map(ReadVerdict::Closed);
            let reading = || given().unwrap_or_else(|| self.reading(part, places));
            match nohup.map_or_else(reading, ReadVerdict::Closed) {
                ReadVerdict::Unknown => {}
                ReadVerdict::Closed(why) if asked => {
                    verdict.reason = format!("{}: {why}", quoted(&part.text))
                }
                ReadVerdict::Closed(_) => {}
                ReadVerdict::Open => {
                    harmless = true;
                    if asked
                        || unlisted && call.request.interactive && call.request.mode != ApprovalMode::Plan
                    {
                        only_reads(&mut verdict, &part.text);
                    }
                }
            }
        }
        if verdict.decision == Decision::Allow
            && !yolo
            && let Some(why) = match harmless {
                true => shell::is_dangerous(part),
                false => self.beyond(hit.rule, part, places, exported, call),
            }
        {
            tighten(&mut verdict, Decision::Ask, None, format!("{}: {why}", quoted(&part.text)));
        }
        PartDecision {
            vouched: hit.decision == Decision::Allow
                && hit.rule.is_some_and(|rule| rule.tier >= Tier::User || rule.from_session),
            broad: verdict.decision == Decision::Allow && !harmless && !hit.rule.is_some_and(names_arguments),
            spelt_out: hit.rule.filter(|_| hit.decision == Decision::Allow).is_some_and(|rule| {
                rule.condition.is_always() || spells_out(rule, part) == Specificity::Whole
            }),
            harmless,
            may_redirect: hit.rule.is_some_and(|rule| rule.allow_redirection),
            text: part.text.clone(),
            verdict,
        }
    }

    /// Why the rule that allows a command does not cover this one.
    fn beyond(
        &self,
        rule: Option<&Rule>,
        part: &Part,
        places: &WorkingDirs,
        exported: &[(String, Option<String>)],
        call: &PolicyCall<'_>,
    ) -> Option<String> {
        if let Some(why) = self.writes_nohup_file(part, places) {
            return Some(why);
        }
        // A rule on the tool as a whole covers all commands.
        let always = rule.is_some_and(|rule| rule.condition.is_always());
        let mut given = part.assignments.iter().chain(exported);
        if !always
            && !part.words.is_empty()
            && let Some((name, _)) = given.find(|(name, value)| !shell::is_harmless(name, value.as_deref()))
            && !shell::is_known_safe_within(part, &|_| true)
        {
            return Some(format!("it sets `{name}`, which may change the command's behaviour"));
        }
        if let Some(why) = self.sets_target(call, part, places, exported).filter(|_| !always) {
            return Some(why);
        }
        let spelt = rule.map_or(Specificity::Loosely, |rule| spells_out(rule, part));
        if spelt == Specificity::Whole {
            return None;
        }
        let destroys = shell::is_dangerous(part);
        if let (Some(why), Specificity::Loosely) = (&destroys, spelt) {
            return Some(why.clone());
        }
        if let Some(why) = self.checks_out_files(part, places).filter(|_| spelt == Specificity::Loosely) {
            return Some(why);
        }
        if always {
            return None;
        }
        // Users may allow reading anywhere.
        if shell::is_known_safe_within(part, &|_| true)
            && part.words.first().is_none_or(|word| word.as_deref() != Some("git"))
        {
            return None;
        }
        if let Some(why) = shell::uncovered(part).filter(|_| !rule.is_some_and(names_subcommand)) {
            return Some(why.to_owned());
        }
        let (touches, unsure) = shell::touches(part);
        if let Some(why) = self.unprotected_build_file(call, part, &touches, places) {
            return Some(why);
        }
        let judged = self.link_target(part, &touches, places);
        let touches = with_target(&touches, judged.as_deref());
        for touch in &touches {
            if !places.holds(self, touch.path) || destroys.is_some() && self.is_root(places, touch.path) {
                return Some(match places.is_undetermined(touch.path) {
                    true => places.why_not_held(touch.path),
                    false => format!("it reaches `{}`, beyond the scope of the rule", touch.path),
                });
            }
            if touch.writes
                && let Some(source) = places.all.iter().find_map(|dir| self.protected(call, dir, touch.path))
            {
                return Some(format!("it writes to `{}`, protected by {}", touch.path, super::named(source)));
            }
            if touch.writes
                && let Some(why) = self.protected_match(call, part, places, touch.path)
            {
                return Some(why);
            }
        }
        if let Some(why) = self.replaces_protected(call, part, &touches, places) {
            return Some(why);
        }
        let secret = match super::repository::runs_git(part) {
            true => self.secret_of_git(part, &touches, places),
            false => self.secret_source(part, &touches, places),
        };
        if secret.is_some() {
            return secret;
        }
        self.leaves_by_pattern(part, places).or_else(|| unsure.map(str::to_owned))
    }

    /// Why a variable for the folder of build results is not covered: the folder is protected or outside.
    fn sets_target(
        &self,
        call: &PolicyCall<'_>,
        part: &Part,
        places: &WorkingDirs,
        exported: &[(String, Option<String>)],
    ) -> Option<String> {
        let given = part.assignments.iter().chain(exported).filter(|(name, _)| name.ends_with("TARGET_DIR"));
        given.filter_map(|(name, value)| Some((name, value.as_deref()?))).find_map(|(name, folder)| {
            let is_protected = places.all.iter().any(|dir| self.protected(call, dir, folder).is_some());
            let is_beyond = is_protected || !places.holds(self, folder) || self.is_root(places, folder);
            is_beyond.then(|| format!("it sets `{name}` to `{folder}`, beyond the scope of the rule"))
        })
    }

    /// Whether a path is the root of a workspace.
    fn is_root(&self, places: &WorkingDirs, path: &str) -> bool {
        let trimmed = path.trim_end_matches(['*', '/']);
        places.all.iter().any(|dir| {
            let target = place(dir, trimmed, self.options.resolve.as_ref());
            self.options.workspaces.iter().any(|root| root.starts_with(&target))
        })
    }

    /// Redirections need a rule that covers them, or a mode in which edits are allowed.
    fn weigh_redirections(
        &self,
        call: &PolicyCall<'_>,
        understood: &CommandAnalysis,
        places: &WorkingDirs,
        covered: bool,
        verdict: &mut Verdict,
    ) {
        if verdict.decision != Decision::Allow || call.request.mode == ApprovalMode::Yolo {
            return;
        }
        for redirection in understood.redirections.iter().filter(|found| !leaves_no_file(found)) {
            let target = redirection.target.as_deref();
            let name = target.unwrap_or("a file known only at run time");
            let inside = target.is_some_and(|target| places.holds(self, target));
            if redirection.writes
                && let Some(target) = target
                && let Some(source) = places.all.iter().find_map(|dir| self.protected(call, dir, target))
            {
                let source = source.clone();
                tighten(
                    verdict,
                    Decision::Ask,
                    Some(&source),
                    format!("it writes to `{name}`, a protected file"),
                );
                return;
            }
            let free = covered
                || (!redirection.writes && target.is_some_and(|target| self.may_feed(places, target)))
                || (redirection.writes && inside && call.request.mode == ApprovalMode::AutoEdit);
            if !free {
                let verb = if redirection.writes { "writes to" } else { "reads" };
                let plan = call.request.mode == ApprovalMode::Plan && redirection.writes;
                let decision = if plan { Decision::Deny } else { Decision::Ask };
                tighten(verdict, decision, None, format!("it {verb} `{name}` by redirection"));
                return;
            }
        }
    }

    /// Commands that cannot be analysed are not allowed; in yolo mode they are, unless a rule might have
    /// denied them.
    fn weigh_doubts(&self, call: &PolicyCall<'_>, understood: &CommandAnalysis, verdict: &mut Verdict) {
        if understood.doubts.is_empty() || verdict.decision != Decision::Allow {
            return;
        }
        if call.request.mode == ApprovalMode::Yolo && !self.denies_commands {
            return;
        }
        let reason = format!("the command could not be fully analysed: {}", understood.doubts.join("; "));
        tighten(verdict, Decision::Ask, None, reason);
    }

    fn weigh_place(
        &self,
        call: &PolicyCall<'_>,
        understood: &CommandAnalysis,
        places: &WorkingDirs,
        verdict: &mut Verdict,
    ) {
        if verdict.decision != Decision::Allow {
            return;
        }
        // The user has approved everything for this run, also what a fresh checkout configures.
        if call.request.mode == ApprovalMode::Yolo {
            return;
        }
        let runs_git = understood.parts.iter().any(|part| {
            part.words
                .first()
                .and_then(Option::as_deref)
                .is_some_and(|program| prefix::base(program) == "git")
        });
        if runs_git && !self.options.trusted {
            let reason =
                "git runs programs configured in this folder, but the folder is not trusted".to_owned();
            tighten(verdict, Decision::Ask, None, reason);
        }
        let repository = self.embedded_repository(&understood.parts, places);
        if let Some(reason) = repository.or_else(|| self.made_repository(understood, places)) {
            tighten(verdict, Decision::Ask, None, reason);
        }
        if places.starts_outside {
            tighten(verdict, Decision::Ask, None, "it runs outside the workspace".to_owned());
        }
        if let Some(reason) = self.extra_permissions(call) {
            tighten(verdict, Decision::Ask, None, reason);
        }
    }
}

/// Files of redirections may become links when a command brings files.
fn weigh_changed_targets(understood: &CommandAnalysis, verdict: &mut Verdict) {
    if understood.redirections.iter().any(|found| !leaves_no_file(found)) {
        let reason =
            "it redirects to or from a file that another command may replace in the same line".to_owned();
        tighten(verdict, Decision::Ask, None, reason);
    }
}

/// The decision on one part.
struct PartDecision {
    verdict: Verdict,
    /// Whether a user's rule allows it.
    vouched: bool,
    /// Whether a rule allows it that names no more than its program.
    broad: bool,
    /// Whether the rule that decides names the complete command, or covers all commands.
    spelt_out: bool,
    /// Whether it is read-only and only lacks a rule that allows it.
    harmless: bool,
    may_redirect: bool,
    text: String,
}

impl PartDecision {
    /// Next to a command that the user allows, a read-only command needs no rule.
    fn tolerate(&mut self) {
        if self.harmless && self.verdict.decision != Decision::Allow {
            only_reads(&mut self.verdict, &self.text);
        }
    }
}

fn only_reads(verdict: &mut Verdict, text: &str) {
    verdict.decision = Decision::Allow;
    verdict.rule = None;
    verdict.deny_message = None;
    verdict.reason = format!("`{text}` only reads");
}

/// Variables that later commands of the same line inherit.
fn exported(understood: &CommandAnalysis) -> Vec<(String, Option<String>)> {
    let mut all: Vec<_> = understood.set.iter().map(|name| (name.clone(), None)).collect();
    for part in &understood.parts {
        let words: Vec<&str> = part.words.iter().flatten().map(String::as_str).collect();
        let (Some(program), arguments) = (words.first(), words.get(1..).unwrap_or_default()) else {
            continue;
        };
        let exports = *program == "export"
            || matches!(*program, "declare" | "typeset" | "local" | "readonly")
                && arguments.iter().any(|a| a.starts_with('-') && a.contains('x'));
        if exports {
            let names = arguments.iter().filter(|a| !a.starts_with('-'));
            all.extend(names.map(|a| match a.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => ((*a).to_owned(), None),
            }));
        }
    }
    all
}

/// How much of a command a user's rule spells out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specificity {
    Whole,
    /// Not all of it, but the destructive part.
    Danger,
    Loosely,
}

fn spells_out(rule: &Rule, part: &Part) -> Specificity {
    let own = rule.tier >= Tier::User || rule.from_session;
    let Condition::Prefix(words) = &rule.condition else { return Specificity::Loosely };
    if !own {
        return Specificity::Loosely;
    }
    if prefix::is_whole(words, part) {
        return Specificity::Whole;
    }
    let alone =
        Part { text: words.join(" "), words: words.iter().cloned().map(Some).collect(), ..Part::default() };
    if shell::is_dangerous(&alone).is_some_and(|why| shell::is_dangerous(part) == Some(why)) {
        Specificity::Danger
    } else {
        Specificity::Loosely
    }
}

/// Whether a user's rule names a subcommand that a rule on the program would not cover.
fn names_subcommand(rule: &Rule) -> bool {
    let Condition::Prefix(words) = &rule.condition else { return false };
    let named = words.iter().cloned().map(Some).collect();
    (rule.tier >= Tier::User || rule.from_session)
        && words.len() > 1
        && shell::uncovered(&Part { words: named, ..Part::default() }).is_some()
}

/// Whether a rule names more than the program, or covers all commands.
fn names_arguments(rule: &Rule) -> bool {
    match &rule.condition {
        Condition::Prefix(words) => words.len() > 1,
        condition => condition.is_always(),
    }
}

/// Whether a redirection leaves no file behind.
pub(crate) fn leaves_no_file(redirection: &Redirection) -> bool {
    redirection.target.as_deref().is_some_and(|target| HARMLESS_TARGETS.contains(&target))
}
