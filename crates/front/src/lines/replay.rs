//! Plain lines need nothing but the event log of a session.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_config::env::Env;
use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalMode, Outcome};
use pollux_domain::event::{
    CallFailure, CallOutcome, CallReport, CallRequest, Compressed, CompressionStatus, Event, HookReport,
    NoticeCode, Permit, Severity, TurnEnd,
};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::path_display::PathDisplay;
use pollux_domain::sync::Locked as _;
use pollux_domain::tool::{Display, LineDelta, ToolErrorKind, ToolKind};
use pollux_host::request::Request;
use pollux_output::Console;
use serde_json::{Value, json};

use super::printer::{LineOutput, LinePrinter};
use crate::presentation::early_style;

/// Everything that is printed, on stdout and stderr, in its order.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.locked().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn args(value: Value) -> JsonObject {
    value.as_object().cloned().expect("an object")
}

fn finished(id: &str, name: &str, given: Value, outcome: CallOutcome, display: Display) -> Event {
    Event::CallFinished(Arc::new(CallReport {
        call: CallId::from_file(id),
        name: name.to_owned(),
        kind: ToolKind::Execute,
        args: args(given),
        outcome,
        display,
        lines: LineDelta::default(),
        duration: Duration::from_millis(5),
        decision: None,
        answer: String::new(),
        prompt_id: String::new(),
        paths: Vec::new(),
        parts: Vec::new(),
        sandbox: None,
        permit: Some(Permit::Mode(ApprovalMode::Default)),
    }))
}

/// Two turns: one reads a file and runs a command, one is cancelled after a change of mode.
fn session() -> Vec<Event> {
    let read = json!({"file_path": "/w/src/cart.py"});
    let hook = HookReport {
        event: "SessionStart".to_owned(),
        hook: "greeter".to_owned(),
        duration: Duration::ZERO,
        exit_code: Some(0),
        error: None,
        input: JsonObject::new(),
        output: JsonObject::new(),
        stdout: String::new(),
        stderr: String::new(),
        message: Some("hello".to_owned()),
        suppressed: false,
    };
    vec![
        Event::SessionReady {
            session: SessionId::from_file("s"),
            model: "pro-1".to_owned(),
            resolved: "pro-1".to_owned(),
            roots: Vec::new(),
        },
        Event::HookRan(Arc::new(hook)),
        Event::Notice {
            severity: Severity::Warning,
            code: NoticeCode::Workspace,
            message: "a folder is missing".to_owned(),
        },
        Event::Text("I read ".to_owned()),
        Event::Text("the file.\n".to_owned()),
        Event::StepCommitted,
        Event::CallRequested(Arc::new(CallRequest::new(
            CallId::from_file("1"),
            "read_file",
            args(read.clone()),
        ))),
        Event::CallStarted { call: CallId::from_file("1") },
        finished("1", "read_file", read, CallOutcome::Succeeded, Display::Text("12 lines".to_owned())),
        Event::ApprovalSettled { call: CallId::from_file("2"), outcome: Outcome::Once, by: None },
        finished(
            "2",
            "run_shell_command",
            json!({"command": "make test", "dir_path": "/w/lib"}),
            CallOutcome::Failed(CallFailure {
                kind: ToolErrorKind::ExecutionFailed,
                message: "no rule to make target".to_owned(),
                denial: None,
                run: None,
            }),
            Display::Nothing,
        ),
        Event::Text("It fails.".to_owned()),
        Event::StepCommitted,
        Event::TurnEnded(TurnEnd::Finished(None)),
        Event::Compressed(Compressed {
            id: "compression-1".to_owned(),
            tokens_before: 9_000,
            tokens_after: 100,
            status: CompressionStatus::Compressed,
            summary: Some("short".to_owned()),
        }),
        Event::ModeChanged { mode: ApprovalMode::Yolo, by: None },
        Event::ModelChanged("flash-1".to_owned()),
        Event::Text("Again".to_owned()),
        Event::TurnEnded(TurnEnd::Cancelled),
    ]
}

/// The output of a front end that is fed these events, as the flow of a conversation does.
fn printed(events: &[Event]) -> String {
    let all = Printed::default();
    let style = early_style(&Request::default(), &Env::new([], PathBuf::from("/w")));
    let console = Console::new(style, Box::new(all.clone()), Box::new(all.clone()));
    let mut printer = LinePrinter::new(console, LineOutput::new(Box::new(all.clone())));
    printer.paths = PathDisplay { workspace: vec!["/w".into()], home: None };
    printer.sandbox = "landlock".to_owned();
    for event in events {
        printer.event(event);
        if let Event::TurnEnded(end) = event {
            printer.turn_ended(end);
        }
    }
    let bytes = all.0.locked().clone();
    String::from_utf8(bytes).expect("text")
}

#[test]
fn a_recorded_log_gives_the_output_of_its_session() {
    let live = session();
    let log: Vec<String> = live.iter().map(|event| event.to_json().to_string()).collect();
    let replayed: Vec<Event> = log
        .iter()
        .map(|line| Event::from_json(serde_json::from_str(line).expect("JSON")).expect("an event"))
        .collect();
    assert_eq!(printed(&replayed), printed(&live));
    assert_eq!(printed(&replayed), EXPECTED);
}

const EXPECTED: &str = "\
[greeter] hello
Warning: a folder is missing
Model: I read the file.
Read src/cart.py: 12 lines
Error executing tool run_shell_command: no rule to make target
Ran make test (in lib/): failed: no rule to make target
Model: It fails.
Chat history compressed from 9000 to 100 tokens.
Mode yolo, sandbox landlock
Model flash-1
Model: Again
Request cancelled.
";
