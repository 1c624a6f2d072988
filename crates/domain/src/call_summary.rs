//! One-line summaries of tool calls.
//!
//! Front ends use it where they have no room for all arguments. It knows argument names, not tools, so it also works for
//! tools of MCP servers.

use std::path::Path;

use crate::JsonObject;
use crate::path_display::PathDisplay;
use crate::redact::redacted;
use crate::terminal_text::{one_line, plain};

/// Characters of a summary.
const LONGEST: usize = 200;

/// The argument that says most about a call, in one line of at most 200 characters.
pub fn call_summary(args: &JsonObject, paths: &PathDisplay) -> String {
    cut(one_line(&telling_argument(args, paths)))
}

/// The same as [`call_summary`] without secrets.
pub fn redacted_call_summary(args: &JsonObject, paths: &PathDisplay) -> String {
    cut(without_secrets(&telling_argument(args, paths)))
}

/// A command inside a message, in backticks: one line of at most 200 characters, without secrets. It has no backticks of its
/// own, so that it cannot pass for the rest of the message.
pub fn quoted(command: &str) -> String {
    format!("`{}`", cut(without_secrets(command)).replace('`', "'"))
}

/// One line. Secrets are removed before it is cut: the rest of a secret may not be recognised.
fn without_secrets(text: &str) -> String {
    let line = one_line(&redacted(&plain(text)));
    // Characters that a line leaves out may have divided a secret.
    redacted(&line).into_owned()
}

fn cut(text: String) -> String {
    match text.chars().count() > LONGEST {
        true => text.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => text,
    }
}

fn telling_argument(args: &JsonObject, paths: &PathDisplay) -> String {
    const TELLING: &[&str] = &[
        "command",
        "file_path",
        "path",
        "absolute_path",
        "pattern",
        "query",
        "url",
        "prompt",
        "dir_path",
        "name",
        "agent_name",
        "fact",
    ];
    let word = |key: &str| args.get(key).and_then(|value| value.as_str()).filter(|text| !text.is_empty());
    let found = TELLING.iter().find_map(|key| word(key).map(|text| (*key, text)));
    match found {
        Some(("file_path" | "path" | "absolute_path" | "dir_path", path)) => paths.shown(Path::new(path)),
        Some(("command", command)) => match word("dir_path") {
            Some(folder) => format!("{command} (in {})", paths.folder(Path::new(folder))),
            None => command.to_owned(),
        },
        Some((_, text)) => text.to_owned(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(args: serde_json::Value) -> String {
        let paths = PathDisplay { workspace: vec!["/w".into()], home: None };
        call_summary(args.as_object().expect("an object"), &paths)
    }

    #[test]
    fn a_summary_is_the_most_telling_argument_with_short_paths() {
        assert_eq!(summary(json!({"content": "x", "file_path": "/w/src/a.rs"})), "src/a.rs");
        assert_eq!(summary(json!({"command": "make", "dir_path": "/w/lib"})), "make (in lib/)");
        assert_eq!(summary(json!({"other": 1})), "");
    }

    #[test]
    fn a_long_summary_is_cut() {
        let cut = summary(json!({"query": "x".repeat(500)}));
        assert_eq!((cut.chars().count(), cut.ends_with('…')), (LONGEST, true));
    }

    #[test]
    fn a_quoted_command_ends_where_its_quotes_end() {
        assert_eq!(quoted("ls -l"), "`ls -l`");
        assert_eq!(quoted("a `b`\nc\u{1b}[2J"), "`a 'b' c`");
        assert_eq!(quoted(&"x".repeat(500)).chars().count(), LONGEST + 2);
    }

    #[test]
    fn secrets_are_removed_before_a_summary_is_cut() {
        let key = format!("AIza{}", "B7".repeat(18).get(..35).expect("a key has 35 more characters"));
        let (start, end) = key.split_at(20);
        let divided = format!("{start}\u{200b}{end}");
        for key in [&key, &divided] {
            // From some number on, the cut goes through the key.
            for before in 0..LONGEST {
                let args = json!({"command": format!("{} {key}", "x".repeat(before))});
                let shown = redacted_call_summary(args.as_object().unwrap(), &PathDisplay::default());
                assert!(!shown.contains("AIza"), "{shown}");
                assert!(shown.chars().count() <= LONGEST);
            }
        }
    }
}
