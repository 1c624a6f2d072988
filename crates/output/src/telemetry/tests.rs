use super::*;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use pollux_domain::content::Content;
use pollux_domain::event::{
    CallDecision, CallOutcome, CallReport, Compressed, Discarded, FrontId, RequestEnded, RequestSent,
};
use pollux_domain::id::CallId;
use pollux_domain::model::{ModelError, ModelErrorKind, RequestRole, Usage, Wait};
use pollux_domain::tool::{Display, LineDelta, ToolErrorKind, ToolKind};
use serde_json::json;

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_123)
    }
}

fn setup(dir: &Path, texts_allowed: bool) -> Setup {
    Setup {
        outfile: dir.join("sub/telemetry.log"),
        texts_allowed,
        traces: true,
        in_lines: false,
        identity: Identity {
            session: "s1".into(),
            installation: None,
            version: "0.1.0".into(),
            interactive: false,
            auth_type: Some("gemini-api-key".into()),
        },
        secrets: vec![Secret::new("AIza-very-secret")],
        clock: Arc::new(Still),
    }
}

#[test]
fn an_open_conversation_shows_its_counts_before_its_end() {
    let counted = |interactive: bool| {
        let dir = tempfile::tempdir().unwrap();
        let mut setup = setup(dir.path(), false);
        setup.identity.interactive = interactive;
        let file = setup.outfile.clone();
        let mut exporter = Exporter::open(setup).unwrap();
        exporter.configuration(&Configuration::default());
        std::fs::read_to_string(file).unwrap().contains("session.count")
    };
    assert!(counted(true));
    assert!(!counted(false), "a headless run ends soon and writes them once");
}

fn call(outcome: CallOutcome) -> Event {
    Event::CallFinished(Arc::new(CallReport {
        call: CallId::new("read_file", "1"),
        name: "read_file".into(),
        kind: ToolKind::Read,
        args: json!({"file_path": "src/a.rs"}).as_object().unwrap().clone(),
        outcome,
        display: Display::Nothing,
        lines: LineDelta { added: 3, removed: 0 },
        duration: Duration::from_millis(53),
        decision: Some(CallDecision::Accept),
        answer: "123456789".into(),
        prompt_id: "s1".into(),
        paths: Vec::new(),
        parts: Vec::new(),
        sandbox: None,
        permit: None,
    }))
}

fn ended(error: Option<ModelError>) -> Event {
    Event::RequestEnded(Box::new(RequestEnded {
        model: "m-x".into(),
        model_version: Some("m-x-001".into()),
        role: RequestRole::Main,
        prompt_id: "s1".into(),
        duration: Duration::from_millis(120),
        usage: Usage { input: 10, output: 5, total: 15, ..Usage::default() },
        finish: None,
        text: "the answer".into(),
        error,
        invalid: None,
        context_tokens: 0,
        window: 0,
    }))
}

fn events() -> Vec<Event> {
    let denied = CallOutcome::failed(ToolErrorKind::PolicyViolation, "denied with AIza-very-secret");
    vec![
        Event::PromptAccepted {
            typed: "do it".into(),
            prompt_id: "s1".into(),
            message: None,
            by: FrontId::local(),
        },
        Event::RequestSent(Arc::new(RequestSent {
            model: "m-x".into(),
            role: RequestRole::Main,
            prompt_id: "s1".into(),
            contents: vec![Arc::new(Content::user_text("do it with AIza-very-secret"))],
        })),
        Event::Waiting(Wait {
            attempt: 1,
            max_attempts: 3,
            delay: Duration::from_secs(1),
            cause: "busy".into(),
            status: Some(503),
            kind: None,
        }),
        ended(None),
        call(CallOutcome::Succeeded),
        call(denied),
        Event::AttemptDiscarded(Discarded {
            reason: "NO_RESPONSE_TEXT".into(),
            text_was_shown: false,
            attempt: 1,
            max_attempts: 4,
            retry_in: Some(Duration::from_secs(1)),
        }),
        ended(Some(ModelError::new(ModelErrorKind::Server, Some(500), "boom"))),
        Event::Compressed(Compressed {
            id: String::new(),
            tokens_before: 1,
            tokens_after: 1,
            status: CompressionStatus::Nothing,
            summary: None,
        }),
        Event::TurnEnded(TurnEnd::Finished(None)),
    ]
}

/// What is in the file, split as upstream's own test rig does it.
fn written(texts_allowed: bool) -> (String, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let mut exporter = Exporter::open(setup(dir.path(), texts_allowed)).unwrap();
    exporter.configuration(&Configuration { model: "m-x".into(), ..Configuration::default() });
    for event in events() {
        exporter.event(&event);
    }
    exporter.finish();
    let path = dir.path().join("sub/telemetry.log");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(path).unwrap();
    let joined = text.trim_end().replace("}\n{", "}\u{0}{");
    let records = joined.split('\0').map(|piece| serde_json::from_str(piece).unwrap()).collect();
    (text, records)
}

fn names(records: &[Value]) -> Vec<&str> {
    records.iter().filter_map(|record| record["attributes"]["event.name"].as_str()).collect()
}

fn find<'a>(records: &'a [Value], name: &str) -> &'a Value {
    records.iter().find(|record| record["attributes"]["event.name"] == name).unwrap()
}

#[test]
fn a_run_leaves_its_records_in_order() {
    let (_, records) = written(true);
    assert_eq!(
        names(&records),
        [
            "gemini_cli.config",
            "gemini_cli.user_prompt",
            "gemini_cli.api_request",
            "gemini_cli.network_retry_attempt",
            "gemini_cli.api_response",
            "gen_ai.client.inference.operation.details",
            "gemini_cli.tool_call",
            "gemini_cli.file_operation",
            "gemini_cli.tool_call",
            "gemini_cli.chat.content_retry",
            "gemini_cli.api_error",
            "gemini_cli.conversation_finished",
        ]
    );
    let call = find(&records, "gemini_cli.tool_call");
    assert_eq!(call["_body"], "Tool call: read_file. Decision: accept. Success: true. Duration: 53ms.");
    assert_eq!(call["attributes"]["function_args"], "{\n  \"file_path\": \"src/a.rs\"\n}");
    assert_eq!(call["hrTime"], json!([1_700_000_000, 123_000_000]));
    let response = find(&records, "gemini_cli.api_response");
    assert_eq!(response["attributes"]["model"], "m-x-001");
    assert_eq!(response["attributes"]["total_token_count"], 15);
    let details = &find(&records, "gen_ai.client.inference.operation.details")["attributes"];
    assert_eq!(details["gen_ai.response.model"], "m-x-001");
    assert!(details["gen_ai.output.messages"].as_str().unwrap().contains("\"role\":\"system\""), "{details}");
    let request = find(&records, "gemini_cli.api_request");
    assert!(request["attributes"]["request_text"].as_str().unwrap().contains("do it with"));
}

#[test]
fn texts_are_left_out_unless_allowed() {
    let (text, records) = written(false);
    for name in ["prompt", "request_text", "response_text", "function_args", "gen_ai.output.messages"] {
        assert!(records.iter().all(|record| record["attributes"].get(name).is_none()), "{name}");
    }
    assert!(!text.contains("do it") && !text.contains("the answer") && !text.contains("src/a.rs"));
}

#[test]
fn secrets_never_reach_the_file() {
    for texts_allowed in [true, false] {
        let (text, _) = written(texts_allowed);
        assert!(!text.contains("AIza"));
        assert!(text.contains("denied with ***"));
    }
}

#[test]
fn metrics_are_cumulative_and_named_as_upstream_names_them() {
    let (text, records) = written(true);
    assert!(text.contains("\"scopeMetrics\""));
    let metrics = records.last().unwrap()["scopeMetrics"][0]["metrics"].as_array().unwrap().clone();
    let metric = |name: &str| {
        metrics.iter().find(|metric| metric["descriptor"]["name"] == name).unwrap()["dataPoints"].clone()
    };
    assert_eq!(metric("gemini_cli.session.count")[0]["value"], 1);
    let calls = metric("gemini_cli.tool.call.count");
    assert_eq!(
        (&calls[0]["attributes"]["success"], &calls[1]["attributes"]["success"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(metric("gemini_cli.lines.changed")[0]["value"], 6);
    let latency = metric("gemini_cli.api.request.latency");
    assert_eq!((&latency[0]["value"]["count"], &latency[0]["value"]["max"]), (&json!(2), &json!(120)));
    assert_eq!(metric("gemini_cli.token.usage")[0]["value"], 10);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_for_the_caller_to_tell() {
    let dir = tempfile::tempdir().unwrap();
    let mut setup = setup(dir.path(), true);
    setup.outfile = dir.path().to_owned();
    assert!(Exporter::open(setup).is_err());
}

#[test]
fn a_log_in_lines_has_one_record_a_line_and_messages_need_traces() {
    let dir = tempfile::tempdir().unwrap();
    let mut exporter =
        Exporter::open(Setup { in_lines: true, traces: false, ..setup(dir.path(), true) }).unwrap();
    events().iter().for_each(|event| exporter.event(event));
    exporter.finish();
    let text = std::fs::read_to_string(dir.path().join("sub/telemetry.log")).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(find(&records, "gemini_cli.api_response")["attributes"].get("response_text").is_some());
    let details = &find(&records, "gen_ai.client.inference.operation.details")["attributes"];
    assert!(details.get("gen_ai.output.messages").is_none(), "{details}");
}
