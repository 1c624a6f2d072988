use super::*;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use pollux_domain::content::Content;
use pollux_domain::event::{
    CallDecision, CallOutcome, CallReport, Compressed, Discarded, FrontId, RequestEnded, RequestSent,
};
use pollux_domain::id::CallId;
use pollux_domain::model::{ModelError, ModelErrorKind, RequestRole, Usage, Wait};
use pollux_domain::tool::{Display, LineDelta, ToolErrorKind, ToolKind};
use pollux_otlp::{Protocol, resource};
use pollux_test_support::{FakeHttp, HttpAnswer, otlp};
use serde_json::{Value, json};

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_123)
    }
}

fn file(path: &Path, in_lines: bool) -> Destination {
    Destination::File { path: path.to_owned(), in_lines }
}

fn setup(dir: &Path, texts_allowed: bool) -> Setup {
    Setup {
        destination: file(&dir.join("sub/telemetry.log"), false),
        texts_allowed,
        traces: true,
        identity: Identity {
            session: "s1".into(),
            provider: "gemini".into(),
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
        let file = dir.path().join("sub/telemetry.log");
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
            subagent: None,
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
    setup.destination = file(dir.path(), false);
    assert!(Exporter::open(setup).is_err());
}

#[test]
fn a_log_in_lines_has_one_record_a_line_and_messages_need_traces() {
    let dir = tempfile::tempdir().unwrap();
    let destination = file(&dir.path().join("sub/telemetry.log"), true);
    let mut exporter =
        Exporter::open(Setup { destination, traces: false, ..setup(dir.path(), true) }).unwrap();
    events().iter().for_each(|event| exporter.event(event));
    exporter.finish();
    let text = std::fs::read_to_string(dir.path().join("sub/telemetry.log")).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(find(&records, "gemini_cli.api_response")["attributes"].get("response_text").is_some());
    let details = &find(&records, "gen_ai.client.inference.operation.details")["attributes"];
    assert!(details.get("gen_ai.output.messages").is_none(), "{details}");
}

/// What a collector gets of the same events, and the variables that it is reached with.
fn sent(texts_allowed: bool, traces: bool) -> FakeHttp {
    let collector = FakeHttp::start(|_| HttpAnswer::status(200));
    let vars =
        [("OTEL_EXPORTER_OTLP_HEADERS", "api-key=the-answer-is-a-key"), ("OTEL_BSP_EXPORT_TIMEOUT", "25000")];
    let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let env = pollux_config::env::Env::new(vars, "/".into());
    let (options, _) = Options::new(&collector.url(), Protocol::Http, &env, "0.1.0").unwrap();
    let resource = resource(&env, "0.1.0", "s1");
    let destination = Destination::Collector { options: Box::new(options), resource, tells_problems: true };
    let setup = Setup { destination, traces, ..setup(Path::new("/"), texts_allowed) };
    let mut exporter = Exporter::open(setup).unwrap();
    exporter
        .configuration(&Configuration { model: "the-answer-is-a-key".into(), ..Configuration::default() });
    events().iter().for_each(|event| exporter.event(event));
    // Not finished: an exporter that goes away ends its export.
    drop(exporter);
    flush();
    // Another test may be the one that waits for it.
    let has_all = || {
        let (spans, metrics) = (bodies(&collector, "/v1/traces"), bodies(&collector, "/v1/metrics"));
        !metrics.is_empty()
            && received(&collector).iter().any(|log| log["name"] == "gemini_cli.conversation_finished")
            && spans
                .iter()
                .flat_map(|body| otlp::spans(body))
                .any(|span| span["name"] == "invoke_agent pollux")
    };
    let since = std::time::Instant::now();
    while !has_all() && since.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(5));
    }
    collector
}

fn received(collector: &FakeHttp) -> Vec<Value> {
    bodies(collector, "/v1/logs").iter().flat_map(|body| otlp::logs(body)).collect()
}

fn bodies(collector: &FakeHttp, path: &str) -> Vec<Vec<u8>> {
    collector.requests_to(path).into_iter().map(|request| request.body).collect()
}

#[test]
fn a_collector_gets_the_records_of_the_file_metrics_and_spans() {
    let collector = sent(true, true);
    let logs = received(&collector);
    let (_, written) = written(true);
    let got: Vec<&str> = logs.iter().filter_map(|log| log["name"].as_str()).collect();
    assert_eq!(got, names(&written), "in the same order");
    for (log, record) in logs.iter().zip(&written).skip(1) {
        assert_eq!(log["attributes"], record["attributes"]);
        assert_eq!(log["body"], record["_body"]);
    }
    let errors = logs.iter().filter(|log| log["severity"] == 17).count();
    assert_eq!(errors, 1, "the request that failed");
    let metrics: Vec<Value> =
        bodies(&collector, "/v1/metrics").iter().flat_map(|body| otlp::metrics(body)).collect();
    let count = metrics.iter().find(|metric| metric["name"] == "gemini_cli.session.count").unwrap();
    assert_eq!(count["points"][0], json!({"attributes": {"session.id": "s1"}, "value": 1}));
    let latency = metrics.iter().find(|metric| metric["name"] == "gemini_cli.api.request.latency").unwrap();
    assert_eq!(latency["points"][0]["count"], 2);
    let spans: Vec<Value> =
        bodies(&collector, "/v1/traces").iter().flat_map(|body| otlp::spans(body)).collect();
    assert!(spans.iter().any(|span| span["name"] == "chat m-x"), "{spans:?}");
    assert!(spans.iter().any(|span| span["name"] == "invoke_agent pollux"), "{spans:?}");
}

#[test]
fn a_collector_gets_no_secret_and_texts_only_on_request() {
    for (texts_allowed, traces) in [(true, true), (true, false), (false, true)] {
        let collector = sent(texts_allowed, traces);
        let all: Vec<u8> = collector.requests().into_iter().flat_map(|request| request.body).collect();
        let all = String::from_utf8_lossy(&all).into_owned();
        assert!(!all.contains("AIza") && !all.contains("the-answer-is-a-key"));
        assert!(all.contains("denied with ***"));
        assert_eq!(all.contains("do it"), texts_allowed);
        let spans = bodies(&collector, "/v1/traces").concat();
        let spans = String::from_utf8_lossy(&spans).into_owned();
        assert_eq!(spans.contains("do it"), texts_allowed && traces, "{texts_allowed} {traces}");
        assert_eq!(spans.contains("src/a.rs"), texts_allowed && traces, "{texts_allowed} {traces}");
    }
}

#[test]
fn names_that_a_model_invents_do_not_grow_without_end() {
    let mut metrics = Metrics::default();
    for number in 0..1_000 {
        let Event::CallFinished(report) = call(CallOutcome::Succeeded) else { unreachable!() };
        let report = CallReport { name: format!("tool-{number}"), ..CallReport::clone(&report) };
        metrics.fold(&Event::CallFinished(Arc::new(report)));
    }
    let measured = metrics.measure("s1", &Cleaner::new(&[]));
    let calls = measured.iter().find(|metric| metric.name == "gemini_cli.tool.call.count").unwrap();
    let pollux_otlp::Points::Counts(points) = &calls.points else { panic!("{calls:?}") };
    assert_eq!(points.len(), 256);
    assert_eq!(points.iter().map(|(_, count)| count).sum::<u64>(), 1_000);
    assert_eq!(points[255].0["otel.metric.overflow"], true);
}

#[test]
fn names_that_a_model_invents_carry_no_secret_to_a_collector() {
    let mut metrics = Metrics::default();
    let Event::CallFinished(report) = call(CallOutcome::Succeeded) else { unreachable!() };
    let report = CallReport { name: "tool-the-answer-is-a-key".to_owned(), ..CallReport::clone(&report) };
    metrics.fold(&Event::CallFinished(Arc::new(report)));
    let measured = metrics.measure("s1", &Cleaner::new(&[Secret::new("the-answer-is-a-key".to_owned())]));
    let all = format!("{measured:?}");
    assert!(all.contains("tool-***") && !all.contains("is-a-key"), "{all}");
}
