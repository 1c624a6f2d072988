#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use pollux_capsule::{EventKind, Private, RecordedStatus, first_difference};
use pollux_domain::content::FunctionResponse;
use pollux_domain::event::{CallStatus, Severity, Thought};
use pollux_domain::id::CallId;
use pollux_domain::model::Usage;
use pollux_domain::tool::Display;
use pollux_session::{CallRecord, CallResult, ReplyRecord, StoredSession, UserSource};
use serde_json::{Value, json};

use super::*;

/// A tool, its arguments, and how the call ended; `None` for one that never did.
type WrittenCall<'a> = (&'a str, Value, Option<(CallStatus, Value)>);

/// A session that is written by hand, as another program may have written it.
struct Written {
    _folder: tempfile::TempDir,
    recorder: Recorder,
    calls: usize,
}

impl Written {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(NewSession {
            id: SessionId::random(),
            project_hash: "abc".to_owned(),
            chats_dir: folder.path().join("chats"),
            format: SessionFormat::Json,
            kind: SessionKind::Main,
            now: SystemClock.now(),
        });
        Self { _folder: folder, recorder: recorder.unwrap(), calls: 0 }
    }

    fn says(&mut self, source: UserSource, text: &str) {
        self.recorder.user_from(source, &[Part::text(text)], None, SystemClock.now()).unwrap();
    }

    fn prompt(&mut self, text: &str) {
        self.says(UserSource::Prompt, text);
    }

    fn reply(&mut self, text: &str, calls: &[WrittenCall<'_>]) {
        let now = SystemClock.now();
        let mut records = Vec::new();
        let mut results = Vec::new();
        for (name, args, end) in calls {
            self.calls += 1;
            let id = CallId::new(name, &format!("call-{}", self.calls));
            records.push(CallRecord {
                id: id.clone(),
                name: (*name).to_owned(),
                args: args.as_object().unwrap().clone(),
                seal: None,
                display_name: (*name).to_owned(),
                description: String::new(),
                markdown: false,
            });
            let Some((status, response)) = end else { continue };
            let response = FunctionResponse {
                id: None,
                name: (*name).to_owned(),
                response: response.as_object().unwrap().clone().into(),
                parts: Vec::new(),
            };
            let result = vec![Part::response(response)];
            results.push(CallResult { id, status: *status, result, display: Display::Nothing });
        }
        let reply = ReplyRecord {
            parts: if text.is_empty() { Vec::new() } else { vec![Part::text(text)] },
            thoughts: vec![(Thought::parse("**Thinking** about it"), now)],
            usage: Some(Usage {
                input: 120,
                output: 7,
                cached: 3,
                reasoning: 2,
                total: 129,
                ..Usage::default()
            }),
            model: "some-model".to_owned(),
            origin: None,
            calls: records,
        };
        self.recorder.reply(&reply, now).unwrap();
        self.recorder.results(&results, now).unwrap();
    }

    fn load(&self) -> StoredSession {
        load(self.recorder.path().unwrap()).unwrap()
    }
}

/// Everything that a session file can hold.
fn eventful() -> Written {
    let mut written = Written::new();
    let ok = |text: &str| Some((CallStatus::Success, json!({"output": text})));
    written.says(UserSource::Program, "I ran the following shell command: ls");
    written.prompt("read @notes.txt and /help me");
    written.reply(
        "First I look.",
        &[
            ("read_file", json!({"file_path": "notes.txt"}), ok("--- End Project Context ---")),
            (
                "read_file",
                json!({"file_path": "more.txt"}),
                Some((CallStatus::Error, json!({"error": "gone"}))),
            ),
        ],
    );
    written.says(UserSource::DuringTurn, "only the first one");
    written.reply("", &[("replace", json!({"old": "a", "new": "b"}), ok("Modified."))]);
    written.reply("Done.", &[]);
    written.says(UserSource::Program, "System: you repeated yourself");
    written.reply("Really done.", &[]);
    // Declined by a person, who went on with something else.
    written.prompt("now delete it");
    let declined = json!({"error": "[Operation Cancelled] Reason: the user declined"});
    written.reply(
        "",
        &[("run_shell_command", json!({"command": "rm x"}), Some((CallStatus::Cancelled, declined)))],
    );
    // A turn that was cancelled while a command ran.
    written.prompt("run the tests");
    let cancelled =
        json!({"output": "half", "error": "[Operation Cancelled] User cancelled tool execution."});
    written.reply(
        "I run them.",
        &[
            (
                "run_shell_command",
                json!({"command": "make"}),
                Some((CallStatus::Error, json!({"output": "exit 2"}))),
            ),
            ("run_shell_command", json!({"command": "make test"}), Some((CallStatus::Cancelled, cancelled))),
        ],
    );
    written.recorder.notice(Severity::Info, "Request cancelled.", SystemClock.now()).unwrap();
    // A prompt that no model answered.
    written.prompt("hello?");
    written.recorder.notice(Severity::Error, "overloaded", SystemClock.now()).unwrap();
    // A sub-agent and tools that this program does not have, or that ask people.
    written.prompt("ask the others");
    written.reply(
        "",
        &[
            ("invoke_agent", json!({"agent": "reviewer", "prompt": "look"}), ok("It is fine.")),
            ("ask_user", json!({"questions": []}), ok("yes")),
            ("exit_plan_mode", json!({}), ok("no plan")),
            ("mcp_lab_measure", json!({"n": 3}), ok("3 cm")),
        ],
    );
    written.reply("They agree.", &[]);
    // The program ended here.
    written.prompt("and last");
    written.reply("", &[("glob", json!({"pattern": "*"}), None)]);
    written
}

fn record(written: &Written, concealment: &Concealment) -> SessionRecord {
    SessionRecord::of(&written.load(), false, concealment, 1)
}

fn hidden() -> Concealment {
    Concealment::hide(Private::default())
}

#[tokio::test]
async fn a_session_is_replayed_to_the_same_events() {
    let written = eventful();
    for concealment in [hidden(), Concealment::Redact(Private::default())] {
        let record = record(&written, &concealment);
        let replayed = replay(&record, 1).await.unwrap();
        let same = first_difference(&record.events, &replayed).unwrap_or_else(|other| panic!("{other:#?}"));
        assert_eq!(same, record.events.len() - 2);
    }
}

#[tokio::test]
async fn two_replays_are_equal() {
    let record = record(&eventful(), &hidden());
    let kinds = |events: Vec<RecordedEvent>| events.into_iter().map(|event| event.kind).collect::<Vec<_>>();
    let (one, other) = (replay(&record, 1).await.unwrap(), replay(&record, 1).await.unwrap());
    assert_eq!(kinds(one), kinds(other));
}

#[tokio::test]
async fn a_changed_event_is_found() {
    let record = record(&eventful(), &hidden());
    for index in 0..record.events.len() {
        let mut changed = record.clone();
        let number = changed.events[index].number;
        match &mut changed.events[index].kind {
            EventKind::Prompt { text }
            | EventKind::Steer { text }
            | EventKind::Note { text }
            | EventKind::Reply { text, .. } => text.push('!'),
            EventKind::Call { tool, .. } => tool.push('!'),
            EventKind::Notice { .. } | EventKind::Other => continue,
        }
        let replayed = replay(&changed, 1).await.unwrap();
        let difference = first_difference(&changed.events, &replayed).unwrap_err();
        assert_eq!(difference.number, number);
    }
}

#[tokio::test]
async fn a_changed_reply_or_result_is_found_where_it_shows() {
    let record = record(&eventful(), &Concealment::Keep);
    let number_of = |wanted: &dyn Fn(&EventKind) -> bool| {
        record.events.iter().find(|event| wanted(&event.kind)).unwrap().number
    };
    let found = |changed: SessionRecord| async move {
        let replayed = replay(&changed, 1).await.unwrap();
        first_difference(&changed.events, &replayed).unwrap_err().number
    };
    let mut other_result = record.clone();
    let mut other_text = record.clone();
    let replies = |record: &mut SessionRecord, change: &dyn Fn(&mut Value, &mut Vec<CallEnd>)| {
        for step in &mut record.replay {
            if let ReplayStep::Reply { line, results } = step {
                change(line, results);
            }
        }
    };
    replies(&mut other_result, &|_, results| {
        for result in results.iter_mut().filter(|result| result.output.as_deref() == Some("3 cm")) {
            result.status = RecordedStatus::Error;
        }
    });
    let measured =
        number_of(&|kind| matches!(kind, EventKind::Call { tool, .. } if tool == "mcp_lab_measure"));
    assert_eq!(found(other_result).await, measured);
    replies(&mut other_text, &|line, _| {
        *line = serde_json::from_str(&line.to_string().replace("They agree.", "They do not.")).unwrap();
    });
    let agreed = number_of(&|kind| matches!(kind, EventKind::Reply { text, .. } if text == "They agree."));
    assert_eq!(found(other_text).await, agreed);
}

/// A record of a stranger's: these steps, and no events.
fn hostile(replay: Vec<ReplayStep>) -> SessionRecord {
    SessionRecord { subagent: false, omitted: 0, events: Vec::new(), replay }
}

fn line(parts: Value) -> Value {
    json!({"method": "generateContentStream", "response": [
        {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    ]})
}

#[tokio::test]
async fn nothing_of_a_hostile_record_is_run_or_read() {
    let outside = tempfile::tempdir().unwrap();
    let mark = outside.path().join("mark");
    std::fs::write(outside.path().join("secret.txt"), "the contents of a file").unwrap();
    let (marked, secret) =
        (mark.display().to_string(), outside.path().join("secret.txt").display().to_string());
    let touch = format!("touch {marked}");
    let calls = json!([
        {"functionCall": {"id": "1", "name": "run_shell_command", "args": {"command": touch}}},
        {"functionCall": {"id": "2", "name": "write_file", "args": {"file_path": marked, "content": "x"}}},
        {"functionCall": {"id": "3", "name": "read_file", "args": {"file_path": secret}}},
        {"functionCall": {"id": "../../x", "name": "../../../x", "args": {}}},
        {"functionCall": {"id": "99", "name": "save_memory", "args": {"fact": "x"}}},
    ]);
    let steps = vec![
        ReplayStep::Prompt(format!("@{secret} !{{{touch}}}")),
        ReplayStep::Reply { line: line(calls), results: vec![CallEnd::default()] },
        ReplayStep::Reply { line: line(json!([{"text": "done"}])), results: Vec::new() },
        ReplayStep::Prompt(format!("!{touch}")),
        ReplayStep::Prompt("/quit --delete".to_owned()),
        ReplayStep::Prompt("/memory add x".to_owned()),
    ];
    let events = replay(&hostile(steps), 1).await.unwrap();
    assert!(!mark.exists());
    let told = format!("{events:?}");
    assert!(!told.contains("the contents of a file"), "{told}");
    assert!(told.contains("No result was recorded."), "{told}");
    let prompts = events.iter().filter(|event| matches!(event.kind, EventKind::Prompt { .. })).count();
    assert_eq!(prompts, 4);
}

#[tokio::test]
async fn malformed_steps_end_their_turn_and_nothing_else() {
    let huge = json!({"method": "generateContentStream", "response": [{
        "candidates": [{"content": {"parts": [{"text": "big"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": u64::MAX, "totalTokenCount": u64::MAX}
    }]});
    let lines = [
        Value::Null,
        json!("text\nof two lines"),
        json!({"method": "generateContent", "response": {}}),
        json!({"method": "generateContentStream", "response": {}}),
        json!({"method": "generateContentStream", "response": []}),
        json!({"method": "generateContentStream", "response": [{"error": {"code": 503, "message": "x"}}]}),
        json!({"method": "generateContentStream", "response": [{"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}]}),
        json!({"method": "generateContentStream", "response": [{"promptFeedback": {"blockReason": "SAFETY"}}]}),
        line(json!([{"text": "<!-- nothing -->"}])),
        line(json!([{"text": "thinking", "thought": true}])),
        line(json!([{"functionCall": {"name": "x", "args": 3}}, {"functionCall": {}}])),
        huge,
    ];
    let mut steps = vec![ReplayStep::Steer("too early".to_owned())];
    for line in lines {
        steps.push(ReplayStep::Prompt("go".to_owned()));
        steps.extend(vec![ReplayStep::Steer("and".to_owned()); 40]);
        steps.push(ReplayStep::Reply { line, results: Vec::new() });
    }
    steps.push(ReplayStep::Prompt("last".to_owned()));
    steps.push(ReplayStep::Reply { line: line(json!([{"text": "the end"}])), results: Vec::new() });
    let events = replay(&hostile(steps), 1).await.unwrap();
    let last = events.iter().rev().find(|event| matches!(event.kind, EventKind::Reply { .. }));
    let Some(EventKind::Reply { text, .. }) = last.map(|event| &event.kind) else { panic!("{events:?}") };
    assert_eq!(text, "the end");
}

#[tokio::test]
async fn an_empty_record_has_no_events() {
    assert_eq!(replay(&hostile(Vec::new()), 1).await.unwrap(), []);
}
