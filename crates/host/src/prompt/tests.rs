#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;

use pollux_tools::WorkspaceSetup;
use tempfile::TempDir;

use super::*;

/// A workspace with these files.
fn workspace(files: &[(&str, &str)]) -> (TempDir, Arc<Workspace>) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("project");
    fs::create_dir(&root).unwrap();
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let workspace = Workspace::open(&WorkspaceSetup {
        root,
        include_directories: Vec::new(),
        project_temp: dir.path().join("home/.gemini/tmp/project"),
        gemini_dir: dir.path().join("home/.gemini"),
        user_home: dir.path().join("home"),
    });
    (dir, Arc::new(workspace.unwrap()))
}

fn read_all(text: &str, piped: usize, workspace: &Arc<Workspace>) -> (String, Vec<String>) {
    let filtering = FileFiltering::default();
    let (parts, notes) = read(text, piped, workspace, &filtering, &CancellationToken::new()).unwrap();
    (parts.iter().filter_map(Part::spoken_text).collect::<Vec<_>>().join("|"), notes)
}

#[test]
fn a_folder_whose_name_looks_like_a_pattern_gives_its_own_files() {
    let (_dir, workspace) = workspace(&[
        ("app/[id]/page.tsx", "the right page"),
        ("app/i/page.tsx", "another page"),
        ("app/d/page.tsx", "another page"),
        ("a*/x.txt", "star"),
        ("abc/x.txt", "another page"),
    ]);
    let (sent, notes) = read_all("see @\"app/[id]\" and @a*", 0, &workspace);
    assert!(sent.starts_with("see @app/[id]/** and @a*/**|"), "{sent}");
    assert!(sent.contains("the right page") && sent.contains("star"), "{sent}");
    assert!(!sent.contains("another page"), "{sent}");
    assert_eq!(notes, [""; 0]);
    let parts =
        injected("app/[id]".to_owned(), &workspace, &FileFiltering::default(), &CancellationToken::new());
    let injected: String = parts.unwrap().iter().filter_map(Part::spoken_text).collect();
    assert!(injected.contains("the right page") && !injected.contains("another page"), "{injected}");
}

#[test]
fn missing_files_are_noted_once_and_only_where_the_user_typed_them() {
    let (_dir, workspace) = workspace(&[("real.txt", "real")]);
    let piped: String =
        (0..5000).map(|number| format!("user{number}@example.com, @gone{number}.txt\n")).collect();
    let typed = "mail me@example.com about @gone.txt, (@gone.txt) and @\"no extension\"; @team knows";
    let (sent, notes) = read_all(&format!("{piped}{typed}"), piped.len(), &workspace);
    assert_eq!(sent, format!("{piped}{typed}"));
    assert_eq!(
        notes,
        [
            "`@gone.txt` in the prompt was not read: no such file in the workspace",
            "`@\"no extension\"` in the prompt was not read: no such file in the workspace",
        ]
    );
    // Files that exist are read, wherever they are mentioned.
    assert!(read_all("look: @real.txt", 15, &workspace).0.contains("Content from @real.txt"));
}

#[test]
fn only_what_the_user_typed_can_be_a_command() {
    let parts = |text, typed| {
        let prompt = PromptText::headless(text, typed);
        (prompt.before_typed(), prompt.command(), prompt.piped)
    };
    assert_eq!(parts("/init me\n\nexplain", Some("explain")), ("/init me\n\n", "explain", 10));
    assert_eq!(parts("text\n\n/init", Some("/init")), ("text\n\n", "/init", 6));
    assert_eq!(parts("/init", Some("/init")), ("", "/init", 0));
    // Nothing was typed.
    assert_eq!(parts("/init", None), ("", "/init", 5));
    assert_eq!(parts("/init", Some("")), ("", "/init", 5));
}

#[test]
fn no_mention_attaches_a_file_that_may_contain_secrets() {
    let names = [".env", ".env.local", ".npmrc", "keys/id_rsa", "keys/notes.md", ".ssh/config", "[x].pem"];
    let files: Vec<(&str, &str)> = names
        .into_iter()
        .map(|name| (name, if name.ends_with(".md") { "plain" } else { "TOP-SECRET" }))
        .collect();
    let (_dir, workspace) = workspace(&files);
    let text = "see @.env @.env.local @.npmrc @keys/id_rsa @.ssh/config @.ssh @\"[x].pem\" and @keys";
    let (sent, notes) = read_all(text, 0, &workspace);
    assert!(sent.contains("plain") && !sent.contains("TOP-SECRET"), "{sent}");
    assert_eq!(notes.len(), 7, "{notes:?}");
    assert!(
        notes[1].contains("`@.env.local` in the prompt was not read: it may contain secrets"),
        "{notes:?}"
    );
    for name in names {
        let filtering = FileFiltering::default();
        let parts = injected(name.to_owned(), &workspace, &filtering, &CancellationToken::new());
        let injected: String = parts.unwrap_or_default().iter().filter_map(Part::spoken_text).collect();
        assert!(!injected.contains("TOP-SECRET"), "{name}: {injected}");
    }
}
