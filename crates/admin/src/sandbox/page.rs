//! The output of `pollux sandbox`.

use std::fmt::Write as _;

use pollux_domain::terminal_text::one_line;
use pollux_rights::Explanation;
use pollux_sandbox::{Confinement, Holding, Level, Probed};
use serde_json::{Value, json};

use super::check::{Checked, Outcome};

/// The levels, and what the one in use holds.
pub(super) fn status(tried: &[Probed], used: Option<&Confinement>, is_requested: bool) -> String {
    let mut text = match used {
        Some(confinement) if is_requested => format!("Sandbox: {}\n\n", confinement.level),
        Some(confinement) => {
            format!("Sandbox: {} (not used, unless requested with `--sandbox`)\n\n", confinement.level)
        }
        None => "Sandbox: none available\n\n".to_owned(),
    };
    for (level, result) in tried {
        let what = match result {
            Ok(_) => "available".to_owned(),
            Err(why) => format!("unavailable: {why}"),
        };
        let _ = writeln!(text, "  {:<14}{what}", level.as_str());
    }
    let Some(confinement) = used else { return text };
    text.push('\n');
    for right in confinement.report() {
        let missing = if right.missing.is_empty() { String::new() } else { format!(": {}", right.missing) };
        let _ = writeln!(text, "  {:<26}{}{missing}", right.name, right.holding.as_str());
    }
    text
}

pub(super) fn status_json(tried: &[Probed], used: Option<&Confinement>, is_requested: bool) -> Value {
    let levels = tried.iter().map(|(level, result)| {
        json!({
            "level": level.as_str(),
            "available": result.is_ok(),
            "reason": result.as_ref().err().map(ToString::to_string),
        })
    });
    let right = |right: pollux_sandbox::Right| {
        let missing = (right.holding != Holding::Held).then_some(right.missing);
        json!({"name": right.name, "state": right.holding.as_str(), "missing": missing})
    };
    json!({
        "level": used.map(|confinement| confinement.level.as_str()),
        "requested": is_requested,
        "network": used.map(|confinement| confinement.network),
        "proxied": used.map(|confinement| confinement.proxied),
        "levels": levels.collect::<Vec<_>>(),
        "rights": used.map(|confinement| confinement.report().into_iter().map(right).collect::<Vec<_>>()),
    })
}

/// What commands may do with a path or a host.
pub(super) fn explained(level: Level, explained: &Explanation) -> String {
    let Explanation { target, verdict, rule, allow } = explained;
    let mut text =
        format!("{}\n  commands ({level}): {verdict}\n  rule: {}\n", one_line(target), one_line(rule));
    if let Some(right) = allow {
        let _ = writeln!(text, "  to allow: --sandbox-allow {}", one_line(&right.to_string()));
    }
    text
}

pub(super) fn explained_json(level: Level, explained: &Explanation) -> Value {
    json!({
        "target": explained.target,
        "level": level.as_str(),
        "verdict": explained.verdict,
        "rule": explained.rule,
        "allow": explained.allow.as_ref().map(ToString::to_string),
    })
}

/// The attempts, one per line.
pub(super) fn checked(level: Level, results: &[Checked]) -> String {
    let mut text = format!("Sandbox: {level}\n\n");
    for Checked { right, what, outcome } in results {
        let outcome = match outcome {
            Outcome::Held => "held",
            Outcome::Open => "open",
            Outcome::Broken => "BROKEN",
        };
        let _ = writeln!(text, "  {outcome:<8}{what} ({right})");
    }
    text
}
