//! What the client makes of streams.

use pollux_domain::content::{Body, Part, SealKind};
use pollux_domain::model::{Citation, FinishReason, Usage};
use pollux_test_support::{FakeResponses, responses_reply};
use serde_json::{Value, json};

use super::{Told, ask, calls, finish, seals};

#[tokio::test]
async fn text_and_reasoning_arrive_in_order_and_the_seal_is_that_of_the_finished_item() {
    let server = FakeResponses::start([responses_reply()
        .reasoning("**Plan** look", Some("whole"))
        .text(&["Hel", "lo"])
        .usage(10, 5)]);
    let told = ask(&server).await;
    assert_eq!((told.text().as_str(), &told.error), ("Hello", &None));
    let parts: Vec<&Part> = told.chunks.iter().flat_map(|chunk| &chunk.parts).collect();
    assert_eq!(
        parts[0].body,
        Body::Reasoning { text: "**Plan** look".into(), summary: true, seal: None },
        "the summary is one thought"
    );
    let seal = parts[1].is_sealed_reasoning();
    assert!(seal, "the seal stands before what it led to: {parts:?}");
    assert_eq!(seals(&told)[0]["encrypted_content"], "whole");
    assert_eq!(finish(&told), FinishReason::Stop);
    let last = told.chunks.last().unwrap();
    assert_eq!(last.model_version.as_deref(), Some("gpt-test-2026"));
    let origin = last.origin.as_ref().unwrap();
    assert_eq!((origin.response_id.as_deref(), origin.model.as_str()), (Some("resp_1"), "gpt-5.6-sol"));
    assert_eq!(origin.dialect.as_str(), "responses");
}

#[tokio::test]
async fn a_call_is_whole_and_its_progress_is_told() {
    let server = FakeResponses::start([responses_reply()
        .text(&["I look."])
        .call("call_1", "read_file", r#"{"path":"a b"}"#)
        .call("call_2", "read_file", "")
        .call("call_2", "read_file", "{}")]);
    let told = ask(&server).await;
    let calls = calls(&told);
    assert_eq!(calls.len(), 3);
    assert_eq!(Value::Object(calls[0].args.clone()), json!({"path": "a b"}));
    assert_eq!((calls[0].id.as_deref(), calls[1].id.as_deref()), (Some("call_1"), Some("call_2")));
    assert_eq!(calls[2].id, None, "a second call of the same id gets another one");
    assert!(calls[1].args.is_empty() && calls[1].bad_args.is_none());
    assert_eq!(finish(&told), FinishReason::ToolCalls);
}

#[tokio::test]
async fn a_server_without_places_and_numbers_is_read_by_ids() {
    let script = |bare: bool| {
        let reply = responses_reply();
        let reply = if bare { reply.bare() } else { reply };
        reply
            .reasoning("hm", Some("sealed"))
            .text(&["one ", "two"])
            .call("call_1", "read_file", r#"{"a":1}"#)
            .usage(3, 4)
    };
    let server = FakeResponses::start([script(false), script(true)]);
    let (full, bare) = (ask(&server).await, ask(&server).await);
    assert_eq!(bare.text(), "one two");
    assert_eq!(bare.chunks, full.chunks);
}

#[tokio::test]
async fn what_was_never_streamed_is_taken_from_the_end() {
    let call = json!({"type": "function_call", "id": "fc_9", "call_id": "call_9", "name": "read_file",
        "arguments": "{\"path\":\"x\"}", "status": "completed"});
    let message = json!({"type": "message", "id": "msg_9", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "late", "annotations": []}]});
    let server = FakeResponses::start([
        responses_reply().text(&["early "]).only_in_the_end(message.clone()).only_in_the_end(call),
        responses_reply().only_in_the_end(message).as_object(),
    ]);
    let told = ask(&server).await;
    assert_eq!((told.text().as_str(), &told.error), ("early late", &None));
    assert_eq!(calls(&told)[0].id.as_deref(), Some("call_9"));
    assert_eq!(ask(&server).await.text(), "late", "a reply that came as one object");
}

#[tokio::test]
async fn text_that_the_stream_left_out_is_added_from_the_finished_item() {
    let item = json!({"type": "message", "id": "msg_0", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "whole text", "annotations": [
            {"type": "url_citation", "url": "https://x", "title": "X", "start_index": 0, "end_index": 5}]}]});
    let delta = json!({"item_id": "msg_0", "output_index": 0, "content_index": 0, "delta": "whole"});
    let server =
        FakeResponses::start([responses_reply().event("response.output_text.delta", delta).item_done(item)]);
    let told = ask(&server).await;
    assert_eq!(told.text(), "whole text");
    let last = told.chunks.last().unwrap();
    assert_eq!(last.citations, [Citation { title: Some("X".into()), uri: "https://x".into() }]);
    let grounding = last.grounding.as_ref().unwrap();
    assert_eq!((grounding.supports[0].end, grounding.supports[0].sources.as_slice()), (5, &[0][..]));
}

#[tokio::test]
async fn items_that_come_out_of_order_are_told_in_order() {
    let call = |index: u64, arguments: &str| {
        json!({"output_index": index, "item": {"type": "function_call", "id": format!("fc_{index}"),
            "call_id": format!("call_{index}"), "name": "read_file", "arguments": arguments, "status": "completed"}})
    };
    let server = FakeResponses::start([responses_reply()
        .event("response.output_item.added", call(0, ""))
        .event("response.output_item.added", call(1, ""))
        .event("response.output_item.done", call(1, "{\"n\":1}"))
        .event("response.output_item.done", call(0, "{\"n\":0}"))]);
    let told = ask(&server).await;
    let numbers: Vec<_> = calls(&told).iter().map(|call| call.args["n"].clone()).collect();
    assert_eq!(numbers, [0, 1]);
}

#[tokio::test]
async fn a_reply_that_the_limit_cut_keeps_its_text_and_loses_the_call_under_way() {
    let half = json!({"output_index": 1, "item": {"type": "function_call", "id": "fc_1", "call_id": "call_1",
        "name": "read_file", "arguments": "", "status": "in_progress"}});
    let cut_off = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read_file",
        "arguments": "{\"path\": \"a", "status": "incomplete"});
    let unsaid = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read_file",
        "arguments": "{\"path\": \"a"});
    let server = FakeResponses::start([
        responses_reply()
            .text(&["some text"])
            .event("response.output_item.added", half)
            .incomplete("max_output_tokens"),
        responses_reply().text(&["some text"]).item_done(cut_off).incomplete("max_output_tokens"),
        responses_reply().text(&["some text"]).item_done(unsaid).incomplete("max_output_tokens"),
    ]);
    for _ in 0..3 {
        let told = ask(&server).await;
        assert_eq!((told.text().as_str(), &told.error), ("some text", &None));
        assert!(calls(&told).is_empty());
        assert_eq!(finish(&told), FinishReason::MaxTokens);
    }
}

#[tokio::test]
async fn every_reason_to_stop_has_its_meaning() {
    let cases = [
        ("content_filter", FinishReason::ContentFilter),
        ("steered", FinishReason::Paused),
        ("max_messages", FinishReason::Paused),
        ("moon_phase", FinishReason::Named("MOON_PHASE".into())),
    ];
    let server =
        FakeResponses::start(cases.iter().map(|(word, _)| responses_reply().text(&["x"]).incomplete(word)));
    for (word, reason) in &cases {
        assert_eq!(&finish(&ask(&server).await), reason, "{word}");
    }
}

#[tokio::test]
async fn a_refusal_is_no_answer() {
    let server = FakeResponses::start([responses_reply().refusal("I cannot help with that.")]);
    let told = ask(&server).await;
    let FinishReason::Refusal(refusal) = finish(&told) else { panic!("a refusal was due: {told:?}") };
    assert_eq!(refusal.text.as_deref(), Some("I cannot help with that."));
    assert_eq!((told.text().as_str(), told.waits.len(), server.requests().len()), ("", 0, 1));
}

#[tokio::test]
async fn events_that_nobody_knows_do_no_harm() {
    let server = FakeResponses::start([responses_reply()
        .event("response.new_thing.happened", json!({"x": [1, {"y": null}]}))
        .text(&["fine"])
        .event("response.web_search_call.searching", json!({"item_id": "ws_1", "output_index": 7}))
        .item_done(json!({"type": "web_search_call", "id": "ws_1", "status": "completed"}))
        .item_done(json!({"type": "brand_new_item", "id": "bn_1"}))
        .bytes(": ping\n\n")
        .bytes("event: response.heartbeat\ndata: {}\n\n")
        .usage(1, 1)]);
    let told = ask(&server).await;
    assert_eq!((told.text().as_str(), &told.error), ("fine", &None));
    assert_eq!(told.chunks.last().unwrap().usage.unwrap().server_tool_calls, 1);
}

#[tokio::test]
async fn counts_are_converted_and_odd_ones_are_nothing() {
    let full = json!({"input_tokens": 130, "output_tokens": 20, "total_tokens": 150,
        "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20,
            "cache_write_tokens_details": {"ttl_12h_tokens": 5, "ttl_30m_tokens": 15}},
        "output_tokens_details": {"reasoning_tokens": 13}});
    let odd = [
        json!({"input_tokens": -4, "output_tokens": "7", "output_tokens_details": {"reasoning_tokens": 9}}),
        json!({"input_tokens": 1, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 9},
            "input_tokens_details": null}),
        json!("nonsense"),
    ];
    let replies = [full].into_iter().chain(odd);
    let server =
        FakeResponses::start(replies.map(|usage| responses_reply().text(&["x"]).usage_object(usage)));
    let expected = [
        Some(Usage {
            input: 130,
            output: 7,
            cached: 100,
            cache_write_short: 15,
            cache_write_long: 5,
            reasoning: 13,
            total: 150,
            ..Usage::default()
        }),
        Some(Usage { reasoning: 7, total: 7, ..Usage::default() }),
        Some(Usage { input: 1, reasoning: 2, total: 3, ..Usage::default() }),
        None,
    ];
    for usage in expected {
        let told: Told = ask(&server).await;
        assert_eq!(told.chunks.last().unwrap().usage, usage);
    }
}

#[tokio::test]
async fn reasoning_without_encrypted_content_is_shown_but_not_kept() {
    let open = json!({"type": "reasoning", "id": "rs_0", "summary": [],
        "content": [{"type": "reasoning_text", "text": "thinking aloud"}]});
    let server = FakeResponses::start([
        responses_reply().reasoning("hm", None).text(&["x"]),
        responses_reply().item_done(open).text(&["x"]),
    ]);
    assert!(seals(&ask(&server).await).is_empty());
    let told = ask(&server).await;
    let thought = Body::Reasoning { text: "thinking aloud".into(), summary: false, seal: None };
    assert_eq!(told.chunks[0].parts[0].body, thought);
}

#[tokio::test]
async fn a_compaction_is_kept_as_a_seal() {
    let item = json!({"type": "compaction", "id": "cmp_0", "encrypted_content": "z"});
    let server = FakeResponses::start([responses_reply().item_done(item).text(&["x"])]);
    let told = ask(&server).await;
    let kinds = told.chunks.iter().flat_map(|chunk| &chunk.parts).filter_map(|part| match &part.body {
        Body::Reasoning { seal: Some(seal), .. } => Some(seal.kind),
        _ => None,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [SealKind::OpenAiCompaction]);
}
