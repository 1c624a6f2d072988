//! What `pollux trust diff` prints.

use std::io::Write;
use std::time::Duration;

use pollux_config::trust::{Change, Kept};
use pollux_diff::LineDiff;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use serde_json::{Value, json};

use super::page::{visible, visible_lines};
use super::{View, page};

/// Lines around a change.
const DIFF_CONTEXT: usize = 3;
/// Time limit for an exact diff.
const DIFF_TIME_LIMIT: Duration = Duration::from_millis(500);

pub fn print(view: &View, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(record) = &view.record else {
        let text = format!("`{}` was never trusted, so there is nothing to compare", view.folder.display());
        return Err(Failure::new(ExitKind::Failure, page::visible(&text))
            .hint("run `pollux trust show` to see what it would run"));
    };
    let changes = record.changes(&view.inventory);
    if as_json {
        let changes: Vec<Value> = changes.iter().map(object).collect();
        let all = json!({
            "folder": view.folder.to_string_lossy(),
            "since": record.time,
            "changes": changes,
        });
        return print_result(out, &format!("{all:#}\n"));
    }
    if changes.is_empty() {
        let since = record.time.as_deref().map(|time| format!(" ({time})")).unwrap_or_default();
        return print_result(out, &visible_lines(&format!("Nothing changed since it was trusted{since}.\n")));
    }
    print_result(out, &sections(&changes))
}

/// The differences as text; empty if there is nothing to compare.
pub fn text(view: &View) -> String {
    let changes = view.record.as_ref().map(|record| record.changes(&view.inventory)).unwrap_or_default();
    if changes.is_empty() { String::new() } else { format!("Changes:\n{}", sections(&changes)) }
}

fn sections(changes: &[Change]) -> String {
    let text: String = changes.iter().map(section).collect();
    visible_lines(&text)
}

fn object(change: &Change) -> Value {
    json!({"path": change.path, "change": word(change), "diff": unified(change)})
}

fn word(change: &Change) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "added",
        (Some(_), None) => "removed",
        (Some(_), Some(_)) => "changed",
    }
}

fn section(change: &Change) -> String {
    match unified(change) {
        Some(diff) => diff,
        None => format!(
            "{} {}: content not recorded (not text, or too long)\n",
            word(change),
            visible(&change.path)
        ),
    }
}

/// A unified diff; `None` if the text of one side is unknown.
fn unified(change: &Change) -> Option<String> {
    let text = |kept: &Option<Kept>| match kept {
        None => Some(String::new()),
        Some(kept) => kept.text.clone(),
    };
    let (before, after) = (text(&change.before)?, text(&change.after)?);
    let path = visible(&change.path);
    if before == after {
        return Some(match (&change.before, &change.after) {
            (Some(_), Some(_)) => {
                format!("changed {path}: only comments, whitespace or the file type changed\n")
            }
            _ => format!("{} {path}: empty file\n", word(change)),
        });
    }
    let side = |kept: &Option<Kept>, prefix: &str| match kept {
        None => "/dev/null".to_owned(),
        Some(_) => format!("{prefix}/{path}"),
    };
    let diff = LineDiff::new(&before, &after, Some(DIFF_TIME_LIMIT));
    Some(diff.unified(DIFF_CONTEXT, &side(&change.before, "a"), &side(&change.after, "b")))
}
