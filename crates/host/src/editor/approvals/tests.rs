use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use pollux_agent::Operations;
use pollux_config::env::Env;
use pollux_config::groups::Redaction;
use pollux_domain::approval::{Offer, Outcome, Why};
use pollux_domain::editor::{EditorFiles, EditorView as _};
use pollux_domain::event::{Asked, OpResult, TurnEnd};
use pollux_domain::tool::DiffStat;
use pollux_exec::background::Background;
use pollux_ide::{CompanionSetup, Surroundings};
use pollux_test_support::FakeCompanion;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::hub::{Limits, Link, Subscription};

const PATIENCE: Duration = Duration::from_secs(120);

/// A session that asks about a change whenever it is prompted, with the editor and a terminal attached.
struct Scene {
    _dir: TempDir,
    file: PathBuf,
    editor: Option<Arc<FakeCompanion>>,
    hosted: Arc<Hosted>,
    terminal: Front,
    events: Subscription,
    companion: Arc<Companion>,
}

fn question(file: &Path, text: &str) -> ApprovalRequest {
    let plain = |outcome| Offer { outcome, covers: String::new() };
    let diff = FileDiff {
        unified: String::new(),
        file_name: "a.rs".to_owned(),
        path: file.to_owned(),
        before: Some("old".to_owned()),
        after: text.to_owned(),
        stat: DiffStat::default(),
    };
    ApprovalRequest {
        call: CallId::from_file("c"),
        tool: "write_file".to_owned(),
        display_name: "WriteFile".to_owned(),
        args: json!({"file_path": file, "content": text}).as_object().cloned().unwrap(),
        subject: Subject::Edit { path: file.to_owned(), diff: Some(Box::new(diff)) },
        destroys: None,
        why: Why::default(),
        offers: vec![plain(Outcome::Once), plain(Outcome::Edit), plain(Outcome::Refuse)],
    }
}

/// Asks as the agent does: changed arguments are asked about again.
async fn ask(file: PathBuf, mut inbox: mpsc::Receiver<Asked>, events: mpsc::Sender<Event>) {
    let mut text = "new".to_owned();
    while let Some(Asked { id, by, op }) = inbox.recv().await {
        let result = OpResult::Accepted;
        let _ = events.send(Event::Acknowledged { id, by: by.clone(), result }).await;
        let settled = match op {
            Op::Prompt { .. } => {
                text = "new".to_owned();
                None
            }
            Op::Decide { call, answer } => {
                let outcome = answer.outcome();
                let _ = events.send(Event::ApprovalSettled { call, outcome, by: Some(by) }).await;
                Some(answer)
            }
            _ => continue,
        };
        if let Some(ApprovalAnswer::Edited(args)) = &settled {
            text = args["content"].as_str().unwrap().to_owned();
        }
        if matches!(settled, None | Some(ApprovalAnswer::Edited(_))) {
            let _ = events.send(Event::ApprovalWanted(Arc::new(question(&file, &text)))).await;
        } else {
            // What was written.
            let _ = events.send(Event::Text(text.clone())).await;
            let _ = events.send(Event::TurnEnded(TurnEnd::Finished(None))).await;
        }
    }
}

impl Scene {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let work = std::fs::canonicalize(dir.path()).unwrap();
        let file = work.join("a.rs");
        let editor = FakeCompanion::start(json!([]));
        editor.advertise(dir.path(), &work);
        let vars = [("TMPDIR".to_owned(), dir.path().display().to_string())];
        let uid = std::fs::metadata(dir.path()).unwrap().uid();
        let companion = Companion::new(CompanionSetup {
            around: Surroundings {
                env: Env::new(vars, work.clone()),
                folder: work.clone(),
                uid,
                vouches: |_| true,
            },
            admits: Arc::new(|_: &Path| true),
            redaction: Redaction::default(),
            directory: work.clone(),
            background: Arc::new(Background::new(dir.path().join("background"))),
            version: "0.0.0".to_owned(),
            limit: PATIENCE,
        });
        let (sender, inbox) = mpsc::channel(16);
        let (events, receiver) = mpsc::channel(256);
        let task = tokio::spawn(ask(file.clone(), inbox, events));
        let link = Link { ops: Operations::new(sender), events: receiver, task };
        let hosted = Hosted::start(link, Limits::default());
        let terminal = hosted.attach("local", Scopes::ALL).unwrap();
        let events = terminal.subscribe_alone().unwrap();
        tokio::spawn(serve(Arc::clone(&companion), Arc::downgrade(&hosted)));
        companion.connect();
        companion.settled().await;
        editor.wait_for_listeners(1);
        let mut scene =
            Self { _dir: dir, file, editor: Some(Arc::new(editor)), hosted, terminal, events, companion };
        scene.until(|event| matches!(event, Event::FrontsChanged(fronts) if fronts.len() == 2)).await;
        scene
    }

    fn editor(&self) -> &Arc<FakeCompanion> {
        self.editor.as_ref().unwrap()
    }

    /// The events up to one that fits.
    async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Vec<Arc<Event>> {
        let mut seen = Vec::new();
        loop {
            let next = tokio::time::timeout(PATIENCE, self.events.next()).await.expect("it never came");
            let Some(Delivery::Event(event)) = next else { panic!("{next:?}") };
            seen.push(Arc::clone(&event.event));
            if fits(&event.event) {
                return seen;
            }
        }
    }

    /// Prompts, and waits until the editor shows the change.
    async fn shown(&mut self) {
        let count = self.editor().calls("openDiff").len() + 1;
        self.prompt().await;
        let editor = Arc::clone(self.editor());
        tokio::task::spawn_blocking(move || editor.wait_for_calls("openDiff", count)).await.unwrap();
    }

    async fn prompt(&mut self) {
        self.terminal.ask(Op::Prompt { parts: Vec::new(), typed: "go".to_owned() }).unwrap();
        self.until(|event| matches!(event, Event::ApprovalWanted(_))).await;
    }

    /// Waits for the end of the turn: what was written, and the outcomes with those who answered.
    async fn ended(&mut self) -> (String, Vec<(Outcome, String)>) {
        let seen = self.until(|event| matches!(event, Event::TurnEnded(_))).await;
        let settled = seen.iter().filter_map(|event| match &**event {
            Event::ApprovalSettled { outcome, by, .. } => Some((*outcome, by.as_ref()?.to_string())),
            _ => None,
        });
        let written = seen.iter().find_map(|event| match &**event {
            Event::Text(text) => Some(text.clone()),
            _ => None,
        });
        (written.unwrap(), settled.collect())
    }

    fn decide(&self, answer: ApprovalAnswer) -> bool {
        self.terminal.ask(Op::Decide { call: CallId::from_file("c"), answer }).is_ok()
    }
}

fn by(name: &str, outcome: Outcome) -> (Outcome, String) {
    (outcome, name.to_owned())
}

#[tokio::test]
async fn a_change_accepted_in_the_editor_runs_with_the_edits_made_there() {
    let mut scene = Scene::new().await;
    scene.shown().await;
    scene.editor().accept(&scene.file, "new");
    assert_eq!(scene.ended().await, ("new".to_owned(), vec![by("editor", Outcome::Once)]));

    scene.shown().await;
    scene.editor().accept(&scene.file, "new, edited");
    let (written, settled) = scene.ended().await;
    assert_eq!(written, "new, edited");
    assert_eq!(settled, [by("editor", Outcome::Edit), by("editor", Outcome::Once)]);
    assert_eq!(scene.editor().calls("openDiff").len(), 2, "what the user typed is not shown again");

    scene.shown().await;
    scene.editor().reject(&scene.file);
    assert_eq!(scene.ended().await.1, [by("editor", Outcome::Refuse)]);
}

#[tokio::test]
async fn an_answer_in_the_terminal_closes_the_change_in_the_editor() {
    let mut scene = Scene::new().await;
    scene.editor().set_closed_text("typed but not accepted");
    scene.shown().await;
    assert!(scene.decide(ApprovalAnswer::Once));
    let (written, settled) = scene.ended().await;
    assert_eq!((written.as_str(), settled), ("new", vec![by("local", Outcome::Once)]));
    let seen = scene.until(|event| matches!(event, Event::Notice { .. })).await;
    let Some(Event::Notice { message, .. }) = seen.last().map(|event| &**event) else { panic!() };
    assert_eq!(message, "The edits to a.rs in the editor's diff view were not used.");
    assert_eq!(scene.editor().calls("closeDiff").len(), 1);
    // Too late: nothing is open.
    scene.editor().accept(&scene.file, "late");
    // What comes after it is there, so it was heard.
    scene.editor().show(json!([{"path": scene.file, "timestamp": 1, "isActive": true}]));
    let shows_file = |files: Arc<EditorFiles>| files.active.is_some();
    while !scene.companion.files().is_some_and(shows_file) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    scene.shown().await;
    assert!(scene.decide(ApprovalAnswer::Once));
    assert_eq!(scene.ended().await.0, "new");
}

#[tokio::test]
async fn of_two_answers_at_once_one_counts() {
    let mut scene = Scene::new().await;
    scene.shown().await;
    scene.editor().accept(&scene.file, "new");
    let own = scene.decide(ApprovalAnswer::Refuse("no".to_owned()));
    let (_, settled) = scene.ended().await;
    let expected = if own { by("local", Outcome::Refuse) } else { by("editor", Outcome::Once) };
    assert_eq!(settled, [expected]);
}

#[tokio::test]
async fn the_terminal_still_asks_when_the_editor_dies() {
    let mut scene = Scene::new().await;
    scene.shown().await;
    scene.editor = None;
    scene.until(|event| matches!(event, Event::FrontsChanged(fronts) if fronts.len() == 1)).await;
    assert_eq!(scene.hosted.snapshot().questions.len(), 1);
    assert!(scene.decide(ApprovalAnswer::Once));
    assert_eq!(scene.ended().await.1, [by("local", Outcome::Once)]);
    scene.companion.disconnect().await;
}
