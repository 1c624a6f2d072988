//! A client whose requests are paid from a budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pollux_domain::BoxFuture;
use pollux_domain::content::{Body, Content, Part};
use pollux_domain::model::{
    GenerationSettings, ModelClient, ModelError, ModelErrorKind, ModelInfo, ModelRequest, Prices, ReplyChunk,
    ReplyEvent, ReplyStream, Setting, Usage,
};

use super::{Ask, Budget, Reservation, Spent};
use crate::catalogue::cost::cost;
use crate::catalogue::known;

/// A reply is taken for no longer than this where neither the request nor the model says.
const USUAL_OUTPUT: u64 = 65_536;
/// Letters of a token, roughly.
const BYTES_PER_TOKEN: u64 = 4;
/// A picture or a page, roughly.
const TOKENS_PER_MEDIUM: u64 = 1_500;

/// What is done about a model whose price nobody knows, where money is limited.
#[derive(Clone)]
pub enum UnknownPrice {
    /// Counts its tokens and says once that money is not counted.
    Warn(Arc<dyn Fn(&str) + Send + Sync>),
    Refuse,
    /// Takes this price.
    Assume(Prices),
}

/// A client whose requests are paid from a budget. A request that the budget does not allow fails before it is sent.
pub struct Metered {
    inner: Arc<dyn ModelClient>,
    meter: Arc<Meter>,
}

struct Meter {
    budget: Arc<Budget>,
    unknown_price: UnknownPrice,
    warned: AtomicBool,
}

impl Metered {
    /// Pays for what `inner` sends.
    pub fn new(inner: Arc<dyn ModelClient>, budget: Arc<Budget>, unknown_price: UnknownPrice) -> Self {
        let meter = Meter { budget, unknown_price, warned: AtomicBool::new(false) };
        Self { inner, meter: Arc::new(meter) }
    }
}

impl Meter {
    /// Sets aside what the request can cost, and shortens its reply to what can be paid.
    async fn reserve(
        self: &Arc<Self>,
        info: &ModelInfo,
        settings: &GenerationSettings,
        request: &mut ModelRequest,
    ) -> Result<Bill, ModelError> {
        let prices = self.prices(info)?;
        let wanted = settings.max_output.value().copied();
        let max_output = wanted.or(info.max_output).unwrap_or(USUAL_OUTPUT);
        let ask = Ask { input: estimate(request), max_output, prices: prices.clone() };
        let (meter, input) = (Arc::clone(self), ask.input);
        // Another process may hold the file for a while.
        let reserved = tokio::task::spawn_blocking(move || meter.budget.reserve(&ask)).await;
        let reservation = reserved.map_err(|_| broken())??;
        if reservation.max_output < max_output {
            request.settings.max_output = Setting::Set(reservation.max_output);
        }
        let meter = Arc::clone(self);
        Ok(Bill { meter, reservation: Some(reservation), prices, input, bytes: 0, retries: 0, usage: None })
    }

    fn prices(&self, info: &ModelInfo) -> Result<Option<Prices>, ModelError> {
        let listed = || known::prices(&format!("{}/{}", info.provider.as_str(), info.id));
        let prices = info.prices.clone().or_else(listed);
        if prices.is_some() || !self.budget.limits_money() {
            return Ok(prices);
        }
        match &self.unknown_price {
            UnknownPrice::Assume(prices) => Ok(Some(prices.clone())),
            UnknownPrice::Refuse => {
                let message =
                    format!("the price of model `{}` is not known, and the budget is in USD", info.id);
                Err(ModelError::new(ModelErrorKind::BudgetExceeded, None, message))
            }
            UnknownPrice::Warn(warn) => {
                if !self.warned.swap(true, Ordering::Relaxed) {
                    warn(&info.id);
                }
                Ok(None)
            }
        }
    }
}

fn broken() -> ModelError {
    ModelError::new(ModelErrorKind::BudgetExceeded, None, "the budget could not be read")
}

/// What one request has come to so far. Paid when it is dropped, whatever became of the request.
struct Bill {
    meter: Arc<Meter>,
    reservation: Option<Reservation>,
    prices: Option<Prices>,
    /// The estimate of the input.
    input: u64,
    /// How much has come back.
    bytes: u64,
    /// Attempts that the provider refused.
    retries: u64,
    usage: Option<Usage>,
}

impl Bill {
    fn note(&mut self, chunk: &ReplyChunk) {
        self.bytes = self.bytes.saturating_add(chunk.parts.iter().map(bytes).sum());
        self.usage = chunk.usage.or(self.usage);
    }

    /// The request never brought anything, so the provider takes nothing for it.
    fn void(&mut self) {
        if self.bytes == 0 && self.usage.is_none() {
            self.input = 0;
        }
    }

    fn spent(&self) -> Spent {
        let usage = self.usage.unwrap_or_else(|| {
            let output = self.bytes.div_ceil(BYTES_PER_TOKEN);
            let total = self.input.saturating_add(output);
            Usage { input: self.input, output, total, estimated: true, ..Usage::default() }
        });
        let written = usage.output.saturating_add(usage.reasoning);
        Spent {
            usd: self
                .prices
                .as_ref()
                .map(|prices| cost(&usage, prices))
                .or(usage.cost_reported)
                .unwrap_or_default(),
            tokens: usage.input.saturating_add(written).max(usage.total),
            requests: 1 + self.retries,
        }
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            // If the file cannot be written, the reservation stays spent there.
            let _ = self.meter.budget.settle(reservation, self.spent());
        }
    }
}

impl ModelClient for Metered {
    fn resolve(&self, name: &str) -> ModelInfo {
        self.inner.resolve(name)
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        self.inner.settings(request)
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        let (inner, meter) = (Arc::clone(&self.inner), Arc::clone(&self.meter));
        Box::new(MeteredStream { state: State::Ready(Box::new((inner, meter, request))) })
    }

    fn generate(&self, mut request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(async move {
            let info = self.inner.resolve(&request.model);
            let settings = self.inner.settings(&request);
            let mut bill = self.meter.reserve(&info, &settings, &mut request).await?;
            let reply = self.inner.generate(request).await;
            match &reply {
                Ok(chunk) => bill.note(chunk),
                Err(_) => bill.void(),
            }
            reply
        })
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        self.inner.count_tokens(request)
    }

    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        self.inner.list_models()
    }
}

/// A reply under way and what it costs.
type Begun = (Box<dyn ReplyStream>, Bill);

struct MeteredStream {
    state: State,
}

/// Every wait is part of the state, so that a caller may drop the future of `next` and ask again.
enum State {
    Ready(Box<(Arc<dyn ModelClient>, Arc<Meter>, ModelRequest)>),
    Reserving(BoxFuture<'static, Result<Begun, ModelError>>),
    Reading(Box<dyn ReplyStream>, Box<Bill>),
    Done,
}

impl MeteredStream {
    async fn advance(&mut self) -> Option<Result<ReplyEvent, ModelError>> {
        loop {
            match &mut self.state {
                State::Ready(_) => {
                    if let State::Ready(parts) = std::mem::replace(&mut self.state, State::Done) {
                        self.state = State::Reserving(Box::pin(begin(*parts)));
                    }
                }
                State::Reserving(reserving) => match reserving.await {
                    Ok((stream, bill)) => self.state = State::Reading(stream, Box::new(bill)),
                    Err(error) => {
                        self.state = State::Done;
                        return Some(Err(error));
                    }
                },
                State::Reading(stream, bill) => {
                    let event = stream.next().await;
                    match &event {
                        Some(Ok(ReplyEvent::Chunk(chunk))) => bill.note(chunk),
                        Some(Ok(ReplyEvent::Waiting(_))) => bill.retries += 1,
                        Some(Ok(ReplyEvent::CallProgress { .. } | ReplyEvent::Alive)) => {}
                        Some(Err(_)) => {
                            bill.void();
                            self.state = State::Done;
                        }
                        None => self.state = State::Done,
                    }
                    return event;
                }
                State::Done => return None,
            }
        }
    }
}

async fn begin(
    (inner, meter, mut request): (Arc<dyn ModelClient>, Arc<Meter>, ModelRequest),
) -> Result<Begun, ModelError> {
    let info = inner.resolve(&request.model);
    let settings = inner.settings(&request);
    let bill = meter.reserve(&info, &settings, &mut request).await?;
    Ok((inner.stream(request), bill))
}

impl ReplyStream for MeteredStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(self.advance())
    }
}

/// How many tokens a request has, roughly.
fn estimate(request: &ModelRequest) -> u64 {
    let system = request.system.as_ref().map_or(0, |text| text.len() as u64);
    let contents: u64 = request.contents.iter().map(|content| content_bytes(content)).sum();
    let tools = request
        .tools
        .iter()
        .map(|tool| (tool.name.len() + tool.description.len() + tool.parameters.to_string().len()) as u64);
    let bytes = system.saturating_add(contents).saturating_add(tools.sum());
    bytes.div_ceil(BYTES_PER_TOKEN)
}

fn content_bytes(content: &Content) -> u64 {
    content.parts.iter().map(bytes).sum()
}

fn bytes(part: &Part) -> u64 {
    let json_length =
        |value: &pollux_domain::JsonObject| serde_json::to_string(value).map_or(0, |text| text.len() as u64);
    match &part.body {
        Body::Text(text) | Body::Reasoning { text, .. } => text.len() as u64,
        Body::Call(call) => call.name.len() as u64 + json_length(&call.args),
        Body::Response(response) => {
            let text = match response.response.as_stored() {
                Some(stored) => stored.length as u64,
                None => json_length(&response.response),
            };
            text + response.parts.iter().map(bytes).sum::<u64>()
        }
        Body::InlineData(_) | Body::FileData { .. } => TOKENS_PER_MEDIUM * BYTES_PER_TOKEN,
        Body::Other(fields) => json_length(fields),
    }
}
