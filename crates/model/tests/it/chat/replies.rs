//! How streams are read.

use std::time::{Duration, Instant};

use pollux_domain::content::Body;
use pollux_domain::model::ModelClient;
use pollux_domain::model::{FinishReason, MicroUsd, ModelErrorKind, ReplyEvent, Usage};
use pollux_model::chat::ChatClient;
use pollux_test_support::chat::{ChatReply, Close, FakeChat};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::fixture::{drain, prompt};
use super::fixture::{called, calls, client, endpoint, told, whole};

fn stream() -> ChatReply {
    ChatReply::stream().role()
}

#[tokio::test]
async fn text_its_end_and_its_counts_are_told() {
    let reply = stream().text("Hel").text("lo").finish("stop").usage(7, 2).done();
    let told = told(reply).await;
    assert_eq!((told.text().as_str(), &told.error), ("Hello", &None));
    let finishes: Vec<_> = told.chunks.iter().filter_map(|chunk| chunk.finish.as_ref()).collect();
    assert_eq!(finishes.len(), 1);
    assert_eq!(finishes[0].reason, FinishReason::Stop);
    let usage = told.chunks.iter().filter_map(|chunk| chunk.usage).next_back();
    assert_eq!(usage, Some(Usage { input: 7, output: 2, total: 9, ..Usage::default() }));
    let origin = told.chunks[0].origin.as_ref().unwrap();
    assert_eq!((origin.provider.as_str(), origin.dialect.as_str()), ("lab", "chat"));
}

#[tokio::test]
async fn a_server_that_does_not_count_gets_an_estimate() {
    let usage = whole(stream().text("some words").finish("stop").done()).await.usage.unwrap();
    assert!(usage.estimated && usage.total > 0 && usage.input > 0 && usage.output > 0, "{usage:?}");
}

#[tokio::test]
async fn counts_in_every_chunk_are_not_summed() {
    let chunk = |text: &str, completion: u64, finish: Value| {
        json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 10, "completion_tokens": completion}})
    };
    let reply = ChatReply::stream()
        .event(&chunk("a", 1, json!(null)))
        .event(&chunk("b", 2, json!(null)))
        .event(&chunk("c", 3, json!("stop")))
        .usage(10, 4)
        .done();
    let usage = whole(reply).await.usage.unwrap();
    assert_eq!((usage.input, usage.output, usage.total), (10, 4, 14));
}

#[tokio::test]
async fn reported_costs_are_kept() {
    let reply = stream().text("x").finish("stop").event(&json!({"choices": [], "usage": {
        "prompt_tokens": 3, "completion_tokens": 2, "cost": 0.5}}));
    assert_eq!(whole(reply.done()).await.usage.unwrap().cost_reported, Some(MicroUsd(500_000)));
}

#[tokio::test]
async fn a_call_in_pieces_is_one_call() {
    let reply = stream()
        .call(0, "call_1", "read_file", "")
        .calls(&json!([{"index": 0, "function": {"arguments": "{\"a"}}]))
        .calls(&json!([{"index": 0, "function": {"arguments": "\":1}"}}]))
        .finish("tool_calls")
        .done();
    let whole = whole(reply).await;
    assert_eq!(called(&whole), [("read_file".to_owned(), json!({"a": 1}))]);
    assert_eq!(calls(&whole)[0].id.as_deref(), Some("call_1"));
    assert_eq!(whole.finish.unwrap().reason, FinishReason::ToolCalls);
}

#[tokio::test]
async fn interleaved_calls_are_kept_apart_by_their_index() {
    let piece = |index: u64, text: &str| json!([{"index": index, "function": {"arguments": text}}]);
    let reply = stream()
        .call(1, "b", "two", "{\"n\"")
        .call(0, "a", "one", "{\"n\"")
        .calls(&piece(1, ":2}"))
        .calls(&piece(0, ":1}"))
        .finish("tool_calls")
        .done();
    let expected = [("one".to_owned(), json!({"n": 1})), ("two".to_owned(), json!({"n": 2}))];
    assert_eq!(called(&whole(reply).await), expected);
}

#[tokio::test]
async fn calls_without_an_index_are_told_apart_by_id_and_name() {
    let element = |id: Value, name: Value, text: &str| json!([{"id": id, "function": {"name": name, "arguments": text}}]);
    let (one, two) = (json!("one"), json!("two"));
    let by_id = stream()
        .calls(&element(json!("a"), one.clone(), "{}"))
        .calls(&element(json!("b"), two.clone(), "{}"))
        .finish("tool_calls");
    assert_eq!(called(&whole(by_id.done()).await).len(), 2);
    let neither = stream()
        .calls(&element(json!(null), one.clone(), "{\"n\""))
        .calls(&element(json!(null), json!(null), ":1}"))
        .finish("tool_calls");
    assert_eq!(called(&whole(neither.done()).await), [("one".to_owned(), json!({"n": 1}))]);
    let whole_ones = stream()
        .calls(&element(json!(""), one.clone(), "{\"n\":1}"))
        .calls(&element(json!(""), one, "{\"n\":2}"))
        .finish("tool_calls");
    assert_eq!(called(&whole(whole_ones.done()).await).len(), 2, "whole arguments end a call");
}

#[tokio::test]
async fn another_id_under_the_same_index_is_another_call() {
    let reply = stream().call(0, "a", "one", "{}").call(0, "b", "two", "{}").finish("tool_calls").done();
    let whole = whole(reply).await;
    let ids: Vec<_> = calls(&whole).iter().map(|call| call.id.clone().unwrap()).collect();
    assert_eq!(ids, ["a", "b"]);
}

#[tokio::test]
async fn a_repeated_id_or_name_changes_nothing() {
    let reply = stream()
        .call(0, "a", "one", "{\"n\"")
        .call(0, "a", "one", ":1")
        .call(0, "a", "", "}")
        .finish("tool_calls")
        .done();
    let whole = whole(reply).await;
    assert_eq!(called(&whole), [("one".to_owned(), json!({"n": 1}))]);
    assert_eq!(calls(&whole)[0].id.as_deref(), Some("a"));
}

#[tokio::test]
async fn arguments_may_be_an_object_empty_or_missing() {
    let function = |function: Value| {
        let reply = stream().calls(&json!([{"index": 0, "id": "a", "function": function}]));
        whole(reply.finish("tool_calls").done())
    };
    assert_eq!(called(&function(json!({"name": "f", "arguments": {"n": 1}})).await)[0].1, json!({"n": 1}));
    for arguments in
        [json!({"name": "f", "arguments": ""}), json!({"name": "f"}), json!({"name": "f", "arguments": null})]
    {
        assert_eq!(called(&function(arguments).await), [("f".to_owned(), json!({}))]);
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_kept_and_not_run() {
    let whole = whole(stream().call(0, "a", "read_file", "{\"path\": \"a").finish("tool_calls").done()).await;
    let [call] = calls(&whole)[..] else { panic!("one call") };
    assert!(call.args.is_empty() && call.bad_args.as_ref().unwrap().raw == "{\"path\": \"a");
}

#[tokio::test]
async fn a_call_that_the_output_limit_cut_is_dropped() {
    let reply = stream().text("so").call(0, "a", "read_file", "{\"path\": \"a").finish("length").done();
    let whole = whole(reply).await;
    assert!(calls(&whole).is_empty());
    assert_eq!(whole.finish.unwrap().reason, FinishReason::MaxTokens);
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_cut_and_its_calls_are_never_told() {
    let in_arguments = stream().text("one").call(0, "a", "read_file", "{\"path\": \"a").close(Close::Drop);
    let cases = [
        ("inside arguments", in_arguments.clone(), "one"),
        ("inside arguments, in order", in_arguments.clone().close(Close::End), "one"),
        ("inside arguments, with the end mark", in_arguments.close(Close::End).done(), "one"),
        ("after text, in order", stream().text("one"), "one"),
        ("after text, with the end mark", stream().text("one").done(), "one"),
        ("whole arguments, closed", stream().call(0, "a", "read_file", "{}"), ""),
        ("nothing at all", ChatReply::stream(), ""),
    ];
    for (name, reply, text) in cases {
        let told = told(reply).await;
        assert_eq!(told.text(), text, "{name}");
        assert_eq!(told.error().kind, ModelErrorKind::Cut, "{name}");
        assert!(told.error().stream_may_restart() && told.waits.is_empty(), "{name}");
        let any_call = told.chunks.iter().flat_map(|chunk| &chunk.parts).any(|part| part.as_call().is_some());
        assert!(!any_call, "{name}");
    }
}

#[tokio::test]
async fn calls_and_the_end_mark_without_a_reason_are_a_whole_reply() {
    let whole = whole(stream().call(0, "a", "read_file", "{}").done()).await;
    assert_eq!(calls(&whole).len(), 1);
    assert_eq!(whole.finish.unwrap().reason, FinishReason::ToolCalls);
}

#[tokio::test]
async fn a_finished_reply_does_not_wait_for_the_connection() {
    for close in [Close::Hold, Close::Drop] {
        let server = FakeChat::start([stream().text("x").finish("stop").close(close)]);
        let started = Instant::now();
        let told = drain(client(&server).stream(prompt("hi"))).await;
        assert_eq!((told.text().as_str(), &told.error), ("x", &None));
        // The limit for silence is 60 s.
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert!(told.chunks.iter().any(|chunk| chunk.usage.is_some_and(|usage| usage.estimated)));
    }
    // The end mark ends it at once: every attempt would take 3 s if the end of the connection were waited for, while
    // on a busy machine a single one may be slow.
    let begun = Instant::now();
    loop {
        let server = FakeChat::start([ChatReply::said("x").close(Close::Hold)]);
        let started = Instant::now();
        drain(client(&server).stream(prompt("hi"))).await;
        if started.elapsed() < Duration::from_millis(1500) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn calls_decide_and_not_the_word_for_the_end() {
    for word in ["stop", "eos", "tool_call", "tool_calls"] {
        let reply = stream().call(0, "a", "f", "{}").finish(word).done();
        let whole = whole(reply).await;
        assert_eq!(
            (calls(&whole).len(), whole.finish.unwrap().reason),
            (1, FinishReason::ToolCalls),
            "{word}"
        );
    }
    let blank = whole(stream().call(0, "a", "f", "{}").finish("").done()).await;
    assert_eq!(calls(&blank).len(), 1);
    let none = whole(stream().finish("tool_calls").done()).await;
    assert_eq!((none.parts.len(), none.finish.unwrap().reason), (0, FinishReason::Stop));
}

#[tokio::test]
async fn chunks_without_choices_are_passed_over() {
    let reply = ChatReply::stream()
        .event(&json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}))
        .event(&json!({"id": "x"}))
        .event(&json!({"choices": null, "usage": null}))
        .text("a")
        .event(&json!({"choices": [{"index": 0, "delta": {"content": "b"}}], "obfuscation": "xxxx"}))
        .event(&json!({"choices": [{"index": 1, "delta": {"content": "another choice"}}]}))
        .finish("stop")
        .done();
    assert_eq!(whole(reply).await.parts.len(), 2);
}

#[tokio::test]
async fn errors_in_the_middle_of_a_stream_are_the_servers() {
    let cases = [
        (json!({"error": {"message": "x", "code": "server_error"}}), "x"),
        (json!({"object": "error", "message": "boom", "code": 500}), "boom"),
        (json!({"error": "text"}), "text"),
        (
            json!({"error": {"code": 502, "message": "up"}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}),
            "up",
        ),
    ];
    for (event, message) in cases {
        let told = told(stream().text("one").event(&event)).await;
        assert_eq!(told.text(), "one");
        assert_eq!(
            (told.error().kind.clone(), told.error().message.as_str()),
            (ModelErrorKind::Server, message)
        );
        assert!(told.error().stream_may_restart());
    }
}

#[tokio::test]
async fn an_error_before_the_first_word_is_tried_again() {
    let server = FakeChat::start([
        ChatReply::stream().event(&json!({"error": {"message": "x", "code": "server_error"}})),
        ChatReply::said("good"),
    ]);
    let told = drain(client(&server).stream(prompt("hi"))).await;
    assert_eq!((told.text().as_str(), told.waits.len()), ("good", 1));
}

#[tokio::test]
async fn a_whole_reply_in_spite_of_the_stream_is_read() {
    let message = json!({"role": "assistant", "content": "all of it", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"n\":1}"}}]});
    let body = json!({"object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    for kind in ["application/json; charset=utf-8", "text/plain"] {
        let whole = whole(ChatReply::http(200, kind, format!("{body:#}"))).await;
        assert_eq!(called(&whole), [("f".to_owned(), json!({"n": 1}))], "{kind}");
        assert_eq!(whole.parts[0].spoken_text(), Some("all of it"));
        assert_eq!(whole.usage.unwrap().total, 7);
    }
}

#[tokio::test]
async fn a_web_page_names_the_address_and_is_not_asked_for_again() {
    let page = "<!doctype html><html><head><title>Sign in</title></head><body>secret words</body></html>";
    for kind in ["text/html", "text/event-stream"] {
        let server = FakeChat::start([ChatReply::http(200, kind, page)]);
        let told = drain(client(&server).stream(prompt("hi"))).await;
        let error = told.error();
        assert!(error.message.contains(&server.url()) && error.message.contains("Sign in"), "{error:?}");
        assert!(!error.message.contains("secret words") && !error.stream_may_restart());
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn reasoning_alone_is_shown_and_is_no_answer() {
    for field in ["reasoning_content", "reasoning"] {
        let reply = stream().delta(&json!({field: "first\n\nsec"})).delta(&json!({field: "ond"}));
        let whole = whole(reply.finish("stop").done()).await;
        let shown: Vec<&str> = whole
            .parts
            .iter()
            .map(|part| match &part.body {
                Body::Reasoning { text, .. } => text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(shown, ["first\n\n", "second"], "{field}");
    }
}

#[tokio::test]
async fn lists_of_content_and_think_tags_are_read() {
    let listed = json!({"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}, {"type": "text", "text": "so"}]});
    let whole_list = whole(stream().delta(&listed).finish("stop").done()).await;
    assert!(matches!(&whole_list.parts[0].body, Body::Reasoning { text, .. } if text == "why"));
    assert_eq!(whole_list.parts[1].spoken_text(), Some("so"));
    let server =
        FakeChat::start([stream().text("<th").text("ink>why</think>").text("so").finish("stop").done()]);
    let request =
        super::fixture::with_model("qwen3:8b", vec![pollux_domain::content::Content::user_text("hi")]);
    assert_eq!(drain(client(&server).stream(request)).await.text(), "so");
    assert_eq!(
        whole(stream().text("<think>x").finish("stop").done()).await.parts[0].spoken_text(),
        Some("<think>x")
    );
}

#[tokio::test]
async fn a_refusal_is_told_as_one() {
    let reply = stream().delta(&json!({"refusal": "I can"})).delta(&json!({"refusal": "not"}));
    let finish = whole(reply.finish("stop").done()).await.finish.unwrap();
    let FinishReason::Refusal(refusal) = finish.reason else { panic!("{finish:?}") };
    assert_eq!(refusal.text.as_deref(), Some("I cannot"));
    let filtered = whole(stream().text("a").finish("content_filter").done()).await;
    assert_eq!(filtered.finish.unwrap().reason, FinishReason::ContentFilter);
}

#[tokio::test]
async fn two_calls_of_one_id_are_two_calls() {
    let reply =
        stream().call(0, "same", "f", "{\"n\":1}").call(1, "same", "f", "{\"n\":2}").finish("tool_calls");
    let whole = whole(reply.done()).await;
    let ids: Vec<_> = calls(&whole).iter().map(|call| call.id.clone()).collect();
    assert_eq!(ids, [Some("same".to_owned()), None], "the program names the second one");
}

#[tokio::test]
async fn comments_show_that_the_server_lives() {
    let mut reply = ChatReply::stream();
    // Longer as a whole than the silence after which a server is given up.
    for _ in 0..12 {
        reply = reply.raw(": OPENROUTER PROCESSING\n\n").wait(1000);
    }
    let server = FakeChat::start([reply.raw(":\n").text("late").finish("stop").done()]);
    let mut endpoint = endpoint(&server, "lab");
    endpoint.timing.stall = Duration::from_secs(10);
    let mut stream = ChatClient::new(endpoint).unwrap().stream(prompt("hi"));
    let (mut alive, mut text) = (0, String::new());
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            ReplyEvent::Alive => alive += 1,
            ReplyEvent::Chunk(chunk) => text.extend(chunk.parts.iter().filter_map(|part| part.spoken_text())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(text, "late");
    assert!(alive >= 5, "{alive}");
}

#[tokio::test]
async fn odd_bytes_around_events_do_not_matter() {
    let reply = ChatReply::stream()
        .raw("\u{feff}data:{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}}]}\r\n\r\n")
        .raw("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\r\n\r\n");
    assert_eq!(told(reply).await.text(), "ab");
}

#[tokio::test]
async fn progress_of_a_long_call_is_told() {
    let mut reply = stream().call(0, "a", "write_file", "{\"text\":\"");
    for _ in 0..5 {
        reply = reply.calls(&json!([{"index": 0, "function": {"arguments": "x".repeat(400)}}]));
    }
    let reply =
        reply.calls(&json!([{"index": 0, "function": {"arguments": "\"}"}}])).finish("tool_calls").done();
    let server = FakeChat::start([reply]);
    let mut stream = client(&server).stream(prompt("hi"));
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        if let ReplyEvent::CallProgress { name, bytes, .. } = event.unwrap() {
            assert_eq!(name, "write_file");
            seen.push(bytes);
        }
    }
    assert!(seen.len() >= 2 && seen.is_sorted(), "{seen:?}");
}

fn recorded() -> Vec<u8> {
    let chunk = |delta: Value, finish: Value| {
        format!(
            "data: {}\r\n\r\n",
            json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        )
    };
    let piece =
        |index: u64, text: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]});
    let begun = |index: u64, id: &str| json!({"tool_calls": [{"index": index, "id": id, "function": {"name": "f", "arguments": ""}}]});
    [
        ": ping\r\n\r\n".to_owned(),
        chunk(json!({"role": "assistant", "content": null, "reasoning_content": "wärum\n\n"}), json!(null)),
        chunk(json!({"reasoning_content": "därum"}), json!(null)),
        chunk(json!({"content": "Grüße 👋 "}), json!(null)),
        chunk(json!({"content": "an alle"}), json!(null)),
        chunk(begun(0, "a"), json!(null)),
        chunk(begun(1, "b"), json!(null)),
        chunk(piece(1, "{\"n\":"), json!(null)),
        chunk(piece(0, "{\"t\":\"ü"), json!(null)),
        chunk(piece(1, "2}"), json!(null)),
        chunk(piece(0, "\"}"), json!(null)),
        chunk(json!({}), json!("tool_calls")),
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":8}}\n\n".to_owned(),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
    .into_bytes()
}

#[tokio::test]
async fn what_follows_the_end_mark_in_the_same_piece_is_not_read() {
    let more = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" and more\"},\"finish_reason\":\"stop\"}]}\n\n";
    let longer = [recorded().as_slice(), more].concat();
    let expected = whole(ChatReply::stream().raw(recorded())).await;
    assert_eq!(whole(ChatReply::stream().raw(longer)).await, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_stream_reads_the_same_in_any_pieces(sizes in proptest::collection::vec(1_usize..90, 1..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (whole_once, pieces) = runtime.block_on(async {
            let once = whole(ChatReply::stream().raw(recorded())).await;
            (once, whole(ChatReply::stream().raw(recorded()).split(&sizes)).await)
        });
        prop_assert_eq!(&pieces, &whole_once);
        prop_assert_eq!(called(&pieces), vec![("f".to_owned(), json!({"t": "ü"})), ("f".to_owned(), json!({"n": 2}))]);
    }
}
