//! Assembles a reply from chunks and validates it.

use std::sync::Arc;

use pollux_domain::content::{Body, Part};
use pollux_domain::event::Thought;
use pollux_domain::model::{Citation, Finish, FinishReason, Origin, ReplyChunk, Usage};
use pollux_domain::time::Timestamp;

/// The reply of one attempt so far.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// All parts in order, except reasoning that is not sent back; adjacent plain texts are merged.
    pub(crate) parts: Vec<Part>,
    pub(crate) thoughts: Vec<(Thought, Timestamp)>,
    pub(crate) usage: Option<Usage>,
    pub(crate) finish: Option<Finish>,
    pub(crate) model_version: Option<String>,
    pub(crate) origin: Option<Arc<Origin>>,
    pub(crate) blocked: Option<String>,
    pub(crate) citations: Vec<Citation>,
}

/// An unusable reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Upstream's word for it.
    pub(crate) kind: &'static str,
    /// The message for the user.
    pub(crate) message: String,
}

impl Fault {
    fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Whether a nudge may help.
    pub(crate) fn wants_nudge(&self) -> bool {
        matches!(self.kind, "THINKING_ONLY_RESPONSE" | "NO_RESPONSE_TEXT")
    }
}

impl Reply {
    /// Adds the metadata of a chunk.
    pub(crate) fn absorb(&mut self, chunk: &ReplyChunk) {
        if chunk.usage.is_some() {
            self.usage = chunk.usage;
        }
        if chunk.finish.is_some() {
            self.finish.clone_from(&chunk.finish);
        }
        if chunk.origin.is_some() {
            self.origin.clone_from(&chunk.origin);
        }
        if let Some(version) = chunk.gemini_version() {
            self.model_version = Some(version.to_owned());
        }
        if chunk.blocked.is_some() {
            self.blocked.clone_from(&chunk.blocked);
        }
        self.citations.extend(chunk.citations.iter().cloned());
    }

    /// Adds a part; thoughts are the caller's business.
    pub(crate) fn push(&mut self, part: Part) {
        if let (Body::Text(new), Some(last)) = (&part.body, self.parts.last_mut())
            && let Body::Text(text) = &mut last.body
            && last.extra.is_empty()
            && part.extra.is_empty()
            && (last.seal.is_none() || part.seal.is_none())
        {
            text.push_str(new);
            last.seal = last.seal.take().or(part.seal);
            return;
        }
        if !part.is_blank() {
            self.parts.push(part);
        }
    }

    /// The spoken text.
    pub(crate) fn text(&self) -> String {
        self.parts.iter().filter_map(Part::spoken_text).collect()
    }

    /// What the record says next to its list of calls. Where a provider wants its turns back part by part, the calls
    /// stand in it as well.
    pub(crate) fn recorded_parts(&self) -> Vec<Part> {
        let in_place = self.origin.as_ref().is_some_and(|origin| !origin.is_implied());
        self.parts.iter().filter(|part| in_place || part.as_call().is_none()).cloned().collect()
    }

    /// Whether the reply ended because the window was full before anything was said.
    pub(crate) fn met_full_window(&self) -> bool {
        self.finish.as_ref().is_some_and(|finish| finish.reason == FinishReason::ContextWindow)
    }

    fn has_calls(&self) -> bool {
        self.parts.iter().any(|part| part.as_call().is_some())
    }

    /// Whether the reply can be used. `after_tools` is true when it answers function responses.
    ///
    /// Unlike upstream, a stream that just stops is never taken for an answer, calls or not: what was
    /// cut off may have been the most important part.
    pub(crate) fn judge(&self, after_tools: bool) -> Result<(), Fault> {
        if let Some(reason) = &self.blocked
            && self.parts.is_empty()
        {
            return Err(Fault::new("PROMPT_BLOCKED", format!("The model refused the prompt: {reason}.")));
        }
        let Some(finish) = &self.finish else {
            return Err(Fault::new("NO_FINISH_REASON", "The reply ended prematurely."));
        };
        let detail = finish.message.as_deref().map(|text| format!(" {text}")).unwrap_or_default();
        match finish.reason {
            FinishReason::MalformedFunctionCall => {
                return Err(Fault::new(
                    "MALFORMED_FUNCTION_CALL",
                    format!("The model's tool call could not be read.{detail}"),
                ));
            }
            FinishReason::UnexpectedToolCall => {
                return Err(Fault::new(
                    "UNEXPECTED_TOOL_CALL",
                    format!("The model called a tool that was not offered.{detail}"),
                ));
            }
            _ => {}
        }
        if self.has_calls() || !is_empty_text(&self.text()) || self.has_other_payload() {
            return Ok(());
        }
        match finish.reason {
            FinishReason::MaxTokens | FinishReason::ContextWindow => Err(Fault::new(
                "MAX_TOKENS_EXCEEDED",
                "The model reached its output limit before producing any text.",
            )),
            // The model's own decision is an answer; asking again would not change it.
            FinishReason::Refusal(_) => Ok(()),
            FinishReason::Safety | FinishReason::ContentFilter => {
                Err(Fault::new("SAFETY_BLOCKED", "The reply was withheld by the safety filter."))
            }
            FinishReason::Recitation => {
                Err(Fault::new("RECITATION_BLOCKED", "The reply was withheld because it recited a source."))
            }
            FinishReason::Unspecified | FinishReason::Paused => {
                Err(Fault::new("OTHER_BLOCKED", "The model returned neither a reply nor a reason."))
            }
            _ if !self.thoughts.is_empty() => {
                Err(Fault::new("THINKING_ONLY_RESPONSE", "The model returned thoughts but no answer."))
            }
            _ if after_tools => Ok(()),
            _ => Err(Fault::new("NO_RESPONSE_TEXT", "The model returned an empty reply.")),
        }
    }

    fn has_other_payload(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part.body, Body::InlineData(_) | Body::FileData { .. } | Body::Other(_)))
    }
}

/// Invisible characters and HTML comments do not count as an answer.
fn is_empty_text(text: &str) -> bool {
    let mut rest = text;
    let mut visible = String::new();
    while let Some((before, after)) = rest.split_once("<!--") {
        visible.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    visible.push_str(rest);
    visible.chars().all(|c| c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::content::{FunctionCall, Seal};

    fn reply(parts: Vec<Part>, thought: bool, finish: Option<FinishReason>) -> Reply {
        let mut reply = Reply::default();
        for part in parts {
            reply.push(part);
        }
        if thought {
            reply.thoughts.push((Thought::parse("hm"), Timestamp::from_millis(0)));
        }
        reply.finish = finish.map(|reason| Finish { reason, message: None });
        reply
    }

    fn call() -> Part {
        Part::call(FunctionCall::new(None, "glob", Default::default()))
    }

    #[test]
    fn each_kind_of_useless_reply_is_named() {
        let text = |text: &str| vec![Part::text(text)];
        let cases: Vec<(Reply, bool, Option<&str>)> = vec![
            (reply(text("hi"), false, Some(FinishReason::Stop)), false, None),
            (reply(text("hi"), false, None), false, Some("NO_FINISH_REASON")),
            (reply(vec![call()], false, None), true, Some("NO_FINISH_REASON")),
            (reply(vec![call()], false, Some(FinishReason::Stop)), false, None),
            (
                reply(vec![], false, Some(FinishReason::MalformedFunctionCall)),
                false,
                Some("MALFORMED_FUNCTION_CALL"),
            ),
            (reply(vec![], false, Some(FinishReason::MaxTokens)), false, Some("MAX_TOKENS_EXCEEDED")),
            (reply(text("cut"), false, Some(FinishReason::MaxTokens)), false, None),
            (reply(vec![], false, Some(FinishReason::Safety)), false, Some("SAFETY_BLOCKED")),
            (reply(vec![], true, Some(FinishReason::Stop)), true, Some("THINKING_ONLY_RESPONSE")),
            (
                reply(text(" \u{200b}<!-- x -->"), false, Some(FinishReason::Stop)),
                false,
                Some("NO_RESPONSE_TEXT"),
            ),
            (reply(vec![], false, Some(FinishReason::Stop)), true, None),
        ];
        for (index, (reply, after_tools, expected)) in cases.into_iter().enumerate() {
            assert_eq!(reply.judge(after_tools).err().map(|fault| fault.kind), expected, "case {index}");
        }
    }

    #[test]
    fn adjacent_texts_become_one_part_and_signatures_stay() {
        let mut signed = Part::text("b");
        signed.seal = Some(Seal::gemini("s"));
        let found = reply(vec![Part::text("a"), signed, call(), Part::text("c")], false, None);
        assert_eq!(found.parts.len(), 3);
        assert_eq!(found.parts.first().unwrap().signature(), Some("s"));
        assert_eq!(found.text(), "abc");
    }
}
