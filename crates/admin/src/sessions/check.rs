//! What `pollux sessions verify` and `stats` print.

use std::fmt::Write as _;
use std::io::Write;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use serde_json::{Value, json};

use super::removal::size;
use super::{Checked, Problem, Statistics, print_json, shown};

pub(super) fn print(
    files: &[Checked],
    repair: bool,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let damaged = files.iter().filter(|file| file.problems.iter().any(|problem| problem.is_damage)).count();
    let repaired = files.iter().filter(|file| !file.solved.is_empty()).count();
    if as_json {
        print_json(out, &json_of(files, damaged, repaired))?;
    } else {
        print_result(out, &text(files, damaged, repaired))?;
    }
    if damaged == 0 {
        return Ok(());
    }
    let repairable = files.iter().flat_map(|file| &file.problems).any(|problem| problem.is_repairable);
    let failure =
        Failure::new(ExitKind::Failure, format!("{damaged} of {} session files are damaged", files.len()));
    Err(if repairable && !repair {
        failure.hint("run `pollux sessions verify --repair` to repair them; it keeps copies of the originals")
    } else {
        failure
    })
}

fn text(files: &[Checked], damaged: usize, repaired: usize) -> String {
    let mut text = String::new();
    for file in files {
        if file.problems.is_empty() && file.solved.is_empty() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", shown(&file.file.to_string_lossy()));
        for solved in &file.solved {
            let _ = writeln!(text, "  repaired: {}", shown(solved));
        }
        if let Some(backup) = &file.backup {
            let _ = writeln!(text, "  backup: {}", shown(&backup.to_string_lossy()));
        }
        for problem in &file.problems {
            let kind = if problem.is_damage { "damaged" } else { "note" };
            let _ = writeln!(text, "  {kind}: {}", shown(&problem.text));
        }
        if let Some(why) = &file.not_repaired {
            let _ = writeln!(text, "  not repaired: {}", shown(why));
        }
    }
    let mended = if repaired > 0 { format!(", {repaired} repaired") } else { String::new() };
    let _ = writeln!(text, "{} session files checked, {damaged} damaged{mended}.", files.len());
    text
}

fn json_of(files: &[Checked], damaged: usize, repaired: usize) -> Value {
    let problem = |problem: &Problem| json!({"text": problem.text, "damage": problem.is_damage, "repairable": problem.is_repairable});
    let file = |file: &Checked| {
        json!({
            "file": file.file,
            "sessionId": file.id,
            "messages": file.messages,
            "problems": file.problems.iter().map(problem).collect::<Vec<_>>(),
            "repaired": file.solved,
            "backup": file.backup,
            "notRepaired": file.not_repaired,
        })
    };
    json!({
        "checked": files.len(),
        "damaged": damaged,
        "repaired": repaired,
        "files": files.iter().map(file).collect::<Vec<_>>(),
    })
}

pub(super) fn statistics(sums: &Statistics, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let by_source: serde_json::Map<String, Value> =
        sums.by_source.iter().map(|(source, count)| ((*source).to_owned(), json!(count))).collect();
    if as_json {
        return print_json(
            out,
            &json!({
                "sessions": sums.sessions,
                "bySource": by_source,
                "projects": sums.projects,
                "messages": sums.messages,
                "toolCalls": sums.tool_calls,
                "errors": sums.errors,
                "tokens": sums.tokens,
                "bytes": sums.bytes,
                "index": sums.index.as_ref().map(|(file, bytes)| json!({"file": file, "bytes": bytes})),
            }),
        );
    }
    let sources: Vec<String> =
        sums.by_source.iter().map(|(source, count)| format!("{source} {count}")).collect();
    let sources = if sources.is_empty() { String::new() } else { format!(" ({})", sources.join(", ")) };
    let mut lines = vec![
        ("sessions", format!("{}{sources}", sums.sessions)),
        ("projects", sums.projects.to_string()),
        ("messages", sums.messages.to_string()),
        ("tool calls", sums.tool_calls.to_string()),
        ("errors", sums.errors.to_string()),
        ("tokens", sums.tokens.to_string()),
        ("size", size(sums.bytes)),
    ];
    if let Some((file, bytes)) = &sums.index {
        lines.push(("index", format!("{} in {}", size(*bytes), shown(&file.to_string_lossy()))));
    }
    let text: String = lines.iter().map(|(name, value)| format!("{name:<10}  {value}\n")).collect();
    print_result(out, &text)
}
