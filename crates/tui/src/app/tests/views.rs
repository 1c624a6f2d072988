//! What every part looks like, at three sizes.
//!
//! The pictures are kept in `views/`; `UPDATE_VIEWS=1` writes them again, for a person to look at.

#![expect(clippy::disallowed_methods, reason = "pictures for tests need no care")]

use pollux_domain::event::{
    Activity, ActivityKind, CallOutcome, CallReport, CallRequest, NoticeCode, Severity, Thought,
};
use pollux_domain::panel::{Panel, PanelRow};
use pollux_domain::tool::{Display, FileDiff, LineDelta, RunFailure, ToolKind};
use serde_json::json;

use super::*;

const SIZES: [(u16, u16); 3] = [(40, 12), (80, 24), (160, 50)];

/// Plays a scene at each size and compares what is seen with what was seen before.
fn scene(name: &str, settings: &dyn Fn() -> Settings, play: &dyn Fn(&mut Stage)) {
    let mut picture = String::new();
    for (columns, rows) in SIZES {
        let mut stage = Stage::with(settings(), columns, rows);
        play(&mut stage);
        picture.push_str(&format!("== {columns} x {rows}\n{}\n", stage.shown()));
    }
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/app/tests/views/{name}.txt"));
    if std::env::var_os("UPDATE_VIEWS").is_some() {
        std::fs::write(&file, &picture).expect("the picture can be written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(picture, kept, "{name} looks different; UPDATE_VIEWS=1 keeps the new look");
}

fn usual() -> Settings {
    Settings { theme: Theme::no_colour(), ..Settings::default() }
}

fn call(id: &str, name: &str, args: serde_json::Value) -> Event {
    let args = args.as_object().cloned().unwrap_or_default();
    Event::CallRequested(Arc::new(CallRequest::new(CallId::from_file(id), name, args)))
}

fn started(id: &str) -> Event {
    Event::CallStarted { call: CallId::from_file(id) }
}

pub(super) fn ended(id: &str, name: &str, outcome: CallOutcome, display: Display) -> CallReport {
    let lines = match &display {
        Display::Diff(_) => LineDelta { added: 1, removed: 1 },
        _ => LineDelta::default(),
    };
    CallReport {
        call: CallId::from_file(id),
        name: name.to_owned(),
        kind: ToolKind::Execute,
        args: JsonObject::new(),
        outcome,
        display,
        lines,
        duration: Duration::ZERO,
        decision: None,
        answer: String::new(),
        prompt_id: String::new(),
        paths: Vec::new(),
        parts: Vec::new(),
        sandbox: None,
        permit: None,
    }
}

fn diff() -> Display {
    Display::Diff(Box::new(FileDiff {
        unified: "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n".to_owned(),
        file_name: "a.txt".to_owned(),
        path: PathBuf::from("/p/a.txt"),
        before: Some("one\ntwo\nthree\n".to_owned()),
        after: "one\n2\nthree\n".to_owned(),
        stat: Default::default(),
    }))
}

fn begin(stage: &mut Stage) {
    stage.app.signed_in("Authenticated with gemini-api-key /auth");
    let now = stage.now;
    stage.app.begin_turn("change two to 2", false, now);
}

#[test]
fn the_greeting() {
    scene("greeting", &usual, &|stage| {
        stage.app.footer = Footer {
            workspace: "~/work/project".to_owned(),
            branch: "main".to_owned(),
            sandbox: "no sandbox".to_owned(),
            model: "gemini-3-pro-preview".to_owned(),
            ..Footer::default()
        };
        stage.app.facts.context = "1 GEMINI.md file · 1 MCP server · 2 skills".to_owned();
        stage.app.signed_in("Authenticated with gemini-api-key /auth");
    });
}

#[test]
fn the_footer_with_everything() {
    scene("footer", &|| Settings { vim: true, ..usual() }, &|stage| {
        stage.app.footer = Footer {
            items: FooterItem::ALL.iter().map(|(item, ..)| *item).collect(),
            workspace: "~/a/very/long/path/to/a/project".to_owned(),
            branch: "feature/long-name".to_owned(),
            sandbox: "untrusted".to_owned(),
            model: "gemini-3-pro-preview".to_owned(),
            context_used: Some(42),
            quota: "80%".to_owned(),
            memory: "21 MB".to_owned(),
            machine: "box".to_owned(),
            ..Footer::default()
        };
        stage.app.facts.session = "0f3b".to_owned();
        stage.app.facts.auth = "gemini-api-key".to_owned();
    });
}

#[test]
fn a_turn_with_an_answer() {
    scene("answer", &usual, &|stage| {
        begin(stage);
        let text =
            "# Done\n\nThe **second** line is `2` now:\n\n```rust\nfn main() {}\n```\n\n- one\n- two\n\n";
        stage.event(Event::Text(text.to_owned()));
        stage.event(Event::Text("| a | b |\n|---|---|\n| 1 | 日本 |\n".to_owned()));
        stage.event(Event::StepCommitted);
        stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    });
}

#[test]
fn work_under_way() {
    scene("work", &usual, &|stage| {
        begin(stage);
        stage.event(Event::Thought(Thought { subject: "Reading".to_owned(), description: String::new() }));
        stage.event(call("1", "run_shell_command", json!({"command": "make test"})));
        stage.event(started("1"));
        let text: String = (1..=40).map(|number| format!("test {number} ... ok\n")).collect();
        stage.event(Event::CallOutput { call: CallId::from_file("1"), text });
        stage.now += Duration::from_secs(75);
        stage.write("then commit");
        stage.enter();
    });
}

#[test]
fn calls_that_are_over() {
    scene("calls", &usual, &|stage| {
        begin(stage);
        let mut over = |id: &str, name: &str, args, outcome, display| {
            stage.event(call(id, name, args));
            stage.event(Event::CallFinished(Arc::new(ended(id, name, outcome, display))));
        };
        let (good, bad) = (CallOutcome::Succeeded, CallOutcome::Failed(RunFailure::ExitCode(1).into()));
        over("1", "read_file", json!({"file_path": "a.txt"}), good.clone(), Display::Nothing);
        over("2", "replace", json!({"file_path": "a.txt"}), good.clone(), diff());
        over("3", "run_shell_command", json!({"command": "false"}), bad, Display::Text("exit 1".to_owned()));
        let items = vec!["a".to_owned(), "b".to_owned()];
        let listed = Display::List { summary: "2 items".to_owned(), items };
        over("4", "list_directory", json!({"dir_path": "src"}), good, listed);
        stage.event(Event::TurnEnded(TurnEnd::Cancelled));
    });
}

#[test]
fn a_sub_agent_at_work() {
    scene("agent", &usual, &|stage| {
        begin(stage);
        stage.event(call("1", "invoke_agent", json!({"agent_name": "reviewer"})));
        stage.event(started("1"));
        let mut happens = |what| {
            let call = CallId::from_file("1");
            stage.event(Event::Activity(Arc::new(Activity { call, agent: "reviewer".to_owned(), what })));
        };
        happens(ActivityKind::Thought("Looking for the tests".to_owned()));
        for number in 1..=20 {
            happens(ActivityKind::CallStarted {
                call: CallId::from_file(format!("s{number}")),
                name: "read_file".to_owned(),
                display_name: "ReadFile".to_owned(),
                description: format!("file{number}.rs"),
                args: JsonObject::new(),
            });
        }
    });
}

#[test]
fn todos_open_and_shut() {
    for (name, open) in [("todos", false), ("todos-open", true)] {
        scene(name, &usual, &|stage| {
            begin(stage);
            let todos = json!({"todos": [
                {"description": "first", "status": "completed"},
                {"description": "second", "status": "in_progress"},
                {"description": "third", "status": "pending"},
            ]});
            let mut report = ended("1", "write_todos", CallOutcome::Succeeded, Display::Nothing);
            report.args = todos.as_object().cloned().unwrap_or_default();
            stage.event(Event::CallFinished(Arc::new(report)));
            if open {
                stage.press(KeyCode::Char('t'), KeyModifiers::CONTROL);
            }
        });
    }
}

#[test]
fn notices_and_a_toast() {
    scene("notices", &usual, &|stage| {
        stage.app.signed_in("Authenticated with gemini-api-key /auth");
        let long = "Something to think about, in words that are longer than a narrow window is wide.";
        for (severity, text) in [
            (Severity::Info, "Something to know."),
            (Severity::Warning, long),
            (Severity::Error, "Something went wrong."),
        ] {
            stage.event(Event::Notice { severity, code: NoticeCode::Model, message: text.to_owned() });
        }
        stage.press(KeyCode::Char('c'), KeyModifiers::CONTROL);
    });
}

#[test]
fn the_modes() {
    for mode in [ApprovalMode::AutoEdit, ApprovalMode::Plan, ApprovalMode::Yolo] {
        scene(&format!("mode-{mode}"), &usual, &|stage| {
            stage.app.signed_in("");
            stage.event(Event::ModeChanged { mode, by: None });
        });
    }
    scene("mode-shell", &usual, &|stage| {
        stage.app.signed_in("");
        stage.write("!");
    });
}

#[test]
fn a_question() {
    scene("question", &usual, &|stage| {
        begin(stage);
        stage.event(call("1", "run_shell_command", json!({"command": "rm -rf build"})));
        stage.event(wanted("rm -rf build"));
    });
}

#[test]
fn figures() {
    scene("figures", &usual, &|stage| {
        stage.app.signed_in("");
        let table = vec![
            ["Model", "Reqs", "Input Tokens"].map(str::to_owned).to_vec(),
            ["gemini-3-pro-preview", "12", "123,456"].map(str::to_owned).to_vec(),
            ["  ↳ main", "10", "120,000"].map(str::to_owned).to_vec(),
        ];
        let bars = vec![("1".to_owned(), 100, "100".to_owned()), ("2".to_owned(), 750, "750".to_owned())];
        let rows = vec![
            PanelRow::Heading("Interaction Summary".to_owned()),
            PanelRow::Pair("Session ID:".to_owned(), "0f3b".to_owned()),
            PanelRow::Blank,
            PanelRow::Table(table),
            PanelRow::Bars(bars),
        ];
        let panel = Panel { title: "Agent powering down. Goodbye!".to_owned(), rows };
        stage.app.say(Item::Panel(Box::new(panel)));
    });
}

#[test]
fn the_whole_screen() {
    let settings = || Settings { alternate: true, ..usual() };
    let play = |stage: &mut Stage| {
        begin(stage);
        let text: String = (1..=60).map(|number| format!("- item {number}\n")).collect();
        stage.event(Event::Text(text));
        stage.event(Event::StepCommitted);
        stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    };
    scene("whole", &settings, &play);
    scene("whole-scrolled", &settings, &|stage| {
        play(stage);
        stage.press(KeyCode::PageUp, KeyModifiers::NONE);
    });
}
