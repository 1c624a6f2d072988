//! WordPiece, BERT's tokenizer: splits words and punctuation, then takes the longest known pieces.

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};

use super::packed::{Packed, Unpacked};
use super::vocabulary::{Hash, Vocabulary};

/// Longer words are unknown, as in other implementations.
const MAX_WORD_CHARS: usize = 100;
const CONTINUES: &str = "##";

/// The rules of one model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WordPieces {
    pub(super) vocabulary: Vocabulary,
    pub(super) unknown: u32,
    pub(super) lower_case: bool,
    pub(super) strip_accents: bool,
    pub(super) clean: bool,
    pub(super) split_chinese: bool,
}

impl WordPieces {
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let mut word = String::new();
        if text.is_ascii() {
            text.chars().filter_map(|c| self.cleaned(c)).for_each(|c| self.take(c, &mut word, ids));
        } else {
            self.encode_unicode(text, &mut word, ids);
        }
        self.end_word(&mut word, ids);
    }

    fn encode_unicode(&self, text: &str, word: &mut String, ids: &mut Vec<u32>) {
        let category = CodePointMapData::<GeneralCategory>::new();
        let spaced = text.chars().filter_map(|c| self.cleaned(c)).flat_map(|c| {
            let around = (self.split_chinese && is_chinese(c)).then_some(' ');
            around.into_iter().chain([c]).chain(around)
        });
        if self.strip_accents {
            let parts = DecomposingNormalizerBorrowed::new_nfd();
            for c in parts.normalize_iter(spaced) {
                if category.get(c) != GeneralCategory::NonspacingMark {
                    self.take(c, word, ids);
                }
            }
        } else {
            spaced.for_each(|c| self.take(c, word, ids));
        }
    }

    /// A character after normalisation; empty if it is removed.
    fn cleaned(&self, c: char) -> Option<char> {
        match c {
            _ if !self.clean => Some(c),
            '\t' | '\n' | '\r' => Some(' '),
            '\0' | '\u{fffd}' => None,
            _ if c.is_ascii() => (!c.is_ascii_control()).then_some(c),
            _ if is_invisible(c) => None,
            _ if c.is_whitespace() => Some(' '),
            _ => Some(c),
        }
    }

    /// Adds a character to the word, or ends the word with it.
    fn take(&self, c: char, word: &mut String, ids: &mut Vec<u32>) {
        if c.is_ascii() || !self.lower_case {
            let c = if self.lower_case { c.to_ascii_lowercase() } else { c };
            return self.take_lowered(c, word, ids);
        }
        for c in c.to_lowercase() {
            self.take_lowered(c, word, ids);
        }
    }

    fn take_lowered(&self, c: char, word: &mut String, ids: &mut Vec<u32>) {
        if c.is_whitespace() {
            self.end_word(word, ids);
        } else if is_punctuation(c) {
            self.end_word(word, ids);
            word.push(c);
            self.end_word(word, ids);
        } else {
            word.push(c);
        }
    }

    /// Splits the word into the longest known pieces; if one is unknown, the whole word is.
    fn end_word(&self, word: &mut String, ids: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let before = ids.len();
        let mut rest = word.as_str();
        let mut known = word.len() <= MAX_WORD_CHARS || word.chars().count() <= MAX_WORD_CHARS;
        while known && !rest.is_empty() {
            let prefix = if ids.len() == before { "" } else { CONTINUES };
            match self.longest_piece(prefix, rest) {
                Some((id, tail)) => {
                    ids.push(id);
                    rest = tail;
                }
                None => known = false,
            }
        }
        if !known {
            ids.truncate(before);
            ids.push(self.unknown);
        }
        word.clear();
    }

    fn longest_piece<'a>(&self, prefix: &str, rest: &'a str) -> Option<(u32, &'a str)> {
        let mut hash = Hash::of(prefix.as_bytes());
        let mut best = None;
        for (at, c) in rest.char_indices() {
            let end = at + c.len_utf8();
            if prefix.len() + end > self.vocabulary.longest() {
                break;
            }
            let (piece, tail) = rest.split_at(end);
            hash = hash.then(piece.as_bytes().get(at..).unwrap_or_default());
            if let Some(id) = self.vocabulary.find(hash, prefix.as_bytes(), piece.as_bytes()) {
                best = Some((id, tail));
            }
        }
        best
    }

    pub(super) fn pack(&self, into: &mut Packed) {
        self.vocabulary.pack(into);
        into.number(self.unknown);
        for flag in [self.lower_case, self.strip_accents, self.clean, self.split_chinese] {
            into.number(u32::from(flag));
        }
    }

    pub(super) fn unpack(from: &mut Unpacked) -> Option<Self> {
        let vocabulary = Vocabulary::unpack(from)?;
        let unknown = from.number()?;
        let mut flag = || from.number().map(|flag| flag != 0);
        Some(Self {
            vocabulary,
            unknown,
            lower_case: flag()?,
            strip_accents: flag()?,
            clean: flag()?,
            split_chinese: flag()?,
        })
    }
}

/// Control, format and private characters.
fn is_invisible(c: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    matches!(CodePointMapData::<GeneralCategory>::new().get(c), Control | Format | PrivateUse)
}

fn is_punctuation(c: char) -> bool {
    // In ASCII, `$`, `+`, `^` and the like count, too.
    c.is_ascii_punctuation()
        || !c.is_ascii()
            && GeneralCategoryGroup::Punctuation.contains(CodePointMapData::<GeneralCategory>::new().get(c))
}

/// The ranges that BERT's tokenizer names; Japanese syllables and Korean are not among them.
fn is_chinese(c: char) -> bool {
    matches!(c,
        '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b73f}' | '\u{2b740}'..='\u{2b81f}' | '\u{2b920}'..='\u{2ceaf}'
        | '\u{f900}'..='\u{faff}' | '\u{2f800}'..='\u{2fa1f}')
}
