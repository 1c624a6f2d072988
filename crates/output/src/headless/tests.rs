//! Every format and dialect over the same runs.

mod denials;
mod replay;

use super::*;
use pollux_domain::event::{
    CallDecision, CallOutcome, CallReport, CallRequest, Discarded, FrontId, NoticeCode, RequestEnded,
    RequestSent, Severity,
};
use pollux_domain::failure::Colour;
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::model::{ModelError, ModelErrorKind, RequestRole, Usage, Wait};
use pollux_domain::time::{Clock, Timestamp};
use pollux_domain::tool::{
    AgentEnd, DiffStat, Display, FileDiff, LineDelta, RunFailure, ToolErrorKind, ToolKind,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_123)
    }
}

/// What a run printed, and its exit code.
#[derive(Debug, PartialEq)]
struct Printed {
    out: String,
    err: String,
    exit: u8,
}

fn style(format: OutputFormat, dialect: Dialect) -> Style {
    Style {
        format,
        dialect,
        raw: false,
        colour: Colour::None,
        clock: Arc::new(Still),
        shows_calls: false,
        debug: false,
    }
}

fn render(format: OutputFormat, dialect: Dialect, events: &[Event], end: &TurnEnd) -> Printed {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut renderer = Renderer::new(style(format, dialect));
    for event in events {
        renderer.event(event, &mut out, &mut err).unwrap();
    }
    let exit = renderer.finish(end, None, &mut out, &mut err).unwrap();
    Printed { out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap(), exit: exit.code() }
}

/// The lines of a stream, without the timestamp that each must carry.
fn lines(printed: &Printed) -> Vec<String> {
    let stamp = ",\"timestamp\":\"2023-11-14T22:13:20.123Z\"";
    printed
        .out
        .lines()
        .map(|line| {
            assert!(line.contains(stamp), "{line}");
            line.replacen(stamp, "", 1)
        })
        .collect()
}

fn text(piece: &str) -> Event {
    Event::Text(piece.into())
}

fn sent() -> Event {
    Event::RequestSent(Arc::new(RequestSent {
        model: "m-x".into(),
        role: RequestRole::Main,
        prompt_id: "s1".into(),
        contents: Vec::new(),
        subagent: None,
    }))
}

fn ended(error: Option<ModelError>, invalid: Option<&'static str>) -> Event {
    let worked = error.is_none();
    let usage = Usage { input: 100, output: 20, cached: 40, reasoning: 7, total: 127, ..Usage::default() };
    Event::RequestEnded(Box::new(RequestEnded {
        model: "m-x".into(),
        model_version: None,
        role: RequestRole::Main,
        prompt_id: "s1".into(),
        duration: Duration::from_millis(130),
        usage: if worked { usage } else { Usage::default() },
        finish: None,
        text: String::new(),
        error,
        invalid: invalid.map(str::to_owned),
        context_tokens: 0,
        window: 0,
    }))
}

fn requested(name: &str) -> Event {
    let args = json!({"file_path": "a.txt"}).as_object().unwrap().clone();
    Event::CallRequested(Arc::new(CallRequest::new(CallId::new(name, "1"), name, args)))
}

fn finished(name: &str, error: Option<(ToolErrorKind, &str)>, display: Display) -> Event {
    let failed = error.is_some();
    Event::CallFinished(Arc::new(CallReport {
        call: CallId::new(name, "1"),
        name: name.into(),
        kind: ToolKind::Edit,
        args: Default::default(),
        outcome: error.map_or(CallOutcome::Succeeded, |(kind, message)| CallOutcome::failed(kind, message)),
        display,
        lines: LineDelta { added: if failed { 0 } else { 2 }, removed: 0 },
        duration: Duration::from_millis(52),
        decision: (!failed).then_some(CallDecision::Accept),
        answer: "abc".into(),
        prompt_id: "s1".into(),
        paths: Vec::new(),
        parts: Vec::new(),
        sandbox: None,
        permit: None,
    }))
}

fn diff() -> Display {
    Display::Diff(Box::new(FileDiff {
        unified: "+hi".into(),
        file_name: "a.txt".into(),
        path: "/w/a.txt".into(),
        before: None,
        after: "hi".into(),
        stat: DiffStat::default(),
    }))
}

fn beginning() -> Vec<Event> {
    vec![
        Event::SessionReady {
            session: SessionId::from_file("s1"),
            model: "auto".into(),
            resolved: "m-x".into(),
            roots: Vec::new(),
        },
        Event::PromptAccepted {
            typed: "go".into(),
            prompt_id: "s1".into(),
            message: None,
            by: FrontId::local(),
        },
        sent(),
    ]
}

/// A write that works, a read that does not, a wait, a void attempt, and an answer.
fn busy() -> Vec<Event> {
    let mut events = beginning();
    events.extend([
        text("I \u{1b}[1mlo"),
        text("ok."),
        ended(None, None),
        Event::StepCommitted,
        requested("write_file"),
        requested("read_file"),
        finished(
            "read_file",
            Some((ToolErrorKind::FileNotFound, "File not found: /w/a.txt")),
            Display::Text("File not found.".into()),
        ),
        finished("write_file", None, diff()),
        sent(),
        Event::Waiting(Wait {
            attempt: 1,
            max_attempts: 10,
            delay: Duration::from_secs(5),
            cause: "Too many requests.".into(),
            status: Some(429),
            kind: None,
        }),
        text("half"),
        Event::AttemptDiscarded(Discarded {
            reason: "the stream broke off".into(),
            text_was_shown: true,
            attempt: 1,
            max_attempts: 4,
            retry_in: Some(Duration::from_secs(1)),
        }),
        sent(),
        text("Done."),
        Event::StepCommitted,
        ended(None, None),
    ]);
    events
}

const BUSY_NOTES: &str = "\
Error executing tool read_file: File not found.
Attempt 1/10 failed with status 429: Too many requests. Retrying in 5 s.
Attempt 1/4 gave no usable reply: the stream broke off. Disregard the text shown for it. Retrying in 1 s.
";

fn done() -> TurnEnd {
    TurnEnd::Finished(None)
}

fn bad_request() -> TurnEnd {
    TurnEnd::Failed(ModelError::new(ModelErrorKind::BadRequest, Some(400), "{\"code\":400}"))
}

fn invalid() -> TurnEnd {
    TurnEnd::InvalidReply { kind: "NO_RESPONSE_TEXT".into(), message: "The model said nothing.".into() }
}

#[test]
fn text_is_the_answer_with_line_ends_where_they_belong() {
    for dialect in [Dialect::Pollux, Dialect::GeminiCli] {
        let printed = render(OutputFormat::Text, dialect, &busy(), &done());
        let out = "I look.\nhalf\n[disregard the text above: the stream broke off; retrying]\nDone.\n";
        assert_eq!(printed, Printed { out: out.into(), err: BUSY_NOTES.into(), exit: 0 });
    }
}

#[test]
fn raw_text_keeps_what_the_model_wrote() {
    let mut renderer = Renderer::new(Style { raw: true, ..style(OutputFormat::Text, Dialect::Pollux) });
    let mut out = Vec::new();
    renderer.event(&text("\u{1b}[1mx"), &mut out, &mut Vec::new()).unwrap();
    assert_eq!(out, b"\x1b[1mx");
}

#[test]
fn our_stream_tells_everything_in_order() {
    let printed = render(OutputFormat::StreamJson, Dialect::Pollux, &busy(), &done());
    let stats = r#"{"models":{"m-x":{"api":{"requests":3,"errors":1,"latencyMs":260},"tokens":{"prompt":200,"candidates":40,"total":254,"cached":80}}},"tools":{"totalCalls":2,"totalSuccess":1,"totalFail":1,"totalDurationMs":104,"byName":{"read_file":{"calls":1,"success":0,"fail":1},"write_file":{"calls":1,"success":1,"fail":0}}},"files":{"totalLinesAdded":2,"totalLinesRemoved":0}}"#;
    let expected = [
        r#"{"type":"INIT","sessionId":"s1","model":"m-x"}"#,
        r#"{"type":"MESSAGE","role":"user","content":"go","delta":false}"#,
        r#"{"type":"MESSAGE","role":"assistant","content":"I lo","delta":true}"#,
        r#"{"type":"MESSAGE","role":"assistant","content":"ok.","delta":true}"#,
        r#"{"type":"TOOL_USE","toolName":"write_file","callId":"write_file__1","params":{"file_path":"a.txt"}}"#,
        r#"{"type":"TOOL_USE","toolName":"read_file","callId":"read_file__1","params":{"file_path":"a.txt"}}"#,
        r#"{"type":"TOOL_RESULT","callId":"read_file__1","status":"error","error":"File not found: /w/a.txt"}"#,
        r#"{"type":"TOOL_RESULT","callId":"write_file__1","status":"success","result":"+hi"}"#,
        r#"{"type":"ERROR","message":"Attempt 1/10 failed with status 429: Too many requests. Retrying in 5 s.","code":"RATE_LIMIT"}"#,
        r#"{"type":"MESSAGE","role":"assistant","content":"half","delta":true}"#,
        r#"{"type":"ERROR","message":"Attempt 1/4 gave no usable reply: the stream broke off. Disregard the text shown for it. Retrying in 1 s.","code":"STREAM_RETRY"}"#,
        r#"{"type":"MESSAGE","role":"assistant","content":"Done.","delta":true}"#,
        &format!(r#"{{"type":"RESULT","success":true,"stats":{stats}}}"#),
    ];
    assert_eq!(lines(&printed), expected);
    assert_eq!((printed.err.as_str(), printed.exit), (BUSY_NOTES, 0));
}

#[test]
fn upstreams_stream_has_its_keys_and_holds_results_together() {
    let printed = render(OutputFormat::StreamJson, Dialect::GeminiCli, &busy(), &done());
    let stats = r#"{"total_tokens":254,"input_tokens":200,"output_tokens":40,"cached":80,"input":120,"duration_ms":0,"tool_calls":2,"models":{"m-x":{"total_tokens":254,"input_tokens":200,"output_tokens":40,"cached":80,"input":120}}}"#;
    let expected = [
        r#"{"type":"init","session_id":"s1","model":"auto"}"#,
        r#"{"type":"message","role":"user","content":"go"}"#,
        r#"{"type":"message","role":"assistant","content":"I lo","delta":true}"#,
        r#"{"type":"message","role":"assistant","content":"ok.","delta":true}"#,
        r#"{"type":"tool_use","tool_name":"write_file","tool_id":"write_file__1","parameters":{"file_path":"a.txt"}}"#,
        r#"{"type":"tool_use","tool_name":"read_file","tool_id":"read_file__1","parameters":{"file_path":"a.txt"}}"#,
        r#"{"type":"tool_result","tool_id":"write_file__1","status":"success"}"#,
        r#"{"type":"tool_result","tool_id":"read_file__1","status":"error","output":"File not found.","error":{"type":"file_not_found","message":"File not found: /w/a.txt"}}"#,
        r#"{"type":"message","role":"assistant","content":"half","delta":true}"#,
        r#"{"type":"error","severity":"warning","message":"Attempt 1/4 gave no usable reply: the stream broke off. Disregard the text shown for it. Retrying in 1 s."}"#,
        r#"{"type":"message","role":"assistant","content":"Done.","delta":true}"#,
        &format!(r#"{{"type":"result","status":"success","stats":{stats}}}"#),
    ];
    assert_eq!(lines(&printed), expected);
    assert_eq!((printed.err.as_str(), printed.exit), (BUSY_NOTES, 0));
}

#[test]
fn our_json_has_the_whole_answer() {
    let printed = render(OutputFormat::Json, Dialect::Pollux, &busy(), &done());
    let document: Value = serde_json::from_str(&printed.out).unwrap();
    let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["response", "stats"]);
    assert_eq!(document["response"], "I look.\nDone.");
    assert_eq!(document["stats"]["tools"]["byName"]["write_file"]["calls"], 1);
    assert!(printed.out.starts_with("{\n  \"response\"") && printed.out.ends_with("}\n"));
}

#[test]
fn upstreams_json_has_the_last_step_and_full_statistics() {
    let printed = render(OutputFormat::Json, Dialect::GeminiCli, &busy(), &done());
    assert!(printed.out.ends_with('}'), "no newline at the end");
    let document: Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(
        document.to_string(),
        concat!(
            r#"{"session_id":"s1","response":"Done.","stats":{"models":{"m-x":{"#,
            r#""api":{"totalRequests":3,"totalErrors":1,"totalLatencyMs":260,"errorsByType":{"ApiError":1}},"#,
            r#""tokens":{"input":120,"prompt":200,"candidates":40,"total":254,"cached":80,"thoughts":14,"tool":0},"#,
            r#""roles":{"main":{"totalRequests":3,"totalErrors":1,"totalLatencyMs":260,"#,
            r#""tokens":{"input":120,"prompt":200,"candidates":40,"total":254,"cached":80,"thoughts":14,"tool":0}}}}},"#,
            r#""tools":{"totalCalls":2,"totalSuccess":1,"totalFail":1,"totalDurationMs":104,"#,
            r#""totalDecisions":{"accept":1,"reject":0,"modify":0,"auto_accept":0},"byName":{"#,
            r#""read_file":{"count":1,"success":0,"fail":1,"durationMs":52,"decisions":{"accept":0,"reject":0,"modify":0,"auto_accept":0}},"#,
            r#""write_file":{"count":1,"success":1,"fail":0,"durationMs":52,"decisions":{"accept":1,"reject":0,"modify":0,"auto_accept":0}}}},"#,
            r#""files":{"totalLinesAdded":2,"totalLinesRemoved":0}}}"#
        )
    );
}

/// The failing ends, with exit codes in our dialect and upstream's.
fn failing_ends() -> [(TurnEnd, &'static str, &'static str, [u8; 2]); 6] {
    let full = TurnEnd::FatalTool { kind: ToolErrorKind::NoSpaceLeft, message: "disk full".into() };
    [
        (bad_request(), "BAD_REQUEST", "[API Error: {\"code\":400}]", [1, 1]),
        (invalid(), "INVALID_STREAM", "The model said nothing.", [1, 0]),
        (TurnEnd::Cancelled, "CANCELLED", "Operation cancelled.", [130, 130]),
        (
            TurnEnd::TurnLimit,
            "MAX_TURNS",
            "Reached max session turns for this session. Increase the number of turns by specifying maxSessionTurns in settings.json.",
            [53, 53],
        ),
        (full, "TOOL_EXECUTION_FAILED", "disk full (no_space_left)", [54, 54]),
        (
            TurnEnd::Overflow { estimated: 9, remaining: 5 },
            "CONTEXT_OVERFLOW",
            "The request does not fit the model's context window: about 9 tokens, 5 left.",
            [1, 1],
        ),
    ]
}

#[test]
fn failures_end_our_formats_with_their_reason() {
    for (end, code, message, [exit, _]) in failing_ends() {
        let stream = render(OutputFormat::StreamJson, Dialect::Pollux, &beginning(), &end);
        let events: Vec<Value> = stream.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [.., error, result] = events.as_slice() else { panic!() };
        assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!(message)));
        assert_eq!((&result["success"], &result["error"]["code"]), (&json!(false), &json!(code)));
        let json = render(OutputFormat::Json, Dialect::Pollux, &beginning(), &end);
        let document: Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(document["error"]["message"], message);
        assert_eq!(document["response"], "");
        let text = render(OutputFormat::Text, Dialect::Pollux, &beginning(), &end);
        assert_eq!(text.out, "");
        assert!(text.err.starts_with(message), "{}", text.err);
        assert_eq!([stream.exit, json.exit, text.exit], [exit; 3], "{end:?}");
    }
    let json = render(OutputFormat::Json, Dialect::Pollux, &beginning(), &bad_request());
    let document: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        document["error"].to_string(),
        r#"{"type":"API_ERROR","message":"[API Error: {\"code\":400}]","code":"BAD_REQUEST","status":400}"#
    );
}

#[test]
fn failures_end_upstreams_stream_with_a_result() {
    for (end, _, message, [_, exit]) in failing_ends() {
        let printed = render(OutputFormat::StreamJson, Dialect::GeminiCli, &beginning(), &end);
        let result: Value = serde_json::from_str(printed.out.lines().last().unwrap()).unwrap();
        assert_eq!((&result["type"], &result["status"]), (&json!("result"), &json!("error")));
        if let TurnEnd::InvalidReply { .. } = end {
            assert!(result.get("error").is_none());
            assert!(printed.out.contains(r#""severity":"error","message":"The model said nothing.""#));
        } else {
            assert_eq!(result["error"]["message"], message);
        }
        assert_eq!(printed.exit, exit, "{end:?}");
    }
    let printed = render(OutputFormat::StreamJson, Dialect::GeminiCli, &beginning(), &bad_request());
    let last = lines(&printed).pop().unwrap();
    let error = r#""status":"error","error":{"type":"unknown","message":"[API Error: {\"code\":400}]","code":400},"stats""#;
    assert!(last.contains(error), "{last}");
}

#[test]
fn failures_in_upstreams_json_are_one_object_on_stderr() {
    for (end, _, message, [_, exit]) in failing_ends() {
        let printed = render(OutputFormat::Json, Dialect::GeminiCli, &beginning(), &end);
        assert_eq!(printed.exit, exit);
        if let TurnEnd::InvalidReply { .. } = end {
            let document: Value = serde_json::from_str(&printed.out).unwrap();
            assert_eq!(document["error"], json!({"type": "INVALID_STREAM", "message": message}));
            assert_eq!(document["response"], "");
            continue;
        }
        assert_eq!(printed.out, "");
        let object: Value = serde_json::from_str(&printed.err).unwrap();
        assert_eq!((&object["session_id"], &object["error"]["message"]), (&json!("s1"), &json!(message)));
        let code = if matches!(end, TurnEnd::Failed(_)) { 400 } else { u16::from(exit) };
        assert_eq!(object["error"]["code"], code);
    }
}

#[test]
fn a_loop_is_a_success_with_one_warning() {
    let end = TurnEnd::Loop("The model repeats itself.".into());
    let mut events = beginning();
    events.push(text("again"));
    let upstream = render(OutputFormat::Json, Dialect::GeminiCli, &events, &end);
    let document: Value = serde_json::from_str(&upstream.out).unwrap();
    assert_eq!(
        (&document["response"], &document["warnings"]),
        (&json!("again"), &json!(["The model repeats itself."]))
    );
    let ours = render(OutputFormat::StreamJson, Dialect::Pollux, &events, &end);
    assert!(ours.out.contains(r#""code":"LOOP_DETECTED""#) && ours.out.contains(r#""success":true"#));
    assert_eq!((upstream.exit, ours.exit), (0, 0));
    events.push(Event::Notice {
        severity: Severity::Warning,
        code: NoticeCode::LoopDetected,
        message: "The model repeats itself.".into(),
    });
    let told = render(OutputFormat::StreamJson, Dialect::GeminiCli, &events, &end);
    assert_eq!(told.out.matches("repeats itself").count(), 1);
}

#[test]
fn a_stream_learns_that_the_session_is_synced_again() {
    let notice = |severity, message: &str| Event::Notice {
        severity,
        code: NoticeCode::Durability,
        message: message.into(),
    };
    let mut events = beginning();
    events.push(notice(Severity::Warning, "not synced"));
    events.push(notice(Severity::Info, "synced again"));
    let told = render(OutputFormat::StreamJson, Dialect::Pollux, &events, &done());
    let at = |text: &str| told.out.find(text).unwrap_or_else(|| panic!("{text}: {}", told.out));
    assert!(at(r#""code":"SYNC_FAILED""#) < at(r#""code":"SYNC_RECOVERED""#));
    let upstream = render(OutputFormat::StreamJson, Dialect::GeminiCli, &events, &done());
    assert!(!upstream.out.contains("SYNC_") && !upstream.out.contains("synced again"), "{}", upstream.out);
}

#[test]
fn useless_replies_are_counted_as_errors_without_a_request() {
    let mut events = beginning();
    events.push(ended(None, Some("NO_RESPONSE_TEXT")));
    let printed = render(OutputFormat::Json, Dialect::GeminiCli, &events, &invalid());
    let document: Value = serde_json::from_str(&printed.out).unwrap();
    let api = &document["stats"]["models"]["m-x"]["api"];
    assert_eq!(api["errorsByType"], json!({"NO_RESPONSE_TEXT": 1}));
    assert_eq!((&api["totalRequests"], &api["totalErrors"]), (&json!(1), &json!(1)));
}

#[test]
fn signals_decide_the_exit_code_of_a_cancelled_run() {
    let mut renderer = Renderer::new(style(OutputFormat::StreamJson, Dialect::GeminiCli));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = renderer.finish(&TurnEnd::Cancelled, Some(Received::Terminate), &mut out, &mut err).unwrap();
    assert_eq!(exit.code(), 143);
    assert!(String::from_utf8(out).unwrap().contains(r#""type":"FatalCancellationError""#));
}

#[test]
fn a_run_that_cannot_start_says_so_in_its_format() {
    let failure = Failure::new(ExitKind::Auth, "no key");
    let started = |format, dialect| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let exit = Renderer::new(style(format, dialect)).fail(&failure, &mut out, &mut err).unwrap();
        assert_eq!(exit.code(), 41);
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    };
    for format in [OutputFormat::Text, OutputFormat::StreamJson] {
        assert_eq!(started(format, Dialect::GeminiCli), (String::new(), "no key\n".to_owned()));
    }
    let (out, err) = started(OutputFormat::Json, Dialect::GeminiCli);
    assert_eq!(out, "");
    assert_eq!(serde_json::from_str::<Value>(&err).unwrap()["error"]["code"], 41);
    let (out, err) = started(OutputFormat::Json, Dialect::Pollux);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["error"]["type"], "AUTH_ERROR");
    assert_eq!(err, "no key\n");
    let (out, _) = started(OutputFormat::StreamJson, Dialect::Pollux);
    assert!(out.lines().last().unwrap().contains(r#""type":"RESULT","success":false"#));
}

#[test]
fn a_reader_that_went_away_is_noticed() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut renderer = Renderer::new(style(OutputFormat::Text, Dialect::Pollux));
    let error = renderer.event(&text("x"), &mut Gone, &mut Vec::new()).unwrap_err();
    assert!(is_broken_pipe(&error));
}

#[test]
fn every_event_of_a_stream_is_a_single_write() {
    struct Counting(Vec<usize>);
    impl Write for Counting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(bytes.last(), Some(&b'\n'));
            self.0.push(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for dialect in [Dialect::Pollux, Dialect::GeminiCli] {
        let mut out = Counting(Vec::new());
        let mut renderer = Renderer::new(style(OutputFormat::StreamJson, dialect));
        for event in busy() {
            renderer.event(&event, &mut out, &mut Vec::new()).unwrap();
        }
        assert!(out.0.len() > 10);
    }
}

fn run_failed(failure: RunFailure, display: Display) -> Event {
    let Event::CallFinished(report) = finished("run_shell_command", None, display) else { unreachable!() };
    let outcome = CallOutcome::Failed(failure.into());
    Event::CallFinished(Arc::new(CallReport { outcome, lines: LineDelta::default(), ..(*report).clone() }))
}

/// A command that printed something and failed, and one that failed silently.
fn failing() -> Vec<Event> {
    let mut events = beginning();
    events.extend([
        requested("run_shell_command"),
        run_failed(RunFailure::ExitCode(3), Display::Text("hi".into())),
        requested("run_shell_command"),
        run_failed(RunFailure::Signal(9), Display::Text("Command terminated by signal: 9".into())),
        text("Done."),
        Event::StepCommitted,
    ]);
    events
}

#[test]
fn a_command_that_failed_is_an_error_in_our_stream_and_none_upstream() {
    let ours = render(OutputFormat::StreamJson, Dialect::Pollux, &failing(), &done());
    let (ours_lines, upstream) =
        (lines(&ours), render(OutputFormat::StreamJson, Dialect::GeminiCli, &failing(), &done()));
    let results: Vec<&String> = ours_lines.iter().filter(|line| line.contains("TOOL_RESULT")).collect();
    assert_eq!(
        results,
        [
            r#"{"type":"TOOL_RESULT","callId":"run_shell_command__1","status":"error","result":"hi","error":"Command exited with code 3"}"#,
            r#"{"type":"TOOL_RESULT","callId":"run_shell_command__1","status":"error","error":"Command terminated by signal 9"}"#,
        ]
    );
    let last = ours_lines.last().unwrap();
    assert!(last.contains(r#""success":true"#), "{last}");
    assert!(last.contains(r#""totalSuccess":0,"totalFail":2"#), "{last}");
    assert!(last.contains(r#""run_shell_command":{"calls":2,"success":0,"fail":2}"#), "{last}");
    assert_eq!(ours.exit, 0);
    assert_eq!(
        ours.err,
        "Error executing tool run_shell_command: Command exited with code 3\n\
         Error executing tool run_shell_command: Command terminated by signal 9\n"
    );
    let upstream_lines = lines(&upstream);
    let results: Vec<&String> = upstream_lines.iter().filter(|line| line.contains("tool_result")).collect();
    assert_eq!(
        results,
        [
            r#"{"type":"tool_result","tool_id":"run_shell_command__1","status":"success","output":"hi"}"#,
            r#"{"type":"tool_result","tool_id":"run_shell_command__1","status":"success","output":"Command terminated by signal: 9"}"#,
        ]
    );
    assert_eq!((upstream.err.as_str(), upstream.exit), ("", 0));
}

#[test]
fn json_names_a_failed_command_unless_a_later_call_went_well() {
    let error = |events: &[Event], dialect| {
        let printed = render(OutputFormat::Json, dialect, events, &done());
        assert_eq!(printed.exit, 0);
        serde_json::from_str::<Value>(&printed.out).unwrap()
    };
    let mut events = beginning();
    events.extend([requested("x"), run_failed(RunFailure::ExitCode(1), Display::Nothing), text("Sorry.")]);
    let document = error(&events, Dialect::Pollux);
    assert_eq!(
        document["error"],
        json!({"type": "TOOL_ERROR", "message": "Command failed with exit code 1", "code": "TOOL_EXECUTION_FAILED"})
    );
    assert_eq!(document["stats"]["tools"]["totalFail"], 1);
    let document = error(&events, Dialect::GeminiCli);
    assert_eq!(document.get("error"), None);
    let tools = &document["stats"]["tools"];
    assert_eq!((&tools["totalSuccess"], &tools["totalFail"]), (&json!(1), &json!(0)));
    assert_eq!(tools["byName"]["run_shell_command"]["success"], 1);
    events.push(finished("write_file", None, diff()));
    assert_eq!(error(&events, Dialect::Pollux).get("error"), None);
}

#[test]
fn a_sub_agent_that_failed_is_an_error_with_its_reason() {
    let end = AgentEnd {
        agent: "scout".into(),
        record: None,
        state: "error".into(),
        reason: "ERROR".into(),
        result: "no such model".into(),
    };
    let failure = RunFailure::Agent { agent: "scout".into(), reason: "ERROR".into() };
    let events = [run_failed(failure, Display::Agent(Box::new(end)))];
    let ours = lines(&render(OutputFormat::StreamJson, Dialect::Pollux, &events, &done()));
    assert_eq!(
        ours[0],
        r#"{"type":"TOOL_RESULT","callId":"run_shell_command__1","status":"error","result":"no such model","error":"Subagent 'scout' failed: ERROR"}"#
    );
}
