//! How findings are shown.

use pollux_domain::plural::counted;
use pollux_domain::terminal_text::one_line;
use pollux_host::VERSION;
use serde_json::{Value, json};

use super::finding::{Finding, Level};

/// The page for people.
pub(super) fn text(findings: &[Finding], repaired: &[String]) -> String {
    let width = findings.iter().map(|finding| finding.area.len()).max().unwrap_or_default();
    let mut text = format!("Pollux {VERSION} ({} {})\n\n", std::env::consts::OS, std::env::consts::ARCH);
    let mut last = "";
    for finding in findings {
        let area = if finding.area == last { "" } else { finding.area };
        last = finding.area;
        let sign = match finding.level {
            Level::Ok => "✓",
            Level::Warning => "!",
            Level::Problem => "✗",
        };
        text.push_str(&format!("{sign} {area:width$}  {}\n", one_line(&finding.what)));
        if let Some(hint) = &finding.hint {
            let label = if finding.level == Level::Ok { "note" } else { "fix" };
            text.push_str(&format!("  {:width$}  {label}: {}\n", "", one_line(hint)));
        }
    }
    text.push('\n');
    for line in repaired {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&summary(findings));
    text
}

fn summary(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    if problems + warnings == 0 {
        return "No problems found.\n".to_owned();
    }
    let repairable = findings.iter().filter(|finding| finding.repair.is_some()).count();
    let fix = match repairable {
        0 => String::new(),
        count => format!(" `pollux doctor --fix` repairs {count} of them."),
    };
    format!("{}, {}.{fix}\n", counted(problems, "problem"), counted(warnings, "warning"))
}

/// The page for programs.
pub(super) fn json(findings: &[Finding], repaired: &[String]) -> Value {
    let one = |finding: &Finding| {
        json!({
            "area": finding.area,
            "level": finding.level.word(),
            "what": finding.what,
            "hint": finding.hint,
            "repairable": finding.repair.is_some(),
        })
    };
    let is_ok = findings.iter().all(|finding| finding.level != Level::Problem);
    json!({
        "version": VERSION,
        "platform": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "ok": is_ok,
        "findings": findings.iter().map(one).collect::<Value>(),
        "repaired": repaired,
    })
}
