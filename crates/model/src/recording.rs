//! Keeps the replies of a model in a file that [`scripted`](crate::scripted) can play again.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::files::{self, FileError, Mode};
use pollux_domain::BoxFuture;
use pollux_domain::model::{
    GenerationSettings, ModelClient, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ReplyChunk,
    ReplyEvent, ReplyStream,
};
use serde_json::{Value, json};

use crate::gemini::reply;
use crate::scripted::{COUNT, STREAM, UNARY};

/// The line of a script that replies with this chunk. Unlike a recording, it names the model that answered.
pub fn script_line(chunk: &ReplyChunk) -> Value {
    let mut response = reply::to_json(chunk);
    if let (Some(version), Value::Object(fields)) = (&chunk.model_version, &mut response) {
        fields.insert("modelVersion".into(), json!(version));
    }
    json!({"method": STREAM, "response": [response]})
}

/// The file cannot be written to.
#[derive(Debug, thiserror::Error)]
#[error("could not open the file for recorded responses `{}`", path.display())]
pub struct RecordError {
    path: PathBuf,
    source: std::io::Error,
}

/// A model whose replies are appended to a file.
pub struct RecordingClient {
    inner: Arc<dyn ModelClient>,
    file: Arc<RecordFile>,
}

struct RecordFile {
    path: PathBuf,
    file: File,
}

impl RecordingClient {
    /// Records what `inner` says; the file is made if it is missing and kept if it is not.
    pub fn wrap(inner: Arc<dyn ModelClient>, path: &Path) -> Result<Self, RecordError> {
        let opened = files::open_append(path, Mode::Shared).map_err(FileError::into_source);
        let file = opened.map_err(|source| RecordError { path: path.to_owned(), source })?;
        Ok(Self { inner, file: Arc::new(RecordFile { path: path.to_owned(), file }) })
    }
}

impl RecordFile {
    /// One write for the whole line, so that lines of parallel calls do not mix.
    fn append(&self, method: &str, response: &Value) -> Result<(), ModelError> {
        let line = format!("{}\n", json!({"method": method, "response": response}));
        (&self.file).write_all(line.as_bytes()).map_err(|error| {
            let message = format!("could not record a response in `{}`: {error}", self.path.display());
            ModelError::new(ModelErrorKind::Script, None, message)
        })
    }
}

impl ModelClient for RecordingClient {
    fn resolve(&self, name: &str) -> ModelInfo {
        self.inner.resolve(name)
    }

    fn recipient(&self, request: &ModelRequest) -> ModelInfo {
        self.inner.recipient(request)
    }

    fn check(&self, name: &str) -> Result<(), ModelError> {
        self.inner.check(name)
    }

    fn select(&self, name: &str) -> Result<(), ModelError> {
        self.inner.select(name)
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        self.inner.settings(request)
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        let inner = self.inner.stream(request);
        Box::new(RecordingStream { inner, file: Arc::clone(&self.file), chunks: Some(Vec::new()) })
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(async move {
            let chunk = self.inner.generate(request).await?;
            self.file.append(UNARY, &reply::to_json(&chunk))?;
            Ok(chunk)
        })
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move {
            let total = self.inner.count_tokens(request).await?;
            self.file.append(COUNT, &json!({"totalTokens": total}))?;
            Ok(total)
        })
    }

    fn list_models(&self) -> BoxFuture<'_, Result<Vec<ModelInfo>, ModelError>> {
        self.inner.list_models()
    }
}

struct RecordingStream {
    inner: Box<dyn ReplyStream>,
    file: Arc<RecordFile>,
    /// `None` once the line is written or the stream has failed.
    chunks: Option<Vec<Value>>,
}

impl ReplyStream for RecordingStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(async move {
            let event = self.inner.next().await;
            match &event {
                Some(Ok(ReplyEvent::Chunk(chunk))) => {
                    if let Some(chunks) = &mut self.chunks {
                        chunks.push(reply::to_json(chunk));
                    }
                }
                Some(Ok(ReplyEvent::Waiting(_) | ReplyEvent::CallProgress { .. } | ReplyEvent::Alive)) => {}
                Some(Err(_)) => self.chunks = None,
                None => {
                    if let Some(chunks) = self.chunks.take()
                        && let Err(error) = self.file.append(STREAM, &Value::Array(chunks))
                    {
                        return Some(Err(error));
                    }
                }
            }
            event
        })
    }
}
