use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::Redaction;
use pollux_domain::editor::EditorView as _;
use pollux_exec::background::Background;
use pollux_ide::{Companion, CompanionSetup, CompanionStatus, DiffAnswer, Surroundings, Unreachable};
use pollux_test_support::FakeCompanion;
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Scene {
    pub(crate) dir: TempDir,
    pub(crate) work: PathBuf,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("work")).unwrap();
        let work = std::fs::canonicalize(dir.path().join("work")).unwrap();
        Self { dir, work }
    }

    pub(crate) fn companion(&self, more: &[(&str, &str)]) -> Arc<Companion> {
        let mut vars = vec![("TMPDIR".to_owned(), self.dir.path().display().to_string())];
        vars.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let uid = std::fs::metadata(self.dir.path()).unwrap().uid();
        let env = Env::new(vars, self.work.clone());
        let inside = self.work.clone();
        Companion::new(CompanionSetup {
            around: Surroundings { env, folder: self.work.clone(), uid, vouches: |_| true },
            admits: Arc::new(move |path: &Path| path.starts_with(&inside)),
            redaction: Redaction::default(),
            directory: self.work.clone(),
            background: Arc::new(Background::new(self.dir.path().join("background"))),
            version: "0.0.0".to_owned(),
            limit: PATIENCE,
        })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    fn open(&self, name: &str) -> Value {
        json!([{"path": self.file(name), "timestamp": 1, "isActive": true}])
    }
}

/// Waits until the editor shows these files.
pub(crate) async fn shows(companion: &Companion, expected: &[&Path]) {
    let mut files = companion.file_changes();
    let expected: Vec<&str> = expected.iter().map(|path| path.to_str().unwrap()).collect();
    let shown = files
        .wait_for(|files| files.as_ref().is_some_and(|files| files.paths().eq(expected.iter().copied())));
    tokio::time::timeout(PATIENCE, shown).await.expect("never shown").unwrap();
}

pub(crate) fn connected() -> CompanionStatus {
    CompanionStatus::Connected { editor: "VS Code".to_owned(), shows_diffs: true }
}

#[tokio::test]
async fn open_files_arrive_and_follow_the_editor() {
    let scene = Scene::new();
    let editor = FakeCompanion::start(scene.open("a.rs"));
    editor.advertise(scene.dir.path(), &scene.work);
    let companion =
        scene.companion(&[("HTTP_PROXY", "http://127.0.0.1:1"), ("ALL_PROXY", "http://127.0.0.1:1")]);
    assert_eq!(companion.status(), CompanionStatus::Off);
    companion.connect();
    assert_eq!(companion.settled().await, connected());
    shows(&companion, &[&scene.file("a.rs")]).await;
    assert_eq!(companion.editor().unwrap().open_files, 1);

    editor.show(json!([
        {"path": scene.file("b.rs"), "timestamp": 2, "isActive": true, "selectedText": "fn b"},
        {"path": "/etc/passwd", "timestamp": 1},
    ]));
    shows(&companion, &[&scene.file("b.rs")]).await;
    let files = companion.files().unwrap();
    assert_eq!(files.active.as_ref().unwrap().selection.as_deref(), Some("fn b"));

    companion.disconnect().await;
    assert_eq!((companion.status(), companion.files()), (CompanionStatus::Off, None));
    companion.connect();
    assert_eq!(companion.settled().await, connected());
    assert_eq!(editor.refused(), 0);
}

/// Opens a change, lets the editor do something about it, and returns the answer.
async fn answer(
    companion: &Arc<Companion>,
    editor: &Arc<FakeCompanion>,
    file: &Path,
    act: impl FnOnce(&FakeCompanion) + Send + 'static,
) -> Option<DiffAnswer> {
    let count = editor.calls("openDiff").len() + 1;
    let acting = tokio::task::spawn_blocking({
        let editor = Arc::clone(editor);
        move || {
            editor.wait_for_calls("openDiff", count);
            act(&editor);
        }
    });
    let answer = tokio::time::timeout(PATIENCE, companion.open_diff(file, "new")).await.expect("no answer");
    acting.await.unwrap();
    answer
}

#[tokio::test]
async fn a_change_is_accepted_with_edits_or_rejected_or_closed() {
    let scene = Scene::new();
    let editor = Arc::new(FakeCompanion::start(json!([])));
    editor.advertise(scene.dir.path(), &scene.work);
    let companion = scene.companion(&[]);
    companion.connect();
    assert_eq!(companion.settled().await, connected());
    shows(&companion, &[]).await;
    let file = scene.file("a.rs");

    let (own, other) = (file.clone(), scene.file("other.rs"));
    let accepted = answer(&companion, &editor, &file, move |editor| {
        editor.accept(&other, "another program's");
        editor.accept(&own, "new, edited");
    });
    assert_eq!(accepted.await, Some(DiffAnswer::Accepted("new, edited".to_owned())));
    assert_eq!(editor.calls("openDiff"), [json!({"filePath": file, "newContent": "new"})]);

    let own = file.clone();
    let rejected = answer(&companion, &editor, &file, move |editor| editor.reject(&own));
    assert_eq!(rejected.await, Some(DiffAnswer::Rejected));

    editor.set_closed_text("what was typed");
    assert_eq!(companion.close_diff(&file).await.as_deref(), Some("what was typed"));
    assert_eq!(editor.calls("closeDiff")[0]["filePath"], json!(file));
}

#[tokio::test]
async fn an_editor_that_dies_is_noticed_and_one_that_comes_back_is_found() {
    let scene = Scene::new();
    let editor = FakeCompanion::start(scene.open("a.rs"));
    let file = editor.advertise(scene.dir.path(), &scene.work);
    let companion = scene.companion(&[]);
    companion.connect();
    assert_eq!(companion.settled().await, connected());
    shows(&companion, &[&scene.file("a.rs")]).await;
    let mut statuses = companion.statuses();

    let waiting = tokio::spawn({
        let (companion, file) = (Arc::clone(&companion), scene.file("a.rs"));
        async move { companion.open_diff(&file, "new").await }
    });
    drop(editor);
    std::fs::remove_file(file).unwrap();
    let is_lost = |status: &CompanionStatus| *status == CompanionStatus::Connecting;
    tokio::time::timeout(PATIENCE, statuses.wait_for(is_lost)).await.expect("never noticed").unwrap();
    assert_eq!(companion.files(), None);
    assert_eq!(waiting.await.unwrap(), None, "nobody will answer");

    let editor = FakeCompanion::start(scene.open("b.rs"));
    editor.advertise(scene.dir.path(), &scene.work);
    let is_back = |status: &CompanionStatus| *status == connected();
    tokio::time::timeout(PATIENCE, statuses.wait_for(is_back)).await.expect("never found").unwrap();
    shows(&companion, &[&scene.file("b.rs")]).await;
}

#[tokio::test]
async fn reasons_are_named() {
    let scene = Scene::new();
    let companion = scene.companion(&[]);
    companion.connect();
    assert_eq!(companion.settled().await, CompanionStatus::Failed(Unreachable::NoCompanion));

    // The token of another companion is not accepted, and this one has no other.
    let editor = FakeCompanion::start(json!([]));
    let port = editor.port().to_string();
    let work = scene.work.display().to_string();
    let vars = [
        ("GEMINI_CLI_IDE_SERVER_PORT", port.as_str()),
        ("GEMINI_CLI_IDE_WORKSPACE_PATH", work.as_str()),
        ("GEMINI_CLI_IDE_AUTH_TOKEN", "wrong-token"),
        ("TERM_PROGRAM", "vscode"),
    ];
    let companion = scene.companion(&vars);
    companion.connect();
    let CompanionStatus::Failed(why) = companion.settled().await else { panic!() };
    let text = why.to_string();
    assert!(text.starts_with("could not connect to the companion extension of VS Code"), "{text}");
    assert!(!text.contains("wrong-token") && !text.contains("pollux mcp auth"), "{text}");
    assert!(editor.refused() > 0);

    let right = vars.map(|(name, value)| (name, if value == "wrong-token" { editor.token() } else { value }));
    let companion = scene.companion(&right);
    companion.connect();
    assert_eq!(companion.settled().await, connected());
}

#[tokio::test]
async fn a_companion_without_diffs_still_reports_files() {
    let scene = Scene::new();
    let editor = FakeCompanion::with_tools(scene.open("a.rs"), &[]);
    editor.advertise(scene.dir.path(), &scene.work);
    let companion = scene.companion(&[]);
    companion.connect();
    let expected = CompanionStatus::Connected { editor: "VS Code".to_owned(), shows_diffs: false };
    assert_eq!(companion.settled().await, expected);
    shows(&companion, &[&scene.file("a.rs")]).await;
}
