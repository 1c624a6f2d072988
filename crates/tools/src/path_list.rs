//! Lists all paths of the workspace, for the path picker of the user interface.

use std::ops::ControlFlow;
use std::path::Path;

use pollux_config::groups::FileFiltering;
use pollux_config::paths::sha256_hex;
use tokio_util::sync::CancellationToken;

use crate::ignore_rules::{IgnoreRules, Respect, read_lines};
use crate::walk::{Walk, exclude_set};
use crate::workspace::Workspace;

/// Visits the files and folders of the workspace that are not ignored, those near the top first, until `visit` has had
/// enough. Paths are as a prompt names them: relative to the project, absolute in added directories; those of folders
/// end in `/`.
pub fn list_paths(
    workspace: &Workspace,
    filtering: &FileFiltering,
    cancel: &CancellationToken,
    visit: &mut dyn FnMut(&str) -> ControlFlow<()>,
) {
    let Ok(excludes) = exclude_set(&[]) else { return };
    let rules = IgnoreRules::new(workspace.directories(), &filtering.custom_ignore_files);
    let respect = Respect { git: filtering.respect_git_ignore, gemini: filtering.respect_gemini_ignore };
    let mut enough = false;
    for (at, start) in workspace.directories().iter().enumerate() {
        let before = workspace.directories().get(..at).unwrap_or_default();
        if enough || before.iter().any(|other| start.starts_with(other)) {
            continue;
        }
        let prefix = if at == 0 { Path::new("") } else { start.as_path() };
        let walk = Walk {
            workspace,
            rules: &rules,
            respect,
            start,
            excludes: &excludes,
            prefix: Path::new(""),
            reports_ignored: false,
            cancel,
        };
        walk.breadth_first(&mut |below, is_dir| {
            // A name that cannot be typed is not useful here.
            let shown = prefix.join(below);
            let Some(path) = shown.to_str().filter(|path| !path.contains(char::is_control)) else {
                return ControlFlow::Continue(());
            };
            let visited = if is_dir { visit(&format!("{path}/")) } else { visit(path) };
            enough = visited.is_break();
            visited
        });
    }
}

/// A hash of the folders and of the ignore files at their top. A list made under another key is not to be used.
pub fn path_list_key(workspace: &Workspace, filtering: &FileFiltering) -> String {
    let gemini = filtering.custom_ignore_files.iter().map(String::as_str).chain([".geminiignore"]);
    let gemini = gemini.filter(|_| filtering.respect_gemini_ignore);
    let names: Vec<&str> = gemini.chain(filtering.respect_git_ignore.then_some(".gitignore")).collect();
    let mut content = Vec::new();
    for folder in workspace.directories() {
        content.extend(folder.as_os_str().as_encoded_bytes());
        for name in &names {
            // A separator, so that a line cannot move from one file into the next.
            content.push(0);
            content.extend(read_lines(&folder.join(name)).unwrap_or_default().into_bytes());
        }
        content.push(0);
    }
    sha256_hex(&content)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::workspace::WorkspaceSetup;

    fn opened(root: &Path, extra: &[&Path]) -> Workspace {
        let setup = WorkspaceSetup {
            root: root.to_owned(),
            include_directories: extra.iter().map(|path| path.display().to_string()).collect(),
            project_temp: PathBuf::from("/nonexistent/temp"),
            gemini_dir: PathBuf::from("/nonexistent/gemini"),
            user_home: PathBuf::from("/nonexistent"),
        };
        Workspace::open(&setup).unwrap()
    }

    fn both() -> FileFiltering {
        FileFiltering { respect_git_ignore: true, respect_gemini_ignore: true, ..FileFiltering::default() }
    }

    fn listed(root: &Path, extra: &[&Path], most: usize) -> Vec<String> {
        let (workspace, filtering) = (opened(root, extra), both());
        let mut paths = Vec::new();
        list_paths(&workspace, &filtering, &CancellationToken::new(), &mut |path| {
            paths.push(path.to_owned());
            if paths.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        paths
    }

    #[test]
    fn near_paths_come_first_and_ignored_ones_not_at_all() {
        let scratch = tempfile::tempdir().unwrap();
        let (root, other) = (scratch.path().join("project"), scratch.path().join("other"));
        for folder in
            ["project/.git", "project/src/deep", "project/target", "project/node_modules/x", "other"]
        {
            fs::create_dir_all(scratch.path().join(folder)).unwrap();
        }
        fs::write(root.join(".gitignore"), "target/\n*.log\n").unwrap();
        fs::write(root.join(".geminiignore"), "secret.txt\n").unwrap();
        for file in [
            "z.txt",
            "a.log",
            "secret.txt",
            "src/main.rs",
            "src/deep/er.rs",
            "target/out",
            "node_modules/x/y",
        ] {
            fs::write(root.join(file), "").unwrap();
        }
        fs::write(other.join("more.md"), "").unwrap();
        let more = other.canonicalize().unwrap().join("more.md").display().to_string();
        let all = listed(&root, &[&other, &root.join("src")], 100);
        let expected = [
            ".geminiignore",
            ".gitignore",
            "src/",
            "z.txt",
            "src/deep/",
            "src/main.rs",
            "src/deep/er.rs",
            &more,
        ];
        assert_eq!(all, expected);
        assert_eq!(listed(&root, &[&other], 3).len(), 3);
    }

    #[test]
    fn the_key_follows_the_folders_and_their_ignore_files() {
        let scratch = tempfile::tempdir().unwrap();
        let (root, other) = (scratch.path().join("project"), scratch.path().join("other"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&other).unwrap();
        let key = || path_list_key(&opened(&root, &[]), &both());
        let mut keys = vec![key()];
        fs::write(root.join(".geminiignore"), "a\n").unwrap();
        keys.push(key());
        fs::write(root.join(".geminiignore"), "b\n").unwrap();
        keys.push(key());
        fs::write(root.join(".geminiignore"), "").unwrap();
        fs::write(root.join(".gitignore"), "b\n").unwrap();
        keys.push(key());
        keys.push(path_list_key(&opened(&root, &[&other]), &both()));
        let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        fs::write(root.join("file.txt"), "").unwrap();
        assert_eq!(key(), keys[3], "files alone change nothing");
        let no_git = FileFiltering { respect_git_ignore: false, ..both() };
        let before = path_list_key(&opened(&root, &[]), &no_git);
        fs::write(root.join(".gitignore"), "c\n").unwrap();
        assert_eq!(
            path_list_key(&opened(&root, &[]), &no_git),
            before,
            "what is not respected does not count"
        );
    }
}
