//! A client whose requests are charged to a budget.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::budget::{SessionBudget, Spent};
use pollux_domain::model::{
    GenerationSettings, ModelClient, ModelError, ModelInfo, ModelRequest, Prices, ReplyChunk, ReplyEvent,
    ReplyStream, Setting, Usage,
};

use super::attempts::Gate;
use super::estimate::{BYTES_PER_TOKEN, part_bytes, request_bytes};
use super::meter::{self, Meter};
use super::{Ask, Reservation};

/// The assumed maximum reply if neither the request nor the model sets one.
const USUAL_OUTPUT: u64 = 65_536;

/// A client whose requests are charged to a budget. A request that the budget does not allow fails before it is sent.
pub struct Metered {
    inner: Arc<dyn ModelClient>,
    meter: Arc<Meter>,
}

impl Metered {
    /// Charges what `inner` sends.
    pub fn new(inner: Arc<dyn ModelClient>, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

/// Reserves what the request can cost, and shortens its reply to fit.
async fn reserve(
    inner: &dyn ModelClient,
    meter: &Arc<Meter>,
    request: &mut ModelRequest,
) -> Result<Bill, ModelError> {
    let info = inner.resolve(&request.model);
    let prices = meter.prices(&info)?;
    // Without a limit, the size matters only if the server does not count the tokens.
    let (bytes, kept) = match meter.budget().is_limited() {
        true => (request_bytes(request), None),
        false => (0, Some(Box::new(request.clone()))),
    };
    let wanted = inner.settings(request).max_output.value().copied();
    let max_output = wanted.or(info.max_output).unwrap_or(USUAL_OUTPUT);
    let input = meter.tokens(&info, bytes);
    let ask = Ask { input, max_output, prices: prices.clone() };
    let reservation = meter.reserve(ask, request.role).await?;
    if reservation.max_output < max_output {
        request.settings.max_output = Setting::Set(reservation.max_output);
    }
    Ok(Bill {
        gate: Gate::new(meter, input, prices.clone()),
        meter: Arc::clone(meter),
        reservation: Some(reservation),
        model: meter::key(&info),
        prices,
        request_bytes: bytes,
        kept,
        input,
        bytes: 0,
        usage: None,
        failed: false,
    })
}

/// The cost of one request so far. Charged when dropped, whatever the outcome.
struct Bill {
    meter: Arc<Meter>,
    gate: Arc<Gate>,
    reservation: Option<Reservation>,
    model: String,
    prices: Option<Prices>,
    request_bytes: u64,
    /// The request, to estimate its size if that becomes necessary.
    kept: Option<Box<ModelRequest>>,
    /// The estimate of the input.
    input: u64,
    /// How much of the reply has arrived.
    bytes: u64,
    usage: Option<Usage>,
    /// The reply broke off, or never came.
    failed: bool,
}

impl Bill {
    fn note(&mut self, chunk: &ReplyChunk) {
        self.bytes = self.bytes.saturating_add(chunk.parts.iter().map(part_bytes).sum());
        self.usage = chunk.usage.or(self.usage);
    }

    fn spent(&mut self) -> Spent {
        let nothing_came = self.bytes == 0 && self.usage.is_none();
        if nothing_came && self.failed && !self.gate.answered() {
            // A request that was refused is not billed.
            return Spent { requests: 1, ..Spent::default() };
        }
        if let Some(request) = self.kept.take().filter(|_| self.usage.is_none()) {
            self.input = request_bytes(&request).div_ceil(BYTES_PER_TOKEN);
        }
        let usage = self.usage.unwrap_or_else(|| {
            let output = self.bytes.div_ceil(BYTES_PER_TOKEN);
            let total = self.input.saturating_add(output);
            Usage { input: self.input, output, total, estimated: true, ..Usage::default() }
        });
        meter::spent(&usage, self.prices.as_ref())
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        let Some(reservation) = self.reservation.take() else { return };
        let spent = self.spent();
        self.meter.settle(reservation, spent);
        if self.failed {
            self.meter.budget().waste(spent);
        }
        if let Some(usage) = self.usage.filter(|usage| usage.input > 0) {
            let (model, prices) = (std::mem::take(&mut self.model), self.prices.take());
            self.meter.learn(model, self.request_bytes, usage.input, prices);
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
            let mut bill = reserve(&*self.inner, &self.meter, &mut request).await?;
            let gate = Arc::clone(&bill.gate);
            let reply = gate.watch(self.inner.generate(request)).await;
            match &reply {
                Ok(chunk) => bill.note(chunk),
                Err(_) => bill.failed = true,
            }
            reply
        })
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        // At a limit nothing is sent, not even free requests.
        match self.meter.exceeded() {
            Some(exceeded) => Box::pin(async { Err(ModelError::over_budget(exceeded)) }),
            None => self.inner.count_tokens(request),
        }
    }

    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        self.inner.list_models()
    }
}

/// A reply in progress and its cost.
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
                    let gate = Arc::clone(&bill.gate);
                    let event = gate.watch(stream.next()).await;
                    match &event {
                        Some(Ok(ReplyEvent::Chunk(chunk))) => bill.note(chunk),
                        Some(Ok(
                            ReplyEvent::Waiting(_) | ReplyEvent::CallProgress { .. } | ReplyEvent::Alive,
                        )) => {}
                        Some(Err(_)) => {
                            bill.failed = true;
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
    let bill = reserve(&*inner, &meter, &mut request).await?;
    Ok((inner.stream(request), bill))
}

impl ReplyStream for MeteredStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(self.advance())
    }
}
