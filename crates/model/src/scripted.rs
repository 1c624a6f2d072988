//! Replies from a file instead of a model, for tests and demonstrations.
//!
//! The format is upstream's: one JSON object `{"method": …, "response": …}` on each line.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pollux_domain::BoxFuture;
use pollux_domain::model::{
    GenerationSettings, ModelClient, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ReplyChunk,
    ReplyEvent, ReplyStream,
};
use pollux_domain::sync::Locked as _;
use serde_json::{Value, json};

use crate::catalogue::Catalogue;
use crate::gemini::wire::GenerateBody;
use crate::gemini::{reply, words};

pub(crate) const STREAM: &str = "generateContentStream";
pub(crate) const UNARY: &str = "generateContent";
pub(crate) const COUNT: &str = "countTokens";

/// How calls find their lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// The lines are used in order; a call that does not fit its line fails.
    Strict,
    /// A call takes the first line left that fits it.
    NonStrict,
}

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("could not read scripted responses from `{}`", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("line {line} of `{}` is not valid JSON", path.display())]
    NotJson { path: PathBuf, line: usize, source: serde_json::Error },
    #[error("line {line} of `{}` needs a `method` and a `response`", path.display())]
    Shape { path: PathBuf, line: usize },
}

/// A model that says what a file says. Clones share one script.
#[derive(Clone)]
pub struct ScriptedClient {
    script: Arc<Script>,
    catalogue: Arc<Catalogue>,
}

struct Script {
    lines: Mutex<VecDeque<Line>>,
    strictness: Strictness,
}

struct Line {
    method: String,
    response: Value,
}

impl ScriptedClient {
    /// Reads a script.
    pub fn from_file(
        path: &Path,
        strictness: Strictness,
        catalogue: Arc<Catalogue>,
    ) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path, strictness, catalogue)
    }

    /// Takes a script that is at hand.
    pub fn from_text(
        text: &str,
        strictness: Strictness,
        catalogue: Arc<Catalogue>,
    ) -> Result<Self, ScriptError> {
        Self::parse(text, Path::new("(text)"), strictness, catalogue)
    }

    fn parse(
        text: &str,
        path: &Path,
        strictness: Strictness,
        catalogue: Arc<Catalogue>,
    ) -> Result<Self, ScriptError> {
        let lines = text
            .trim_start_matches('\u{feff}')
            .lines()
            .enumerate()
            .filter(|(_, text)| !text.trim().is_empty())
            .map(|(index, text)| line(text, path, index + 1))
            .collect::<Result<_, _>>()?;
        let script = Arc::new(Script { lines: Mutex::new(lines), strictness });
        Ok(Self { script, catalogue })
    }

    /// The next line for a method. A line that does not fit is used up all the same.
    fn take(&self, method: &str, request: &ModelRequest) -> Result<Value, ModelError> {
        let mut lines = self.script.lines.locked();
        let next = match self.script.strictness {
            Strictness::Strict => lines.pop_front(),
            Strictness::NonStrict => {
                let at = lines.iter().position(|line| line.method == method);
                at.and_then(|at| lines.remove(at))
            }
        };
        drop(lines);
        match next {
            Some(line) if line.method == method => Ok(line.response),
            Some(line) => Err(script_error(format!(
                "Unexpected response type, next response was for {} but expected {method}",
                line.method
            ))),
            None => Err(script_error(format!(
                "No more mock responses for {method}, got request:\n{}",
                self.describe(request)
            ))),
        }
    }

    /// The request as it would have been sent.
    fn describe(&self, request: &ModelRequest) -> Value {
        let resolved = words::plan(&self.catalogue, request);
        let nested_media = self.catalogue.info(&request.model).caps.media_in_results;
        let body = GenerateBody::new(request, resolved.settings, nested_media);
        let mut config = serde_json::to_value(body).unwrap_or_default();
        let contents = config.as_object_mut().and_then(|fields| fields.shift_remove("contents"));
        json!({"model": resolved.id, "contents": contents, "config": config})
    }
}

fn line(text: &str, path: &Path, number: usize) -> Result<Line, ScriptError> {
    let mut value: Value = serde_json::from_str(text).map_err(|source| ScriptError::NotJson {
        path: path.to_owned(),
        line: number,
        source,
    })?;
    let method = value.get("method").and_then(Value::as_str).map(str::to_owned);
    match (method, value.get_mut("response").map(Value::take)) {
        (Some(method), Some(response)) => Ok(Line { method, response }),
        _ => Err(ScriptError::Shape { path: path.to_owned(), line: number }),
    }
}

fn script_error(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Script, None, message)
}

impl ModelClient for ScriptedClient {
    fn resolve(&self, name: &str) -> ModelInfo {
        self.catalogue.info(name)
    }

    fn settings(&self, request: &ModelRequest) -> GenerationSettings {
        words::settings(&self.catalogue, request)
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        Box::new(ScriptedStream::Waiting(Box::new((self.clone(), request))))
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(async move {
            let response = self.take(UNARY, &request)?;
            reply::read(response).map_err(|failure| failure.error)
        })
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move {
            let response = self.take(COUNT, &request)?;
            reply::total_tokens(&response)
                .ok_or_else(|| script_error(format!("A {COUNT} response has no totalTokens: {response}")))
        })
    }
}

/// The chunks of one line, one by one. The line is taken at the first `next`.
enum ScriptedStream {
    Waiting(Box<(ScriptedClient, ModelRequest)>),
    Telling(std::vec::IntoIter<Value>),
}

impl ScriptedStream {
    fn advance(&mut self) -> Option<Result<ReplyEvent, ModelError>> {
        loop {
            match self {
                Self::Waiting(asked) => {
                    let taken = asked.0.take(STREAM, &asked.1);
                    *self = Self::Telling(Vec::new().into_iter());
                    match taken {
                        Ok(Value::Array(chunks)) => *self = Self::Telling(chunks.into_iter()),
                        Ok(_) => {
                            let message = format!("A {STREAM} response must be an array of chunks");
                            return Some(Err(script_error(message)));
                        }
                        Err(error) => return Some(Err(error)),
                    }
                }
                Self::Telling(chunks) => {
                    let read = reply::read(chunks.next()?);
                    if read.is_err() {
                        *self = Self::Telling(Vec::new().into_iter());
                    }
                    return Some(read.map(ReplyEvent::Chunk).map_err(|failure| failure.error));
                }
            }
        }
    }
}

impl ReplyStream for ScriptedStream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(async { self.advance() })
    }
}
