//! Both protocols against a server on loopback.

use std::time::Duration;

use pollux_domain::embedding::{EmbedError, EmbedErrorKind, Embedder, Purpose};
use pollux_embed::{Protocol, RemoteModel, RemoteOptions};
use pollux_net::client::{ClientOptions, client};
use serde_json::{Value, json};

use crate::server::{Reply, Server};

const KEY: &str = "key-that-nobody-may-see";

fn model(protocol: Protocol, server: &Server) -> RemoteModel {
    model_at(protocol, server.url())
}

fn model_at(protocol: Protocol, url: &str) -> RemoteModel {
    let mut options = RemoteOptions::new(client(&ClientOptions::new("test")).unwrap());
    options.base_url = Some(format!("{url}/v1"));
    options.key = Some(KEY.to_owned());
    options.headers = vec![("x-team".to_owned(), "team-secret".to_owned())];
    options.backoff.scale = 0.001;
    RemoteModel::new(protocol, options).unwrap()
}

fn texts(count: usize, length: usize) -> Vec<String> {
    (0..count).map(|at| format!("{at:03} {}", "x".repeat(length))).collect()
}

fn ok(body: &Value) -> Reply {
    Reply::http(200, body.to_string())
}

fn gemini(count: usize) -> Reply {
    let list: Vec<Value> = (0..count).map(|at| json!({ "values": [3.0, 4.0 + at as f32] })).collect();
    ok(&json!({ "embeddings": list }))
}

async fn fails(protocol: Protocol, replies: Vec<Reply>) -> (EmbedError, usize) {
    let server = Server::start(replies).await;
    let error = model(protocol, &server).embed(&texts(1, 1), Purpose::Document).await.unwrap_err();
    assert!(!error.message.contains(KEY) && !error.message.contains("team-secret"), "{error}");
    (error, server.requests().len())
}

#[tokio::test]
async fn gemini_is_asked_as_its_api_wants() {
    let server = Server::start([ok(&json!({ "embedding": { "values": [3, 4] } })), gemini(2)]).await;
    let model = model(Protocol::Gemini, &server);
    let vectors = model.embed(&["why?".to_owned()], Purpose::Query).await.unwrap();
    assert_eq!(vectors, [[0.6, 0.8]], "vectors have length 1");
    let request = server.requests().remove(0);
    assert_eq!(request.path, "/v1/models/gemini-embedding-001:embedContent");
    assert_eq!(request.header("x-goog-api-key"), Some(KEY));
    assert_eq!(request.header("x-team"), Some("team-secret"));
    assert_eq!(request.body["taskType"], "RETRIEVAL_QUERY");
    assert_eq!(request.body["content"]["parts"][0]["text"], "why?");
    assert_eq!(model.embed(&texts(2, 3), Purpose::Document).await.unwrap().len(), 2);
    let request = server.requests().remove(1);
    assert_eq!(request.path, "/v1/models/gemini-embedding-001:batchEmbedContents");
    let second = &request.body["requests"][1];
    assert_eq!(second["model"], "models/gemini-embedding-001");
    assert_eq!(second["taskType"], "RETRIEVAL_DOCUMENT");
    assert_eq!(second["content"]["parts"][0]["text"], "001 xxx");
}

#[tokio::test]
async fn openai_is_asked_as_its_api_wants() {
    let data = json!({ "data": [{ "index": 1, "embedding": [0, 2] }, { "index": 0, "embedding": [5, 0] }] });
    let server = Server::start([ok(&data)]).await;
    let vectors = model(Protocol::OpenAi, &server).embed(&texts(2, 1), Purpose::Query).await.unwrap();
    assert_eq!(vectors, [[1.0, 0.0], [0.0, 1.0]]);
    let request = server.requests().remove(0);
    assert_eq!(request.path, "/v1/embeddings");
    assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(request.body, json!({ "model": "text-embedding-3-small", "input": ["000 x", "001 x"] }));
}

#[tokio::test]
async fn many_texts_are_cut_into_requests_and_come_back_in_order() {
    // Every reply points in a direction of its own, and whichever request comes first is answered last.
    let directions = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]];
    let replies = directions.iter().enumerate().map(|(at, direction)| {
        let list = vec![json!({ "values": direction }); 5];
        ok(&json!({ "embeddings": list })).delay(Duration::from_millis(60 - 20 * at as u64))
    });
    let server = Server::start(replies).await;
    let sent = texts(15, 1590);
    let vectors = model(Protocol::Gemini, &server).embed(&sent, Purpose::Document).await.unwrap();
    assert_eq!(vectors.len(), 15);
    for (request, direction) in server.requests().iter().zip(directions) {
        let list = request.body["requests"].as_array().unwrap();
        assert_eq!(list.len(), 5);
        for one in list {
            let place =
                sent.iter().position(|text| one["content"]["parts"][0]["text"] == text.as_str()).unwrap();
            assert_eq!(vectors[place], direction);
        }
    }
}

#[tokio::test]
async fn a_busy_server_is_asked_again_as_it_wishes() {
    let busy = [
        Reply::error(429, "RESOURCE_EXHAUSTED", "slow down").header("Retry-After", "2"),
        Reply::http(503, "overloaded"),
        Reply::http(400, r#"{"error":{"message":"Rate limit reached"}}"#),
        gemini(1),
    ];
    let server = Server::start(busy).await;
    let model = model(Protocol::Gemini, &server);
    assert_eq!(model.embed(&texts(1, 1), Purpose::Document).await.unwrap().len(), 1);
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn after_three_more_attempts_it_is_left_for_later() {
    let (error, requests) = fails(Protocol::OpenAi, vec![Reply::http(500, "broken"); 5]).await;
    assert_eq!((error.kind, requests), (EmbedErrorKind::Later { after: None }, 4));
    let hour = Reply::http(429, "").header("Retry-After", "3600");
    let (error, requests) = fails(Protocol::OpenAi, vec![hour]).await;
    let after = Some(Duration::from_secs(3600));
    assert_eq!((error.kind, requests), (EmbedErrorKind::Later { after }, 1));
    let quota = r#"{"error":{"message":"Quota. Please retry in 120s.","details":[{"retryDelay":"90s"}]}}"#;
    let (error, _) = fails(Protocol::Gemini, vec![Reply::http(429, quota)]).await;
    assert_eq!(error.kind, EmbedErrorKind::Later { after: Some(Duration::from_secs(90)) });
}

#[tokio::test]
async fn what_will_fail_again_is_not_repeated_and_secrets_stay_hidden() {
    let echo = format!(r#"{{"error":{{"message":"Incorrect key {KEY}\u001b[31m (team-secret)"}}}}"#);
    let cases: Vec<(Reply, EmbedErrorKind, &str)> = vec![
        (Reply::http(401, echo), EmbedErrorKind::Setup, "Incorrect key ***"),
        (Reply::error(404, "NOT_FOUND", "no such model"), EmbedErrorKind::Setup, "no such model"),
        (Reply::error(400, "INVALID_ARGUMENT", "API key not valid"), EmbedErrorKind::Setup, "API key"),
        (Reply::error(400, "INVALID_ARGUMENT", "input is too long"), EmbedErrorKind::Text, "too long"),
        (Reply::http(200, "<html>hello</html>"), EmbedErrorKind::Other, "baseUrl"),
        (ok(&json!({ "embeddings": [] })), EmbedErrorKind::Other, "0 vectors for 1"),
        (ok(&json!({ "embeddings": [{ "values": [] }] })), EmbedErrorKind::Other, "differ in length"),
        (Reply::http(200, r#"{"embeddings":[{"values":[1e39]}]}"#), EmbedErrorKind::Other, "failed"),
        (Reply::http(302, "").header("Location", "http://127.0.0.1:1/"), EmbedErrorKind::Other, "302"),
    ];
    for (reply, kind, words) in cases {
        let (error, requests) = fails(Protocol::Gemini, vec![reply]).await;
        assert_eq!((error.kind, requests), (kind, 1), "{error}");
        assert!(error.message.contains(words), "{error}");
        assert!(error.message.contains("gemini-embedding-001"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let closed = pollux_test_support::ClosedPort::new();
    let model = model_at(Protocol::OpenAi, &closed.url());
    let error = model.embed(&texts(1, 1), Purpose::Query).await.unwrap_err();
    assert!(matches!(error.kind, EmbedErrorKind::Later { .. }), "{error:?}");
    assert!(error.message.contains("could not reach 127.0.0.1"), "{error}");
}
