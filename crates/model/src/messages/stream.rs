//! A streamed reply, over as many requests as the server takes for one turn.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::content::{Body, Content, Part};
use pollux_domain::model::{
    FinishReason, ModelError, ModelRequest, Origin, ReplyChunk, ReplyEvent, ReplyStream, Usage,
};

use super::exchange::MessagesExchange;
use super::{MAX_PAUSES, MessagesClient};

/// A reply under way. A turn that the server pauses is sent back to it and goes on.
pub(super) struct MessagesStream {
    client: MessagesClient,
    request: Arc<ModelRequest>,
    inner: Box<dyn ReplyStream>,
    /// What the paused turn has said so far.
    said: ReplyChunk,
    /// What the requests before this one cost.
    spent: Option<Usage>,
    pauses: u32,
    paused: bool,
}

impl MessagesStream {
    pub(super) fn new(client: MessagesClient, request: ModelRequest) -> Self {
        let request = Arc::new(request);
        let inner = open(&client, &request, false);
        Self { client, request, inner, said: ReplyChunk::default(), spent: None, pauses: 0, paused: false }
    }

    async fn advance(&mut self) -> Option<Result<ReplyEvent, ModelError>> {
        loop {
            match self.inner.next().await {
                Some(Ok(ReplyEvent::Chunk(chunk))) => {
                    if let Some(chunk) = self.take(chunk) {
                        return Some(Ok(ReplyEvent::Chunk(chunk)));
                    }
                }
                None if std::mem::take(&mut self.paused) => self.go_on(),
                other => return other,
            }
        }
    }

    /// Keeps what a continuation needs; `None` if nothing is left to tell.
    fn take(&mut self, mut chunk: ReplyChunk) -> Option<ReplyChunk> {
        let paused = chunk.finish.as_ref().is_some_and(|finish| finish.reason == FinishReason::Paused);
        if paused && self.pauses < MAX_PAUSES {
            chunk.finish = None;
            self.paused = true;
        }
        remember(&mut self.said, &chunk);
        chunk.usage = chunk.usage.map(|usage| sum(self.spent, usage));
        let tells = !chunk.parts.is_empty() || chunk.usage.is_some() || chunk.finish.is_some();
        tells.then_some(chunk)
    }

    fn go_on(&mut self) {
        self.pauses += 1;
        self.spent = self.said.usage.take().map(|usage| sum(self.spent, usage)).or(self.spent);
        self.request = Arc::new(continued(&self.request, &mut self.said));
        self.inner = open(&self.client, &self.request, true);
    }
}

impl ReplyStream for MessagesStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(self.advance())
    }
}

/// The whole reply at once.
pub(super) async fn whole(client: MessagesClient, request: ModelRequest) -> Result<ReplyChunk, ModelError> {
    let mut request = Arc::new(request);
    let mut reply = ReplyChunk::default();
    let mut spent = None;
    for pauses in 0..=MAX_PAUSES {
        let exchange = MessagesExchange::new(client.clone(), Arc::clone(&request), pauses > 0);
        let mut chunk = client.server().collect(exchange, request.role, origin(&client, &request)).await?;
        chunk.usage = chunk.usage.map(|usage| sum(spent, usage));
        spent = chunk.usage.or(spent);
        let mut said = ReplyChunk { parts: chunk.parts.clone(), ..chunk.clone() };
        let parts = std::mem::take(&mut reply.parts);
        reply = ReplyChunk { parts, ..chunk };
        for part in std::mem::take(&mut said.parts) {
            push(&mut reply.parts, &part);
            push(&mut said.parts, &part);
        }
        if reply.finish.as_ref().is_none_or(|finish| finish.reason != FinishReason::Paused) {
            break;
        }
        request = Arc::new(continued(&request, &mut said));
    }
    Ok(reply)
}

fn open(client: &MessagesClient, request: &Arc<ModelRequest>, continues: bool) -> Box<dyn ReplyStream> {
    let exchange = MessagesExchange::new(client.clone(), Arc::clone(request), continues);
    client.server().stream(exchange, request.role, origin(client, request))
}

/// Who answers.
fn origin(client: &MessagesClient, request: &ModelRequest) -> Origin {
    client.server().origin(&client.server().info(&request.model).id)
}

/// The request with what the model has said so far behind it.
fn continued(request: &ModelRequest, said: &mut ReplyChunk) -> ModelRequest {
    let parts = std::mem::take(&mut said.parts);
    let turn = Content { origin: said.origin.clone(), ..Content::model(parts) };
    let mut request = request.clone();
    request.contents.push(Arc::new(turn));
    request
}

fn remember(said: &mut ReplyChunk, chunk: &ReplyChunk) {
    for part in &chunk.parts {
        push(&mut said.parts, part);
    }
    said.origin = chunk.origin.clone().or_else(|| said.origin.take());
    said.usage = chunk.usage.or(said.usage);
}

/// Texts side by side are one block on the wire.
fn push(parts: &mut Vec<Part>, part: &Part) {
    match (parts.last_mut().map(|last| &mut last.body), &part.body) {
        (Some(Body::Text(text)), Body::Text(more)) => text.push_str(more),
        _ => parts.push(part.clone()),
    }
}

fn sum(spent: Option<Usage>, usage: Usage) -> Usage {
    let mut sum = spent.unwrap_or_default();
    sum.add(usage);
    sum
}
