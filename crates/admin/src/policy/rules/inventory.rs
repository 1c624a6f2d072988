//! The rules in force as lines of a table.

use pollux_domain::approval::ApprovalMode;
use pollux_policy::engine::Engine;
use pollux_policy::inventory::{CheckerRow, RuleRow, View};
use pollux_policy::request::RuleSource;

use super::super::{Inventory, InventoryLine, PolicyView};

pub(super) fn of(engine: &Engine, view: &PolicyView) -> Inventory {
    let view = View { mode: view.mode, interactive: view.headless.then_some(false) };
    Inventory {
        rules: engine.rule_rows(view).iter().map(rule).collect(),
        protected: engine.protection_rows(view).iter().map(rule).collect(),
        checkers: engine.checker_rows(view).iter().map(checker).collect(),
    }
}

fn rule(row: &RuleRow) -> InventoryLine {
    let people = match row.interactive {
        None => None,
        Some(true) => Some("interactive".to_owned()),
        Some(false) => Some("headless".to_owned()),
    };
    let agent = row.subagent.as_ref().map(|name| format!("agent {name}"));
    let annotations = row.annotations.iter().map(|(key, value)| format!("{key}={value}"));
    let when: Vec<String> =
        modes(&row.modes).into_iter().chain(people).chain(agent).chain(annotations).collect();
    InventoryLine {
        priority: row.source.priority,
        says: row.decision.to_owned(),
        tool: row.tool.clone(),
        condition: condition(row.condition.as_ref()),
        when: when.join(", "),
        place: place(&row.source),
        json: row.to_json(),
    }
}

fn checker(row: &CheckerRow) -> InventoryLine {
    let annotations = row.annotations.iter().map(|(key, value)| format!("{key}={value}"));
    let when: Vec<String> = modes(&row.modes).into_iter().chain(annotations).collect();
    InventoryLine {
        priority: row.source.priority,
        says: format!("{} ({})", row.name, row.kind),
        tool: row.tool.clone(),
        condition: condition(row.condition.as_ref()),
        when: when.join(", "),
        place: place(&row.source),
        json: row.to_json(),
    }
}

fn modes(modes: &[ApprovalMode]) -> Vec<String> {
    modes.iter().map(ToString::to_string).collect()
}

/// Two kinds of conditions are commands, and are shown as such.
fn condition(condition: Option<&(&'static str, String)>) -> String {
    match condition {
        None => String::new(),
        Some(("commandPrefix", text)) => format!("{text} …"),
        Some((key, text)) => format!("{key} {text}"),
    }
}

fn place(source: &RuleSource) -> String {
    let line = source.line.map(|line| format!(":{line}")).unwrap_or_default();
    // A label of its own says what the other columns do not.
    let own = !["allow ", "ask ", "deny ", "checker "].iter().any(|word| source.label.starts_with(word));
    let name = if own { format!(" \"{}\"", source.label) } else { String::new() };
    format!("{}{line}{name}", source.source)
}
