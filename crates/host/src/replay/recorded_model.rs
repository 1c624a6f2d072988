//! A model that says what was recorded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use pollux_capsule::ReplayStep;
use pollux_domain::BoxFuture;
use pollux_domain::model::{
    Dialect, Finish, FinishReason, ModelClient, ModelError, ModelErrorKind, ModelInfo, ModelRequest,
    ProviderId, ReplyChunk, ReplyEvent, ReplyStream, Usage,
};
use pollux_domain::sync::Locked as _;
use pollux_model::catalogue::Catalogue;
use pollux_model::scripted::{ScriptedClient, Strictness};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// Whatever was recorded fits.
const WINDOW: u64 = 1 << 60;
/// Counts of a capsule may be anything; sums of them must not overflow.
const MAX_TOKENS: u64 = 1 << 40;
/// As many as a session takes between two requests.
const MAX_STEERS: usize = 16;

/// What the model wants of the one who drives the session.
pub(super) enum Signal {
    /// The turn has no more recorded replies.
    NoReplyLeft,
    /// Say this to the turn before the reply comes.
    Steer { texts: Vec<String>, sent: oneshot::Sender<()> },
}

/// A model that takes its replies from the steps that are left.
#[derive(Clone)]
pub(super) struct RecordedModel {
    steps: Arc<Mutex<VecDeque<ReplayStep>>>,
    signals: mpsc::UnboundedSender<Signal>,
    catalogue: Arc<Catalogue>,
}

impl RecordedModel {
    pub(super) fn new(
        steps: Arc<Mutex<VecDeque<ReplayStep>>>,
        signals: mpsc::UnboundedSender<Signal>,
    ) -> Self {
        Self { steps, signals, catalogue: Arc::new(Catalogue::built_in()) }
    }

    /// The next reply of this turn, once what was said before it is on its way.
    async fn reply(&self, request: ModelRequest) -> Result<ReplyChunk, ModelError> {
        let Some((line, steers)) = self.take() else {
            // Nobody listens only when the replay is over.
            let _ = self.signals.send(Signal::NoReplyLeft);
            return std::future::pending().await;
        };
        if !steers.is_empty() {
            let (sent, delivered) = oneshot::channel();
            let _ = self.signals.send(Signal::Steer { texts: steers, sent });
            let _ = delivered.await;
        }
        let script =
            ScriptedClient::from_text(&line.to_string(), Strictness::Strict, Arc::clone(&self.catalogue))
                .map_err(|error| ModelError::new(ModelErrorKind::Script, None, error.to_string()))?;
        whole(script.stream(request)).await
    }

    fn take(&self) -> Option<(Value, Vec<String>)> {
        let mut steps = self.steps.locked();
        match steps.pop_front() {
            Some(ReplayStep::Reply { line, .. }) => Some((line, leading_steers(&mut steps))),
            Some(other) => {
                steps.push_front(other);
                None
            }
            None => None,
        }
    }
}

/// Takes what was said to the turn next.
pub(super) fn leading_steers(steps: &mut VecDeque<ReplayStep>) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(step) = steps.pop_front() {
        match step {
            ReplayStep::Steer(text) if texts.len() < MAX_STEERS => texts.push(text),
            other => {
                steps.push_front(other);
                break;
            }
        }
    }
    texts
}

/// A reply in one piece, with an end that the agent accepts: it was accepted when it was recorded, and another attempt
/// would take the reply to another request.
async fn whole(mut stream: Box<dyn ReplyStream>) -> Result<ReplyChunk, ModelError> {
    let mut reply = ReplyChunk::default();
    while let Some(event) = stream.next().await {
        let ReplyEvent::Chunk(chunk) = event? else { continue };
        reply.parts.extend(chunk.parts);
        reply.usage = chunk.usage.or(reply.usage);
        reply.model_version = chunk.model_version.or(reply.model_version);
    }
    reply.usage = reply.usage.map(bounded);
    let calls = reply.parts.iter().any(|part| part.as_call().is_some());
    let reason = if calls { FinishReason::Stop } else { FinishReason::Refusal(Box::default()) };
    reply.finish = Some(Finish { reason, message: None });
    Ok(reply)
}

fn bounded(usage: Usage) -> Usage {
    Usage {
        input: usage.input.min(MAX_TOKENS),
        output: usage.output.min(MAX_TOKENS),
        cached: usage.cached.min(MAX_TOKENS),
        reasoning: usage.reasoning.min(MAX_TOKENS),
        tool_input: usage.tool_input.min(MAX_TOKENS),
        total: usage.total.min(MAX_TOKENS),
        ..usage
    }
}

impl ModelClient for RecordedModel {
    fn resolve(&self, name: &str) -> ModelInfo {
        ModelInfo {
            context_window: WINDOW,
            compact: Some(false),
            ..ModelInfo::unknown(name, ProviderId::GEMINI, Dialect::GEMINI)
        }
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        Box::new(RecordedReply(Some(Box::new((self.clone(), request)))))
    }

    fn generate(&self, _: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        let error = ModelError::new(ModelErrorKind::Script, None, "not part of a replay".to_owned());
        Box::pin(std::future::ready(Err(error)))
    }

    fn count_tokens(&self, _: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(std::future::ready(Ok(0)))
    }
}

/// One reply, which is looked for when it is first asked for.
struct RecordedReply(Option<Box<(RecordedModel, ModelRequest)>>);

impl ReplyStream for RecordedReply {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(async move {
            let (model, request) = *self.0.take()?;
            Some(model.reply(request).await.map(ReplyEvent::Chunk))
        })
    }
}
