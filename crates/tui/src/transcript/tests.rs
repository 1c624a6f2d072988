use std::sync::Arc;
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::event::{CallOutcome, CallReport, CallRequest};
use pollux_domain::tool::{Display, LineDelta, RunFailure, ToolKind};

use super::*;
use crate::theme::Theme;

fn look(theme: &Theme, width: u16) -> Look<'_> {
    Look { theme, width, box_lines: 3, line_numbers: false, raw: false, compact: true, now: Instant::now() }
}

fn take(transcript: &mut Transcript, event: &Event) {
    transcript.take(event, Instant::now());
}

fn text(lines: &[Line<'static>]) -> String {
    lines.iter().map(|line| format!("{}\n", line.to_string().trim_end())).collect()
}

fn call(id: &str, name: &str, args: &str) -> Event {
    let args: JsonObject = serde_json::from_str(args).expect("arguments");
    Event::CallRequested(Arc::new(CallRequest::new(CallId::from_file(id), name, args)))
}

fn finished(id: &str, outcome: CallOutcome, display: Display) -> Event {
    Event::CallFinished(Arc::new(CallReport {
        call: CallId::from_file(id),
        name: "run_shell_command".to_owned(),
        kind: ToolKind::Execute,
        args: JsonObject::new(),
        outcome,
        display,
        lines: LineDelta::default(),
        duration: Duration::ZERO,
        decision: None,
        answer: String::new(),
        prompt_id: String::new(),
        paths: Vec::new(),
        parts: Vec::new(),
        sandbox: None,
    }))
}

#[test]
fn an_answer_leaves_block_by_block_and_once() {
    let theme = Theme::no_colour();
    let mut transcript = Transcript::default();
    take(&mut transcript, &Event::Text("First **bold**\n\nSec".to_owned()));
    assert_eq!(text(&transcript.finished(look(&theme, 40))), "");
    take(&mut transcript, &Event::Text("ond\n\nThi".to_owned()));
    assert_eq!(text(&transcript.finished(look(&theme, 40))), "\n✦ First bold\n");
    assert_eq!(text(&transcript.live(look(&theme, 40))), "\n  Second\n\n  Thi\n");
    take(&mut transcript, &Event::StepCommitted);
    assert_eq!(text(&transcript.finished(look(&theme, 40))), "\n  Second\n\n  Thi\n");
    assert_eq!(text(&transcript.live(look(&theme, 40))), "");
    assert_eq!(transcript.answer(), "First **bold**\n\nSecond\n\nThi");
}

#[test]
fn calls_leave_in_the_order_in_which_they_began() {
    let theme = Theme::no_colour();
    let mut transcript = Transcript::default();
    take(&mut transcript, &call("1", "run_shell_command", r#"{"command":"sleep 1"}"#));
    take(&mut transcript, &call("2", "read_file", r#"{"file_path":"a.txt"}"#));
    take(&mut transcript, &finished("2", CallOutcome::Succeeded, Display::Nothing));
    assert_eq!(text(&transcript.finished(look(&theme, 40))), "");
    assert_eq!(transcript.running(), Some("Shell"));
    take(
        &mut transcript,
        &Event::CallOutput { call: CallId::from_file("1"), text: "1\n2\n3\n4\n5\n".to_owned() },
    );
    let live = text(&transcript.live(look(&theme, 40)));
    assert_eq!(
        live,
        "
╭──────────────────────────────────────╮
│ ⊷  Shell  sleep 1                    │
│ … 2 earlier lines (Ctrl+O shows them │
│ 3                                    │
│ 4                                    │
│ 5                                    │
╰──────────────────────────────────────╯

✓  ReadFile  a.txt
"
    );
    take(
        &mut transcript,
        &finished("1", CallOutcome::Failed(RunFailure::ExitCode(1).into()), Display::Text("no".to_owned())),
    );
    assert_eq!(
        text(&transcript.finished(look(&theme, 40))),
        "
╭──────────────────────────────────────╮
│ ✕  Shell  sleep 1  exit 1            │
│ no                                   │
╰──────────────────────────────────────╯

✓  ReadFile  a.txt
"
    );
}

#[test]
fn output_cannot_draw_outside_its_box() {
    let theme = Theme::no_colour();
    let mut transcript = Transcript::default();
    take(&mut transcript, &call("1", "run_shell_command", "{\"command\":\"a\\u001b[2J\\nb\"}"));
    take(
        &mut transcript,
        &Event::CallOutput {
            call: CallId::from_file("1"),
            text: "\u{1b}]0;title\u{7}x\u{1b}[1A\u{1b}[2Ky".to_owned(),
        },
    );
    let lines = transcript.live(look(&theme, 20));
    let shown = text(&lines);
    assert!(shown.chars().all(|character| character == '\n' || !character.is_control()), "{shown:?}");
    assert!(shown.contains("│ xy"), "{shown:?}");
    assert!(lines.iter().all(|line| line.width() <= 20));
}

#[test]
fn a_turn_that_ends_leaves_nothing_open() {
    let theme = Theme::no_colour();
    let mut transcript = Transcript::default();
    take(&mut transcript, &call("1", "glob", r#"{"pattern":"*"}"#));
    take(&mut transcript, &Event::TurnEnded(TurnEnd::Cancelled));
    let said = text(&transcript.finished(look(&theme, 40)));
    assert_eq!(said, "\n-  FindFiles  *\n\nℹ Request cancelled.\n");
    assert_eq!(transcript.running(), None);
}
