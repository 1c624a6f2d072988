//! A client whose requests are paid from a budget.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pollux_domain::BoxFuture;
use pollux_domain::model::{
    Dialect, MicroUsd, ModelClient, ModelError, ModelErrorKind, ModelInfo, ModelRequest, Prices, ProviderId,
    ReplyChunk, ReplyStream,
};
use pollux_model::budget::{Budget, Limits, Metered, Scope, UnknownPrice};
use pollux_test_support::{FakeResponses, responses_reply};

use super::fixture::drain;
use super::responses::{client, prompt};

fn prices() -> Prices {
    Prices {
        input: MicroUsd(1_000_000),
        output: MicroUsd(10_000_000),
        cached: MicroUsd(100_000),
        cache_write: MicroUsd(1_000_000),
        above: None,
    }
}

fn budget(micro: u64) -> Arc<Budget> {
    let limits = Limits { usd: Some(MicroUsd(micro)), ..Limits::default() };
    Arc::new(Budget::new([(Scope::Session, limits)]))
}

fn metered(server: &FakeResponses, budget: &Arc<Budget>, unknown: UnknownPrice) -> Metered {
    Metered::new(Arc::new(client(server)), Arc::clone(budget), unknown)
}

fn known() -> UnknownPrice {
    UnknownPrice::Assume(prices())
}

#[tokio::test]
async fn a_reply_costs_what_its_usage_says() {
    let server = FakeResponses::start([
        responses_reply().text(&["x"]).usage(1_000, 50),
        responses_reply().text(&["x"]).usage(2_000, 50),
    ]);
    let budget = budget(5_000_000);
    let client = metered(&server, &budget, known());
    assert_eq!(drain(client.stream(prompt("hi"))).await.text(), "x");
    // The catalogue knows gpt-5.6-sol: 4 and 20 dollars for a million.
    let spent = budget.spent(Scope::Session);
    assert_eq!((spent.usd, spent.tokens, spent.requests), (MicroUsd(5_000), 1_050, 1));
    client.generate(prompt("hi")).await.unwrap();
    assert_eq!(budget.spent(Scope::Session).usd, MicroUsd(14_000));
}

#[tokio::test]
async fn what_cannot_be_paid_is_never_sent() {
    let server = FakeResponses::start([responses_reply().text(&["x"]).usage(10, 1)]);
    let budget = budget(100);
    let client = metered(&server, &budget, known());
    let told = drain(client.stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::BudgetExceeded);
    assert!(!told.error().stream_may_restart());
    assert!(
        told.error().message.starts_with("Budget reached: session 0.00 of 0.01 USD"),
        "{:?}",
        told.error()
    );
    assert_eq!(client.generate(prompt("hi")).await.unwrap_err().kind, ModelErrorKind::BudgetExceeded);
    assert_eq!((server.requests().len(), budget.spent(Scope::Session).requests), (0, 0));
}

#[tokio::test]
async fn a_reply_is_asked_to_be_as_short_as_can_be_paid() {
    let server = FakeResponses::start([responses_reply().text(&["x"]).usage(10, 1)]);
    let budget = budget(50_000);
    drain(metered(&server, &budget, known()).stream(prompt("hi"))).await;
    let limit = server.body(0)["max_output_tokens"].as_u64().unwrap();
    assert!((1024..2500).contains(&limit), "{limit}");
}

#[tokio::test]
async fn a_broken_reply_is_paid_by_estimate_and_a_refused_one_is_not() {
    let text = "a reply of forty letters that breaks off";
    let server = FakeResponses::start([
        responses_reply().text(&[text]).breaks(),
        pollux_test_support::ResponsesReply::error(400, "invalid_request_error", "", "no"),
        responses_reply().text(&[text]).falls_silent(),
    ]);
    let budget = budget(5_000_000);
    let client = metered(&server, &budget, known());
    drain(client.stream(prompt("hi"))).await;
    let broken = budget.spent(Scope::Session);
    // Ten tokens of text at 20 dollars for a million, and the input.
    assert!((200..1_000).contains(&broken.usd.0), "{broken:?}");
    drain(client.stream(prompt("hi"))).await;
    let refused = budget.spent(Scope::Session);
    assert_eq!((refused.usd, refused.requests), (broken.usd, 2));
    let mut stream = client.stream(prompt("hi"));
    let mut pieces = 0;
    while pieces == 0 {
        if let Some(Ok(pollux_domain::model::ReplyEvent::Chunk(_))) = stream.next().await {
            pieces += 1;
        }
    }
    assert!(budget.spent(Scope::Session).usd.0 > 10_000, "the reservation is held");
    drop(stream);
    let dropped = budget.spent(Scope::Session);
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
async fn an_unknown_price_is_told_once_refused_or_assumed() {
    let server = FakeResponses::start((0..3).map(|_| responses_reply().text(&["x"]).usage(1_000, 10)));
    let inner: Arc<dyn ModelClient> = Arc::new(Unpriced(Arc::new(client(&server))));
    let warned = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&warned);
    let warn = UnknownPrice::Warn(Arc::new(move |model: &str| list.lock().unwrap().push(model.to_owned())));
    let money = budget(5_000_000);
    let warning = Metered::new(Arc::clone(&inner), Arc::clone(&money), warn);
    drain(warning.stream(prompt("hi"))).await;
    drain(warning.stream(prompt("hi"))).await;
    let spent = money.spent(Scope::Session);
    assert_eq!((spent.usd, spent.tokens, spent.requests), (MicroUsd(0), 2_020, 2));
    assert_eq!(warned.lock().unwrap().as_slice(), ["gpt-5.6-sol-unheard-of"]);
    let refusing = Metered::new(Arc::clone(&inner), Arc::clone(&money), UnknownPrice::Refuse);
    assert_eq!(drain(refusing.stream(prompt("hi"))).await.error().kind, ModelErrorKind::BudgetExceeded);
    assert_eq!(server.requests().len(), 2);
    let assuming = Metered::new(inner, Arc::clone(&money), known());
    drain(assuming.stream(prompt("hi"))).await;
    assert_eq!(money.spent(Scope::Session).usd, MicroUsd(1_100));
}

#[tokio::test]
async fn parallel_callers_stop_at_the_limit_together() {
    let server = FakeResponses::start((0..100).map(|_| responses_reply().text(&["x"]).usage(1_000, 100)));
    let budget = budget(100_000);
    let client = Arc::new(metered(&server, &budget, known()));
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
    let spent = budget.spent(Scope::Session);
    // The input was estimated at about 25 tokens and counted 1,000: four at once may be over by that.
    assert!(spent.usd.0 <= 100_000 + 4 * 4_000, "{spent:?}");
    assert!(spent.requests >= 5 && spent.requests < 20, "{spent:?}");
}
