//! Delivery to collectors that answer, are busy, slow, hostile or absent.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pollux_config::env::Env;
use pollux_domain::JsonObject;
use pollux_domain::time::Timestamp;
use pollux_otlp::{
    Closing, Distribution, Log, Metric, MetricSet, Options, Points, Protocol, Sender, Span, SpanContext,
    SpanKind, resource,
};
use pollux_test_support::{FakeHttp, HttpAnswer, otlp};
use serde_json::{Value, json};

/// Longer than any machine needs, so that only a sender that waits for too long fails.
const GENEROUS: &str = "25000";

fn env(pairs: &[(&str, &str)]) -> Env {
    Env::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())), PathBuf::new())
}

fn object(value: Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

fn log(name: &str) -> Log {
    Log {
        at: Timestamp::from_millis(1_700_000_000_123),
        name: name.to_owned(),
        body: "said".to_owned(),
        attributes: object(json!({"count": 3, "list": ["a", "b"]})),
        context: Some(SpanContext::root()),
        is_error: false,
    }
}

fn span(context: SpanContext, parent: Option<SpanContext>, error: Option<&str>) -> Span {
    Span {
        context,
        parent,
        name: "chat m".to_owned(),
        kind: SpanKind::Client,
        start: Timestamp::from_millis(1_000),
        end: Timestamp::from_millis(3_000),
        attributes: object(json!({"gen_ai.request.model": "m"})),
        error: error.map(str::to_owned),
    }
}

fn measured() -> MetricSet {
    let counts = Points::Counts(vec![(object(json!({"k": "v"})), 7)]);
    let sizes = Distribution { count: 2, sum: 30, min: 10, max: 20, buckets: vec![0, 1, 1] };
    let sizes = Points::Distributions { borders: &[5, 15], points: vec![(JsonObject::new(), sizes)] };
    MetricSet {
        started: Timestamp::from_millis(1),
        at: Timestamp::from_millis(2),
        metrics: vec![
            Metric { name: "calls".to_owned(), unit: "", points: counts },
            Metric { name: "latency".to_owned(), unit: "ms", points: sizes },
        ],
    }
}

fn start(url: &str, protocol: Protocol, vars: &[(&str, &str)]) -> Sender {
    let env = env(vars);
    let (options, problems) = Options::new(url, protocol, &env, "1.2").unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    Sender::start(options, resource(&env, "1.2", "s1"), measured).unwrap()
}

fn send_all(sender: Sender) -> Closing {
    let turn = SpanContext::root();
    sender.log(&log("gemini_cli.user_prompt"));
    sender.span(&span(turn.sibling(), Some(turn), Some("broken")));
    sender.close()
}

#[test]
fn records_reach_their_addresses_with_the_users_headers() {
    let collector = FakeHttp::start(|_| HttpAnswer::status(200));
    let vars = [
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k-1,content-type=text/html"),
        ("OTEL_SERVICE_NAME", "mine"),
        ("OTEL_BSP_EXPORT_TIMEOUT", GENEROUS),
    ];
    let sender = start(&format!("{}/base/", collector.url()), Protocol::Http, &vars);
    assert_eq!(send_all(sender).wait(), None);
    for request in collector.requests() {
        assert_eq!(request.header("api-key"), Some("k-1"));
        assert_eq!(
            request.header("content-type"),
            Some("application/x-protobuf"),
            "not the user's to choose"
        );
        assert_eq!(
            otlp::resource(&request.body),
            json!({"service.name": "mine", "service.version": "1.2", "session.id": "s1"})
        );
    }
    let only = |path: &str| collector.requests_to(path).into_iter().next().unwrap().body;
    let logs = otlp::logs(&only("/base/v1/logs"));
    assert_eq!(logs[0]["name"], "gemini_cli.user_prompt");
    assert_eq!(logs[0]["at"], 1_700_000_000_123_000_000_u64);
    assert_eq!(logs[0]["attributes"], json!({"count": 3, "list": ["a", "b"]}));
    let spans = otlp::spans(&only("/base/v1/traces"));
    assert_eq!((&spans[0]["name"], &spans[0]["error"]), (&json!("chat m"), &json!("broken")));
    assert_eq!(spans[0]["parent"].as_str().unwrap().len(), 16);
    assert_eq!(spans[0]["trace"].as_str().unwrap().len(), 32);
    assert_eq!(spans[0]["end"], 3_000_000_000_u64);
    let metrics = otlp::metrics(&only("/base/v1/metrics"));
    assert_eq!(metrics[0], json!({"name": "calls", "points": [{"attributes": {"k": "v"}, "value": 7}]}));
    assert_eq!(metrics[1]["points"][0]["count"], 2);
}

#[test]
fn a_busy_collector_is_asked_again_and_a_refusal_is_final() {
    let asked = AtomicUsize::new(0);
    let collector = FakeHttp::start(move |request| match request.path.as_str() {
        "/v1/logs" if asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            HttpAnswer::status(503).header("Retry-After", "0")
        }
        "/v1/traces" => HttpAnswer::status(400),
        _ => HttpAnswer::status(200),
    });
    let vars = [("OTEL_BSP_EXPORT_TIMEOUT", GENEROUS)];
    let problem = send_all(start(&collector.url(), Protocol::Http, &vars)).wait().unwrap();
    assert_eq!(collector.requests_to("/v1/logs").len(), 2);
    assert_eq!(collector.requests_to("/v1/traces").len(), 1);
    assert!(problem.starts_with("telemetry: 1 record not delivered to http://127.0.0.1:"), "{problem}");
    assert!(problem.ends_with("HTTP status 400"), "{problem}");
}

#[test]
fn a_collector_that_stays_busy_is_given_up() {
    let collector = FakeHttp::start(|_| HttpAnswer::status(503).header("Retry-After", "86400"));
    let vars = [("OTEL_BSP_EXPORT_TIMEOUT", GENEROUS)];
    let problem = send_all(start(&collector.url(), Protocol::Http, &vars)).wait().unwrap();
    assert!(problem.contains("HTTP status 503"), "{problem}");
    assert_eq!(collector.requests_to("/v1/logs").len(), 1, "nobody waits a day");
}

#[test]
fn a_collector_that_is_absent_or_hangs_up_costs_no_time() {
    let closed = pollux_test_support::ClosedPort::new();
    let vars = [("OTEL_BSP_EXPORT_TIMEOUT", GENEROUS)];
    for protocol in [Protocol::Http, Protocol::Grpc] {
        let began = Instant::now();
        let problem = send_all(start(&closed.url(), protocol, &vars)).wait().unwrap();
        assert!(problem.contains("connection refused"), "{problem}");
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    let rude = FakeHttp::start(|_| HttpAnswer::hang_up());
    let problem = send_all(start(&rude.url(), Protocol::Http, &vars)).wait();
    assert!(problem.is_some());
    assert!(rude.requests_to("/v1/logs").len() <= 10, "attempts are limited");
}

#[test]
fn a_silent_collector_is_left_after_the_limit() {
    let silent = FakeHttp::start(|_| HttpAnswer::status(200).body("x".repeat(9)).stall_after(1));
    let sender = start(&silent.url(), Protocol::Http, &[("OTEL_BSP_EXPORT_TIMEOUT", "300")]);
    let problem = send_all(sender).wait();
    // Where the machine is too slow to say so in time, nothing is said.
    if let Some(problem) = problem {
        assert!(problem.contains("did not answer in time"), "{problem}");
    }
}

#[test]
fn an_endless_answer_is_not_read_to_its_end() {
    let collector =
        FakeHttp::start(|_| HttpAnswer::status(200).body(vec![b'x'; 2_000_000]).stall_after(1_000_000));
    let sender = start(&collector.url(), Protocol::Http, &[("OTEL_BSP_EXPORT_TIMEOUT", GENEROUS)]);
    assert_eq!(send_all(sender).wait(), None);
}

#[test]
fn a_collector_that_does_not_answer_never_makes_the_caller_wait() {
    let (release, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let collector = FakeHttp::start(move |_| {
        let _ = held.lock().unwrap().recv();
        HttpAnswer::status(200)
    });
    let sender = start(&collector.url(), Protocol::Http, &[("OTEL_BSP_EXPORT_TIMEOUT", "1")]);
    // More than the queue holds, by number and by bytes; returning at all is what is tested.
    let mut large = log("large");
    large.attributes.insert("text".to_owned(), "x".repeat(30_000).into());
    for _ in 0..3_000 {
        sender.log(&large);
    }
    let problem = sender.close().wait();
    drop(release);
    assert!(problem.is_none_or(|problem| problem.contains("the queue is full")));
}

#[test]
fn records_of_another_session_are_sent_apart() {
    let collector = FakeHttp::start(|_| HttpAnswer::status(200));
    let sender = start(&collector.url(), Protocol::Http, &[("OTEL_BSP_EXPORT_TIMEOUT", GENEROUS)]);
    sender.log(&log("first"));
    sender.set_resource(resource(&env(&[]), "1.2", "s2"));
    sender.log(&log("second"));
    assert_eq!(sender.close().wait(), None);
    let mut seen = Vec::new();
    for request in collector.requests_to("/v1/logs") {
        let session = otlp::resource(&request.body)["session.id"].clone();
        for log in otlp::logs(&request.body) {
            seen.push((log["name"].clone(), session.clone()));
        }
    }
    assert_eq!(seen, [(json!("first"), json!("s1")), (json!("second"), json!("s2"))]);
}

/// A call as it arrived at a gRPC server.
struct GrpcCall {
    path: String,
    headers: http::HeaderMap,
    body: Vec<u8>,
}

/// A gRPC server that answers every call with these statuses, the last one again and again. `None` ends the answer
/// without a status.
fn grpc_server(statuses: Vec<Option<&'static str>>) -> (String, mpsc::Receiver<GrpcCall>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, calls) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let (statuses, answered) = (Arc::new(statuses), Arc::new(AtomicUsize::new(0)));
            // Ends with the test's process.
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (statuses, answered) = (Arc::clone(&statuses), Arc::clone(&answered));
                let tell = tell.clone();
                tokio::spawn(async move {
                    let mut connection = h2::server::handshake(socket).await.unwrap();
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let index = answered.fetch_add(1, Ordering::SeqCst).min(statuses.len() - 1);
                        tokio::spawn(answer_call(request, respond, statuses[index], tell.clone()));
                    }
                });
            }
        });
    });
    (url, calls)
}

async fn answer_call(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    status: Option<&'static str>,
    tell: mpsc::Sender<GrpcCall>,
) {
    let (head, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(data)) = stream.data().await {
        let _ = stream.flow_control().release_capacity(data.len());
        body.extend_from_slice(&data);
    }
    let _ = tell.send(GrpcCall { path: head.uri.path().to_owned(), headers: head.headers, body });
    let answer = http::Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let mut sending = respond.send_response(answer, false).unwrap();
    let _ = sending.send_data(Bytes::from_static(&[0; 5]), status.is_none());
    if let Some(status) = status {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", status.parse().unwrap());
        let _ = sending.send_trailers(trailers);
    }
}

#[test]
fn grpc_calls_are_framed_and_their_status_is_read_from_the_trailers() {
    let (url, calls) = grpc_server(vec![Some("0")]);
    let vars = [("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k"), ("OTEL_BSP_EXPORT_TIMEOUT", GENEROUS)];
    assert_eq!(send_all(start(&url, Protocol::Grpc, &vars)).wait(), None);
    let calls: Vec<GrpcCall> = calls.try_iter().collect();
    assert_eq!(calls.len(), 3);
    for call in &calls {
        assert_eq!(call.headers["content-type"], "application/grpc");
        assert_eq!(call.headers["x-key"], "k");
        assert_eq!(call.headers["te"], "trailers");
        assert_eq!(call.body[..1], [0], "not compressed");
        let length = u32::from_be_bytes(call.body[1..5].try_into().unwrap());
        assert_eq!(call.body.len(), length as usize + 5);
    }
    let of = |path: &str| calls.iter().find(|call| call.path == path).unwrap().body[5..].to_vec();
    let spans = otlp::spans(&of("/opentelemetry.proto.collector.trace.v1.TraceService/Export"));
    assert_eq!(spans[0]["name"], "chat m");
    let logs = otlp::logs(&of("/opentelemetry.proto.collector.logs.v1.LogsService/Export"));
    assert_eq!(logs.len(), 1);
    let metrics = otlp::metrics(&of("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"));
    assert_eq!(metrics.len(), 2);
}

#[test]
fn grpc_statuses_decide_what_is_tried_again() {
    let vars = [("OTEL_BSP_EXPORT_TIMEOUT", GENEROUS)];
    let (url, calls) = grpc_server(vec![Some("14"), Some("14"), Some("0")]);
    assert_eq!(send_all(start(&url, Protocol::Grpc, &vars)).wait(), None);
    assert_eq!(calls.try_iter().count(), 5, "two are refused at first, and the three kinds are taken");
    let (url, calls) = grpc_server(vec![Some("16")]);
    let problem = send_all(start(&url, Protocol::Grpc, &vars)).wait().unwrap();
    assert!(problem.contains("gRPC status 16"), "{problem}");
    assert_eq!(calls.try_iter().count(), 3, "refused calls are not tried again");
    let (url, _calls) = grpc_server(vec![None]);
    let problem = send_all(start(&url, Protocol::Grpc, &vars)).wait().unwrap();
    assert!(problem.contains("not a gRPC server"), "{problem}");
}
