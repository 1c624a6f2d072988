//! Finds calls in a text as it arrives.

/// How a call begins and ends.
const FENCE: (&str, &str) = ("```tool_call", "```");
const TAG: (&str, &str) = ("<tool_call>", "</tool_call>");

/// A piece of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// What stood inside a block, and the block as it was written.
    Block {
        inside: String,
        written: String,
    },
}

/// Splits a text into what people read and blocks. What could be the beginning of a block is held back.
#[derive(Debug)]
pub(super) struct Extractor {
    forms: &'static [(&'static str, &'static str)],
    /// Whether a block's text is a call, so that a closing mark inside a string does not end it.
    is_whole: fn(&str) -> bool,
    held: String,
    inside: Option<(&'static str, &'static str)>,
}

impl Extractor {
    /// For models that were told to write blocks.
    pub(super) fn told(is_whole: fn(&str) -> bool) -> Self {
        Self { forms: &[FENCE, TAG], is_whole, held: String::new(), inside: None }
    }

    /// For models with tools of their own whose server passes some of their calls on as text.
    pub(super) fn leaked(is_whole: fn(&str) -> bool) -> Self {
        Self { forms: &[TAG], ..Self::told(is_whole) }
    }

    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        let mut pieces = Vec::new();
        loop {
            let found = match self.inside {
                None => self.begin(&mut pieces),
                Some(form) => self.close(form, &mut pieces),
            };
            if !found {
                return pieces;
            }
        }
    }

    /// Whether a block has begun and not ended.
    pub(super) fn is_inside(&self) -> bool {
        self.inside.is_some()
    }

    /// Forgets the block that has begun.
    pub(super) fn reset(&mut self) {
        self.held.clear();
        self.inside = None;
    }

    /// What is left when the reply is over; a block may lack its end.
    pub(super) fn end(&mut self) -> Vec<Piece> {
        let held = std::mem::take(&mut self.held);
        match self.inside.take() {
            Some((open, close)) => {
                // The first mark that could be the end, where none gave a call.
                let (inside, after) = match held.split_once(close) {
                    Some((inside, after)) => (inside, Some(after)),
                    None => (held.as_str(), None),
                };
                let written = format!("{open}{inside}{}", after.map_or("", |_| close));
                let block = Piece::Block { inside: inside.trim().to_owned(), written };
                let after = after.filter(|after| !after.trim().is_empty());
                std::iter::once(block).chain(after.map(|text| Piece::Text(text.to_owned()))).collect()
            }
            None if held.is_empty() => Vec::new(),
            None => vec![Piece::Text(held)],
        }
    }

    /// Outside: gives the text before a block, or all that cannot be the beginning of one.
    fn begin(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let first = self.forms.iter().filter_map(|form| Some((self.held.find(form.0)?, *form))).min();
        if let Some((at, form)) = first {
            let rest = self.held.split_off(at);
            let before = std::mem::replace(&mut self.held, rest);
            self.held.drain(..form.0.len());
            if !before.is_empty() {
                pieces.push(Piece::Text(before));
            }
            self.inside = Some(form);
            return true;
        }
        let kept = self.forms.iter().map(|form| overlap(&self.held, form.0)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        let text = std::mem::replace(&mut self.held, rest);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        false
    }

    /// Inside: gives the block once its text is a call.
    fn close(&mut self, form: (&'static str, &'static str), pieces: &mut Vec<Piece>) -> bool {
        let ends = self.held.match_indices(form.1).map(|(at, _)| at);
        let whole =
            ends.into_iter().find(|at| self.held.get(..*at).is_some_and(|text| (self.is_whole)(text.trim())));
        let Some(at) = whole else { return false };
        let mut rest = self.held.split_off(at);
        rest.drain(..form.1.len());
        let inside = std::mem::replace(&mut self.held, rest);
        let written = format!("{}{inside}{}", form.0, form.1);
        pieces.push(Piece::Block { inside: inside.trim().to_owned(), written });
        self.inside = None;
        true
    }
}

/// How much of the text's end could be the beginning of a mark.
fn overlap(text: &str, mark: &str) -> usize {
    let could = |length: &usize| mark.get(..*length).is_some_and(|start| text.ends_with(start));
    (1..mark.len()).rev().find(could).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(text: &str) -> bool {
        text.ends_with('}')
    }

    fn split(text: &str, sizes: &[usize]) -> (String, Vec<String>) {
        let mut extractor = Extractor::told(whole);
        let mut rest: Vec<char> = text.chars().collect();
        let mut sizes = sizes.iter().copied().cycle();
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let size = sizes.next().unwrap_or(1).clamp(1, rest.len());
            pieces.extend(extractor.push(&rest.drain(..size).collect::<String>()));
        }
        pieces.extend(extractor.end());
        let mut said = String::new();
        let mut blocks = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => said.push_str(&text),
                Piece::Block { inside, .. } => blocks.push(inside),
            }
        }
        (said, blocks)
    }

    #[test]
    fn blocks_are_taken_out_of_the_text() {
        let text = "Looking.\n```tool_call\n{\"a\": \"``` no end\"}\n```\nand <tool_call>{}</tool_call>";
        let (said, blocks) = split(text, &[5]);
        assert_eq!(said, "Looking.\n\nand ");
        assert_eq!(blocks, ["{\"a\": \"``` no end\"}", "{}"]);
        assert_eq!(split("```rust\nlet a < b;\n```", &[2]), ("```rust\nlet a < b;\n```".into(), vec![]));
        assert_eq!(split("so ```tool_call\n{\"a\": ", &[3]), ("so ".into(), vec!["{\"a\":".into()]));
        assert_eq!(split("<tool_call>nonsense</tool_call> more", &[4]).1, ["nonsense"]);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[a`<>{}/tool_call\n ]{0,60}", sizes in proptest::collection::vec(1_usize..9, 1..5)) {
            prop_assert_eq!(split(&text, &sizes), split(&text, &[usize::MAX]));
        }
    }
}
