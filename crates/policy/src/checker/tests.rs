use std::collections::VecDeque;
use std::sync::Mutex;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Content;
use pollux_domain::tool::Effect;

use super::*;
use crate::engine::Options;
use crate::load::{Sources, load};
use crate::request::{Request, Verdict};

const CHECKERS: &str = r#"
[[safety_checker]]
toolName = "glob"
priority = 200
checker = { type = "external", name = "first", required_context = ["environment"], config = { timeout = 100 } }

[[safety_checker]]
toolName = "*"
priority = 100
checker = { type = "external", name = "second", config = { command = ["/opt/check", "-v"] } }
"#;

/// Returns its answers in turn and records the requests.
#[derive(Default)]
struct Answers {
    left: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<Value>>,
}

type Answer = Result<CheckAnswer, CheckFailure>;

impl CheckerPort for Answers {
    fn check<'a>(
        &'a self,
        check: &'a ExternalCheck,
        request: &'a CheckRequest<'a>,
    ) -> BoxFuture<'a, Result<CheckAnswer, CheckFailure>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(request.to_json(check));
            self.left.lock().unwrap().pop_front().unwrap()
        })
    }
}

fn answer(decision: Decision, reason: &str) -> Answer {
    Ok(CheckAnswer { decision, reason: reason.to_owned() })
}

/// The verdict and the requests made for it.
fn decided(answers: Vec<Answer>, interactive: bool) -> (Verdict, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    pollux_config::files::replace(
        &dir.path().join("c.toml"),
        CHECKERS.as_bytes(),
        pollux_config::files::Mode::Shared,
    )
    .unwrap();
    let sources = Sources { user: vec![dir.path().to_owned()], ..Sources::default() };
    let engine = load(&sources, Options { workspaces: vec!["/w".into()], ..Options::default() });
    assert!(engine.problems().is_empty(), "{:?}", engine.problems());
    let args = json!({"pattern": "*"}).as_object().cloned().unwrap();
    let request = Request {
        tool: "glob",
        server: None,
        read_only: true,
        annotations: None,
        args: &args,
        effect: &Effect::None,
        mode: ApprovalMode::Default,
        interactive,
        subagent: None,
    };
    let port = Answers { left: Mutex::new(answers.into()), ..Answers::default() };
    let history = [std::sync::Arc::new(Content::user_text("find them"))];
    let verdict = engine.decide(&request);
    assert_eq!(verdict.checks.len(), 2);
    let verdict = ready(engine.checked(verdict, &request, &history, &port));
    (verdict, port.asked.into_inner().unwrap())
}

/// Nothing here waits.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn every_checker_gets_its_context_and_all_must_agree() {
    let (verdict, asked) = decided(vec![answer(Decision::Allow, "fine"), answer(Decision::Allow, "")], false);
    assert_eq!(verdict.decision, Decision::Allow);
    assert!(verdict.checks.is_empty());
    let call = json!({"name": "glob", "args": {"pattern": "*"}});
    let environment = json!({"cwd": "/w", "workspaces": ["/w"]});
    let turns = json!([{"user": {"text": "find them"}, "model": {}}]);
    let expected = [
        json!({
            "protocolVersion": "1.0.0",
            "toolCall": call,
            "context": {"environment": environment},
            "config": {"timeout": 100},
        }),
        json!({
            "protocolVersion": "1.0.0",
            "toolCall": call,
            "context": {"environment": environment, "history": {"turns": turns}},
            "config": {"command": ["/opt/check", "-v"]},
        }),
    ];
    assert_eq!(asked, expected);
}

#[test]
fn the_strictest_checker_answer_wins_and_a_failure_denies() {
    let failure = || Err(CheckFailure::Failed { name: "first".into(), why: "exit 3".into() });
    let table = [
        (vec![answer(Decision::Deny, "no")], true, Decision::Deny, 1, "no"),
        (vec![failure()], true, Decision::Deny, 1, "the safety checker `first` failed: exit 3"),
        (vec![answer(Decision::Ask, "hm"), answer(Decision::Allow, "")], true, Decision::Ask, 2, "hm"),
        (vec![answer(Decision::Ask, "hm"), answer(Decision::Deny, "no")], true, Decision::Deny, 2, "no"),
        (vec![answer(Decision::Allow, ""), failure()], false, Decision::Deny, 2, "exit 3"),
        (
            vec![answer(Decision::Ask, "hm")],
            false,
            Decision::Deny,
            1,
            "approval is not possible without a terminal",
        ),
    ];
    for (answers, interactive, decision, asked, why) in table {
        let (verdict, questions) = decided(answers, interactive);
        assert_eq!((verdict.decision, questions.len()), (decision, asked), "{why}");
        assert!(verdict.reason.contains(why), "{}", verdict.reason);
        assert!(verdict.rule.is_some_and(|rule| rule.label.starts_with("checker ")));
    }
}

#[test]
fn checker_answers_are_parsed_and_nonsense_is_a_failure() {
    let answer = CheckAnswer::parse("x", r#"{"decision":"deny","reason":"no"}"#).unwrap();
    assert_eq!(answer, CheckAnswer { decision: Decision::Deny, reason: "no".to_owned() });
    for text in ["", "{}", "yes", "[]", r#"{"decision":"maybe"}"#, r#"{"decision":"allow"} {}"#, "null"] {
        assert!(CheckAnswer::parse("x", text).is_err(), "{text}");
    }
    let long = json!({"decision": "deny", "reason": "ä".repeat(5000)}).to_string();
    assert_eq!(CheckAnswer::parse("x", &long).unwrap().reason.chars().count(), 2001);
}

#[test]
fn time_limits_come_from_the_configuration_within_bounds() {
    let table = [(None, 5000), (Some(100), 100), (Some(90_000), 30_000)];
    for (given, expected) in table {
        let config = given.map(|time| json!({"timeout": time}));
        let rule = CheckerRule { config, ..CheckerRule::conseca() };
        assert_eq!(ExternalCheck::from(&rule).limit, Duration::from_millis(expected));
    }
}
