//! Plan files: the only ones that may be written in plan mode.

use std::path::Path;

use pollux_domain::JsonObject;
use serde_json::Value;

/// The tools that may write a plan.
pub(crate) const WRITERS: [&str; 2] = ["write_file", "replace"];

/// The arguments of a call in plan mode that names a plan without its folder, such as `add-login.md` or
/// `plans/add-login.md`, with the complete path.
pub fn placed(tool: &str, args: &JsonObject, plans: &Path) -> Option<JsonObject> {
    if !WRITERS.contains(&tool) {
        return None;
    }
    let given = args.get("file_path").and_then(Value::as_str)?;
    let bare = given.trim_start_matches("./");
    let bare = bare.strip_prefix("plans/").unwrap_or(bare);
    let name = bare.strip_suffix(".md")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(plain) {
        return None;
    }
    let mut placed = args.clone();
    placed.insert("file_path".to_owned(), Value::from(plans.join(bare).to_string_lossy()));
    Some(placed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_bare_plan_file_name_is_moved_to_the_plans_folder() {
        let place = |tool: &str, path: &str| {
            let args = json!({"file_path": path, "content": "x"}).as_object().cloned().unwrap();
            placed(tool, &args, Path::new("/t/plans"))
                .map(|args| args["file_path"].as_str().unwrap().to_owned())
        };
        for given in ["a-b_1.md", "./a-b_1.md", "plans/a-b_1.md", "./plans/a-b_1.md"] {
            assert_eq!(place("write_file", given).as_deref(), Some("/t/plans/a-b_1.md"), "{given}");
        }
        for other in
            ["/w/a.md", "../a.md", "src/a.md", "a.rs", ".md", "plans/../a.md", "plans/x/a.md", "a b.md"]
        {
            assert_eq!(place("replace", other), None, "{other}");
        }
        assert_eq!(place("read_file", "a.md"), None);
    }
}
