//! Explanations of decisions and reports on policy files, for `pollux policy`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::file::Problem;
use crate::load::read_path;
use crate::request::{RuleSource, Verdict};
use crate::tier::Tier;

/// A decision, ready to be printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// `allow`, `ask` or `deny`.
    pub decision: &'static str,
    /// The rule that decided.
    pub rule: Option<String>,
    /// The source of the rule.
    pub source: Option<RuleSource>,
    pub parts: Vec<ExplainedPart>,
    pub reason: String,
}

/// One command of a command line.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedPart {
    pub text: String,
    pub decision: &'static str,
    pub rule: Option<String>,
    pub reason: String,
}

impl From<&Verdict> for Explanation {
    fn from(verdict: &Verdict) -> Self {
        let parts = verdict.parts.iter().map(|part| ExplainedPart {
            text: part.text.clone(),
            decision: part.decision.as_str(),
            rule: part.rule.as_ref().map(|rule| rule.label.clone()),
            reason: part.reason.clone(),
        });
        Self {
            decision: verdict.decision.as_str(),
            rule: verdict.rule.as_ref().map(|rule| rule.label.clone()),
            source: verdict.rule.clone(),
            parts: parts.collect(),
            reason: verdict.reason.clone(),
        }
    }
}

impl Explanation {
    /// The form for programs: `decision`, `rule`, `source`, `parts`, `reason`.
    pub fn to_json(&self) -> Value {
        let parts: Vec<Value> = self
            .parts
            .iter()
            .map(|part| {
                json!({"text": part.text, "decision": part.decision, "rule": part.rule, "reason": part.reason})
            })
            .collect();
        json!({
            "decision": self.decision,
            "rule": self.rule,
            "source": self.source.as_ref().map(RuleSource::to_json),
            "parts": parts,
            "reason": self.reason,
        })
    }
}

/// Problems in policy files or directories, loaded in the user tier.
pub fn lint(paths: &[PathBuf]) -> Vec<Problem> {
    paths.iter().flat_map(|path| read_path(Tier::User, path).problems).collect()
}

#[cfg(test)]
mod tests {
    use pollux_domain::approval::ApprovalMode;
    use pollux_domain::tool::Effect;

    use super::*;
    use crate::engine::Options;
    use crate::load::{Sources, load};
    use crate::request::Request;
    use crate::settings_rules::Lists;

    #[test]
    fn an_explanation_names_the_rule_its_source_and_the_parts() {
        let lists = Lists { exclude: vec!["run_shell_command(rm)".to_owned()], ..Lists::default() };
        let engine = load(&Sources { lists, ..Sources::default() }, Options::default());
        let args = json!({"command": "rm x"}).as_object().cloned().unwrap();
        let verdict = engine.decide(&Request {
            tool: "run_shell_command",
            server: None,
            read_only: false,
            annotations: None,
            args: &args,
            effect: &Effect::None,
            mode: ApprovalMode::Yolo,
            interactive: false,
            subagent: None,
        });
        let reason = "denied by rule `deny run_shell_command(rm)` (user, tools.exclude)";
        assert_eq!(
            Explanation::from(&verdict).to_json(),
            json!({
                "decision": "deny",
                "rule": "deny run_shell_command(rm)",
                "source": {"tier": "user", "file": "tools.exclude", "line": null, "priority": 4.4},
                "parts": [{
                    "text": "rm x",
                    "decision": "deny",
                    "rule": "deny run_shell_command(rm)",
                    "reason": reason,
                }],
                "reason": reason,
            })
        );
    }
}
