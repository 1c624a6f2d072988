//! What a page that is logged in can do.

use pollux_host::hub::Scopes;
use pollux_resident::Pages as _;
use serde_json::{Value, json};

use super::client::{USES, with_server};

#[test]
fn a_page_prompts_answers_and_continues_where_it_stopped() {
    with_server(async |server| {
        let secrets = server.log_in(USES).await;
        let mut events = server.follow("session=s1", &secrets).await;
        let attached = events.next("attached").await;
        assert_eq!((&attached["drive"], &attached["folder"]), (&json!(true), &json!("/tmp/shop")));
        assert_eq!(events.next("sessions").await["sessions"][0]["session"], "s1");
        let hostile = "<img src=x onerror=alert(1)> \u{1b}[31mred";
        let sent = server.post("/api/sessions/s1/prompt", Some(&secrets), json!({"text": hostile})).await;
        assert_eq!(sent.status, 200, "{sent:?}");
        let prompt = events.next("prompt").await;
        assert_eq!(
            (&prompt["text"], &prompt["by"]),
            (&json!("<img src=x onerror=alert(1)> red"), &json!("web"))
        );
        assert_eq!(events.next("text").await["text"], "<img src=x onerror=alert(1)> red");
        let question = events.next("question").await;
        assert_eq!((&question["body"], &question["call"]), (&json!("rm -r build"), &json!("call-1")));
        let offers = question["offers"].as_array().unwrap();
        assert_eq!(
            offers.iter().map(|offer| &offer["outcome"]).collect::<Vec<_>>(),
            ["proceed_once", "cancel"]
        );
        // Not offered, then offered, then answered already.
        let decide = async |outcome: &str| {
            let body = json!({"call": "call-1", "version": question["version"], "outcome": outcome});
            server.post("/api/sessions/s1/decide", Some(&secrets), body).await.status
        };
        // An answer to a question that was shown before the call changed.
        let stale = json!({"call": "call-1", "version": "0", "outcome": "proceed_once"});
        assert_eq!(server.post("/api/sessions/s1/decide", Some(&secrets), stale).await.status, 409);
        assert_eq!(decide("proceed_always").await, 409);
        assert_eq!(decide("nonsense").await, 400);
        assert_eq!(decide("modify_with_editor").await, 400);
        drop(events);
        assert_eq!(decide("proceed_once").await, 200);
        assert_eq!(decide("proceed_once").await, 409);
        // Another connection has what followed, and not what came before.
        let after = question["seq"].as_u64().unwrap();
        let mut events = server.follow(&format!("session=s1&after={after}"), &secrets).await;
        let attached = events.next("attached").await;
        assert_eq!((&attached["fresh"], attached["seq"].as_u64()), (&json!(false), Some(after)));
        assert_eq!(events.next("settled").await["outcome"], "proceed_once");
        events.next("ended").await;
    });
}

#[test]
fn a_page_stops_a_turn_and_removes_a_queued_prompt() {
    with_server(async |server| {
        let secrets = server.log_in(USES).await;
        let mut events = server.follow("session=s1", &secrets).await;
        for text in ["first", "second"] {
            let sent = server.post("/api/sessions/s1/prompt", Some(&secrets), json!({"text": text})).await;
            assert_eq!(sent.status, 200, "{sent:?}");
        }
        let queue = events.next("queue").await;
        assert_eq!(queue["prompts"][0]["text"], "second");
        let body = json!({"prompt": queue["prompts"][0]["id"]});
        assert_eq!(server.post("/api/sessions/s1/withdraw", Some(&secrets), body.clone()).await.status, 200);
        assert_eq!(events.next("queue").await["prompts"], json!([]));
        assert_eq!(server.post("/api/sessions/s1/withdraw", Some(&secrets), body).await.status, 409);
        assert_eq!(server.post("/api/sessions/s1/stop", Some(&secrets), json!({})).await.status, 200);
        events.next("ended").await;
        let empty = server.post("/api/sessions/s1/prompt", Some(&secrets), json!({"text": " \n"})).await;
        assert_eq!(empty.status, 400);
    });
}

#[test]
fn a_page_that_may_only_watch_sees_everything_and_changes_nothing() {
    with_server(async |server| {
        let (user, watcher) = (server.log_in(USES).await, server.log_in(Scopes::WATCH).await);
        let mut events = server.follow("session=s1", &watcher).await;
        let attached = events.next("attached").await;
        assert_eq!((&attached["drive"], &attached["approve"]), (&json!(false), &json!(false)));
        server.post("/api/sessions/s1/prompt", Some(&user), json!({"text": "hello"})).await;
        let version = events.next("question").await["version"].clone();
        let changes = [
            ("decide", json!({"call": "call-1", "version": version, "outcome": "proceed_once"})),
            ("stop", json!({})),
            ("prompt", json!({"text": "mine"})),
            ("withdraw", json!({"prompt": "x"})),
        ];
        for (what, body) in changes {
            let refused = server.post(&format!("/api/sessions/s1/{what}"), Some(&watcher), body).await;
            assert_eq!(refused.status, 403, "{what}: {refused:?}");
        }
        assert_eq!(*server.turns.borrow(), 0);
        let allowed = json!({"call": "call-1", "version": version, "outcome": "cancel", "message": "no"});
        assert_eq!(server.post("/api/sessions/s1/decide", Some(&user), allowed).await.status, 200);
        assert_eq!(events.next("settled").await["outcome"], "cancel");
    });
}

#[test]
fn a_page_that_does_not_read_delays_no_session() {
    with_server(async |mut server| {
        let secrets = server.log_in(USES).await;
        let lazy = server.follow("session=s1", &secrets).await;
        let mut reader = server.follow("session=s1", &secrets).await;
        reader.next("attached").await;
        let sent = server.post("/api/sessions/s1/prompt", Some(&secrets), json!({"text": "flood"})).await;
        assert_eq!(sent.status, 200, "{sent:?}");
        // 20 MB are said while one page reads nothing.
        server.turns.changed().await.unwrap();
        // The other one may have lost most of it, but has the last state.
        let is_last = |event: &Value| {
            event["kind"] == "ended" || (event["kind"] == "attached" && event["busy"] == false)
        };
        reader.next_where(is_last).await;
        drop(lazy);
    });
}

#[test]
fn pages_count_while_they_are_open_and_end_with_the_core() {
    with_server(async |server| {
        let secrets = server.log_in(USES).await;
        let (mut one, mut other) =
            (server.follow("", &secrets).await, server.follow("session=s1", &secrets).await);
        one.next("sessions").await;
        other.next("attached").await;
        assert_eq!(server.pages.connected(), 2);
        drop(one);
        while server.pages.connected() > 1 {
            tokio::task::yield_now().await;
        }
        server.stop.cancel();
        other.end().await;
        assert_eq!(server.pages.connected(), 0);
    });
}

#[test]
fn a_stream_ends_with_its_login() {
    with_server(async |server| {
        let secrets = server.log_in(USES).await;
        let mut events = server.follow("session=s1", &secrets).await;
        events.next("attached").await;
        // From here on, waiting takes no time.
        tokio::time::pause();
        events.end().await;
        let late = server.post("/api/sessions/s1/prompt", Some(&secrets), json!({"text": "late"})).await;
        assert_eq!(late.status, 401, "{late:?}");
    });
}
