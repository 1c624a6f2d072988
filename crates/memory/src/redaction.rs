//! Removes what must not be stored: secrets, and phrases the user asked to forget.

use std::borrow::Cow;
use std::ops::Range;

use pollux_config::paths::sha256_hex;
use pollux_domain::redact;

use crate::scripts::is_cjk;

/// Increase it when secret detection changes; everything is then read again.
pub(crate) const VERSION: u32 = 1;

const FORGOTTEN: &str = "[FORGOTTEN]";

/// Marks the key of a phrase that is compared letter by letter. Older versions pass over such a key and keep it.
const BY_LETTER: &str = "letters:";

/// A forgotten phrase, stored as hashes, since storing the phrase itself would keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tombstone {
    /// Whether letters of scripts without spaces count as words: there, the words of a phrase stand inside of longer runs.
    by_letter: bool,
    words: usize,
    /// Hash of the first word, to skip most positions quickly.
    first: u16,
    hash: String,
}

impl Tombstone {
    /// `None` for a phrase without words.
    pub(crate) fn of(phrase: &str) -> Option<Self> {
        let by_letter = phrase.contains(is_unspaced);
        let words: Vec<String> = words(phrase, by_letter).map(|(_, word)| word).collect();
        let first = quick(words.first()?);
        Some(Self { by_letter, words: words.len(), first, hash: sha256_hex(words.join(" ").as_bytes()) })
    }

    pub(crate) fn key(&self) -> String {
        let mark = if self.by_letter { BY_LETTER } else { "" };
        format!("{mark}{}:{}:{}", self.words, self.first, self.hash)
    }

    pub(crate) fn parse(key: &str) -> Option<Self> {
        let unmarked = key.strip_prefix(BY_LETTER);
        let mut parts = unmarked.unwrap_or(key).splitn(3, ':');
        Some(Self {
            by_letter: unmarked.is_some(),
            words: parts.next()?.parse().ok()?,
            first: parts.next()?.parse().ok()?,
            hash: parts.next()?.to_owned(),
        })
    }

    /// Where the phrase stands in a text, whatever the case of its letters and the marks between its words.
    pub(crate) fn find(&self, text: &str) -> Vec<Range<usize>> {
        let words: Vec<(Range<usize>, String)> = words(text, self.by_letter).collect();
        let mut found: Vec<Range<usize>> = Vec::new();
        for window in words.windows(self.words.max(1)) {
            let (Some((first, word)), Some((last, _))) = (window.first(), window.last()) else { continue };
            if quick(word) != self.first || found.last().is_some_and(|before| before.end > first.start) {
                continue;
            }
            let joined: Vec<&str> = window.iter().map(|(_, word)| word.as_str()).collect();
            if sha256_hex(joined.join(" ").as_bytes()) == self.hash {
                found.push(first.start..last.end);
            }
        }
        found
    }
}

/// The text without secrets and forgotten phrases. Lines keep their numbers.
pub(crate) fn clean<'a>(text: &'a str, tombstones: &[Tombstone]) -> Cow<'a, str> {
    let secrets = redact::find(text);
    let mut clean: Cow<'a, str> = if secrets.is_empty() {
        Cow::Borrowed(text)
    } else {
        let spans =
            secrets.into_iter().map(|secret| (secret.range, format!("[REDACTED:{}]", secret.kind.as_str())));
        Cow::Owned(replaced(text, spans))
    };
    for tombstone in tombstones {
        let found = tombstone.find(&clean);
        if !found.is_empty() {
            clean =
                Cow::Owned(replaced(&clean, found.into_iter().map(|range| (range, FORGOTTEN.to_owned()))));
        }
    }
    clean
}

fn replaced(text: &str, spans: impl Iterator<Item = (Range<usize>, String)>) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for (span, mask) in spans {
        clean.push_str(text.get(from..span.start).unwrap_or_default());
        clean.push_str(&mask);
        let lines = text.get(span.clone()).unwrap_or_default().matches('\n').count();
        clean.extend(std::iter::repeat_n('\n', lines));
        from = span.end;
    }
    clean.push_str(text.get(from..).unwrap_or_default());
    clean
}

fn words(text: &str, by_letter: bool) -> impl Iterator<Item = (Range<usize>, String)> {
    let stands_alone = move |c: char| by_letter && is_unspaced(c);
    let is_word = move |c: char| c.is_alphanumeric() || c == '_' || stands_alone(c);
    let mut characters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while characters.next_if(|(_, c)| !is_word(*c)).is_some() {}
        let (start, first) = characters.next()?;
        let mut word: String = first.to_lowercase().collect();
        let mut end = start + first.len_utf8();
        let goes_on = |c: char| is_word(c) && !stands_alone(first) && !stands_alone(c);
        while let Some((at, c)) = characters.next_if(|(_, c)| goes_on(*c)) {
            word.extend(c.to_lowercase());
            end = at + c.len_utf8();
        }
        Some((start..end, word))
    })
}

/// Letters and marks of scripts that are written without spaces between words, or whose words take endings.
fn is_unspaced(c: char) -> bool {
    // Thai and Lao, Myanmar, Hangul in parts, Khmer.
    is_cjk(c)
        || matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}')
}

/// FNV of a word, folded.
fn quick(word: &str) -> u16 {
    let hash =
        word.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash ^ (hash >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_over_several_lines_leaves_their_number_as_it_was() {
        let text = "a\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nb ghp_1234567890abcdefghijklmnop";
        let clean = clean(text, &[]);
        assert_eq!(clean, "a\n[REDACTED:private-key]\n\n\nb [REDACTED:key]");
        assert_eq!(clean.lines().count(), text.lines().count());
    }

    #[test]
    fn a_forgotten_phrase_is_found_in_every_spelling_and_not_kept() {
        let tombstone = Tombstone::of("Project  Blue-Heron").unwrap();
        assert!(!tombstone.key().contains("heron"));
        assert_eq!(Tombstone::parse(&tombstone.key()), Some(tombstone.clone()));
        let text = "about project blue\nheron, PROJECT BLUE HERON and project blue herons";
        assert_eq!(clean(text, &[tombstone]), "about [FORGOTTEN]\n, [FORGOTTEN] and project blue herons");
        assert_eq!(Tombstone::of(" .,"), None);
    }

    #[test]
    fn a_forgotten_phrase_is_found_where_words_have_no_spaces() {
        for (phrase, text, clean_text) in [
            ("隼計画", "来月の隼計画は延期です。隼の計画", "来月の[FORGOTTEN]は延期です。隼の計画"),
            ("매 프로젝트", "우리 매 프로젝트는 5월에", "우리 [FORGOTTEN]는 5월에"),
            ("โครงการเหยี่ยว", "เรื่องโครงการเหยี่ยวเริ่มแล้ว", "เรื่อง[FORGOTTEN]เริ่มแล้ว"),
            ("Falcon計画", "新しいfalcon 計画書、Falcons計画", "新しい[FORGOTTEN]書、Falcons計画"),
        ] {
            let tombstone = Tombstone::of(phrase).unwrap();
            assert_eq!(Tombstone::parse(&tombstone.key()), Some(tombstone.clone()));
            assert_eq!(clean(text, &[tombstone]), clean_text);
        }
        let white = Tombstone::of("ขาว").unwrap();
        assert!(white.find("ข่าว").is_empty(), "tone marks tell words apart");
        // Forgotten by an earlier version, which took the whole run for one word.
        let old = Tombstone {
            by_letter: false,
            words: 1,
            first: quick("隼計画"),
            hash: sha256_hex("隼計画".as_bytes()),
        };
        assert_eq!(clean("「隼計画」", &[Tombstone::parse(&old.key()).unwrap()]), "「[FORGOTTEN]」");
    }
}
