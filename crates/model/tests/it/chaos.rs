//! Chaos on the wire: every client against a line that disturbs its bytes. A reply is told to its end as it was sent,
//! up to bytes that were changed, or it ends with an error, and the agent asks again. Half a call is never told.
//!
//! `POLLUX_CHAOS_CASES` is the number of cases for each wire and fault (30), or `all` for every offset;
//! `POLLUX_CHAOS_SEED` repeats a run.

#![allow(clippy::disallowed_methods, reason = "the length of a test is no setting")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pollux_config::groups::Secret;
use pollux_domain::content::{Content, FunctionCall, Part};
use pollux_domain::model::{
    Capabilities, Dialect, ModelClient, ModelErrorKind, ModelInfo, ModelRequest, ProviderId,
};
use pollux_model::chat::ChatClient;
use pollux_model::gemini::GeminiClient;
use pollux_model::messages::{MessagesClient, MessagesOptions, api_key};
use pollux_model::responses::ResponsesClient;
use pollux_model::shared::endpoint::Endpoint;
use pollux_net::client::{ClientOptions, client as http};
use pollux_test_support::bad_line::{BadLine, CONTENT, Case, CaseResults, FILE, Fault, Framing};
use pollux_test_support::chance::Chance;
use pollux_test_support::wires::{Said, Wire};
use pollux_test_support::{FakeHttp, HttpAnswer};
use serde_json::{Value, json};

use super::chat::fixture::answer;
use super::fixture::{KEY, Told, drain, drain_within, options_at, request};

/// How long a server may be silent; short where that is the fault.
fn client(wire: Wire, url: &str, silence: Duration) -> Arc<dyn ModelClient> {
    if wire == Wire::Gemini {
        let mut options = options_at(url.to_owned());
        (options.first_byte, options.stall) = (silence, silence);
        return Arc::new(GeminiClient::new(options).unwrap());
    }
    let dialect = match wire {
        Wire::Gemini | Wire::Chat => Dialect::CHAT,
        Wire::Responses => Dialect::RESPONSES,
        Wire::Messages => Dialect::MESSAGES,
    };
    let facts = move |name: &str| ModelInfo {
        caps: Capabilities { tools: true, ..Capabilities::default() },
        ..ModelInfo::unknown(name, ProviderId::new("lab"), dialect.clone())
    };
    let http = http(&ClientOptions::new("unused")).unwrap();
    let mut endpoint = Endpoint::new(ProviderId::new("lab"), format!("{url}/v1"), http, Arc::new(facts));
    endpoint.credential = Some(api_key(Secret::new(KEY)));
    endpoint.timing.backoff.scale = 0.0001;
    endpoint.timing.max_attempts = 4;
    endpoint.timing.random = || 0.0;
    (endpoint.timing.first_byte, endpoint.timing.stall) = (silence, silence);
    match wire {
        Wire::Gemini | Wire::Chat => Arc::new(ChatClient::new(endpoint).unwrap()),
        Wire::Responses => Arc::new(ResponsesClient::new(endpoint).unwrap()),
        Wire::Messages => Arc::new(MessagesClient::new(endpoint, MessagesOptions::default()).unwrap()),
    }
}

/// A request for the first reply, or for the one after the call.
fn asking(reply: usize) -> ModelRequest {
    let mut contents = vec![Content::user_text("Write the note.")];
    if reply > 0 {
        let Value::Object(args) = json!({"file_path": FILE, "content": CONTENT}) else { unreachable!() };
        let call = FunctionCall::new(Some("call_1x0".into()), "write_file", args);
        contents.push(Content::model(vec![Part::call(call)]));
        contents.push(Content::user(vec![answer(Some("call_1x0"), "write_file", "written", Vec::new())]));
    }
    ModelRequest { model: "test-model".into(), ..request(contents) }
}

fn calls(told: &Told) -> Vec<&FunctionCall> {
    told.chunks.iter().flat_map(|chunk| &chunk.parts).filter_map(|part| part.as_call()).collect()
}

fn is_complete(told: &Told) -> bool {
    told.error.is_none() && told.chunks.iter().any(|chunk| chunk.finish.is_some())
}

/// What is wrong with a reply, and what kind of reply it is.
fn check(case: Case, told: &Told) -> (Vec<String>, &'static str) {
    let mut wrong = Vec::new();
    if let Some(error) = &told.error {
        if error.message.trim().is_empty() {
            wrong.push("the error has no message".to_owned());
        }
        if case.fault == Fault::Pause {
            wrong.push(format!("a pause is an error: {error:?}"));
        }
        let may_be_repeated = matches!(error.kind, ModelErrorKind::Cut | ModelErrorKind::Malformed);
        if case.fault.keeps_bytes() && case.fault != Fault::Silence && !may_be_repeated {
            wrong.push(format!("an end of the connection is taken for something else: {error:?}"));
        }
        return (wrong, "error");
    }
    // The agent takes a reply without an end for one that broke off.
    if !is_complete(told) {
        return (wrong, "unfinished");
    }
    let (text, calls) = (told.text(), calls(told));
    if !case.is_plausible(case.reply..case.reply + 1, &text) {
        wrong.push(format!("it said {text:?}"));
    }
    if calls.len() > case.most_calls() || case.reply > 0 && !calls.is_empty() {
        wrong.push(format!("{} calls", calls.len()));
    }
    // Arguments that are not JSON or lack a name are refused before a call runs.
    for content in calls.iter().filter_map(|call| call.args.get("content")?.as_str()) {
        if !case.is_whole(content) {
            wrong.push(format!("a call with {content:?}"));
        }
    }
    let is_exact = Case { fault: Fault::Cut, ..case }.is_plausible(case.reply..case.reply + 1, &text);
    let is_called = calls.len() == 1 - case.reply
        && calls.iter().all(|call| call.args.get("content").is_some_and(|content| content == CONTENT));
    if case.fault.keeps_bytes() && !is_called {
        wrong.push(format!("the call is {calls:?}"));
    }
    (wrong, if is_exact && is_called { "same" } else { "changed" })
}

fn cases(wire: Wire, fault: Fault, seed: u64) -> Vec<Case> {
    let wanted = std::env::var("POLLUX_CHAOS_CASES").unwrap_or_default();
    if wanted == "all" {
        let framings = match fault {
            Fault::Cut => &Framing::ALL[..],
            // A chunk whose length is wrong gives them away.
            Fault::Drop | Fault::Double => &[Framing::Chunked, Framing::UntilClose],
            _ => &[Framing::Chunked],
        };
        return framings.iter().flat_map(|framing| Case::all(wire, *framing, fault, seed)).collect();
    }
    let mut chance = Chance::new(seed ^ ((wire as u64) << 40) ^ ((fault as u64) << 48));
    let all: Vec<_> = Framing::ALL.map(|framing| Case::all(wire, framing, fault, seed)).concat();
    (0..wanted.parse().unwrap_or(30)).map(|_| *chance.pick(&all)).collect()
}

/// Tries the cases of a wire, several at a time: some of them wait.
fn disturb(wire: Wire) {
    let seed = std::env::var("POLLUX_CHAOS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let all: Vec<Case> = match std::env::var("POLLUX_CHAOS_CASE") {
        Ok(name) => Case::named(wire, &name, seed),
        Err(_) => Fault::ALL.into_iter().flat_map(|fault| cases(wire, fault, seed)).collect(),
    };
    let Some(first) = all.first() else { return };
    let (next, results) = (AtomicUsize::new(0), CaseResults::default());
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let line = BadLine::start(*first);
        let patient = client(wire, &line.url(), Duration::from_secs(300));
        let impatient = client(wire, &line.url(), Duration::from_millis(150));
        while let Some(case) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            line.next(*case);
            let client = if case.fault == Fault::Silence { &impatient } else { &patient };
            let stream = client.stream(asking(case.reply));
            let told = runtime.block_on(drain_within(stream, Duration::from_secs(120)));
            let (wrong, kind) = check(*case, &told);
            results.note(*case, kind, &wrong);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(work);
        }
    });
    results.report(wire);
}

#[test]
fn gemini_survives_chaos() {
    disturb(Wire::Gemini);
}

#[test]
fn chat_survives_chaos() {
    disturb(Wire::Chat);
}

#[test]
fn responses_survives_chaos() {
    disturb(Wire::Responses);
}

#[test]
fn messages_survives_chaos() {
    disturb(Wire::Messages);
}

/// A reply with a call in four pieces, one of whose events is damaged.
async fn damaged(wire: Wire, event: &str, from: &str, to: &str) -> Told {
    let args = json!({"file_path": FILE, "content": CONTENT});
    let said = Said::call("write_file", args).in_pieces(4);
    let stream = String::from_utf8(wire.stream(&said, 1)).unwrap();
    let mut hit = false;
    let damage = |text: &str| {
        if hit || !text.contains(event) {
            return text.to_owned();
        }
        hit = true;
        assert!(text.contains(from), "{from} is not in {text}");
        text.replacen(from, to, 1)
    };
    let body: String = stream.split_inclusive("\n\n").map(damage).collect();
    let server = FakeHttp::start(move |_| {
        HttpAnswer::status(200).header("Content-Type", "text/event-stream").body(body.clone())
    });
    drain(client(wire, &server.url(), Duration::from_secs(60)).stream(asking(0))).await
}

#[tokio::test]
async fn a_reply_that_lost_a_piece_of_a_call_is_void() {
    let (chat, messages) = (Wire::Chat, Wire::Messages);
    for (wire, event, from, to) in [
        (chat, "psilon", "data:", "dat:"),
        (chat, "psilon", "data:", ":ata:"),
        (chat, "psilon", "choices", "choice"),
        (chat, "psilon", "\"delta\"", "\"del\""),
        (chat, "psilon", "tool_calls", "tool_alls"),
        (chat, "psilon", "function", "functiom"),
        (chat, "psilon", "arguments", "argumentz"),
        (chat, "psilon", "[{\"index\":0,\"function", "[{\"index\":4,\"function"),
        (chat, "psilon", "[{\"index\":0,\"delta", "[{\"index\":4,\"delta"),
        (messages, "psilon", "data:", "dat:"),
        (messages, "psilon", "\ndata:", "data:"),
        (messages, "psilon", "\"index\":0", "\"index\":1"),
        (messages, "psilon", "partial_json", "partial_jso"),
        (messages, "tool_use", "content_block\":", "content_bloc\":"),
    ] {
        let told = damaged(wire, event, from, to).await;
        let kind = told.error.as_ref().map(|error| error.kind.clone());
        assert_eq!(kind, Some(ModelErrorKind::Malformed), "{wire:?} {from} {to}: {told:?}");
    }
}

#[tokio::test]
async fn damage_that_says_nothing_changes_nothing() {
    for (wire, event, from, to) in [
        (Wire::Messages, "psilon", "event: content_block_delta", "event: content_block_dalta"),
        (Wire::Messages, "psilon", "\"type\":\"content_block_delta\"", "\"type\":\"content_block_dalta\""),
        (Wire::Responses, "psilon", "function_call_arguments.delta\"", "function_call_arguments.dalta\""),
    ] {
        let told = damaged(wire, event, from, to).await;
        let content = calls(&told).first().and_then(|call| call.args.get("content").cloned());
        assert_eq!(
            (content, is_complete(&told)),
            (Some(json!(CONTENT)), true),
            "{wire:?} {from} {to}: {told:?}"
        );
    }
}

#[tokio::test]
async fn a_block_that_begins_twice_is_not_two_calls() {
    let start = "event: content_block_start";
    let again = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":\
                 {\"type\":\"tool_use\",\"id\":\"toolu_1x0\",\"name\":\"write_file\",\"input\":{}}}\n\nevent: content_block_start";
    let told = damaged(Wire::Messages, "tool_use", start, again).await;
    assert_eq!(told.error().kind, ModelErrorKind::Malformed, "{told:?}");
    assert!(calls(&told).is_empty(), "{told:?}");
}

#[tokio::test]
async fn what_servers_send_between_the_pieces_of_a_call_changes_nothing() {
    let filtered =
        r#"{"choices":[{"index":0,"finish_reason":null,"content_filter_results":{}}],"usage":null}"#;
    let chat = |event: &str| (Wire::Chat, "data:", format!("{event}\n\ndata:"));
    let messages =
        |name: &str, data: &str| (Wire::Messages, "event:", format!("event: {name}\ndata: {data}\n\nevent:"));
    let delta = |delta: &str| {
        messages(
            "content_block_delta",
            &format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#),
        )
    };
    for (wire, from, to) in [
        chat(&format!("data: {filtered}")),
        chat("data: {}"),
        chat(r#"data: {"choices":[]}"#),
        chat(r#": {"ping":1}"#),
        delta(r#"{"type":"input_json_delta","partial_json":null}"#),
        delta(r#"{"type":"text_delta","text":"\n"}"#),
        messages("message", r#"{"type":"keepalive"}"#),
    ] {
        let told = damaged(wire, "psilon", from, &to).await;
        let content = calls(&told).first().and_then(|call| call.args.get("content").cloned());
        assert_eq!((content, is_complete(&told)), (Some(json!(CONTENT)), true), "{wire:?} {to}: {told:?}");
    }
}
