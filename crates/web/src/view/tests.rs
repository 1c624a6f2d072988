use std::sync::Arc;

use pollux_domain::approval::{ApprovalRequest, Offer, Outcome, Subject, Why};
use pollux_domain::event::{CallRequest, FrontId};

use super::*;

fn text(view: &mut View, text: &str) -> String {
    view.event(&Event::Text(text.to_owned())).unwrap()["text"].as_str().unwrap().to_owned()
}

#[test]
fn texts_keep_their_markup_and_lose_control_sequences_also_across_pieces() {
    let mut view = View::default();
    let hostile = "<script>alert(1)</script> [x](javascript:alert(1)) &amp;";
    assert_eq!(text(&mut view, hostile), hostile);
    assert_eq!(text(&mut view, "a\u{1b}["), "a");
    assert_eq!(text(&mut view, "31mb\u{202e}c\u{7}"), "bc");
    let by = FrontId::new("tui\n<b>");
    let prompt = Event::PromptAccepted { typed: "p".into(), prompt_id: String::new(), message: None, by };
    assert_eq!(view.event(&prompt).unwrap()["by"], "tui <b>");
}

#[test]
fn nothing_is_longer_than_the_page_can_show() {
    let mut view = View::default();
    let long = "x".repeat(500_000);
    let call = CallId::from_file("c");
    let output = view.event(&Event::CallOutput { call, text: long.clone() }).unwrap();
    assert_eq!(output["text"].as_str().unwrap().len(), RESULT);
    let mut request = CallRequest::new(CallId::from_file("c"), "tool", pollux_domain::JsonObject::new());
    request.title.clone_from(&long);
    let call = view.event(&Event::CallRequested(Arc::new(request))).unwrap();
    assert!(call["title"].as_str().unwrap().len() < 400);
    let code = pollux_domain::event::NoticeCode::Model;
    let notice = Event::Notice { severity: Severity::Error, code, message: long };
    let notice = view.event(&notice).unwrap();
    let shown = notice["text"].as_str().unwrap();
    assert!(shown.len() < RESULT + 100 && shown.ends_with("(480000 more characters are not shown)"));
}

#[test]
fn hidden_characters_of_a_command_are_visible_in_its_question() {
    let offer = |outcome| Offer { outcome, covers: "all of \u{200b}it".to_owned() };
    let request = ApprovalRequest {
        call: CallId::from_file("c"),
        tool: "run_shell_command".to_owned(),
        display_name: "Shell".to_owned(),
        args: pollux_domain::JsonObject::new(),
        subject: Subject::Command { command: "ls \u{202e}cod".to_owned(), directory: "/w".into() },
        destroys: Some("files".to_owned()),
        why: Why { reason: "asks".to_owned(), rule: Some("r".to_owned()), parts: Vec::new() },
        offers: vec![offer(Outcome::Refuse), offer(Outcome::Edit), offer(Outcome::Once)],
    };
    let shown = View::default().event(&Event::ApprovalWanted(Arc::new(request))).unwrap();
    assert_eq!(shown["body"], "ls <U+202E>cod");
    assert_eq!(shown["warning"], "files");
    assert_eq!(shown["why"], json!(["asks", "Rule: r"]));
    let expected = json!([
        {"outcome": "proceed_once", "label": "Allow", "covers": "all of <U+200B>it"},
        {"outcome": "cancel", "label": "Refuse", "covers": "all of <U+200B>it"},
    ]);
    assert_eq!(shown["offers"], expected);
}
