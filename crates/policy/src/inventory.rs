//! The active rules as table rows, for `pollux policy list` and its JSON output.

use pollux_domain::approval::ApprovalMode;
use serde_json::{Value, json};

use crate::checker::{CheckerKind, CheckerRule};
use crate::engine::Engine;
use crate::request::RuleSource;
use crate::rule::{Condition, Modes, Rule};

/// Selects rules; unset fields match all.
#[derive(Debug, Clone, Copy, Default)]
pub struct View {
    pub mode: Option<ApprovalMode>,
    pub interactive: Option<bool>,
}

/// One rule in force.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleRow {
    /// `allow`, `ask` or `deny`.
    pub decision: &'static str,
    pub tool: String,
    /// The key of the condition and its value.
    pub condition: Option<(&'static str, String)>,
    /// Empty for all.
    pub modes: Vec<ApprovalMode>,
    pub interactive: Option<bool>,
    pub subagent: Option<String>,
    pub annotations: Vec<(String, Value)>,
    pub allow_redirection: bool,
    pub deny_message: Option<String>,
    pub source: RuleSource,
}

/// One active safety checker.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckerRow {
    /// `in-process` or `external`.
    pub kind: &'static str,
    pub name: String,
    /// The command given in a file.
    pub command: Option<Vec<String>>,
    pub tool: String,
    pub condition: Option<(&'static str, String)>,
    /// Empty for all.
    pub modes: Vec<ApprovalMode>,
    pub annotations: Vec<(String, Value)>,
    pub source: RuleSource,
}

impl Engine {
    /// The rules in the order in which they are tried.
    pub fn rule_rows(&self, view: View) -> Vec<RuleRow> {
        let off = |rule: &Rule| self.options.disable_always_allow && rule.rank.is_always();
        self.rules.iter().filter(|rule| !off(rule) && view.shows(rule)).map(RuleRow::from).collect()
    }

    /// The rules that require approval for protected files where others allow.
    pub fn protection_rows(&self, view: View) -> Vec<RuleRow> {
        if !self.options.protect_build_files {
            return Vec::new();
        }
        self.protections.iter().filter(|rule| view.shows(rule)).map(RuleRow::from).collect()
    }

    /// The safety checkers in the order in which they run.
    pub fn checker_rows(&self, view: View) -> Vec<CheckerRow> {
        let shown = |rule: &&CheckerRule| view.mode.is_none_or(|mode| rule.modes.includes(mode));
        self.checkers.iter().filter(shown).map(CheckerRow::from).collect()
    }
}

impl View {
    fn shows(self, rule: &Rule) -> bool {
        self.mode.is_none_or(|mode| rule.modes.includes(mode))
            && self.interactive.is_none_or(|given| rule.interactive.is_none_or(|wanted| wanted == given))
    }
}

impl From<&Rule> for RuleRow {
    fn from(rule: &Rule) -> Self {
        Self {
            decision: rule.decision.as_str(),
            tool: rule.tool.label(),
            condition: written(&rule.condition),
            modes: rule.modes.named(),
            interactive: rule.interactive,
            subagent: rule.subagent.clone(),
            annotations: rule.annotations.clone(),
            allow_redirection: rule.allow_redirection,
            deny_message: rule.deny_message.clone(),
            source: rule.source.clone(),
        }
    }
}

impl From<&CheckerRule> for CheckerRow {
    fn from(rule: &CheckerRule) -> Self {
        Self {
            kind: match rule.kind {
                CheckerKind::InProcess => "in-process",
                CheckerKind::External => "external",
            },
            name: rule.name.clone(),
            command: rule.command.clone(),
            tool: rule.tool.label(),
            condition: written(&rule.condition),
            modes: rule.modes.named(),
            annotations: rule.annotations.clone(),
            source: rule.source.clone(),
        }
    }
}

/// A condition as a file writes it.
fn written(condition: &Condition) -> Option<(&'static str, String)> {
    match condition {
        Condition::Always => None,
        Condition::Args(pattern) => Some(("argsPattern", pattern.text().to_owned())),
        Condition::Prefix(words) => Some(("commandPrefix", words.join(" "))),
        Condition::Command(pattern) => Some(("commandRegex", pattern.text().to_owned())),
        Condition::Path(pattern) => Some(("pathPattern", pattern.text().to_owned())),
    }
}

impl RuleRow {
    /// The form for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "priority": self.source.priority,
            "decision": self.decision,
            "tool": self.tool,
            "condition": condition_json(self.condition.as_ref()),
            "modes": words(&self.modes),
            "interactive": self.interactive,
            "subagent": self.subagent,
            "toolAnnotations": annotations_json(&self.annotations),
            "allowRedirection": self.allow_redirection,
            "denyMessage": self.deny_message,
            "rule": self.source.label,
            "source": self.source.to_json(),
        })
    }
}

impl CheckerRow {
    /// The form for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "priority": self.source.priority,
            "type": self.kind,
            "name": self.name,
            "command": self.command,
            "tool": self.tool,
            "condition": condition_json(self.condition.as_ref()),
            "modes": words(&self.modes),
            "toolAnnotations": annotations_json(&self.annotations),
            "source": self.source.to_json(),
        })
    }
}

impl RuleSource {
    /// `tier`, `file`, `line` and `priority`.
    pub fn to_json(&self) -> Value {
        json!({"tier": self.tier, "file": self.source, "line": self.line, "priority": self.priority})
    }
}

fn condition_json(condition: Option<&(&'static str, String)>) -> Value {
    condition.map_or(Value::Null, |(key, text)| json!({ *key: text }))
}

fn annotations_json(annotations: &[(String, Value)]) -> Value {
    annotations.iter().cloned().collect()
}

/// All modes are named where a rule names none.
fn words(modes: &[ApprovalMode]) -> Vec<String> {
    let named = if modes.is_empty() { Modes::ALL.as_slice() } else { modes };
    named.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Options;
    use crate::load::{Sources, load};
    use crate::settings_rules::Lists;

    #[test]
    fn rows_come_in_matching_order_and_only_for_the_view() {
        let lists = Lists { allowed: vec!["run_shell_command(git)".to_owned()], ..Lists::default() };
        let engine = load(&Sources { lists, ..Sources::default() }, Options::default());
        let all = engine.rule_rows(View::default());
        assert!(all.is_sorted_by(|a, b| a.source.priority >= b.source.priority));
        let first = all.first().unwrap();
        assert_eq!((first.decision, first.tool.as_str()), ("allow", "run_shell_command"));
        assert_eq!(first.condition, Some(("commandPrefix", "git".to_owned())));
        assert_eq!(first.to_json()["condition"], json!({"commandPrefix": "git"}));
        assert_eq!(first.to_json()["modes"], json!(["default", "auto_edit", "yolo", "plan"]));
        let view = View { mode: Some(ApprovalMode::Default), interactive: Some(false) };
        let some = engine.rule_rows(view);
        assert!(some.iter().all(|row| row.interactive != Some(true)));
        assert!(some.len() < all.len());
        assert!(!engine.protection_rows(view).is_empty());
        assert!(engine.checker_rows(view).is_empty());
        assert!(!engine.checker_rows(View::default()).is_empty());
    }
}
