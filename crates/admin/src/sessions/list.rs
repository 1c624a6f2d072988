//! What `pollux sessions list` prints.

use std::fmt::Write as _;
use std::path::Path;

use pollux_host::sessions::Wanted;
use serde_json::{Value, json};

use super::{SessionRow, shown};

/// On a terminal longer titles would wrap.
const TITLE_CHARS: usize = 72;
/// Characters of a title that are shown; `--json` has all of it.
const PIPED_TITLE_CHARS: usize = 200;

/// For programs.
pub(super) fn json(row: &SessionRow) -> Value {
    let mut fields = row.json.clone();
    fields.insert("number".into(), json!(row.number));
    fields.insert("source".into(), json!(row.source));
    fields.insert("title".into(), json!(row.title));
    // The same under the names that gemini-cli's own list of sessions has.
    let file = fields.get("file").and_then(Value::as_str).map(Path::new);
    let name = file.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    fields.insert("id".into(), json!(row.id));
    fields.insert("index".into(), json!(row.number));
    fields.insert("fileName".into(), json!(name));
    fields.insert("displayName".into(), json!(row.title));
    fields.insert("messageCount".into(), json!(row.messages));
    fields.insert("firstUserMessage".into(), fields.get("firstUser").cloned().unwrap_or_default());
    // A command that lists sessions has none of its own.
    fields.insert("isCurrentSession".into(), json!(false));
    Value::Object(fields)
}

/// For people: columns whose width the content decides, so that it is the same in a pipe.
pub(super) fn text(rows: &[SessionRow], wanted: &Wanted, terminal: bool) -> String {
    if rows.is_empty() {
        return nothing(wanted);
    }
    let columns = Columns::of(rows);
    if !wanted.all_projects {
        return columns.table(rows.iter(), terminal);
    }
    let mut projects: Vec<&str> = Vec::new();
    for row in rows {
        if !projects.contains(&row.project.as_str()) {
            projects.push(&row.project);
        }
    }
    let tables = projects.into_iter().map(|project| {
        let own = rows.iter().filter(|row| row.project == project);
        format!("{}\n{}", shown(project), columns.table(own, terminal))
    });
    tables.collect::<Vec<_>>().join("\n")
}

fn nothing(wanted: &Wanted) -> String {
    let whose = match wanted.source {
        Some(source) if source.is_foreign() => format!(" of {}", source.as_str()),
        _ => String::new(),
    };
    if wanted.all_projects {
        format!("No sessions{whose} found.\n")
    } else {
        format!(
            "No sessions{whose} found for this project. `pollux sessions list --all-projects` shows the others.\n"
        )
    }
}

struct Columns {
    number: usize,
    age: usize,
    messages: usize,
    /// 0 where all are of the same source.
    source: usize,
    id: usize,
}

impl Columns {
    fn of(rows: &[SessionRow]) -> Self {
        let widest = |width: &dyn Fn(&SessionRow) -> usize| rows.iter().map(width).max().unwrap_or(0);
        let is_mixed = rows.iter().any(|row| row.source != "gemini");
        Self {
            number: widest(&|row| row.number.map_or(0, |number| number.to_string().len())),
            age: widest(&|row| row.age.chars().count()),
            messages: widest(&|row| row.messages.map_or(1, |count| count.to_string().len())),
            source: if is_mixed { widest(&|row| row.source.len()) } else { 0 },
            id: widest(&|row| shown(&row.id).chars().count()),
        }
    }

    fn table<'a>(&self, rows: impl Iterator<Item = &'a SessionRow>, terminal: bool) -> String {
        let mut text = String::new();
        for row in rows {
            self.line(row, terminal, &mut text);
        }
        text
    }

    fn line(&self, row: &SessionRow, terminal: bool, text: &mut String) {
        let number = row.number.map(|number| number.to_string()).unwrap_or_default();
        let messages = row.messages.map_or_else(|| "?".to_owned(), |count| count.to_string());
        // Writing to a String cannot fail.
        let _ = write!(text, "  {number:>0$}  {1:<2$}  ", self.number, row.age, self.age);
        let _ = write!(text, "{messages:>0$} msg  ", self.messages);
        if self.source > 0 {
            let _ = write!(text, "{:<1$}  ", row.source, self.source);
        }
        let nested = if row.is_subagent { "└ " } else { "" };
        let damaged = if row.damaged { " (damaged)" } else { "" };
        let limit = if terminal { TITLE_CHARS } else { PIPED_TITLE_CHARS };
        // Some of what is looked at vanishes.
        let beginning: String = row.title.chars().take(2 * limit).collect();
        let mut title = shown(&beginning);
        if title.chars().count() > limit {
            title = title.chars().take(limit - 1).chain(['…']).collect();
        }
        let _ = writeln!(text, "{:<1$}  {nested}{title}{damaged}", shown(&row.id), self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize, id: &str, title: &str, project: &str) -> SessionRow {
        SessionRow {
            number: Some(number),
            source: "gemini",
            id: id.to_owned(),
            title: title.to_owned(),
            project: project.to_owned(),
            age: "Just now".to_owned(),
            messages: Some(number as u64 * 9),
            ..SessionRow::default()
        }
    }

    const HERE: Wanted = Wanted { all_projects: false, source: None, subagents: false, in_full: false };

    #[test]
    fn columns_are_as_wide_as_their_content_and_titles_cannot_control_the_terminal() {
        let rows = [row(1, "a", "\u{1b}[31mred\u{7}\nline", "/p"), row(12, "abcdef", "t", "/p")];
        assert_eq!(
            text(&rows, &HERE, false),
            "   1  Just now    9 msg  a       red line\n  12  Just now  108 msg  abcdef  t\n"
        );
    }

    #[test]
    fn a_long_title_is_cut_sooner_on_a_terminal() {
        let rows = [row(1, "a", &"x".repeat(1000), "/p")];
        assert!(text(&rows, &HERE, false).ends_with(&format!(" {}…\n", "x".repeat(199))));
        assert!(text(&rows, &HERE, true).ends_with(&format!(" {}…\n", "x".repeat(71))));
    }

    #[test]
    fn sessions_of_all_projects_stand_below_their_projects() {
        let rows = [row(1, "a", "t", "/p"), row(1, "b", "u", "/q"), row(2, "c", "v", "/p")];
        let text = text(&rows, &Wanted { all_projects: true, ..HERE }, false);
        let lines: Vec<&str> =
            text.lines().map(|line| line.split_whitespace().last().unwrap_or("")).collect();
        assert_eq!(lines, ["/p", "t", "v", "", "/q", "u"]);
    }
}
