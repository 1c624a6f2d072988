//! A recorded log is all that the screen needs.

use super::views::ended;
use super::*;
use pollux_domain::event::{CallOutcome, CallRequest, Compressed, CompressionStatus, NoticeCode, Severity};
use pollux_domain::tool::{Display, Todo, TodoStatus};

fn log() -> Vec<Event> {
    let todo = Todo { text: "look".to_owned(), status: TodoStatus::InProgress };
    let report = ended("1", "write_todos", CallOutcome::Succeeded, Display::Todos(vec![todo]));
    vec![
        Event::Notice {
            severity: Severity::Warning,
            code: NoticeCode::Workspace,
            message: "a folder is missing".to_owned(),
        },
        Event::Text("I **look** at it.".to_owned()),
        Event::StepCommitted,
        Event::CallRequested(Arc::new(CallRequest::new(
            report.call.clone(),
            "write_todos",
            JsonObject::new(),
        ))),
        Event::CallStarted { call: report.call.clone() },
        Event::CallFinished(Arc::new(report)),
        wanted("rm -rf build"),
        Event::ApprovalSettled { call: CallId::from_file("1"), outcome: Outcome::Once, by: None },
        Event::Compressed(Compressed {
            id: "compression-1".to_owned(),
            tokens_before: 9_000,
            tokens_after: 100,
            status: CompressionStatus::Compressed,
            summary: Some("short".to_owned()),
        }),
        Event::Titled("A title".to_owned()),
        Event::TurnEnded(TurnEnd::Finished(None)),
    ]
}

#[test]
fn a_log_that_was_written_and_read_gives_the_same_screen() {
    let (mut live, mut replayed) = (Stage::new(70, 40), Stage::new(70, 40));
    replayed.now = live.now;
    for event in log() {
        let text = event.to_json().to_string();
        let read = Event::from_json(serde_json::from_str(&text).unwrap()).unwrap();
        live.event(event);
        replayed.event(read);
        assert_eq!(replayed.shown(), live.shown());
    }
    let shown = live.shown();
    assert!(shown.contains("Set 1 todo(s)") && shown.contains("a folder is missing"), "{shown}");
}
