use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

use pollux_domain::tool::{Effect, ToolErrorKind, ToolOutcome};
use pollux_tools::{Workspace, WorkspaceSetup, check_added_directories};
use serde_json::json;

use crate::bench::{Bench, put, text_of};

const OUTSIDE: &str = "Path not in workspace: Attempted path \"";
const CLOSED: &str = "Path is protected: \"";

#[tokio::test]
async fn no_spelling_of_a_path_leaves_the_workspace() {
    let bench = Bench::new();
    let outside = bench.base().join("outside");
    put(&outside.join("secret"), "s");
    fs::create_dir(bench.path("sub")).unwrap();
    symlink(&outside, bench.path("link")).unwrap();
    symlink("../outside/secret", bench.path("file-link")).unwrap();
    symlink(outside.join("new-file"), bench.path("dangling")).unwrap();
    symlink("link", bench.path("chain")).unwrap();
    let cases = [
        "../outside/secret".to_owned(),
        outside.join("secret").display().to_string(),
        "sub/../../outside/secret".to_owned(),
        "link/secret".to_owned(),
        "file-link".to_owned(),
        "dangling".to_owned(),
        "chain/secret".to_owned(),
        "link/deep/new".to_owned(),
        format!("file://{}", outside.join("secret").display()),
        format!("/proc/self/root{}", outside.join("secret").display()),
        "/etc/passwd".to_owned(),
        "@/../outside/secret".to_owned(),
    ];
    for path in cases {
        for (tool, args) in [
            ("read_file", json!({"file_path": path})),
            ("write_file", json!({"file_path": path, "content": "x"})),
            ("replace", json!({"file_path": path, "instruction": "i", "old_string": "s", "new_string": "t"})),
            ("list_directory", json!({"dir_path": path})),
        ] {
            let refusal = bench.refusal(tool, args);
            assert!(refusal.starts_with(OUTSIDE), "{tool} {path}: {refusal}");
        }
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[tokio::test]
async fn a_folder_opened_for_reading_can_be_read_and_searched_but_not_written() {
    let bench = Bench::new();
    let skill = bench.base().join("outside/skill");
    put(&skill.join("references/a.md"), "needle");
    put(&bench.base().join("outside/secret"), "needle");
    symlink("../secret", skill.join("way-out")).unwrap();
    let file = skill.join("references/a.md").display().to_string();
    assert!(bench.refusal("read_file", json!({"file_path": file})).starts_with(OUTSIDE));
    bench.setup.workspace.open_for_reading(&skill);
    for (tool, args) in [
        ("read_file", json!({"file_path": file})),
        ("grep_search", json!({"pattern": "needle", "dir_path": skill.display().to_string()})),
        ("list_directory", json!({"dir_path": skill.display().to_string()})),
    ] {
        let ToolOutcome::Done(output) = bench.call(tool, args).await else { panic!("{tool}") };
        let text = text_of(&output.parts);
        assert!(text.contains("needle") || text.contains("references"), "{tool}: {text}");
        assert!(!text.contains("secret"), "{tool}: {text}");
    }
    for path in ["../secret", "way-out"] {
        let path = skill.join(path).display().to_string();
        assert!(bench.refusal("read_file", json!({"file_path": path})).starts_with(OUTSIDE), "{path}");
    }
    let written = bench.call("write_file", json!({"file_path": file, "content": "x"})).await;
    let ToolOutcome::Failed(failure) = written else { panic!("{written:?}") };
    assert!(failure.message.contains("read-only"), "{}", failure.message);
    assert_eq!(fs::read_to_string(&file).unwrap(), "needle");
}

#[tokio::test]
async fn the_refusal_names_the_allowed_directories() {
    let bench = Bench::new();
    let base = bench.base();
    assert_eq!(
        bench.refusal("read_file", json!({"file_path": "/etc/hosts"})),
        format!(
            "Path not in workspace: Attempted path \"/etc/hosts\" resolves outside the allowed workspace \
             directories: {} or the project temp directory: {}",
            base.join("project").display(),
            base.join("home/.gemini/tmp/p").display()
        )
    );
}

#[tokio::test]
async fn the_refusal_of_a_link_names_its_target() {
    let bench = Bench::new();
    symlink("/etc/hosts", bench.path("hosts")).unwrap();
    fs::create_dir(bench.path("src")).unwrap();
    symlink("src", bench.path(".git")).unwrap();
    let target = fs::canonicalize("/etc/hosts").unwrap();
    let refusal = bench.refusal("read_file", json!({"file_path": "hosts"}));
    assert!(refusal.starts_with(&format!("{OUTSIDE}{}\"", target.display())), "{refusal}");
    let refusal = bench.refusal("list_directory", json!({"dir_path": ".git"}));
    assert!(refusal.starts_with(&format!("{CLOSED}{}\"", bench.path(".git").display())), "{refusal}");
    // A closed name that leads outside is outside.
    symlink("/etc/hosts", bench.path(".env")).unwrap();
    let refusal = bench.refusal("read_file", json!({"file_path": ".env"}));
    assert!(refusal.starts_with(&format!("{OUTSIDE}{}\"", target.display())), "{refusal}");
}

#[tokio::test]
async fn protected_names_stay_closed_through_links() {
    let bench = Bench::new();
    bench.write(".git/config", "x");
    bench.write(".env", "x");
    bench.write("node_modules/a/b.js", "x");
    symlink(".git", bench.path("git-link")).unwrap();
    for path in
        [".git/config", ".env", ".ENV", "node_modules/a/b.js", "git-link/config", "sub/gha-creds-x.json"]
    {
        for (tool, args) in [
            ("read_file", json!({"file_path": path})),
            ("write_file", json!({"file_path": path, "content": "x"})),
            ("replace", json!({"file_path": path, "instruction": "i", "old_string": "x", "new_string": "y"})),
            ("list_directory", json!({"dir_path": path})),
            ("grep_search", json!({"pattern": "x", "dir_path": path})),
            ("glob", json!({"pattern": "*", "dir_path": path})),
        ] {
            let refusal = bench.refusal(tool, args);
            assert!(refusal.starts_with(CLOSED), "{tool} {path}: {refusal}");
            assert!(refusal.contains("is closed to file tools because it "), "{tool} {path}: {refusal}");
        }
    }
    let refusal = bench.refusal("read_file", json!({"file_path": "git-link/config"}));
    assert!(refusal.contains("/.git/config\" is in the workspace, but `.git` is closed"), "{refusal}");
    assert!(bench.prepare("read_file", json!({"file_path": ".gitignore"})).is_ok());
}

#[tokio::test]
async fn odd_characters_are_refused() {
    let bench = Bench::new();
    for path in ["a\nb", "a\tb", "a\u{0}b", "a\rb"] {
        assert_eq!(
            bench.refusal("read_file", json!({"file_path": path})),
            "Invalid path: Path contains invalid characters (newlines or control characters)."
        );
    }
    let long = "x/".repeat(5000);
    assert!(bench.refusal("read_file", json!({"file_path": long})).starts_with("Invalid path: "));
    symlink("loop", bench.path("loop")).unwrap();
    assert!(bench.refusal("read_file", json!({"file_path": "loop"})).starts_with("Invalid path: "));
}

#[tokio::test]
async fn links_that_stay_inside_are_followed_and_survive_writing() {
    let bench = Bench::new();
    let target = bench.write("real/a.txt", "old");
    symlink("real", bench.path("dir")).unwrap();
    symlink("real/a.txt", bench.path("a.txt")).unwrap();
    let call = bench.prepare("write_file", json!({"file_path": "a.txt", "content": "new"})).unwrap();
    assert_eq!(call.effect(), Effect::Edit(target));
    bench.run(call).await;
    assert_eq!(bench.bytes("real/a.txt"), b"new");
    assert!(bench.path("a.txt").symlink_metadata().unwrap().is_symlink());
    bench.done("write_file", json!({"file_path": "dir/b.txt", "content": "b"})).await;
    assert_eq!(bench.bytes("real/b.txt"), b"b");
}

#[tokio::test]
async fn a_link_swapped_in_after_the_check_is_not_followed() {
    let bench = Bench::new();
    let outside = bench.base().join("outside");
    put(&outside.join("a.txt"), "secret");
    bench.write("dir/a.txt", "mine");
    let read = bench.prepare("read_file", json!({"file_path": "dir/a.txt"})).unwrap();
    let write = bench.prepare("write_file", json!({"file_path": "dir/a.txt", "content": "x"})).unwrap();
    let create = bench.prepare("write_file", json!({"file_path": "dir/new.txt", "content": "x"})).unwrap();
    let edit =
        json!({"file_path": "dir/a.txt", "instruction": "i", "old_string": "secret", "new_string": "x"});
    let edit = bench.prepare("replace", edit).unwrap();
    let list = bench.prepare("list_directory", json!({"dir_path": "dir"})).unwrap();
    let shell =
        bench.prepare("run_shell_command", json!({"command": "cat a.txt", "dir_path": "dir"})).unwrap();
    fs::rename(bench.path("dir"), bench.path("moved")).unwrap();
    symlink(&outside, bench.path("dir")).unwrap();
    for call in [read, write, create, edit, list, shell] {
        let what = call.describe();
        let pollux_domain::tool::ToolOutcome::Failed(failure) = bench.run(call).await else {
            panic!("{what}")
        };
        assert_eq!(failure.kind, ToolErrorKind::PathNotInWorkspace, "{what}: {}", failure.message);
    }
    assert_eq!(fs::read(outside.join("a.txt")).unwrap(), b"secret");
    assert!(!outside.join("new.txt").exists());
}

#[tokio::test]
async fn special_files_are_refused_without_blocking() {
    let bench = Bench::new();
    assert!(Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap().success());
    let _socket = UnixListener::bind(bench.path("socket")).unwrap();
    for name in ["pipe", "socket"] {
        let (kind, message) = bench.failure("read_file", json!({"file_path": name})).await;
        assert_eq!(kind, ToolErrorKind::ReadContentFailure);
        assert!(message.contains("not a regular file"), "{message}");
        let (kind, message) = bench.failure("write_file", json!({"file_path": name, "content": "x"})).await;
        assert_eq!(kind, ToolErrorKind::FileWriteFailure);
        assert!(message.contains("not a regular file"), "{message}");
    }
    bench.write("a.txt", "needle");
    let found = bench.text("grep_search", json!({"pattern": "needle"})).await;
    assert!(found.starts_with("Found 1 match "), "{found}");
}

#[tokio::test]
async fn the_temp_folder_and_the_global_context_file_are_open() {
    let bench = Bench::new();
    let temp = bench.base().join("home/.gemini/tmp/p/notes.txt");
    bench.done("write_file", json!({"file_path": temp, "content": "n"})).await;
    assert_eq!(bench.text("read_file", json!({"file_path": temp})).await, "n");
    let context = bench.base().join("home/.gemini/GEMINI.md");
    bench.done("write_file", json!({"file_path": context, "content": "g"})).await;
    assert_eq!(fs::read(&context).unwrap(), b"g");
    let settings = bench.base().join("home/.gemini/settings.json");
    assert!(bench.refusal("read_file", json!({"file_path": settings})).starts_with(OUTSIDE));
    let inbox = bench.base().join("home/.gemini/tmp/p/memory/.inbox/x");
    let refusal = bench.refusal("read_file", json!({"file_path": inbox}));
    assert!(refusal.starts_with(CLOSED) && refusal.contains("the program's own records"), "{refusal}");
}

#[test]
fn directories_are_added_and_unreadable_ones_are_reported() {
    let bench = Bench::new();
    let base = bench.base();
    let setup = |include_directories: Vec<String>| WorkspaceSetup {
        root: base.join("project"),
        include_directories,
        project_temp: base.join("t"),
        gemini_dir: base.join("home/.gemini"),
        user_home: base.join("home"),
    };
    let given =
        vec!["../outside".to_owned(), "~/.gemini".to_owned(), "/no/such".to_owned(), "../outside".to_owned()];
    let workspace = Workspace::open(&setup(given)).unwrap();
    assert_eq!(
        workspace.directories(),
        [base.join("project"), base.join("outside"), base.join("home/.gemini")]
    );
    let [warning] = workspace.warnings() else { panic!("{:?}", workspace.warnings()) };
    assert!(warning.starts_with("[WARN] Skipping unreadable directory: /no/such ("), "{warning}");
}

#[test]
fn settings_can_add_more_directories_than_the_flag() {
    let bench = Bench::new();
    let base = bench.base();
    let six: Vec<String> = (0..6).map(|n| format!("d{n}")).collect();
    six.iter().for_each(|name| fs::create_dir(base.join("project").join(name)).unwrap());
    let setup = WorkspaceSetup {
        root: base.join("project"),
        include_directories: six.clone(),
        project_temp: base.join("t"),
        gemini_dir: base.join("home/.gemini"),
        user_home: base.join("home"),
    };
    assert_eq!(Workspace::open(&setup).unwrap().directories().len(), 7);
    let error = check_added_directories(&six).unwrap_err();
    assert_eq!(error.to_string(), "`--include-directories` accepts at most 5 directories (6 given)");
    let twice: Vec<String> = six.iter().take(5).chain(six.first()).cloned().collect();
    assert!(check_added_directories(&twice).is_ok());
}
