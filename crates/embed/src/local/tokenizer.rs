//! Converts text to token ids according to a model's `tokenizer.json`.
//!
//! The two kinds that small embedding models use are here: WordPiece and SentencePiece's byte pairs. Truncation and
//! padding settings of the file are ignored: they belong to its author's use, not to the text.

mod packed;
mod pairs;
mod parse;
mod vocabulary;
mod word_pieces;

pub(super) use packed::{Packed, Unpacked};
pub(super) use pairs::Memo;

use pairs::Pairs;
use word_pieces::WordPieces;

/// Changes whenever the packed form does.
const FORM: u32 = 1;

/// The tokenizer of one model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tokenizer {
    kind: Kind,
    /// Texts that are tokens wherever they stand, such as `[SEP]`.
    added: Vec<(String, u32)>,
    /// The tokens before and after every text for an encoder.
    pub(super) before: Vec<u32>,
    pub(super) after: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Words(WordPieces),
    Pairs(Pairs),
}

impl Tokenizer {
    /// The tokens of a text, appended; without those before and after.
    pub(super) fn encode(&self, text: &str, memo: &mut Memo, ids: &mut Vec<u32>) {
        let mut rest = text;
        while let Some((at, token, id)) = self.next_added(rest) {
            let (head, tail) = rest.split_at(at);
            self.encode_plain(head, memo, ids);
            ids.push(id);
            rest = tail.strip_prefix(token).unwrap_or_default();
        }
        self.encode_plain(rest, memo, ids);
    }

    fn encode_plain(&self, text: &str, memo: &mut Memo, ids: &mut Vec<u32>) {
        match &self.kind {
            Kind::Words(words) => words.encode(text, ids),
            Kind::Pairs(pairs) => pairs.encode(text, memo, ids),
        }
    }

    /// The first token of [`Self::added`] in a text; of several at one place the longest.
    fn next_added(&self, text: &str) -> Option<(usize, &str, u32)> {
        let found =
            self.added.iter().filter_map(|(token, id)| Some((text.find(token)?, token.as_str(), *id)));
        found.min_by_key(|(at, token, _)| (*at, std::cmp::Reverse(token.len())))
    }

    /// The token for unknown text.
    pub(super) fn unknown(&self) -> Option<u32> {
        match &self.kind {
            Kind::Words(words) => Some(words.unknown),
            Kind::Pairs(pairs) => pairs.unknown,
        }
    }

    pub(super) fn pack(&self, into: &mut Packed) {
        into.number(FORM);
        match &self.kind {
            Kind::Words(words) => {
                into.number(0);
                words.pack(into);
            }
            Kind::Pairs(pairs) => {
                into.number(1);
                pairs.pack(into);
            }
        }
        into.number(u32::try_from(self.added.len()).unwrap_or(u32::MAX));
        for (token, id) in &self.added {
            into.bytes(token.as_bytes());
            into.number(*id);
        }
        into.numbers(&self.before);
        into.numbers(&self.after);
    }

    /// `None` if the bytes are of another form or damaged.
    pub(super) fn unpack(from: &mut Unpacked) -> Option<Self> {
        if from.number()? != FORM {
            return None;
        }
        let kind = match from.number()? {
            0 => Kind::Words(WordPieces::unpack(from)?),
            1 => Kind::Pairs(Pairs::unpack(from)?),
            _ => return None,
        };
        let count = from.number()?;
        let mut added = Vec::new();
        for _ in 0..count {
            added.push((String::from_utf8(from.bytes()?.to_vec()).ok()?, from.number()?));
        }
        Some(Self { kind, added, before: from.numbers()?, after: from.numbers()? })
    }
}

#[cfg(test)]
mod tests;
