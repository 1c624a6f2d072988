//! Names in a project's folder that belong to the project, so that no session may have them as its id.

/// What this program and gemini-cli keep directly in a project's folder. A session keeps its plans there in a folder
/// that has its id.
const RESERVED: [&str; 12] = [
    "chats",
    "checkpoints",
    "container-home",
    "images",
    "logs",
    "memory",
    "otel",
    "plans",
    "rewind",
    "sandbox-settings",
    "shell_history",
    "tool-outputs",
];

/// Whether an id names something of the project. Some file systems do not distinguish case.
pub(crate) fn is_reserved(id: &str) -> bool {
    RESERVED.iter().any(|name| name.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_project_are_reserved_in_any_case() {
        for id in ["memory", "REWIND", "Tool-Outputs", "shell_history"] {
            assert!(is_reserved(id), "{id}");
        }
        for id in ["memory-2", "one", "", "5e551047-0000-4000-8000-000000000000"] {
            assert!(!is_reserved(id), "{id}");
        }
    }
}
