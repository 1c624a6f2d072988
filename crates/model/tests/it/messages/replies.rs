//! What replies become.

use pollux_domain::content::{Body, SealKind};
use pollux_domain::model::{FinishReason, ModelClient, ModelErrorKind, ReplyEvent, Usage};
use pollux_test_support::{FakeMessages, MessagesReply};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::fixture::{Told, drain, prompt};
use super::{ask, client, first_party};

async fn told(reply: MessagesReply) -> Told {
    let server = FakeMessages::start([reply]);
    drain(client(&server).stream(prompt("hi"))).await
}

fn reason(told: &Told) -> &FinishReason {
    &told.chunks.iter().find_map(|chunk| chunk.finish.as_ref()).expect("a finish").reason
}

#[tokio::test]
async fn pings_change_nothing_but_show_life() {
    let server =
        FakeMessages::start([MessagesReply::new().ping().text(&["a", "b"]).ping().text(&["c"]).ping()]);
    let mut stream = client(&server).stream(prompt("hi"));
    let (mut text, mut alive) = (String::new(), 0);
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            ReplyEvent::Chunk(chunk) => text.extend(chunk.parts.iter().filter_map(|part| part.spoken_text())),
            ReplyEvent::Alive => alive += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((text.as_str(), alive), ("abc", 3));
}

#[tokio::test]
async fn arguments_in_any_pieces_are_one_call() {
    let json = r#"{"path": "a b", "deep": {"z": [1, 2.5], "é": null}}"#;
    let mut pieces: Vec<String> = json.chars().flat_map(|c| [String::new(), c.to_string()]).collect();
    pieces.push(String::new());
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let whole = told(MessagesReply::new().call_in_pieces("t1", "ls", &pieces)).await;
    let call = whole.chunks.iter().flat_map(|chunk| &chunk.parts).find_map(|part| part.as_call()).unwrap();
    assert_eq!(Value::Object(call.args.clone()), serde_json::from_str::<Value>(json).unwrap());
    assert_eq!(reason(&whole), &FinishReason::ToolCalls);
    for none in [&[][..], &["", ""][..]] {
        let empty = told(MessagesReply::new().call_in_pieces("t1", "ls", none)).await;
        let call =
            empty.chunks.iter().flat_map(|chunk| &chunk.parts).find_map(|part| part.as_call()).unwrap();
        assert!(call.args.is_empty() && call.bad_args.is_none());
    }
}

#[tokio::test]
async fn a_long_call_tells_how_it_grows() {
    let piece = "x".repeat(700);
    let pieces = ["{\"a\":\"", &piece, &piece, &piece, "\"}"];
    let server = FakeMessages::start([MessagesReply::new().call_in_pieces("t1", "write_file", &pieces)]);
    let mut stream = client(&server).stream(prompt("hi"));
    let mut progress = Vec::new();
    while let Some(event) = stream.next().await {
        if let ReplyEvent::CallProgress { index, name, bytes } = event.unwrap() {
            progress.push((index, name, bytes));
        }
    }
    let bytes: Vec<u64> = progress.iter().map(|(_, _, bytes)| *bytes).collect();
    assert_eq!(bytes, [0, 1406]);
    assert!(progress.iter().all(|(index, name, _)| *index == 0 && name == "write_file"));
}

#[tokio::test]
async fn a_call_cut_by_the_limit_is_no_call() {
    for stop in ["max_tokens", "model_context_window_exceeded"] {
        let cut =
            MessagesReply::new().text(&["so far"]).call_in_pieces("t1", "ls", &["{\"a\": \"b"]).stop(stop);
        let told = told(cut).await;
        assert_eq!(told.text(), "so far");
        assert!(!told.chunks.iter().flat_map(|chunk| &chunk.parts).any(|part| part.as_call().is_some()));
        let expected =
            if stop == "max_tokens" { FinishReason::MaxTokens } else { FinishReason::ContextWindow };
        assert_eq!(reason(&told), &expected);
    }
}

#[tokio::test]
async fn counts_of_the_cache_are_part_of_the_input() {
    let start = json!({"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20,
        "output_tokens": 1});
    let told = told(MessagesReply::new().text(&["x"]).usage(start, json!({"output_tokens": 7}))).await;
    let usage = told.chunks.iter().filter_map(|chunk| chunk.usage).next_back().unwrap();
    let expected =
        Usage { input: 130, cached: 100, cache_write_short: 20, output: 7, total: 137, ..Usage::default() };
    assert_eq!(usage, expected);
    assert_eq!(told.chunks[0].model_version.as_deref(), Some("claude-answering"));
}

#[tokio::test]
async fn a_refusal_says_its_category_and_why() {
    let delta = json!({"stop_reason": "refusal", "stop_sequence": null,
        "stop_details": {"type": "refusal", "category": "cyber", "explanation": "Not this."}});
    let told = told(MessagesReply::new().stop_with(delta)).await;
    let FinishReason::Refusal(refusal) = reason(&told) else { panic!("{told:?}") };
    assert_eq!((refusal.category.as_deref(), refusal.text.as_deref()), (Some("cyber"), Some("Not this.")));
    assert_eq!(reason(&told).as_str(), "SAFETY");
}

#[tokio::test]
async fn other_ends_have_their_words() {
    for (word, expected) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::StopSequence),
        ("tool_use", FinishReason::ToolCalls),
        ("something_new", FinishReason::Named("something_new".into())),
    ] {
        assert_eq!(reason(&told(MessagesReply::new().text(&["x"]).stop(word)).await), &expected);
    }
}

#[tokio::test]
async fn a_reply_that_just_ends_is_cut() {
    let told = told(MessagesReply::new().text(&["half"]).stop_with(Value::Null)).await;
    assert_eq!(told.text(), "half");
    assert_eq!(told.error().kind, ModelErrorKind::Cut);
    let server = FakeMessages::start([
        MessagesReply::new().text(&["half"]).stop_with(Value::Null),
        MessagesReply::new().text(&["whole"]),
    ]);
    let reply = client(&server).generate(prompt("hi")).await.unwrap();
    assert_eq!(reply.parts[0].spoken_text(), Some("whole"), "a whole reply is asked for again");
}

#[tokio::test]
async fn unknown_events_and_blocks_do_no_harm() {
    let block = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let delta = json!({"type": "input_json_delta", "partial_json": "{\"query\":\"x\"}"});
    let reply = MessagesReply::new()
        .event(json!({"type": "brand_new", "x": 1}))
        .block(block, vec![delta, json!({"type": "odd_delta", "odd": 1})])
        .event(json!({"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "lost"}}))
        .text(&["fine"]);
    let told = told(reply).await;
    assert_eq!((told.text().as_str(), &told.error), ("fine", &None));
    let parts: Vec<_> = told.chunks.iter().flat_map(|chunk| &chunk.parts).collect();
    let Body::Other(fields) = &parts[0].body else { panic!("{parts:?}") };
    assert_eq!(fields["anthropicBlock"]["input"], json!({"query": "x"}));
}

#[tokio::test]
async fn text_is_shown_even_if_its_block_has_an_unknown_type() {
    let reply = MessagesReply::new()
        .block(
            json!({"type": "reasoning", "thinking": "h"}),
            vec![
                json!({"type": "thinking_delta", "thinking": "m"}),
                json!({"type": "signature_delta", "signature": "s"}),
            ],
        )
        .block(json!({"type": "tex", "text": "a"}), vec![json!({"type": "text_delta", "text": "ll"})]);
    let first = told(reply).await;
    assert_eq!((first.text().as_str(), &first.error), ("all", &None));
    let parts: Vec<_> = first.chunks.iter().flat_map(|chunk| &chunk.parts).collect();
    let Body::Reasoning { text, seal: Some(seal), .. } = &parts[0].body else { panic!("{parts:?}") };
    assert_eq!((text.as_str(), &seal.data), ("hm", &json!("s")));
    assert_eq!(parts.len(), 2, "nothing is kept of the blocks: {parts:?}");
    // Some servers send text with the index of another block, which the server needs again.
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let told =
        told(MessagesReply::new().block(search, vec![json!({"type": "text_delta", "text": "all"})])).await;
    assert_eq!((told.text().as_str(), &told.error), ("all", &None));
    let kept =
        told.chunks.iter().flat_map(|chunk| &chunk.parts).any(|part| matches!(part.body, Body::Other(_)));
    assert!(kept, "{:?}", told.chunks);
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_read_as_well() {
    let body = json!({"id": "m", "type": "message", "role": "assistant", "model": "c", "stop_reason": "tool_use",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "all"},
            {"type": "tool_use", "id": "t", "name": "ls", "input": {"a": 1}}],
        "usage": {"input_tokens": 4, "output_tokens": 5}});
    let told = told(MessagesReply::http(200, body.to_string())).await;
    assert_eq!((told.text().as_str(), &told.error), ("all", &None));
    let parts: Vec<_> = told.chunks.iter().flat_map(|chunk| &chunk.parts).collect();
    assert!(
        matches!(&parts[0].body, Body::Reasoning { seal: Some(seal), .. } if seal.kind == SealKind::AnthropicThinking)
    );
    assert_eq!(parts[2].as_call().unwrap().args["a"], 1);
}

#[tokio::test]
async fn a_turn_that_the_server_pauses_goes_on_as_one_reply() {
    let search = |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    let paused = |id: &str, text: &str| {
        MessagesReply::new().text(&[text]).block(search(id), vec![]).stop("pause_turn")
    };
    let script = || [paused("s1", "one "), paused("s2", "two "), MessagesReply::new().text(&["three"])];
    let server = FakeMessages::start(script());
    let told = ask(&client(&server), prompt("hi")).await;
    assert_eq!((told.text().as_str(), &told.error), ("one two three", &None));
    assert_eq!(told.chunks.iter().filter(|chunk| chunk.finish.is_some()).count(), 1);
    let usage = told.chunks.iter().filter_map(|chunk| chunk.usage).next_back().unwrap();
    assert_eq!((usage.input, usage.output), (9, 6), "every request is paid for");
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    let last = requests[2].messages().pop().unwrap();
    assert_eq!(last["role"], "assistant");
    let kinds: Vec<&str> =
        last["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "server_tool_use", "text", "server_tool_use"]);

    server.push(script());
    let reply = client(&server).generate(prompt("hi")).await.unwrap();
    assert_eq!(reply.finish.unwrap().reason, FinishReason::Stop);
    assert_eq!(reply.usage.unwrap().input, 9);

    let server = FakeMessages::start([]).forever(paused("s1", "x"));
    let told = ask(&client(&server), prompt("hi")).await;
    assert_eq!(reason(&told), &FinishReason::Paused);
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn what_the_server_looked_up_is_known_with_its_quotes() {
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [
        {"type": "web_search_result", "url": "https://a", "title": "A"},
        {"type": "web_search_result", "url": "https://b", "title": "B"}]});
    let cite = json!({"type": "citations_delta", "citation": {"type": "web_search_result_location",
        "url": "https://b", "title": "B", "cited_text": "x"}});
    let said = vec![cite, json!({"type": "text_delta", "text": "It is so."})];
    let reply = MessagesReply::new().block(found, vec![]).block(json!({"type": "text", "text": ""}), said);
    let server = FakeMessages::start([reply]);
    let chunk = first_party(&server).generate(prompt("hi")).await.unwrap();
    let info = chunk.grounding.unwrap();
    assert_eq!(info.sources.len(), 2);
    assert_eq!((info.supports[0].end, info.supports[0].sources.as_slice()), (9, &[1][..]));
    assert_eq!(chunk.citations[0].uri, "https://b");
}

#[tokio::test]
async fn an_event_that_is_too_long_is_refused() {
    let long = format!("data: {}", "x".repeat(65 * 1024 * 1024));
    let told = told(MessagesReply::new().bytes(long).bare().cut()).await;
    assert_eq!(told.error().kind, ModelErrorKind::Malformed);
}

fn recorded() -> MessagesReply {
    MessagesReply::new()
        .ping()
        .thinking(&["Let me ", "séé"], "c2lnbmF0dXJl")
        .redacted("b3BhcXVl")
        .text(&["Hé", "llo\n", "日本"])
        .call_in_pieces("toolu_1", "ls", &["{\"a", "\": [1, ", "2]}"])
        .call_in_pieces("toolu_2", "cat", &[])
        .usage(json!({"input_tokens": 5, "output_tokens": 1}), json!({"output_tokens": 9}))
}

/// Everything of a reply but how its text was divided.
fn folded(told: &Told) -> Value {
    let parts: Vec<Value> = super::turn(told).parts.iter().map(|part| part.to_json()).collect();
    let last = told.chunks.iter().filter_map(|chunk| chunk.usage).next_back();
    json!({"parts": parts, "finish": reason(told).as_str(), "usage": format!("{last:?}")})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_recorded_stream_gives_the_same_reply_in_any_chunking(
        sizes in proptest::collection::vec(1_usize..40, 1..6)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (split, whole) = runtime.block_on(async {
            (told(recorded().split_into(sizes)).await, told(recorded()).await)
        });
        prop_assert_eq!(folded(&split), folded(&whole));
        prop_assert_eq!(split.error, None);
    }
}
