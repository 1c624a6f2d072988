//! Translates typed search terms to a full-text query.

use std::borrow::Cow;

/// Inserted between letters of unspaced scripts, so that each is a separate word. Invisible, and not a letter
/// for the index.
pub(crate) const GAP: char = '\u{200b}';
/// Shorter prefixes match too many words; the index has a table for this length.
const MIN_BEGINNING: usize = 3;
/// More words do not improve a search.
const MAX_WORDS: usize = 32;

/// A search for all of some words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Phrase {
    /// For the index; every word is quoted, so that none is an operator.
    pub(crate) expression: String,
    /// In lower case.
    pub(crate) words: Vec<String>,
}

impl Phrase {
    /// `None` if there is nothing to search for.
    pub(crate) fn typed(text: &str) -> Option<Self> {
        let pieces = pieces(text);
        let last = pieces.len().checked_sub(1)?;
        let terms = pieces.iter().enumerate().map(|(index, piece)| {
            let quoted = format!("\"{}\"", spaced(&piece.text).replace('"', "\"\""));
            // The last word may still be being typed.
            let letters = piece.text.chars().filter(|character| character.is_alphanumeric()).count();
            let is_beginning = index == last && !piece.is_phrase && letters >= MIN_BEGINNING;
            if is_beginning { format!("{quoted} *") } else { quoted }
        });
        let expression = terms.collect::<Vec<_>>().join(" ");
        Some(Self { expression, words: pieces.iter().map(|piece| piece.text.to_lowercase()).collect() })
    }
}

struct Piece {
    text: String,
    is_phrase: bool,
}

/// Words and quoted phrases; a quote that is not closed ends with the text.
fn pieces(typed: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (index, part) in typed.split('"').enumerate() {
        if index % 2 == 1 {
            pieces.push(Piece { text: part.to_owned(), is_phrase: true });
        } else {
            let words = part.split_whitespace();
            pieces.extend(words.map(|word| Piece { text: word.to_owned(), is_phrase: false }));
        }
    }
    // Text without letters is not indexed.
    pieces.retain(|piece| piece.text.chars().any(char::is_alphanumeric));
    pieces.truncate(MAX_WORDS);
    pieces
}

/// The text with gaps around letters of scripts that do not separate words.
pub(crate) fn spaced(text: &str) -> Cow<'_, str> {
    if !text.contains(is_ideograph) {
        return Cow::Borrowed(text);
    }
    let mut spaced = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if is_ideograph(character) {
            spaced.extend([GAP, character, GAP]);
        } else {
            spaced.push(character);
        }
    }
    Cow::Owned(spaced)
}

/// Chinese, Japanese, Thai and their neighbours; Korean separates words.
fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_text_never_becomes_an_operator() {
        let cases = [
            ("build", Some("\"build\" *")),
            ("fix the  build", Some("\"fix\" \"the\" \"build\" *")),
            ("\"exit code\" bash", Some("\"exit code\" \"bash\" *")),
            ("bash \"exit code\"", Some("\"bash\" \"exit code\"")),
            ("\"not closed", Some("\"not closed\"")),
            ("a OR b NOT c*", Some("\"a\" \"OR\" \"b\" \"NOT\" \"c*\"")),
            ("text:x -y (end)", Some("\"text:x\" \"-y\" \"(end)\" *")),
            ("-- ** \"\"", None),
            ("", None),
        ];
        for (typed, expected) in cases {
            let phrase = Phrase::typed(typed);
            assert_eq!(phrase.as_ref().map(|phrase| phrase.expression.as_str()), expected, "{typed:?}");
        }
    }

    #[test]
    fn letters_of_unspaced_scripts_are_indexed_alone() {
        assert_eq!(spaced("größe"), "größe");
        assert_eq!(spaced("a日本"), "a\u{200b}日\u{200b}\u{200b}本\u{200b}");
    }
}
