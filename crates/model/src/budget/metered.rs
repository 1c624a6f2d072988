//! A client whose requests are charged to a budget.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::budget::{SessionBudget, Spent};
use pollux_domain::content::Body;
use pollux_domain::model::{
    Finish, FinishReason, GenerationSettings, ModelClient, ModelError, ModelInfo, ModelRequest, Prices,
    ReplyChunk, ReplyEvent, ReplyStream, RequestRole, Setting, Usage,
};

use super::attempts::Gate;
use super::estimate::{BYTES_PER_TOKEN, part_bytes, request_bytes};
use super::meter::{self, Meter};
use super::{Ask, MIN_OUTPUT, Reservation};

/// The assumed maximum reply if neither the request nor the model sets one.
const USUAL_OUTPUT: u64 = 65_536;

/// A reply with more bytes than this for each token that it may have comes from a server that ignores the limit.
const MOST_BYTES_PER_TOKEN: u64 = 6;

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
    let input = meter.tokens(&info, bytes);
    let is_capped = meter.budget().limits_output();
    let most = info.max_output.unwrap_or(USUAL_OUTPUT);
    // Servers refuse a limit that does not fit into the window next to the request.
    let fitting = || most.min(info.context_window.saturating_sub(input).max(MIN_OUTPUT));
    let max_output = wanted.unwrap_or_else(|| if is_capped { fitting() } else { most });
    let ask = Ask { input, max_output, prices: prices.clone() };
    let reservation = meter.reserve(ask, request.role).await?;
    // Always sent: what a server writes on its own accord is not reserved.
    let cap = is_capped.then_some(reservation.max_output);
    if let Some(cap) = cap {
        request.settings.max_output = Setting::Set(cap);
    }
    Ok(Bill {
        gate: Gate::new(meter, input, kept, prices.clone(), cap),
        cap,
        role: request.role,
        meter: Arc::clone(meter),
        reservation: Some(reservation),
        model: meter::key(&info),
        prices,
        request_bytes: bytes,
        said: 0,
        called: 0,
        calling: BTreeMap::new(),
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
    /// How many tokens the reply may have, if that is limited.
    cap: Option<u64>,
    role: RequestRole,
    /// How many bytes have come back, but for calls.
    said: u64,
    /// How many bytes complete calls have.
    called: u64,
    /// How many bytes calls have that are being written, the complete ones included.
    calling: BTreeMap<usize, u64>,
    usage: Option<Usage>,
    /// The reply broke off, or never came.
    failed: bool,
}

impl Bill {
    fn note(&mut self, chunk: &ReplyChunk) {
        for part in &chunk.parts {
            let bytes = part_bytes(part);
            let count = if matches!(part.body, Body::Call(_)) { &mut self.called } else { &mut self.said };
            *count = count.saturating_add(bytes);
        }
        self.usage = chunk.usage.or(self.usage);
    }

    /// A call is being written; it is complete only at the end of the reply.
    fn note_call(&mut self, index: usize, name: &str, bytes: u64) {
        self.calling.insert(index, bytes.saturating_add(name.len() as u64));
    }

    /// How much has come back.
    fn bytes(&self) -> u64 {
        let calls = self.calling.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        self.said.saturating_add(self.called.max(calls))
    }

    /// Whether more came than the request allowed.
    fn is_over(&self) -> bool {
        self.cap.is_some_and(|cap| self.bytes() > cap.saturating_mul(MOST_BYTES_PER_TOKEN))
    }

    fn spent(&self) -> Spent {
        let nothing_came = self.bytes() == 0 && self.usage.is_none();
        if nothing_came && self.failed && !self.gate.counts() {
            // A request that was refused or not sent is not billed.
            return Spent { requests: 1, ..Spent::default() };
        }
        meter::spent(&self.counted(), self.prices.as_ref())
    }

    /// What the server counted, and estimates in the place of what it counted as nothing.
    fn counted(&self) -> Usage {
        let mut usage = self.usage.unwrap_or_default();
        if usage.input == 0 {
            usage.input = self.gate.input();
            usage.estimated = true;
        }
        if usage.written() == 0 {
            usage.output = self.bytes().div_ceil(BYTES_PER_TOKEN);
            usage.estimated |= usage.output > 0;
        }
        usage.total = usage.total.max(usage.input.saturating_add(usage.written()));
        usage
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
            let reply = match in_time(&bill, gate.watch(self.inner.generate(request))).await {
                Ok(reply) => reply,
                Err(error) => Err(error),
            };
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
    /// More came than was allowed; the reply ends as it would have at a server that heeds the limit.
    Cut,
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
                    let event = match in_time(bill, gate.watch(stream.next())).await {
                        Ok(event) => event,
                        Err(error) => Some(Err(error)),
                    };
                    match &event {
                        Some(Ok(ReplyEvent::Chunk(chunk))) => bill.note(chunk),
                        Some(Ok(ReplyEvent::CallProgress { index, name, bytes })) => {
                            bill.note_call(*index, name, *bytes);
                        }
                        Some(Ok(ReplyEvent::Waiting(_) | ReplyEvent::Alive)) => {}
                        Some(Err(_)) => {
                            bill.failed = true;
                            self.state = State::Done;
                        }
                        None => self.state = State::Done,
                    }
                    if let State::Reading(_, bill) = &self.state
                        && bill.is_over()
                    {
                        bill.meter.tell_cut(&bill.model);
                        self.state = State::Cut;
                    }
                    return event;
                }
                State::Cut => {
                    self.state = State::Done;
                    let finish = Finish { reason: FinishReason::MaxTokens, message: None };
                    let last = ReplyChunk { finish: Some(finish), ..ReplyChunk::default() };
                    return Some(Ok(ReplyEvent::Chunk(last)));
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
    let gate = Arc::clone(&bill.gate);
    Ok((gate.watch(async { inner.stream(request) }).await, bill))
}

/// Waits for no longer than the budget's time; the error says that it is over.
async fn in_time<F: Future>(bill: &Bill, work: F) -> Result<F::Output, ModelError> {
    tokio::pin!(work);
    loop {
        let Some(left) = bill.meter.budget().time_left() else { return Ok(work.await) };
        tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            // The limit may be raised meanwhile.
            () = tokio::time::sleep(left.max(Duration::from_millis(1))) => {
                if let Some(error) = bill.meter.out_of_time(bill.role) {
                    return Err(error);
                }
            }
        }
    }
}

impl ReplyStream for MeteredStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(self.advance())
    }
}
