//! The shadow repository with a real git.

use std::process::Command;
use std::sync::Arc;

use pollux_exec::background::Background;
use pollux_rewind::shadow::{ShadowError, ShadowRepository, ShadowSetup};
use tokio_util::sync::CancellationToken;

use crate::workspace::{Workspace, command};

fn setup(workspace: &Workspace, git: &str) -> ShadowSetup {
    ShadowSetup {
        folder: workspace.folder.path().join("history/project"),
        root: workspace.root(),
        environment: vec![
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("GIT_DIR".to_owned(), "/nowhere".to_owned()),
        ],
        git: git.into(),
    }
}

async fn open(workspace: &Workspace, git: &str) -> Result<ShadowRepository, ShadowError> {
    let background = Arc::new(Background::new(workspace.folder.path().join("logs")));
    ShadowRepository::open(setup(workspace, git), background, &CancellationToken::new()).await
}

fn shadow_git(workspace: &Workspace, arguments: &[&str]) -> String {
    let mut git: Command = command("git", &workspace.root());
    git.env("GIT_DIR", workspace.folder.path().join("history/project/.git"));
    let output = git.env("GIT_WORK_TREE", workspace.root()).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_snapshot_is_committed_outside_the_project_and_restored() {
    let workspace = Workspace::empty();
    let cancel = CancellationToken::new();
    workspace.write("a.txt", "one");
    workspace.write(".gitignore", "*.log\n");
    workspace.write("debug.log", "log");
    let shadow = open(&workspace, "git").await.unwrap();
    let first = shadow.snapshot("write_file", &cancel).await.unwrap();
    assert_eq!(shadow.snapshot("replace", &cancel).await.unwrap(), first, "nothing changed, no new commit");
    workspace.write("a.txt", "two");
    workspace.write("new.txt", "new");
    workspace.write("debug.log", "more");
    shadow.restore(&first, &cancel).await.unwrap();
    assert_eq!(workspace.read("a.txt").as_deref(), Some("one"));
    assert_eq!(workspace.read("new.txt"), None);
    assert_eq!(workspace.read("debug.log").as_deref(), Some("more"), "git does not know ignored files");
    assert!(!workspace.root().join(".git").exists());
    let log = shadow_git(&workspace, &["log", "--format=%s by %an <%ae>", "main"]);
    let who = "by Gemini CLI <gemini-cli@google.com>";
    assert_eq!(log, format!("Snapshot for write_file {who}\nInitial commit {who}\n"));
}

#[tokio::test]
async fn an_existing_shadow_repository_is_used_again() {
    let workspace = Workspace::empty();
    let cancel = CancellationToken::new();
    workspace.write("a.txt", "one");
    let first = open(&workspace, "git").await.unwrap().snapshot("replace", &cancel).await.unwrap();
    workspace.write("a.txt", "two");
    open(&workspace, "git").await.unwrap().restore(&first, &cancel).await.unwrap();
    assert_eq!(workspace.read("a.txt").as_deref(), Some("one"));
}

#[tokio::test]
async fn replaced_and_deleted_files_are_restored() {
    let workspace = Workspace::empty();
    let cancel = CancellationToken::new();
    let shadow = open(&workspace, "git").await.unwrap();
    workspace.write("file", "a file");
    workspace.write("folder/inner", "in a folder");
    workspace.write("gone", "deleted later");
    workspace.write("moved/inner", "behind a link later");
    let first = shadow.snapshot("replace", &cancel).await.unwrap();
    std::fs::remove_file(workspace.root().join("file")).unwrap();
    std::fs::remove_file(workspace.root().join("gone")).unwrap();
    std::fs::remove_dir_all(workspace.root().join("folder")).unwrap();
    workspace.write("file/inner", "a folder now");
    workspace.write("folder", "a file now");
    std::fs::rename(workspace.root().join("moved"), workspace.root().join("target")).unwrap();
    workspace.write("target/inner", "changed");
    std::os::unix::fs::symlink("target", workspace.root().join("moved")).unwrap();
    let second = shadow.snapshot("replace", &cancel).await.unwrap();
    assert_eq!(
        shadow_git(&workspace, &["ls-tree", "-r", "--name-only", &second]),
        "file/inner\nfolder\nmoved\ntarget/inner\n"
    );
    shadow.restore(&first, &cancel).await.unwrap();
    let read = |name: &str| workspace.read(name).unwrap();
    let found = ["file", "folder/inner", "gone", "moved/inner"].map(read);
    assert_eq!(found, ["a file", "in a folder", "deleted later", "behind a link later"]);
    assert!(!workspace.root().join("target").exists());
}

#[tokio::test]
async fn no_program_of_a_repository_in_the_project_runs() {
    let workspace = Workspace::empty();
    let cancel = CancellationToken::new();
    workspace.write("inner/file", "one");
    let marker = workspace.folder.path().join("ran");
    workspace.write("run", &format!("#!/bin/sh\necho \"$0\" >>'{}'\n", marker.display()));
    let run = workspace.root().join("run");
    std::fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let inner = workspace.root().join("inner");
    let git = |arguments: &[&str]| {
        let mut git = command("git", &inner);
        git.args(["-c", "user.name=x", "-c", "user.email=x"]).args(arguments);
        assert!(git.status().unwrap().success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "inner"]);
    let program = run.to_string_lossy().into_owned();
    git(&["config", "core.fsmonitor", &program]);
    git(&["config", "filter.x.clean", &program]);
    workspace.write("inner/.gitattributes", "* filter=x\n");
    workspace.write("inner/file", "two");
    std::fs::create_dir_all(inner.join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(&run, inner.join(".git/hooks/post-index-change")).unwrap();
    let shadow = open(&workspace, "git").await.unwrap();
    // A shadow repository of before, or of gemini-cli, knows the repository.
    let inner_head = String::from_utf8(
        command("git", &inner).args(["-c", "core.fsmonitor=", "rev-parse", "HEAD"]).output().unwrap().stdout,
    );
    let entry = format!("160000,{},inner", inner_head.unwrap().trim());
    shadow_git(&workspace, &["update-index", "--add", "--cacheinfo", &entry]);
    let first = shadow.snapshot("replace", &cancel).await.unwrap();
    workspace.write("inner/file", "three");
    shadow.snapshot("replace", &cancel).await.unwrap();
    shadow.restore(&first, &cancel).await.unwrap();
    assert_eq!(workspace.read("inner/file").as_deref(), Some("three"), "it has a history of its own");
    assert!(!marker.exists(), "{:?}", std::fs::read_to_string(&marker));
    // The repository would run it.
    assert!(command("git", &inner).arg("status").output().unwrap().status.success());
    assert!(marker.exists());
}

#[tokio::test]
async fn an_unknown_commit_changes_nothing() {
    let workspace = Workspace::empty();
    let shadow = open(&workspace, "git").await.unwrap();
    workspace.write("a.txt", "kept");
    for commit in ["0123456789012345678901234567890123456789", "--source=x", ""] {
        let error = shadow.restore(commit, &CancellationToken::new()).await.unwrap_err();
        assert!(matches!(error, ShadowError::UnknownCommit(_)), "{error}");
    }
    assert_eq!(workspace.read("a.txt").as_deref(), Some("kept"));
}

#[tokio::test]
async fn the_message_for_missing_git_is_upstreams() {
    let workspace = Workspace::empty();
    let error = open(&workspace, "git-that-is-not-there").await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "Checkpointing is enabled, but Git is not installed. Please install Git or disable checkpointing to continue."
    );
}
