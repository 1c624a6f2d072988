//! Reasoning as it arrives: in its own field, or inside the text.

use pollux_domain::content::{Body, Part, Seal, SealKind};
use serde_json::Value;

use super::quirks::Echo;

/// A passage that has no blank line is shown at the end of a line from this length on.
const LONG_PASSAGE: usize = 600;

/// A passage without any line is shown from this length on, so that it neither grows nor hides without end.
const MAX_PASSAGE: usize = 8_192;

/// Collects reasoning into passages that people can read.
#[derive(Debug)]
pub(super) struct Reasoning {
    echo: Echo,
    passage: String,
    /// All of it, if it has to go back.
    whole: String,
    details: Vec<Value>,
}

impl Reasoning {
    pub(super) fn new(echo: Echo) -> Self {
        Self { echo, passage: String::new(), whole: String::new(), details: Vec::new() }
    }

    /// Takes a piece and gives the passages that are complete.
    pub(super) fn push(&mut self, piece: &str, parts: &mut Vec<Part>) {
        if self.echo == Echo::Content {
            self.whole.push_str(piece);
        }
        self.passage.push_str(piece);
        let mut end = self.passage.rfind("\n\n").map(|at| at + 2);
        if end.is_none() && self.passage.len() >= LONG_PASSAGE {
            end = self.passage.rfind('\n').map(|at| at + 1);
        }
        if end.is_none() && self.passage.len() >= MAX_PASSAGE {
            end = self.passage.rfind(' ').map(|at| at + 1).or(Some(self.passage.len()));
        }
        if let Some(end) = end {
            let rest = self.passage.split_off(end);
            show(std::mem::replace(&mut self.passage, rest), parts);
        }
    }

    /// Keeps details that go back as they came. Pieces of one text are joined, as the server would.
    pub(super) fn detail(&mut self, detail: &Value) {
        if self.echo != Echo::Details {
            return;
        }
        let key = |detail: &Value| (detail.get("index").cloned(), detail.get("type").cloned());
        match self.details.last_mut() {
            Some(last) if key(last) == key(detail) && key(detail).0.is_some() => merge(last, detail),
            _ => self.details.push(detail.clone()),
        }
    }

    /// What is left; something else is being said.
    pub(super) fn pause(&mut self, parts: &mut Vec<Part>) {
        show(std::mem::take(&mut self.passage), parts);
    }

    /// What is left, and what goes back.
    pub(super) fn end(&mut self, parts: &mut Vec<Part>) {
        self.pause(parts);
        let sealed = |kind, data| {
            Part::from(Body::Reasoning {
                text: String::new(),
                summary: false,
                seal: Some(Seal { kind, data }),
            })
        };
        if !self.whole.is_empty() {
            let whole = Value::String(std::mem::take(&mut self.whole));
            parts.push(sealed(SealKind::ReasoningContent, whole));
        }
        if !self.details.is_empty() {
            let details = Value::Array(std::mem::take(&mut self.details));
            parts.push(sealed(SealKind::ReasoningDetails, details));
        }
    }
}

fn show(passage: String, parts: &mut Vec<Part>) {
    if !passage.trim().is_empty() {
        parts.push(Body::Reasoning { text: passage, summary: false, seal: None }.into());
    }
}

fn merge(last: &mut Value, detail: &Value) {
    let (Value::Object(last), Value::Object(detail)) = (last, detail) else { return };
    for (key, value) in detail {
        match (last.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(more))
                if matches!(key.as_str(), "text" | "summary" | "data") =>
            {
                text.push_str(more);
            }
            (_, Value::Null) => {}
            (_, value) => {
                last.insert(key.clone(), value.clone());
            }
        }
    }
}

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Splits a text that begins with reasoning between tags.
#[derive(Debug)]
pub(super) enum ThinkTags {
    /// Nothing but blanks and the beginning of a tag has come.
    Undecided(String),
    /// Inside; what may be the beginning of the closing tag is held back.
    Thinking(String),
    Speaking,
}

/// What a piece of text turned out to be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) reasoning: String,
    pub(super) text: String,
}

impl ThinkTags {
    pub(super) fn new(expected: bool) -> Self {
        if expected { Self::Undecided(String::new()) } else { Self::Speaking }
    }

    pub(super) fn push(&mut self, piece: &str) -> Said {
        let mut said = Said::default();
        let mut piece = piece.to_owned();
        loop {
            match self {
                Self::Speaking => {
                    said.text.push_str(&piece);
                    return said;
                }
                Self::Undecided(held) => {
                    held.push_str(&piece);
                    let start = held.trim_start();
                    if let Some(rest) = start.strip_prefix(OPEN) {
                        piece = rest.to_owned();
                        *self = Self::Thinking(String::new());
                    } else if OPEN.starts_with(start) {
                        return said;
                    } else {
                        piece = std::mem::take(held);
                        *self = Self::Speaking;
                    }
                }
                Self::Thinking(held) => {
                    held.push_str(&piece);
                    if let Some((inside, after)) = held.split_once(CLOSE) {
                        said.reasoning.push_str(inside);
                        piece = after.trim_start().to_owned();
                        *self = Self::Speaking;
                        continue;
                    }
                    let kept = (1..CLOSE.len())
                        .rev()
                        .find(|length| CLOSE.get(..*length).is_some_and(|start| held.ends_with(start)));
                    let rest = held.split_off(held.len() - kept.unwrap_or(0));
                    said.reasoning.push_str(&std::mem::replace(held, rest));
                    return said;
                }
            }
        }
    }

    /// What was held back.
    pub(super) fn end(&mut self) -> Said {
        match std::mem::replace(self, Self::Speaking) {
            Self::Undecided(text) => Said { text, ..Said::default() },
            Self::Thinking(reasoning) => Said { reasoning, ..Said::default() },
            Self::Speaking => Said::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn split(text: &str, sizes: &[usize]) -> Said {
        let mut tags = ThinkTags::new(true);
        let mut all = Said::default();
        let mut rest: Vec<char> = text.chars().collect();
        let mut sizes = sizes.iter().copied().cycle();
        while !rest.is_empty() {
            let size = sizes.next().unwrap_or(1).clamp(1, rest.len());
            let piece: String = rest.drain(..size).collect();
            let said = tags.push(&piece);
            all.reasoning.push_str(&said.reasoning);
            all.text.push_str(&said.text);
        }
        let said = tags.end();
        all.reasoning.push_str(&said.reasoning);
        all.text.push_str(&said.text);
        all
    }

    #[test]
    fn only_a_leading_block_is_reasoning() {
        let said = |reasoning: &str, text: &str| Said { reasoning: reasoning.into(), text: text.into() };
        assert_eq!(split("\n<think>why</think>so <think>", &[3]), said("why", "so <think>"));
        assert_eq!(split("<thin ice", &[2]), said("", "<thin ice"));
        assert_eq!(split("<think>cut </thi", &[1]), said("cut </thi", ""));
        assert_eq!(split("plain", &[9]), said("", "plain"));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(inside in "[a<>/think ]{0,20}", after in "[b<>]{0,9}", sizes in proptest::collection::vec(1_usize..7, 1..5)) {
            let text = format!("<think>{inside}</think>{after}");
            prop_assert_eq!(split(&text, &sizes), split(&text, &[usize::MAX]));
        }
    }

    #[test]
    fn passages_are_shown_when_they_are_complete_and_all_of_it_goes_back() {
        let mut reasoning = Reasoning::new(Echo::Content);
        let mut parts = Vec::new();
        for piece in ["one", "\n\ntwo", " more", "\n\n", "three"] {
            reasoning.push(piece, &mut parts);
        }
        assert_eq!(parts.len(), 2);
        reasoning.end(&mut parts);
        let Body::Reasoning { seal: Some(seal), .. } = &parts[3].body else { panic!("{parts:?}") };
        assert_eq!(seal.data, json!("one\n\ntwo more\n\nthree"));
    }

    #[test]
    fn details_of_one_index_are_joined() {
        let mut reasoning = Reasoning::new(Echo::Details);
        for detail in [
            json!({"type": "reasoning.text", "index": 0, "text": "a", "signature": null}),
            json!({"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"}),
            json!({"type": "reasoning.encrypted", "index": 1, "data": "x"}),
        ] {
            reasoning.detail(&detail);
        }
        let mut parts = Vec::new();
        reasoning.end(&mut parts);
        let Body::Reasoning { seal: Some(seal), .. } = &parts[0].body else { panic!("{parts:?}") };
        let text = json!({"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"});
        assert_eq!(seal.data, json!([text, {"type": "reasoning.encrypted", "index": 1, "data": "x"}]));
    }
}
