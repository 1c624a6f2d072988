//! Tools for models that have none: a client around another one that explains tools in the system prompt and reads
//! calls out of the text.
//!
//! [`ToolStyle::Prompt`] does so always. [`ToolStyle::Native`] leaves tools to the client inside until the server says
//! that it cannot, and takes calls out of the text that the server should have told apart.

mod calls;
mod extract;
mod lenient;
mod rewrite;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use pollux_domain::BoxFuture;
use pollux_domain::content::{Body, Part};
use pollux_domain::model::{
    Finish, FinishReason, GenerationSettings, ModelClient, ModelError, ModelInfo, ModelRequest, ReplyChunk,
    ReplyEvent, ReplyStream,
};
use pollux_domain::sync::Locked;
use pollux_domain::tool::ToolSpec;

use calls::{ADVICE, MAX_INVALID};
use extract::{Extractor, Piece};

/// Errors of servers that take no tools, or none without another setting of theirs.
const NO_TOOLS: &[&str] = &["--enable-auto-tool-choice", "does not support tools", "tools are not supported"];

/// Who knows tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolStyle {
    /// The server, until it says that it does not.
    Native,
    /// Nobody but the prompt.
    Prompt,
}

/// A client whose models can call tools.
pub struct PromptTools {
    inner: Arc<dyn ModelClient>,
    style: ToolStyle,
    /// Models whose server refused tools.
    without: Arc<Mutex<HashSet<String>>>,
}

impl PromptTools {
    pub fn new(inner: Arc<dyn ModelClient>, style: ToolStyle) -> Self {
        Self { inner, style, without: Arc::default() }
    }

    /// Whether tools are explained in the prompt.
    fn prompts(&self, model: &str) -> bool {
        self.style == ToolStyle::Prompt || self.without.locked().contains(model)
    }
}

impl ModelClient for PromptTools {
    fn resolve(&self, name: &str) -> ModelInfo {
        let mut info = self.inner.resolve(name);
        info.caps.tools = true;
        if self.prompts(name) {
            info.caps.parallel = false;
        }
        info
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        self.inner.settings(request)
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        if request.tools.is_empty() {
            return self.inner.stream(request);
        }
        let reading = Reading::new(&request, self.prompts(&request.model));
        Box::new(PromptStream {
            client: Arc::clone(&self.inner),
            without: Arc::clone(&self.without),
            stream: self.inner.stream(reading.request(request.clone())),
            request,
            reading,
            events: VecDeque::new(),
            begun: false,
        })
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(async move {
            if request.tools.is_empty() {
                return self.inner.generate(request).await;
            }
            let mut reading = Reading::new(&request, self.prompts(&request.model));
            let chunk = match self.inner.generate(reading.request(request.clone())).await {
                Err(error) if !reading.prompted && refuses_tools(&error) => {
                    self.without.locked().insert(request.model.clone());
                    reading = Reading::new(&request, true);
                    self.inner.generate(reading.request(request)).await?
                }
                answer => answer?,
            };
            let finished = chunk.finish.is_some();
            let mut whole = reading.chunk(chunk);
            if !finished {
                whole.parts.extend(reading.rest());
            }
            Ok(whole)
        })
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        let request = Reading::new(&request, self.prompts(&request.model)).request(request);
        self.inner.count_tokens(request)
    }

    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        self.inner.list_models()
    }
}

fn refuses_tools(error: &ModelError) -> bool {
    NO_TOOLS.iter().any(|text| error.message.contains(text))
}

/// How one reply is read.
struct Reading {
    prompted: bool,
    tools: Arc<[Arc<ToolSpec>]>,
    extractor: Extractor,
    /// Invalid calls in the replies before this one.
    invalid_before: usize,
    any_call: bool,
    gave_up: bool,
}

impl Reading {
    fn new(request: &ModelRequest, prompted: bool) -> Self {
        let extractor =
            if prompted { Extractor::told(calls::is_call) } else { Extractor::leaked(calls::is_call) };
        Self {
            prompted,
            tools: Arc::clone(&request.tools),
            extractor,
            invalid_before: if prompted { calls::invalid_in_a_row(&request.contents) } else { 0 },
            any_call: false,
            gave_up: false,
        }
    }

    fn request(&self, request: ModelRequest) -> ModelRequest {
        if self.prompted { rewrite::rewrite(request) } else { request }
    }

    /// The chunk with calls in place of what describes them.
    fn chunk(&mut self, mut chunk: ReplyChunk) -> ReplyChunk {
        let mut parts = Vec::with_capacity(chunk.parts.len());
        for part in std::mem::take(&mut chunk.parts) {
            match &part.body {
                Body::Text(text) if part.seal.is_none() => {
                    let pieces = self.extractor.push(text);
                    self.read(pieces, &mut parts);
                }
                Body::Call(_) => {
                    self.any_call = true;
                    parts.push(part);
                }
                _ => parts.push(part),
            }
        }
        if chunk.finish.is_some() {
            parts.extend(self.rest());
        }
        chunk.parts = parts;
        if let Some(finish) = &mut chunk.finish {
            self.name_end(finish);
        }
        chunk
    }

    fn name_end(&self, finish: &mut Finish) {
        if self.gave_up {
            finish.reason = FinishReason::Stop;
        } else if self.any_call && finish.reason == FinishReason::Stop {
            finish.reason = FinishReason::ToolCalls;
        }
    }

    /// What was held back.
    fn rest(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        let pieces = self.extractor.end();
        self.read(pieces, &mut parts);
        parts
    }

    fn read(&mut self, pieces: Vec<Piece>, parts: &mut Vec<Part>) {
        for piece in pieces {
            match piece {
                _ if self.gave_up => {}
                Piece::Text(text) => parts.push(Part::text(text)),
                Piece::Block { inside, written } => {
                    let found = calls::read(&inside, &self.tools);
                    let valid = found.iter().all(|call| call.bad_args.is_none());
                    if !valid && !self.prompted {
                        // The model may as well have written about tools.
                        parts.push(Part::text(written));
                        continue;
                    }
                    if !valid && self.invalid_before + 1 >= MAX_INVALID {
                        self.gave_up = true;
                        parts.push(Part::text(ADVICE));
                        continue;
                    }
                    self.any_call = true;
                    parts.extend(found.into_iter().map(Part::call));
                }
            }
        }
    }
}

/// A reply whose text may hold calls.
struct PromptStream {
    client: Arc<dyn ModelClient>,
    without: Arc<Mutex<HashSet<String>>>,
    request: ModelRequest,
    stream: Box<dyn ReplyStream>,
    reading: Reading,
    events: VecDeque<ReplyEvent>,
    begun: bool,
}

impl PromptStream {
    async fn advance(&mut self) -> Option<Result<ReplyEvent, ModelError>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Ok(event));
            }
            match self.stream.next().await {
                Some(Ok(ReplyEvent::Chunk(chunk))) => {
                    self.begun = true;
                    let chunk = self.reading.chunk(chunk);
                    let is_empty = chunk.parts.is_empty()
                        && chunk.finish.is_none()
                        && chunk.usage.is_none()
                        && chunk.blocked.is_none()
                        && chunk.grounding.is_none()
                        && chunk.citations.is_empty();
                    // Text that is held back still shows that the model writes.
                    return Some(Ok(if is_empty { ReplyEvent::Alive } else { ReplyEvent::Chunk(chunk) }));
                }
                Some(Err(error)) if !self.begun && !self.reading.prompted && refuses_tools(&error) => {
                    self.without.locked().insert(self.request.model.clone());
                    self.reading = Reading::new(&self.request, true);
                    self.stream = self.client.stream(self.reading.request(self.request.clone()));
                }
                None => {
                    let parts = self.reading.rest();
                    if parts.is_empty() {
                        return None;
                    }
                    self.events.push_back(ReplyEvent::Chunk(ReplyChunk { parts, ..ReplyChunk::default() }));
                }
                other => return other,
            }
        }
    }
}

impl ReplyStream for PromptStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(self.advance())
    }
}
