//! The built-in checker `allowed-path`: denies calls whose path arguments are outside the workspace.

use std::path::{Path, PathBuf};

use pollux_domain::JsonObject;
use serde_json::Value;

use super::{CheckAnswer, Resolver, place};
use crate::request::Decision;

/// Whether the paths in arguments stay in the workspace.
pub(crate) fn allowed_path(
    args: &JsonObject,
    config: Option<&Value>,
    roots: &[PathBuf],
    directory: &Path,
    resolve: Option<&Resolver>,
) -> CheckAnswer {
    let listed = |key: &str| -> Vec<&str> {
        let list = config.and_then(|config| config.get(key)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let (included, excluded) = (listed("included_args"), listed("excluded_args"));
    let mut found = Vec::new();
    for (key, value) in args {
        collect(key, value, &included, &excluded, &mut found);
    }
    let mut answer = CheckAnswer { decision: Decision::Allow, reason: String::new() };
    for (key, text) in found {
        let path = place(directory, text, resolve);
        if !roots.iter().any(|root| path.starts_with(place(root, "", resolve))) {
            let reason = format!(
                "Path \"{text}\" in argument \"{key}\" is outside of the allowed workspace directories."
            );
            return CheckAnswer { decision: Decision::Deny, reason };
        }
        let inside = roots.iter().find_map(|root| path.strip_prefix(place(root, "", resolve)).ok());
        for segment in inside.unwrap_or(&path).components() {
            match segment.as_os_str().to_string_lossy().to_ascii_lowercase().as_str() {
                word @ (".git" | ".env" | "node_modules") => {
                    let reason = format!("Path \"{text}\" in argument \"{key}\" is inside `{word}`.");
                    return CheckAnswer { decision: Decision::Deny, reason };
                }
                ".vscode" => {
                    let reason = format!("Path \"{text}\" in argument \"{key}\" is inside `.vscode`.");
                    answer = CheckAnswer { decision: Decision::Ask, reason };
                }
                _ => {}
            }
        }
    }
    answer
}

fn collect<'a>(
    key: &'a str,
    value: &'a Value,
    included: &[&str],
    excluded: &[&str],
    out: &mut Vec<(&'a str, &'a str)>,
) {
    match value {
        Value::String(text) if !excluded.contains(&key) => {
            let name = key.to_ascii_lowercase();
            let about_paths = ["path", "directory", "file"].iter().any(|word| name.contains(word))
                || matches!(name.as_str(), "source" | "destination");
            if about_paths || included.contains(&key) {
                out.push((key, text));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(key, item, included, excluded, out)),
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| collect(key, value, included, excluded, out));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(args: Value) -> Decision {
        let args = args.as_object().cloned().unwrap();
        allowed_path(&args, None, &[PathBuf::from("/w")], Path::new("/w"), None).decision
    }

    #[test]
    fn paths_outside_the_workspace_and_in_private_folders_are_refused() {
        let table = [
            (json!({"file_path": "/w/a.rs"}), Decision::Allow),
            (json!({"file_path": "src/a.rs"}), Decision::Allow),
            (json!({"file_path": "/etc/passwd"}), Decision::Deny),
            (json!({"file_path": "../x"}), Decision::Deny),
            (json!({"file_path": "/srv/x"}), Decision::Deny),
            (json!({"file_path": ".git/config"}), Decision::Deny),
            (json!({"file_path": "a/.ENV"}), Decision::Deny),
            (json!({"destination": "node_modules/x"}), Decision::Deny),
            (json!({"file_path": ".vscode/settings.json"}), Decision::Ask),
            (json!({"nested": {"sourceFile": ["/x"]}}), Decision::Deny),
            (json!({"content": "/etc/passwd"}), Decision::Allow),
        ];
        for (args, expected) in table {
            assert_eq!(check(args.clone()), expected, "{args}");
        }
    }

    #[test]
    fn links_are_followed_when_the_caller_can() {
        let resolve: Resolver = std::sync::Arc::new(|path: &Path| {
            path.strip_prefix("/w/link").map_or_else(|_| path.to_owned(), |rest| Path::new("/etc").join(rest))
        });
        let args = json!({"file_path": "link/passwd"}).as_object().cloned().unwrap();
        let answer = allowed_path(&args, None, &[PathBuf::from("/w")], Path::new("/w"), Some(&resolve));
        assert_eq!(answer.decision, Decision::Deny);
    }
}
