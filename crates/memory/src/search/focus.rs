//! Selects the snippet of a passage that best matches the query.

use std::ops::Range;

use super::words;
use crate::chunk::utf16;
use crate::scripts::is_cjk;

/// Units of UTF-16 in a snippet.
const SNIPPET: usize = 700;
const CUT: char = '…';
/// Cuts are moved to a blank that is so near.
const NEAR: usize = 24;
/// Words of a passage that are looked at; a passage has fewer.
const MAX_MATCHES: usize = 1000;

/// A part of a passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snippet {
    pub(super) text: String,
    /// The character at which the best match begins.
    pub(super) focus: usize,
}

/// The beginning of a passage.
pub(super) fn beginning(text: &str) -> Snippet {
    let mut units = 0;
    let end = text.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > SNIPPET
    });
    let text = end.and_then(|(at, _)| text.get(..at)).unwrap_or(text).to_owned();
    Snippet { text, focus: 0 }
}

/// The part of a passage that has the most of a question.
pub(super) fn around(text: &str, question: &str) -> Snippet {
    let matches = matches(text, question);
    let Some(best) = best(text, &matches) else { return beginning(text) };
    let window = window(text, &best);
    let (before, after) = (window.start > 0, window.end < text.len());
    let mut shown = String::with_capacity(window.len() + 6);
    shown.extend(before.then_some(CUT));
    shown.push_str(text.get(window.clone()).unwrap_or_default());
    shown.extend(after.then_some(CUT));
    let lead = text.get(window.start..best.start).unwrap_or_default().chars().count();
    Snippet { text: shown, focus: lead + usize::from(before) }
}

/// A place in a passage that has a word of the question.
struct Match {
    place: Range<usize>,
    word: usize,
    weight: usize,
}

fn matches(text: &str, question: &str) -> Vec<Match> {
    let mut asked = words::phrases(question);
    let single = asked.len();
    asked.extend(words::joined(question));
    let mut found = Vec::new();
    for (word, phrase) in asked.iter().enumerate().filter(|(_, phrase)| phrase.contains(is_cjk)) {
        let phrase: String = phrase.split(' ').collect();
        let places = text.match_indices(&phrase).map(|(at, part)| at..at + part.len());
        found.extend(places.map(|place| Match { place, word, weight: 4 }));
    }
    let asked: Vec<(usize, Vec<char>)> = asked
        .iter()
        .enumerate()
        .filter(|(_, phrase)| !phrase.contains(is_cjk))
        .map(|(word, phrase)| (word, phrase.chars().collect()))
        .collect();
    for place in each_word(text) {
        let lowered = text.get(place.clone()).unwrap_or_default().to_lowercase();
        let is_stop_word = words::is_stop_word(&lowered);
        let token: Vec<char> = lowered.chars().collect();
        let weight = |word: usize, phrase: &[char]| match words::likeness(phrase, &token) {
            same @ 4.. => same,
            // The words of a pair are asked for by themselves too.
            _ if is_stop_word || (word >= single && token.len() < words::stem_length(phrase.len())) => 0,
            other => other,
        };
        let weights = asked.iter().map(|(word, phrase)| (weight(*word, phrase), *word));
        let best = weights
            .filter(|(weight, _)| *weight > 0)
            .max_by_key(|(weight, word)| (*weight, usize::MAX - word));
        found.extend(best.map(|(weight, word)| Match { place, word, weight }));
    }
    found.sort_by_key(|found| found.place.start);
    found.truncate(MAX_MATCHES);
    found
}

fn each_word(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let from = text.get(rest..)?;
        let start = rest + from.find(char::is_alphanumeric)?;
        let word = text.get(start..)?;
        let end = word.find(|c: char| !c.is_alphanumeric()).map_or(text.len(), |at| start + at);
        rest = end;
        Some(start..end)
    })
}

/// The stretch that holds the most words of the question, each counted once; of several, the first.
fn best(text: &str, matches: &[Match]) -> Option<Range<usize>> {
    let mut best: Option<(usize, Range<usize>)> = None;
    for (index, first) in matches.iter().enumerate() {
        let (mut units, mut at) = (0, first.place.start);
        let mut weights: Vec<(usize, usize)> = Vec::new();
        let mut end = first.place.end;
        for found in matches.iter().skip(index) {
            units += utf16(text.get(at..found.place.end).unwrap_or_default());
            at = at.max(found.place.end);
            if units > SNIPPET - 2 && found.place.start != first.place.start {
                break;
            }
            match weights.iter_mut().find(|(word, _)| *word == found.word) {
                Some((_, weight)) if *weight >= found.weight => continue,
                Some((_, weight)) => *weight = found.weight,
                None => weights.push((found.word, found.weight)),
            }
            end = found.place.end;
        }
        let sum: usize = weights.iter().map(|(_, weight)| weight).sum();
        if best.as_ref().is_none_or(|(most, _)| sum > *most) {
            best = Some((sum, first.place.start..end));
        }
    }
    best.map(|(_, place)| place)
}

/// As much around a stretch as fits, as far as possible the same on both sides.
fn window(text: &str, best: &Range<usize>) -> Range<usize> {
    if utf16(text) <= SNIPPET {
        return 0..text.len();
    }
    let inside = utf16(text.get(best.clone()).unwrap_or_default()).min(SNIPPET - 2);
    let spare = SNIPPET - 2 - inside;
    let after = utf16(text.get(best.end..).unwrap_or_default());
    let before = utf16(text.get(..best.start).unwrap_or_default());
    let lead = (spare / 2).max(spare.saturating_sub(after)).min(before);
    let start = back(text, best.start, lead);
    let end = forth(text, start, SNIPPET - 2);
    // A word is not cut where a blank is near.
    let start = match text.get(start..best.start) {
        Some(part) if start > 0 => {
            part.find(char::is_whitespace).filter(|at| *at <= NEAR).map_or(start, |at| start + at + 1)
        }
        _ => start,
    };
    let end = match text.get(best.end..end) {
        Some(part) if end < text.len() => part
            .rfind(char::is_whitespace)
            .filter(|at| part.len() - at <= NEAR)
            .map_or(end, |at| best.end + at),
        _ => end,
    };
    text.get(start..end).map_or(best.clone(), |_| start..end)
}

/// The place so many units before another.
fn back(text: &str, from: usize, units: usize) -> usize {
    let mut left = units;
    let mut place = from;
    for (at, c) in text.get(..from).unwrap_or_default().char_indices().rev() {
        if c.len_utf16() > left {
            break;
        }
        left -= c.len_utf16();
        place = at;
    }
    place
}

/// The place so many units after another.
fn forth(text: &str, from: usize, units: usize) -> usize {
    let mut left = units;
    for (at, c) in text.get(from..).unwrap_or_default().char_indices() {
        if c.len_utf16() > left {
            return from + at;
        }
        left -= c.len_utf16();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_ends_between_characters() {
        assert_eq!(beginning(&"a".repeat(900)).text.len(), 700);
        assert_eq!(beginning(&format!("x{}", "🦀".repeat(400))).text.chars().count(), 350);
    }

    #[test]
    fn the_match_is_in_the_snippet_wherever_it_stands() {
        let filler = "lorem ipsum dolor ".repeat(50);
        for (before, after) in [("", filler.as_str()), (&filler, &filler), (&filler, "")] {
            for (word, question) in [
                ("walnut", "where is the walnut"),
                ("Rechnungen", "Rechnung"),
                ("Рейкьявике", "рейкьявик"),
                ("rollback", "how do I roll back"),
                ("Zahlungsverkehr", "Verkehr"),
                ("東京の本社", "本社"),
                ("🦀crab🦀", "crab"),
            ] {
                let text = format!("{before}{word} {after}");
                let snippet = around(&text, question);
                assert!(snippet.text.contains(word.trim_matches('🦀')), "{question}: {}", snippet.text);
                assert!(utf16(&snippet.text) <= SNIPPET, "{}", utf16(&snippet.text));
                assert_eq!(snippet.text.starts_with(CUT), !before.is_empty());
                assert_eq!(snippet.text.ends_with(CUT), !after.is_empty());
                let shown: String = snippet.text.chars().skip(snippet.focus).take(2).collect();
                assert!(word.contains(&shown), "{question}: the focus is at {shown}");
            }
        }
    }

    #[test]
    fn most_words_together_count_more_than_one_alone() {
        let filler = "x ".repeat(600);
        let text = format!("the harbour. {filler} the harbour of rome is closed. {filler}");
        let snippet = around(&text, "is the harbour of Rome closed");
        assert!(snippet.text.contains("rome is closed"), "{}", snippet.text);
        let wide = "🦀".repeat(900);
        let snippet = around(&format!("{wide} walnut {wide}"), "walnut");
        assert!(snippet.text.contains("walnut") && utf16(&snippet.text) <= SNIPPET);
        assert_eq!(around("short walnut", "walnut").text, "short walnut");
        assert_eq!(around(&"a".repeat(900), "walnut"), beginning(&"a".repeat(900)));
        assert_eq!(around("", "").text, "");
    }
}
