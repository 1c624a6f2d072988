//! A server behind a line that delays, cuts, corrupts, drops, doubles and reorders the bytes of its replies, on every
//! wire.
//!
//! The conversation is fixed: a text and a call that writes a file, then a text. A [`Case`] says where and how it is
//! disturbed; [`BadLine`] plays it, once, and every later attempt is undisturbed. [`Case::is_whole`] and
//! [`Case::is_plausible`] say what may come of it: a fault that only delays or ends the bytes changes nothing. A changed
//! byte cannot always be noticed, because the wires have no checksums: it may change as many letters, but not make a
//! short call of a long one.

mod case_results;
mod conversation;
mod fault;
mod line;

pub use case_results::CaseResults;
pub use conversation::{CONTENT, FILE, Framing, PROMPT, TEXTS};
pub use fault::Fault;
pub use line::BadLine;

use conversation::{clean, events};

use crate::chance::Chance;
use crate::wires::Wire;

/// Where and how one conversation is disturbed.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub wire: Wire,
    pub framing: Framing,
    pub fault: Fault,
    /// The reply that is disturbed, from 0.
    pub reply: usize,
    /// The byte of the reply, or for faults of whole events the event.
    pub at: usize,
    pub seed: u64,
}

impl Case {
    /// Every case of a fault.
    pub fn all(wire: Wire, framing: Framing, fault: Fault, seed: u64) -> Vec<Self> {
        let count = |reply| match fault.is_of_events() {
            true => events(wire, reply, 0).len(),
            false => clean(wire, framing, reply, 0).len(),
        };
        let case = |reply, at| Self { wire, framing, fault, reply, at, seed };
        (0..2).flat_map(|reply| (0..count(reply)).map(move |at| case(reply, at))).collect()
    }

    /// The cases of a wire whose names start with `name`.
    pub fn named(wire: Wire, name: &str, seed: u64) -> Vec<Self> {
        let all = Framing::ALL.into_iter().flat_map(|framing| {
            Fault::ALL.into_iter().flat_map(move |fault| Self::all(wire, framing, fault, seed))
        });
        all.filter(|case| format!("{}:", case.name()).starts_with(&format!("{name}:"))).collect()
    }

    /// Names the case among those of its seed.
    pub fn name(self) -> String {
        let Self { wire, framing, fault, reply, at, .. } = self;
        format!("{}:{framing:?}:{fault:?}:{reply}:{at}", wire.name())
    }

    /// Choices inside the case depend on nothing but the seed and its name.
    pub fn chance(self) -> Chance {
        let mixed = self.name().bytes().fold(self.seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        });
        Chance::new(mixed)
    }

    /// How many letters the changed bytes may change: an escape counts twice.
    fn allowed(self) -> usize {
        2 * fault::disturb(self).touched
    }

    /// Whether the content of the written file can be that of a call that arrived as a whole.
    pub fn is_whole(self, content: &str) -> bool {
        if self.fault.keeps_bytes() {
            return content == CONTENT;
        }
        // A doubled or moved piece cannot be noticed where arguments come in pieces and only once.
        let comes_once = matches!(self.wire, Wire::Chat | Wire::Messages);
        let allowed = if self.fault.is_of_events() { 0 } else { self.allowed() };
        (self.fault.is_of_events() && comes_once) || distance(content, CONTENT, allowed) <= allowed
    }

    /// Whether these texts of the replies are the sent ones up to the changed bytes. Pieces may be missing where a
    /// change hid an event, but nothing comes twice that was sent once.
    pub fn is_plausible(self, replies: std::ops::Range<usize>, said: &str) -> bool {
        let texts = &TEXTS[replies];
        if self.fault.keeps_bytes() {
            return said == joined(texts.iter().map(|pieces| pieces.concat()));
        }
        if self.fault.is_of_events() {
            return said.len() <= 2 * TEXTS.concat().concat().len();
        }
        // Whole pieces may have changed places: the wires number no text.
        let all = joined(texts.iter().map(|pieces| pieces.concat()));
        if self.fault == Fault::Swap && letters(said) == letters(&all) {
            return true;
        }
        let (count, allowed) = (texts.concat().len(), self.allowed());
        (0_u32..1 << count).any(|kept| {
            let mut at = 0;
            let replies = texts.iter().map(|pieces| {
                let is_kept = |_: &&&str| {
                    at += 1;
                    kept & (1 << (at - 1)) != 0
                };
                pieces.iter().filter(is_kept).copied().collect::<String>()
            });
            distance(said, &joined(replies), allowed) <= allowed
        })
    }

    /// How many times the call may be told: without ids nobody can know that it was meant once.
    pub fn most_calls(self) -> usize {
        1 + usize::from(self.fault == Fault::DoubleEvent && self.wire == Wire::Gemini)
    }
}

fn joined(replies: impl Iterator<Item = String>) -> String {
    replies.filter(|reply| !reply.is_empty()).collect::<Vec<_>>().join("\n")
}

fn letters(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters
}

/// How many letters have to be added, removed or replaced; more than `limit` is not counted exactly.
fn distance(left: &str, right: &str, limit: usize) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    if left.len().abs_diff(right.len()) > limit {
        return limit + 1;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_content_and_text_that_comes_twice_are_found_out() {
        let case =
            |fault| Case { wire: Wire::Chat, framing: Framing::Chunked, fault, reply: 0, at: 900, seed: 1 };
        let half = CONTENT.get(..CONTENT.len() / 2).unwrap();
        for fault in Fault::ALL.into_iter().filter(|fault| !fault.is_of_events()) {
            assert!(case(fault).is_whole(CONTENT) && !case(fault).is_whole(half), "{fault:?}");
            let said = "I am going to write the note.\nEvery word is written.";
            assert!(case(fault).is_plausible(0..2, said), "{fault:?}");
            let twice = "I am going to write I am going to write the note.\nEvery word is written.";
            assert!(!case(fault).is_plausible(0..2, twice), "{fault:?}");
        }
        let changed = CONTENT.replace("gamma", "gamna");
        assert!(case(Fault::Corrupt).is_whole(&changed) && !case(Fault::Cut).is_whole(&changed));
        let lost = "I am going the note.\nEvery word is written.";
        assert!(case(Fault::Drop).is_plausible(0..2, lost) && !case(Fault::Cut).is_plausible(0..2, lost));
        assert_eq!(
            (distance("kitten", "sitting", 9), distance("", "ab", 9), distance("abcdef", "", 2)),
            (3, 2, 3)
        );
    }

    #[test]
    fn a_case_repeats_itself() {
        for wire in Wire::ALL {
            for fault in Fault::ALL {
                let cases = Case::all(wire, Framing::Length, fault, 7);
                let case = cases[cases.len() / 2];
                let (once, again) = (fault::disturb(case), fault::disturb(case));
                assert_eq!(once.first, again.first, "{}", case.name());
            }
        }
    }
}
