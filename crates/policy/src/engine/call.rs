//! A call being decided on, with the values that matching needs computed once.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::Path;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::Effect;
use serde_json::Value;

use super::prefix;
use super::shell_call::PartSubject;
use crate::pattern::{Pattern, PatternMatch, canonical_json};
use crate::request::{Decision, Request};
use crate::rule::{Condition, Rule};
use crate::tier::Tier;
use crate::tool_name::CalledName;

/// A request being decided on.
pub(super) struct PolicyCall<'r> {
    pub(super) request: &'r Request<'r>,
    pub(super) name: CalledName<'r>,
    /// The command line of a shell call.
    pub(super) command: Option<&'r str>,
    pub(super) directory: Option<&'r Path>,
    canonical: OnceCell<String>,
    /// Matches in the complete arguments, cached because they are the same for every part of a command.
    found: RefCell<HashMap<*const Pattern, PatternMatch>>,
}

/// The rule that decides, or the mode's default.
pub(super) struct Hit<'e> {
    pub(super) rule: Option<&'e Rule>,
    pub(super) decision: Decision,
    /// A rule that would deny, depending on a word known only at run time.
    pub(super) possible: Option<&'e Rule>,
}

/// Whether a rule's condition is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConditionMatch {
    Yes,
    No,
    /// Depends on something only known at run time.
    Perhaps,
}

impl<'r> PolicyCall<'r> {
    pub(super) fn new(request: &'r Request<'r>) -> Self {
        let (command, directory) = match request.effect {
            Effect::Execute { command, directory } => (Some(command.as_str()), Some(directory.as_path())),
            _ => (request.args.get("command").and_then(Value::as_str), None),
        };
        Self {
            request,
            name: super::called(request),
            command,
            directory,
            canonical: OnceCell::new(),
            found: RefCell::default(),
        }
    }

    fn canonical(&self) -> &str {
        self.canonical.get_or_init(|| canonical_json(self.request.args))
    }

    /// Searches the complete arguments. Results are cached by the address of the pattern, since the rules
    /// outlive the call.
    fn find(&self, pattern: &Pattern) -> PatternMatch {
        let mut found = self.found.borrow_mut();
        *found.entry(pattern).or_insert_with(|| pattern.find(self.canonical()))
    }

    /// Whether the call may change something.
    pub(super) fn changes(&self) -> bool {
        !self.request.read_only || matches!(self.request.effect, Effect::Edit(_) | Effect::Execute { .. })
    }

    /// Whether a rule could open plan mode to a change without naming that mode.
    pub(super) fn opens_plan_mode(&self, rule: &Rule) -> bool {
        self.request.mode == ApprovalMode::Plan
            && rule.tier != Tier::Default
            && self.changes()
            && !rule.modes.names(ApprovalMode::Plan)
    }

    pub(super) fn has_annotations(&self, wanted: &[(String, Value)]) -> bool {
        wanted.iter().all(|(key, value)| match self.request.annotations.and_then(|given| given.get(key)) {
            Some(given) => given == value,
            None if key == "readOnlyHint" && self.name.is_mcp() => {
                value.as_bool() == Some(self.request.read_only)
            }
            None => false,
        })
    }

    pub(super) fn meets(&self, rule: &Rule, part: Option<&PartSubject<'_>>) -> ConditionMatch {
        let strict = rule.decision != Decision::Allow;
        match (&rule.condition, part) {
            (Condition::Always, _) => ConditionMatch::Yes,
            (Condition::Prefix(_), None) => ConditionMatch::No,
            (Condition::Prefix(words), Some(part)) if strict => match prefix::catches(words, part.part()) {
                PatternMatch::Yes => ConditionMatch::Yes,
                PatternMatch::No => ConditionMatch::No,
                PatternMatch::Unknown => ConditionMatch::Perhaps,
            },
            (Condition::Prefix(words), Some(part)) => yes(prefix::vouches(words, part.part())),
            (Condition::Args(pattern) | Condition::Command(pattern), Some(part)) if strict => {
                yes(self.find(pattern) != PatternMatch::No
                    || part.subjects(self).any(|text| pattern.find(text) != PatternMatch::No))
            }
            (Condition::Args(pattern) | Condition::Command(pattern), Some(part)) => {
                yes(part.is_plain() && pattern.find(part.text_subject(self)) == PatternMatch::Yes)
            }
            (Condition::Args(pattern) | Condition::Command(pattern), None) => {
                match pattern.find(self.canonical()) {
                    PatternMatch::Yes => ConditionMatch::Yes,
                    PatternMatch::No => ConditionMatch::No,
                    PatternMatch::Unknown => yes(strict),
                }
            }
            (Condition::Path(pattern), _) => {
                let paths = self.request.effect.paths();
                yes(paths.iter().any(|path| pattern.find(&path.to_string_lossy()) != PatternMatch::No))
            }
        }
    }

    /// For checkers: whether the condition may be met by the call as a whole.
    pub(super) fn meets_loosely(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Always => true,
            Condition::Args(pattern) | Condition::Command(pattern) => {
                pattern.find(self.canonical()) != PatternMatch::No
            }
            Condition::Path(pattern) => {
                let paths = self.request.effect.paths();
                paths.iter().any(|path| pattern.find(&path.to_string_lossy()) != PatternMatch::No)
            }
            Condition::Prefix(words) => {
                let understood = self.command.map(crate::shell::analyse).unwrap_or_default();
                !understood.doubts.is_empty()
                    || understood.parts.iter().any(|part| prefix::catches(words, part) != PatternMatch::No)
            }
        }
    }
}

fn yes(met: bool) -> ConditionMatch {
    if met { ConditionMatch::Yes } else { ConditionMatch::No }
}
