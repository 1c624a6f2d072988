//! What was found: messages and projects.

use std::fmt::Write as _;
use std::io::Write;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::terminal_text::plain;
use serde_json::{Value, json};

use super::{Candidate, Hit, list, print_json, shown};
use crate::context::Context;

pub(super) fn print(
    words: &str,
    hits: &[Hit],
    as_json: bool,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    if as_json {
        return print_json(context.out, &Value::Array(hits.iter().map(json_of).collect()));
    }
    if hits.is_empty() {
        return print_result(context.out, &format!("No results for: {}\n", shown(words)));
    }
    let bold = context.out_is_terminal && context.env.get("NO_COLOR").is_none_or(str::is_empty);
    let mut text = String::new();
    let mut last = None;
    for hit in hits {
        let session = (hit.session.source, &hit.session.id);
        if last != Some(session) {
            if last.is_some() {
                text.push('\n');
            }
            let source = match hit.session.source {
                "gemini" => String::new(),
                other => format!("{other} "),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} ({})", shown(&hit.session.title), hit.session.age);
            let _ = writeln!(text, "  {source}{}  {}", shown(&hit.session.id), shown(&hit.session.project));
            last = Some(session);
        }
        let _ = writeln!(text, "  {} ({}): {}", hit.role, hit.age, marked(hit, bold));
    }
    print_result(context.out, &text)
}

/// The snippet, what was searched for in bold. Each piece is made harmless by itself, so that ours are the
/// only sequences.
fn marked(hit: &Hit, bold: bool) -> String {
    let (on, off) = if bold { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
    let piece = |from: usize, to: usize| plain(hit.snippet.get(from..to).unwrap_or_default()).into_owned();
    let mut text = String::new();
    let mut end = 0;
    for range in &hit.matches {
        text.push_str(&piece(end, range.start));
        let _ = write!(text, "{on}{}{off}", piece(range.start, range.end));
        end = range.end;
    }
    text.push_str(&piece(end, hit.snippet.len()));
    text.replace(['\n', '\r', '\t'], " ")
}

fn json_of(hit: &Hit) -> Value {
    // Characters, because that is what most languages count.
    let at = |byte: usize| hit.snippet.get(..byte).map_or(0, |text| text.chars().count());
    let matches: Vec<[usize; 2]> = hit.matches.iter().map(|range| [at(range.start), at(range.end)]).collect();
    json!({
        "session": list::json(&hit.session),
        "role": hit.role,
        "messageId": hit.message,
        "timestamp": hit.time.map(|time| time.to_iso()),
        "snippet": hit.snippet,
        "matches": matches,
    })
}

pub(super) fn print_projects(
    name: &str,
    found: &[Candidate],
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if as_json {
        let projects = found.iter().map(|project| {
            json!({
                "projectPath": project.root,
                "match": project.matched,
                "proof": project.proof,
                "inferred": project.inferred,
                "folders": project.folders,
                "sessions": project.sessions.iter().map(list::json).collect::<Vec<_>>(),
            })
        });
        return print_json(out, &projects.collect());
    }
    if found.is_empty() {
        return Err(Failure::new(ExitKind::Input, format!("no project matches `{}`", shown(name)))
            .hint("run `pollux sessions list --all-projects` to see all projects with sessions"));
    }
    let mut text = String::new();
    for (index, project) in found.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let guess = if project.inferred { " (a guess from the paths its tools used)" } else { "" };
        let _ = writeln!(text, "{}{guess}", shown(&project.root.to_string_lossy()));
        for row in &project.sessions {
            let _ = writeln!(text, "  {} ({}) [{}]", shown(&row.title), row.age, shown(&row.id));
        }
    }
    print_result(out, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::SessionRow;

    #[test]
    fn only_what_was_found_is_bold_whatever_the_text_holds() {
        let snippet = "a\u{1b}[7m fix the \u{9b}31mbuild now".to_owned();
        let start = snippet.find("build").unwrap();
        let hit = Hit {
            session: SessionRow::default(),
            role: "user",
            message: String::new(),
            time: None,
            age: String::new(),
            matches: std::iter::once(start..start + 5).collect(),
            snippet,
        };
        assert_eq!(marked(&hit, true), "a fix the \u{1b}[1mbuild\u{1b}[0m now");
        assert_eq!(marked(&hit, false), "a fix the build now");
    }

    #[test]
    fn ranges_for_programs_count_characters() {
        let hit = Hit {
            session: SessionRow::default(),
            role: "agent",
            message: "m".into(),
            time: None,
            age: String::new(),
            snippet: "größer wird".into(),
            matches: std::iter::once(9..13).collect(),
        };
        assert_eq!(json_of(&hit)["matches"], json!([[7, 11]]));
    }
}
