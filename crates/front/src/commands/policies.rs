//! `/policies`: the active rules, in lines that fit a window.

use pollux_domain::terminal_text::one_line;
use serde_json::Value;

use super::columns::row;
use crate::Front;

/// Where a rule begins, after its decision.
const SECOND: usize = 8;

impl Front<'_, '_> {
    pub(super) fn policies(&self) -> String {
        let mode = self.mode.to_string();
        let done = self.subcommand(&["policy", "list", "--approval-mode", &mode, "--json"]);
        match done.result {
            Ok(()) => {
                format!("{}{}\nApprovals for this session are not listed.", done.err, listed(&done.out))
            }
            Err(failure) => failure.message(),
        }
    }
}

/// The output of `policy list --json` for people: the first rule that matches decides.
fn listed(json: &str) -> String {
    let all: Value = serde_json::from_str(json).unwrap_or_default();
    let lists = [
        ("Rules, first match decides:", "rules"),
        ("Always require approval:", "protected"),
        ("Safety checkers:", "checkers"),
    ];
    let list = |(title, key): (&str, &str)| {
        let rules = all.get(key).and_then(Value::as_array).filter(|rules| !rules.is_empty())?;
        Some(format!("{title}\n{}", rules.iter().map(rule).collect::<String>()))
    };
    lists.into_iter().filter_map(list).collect::<Vec<_>>().join("\n")
}

fn rule(rule: &Value) -> String {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).map(one_line);
    let condition = rule.get("condition").and_then(Value::as_object).into_iter().flatten();
    // A prefix of a command line is shown as what it is.
    let condition = condition.map(|(key, value)| {
        let value = one_line(value.as_str().unwrap_or_default());
        if key == "commandPrefix" { format!("{value} …") } else { format!("{key} {value}") }
    });
    let what: Vec<String> = text("tool").into_iter().chain(condition).collect();
    let who = text("subagent").map(|agent| format!(", agent {agent}")).unwrap_or_default();
    let source = rule.get("source");
    let file = source.and_then(|source| source.get("file")).and_then(Value::as_str).map(one_line);
    let line = source.and_then(|source| source.get("line")).and_then(Value::as_u64);
    let place = file
        .map(|file| format!("  ({file}{}{who})", line.map(|line| format!(":{line}")).unwrap_or_default()));
    let says = text("decision").or_else(|| text("name")).unwrap_or_default();
    row(&says, &format!("{}{}", what.join(" "), place.unwrap_or_default()), SECOND)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::columns::WIDTH;
    use super::*;

    #[test]
    fn rules_are_whole_and_fit_a_window() {
        let pattern = "a{3} b? ".repeat(20);
        let rules = json!({
            "rules": [
                {"decision": "allow", "tool": "glob", "condition": null, "subagent": null,
                    "source": {"file": "read-only.toml", "line": 12}},
                {"decision": "ask", "tool": "run_shell_command", "condition": {"commandPrefix": "git push"},
                    "source": {"file": "mine.toml", "line": 3}},
                {"decision": "deny", "tool": "write_file", "condition": {"argsPattern": pattern.trim()},
                    "source": {"file": "mine.toml", "line": 9}},
            ],
            "protected": [],
            "checkers": [{"name": "paths", "tool": "*", "condition": null, "source": {"file": "c.toml", "line": 1}}],
        });
        let text = listed(&rules.to_string());
        assert!(text.contains("\nallow   glob (read-only.toml:12)\n"), "{text}");
        assert!(text.contains("\nask     run_shell_command git push … (mine.toml:3)\n"), "{text}");
        assert!(text.contains("\n\nSafety checkers:\npaths   * (c.toml:1)\n"), "{text}");
        assert!(!text.contains("Always require"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words.iter().filter(|word| **word == "b?").count(), 20, "{text}");
    }
}
