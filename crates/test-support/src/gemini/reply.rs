//! The replies of the scripted server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

/// A scripted reply; build it with [`reply`] or [`Reply::error`].
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
    pub(crate) delivery: Delivery,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// One event for each chunk.
    Chunks(Vec<Chunk>),
    /// Sent unchanged.
    Raw(Vec<u8>),
    /// The answer to `countTokens`.
    Count(u64),
    /// The request is taken and nothing comes back.
    Never,
}

#[derive(Debug, Clone)]
pub(crate) enum Chunk {
    Json(Value),
    /// Bytes put into the stream between events.
    Bytes(Vec<u8>),
}

/// How the bytes leave.
#[derive(Debug, Clone, Default)]
pub(crate) struct Delivery {
    /// Sizes of the pieces, used in turn; one piece for each chunk if empty.
    pub(crate) split: Vec<usize>,
    /// Pause before the status line.
    pub(crate) before: Duration,
    /// Pause between pieces.
    pub(crate) between: Duration,
    /// After so many pieces nothing is sent until the file exists.
    pub(crate) hold: Option<(usize, PathBuf)>,
    pub(crate) cut: Option<Cut>,
    /// No length and no chunked encoding: the end of the connection ends the body.
    pub(crate) until_close: bool,
    pub(crate) no_default_finish: bool,
}

/// Where and how a reply stops too early.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// The number of complete chunks to send.
    pub(crate) after: usize,
    /// Then half of the next one, too.
    pub(crate) half_of_next: bool,
    pub(crate) how: CutHow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutHow {
    Close,
    Reset,
    /// The body ends normally although the script has more chunks.
    EndBody,
    /// The connection stays open and silent.
    Stall,
}

/// Starts a reply. Each of `text`, `thought` and `call` adds one chunk; the last chunk gets `finishReason:
/// STOP` unless the script sets another.
pub fn reply() -> Reply {
    Reply { status: 200, headers: Vec::new(), body: Body::Chunks(Vec::new()), delivery: Delivery::default() }
}

impl Reply {
    /// An API error in the usual JSON form.
    pub fn error(status: u16, word: &str, message: &str) -> Self {
        Self::http(status, json!({"error": {"code": status, "message": message, "status": word}}).to_string())
            .header("Content-Type", "application/json")
    }

    /// Any status with any body.
    pub fn http(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: Body::Raw(body.into()), ..reply() }
    }

    /// The answer to `countTokens`.
    pub fn count_tokens(total: u64) -> Self {
        Self { body: Body::Count(total), ..reply() }
    }

    /// Takes the request and never answers.
    pub fn never() -> Self {
        Self { body: Body::Never, ..reply() }
    }

    pub(crate) fn is_count(&self) -> bool {
        matches!(self.body, Body::Count(_))
    }

    /// A piece of text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.part(json!({"text": text}))
    }

    /// A piece of reasoning.
    #[must_use]
    pub fn thought(self, text: &str) -> Self {
        self.part(json!({"text": text, "thought": true}))
    }

    /// A call without an id.
    #[must_use]
    pub fn call(self, name: &str, args: Value) -> Self {
        self.part(json!({"functionCall": {"name": name, "args": args}}))
    }

    /// A call with the model's id.
    #[must_use]
    pub fn call_with_id(self, id: &str, name: &str, args: Value) -> Self {
        self.part(json!({"functionCall": {"id": id, "name": name, "args": args}}))
    }

    /// Any part, in a separate chunk.
    #[must_use]
    pub fn part(self, part: Value) -> Self {
        self.chunk(json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}))
    }

    /// Any chunk.
    #[must_use]
    pub fn chunk(self, chunk: Value) -> Self {
        self.push(Chunk::Json(chunk))
    }

    /// Bytes between the events.
    #[must_use]
    pub fn bytes(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.push(Chunk::Bytes(bytes.into()))
    }

    /// Signs the last part.
    #[must_use]
    pub fn signature(mut self, signature: &str) -> Self {
        self.last_chunk()["candidates"][0]["content"]["parts"][0]["thoughtSignature"] = json!(signature);
        self
    }

    /// Ends the last chunk with a reason.
    #[must_use]
    pub fn finish(mut self, reason: &str) -> Self {
        self.last_chunk()["candidates"][0]["finishReason"] = json!(reason);
        self
    }

    /// No finish reason.
    #[must_use]
    pub fn without_finish(mut self) -> Self {
        self.delivery.no_default_finish = true;
        self
    }

    /// Token counts on the last chunk.
    #[must_use]
    pub fn usage(mut self, prompt: u64, candidates: u64) -> Self {
        self.last_chunk()["usageMetadata"] = json!({
            "promptTokenCount": prompt, "candidatesTokenCount": candidates, "totalTokenCount": prompt + candidates
        });
        self
    }

    /// A header of the answer; an own `Content-Type` replaces the usual one.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the body in pieces of these sizes, over and over, whatever the chunks are.
    #[must_use]
    pub fn split(mut self, sizes: impl IntoIterator<Item = usize>) -> Self {
        self.delivery.split = sizes.into_iter().map(|size| size.max(1)).collect();
        self
    }

    /// Waits before it answers.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delivery.before = delay;
        self
    }

    /// Waits between pieces.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.delivery.between = pause;
        self
    }

    /// Falls silent after so many chunks until a file exists; after none, the status line waits too.
    #[must_use]
    pub fn hold(mut self, chunks: usize, file: &Path) -> Self {
        self.delivery.hold = Some((chunks, file.to_owned()));
        self
    }

    /// Closes the connection after so many chunks.
    #[must_use]
    pub fn cut_after(self, chunks: usize) -> Self {
        self.cut(chunks, false, CutHow::Close)
    }

    /// Closes the connection in the middle of the chunk after so many.
    #[must_use]
    pub fn cut_inside(self, chunks: usize) -> Self {
        self.cut(chunks, true, CutHow::Close)
    }

    /// Resets the connection after so many chunks.
    #[must_use]
    pub fn reset_after(self, chunks: usize) -> Self {
        self.cut(chunks, false, CutHow::Reset)
    }

    /// Ends the body in order, but in the middle of the chunk after so many.
    #[must_use]
    pub fn end_inside(self, chunks: usize) -> Self {
        self.cut(chunks, true, CutHow::EndBody)
    }

    /// Falls silent after so many chunks and keeps the connection open.
    #[must_use]
    pub fn stall_after(self, chunks: usize) -> Self {
        self.cut(chunks, false, CutHow::Stall)
    }

    /// Lets the end of the connection end the body, so that a cut looks like a clean end.
    #[must_use]
    pub fn until_close(mut self) -> Self {
        self.delivery.until_close = true;
        self
    }

    fn cut(mut self, after: usize, half_of_next: bool, how: CutHow) -> Self {
        self.delivery.cut = Some(Cut { after, half_of_next, how });
        self
    }

    fn push(mut self, chunk: Chunk) -> Self {
        match &mut self.body {
            Body::Chunks(chunks) => chunks.push(chunk),
            Body::Raw(_) | Body::Count(_) | Body::Never => panic!("this reply has no chunks"),
        }
        self
    }

    /// The last JSON chunk, created if there is none.
    fn last_chunk(&mut self) -> &mut Value {
        let Body::Chunks(chunks) = &mut self.body else { panic!("this reply has no chunks") };
        if !chunks.iter().any(|chunk| matches!(chunk, Chunk::Json(_))) {
            chunks.push(Chunk::Json(json!({"candidates": [{"index": 0}]})));
        }
        chunks
            .iter_mut()
            .rev()
            .find_map(|chunk| match chunk {
                Chunk::Json(value) => Some(value),
                Chunk::Bytes(_) => None,
            })
            .expect("a JSON chunk was just made")
    }

    /// The chunks with the finish reason the script left out.
    pub(crate) fn chunks(&self) -> Vec<Chunk> {
        let mut whole = self.clone();
        let Body::Chunks(chunks) = &whole.body else { return Vec::new() };
        let has_candidate =
            |chunk: &Chunk| matches!(chunk, Chunk::Json(json) if json["candidates"].is_array());
        let finished = chunks.iter().any(|chunk| {
            matches!(chunk, Chunk::Json(json) if json["candidates"][0]["finishReason"].is_string() || json["error"].is_object())
        });
        if !finished && !self.delivery.no_default_finish && chunks.last().is_some_and(has_candidate) {
            whole = whole.finish("STOP");
        }
        match whole.body {
            Body::Chunks(chunks) => chunks,
            Body::Raw(_) | Body::Count(_) | Body::Never => Vec::new(),
        }
    }

    /// The complete reply as one object, for requests that do not stream.
    pub(crate) fn unary(&self) -> Value {
        let mut parts = Vec::new();
        let mut merged = json!({"candidates": [{"content": {"role": "model"}}]});
        for chunk in self.chunks() {
            let Chunk::Json(mut chunk) = chunk else { continue };
            let Some(fields) = chunk.as_object_mut() else { continue };
            if let Some(mut candidates) = fields.remove("candidates") {
                let candidate = candidates[0].take();
                parts.extend(candidate["content"]["parts"].as_array().cloned().unwrap_or_default());
                for (key, value) in candidate.as_object().into_iter().flatten() {
                    if key != "content" {
                        merged["candidates"][0][key] = value.clone();
                    }
                }
            }
            for (key, value) in fields {
                merged[key.as_str()] = value.clone();
            }
        }
        merged["candidates"][0]["content"]["parts"] = Value::Array(parts);
        merged
    }
}
