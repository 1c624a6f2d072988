//! How one reply is read: text for people, and calls.

use std::sync::Arc;

use pollux_domain::content::{Body, Part};
use pollux_domain::model::{Finish, FinishReason, ModelRequest, ReplyChunk};
use pollux_domain::tool::ToolSpec;

use super::calls::{self, ADVICE, MAX_INVALID};
use super::extract::{Extractor, Piece};
use super::levels::Level;
use super::rewrite;

/// How one reply is read.
pub(super) struct Reading {
    pub(super) prompted: bool,
    tools: Arc<[Arc<ToolSpec>]>,
    extractor: Extractor,
    /// Invalid calls in the replies before this one.
    invalid_before: usize,
    any_call: bool,
    gave_up: bool,
    /// Where a call begins, the rest is asked for under a grammar.
    grammar: bool,
}

impl Reading {
    pub(super) fn new(request: &ModelRequest, level: Level) -> Self {
        let prompted = matches!(level, Level::Prompt { .. });
        let extractor =
            if prompted { Extractor::told(calls::is_call) } else { Extractor::leaked(calls::is_call) };
        Self {
            prompted,
            tools: if level == Level::None { Arc::new([]) } else { Arc::clone(&request.tools) },
            extractor,
            invalid_before: if prompted { calls::invalid_in_a_row(&request.contents) } else { 0 },
            any_call: false,
            gave_up: false,
            grammar: level == Level::Prompt { grammar: true },
        }
    }

    pub(super) fn request(&self, request: ModelRequest) -> ModelRequest {
        match (self.prompted, self.tools.is_empty()) {
            (true, _) => rewrite::rewrite(request),
            // Earlier calls of the conversation are told in words, too.
            (false, true) => rewrite::rewrite(ModelRequest { tools: Arc::new([]), ..request }),
            (false, false) => request,
        }
    }

    /// The chunk with calls in place of what describes them.
    pub(super) fn chunk(&mut self, mut chunk: ReplyChunk) -> ReplyChunk {
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

    /// Whether a call begins whose rest should be asked for under a grammar.
    pub(super) fn wants_grammar(&self) -> bool {
        self.grammar && !self.gave_up && self.extractor.is_inside()
    }

    /// Takes what was written under the grammar in place of the block that began.
    pub(super) fn finish_with(&mut self, text: &str) -> Vec<Part> {
        self.extractor.reset();
        let mut parts = Vec::new();
        let block = Piece::Block { inside: text.trim().to_owned(), written: text.to_owned() };
        self.read(vec![block], &mut parts);
        parts
    }

    pub(super) fn name_end(&self, finish: &mut Finish) {
        if self.gave_up {
            finish.reason = FinishReason::Stop;
        } else if self.any_call && finish.reason == FinishReason::Stop {
            finish.reason = FinishReason::ToolCalls;
        }
    }

    /// What was held back.
    pub(super) fn rest(&mut self) -> Vec<Part> {
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
