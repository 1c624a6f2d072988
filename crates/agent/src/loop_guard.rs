//! Detects loops of the model.
//!
//! A loop is the same call with the same result, or the same sentences repeated. A call whose
//! result changes (polling a build) is progress and never counts.

use std::collections::{HashMap, HashSet, VecDeque};

use pollux_domain::JsonObject;
use sha2::{Digest, Sha256};

/// How many calls are remembered.
const REMEMBERED_CALLS: usize = 25;
/// The longest cycle of calls that is looked for.
const LONGEST_CYCLE: usize = 5;
/// How often a cycle must repeat; with one call: five times the same.
const REPEATS: usize = 5;

/// Length of the text window that is compared.
const WINDOW: usize = 50;
/// How much text is remembered at least, in characters.
const REMEMBERED_TEXT: usize = 5_000;
/// How often the same window must occur without overlapping itself (a ruler is one long run), …
const WINDOW_REPEATS: usize = 10;
/// … at most this far apart on average, …
const MAX_SPACING: usize = WINDOW * 5;
/// … with at most this many different texts in between.
const MAX_DISTINCT_GAPS: usize = 5;

/// A line of structure that is longer than this is looked at like prose.
const LONG_LINE: usize = 2_000;

type Hash = [u8; 32];

/// Watches one turn.
#[derive(Debug, Default)]
pub(crate) struct LoopGuard {
    calls: VecDeque<Seen>,
    text: TextWatch,
}

#[derive(Debug)]
struct Seen {
    call: Hash,
    /// Unknown until the call has run.
    result: Option<Hash>,
}

impl LoopGuard {
    /// Checks a call before it runs; `true` if it would only repeat earlier ones.
    pub(crate) fn repeats(&mut self, name: &str, args: &JsonObject) -> bool {
        let call = hash(&[name.as_bytes(), &serde_json::to_vec(args).unwrap_or_default()]);
        self.calls.push_back(Seen { call, result: None });
        if self.calls.len() > REMEMBERED_CALLS {
            self.calls.pop_front();
        }
        (1..=LONGEST_CYCLE).any(|cycle| self.is_cycle(cycle))
    }

    /// A call gave this result. `back` counts from the newest call, 0 being the newest.
    pub(crate) fn result(&mut self, back: usize, result: &[u8]) {
        let index = self.calls.len().checked_sub(back + 1);
        if let Some(seen) = index.and_then(|index| self.calls.get_mut(index)) {
            seen.result = Some(hash(&[result]));
        }
    }

    /// A reply starts; the text of a discarded attempt does not count.
    pub(crate) fn reply_begins(&mut self) {
        self.text = TextWatch::default();
    }

    /// Checks a piece of text; returns the repeated passage if the model loops.
    pub(crate) fn chants(&mut self, text: &str) -> Option<String> {
        self.text.push(text)
    }

    fn is_cycle(&self, cycle: usize) -> bool {
        let length = cycle * REPEATS;
        let Some(start) = self.calls.len().checked_sub(length) else { return false };
        let tail: Vec<&Seen> = self.calls.range(start..).collect();
        tail.iter().zip(tail.iter().skip(cycle)).all(|(earlier, later)| {
            let same_result = match (&earlier.result, &later.result) {
                (Some(a), Some(b)) => a == b,
                // The newest calls have not run yet, so they have no results to compare.
                _ => true,
            };
            earlier.call == later.call && same_result
        })
    }
}

/// Looks for a repeated passage. Structure (code, tables, lists, headings) repeats by
/// nature and resets the watch.
#[derive(Debug, Default)]
struct TextWatch {
    text: Vec<char>,
    /// The number of characters dropped from the front of `text`.
    dropped: usize,
    /// Where each window was seen, by hash, as absolute positions.
    windows: HashMap<u64, Vec<usize>>,
    next: usize,
    in_code: bool,
    /// The beginning of the line under way, and its whole length.
    line: String,
    line_length: usize,
}

impl TextWatch {
    fn push(&mut self, piece: &str) -> Option<String> {
        for c in piece.chars() {
            if c == '\n' {
                self.end_line();
            } else {
                self.line_length += 1;
                if self.line.len() < 64 {
                    self.line.push(c);
                }
            }
            if !self.in_code {
                self.text.push(c);
            }
        }
        self.forget();
        // A line that turns out to be structure is forgotten at its end; until then it is not judged.
        if self.line_length <= LONG_LINE && is_structure(&self.line) { None } else { self.search() }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let long = std::mem::take(&mut self.line_length) > LONG_LINE;
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            self.in_code = !self.in_code;
            self.reset();
        } else if !long && is_structure(&line) {
            self.reset();
        }
    }

    fn reset(&mut self) {
        self.text.clear();
        self.windows.clear();
        self.dropped = 0;
        self.next = 0;
    }

    fn forget(&mut self) {
        // Done rarely and in bulk: per piece it would cost more than the search itself.
        if self.text.len() <= 2 * REMEMBERED_TEXT {
            return;
        }
        let excess = self.text.len() - REMEMBERED_TEXT;
        self.text.drain(..excess);
        self.dropped += excess;
        self.next = self.next.saturating_sub(excess);
        let oldest = self.dropped;
        self.windows.retain(|_, places| {
            places.retain(|place| *place >= oldest);
            !places.is_empty()
        });
    }

    fn search(&mut self) -> Option<String> {
        while self.next + WINDOW <= self.text.len() {
            let at = self.next;
            self.next += 1;
            let window = self.text.get(at..at + WINDOW)?;
            let key = window_key(window);
            let places = self.windows.entry(key).or_default();
            if places.last().is_some_and(|last| at + self.dropped < last + WINDOW) {
                continue;
            }
            places.push(at + self.dropped);
            if places.len() >= WINDOW_REPEATS {
                let recent: Vec<usize> = places.iter().rev().take(WINDOW_REPEATS).rev().copied().collect();
                if self.is_chant(&recent, window) {
                    return Some(window.iter().collect::<String>().trim().to_owned());
                }
            }
        }
        None
    }

    fn is_chant(&self, places: &[usize], window: &[char]) -> bool {
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return false };
        if (last - first) / (places.len() - 1) > MAX_SPACING {
            return false;
        }
        // Windows are compared by hash first; make sure it is really the same text.
        let same = |place: &usize| {
            place.checked_sub(self.dropped).and_then(|at| self.text.get(at..at + WINDOW)) == Some(window)
        };
        if !places.iter().all(same) {
            return false;
        }
        let gaps: HashSet<&[char]> = places
            .windows(2)
            .filter_map(|pair| match pair {
                [a, b] => self.text.get(a.checked_sub(self.dropped)?..b.checked_sub(self.dropped)?),
                _ => None,
            })
            .collect();
        gaps.len() <= MAX_DISTINCT_GAPS
    }
}

/// Whether a line belongs to a list, a table, a heading, data or indented code.
fn is_structure(line: &str) -> bool {
    if line.starts_with("    ") || line.starts_with('\t') {
        return true;
    }
    let line = line.trim_start();
    let mut chars = line.chars();
    match chars.next() {
        Some('|' | '#' | '>' | '{' | '}' | '[' | ']' | '\u{2500}'..='\u{257f}') => true,
        Some('-' | '*' | '+') => {
            chars.next().is_none_or(|c| c == ' ' || c == '-' || c == '*' || c == '+' || c == '=')
        }
        Some('=' | '_') => line.len() >= 3 && chars.all(|c| c == '=' || c == '_'),
        Some(c) if c.is_ascii_digit() => {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            rest.starts_with(". ") || rest.starts_with(") ")
        }
        _ => false,
    }
}

fn window_key(window: &[char]) -> u64 {
    window.iter().fold(0xcbf2_9ce4_8422_2325, |key, c| (key ^ u64::from(*c)).wrapping_mul(0x0100_0000_01b3))
}

fn hash(pieces: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update((piece.len() as u64).to_le_bytes());
        hasher.update(piece);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn args(n: u64) -> JsonObject {
        json!({"n": n}).as_object().unwrap().clone()
    }

    /// Feeds calls with results; the index of the call that was refused.
    fn refused(calls: &[(u64, &str)]) -> Option<usize> {
        let mut guard = LoopGuard::default();
        calls.iter().position(|(n, result)| {
            let found = guard.repeats("tool", &args(*n));
            guard.result(0, result.as_bytes());
            found
        })
    }

    #[test]
    fn the_fifth_identical_call_with_the_same_result_is_a_loop() {
        assert_eq!(refused(&[(1, "a"); 6]), Some(4));
    }

    #[test]
    fn a_cycle_of_two_calls_is_a_loop_too() {
        let calls: Vec<(u64, &str)> = (0..12).map(|n| (n % 2, "same")).collect();
        assert_eq!(refused(&calls), Some(9));
    }

    #[test]
    fn a_call_whose_result_changes_is_progress() {
        let texts: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let calls: Vec<(u64, &str)> = texts.iter().map(|text| (1, text.as_str())).collect();
        assert_eq!(refused(&calls), None);
    }

    #[test]
    fn different_calls_are_never_a_loop() {
        let calls: Vec<(u64, &str)> = (0..40).map(|n| (n, "same")).collect();
        assert_eq!(refused(&calls), None);
    }

    fn chanting(text: &str, piece: usize) -> bool {
        let mut guard = LoopGuard::default();
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(piece).any(|chunk| guard.chants(&chunk.iter().collect::<String>()).is_some())
    }

    #[test]
    fn the_same_sentence_again_and_again_is_a_chant_for_every_chunking() {
        let text = "I will now read the file and then I will fix the bug in it. ".repeat(15);
        for piece in [1, 7, 60, 10_000] {
            assert!(chanting(&text, piece), "chunks of {piece}");
        }
    }

    #[test]
    fn code_tables_lists_and_varied_prose_are_not() {
        let code =
            format!("```\n{}```\n", "    let x = foo(bar, baz, quux, corge, grault, garply);\n".repeat(40));
        let list = "- check the file and make sure that all of its tests pass\n".repeat(30);
        let table = "| one and the same cell text | one and the same cell text |\n".repeat(30);
        let prose: String =
            (0..60).map(|n| format!("Step {n} looks at module number {} of the tree. ", n * 7)).collect();
        for text in [&code, &list, &table, &prose] {
            assert!(!chanting(text, 13), "{text}");
        }
    }

    #[test]
    fn rulers_boxes_long_rows_and_plain_data_are_not() {
        let ruler = format!("Results:\n{}\n", "=".repeat(120));
        let dots = format!("Total {} 3\n", ".".repeat(200));
        let boxed = format!("┌{}┐\n│ x │\n", "─".repeat(200));
        let row = format!("|{}\n", " same cell text |".repeat(60));
        let matrix = format!("[\n{}]\n", "  [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],\n".repeat(40));
        let code = "    println!(\"the same line of code again and again\");\n".repeat(30);
        for text in [&ruler, &dots, &boxed, &row, &matrix, &code] {
            for piece in [1, 40, 100, 10_000] {
                assert!(!chanting(text, piece), "chunks of {piece}: {text}");
            }
        }
    }

    #[test]
    fn one_character_without_end_is_a_chant_and_so_is_an_endless_list_item() {
        assert!(chanting(&"a".repeat(2_000), 10));
        assert!(chanting(&format!("- {}", "and then I will try it once more, ".repeat(200)), 10));
    }

    #[test]
    fn a_reply_is_judged_without_what_a_void_attempt_said() {
        let mut guard = LoopGuard::default();
        assert_eq!(guard.chants("Look:\n```\nlet x"), None);
        guard.reply_begins();
        let text = "I will now read the file and then I will fix the bug in it. ".repeat(15);
        assert!(guard.chants(&text).is_some());
    }
}
