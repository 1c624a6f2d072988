//! Reads `ide/contextUpdate`: the files that are open in the editor.

use std::path::Path;

use pollux_domain::editor::{ActiveFile, Cursor, EditorFiles};
use serde_json::Value;

/// Upstream's limits.
const MAX_FILES: usize = 10;
const MAX_SELECTION: usize = 16_384;
const TRUNCATED: &str = "... [TRUNCATED]";

/// Entries of a list that are looked at.
const MAX_LISTED: usize = 1_000;
const MAX_PATH: usize = 4_096;

/// Whether the session may know of a file.
pub(crate) type Admits = dyn Fn(&Path) -> bool + Send + Sync;

/// The open files that the session may know of. As upstream has it, only the file that was used last can be active.
pub(crate) fn open_files(params: &Value, admits: &Admits) -> EditorFiles {
    let listed = params.pointer("/workspaceState/openFiles").and_then(Value::as_array);
    let mut listed: Vec<&Value> = listed.into_iter().flatten().take(MAX_LISTED).collect();
    let used = |file: &Value| file.get("timestamp").and_then(Value::as_f64).unwrap_or_default();
    listed.sort_by(|one, other| used(other).total_cmp(&used(one)));
    let mut files = EditorFiles::default();
    for (place, file) in listed.into_iter().enumerate() {
        let count = files.others.len() + usize::from(files.active.is_some());
        if count == MAX_FILES {
            break;
        }
        let Some(path) = path(file).filter(|path| !files.paths().any(|known| known == *path)) else {
            continue;
        };
        if !admits(Path::new(path)) {
            continue;
        }
        let path = path.to_owned();
        if place == 0 && file.get("isActive").and_then(Value::as_bool) == Some(true) {
            let (cursor, selection) = (cursor(file), selection(file));
            files.active = Some(ActiveFile { path, cursor, selection });
        } else {
            files.others.push(path);
        }
    }
    files
}

/// An absolute path that can be shown.
fn path(file: &Value) -> Option<&str> {
    let path = file.get("path").and_then(Value::as_str)?;
    let is_plain = path.len() <= MAX_PATH && !path.contains(char::is_control);
    Some(path).filter(|path| is_plain && Path::new(path).is_absolute())
}

fn cursor(file: &Value) -> Option<Cursor> {
    let number = |key: &str| {
        // JavaScript has one kind of number.
        let number = file.get("cursor")?.get(key)?.as_f64()?;
        (1.0..=f64::from(u32::MAX)).contains(&number).then_some(number as u64)
    };
    Some(Cursor { line: number("line")?, character: number("character")? })
}

fn selection(file: &Value) -> Option<String> {
    let text = file.get("selectedText").and_then(Value::as_str).filter(|text| !text.is_empty())?;
    if text.len() <= MAX_SELECTION {
        return Some(text.to_owned());
    }
    let beginning = text.get(..text.floor_char_boundary(MAX_SELECTION))?;
    Some(format!("{beginning}{TRUNCATED}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(files: Value) -> EditorFiles {
        let params = json!({"workspaceState": {"openFiles": files, "isTrusted": true}});
        open_files(&params, &|path: &Path| path.starts_with("/w"))
    }

    #[test]
    fn the_file_used_last_is_the_only_one_that_can_be_active() {
        let files = read(json!([
            {"path": "/w/old", "timestamp": 1, "isActive": true, "cursor": {"line": 1, "character": 1}},
            {"path": "/w/new", "timestamp": 3, "isActive": true, "cursor": {"line": 7, "character": 2},
             "selectedText": "x"},
            {"path": "/w/middle", "timestamp": 2},
        ]));
        let cursor = Some(Cursor { line: 7, character: 2 });
        let active = ActiveFile { path: "/w/new".to_owned(), cursor, selection: Some("x".to_owned()) };
        assert_eq!(files.active, Some(active));
        assert_eq!(files.others, ["/w/middle", "/w/old"]);

        let files = read(
            json!([{"path": "/w/a", "timestamp": 1, "isActive": true}, {"path": "/w/b", "timestamp": 2}]),
        );
        assert_eq!((files.active, files.others.len()), (None, 2));
        // The active file is none of ours: no other one takes its place.
        let files = read(
            json!([{"path": "/etc/x", "timestamp": 2, "isActive": true}, {"path": "/w/b", "timestamp": 1}]),
        );
        assert_eq!((files.active, files.others), (None, vec!["/w/b".to_owned()]));
    }

    #[test]
    fn a_hostile_update_is_bounded() {
        let mut list: Vec<Value> = (0..2_000)
            .map(|n| json!({"path": format!("/w/{n}"), "timestamp": n, "selectedText": "s".repeat(100)}))
            .collect();
        list.insert(0, json!({"path": "/w/active", "timestamp": 1e300, "isActive": true,
                              "selectedText": "é".repeat(500_000), "cursor": {"line": -1, "character": 1e99}}));
        list.insert(1, json!({"path": "/etc/passwd", "timestamp": 1e200}));
        list.insert(2, json!({"path": "relative", "timestamp": 1e200}));
        list.insert(3, json!({"path": "/w/\u{1b}[2J", "timestamp": 1e200}));
        list.insert(4, json!({"path": "/w/active", "timestamp": 1e200}));
        list.insert(5, json!(["nonsense"]));
        let files = read(Value::Array(list));
        let active = files.active.as_ref().unwrap();
        assert_eq!(active.cursor, None);
        let selection = active.selection.as_ref().unwrap();
        assert!(selection.len() <= MAX_SELECTION + TRUNCATED.len() && selection.ends_with(TRUNCATED));
        assert_eq!(files.paths().count(), MAX_FILES);
        assert!(files.paths().all(|path| path.starts_with("/w/") && !path.contains('\u{1b}')));

        for nonsense in
            [json!(null), json!({"workspaceState": 3}), json!({"workspaceState": {"openFiles": "x"}})]
        {
            assert_eq!(open_files(&nonsense, &|_: &Path| true), EditorFiles::default());
        }
    }
}
