//! A client whose requests are paid from a budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pollux_domain::BoxFuture;
use pollux_domain::budget::{Limits, Scope, SessionBudget, Spent};
use pollux_domain::model::{
    Dialect, MicroUsd, ModelClient, ModelError, ModelErrorKind, ModelInfo, ModelRequest, Prices, ProviderId,
    ReplyChunk, ReplyStream,
};
use pollux_model::budget::{Budget, Meter, UnknownPrice};
use pollux_model::responses::ResponsesClient;
use pollux_model::shared::endpoint::Endpoint;
use pollux_test_support::{FakeResponses, responses_reply};

use super::fixture::drain;
use super::responses::{client, options, prompt};

fn prices() -> Prices {
    Prices {
        input: MicroUsd(1_000_000),
        output: MicroUsd(10_000_000),
        cached: MicroUsd(100_000),
        cache_write: MicroUsd(1_000_000),
        above: None,
    }
}

fn usd(micro: u64) -> Limits {
    Limits { usd: Some(MicroUsd(micro)), ..Limits::default() }
}

fn meter(limits: Limits, unknown: UnknownPrice) -> Arc<Meter> {
    Arc::new(Meter::new(Budget::new([(Scope::Session, limits)]), unknown))
}

fn paid(meter: &Meter) -> Spent {
    meter.budget().spent(Scope::Session)
}

fn known() -> UnknownPrice {
    UnknownPrice::Assume(prices())
}

#[tokio::test]
async fn a_reply_is_charged_by_its_reported_usage() {
    let server = FakeResponses::start([
        responses_reply().text(&["x"]).usage(1_000, 50),
        responses_reply().text(&["x"]).usage(2_000, 50),
    ]);
    let meter = meter(usd(5_000_000), known());
    let client = meter.client(Arc::new(client(&server)));
    assert_eq!(drain(client.stream(prompt("hi"))).await.text(), "x");
    // The catalogue knows gpt-5.6-sol: 4 and 20 dollars for a million.
    let spent = paid(&meter);
    assert_eq!((spent.usd, spent.tokens, spent.requests), (MicroUsd(5_000), 1_050, 1));
    client.generate(prompt("hi")).await.unwrap();
    assert_eq!(paid(&meter).usd, MicroUsd(14_000));
}

#[tokio::test]
async fn a_request_over_the_limit_is_never_sent() {
    let server = FakeResponses::start([responses_reply().text(&["x"]).usage(10, 1)]);
    let meter = meter(usd(100), known());
    let client = meter.client(Arc::new(client(&server)));
    let told = drain(client.stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::BudgetExceeded);
    assert!(!told.error().stream_may_restart());
    assert!(
        told.error().message.starts_with("Budget reached: session 0.0000 of 0.0001 USD"),
        "{:?}",
        told.error()
    );
    assert_eq!(client.generate(prompt("hi")).await.unwrap_err().kind, ModelErrorKind::BudgetExceeded);
    assert_eq!((server.requests().len(), paid(&meter).requests), (0, 0));
}

#[tokio::test]
async fn a_reply_is_limited_to_what_can_be_paid() {
    let server = FakeResponses::start([responses_reply().text(&["x"]).usage(10, 1)]);
    let meter = meter(usd(50_000), known());
    drain(meter.client(Arc::new(client(&server))).stream(prompt("hi"))).await;
    let limit = server.body(0)["max_output_tokens"].as_u64().unwrap();
    assert!((1024..2500).contains(&limit), "{limit}");
}

#[tokio::test]
async fn the_limit_of_the_output_is_sent_under_every_budget_that_it_matters_for() {
    let limits = [
        (usd(900_000_000), true),
        (Limits { tokens: Some(5_000_000), ..Limits::default() }, true),
        (Limits { requests: Some(9), ..Limits::default() }, false),
        (Limits::default(), false),
    ];
    for (limits, sent) in limits {
        let server = FakeResponses::start([responses_reply().text(&["x"]).usage(10, 1)]);
        let meter = meter(limits, known());
        drain(meter.client(Arc::new(client(&server))).stream(prompt("hi"))).await;
        assert_eq!(server.body(0).get("max_output_tokens").is_some(), sent, "{limits:?}");
    }
}

#[tokio::test]
async fn a_reply_that_ignores_the_limit_is_cut_and_paid() {
    let piece = "word ".repeat(400);
    let pieces = vec![piece.as_str(); 60];
    let server = FakeResponses::start([responses_reply().text(&pieces).usage(10, 30_000)]);
    let limits = Limits { tokens: Some(1_500), ..Limits::default() };
    let meter = meter(limits, known());
    let told = drain(meter.client(Arc::new(client(&server))).stream(prompt("hi"))).await;
    let cap = server.body(0)["max_output_tokens"].as_u64().unwrap();
    let length = told.text().len() as u64;
    assert!(length > cap * 4 && length < cap * 6 + 4_000, "{length} bytes for {cap} tokens");
    assert!((1_000..3_000).contains(&paid(&meter).tokens), "{:?}", paid(&meter));
    assert!(meter.take_notices().iter().any(|line| line.contains("ignores the output limit")));
}

#[tokio::test]
async fn a_count_of_nothing_is_no_count() {
    for (input, output) in [(0, 0), (0, 7)] {
        let server = FakeResponses::start([responses_reply()
            .text(&["forty bytes of text that was not counted"])
            .usage(input, output)]);
        let meter = meter(usd(5_000_000), known());
        drain(meter.client(Arc::new(client(&server))).stream(prompt(&"long ".repeat(400)))).await;
        let spent = paid(&meter);
        assert!(spent.tokens >= 500 + 7 && spent.usd > MicroUsd(0), "{spent:?}");
    }
}

#[tokio::test]
async fn a_reply_ends_with_the_time_of_the_budget() {
    let server = FakeResponses::start([responses_reply().text(&["x"]).falls_silent()]);
    let limits = Limits { millis: Some(300), ..Limits::default() };
    let meter = meter(limits, known());
    meter.begin_turn();
    let began = std::time::Instant::now();
    let told = drain(meter.client(Arc::new(client(&server))).stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::BudgetExceeded);
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(meter.exceeded().is_some());
}

#[tokio::test]
async fn a_broken_reply_is_estimated_and_a_refused_one_is_free() {
    let text = "a reply of forty letters that breaks off";
    let server = FakeResponses::start([
        responses_reply().text(&[text]).breaks(),
        pollux_test_support::ResponsesReply::error(400, "invalid_request_error", "", "no"),
        responses_reply().text(&[text]).falls_silent(),
    ]);
    let meter = meter(usd(5_000_000), known());
    let client = meter.client(Arc::new(client(&server)));
    drain(client.stream(prompt("hi"))).await;
    let broken = paid(&meter);
    // Ten tokens of text at 20 dollars for a million, and the input.
    assert!((200..1_000).contains(&broken.usd.0), "{broken:?}");
    drain(client.stream(prompt("hi"))).await;
    let refused = paid(&meter);
    assert_eq!((refused.usd, refused.requests), (broken.usd, 2));
    let mut stream = client.stream(prompt("hi"));
    let mut pieces = 0;
    while pieces == 0 {
        if let Some(Ok(pollux_domain::model::ReplyEvent::Chunk(_))) = stream.next().await {
            pieces += 1;
        }
    }
    assert!(paid(&meter).usd.0 > 10_000, "the reservation is held");
    drop(stream);
    let dropped = paid(&meter);
    assert_eq!(dropped.usd.0, broken.usd.0 * 2);
}

/// A model that nobody knows the price of.
struct Unpriced(Arc<dyn ModelClient>);

impl ModelClient for Unpriced {
    fn resolve(&self, name: &str) -> ModelInfo {
        ModelInfo::unknown(format!("{name}-unheard-of"), ProviderId::new("lab"), Dialect::RESPONSES)
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        self.0.stream(request)
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        self.0.generate(request)
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        self.0.count_tokens(request)
    }
}

#[tokio::test]
async fn an_unknown_price_is_reported_once_refused_or_assumed() {
    let server = FakeResponses::start((0..3).map(|_| responses_reply().text(&["x"]).usage(1_000, 10)));
    let inner: Arc<dyn ModelClient> = Arc::new(Unpriced(Arc::new(client(&server))));
    let warning = meter(usd(5_000_000), UnknownPrice::Warn);
    let client = warning.client(Arc::clone(&inner));
    drain(client.stream(prompt("hi"))).await;
    drain(client.stream(prompt("hi"))).await;
    let unpriced = paid(&warning);
    assert_eq!((unpriced.usd, unpriced.tokens, unpriced.requests), (MicroUsd(0), 2_020, 2));
    let told = warning.take_notices();
    assert!(matches!(told.as_slice(), [line] if line.contains("`gpt-5.6-sol-unheard-of`")), "{told:?}");
    let refusing = meter(usd(5_000_000), UnknownPrice::Refuse).client(Arc::clone(&inner));
    assert_eq!(drain(refusing.stream(prompt("hi"))).await.error().kind, ModelErrorKind::BudgetExceeded);
    assert_eq!(server.requests().len(), 2);
    let assuming = meter(usd(5_000_000), known());
    drain(assuming.client(inner).stream(prompt("hi"))).await;
    assert_eq!(paid(&assuming).usd, MicroUsd(1_100));
}

#[tokio::test]
async fn an_attempt_whose_outcome_is_unknown_counts_its_input() {
    let error = |status| pollux_test_support::ResponsesReply::error(status, "x", "", "no");
    let long = "word ".repeat(400);
    for (limits, name) in [(usd(5_000_000), "limited"), (Limits::default(), "unlimited")] {
        for (status, attempts, counts) in [(529, 4, true), (500, 4, true), (400, 1, false), (429, 4, false)] {
            let server = FakeResponses::start((0..4).map(|_| error(status)));
            let meter = meter(limits, known());
            let client = meter.client(Arc::new(client(&server)));
            let failed = client.generate(prompt(&long)).await.unwrap_err();
            assert_eq!(failed.status, Some(status));
            let (spent, wasted) = (paid(&meter), meter.status().wasted);
            assert_eq!((spent.requests, wasted.requests), (attempts, attempts), "{name} {status}");
            let expected = if counts { attempts * 500..attempts * 600 } else { 0..1 };
            assert!(expected.contains(&spent.tokens), "{name} {status}: {spent:?}");
            assert_eq!(spent.tokens, wasted.tokens, "{name} {status}");
        }
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_may_bill_and_one_that_is_not_reached_cannot() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut endpoint = options(&FakeResponses::start([]));
    endpoint.base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        for _ in 0..4 {
            let (mut peer, _) = listener.accept().unwrap();
            let _ = std::io::Read::read(&mut peer, &mut [0; 64]);
        }
    });
    let tokens = async |endpoint: &Endpoint, requests: u64| {
        let meter = meter(usd(5_000_000), known());
        let client = meter.client(Arc::new(ResponsesClient::new(endpoint.clone()).unwrap()));
        client.generate(prompt("hi")).await.unwrap_err();
        assert_eq!(paid(&meter).requests, requests);
        paid(&meter).tokens
    };
    assert!(tokens(&endpoint, 4).await > 0);
    server.join().unwrap();
    assert_eq!(tokens(&endpoint, 3).await, 0);
}

#[tokio::test]
async fn every_attempt_is_counted_and_one_too_many_is_not_sent() {
    let busy = || pollux_test_support::ResponsesReply::error(503, "server_error", "", "busy");
    for (streamed, limit) in [(true, 2), (false, 2), (true, 3), (false, 3)] {
        let server = FakeResponses::start([busy(), busy(), responses_reply().text(&["x"]).usage(10, 1)]);
        let meter = meter(Limits { requests: Some(limit), ..Limits::default() }, known());
        let client = meter.client(Arc::new(client(&server)));
        let error = match streamed {
            true => drain(client.stream(prompt("hi"))).await.error,
            false => client.generate(prompt("hi")).await.err(),
        };
        assert_eq!((server.requests().len() as u64, paid(&meter).requests), (limit, limit), "{streamed}");
        assert_eq!(error.map(|error| error.kind), (limit < 3).then_some(ModelErrorKind::BudgetExceeded));
        assert_eq!(meter.status().wasted.requests, 2);
    }
}

#[tokio::test]
async fn a_subagent_has_its_own_limit_and_counts_in_the_session() {
    let server = FakeResponses::start((0..9).map(|_| responses_reply().text(&["x"]).usage(1_000, 100)));
    let budget = Budget::new([(Scope::Session, usd(5_000_000))]);
    let meter = Arc::new(Meter::new(budget, known()).with_subagent_share(usd(30_000)));
    let main = meter.client(Arc::new(client(&server)));
    let share = meter.for_subagent(&main);
    let error = loop {
        if let Some(error) = drain(share.stream(prompt("hi"))).await.error {
            break error;
        }
    };
    assert!(error.message.starts_with("Budget reached: sub-agent 0.01"), "{error}");
    assert_eq!(meter.exceeded(), None, "the session goes on");
    assert!(
        drain(meter.for_subagent(&main).stream(prompt("hi"))).await.error.is_none(),
        "another has its own"
    );
    assert_eq!(paid(&meter).requests, server.requests().len() as u64);
}

#[tokio::test]
async fn a_request_waits_for_reservations_of_others() {
    let server = FakeResponses::start((0..2).map(|_| responses_reply().text(&["x"]).usage(10, 1)));
    // Not enough for two replies of full length at once.
    let meter = meter(usd(60_000), known());
    let client = meter.client(Arc::new(client(&server)));
    let (one, two) = tokio::join!(drain(client.stream(prompt("a"))), drain(client.stream(prompt("b"))));
    assert!(one.error.is_none() && two.error.is_none());
    assert_eq!(paid(&meter).requests, 2);
}

#[tokio::test]
async fn parallel_callers_stop_at_the_limit_together() {
    let server = FakeResponses::start((0..100).map(|_| responses_reply().text(&["x"]).usage(1_000, 100)));
    let meter = meter(usd(100_000), known());
    let client = meter.client(Arc::new(client(&server)));
    let refused = Arc::new(AtomicUsize::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (client, refused) = (Arc::clone(&client), Arc::clone(&refused));
        callers.spawn(async move {
            while drain(client.stream(prompt("hi"))).await.error.is_none() {}
            refused.fetch_add(1, Ordering::SeqCst);
        });
    }
    while callers.join_next().await.is_some() {}
    assert_eq!(refused.load(Ordering::SeqCst), 4);
    let spent = paid(&meter);
    // The input was estimated at about 25 tokens and counted 1,000: four at once may be over by that.
    assert!(spent.usd.0 <= 100_000 + 4 * 4_000, "{spent:?}");
    assert!(spent.requests >= 5 && spent.requests < 20, "{spent:?}");
}
