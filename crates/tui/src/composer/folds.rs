//! Pasted text that is folded into a placeholder.
//!
//! In the buffer a fold is one character that Unicode has not assigned and that never joins its neighbours. So every
//! motion and every edit treats it as one thing without knowing of it. The same characters in a text that comes in are
//! folded too, one by one, so that the sent text equals the pasted one byte for byte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Default-ignorable, unassigned, and a cluster of their own (`Grapheme_Cluster_Break=Control`).
const FIRST: u32 = 0xe01f0;
const LAST: u32 = 0xe0fff;
/// Their first byte in UTF-8.
const LEAD: u8 = 0xf3;

/// More lines than this are folded; must equal upstream's.
const MOST_LINES: usize = 5;
/// More characters than this are folded; must equal upstream's.
const MOST_CHARS: usize = 500;

#[derive(Debug, Clone)]
struct Fold {
    label: String,
    /// Shared with the copies that were cut or put aside.
    content: Arc<String>,
    size: Size,
    /// A reserved character that stood in a text itself.
    literal: bool,
}

/// Counted as parts arrive, so that a paste in a thousand parts is not counted a thousand times.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    line_ends: usize,
    chars: usize,
}

impl Size {
    fn add(self, text: &str) -> Self {
        Self {
            line_ends: self.line_ends + text.bytes().filter(|byte| *byte == b'\n').count(),
            chars: self.chars + text.chars().count(),
        }
    }

    fn is_large(self) -> bool {
        self.line_ends >= MOST_LINES || self.chars > MOST_CHARS
    }

    fn words(self) -> String {
        let lines = self.line_ends + 1;
        if lines > MOST_LINES { format!("{lines} lines") } else { format!("{} chars", self.chars) }
    }
}

/// The folds of a prompt, by their characters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folds {
    folds: Vec<Fold>,
}

/// A text with its pastes, which outlives the prompt it was taken from: there, its folds would be those of another text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    /// With the characters of these folds.
    raw: String,
    folds: Folds,
}

impl Kept {
    /// The text with every paste in full.
    pub(crate) fn expanded(&self) -> String {
        self.folds.expand(&self.raw)
    }

    /// The text with placeholders, as it was shown.
    pub(crate) fn labelled(&self) -> String {
        self.folds.labelled(&self.raw)
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.raw.trim().is_empty()
    }

    /// Bytes with every paste in full, at most, if each is in it once.
    pub(crate) fn size(&self) -> usize {
        self.raw.len() + self.folds.size()
    }
}

pub(crate) fn is_fold(c: char) -> bool {
    (FIRST..=LAST).contains(&u32::from(c))
}

/// Whether a text is long enough to be folded.
pub(crate) fn is_large(text: &str) -> bool {
    Size::default().add(text).is_large()
}

impl Folds {
    /// A text as it may stand in the buffer: line ends are `\n`, reserved characters are folded.
    pub(crate) fn protect<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if !text.bytes().any(|byte| byte == b'\r' || byte == LEAD) {
            return Cow::Borrowed(text);
        }
        let text = lines(text);
        if !text.chars().any(is_fold) {
            return Cow::Owned(text);
        }
        Cow::Owned(text.chars().map(|c| if is_fold(c) { self.literal(c) } else { c }).collect())
    }

    fn literal(&mut self, c: char) -> char {
        let content = Arc::new(String::from(c));
        if let Some(known) = self.folds.iter().position(|fold| fold.literal && fold.content == content) {
            return sign(known).unwrap_or(char::REPLACEMENT_CHARACTER);
        }
        let label = format!("<U+{:04X}>", u32::from(c));
        self.push(Fold { label, content, size: Size::default(), literal: true })
            .unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    fn push(&mut self, fold: Fold) -> Option<char> {
        let sign = sign(self.folds.len())?;
        self.folds.push(fold);
        Some(sign)
    }

    /// Folds a text; `None` when there is no character left for one more.
    pub(crate) fn fold(&mut self, content: String, is_used: impl Fn(char) -> bool) -> Option<char> {
        let size = Size::default().add(&content);
        let label = self.name(size, None, is_used);
        self.push(Fold { label, content: Arc::new(content), size, literal: false })
    }

    /// A text of this prompt, for use in a later one.
    pub(crate) fn keep(&self, raw: String) -> Kept {
        let mut folds = Self::default();
        if !raw.bytes().any(|byte| byte == LEAD) {
            return Kept { raw, folds };
        }
        let mut signs = BTreeMap::new();
        let keep = |c: char| match index(c).and_then(|index| self.folds.get(index)) {
            Some(fold) => *signs
                .entry(c)
                .or_insert_with(|| folds.push(fold.clone()).unwrap_or(char::REPLACEMENT_CHARACTER)),
            None => c,
        };
        let raw = raw.chars().map(keep).collect();
        Kept { raw, folds }
    }

    /// A kept text as it may stand in the buffer, with the same pastes folded.
    pub(crate) fn adopt(&mut self, kept: &Kept, is_used: impl Fn(char) -> bool) -> String {
        if kept.folds.folds.is_empty() {
            return kept.raw.clone();
        }
        let adopted: Vec<String> =
            kept.folds.folds.iter().map(|fold| self.adopt_fold(fold, &is_used)).collect();
        let mut raw = String::with_capacity(kept.raw.len());
        for c in kept.raw.chars() {
            match index(c).and_then(|index| adopted.get(index)) {
                Some(text) => raw.push_str(text),
                None => raw.push(c),
            }
        }
        raw
    }

    fn adopt_fold(&mut self, fold: &Fold, is_used: impl Fn(char) -> bool) -> String {
        let is_same = |known: &Fold| known.literal == fold.literal && known.content == fold.content;
        let known = self.folds.iter().position(is_same);
        let known = known.and_then(|index| Some((index, sign(index)?)));
        if let Some((_, sign)) = known.filter(|(_, sign)| fold.literal || is_used(*sign)) {
            return String::from(sign);
        }
        // Another paste may have got its placeholder meanwhile.
        let label = match fold.literal {
            true => fold.label.clone(),
            false => self.name(fold.size, known.map(|(index, _)| index), is_used),
        };
        if let Some((index, sign)) = known
            && let Some(known) = self.folds.get_mut(index)
        {
            known.label = label;
            return String::from(sign);
        }
        match self.push(Fold { label, ..fold.clone() }) {
            Some(sign) => String::from(sign),
            None => self.protect(&fold.content).into_owned(),
        }
    }

    /// Adds a later part of the same paste.
    pub(crate) fn extend(&mut self, c: char, more: &str, is_used: impl Fn(char) -> bool) {
        let Some(index) = index(c) else { return };
        let Some(size) = self.folds.get(index).map(|fold| fold.size.add(more)) else { return };
        let label = self.name(size, Some(index), is_used);
        if let Some(fold) = self.folds.get_mut(index) {
            Arc::make_mut(&mut fold.content).push_str(more);
            (fold.label, fold.size) = (label, size);
        }
    }

    /// The placeholder; a second one of the same size in the prompt gets a number.
    fn name(&self, size: Size, own: Option<usize>, is_used: impl Fn(char) -> bool) -> String {
        let size = size.words();
        let is_taken = |label: &str| {
            self.folds.iter().enumerate().any(|(index, fold)| {
                Some(index) != own && fold.label == label && sign(index).is_some_and(&is_used)
            })
        };
        let plain = format!("[Pasted Text: {size}]");
        if !is_taken(&plain) {
            return plain;
        }
        let mut number = 2;
        loop {
            let label = format!("[Pasted Text: {size} #{number}]");
            if !is_taken(&label) {
                return label;
            }
            number += 1;
        }
    }

    pub(crate) fn label_of(&self, c: char) -> Option<&str> {
        Some(self.folds.get(index(c)?)?.label.as_str())
    }

    /// The content of a folded paste; `None` for anything else.
    pub(crate) fn paste_of(&self, c: char) -> Option<&str> {
        self.folds.get(index(c)?).filter(|fold| !fold.literal).map(|fold| fold.content.as_str())
    }

    /// Bytes of all contents.
    pub(crate) fn size(&self) -> usize {
        self.folds.iter().map(|fold| fold.content.len()).sum()
    }

    /// The text with every paste in full.
    pub(crate) fn expand(&self, raw: &str) -> String {
        self.put(raw, |fold| fold.content.as_str())
    }

    /// The text with placeholders, as it is shown.
    pub(crate) fn labelled(&self, raw: &str) -> String {
        self.put(raw, |fold| if fold.literal { fold.content.as_str() } else { fold.label.as_str() })
    }

    fn put<'a>(&'a self, raw: &str, what: impl Fn(&'a Fold) -> &'a str) -> String {
        if !raw.bytes().any(|byte| byte == LEAD) {
            return raw.to_owned();
        }
        let mut text = String::with_capacity(raw.len());
        for c in raw.chars() {
            match index(c).and_then(|index| self.folds.get(index)) {
                Some(fold) => text.push_str(what(fold)),
                None => text.push(c),
            }
        }
        text
    }
}

fn index(c: char) -> Option<usize> {
    is_fold(c).then(|| u32::from(c) - FIRST).and_then(|index| usize::try_from(index).ok())
}

fn sign(index: usize) -> Option<char> {
    let code = FIRST.checked_add(u32::try_from(index).ok()?)?;
    (code <= LAST).then(|| char::from_u32(code)).flatten()
}

/// A text whose line ends are all `\n`.
pub(super) fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_say_lines_or_characters_and_are_numbered() {
        let mut folds = Folds::default();
        let lines = "x\n".repeat(11);
        let chars = "y".repeat(501);
        let signs: Vec<char> =
            [&lines, &chars, &chars].map(|text| folds.fold(text.clone(), |_| true).unwrap()).to_vec();
        let raw: String = signs.iter().collect();
        assert_eq!(
            folds.labelled(&raw),
            "[Pasted Text: 12 lines][Pasted Text: 501 chars][Pasted Text: 501 chars #2]"
        );
        assert_eq!(folds.expand(&raw), format!("{lines}{chars}{chars}"));
    }

    #[test]
    fn a_label_whose_paste_is_gone_is_free_again() {
        let mut folds = Folds::default();
        folds.fold("y".repeat(501), |_| true).unwrap();
        let second = folds.fold("y".repeat(501), |_| false).unwrap();
        assert_eq!(folds.label_of(second), Some("[Pasted Text: 501 chars]"));
    }

    #[test]
    fn reserved_characters_of_a_text_come_back_unchanged() {
        let mut folds = Folds::default();
        let text = "a\u{e01f0}b\u{e0fff}c\u{e01f0}";
        let raw = folds.protect(text).into_owned();
        folds.fold("z".repeat(600), |_| true).unwrap();
        assert_eq!(folds.expand(&raw), text);
        assert_eq!(folds.labelled(&raw), text);
    }

    #[test]
    fn a_kept_text_has_its_own_pastes_in_every_prompt() {
        let mut folds = Folds::default();
        let (paste, other) = ("x\n".repeat(11), "y\n".repeat(11));
        let sign = folds.fold(paste.clone(), |_| false).unwrap();
        let literal = folds.protect("\u{e01f0}").into_owned();
        let kept = folds.keep(format!("a{sign}b{literal}{sign}"));
        let whole = format!("a{paste}b\u{e01f0}{paste}");
        assert_eq!(kept.expanded(), whole);
        assert_eq!(kept.labelled(), "a[Pasted Text: 12 lines]b\u{e01f0}[Pasted Text: 12 lines]");
        let mut later = Folds::default();
        let standing = later.fold(other.clone(), |_| false).unwrap();
        let raw = later.adopt(&kept, |sign| sign == standing);
        assert_eq!(later.expand(&raw), whole);
        assert!(later.labelled(&raw).contains("[Pasted Text: 12 lines #2]"), "{}", later.labelled(&raw));
        // Nothing piles up when it comes and goes.
        let size = later.size();
        assert_eq!(later.adopt(&kept, |_| true), raw);
        assert_eq!(later.size(), size);
        // Where nothing more can be folded it is put in whole.
        let mut full = Folds::default();
        while full.fold(other.clone(), |_| false).is_some() {}
        let raw = full.adopt(&kept, |_| false);
        assert!(full.expand(&raw).starts_with(&format!("a{paste}b")));
    }

    #[test]
    fn every_line_end_becomes_one() {
        assert_eq!(Folds::default().protect("a\r\nb\rc\n"), "a\nb\nc\n");
    }

    #[test]
    fn more_than_five_lines_or_five_hundred_characters_are_large() {
        assert!(!is_large("1\n2\n3\n4\n5"));
        assert!(is_large("1\n2\n3\n4\n5\n6"));
        assert!(!is_large(&"ü".repeat(500)));
        assert!(is_large(&"ü".repeat(501)));
    }
}
