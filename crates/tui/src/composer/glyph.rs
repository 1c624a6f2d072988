//! The width of a user-perceived character, and a visible form of invisible ones.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::folds::{Folds, is_fold};

/// A tab reaches to the next multiple of this, counted from the start of its row.
const TAB_STOP: usize = 4;

/// A cluster longer than this is a letter under a pile of marks; only its start is drawn.
const LONGEST_CLUSTER: usize = 64;

/// The flag that tag characters legitimately follow.
const TAG_BASE: char = '\u{1f3f4}';

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GlyphKind {
    Plain,
    /// A row may end after it.
    Blank,
    /// A visible form of something that has none.
    Marked,
    /// Pasted text that is folded.
    Fold,
}

/// One character of a text, as it is drawn.
#[derive(Debug, Clone)]
pub(crate) struct Glyph<'a> {
    /// Bytes it takes in the text.
    pub(crate) len: usize,
    /// Cells it takes on screen, at least one.
    pub(crate) width: usize,
    pub(crate) shown: Cow<'a, str>,
    pub(crate) kind: GlyphKind,
}

/// The character at a byte of a text, drawn in a column of its row. `None` at the end.
pub(crate) fn glyph<'a>(text: &'a str, at: usize, column: usize, folds: &'a Folds) -> Option<Glyph<'a>> {
    let bytes = text.as_bytes();
    let first = *bytes.get(at)?;
    // Nothing joins two printable ASCII characters, so the tables need not be asked.
    if matches!(first, b' '..=b'~') && bytes.get(at + 1).is_none_or(u8::is_ascii) {
        let kind = if first == b' ' { GlyphKind::Blank } else { GlyphKind::Plain };
        return Some(Glyph { len: 1, width: 1, shown: Cow::Borrowed(text.get(at..=at)?), kind });
    }
    let rest = text.get(at..)?;
    let mut chars = rest.chars();
    if let (Some(first), second) = (chars.next(), chars.next())
        && is_ideograph(first)
        && second.is_none_or(|second| second.is_ascii() || is_ideograph(second))
    {
        let shown = Cow::Borrowed(text.get(at..at + first.len_utf8())?);
        return Some(Glyph { len: first.len_utf8(), width: 2, shown, kind: GlyphKind::Plain });
    }
    let cluster = rest.graphemes(true).next()?;
    let base = cluster.chars().next()?;
    if base == '\t' {
        let width = TAB_STOP - column % TAB_STOP;
        return Some(Glyph { len: 1, width, shown: Cow::Owned(" ".repeat(width)), kind: GlyphKind::Blank });
    }
    if let Some(label) = is_fold(base).then(|| folds.label_of(base)).flatten() {
        return Some(of(cluster.len(), Cow::Borrowed(label), GlyphKind::Fold));
    }
    if let Some(marked) = marked(cluster, base) {
        return Some(of(cluster.len(), Cow::Owned(marked), GlyphKind::Marked));
    }
    Some(of(cluster.len(), Cow::Borrowed(cluster), GlyphKind::Plain))
}

/// Kana, Han and Hangul syllables: wide, and nothing but marks joins them.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

fn of(len: usize, shown: Cow<'_, str>, kind: GlyphKind) -> Glyph<'_> {
    Glyph { len, width: shown.width().max(1), shown, kind }
}

/// A visible form, when the cluster alone would hide something.
fn marked(cluster: &str, base: char) -> Option<String> {
    if base.is_ascii_control() {
        return Some(format!("^{}", char::from((u32::from(base) as u8) ^ 0x40)));
    }
    if cluster.len() > LONGEST_CLUSTER {
        return Some(format!("{}<+{} marks>", visible(base), cluster.chars().count() - 1));
    }
    if base.is_control() || cluster.width() == 0 {
        return Some(cluster.chars().map(visible).collect());
    }
    if base != TAG_BASE && cluster.chars().filter(|c| hides(*c)).count() > 1 {
        return Some(cluster.chars().map(visible).collect());
    }
    None
}

/// Tags and variation selectors of the supplement: text can be smuggled in a row of them.
fn hides(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e0fff}')
}

fn visible(c: char) -> String {
    if c.is_control() || c.width().unwrap_or(0) == 0 {
        format!("<U+{:04X}>", u32::from(c))
    } else {
        String::from(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> (String, usize) {
        let folds = Folds::default();
        let (mut at, mut column, mut drawn) = (0, 0, String::new());
        while let Some(glyph) = glyph(text, at, column, &folds) {
            at += glyph.len;
            column += glyph.width;
            drawn.push_str(&glyph.shown);
        }
        assert_eq!(at, text.len());
        (drawn, column)
    }

    #[test]
    fn characters_are_as_wide_as_they_look_and_none_hides() {
        for (text, drawn, width) in [
            ("abc", "abc", 3),
            ("a\tb", "a   b", 5),
            ("日本", "日本", 4),
            ("e\u{301}x", "e\u{301}x", 2),
            ("👨‍👩‍👧!", "👨‍👩‍👧!", 3),
            ("🇩🇪", "🇩🇪", 2),
            ("שלום", "שלום", 4),
            ("\u{1b}[2J", "^[[2J", 5),
            ("a\u{7f}", "a^?", 3),
            ("a\u{200b}b", "a<U+200B>b", 10),
            ("\u{202e}x", "<U+202E>x", 9),
            ("\u{9b}", "<U+009B>", 8),
            ("a\u{e0061}\u{e0062}", "a<U+E0061><U+E0062>", 19),
        ] {
            assert_eq!(shown(text), (drawn.to_owned(), width), "{text:?}");
        }
    }

    #[test]
    fn a_pile_of_marks_is_cut() {
        let pile = format!("a{}", "\u{301}".repeat(1000));
        assert_eq!(shown(&pile).0, "a<+1000 marks>");
    }
}
