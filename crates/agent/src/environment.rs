//! Builds the first message: environment and context files.

use std::path::PathBuf;

use pollux_config::groups::FileFiltering;
use pollux_domain::content::Content;
use pollux_domain::time::Timestamp;
use pollux_domain::untrusted::sealed;
use pollux_extend::tree;

/// Inputs of the first message.
#[derive(Debug, Clone)]
pub struct Environment {
    pub now: Timestamp,
    /// `linux`, `darwin` or `win32`.
    pub platform: &'static str,
    pub project_temp: PathBuf,
    pub roots: Vec<PathBuf>,
    /// Whether to include the folder tree, and its ignore rules.
    pub tree: Option<FileFiltering>,
    /// The context files of extensions, framed.
    pub extension_context: Option<String>,
    /// The project's context files, framed.
    pub project_context: Option<String>,
}

/// Builds the first message.
pub fn first_turn(environment: &Environment) -> Content {
    let mut text = String::from("<session_context>\nPollux sets up the context for this conversation.\n");
    text.push_str(&format!("Today's date is {}.\n", environment.now.to_local_date()));
    text.push_str(&format!("The operating system is: {}\n", environment.platform));
    text.push_str(&format!("The project's temporary directory is: {}\n", environment.project_temp.display()));
    text.push_str("- **Workspace Directories:**\n");
    for root in &environment.roots {
        text.push_str(&format!("  - {}\n", sealed(&root.display().to_string())));
    }
    if let Some(filtering) = &environment.tree {
        text.push_str("- **Directory Structure:**\n\n");
        for root in &environment.roots {
            // File names are as untrusted as file contents.
            text.push_str(&sealed(&tree::draw(root, filtering)));
            text.push_str("\n\n");
        }
    }
    let loaded = [
        ("extension_context", &environment.extension_context),
        ("project_context", &environment.project_context),
    ];
    let loaded: String = loaded
        .iter()
        .filter_map(|(tag, context)| Some(format!("<{tag}>\n{}\n</{tag}>\n", context.as_ref()?)))
        .collect();
    if !loaded.is_empty() {
        text.push_str(&format!("<loaded_context>\n{loaded}</loaded_context>\n"));
    }
    text.push_str("</session_context>");
    Content::user_text(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_names_place_time_and_context() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::File::create(dir.path().join("a.txt")).unwrap();
        let text = first_turn(&Environment {
            now: Timestamp::from_millis(0),
            platform: "linux",
            project_temp: "/t".into(),
            roots: vec![dir.path().into()],
            tree: Some(FileFiltering::default()),
            extension_context: Some("be quick".into()),
            project_context: Some("be kind".into()),
        })
        .text();
        let loaded = "<loaded_context>\n<extension_context>\nbe quick\n</extension_context>\n<project_context>\nbe kind\n";
        for expected in ["<session_context>", "linux", "- **Workspace Directories:**", "└───a.txt", loaded]
        {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }
}
