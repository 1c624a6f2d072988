use std::sync::Arc;
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalRequest, Subject, Why};
use pollux_domain::event::{CallOutcome, CallReport, CallRequest};
use pollux_domain::tool::{AgentEnd, DiffStat, Display, FileDiff, LineDelta, RunFailure, ToolKind};

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

fn started(id: &str) -> Event {
    Event::CallStarted { call: CallId::from_file(id) }
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
        permit: None,
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
    take(&mut transcript, &started("1"));
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
⊷  Shell  sleep 1
  │ … 2 earlier lines (Ctrl+O shows them
  │ 3
  │ 4
  │ 5

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
✕  Shell  sleep 1  exit 1
  │ no

✓  ReadFile  a.txt
"
    );
}

#[test]
fn output_cannot_draw_outside_its_rows() {
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

#[test]
fn calls_of_one_row_stand_together() {
    let theme = Theme::no_colour();
    let mut transcript = Transcript::default();
    for (id, file) in [("1", "a"), ("2", "b")] {
        take(&mut transcript, &call(id, "read_file", &format!(r#"{{"file_path":"{file}"}}"#)));
        take(&mut transcript, &finished(id, CallOutcome::Succeeded, Display::Nothing));
    }
    assert_eq!(text(&transcript.finished(look(&theme, 40))), "\n✓  ReadFile  a\n✓  ReadFile  b\n");
    take(&mut transcript, &call("3", "read_file", r#"{"file_path":"c"}"#));
    take(&mut transcript, &started("3"));
    assert_eq!(text(&transcript.live(look(&theme, 40))), "⊷  ReadFile  c\n");
    take(&mut transcript, &finished("3", CallOutcome::Succeeded, Display::Text("said".to_owned())));
    assert_eq!(text(&transcript.finished(look(&theme, 40))), "\n✓  ReadFile  c\n  │ said\n");
    transcript.push(Item::info("word"));
    assert_eq!(text(&transcript.finished(look(&theme, 40))), "\nℹ word\n");
}

#[test]
fn a_cancelled_command_keeps_what_it_printed() {
    let theme = Theme::no_colour();
    let mut transcript = Transcript::default();
    take(&mut transcript, &call("1", "run_shell_command", r#"{"command":"make"}"#));
    let printed = Event::CallOutput { call: CallId::from_file("1"), text: "one\ntwo\n".to_owned() };
    take(&mut transcript, &printed);
    take(&mut transcript, &finished("1", CallOutcome::Cancelled, Display::Text("Cancelled".to_owned())));
    let shown = text(&transcript.finished(look(&theme, 40)));
    assert_eq!(shown, "\n-  Shell  make\n  │ one\n  │ two\n  │ Cancelled\n");
}

#[test]
fn a_refused_change_can_be_read_afterwards() {
    let theme = Theme::no_colour();
    let mut transcript = Transcript::default();
    take(&mut transcript, &call("1", "replace", r#"{"file_path":"a.txt"}"#));
    let diff = FileDiff {
        unified: "@@ -1,1 +1,1 @@\n-old\n+new\n".to_owned(),
        file_name: "a.txt".to_owned(),
        path: "/p/a.txt".into(),
        before: Some("old\n".to_owned()),
        after: "new\n".to_owned(),
        stat: DiffStat { added_lines: 1, removed_lines: 1, ..DiffStat::default() },
    };
    let request = ApprovalRequest {
        call: CallId::from_file("1"),
        tool: "replace".to_owned(),
        display_name: "Edit".to_owned(),
        args: JsonObject::new(),
        subject: Subject::Edit { path: "/p/a.txt".into(), diff: Some(Box::new(diff)) },
        destroys: None,
        why: Why::default(),
        offers: Vec::new(),
    };
    take(&mut transcript, &Event::ApprovalWanted(Arc::new(request)));
    let said = "User denied execution. not like this";
    take(&mut transcript, &finished("1", CallOutcome::Cancelled, Display::Text(said.to_owned())));
    let folded = text(&transcript.finished(look(&theme, 60)));
    assert_eq!(
        folded,
        format!("\n-  Edit  a.txt\n  │ {said}\n  │ Not applied: +1, -1 lines (Ctrl+O shows the change)\n")
    );
    transcript.reveal(look(&theme, 60));
    let whole = text(&transcript.finished(look(&theme, 60)));
    assert_eq!(whole, format!("\n-  Edit  a.txt\n  │ {said}\n  │ 1 - old\n  │ 1 + new\n"));
}

#[test]
fn an_agent_has_its_name_on_its_line_and_its_report_is_text() {
    let theme = Theme::no_colour();
    let mut transcript = Transcript::default();
    let args = r#"{"agent_name":"investigator","prompt":"Where is the cart?"}"#;
    take(&mut transcript, &call("1", "invoke_agent", args));
    take(&mut transcript, &started("1"));
    assert_eq!(transcript.running(), Some("Agent investigator"));
    let end = AgentEnd {
        agent: "investigator".to_owned(),
        record: None,
        state: "completed".to_owned(),
        reason: "GOAL".to_owned(),
        result: r#"{"summary": "In **src**.", "files": ["cart.py"]}"#.to_owned(),
    };
    take(&mut transcript, &finished("1", CallOutcome::Succeeded, Display::Agent(Box::new(end))));
    let look = Look { box_lines: 15, ..look(&theme, 60) };
    let shown = text(&transcript.finished(look));
    assert_eq!(
        shown,
        "\n✓  Agent investigator  Where is the cart?\n  │ Summary\n  │\n  │ In src.\n  │\n  │ Files\n  │\n  │ • cart.py\n"
    );
}
