//! Byte-pair encoding as SentencePiece does it: spaces become `▁`, then the best-ranked neighbours are joined.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::packed::{Packed, Unpacked};
use super::vocabulary::Vocabulary;

const SPACE: char = '▁';
/// Marks a symbol that was joined to its left neighbour.
const GONE: u32 = u32::MAX;
/// Maximum number of cached words while many texts are encoded.
const MAX_MEMO: usize = 1 << 14;

/// The rules of one model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pairs {
    vocabulary: Vocabulary,
    pub(super) unknown: Option<u32>,
    /// The numbers of `<0x00>` to `<0xFF>`, or nothing.
    bytes: Vec<u32>,
    /// Left, right and joined token, by rank.
    merges: Vec<u32>,
    /// An open hash table of ranks plus one.
    slots: Vec<u32>,
    /// Whether no token reaches across the beginning of a word, so that words can be encoded one by one.
    by_words: bool,
}

/// Cache of encoded words.
pub(in crate::local) type Memo = HashMap<Box<str>, Box<[u32]>>;

impl Pairs {
    /// `None` if a merge names a token that does not exist.
    pub(super) fn new<'a>(
        vocabulary: Vocabulary,
        unknown: Option<u32>,
        byte_fallback: bool,
        merges: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
    ) -> Option<Self> {
        let mut slots = vec![0; (merges.len() * 2).next_power_of_two().max(2)];
        let mut flat: Vec<u32> = Vec::with_capacity(merges.len() * 3);
        let mask = slots.len() - 1;
        for (rank, (left, right)) in merges.enumerate() {
            let joined = vocabulary.id(&format!("{left}{right}"))?;
            let (left, right) = (vocabulary.id(left)?, vocabulary.id(right)?);
            flat.extend([left, right, joined]);
            let mut slot = mixed(left, right) & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = u32::try_from(rank + 1).ok()?;
        }
        let all_bytes: Option<Vec<u32>> =
            (0..=255_u8).map(|byte| vocabulary.id(&format!("<0x{byte:02X}>"))).collect();
        let bytes = all_bytes.filter(|_| byte_fallback).unwrap_or_default();
        let by_words = flat.as_chunks::<3>().0.iter().all(|[_, _, joined]| {
            let token = vocabulary.token(*joined).unwrap_or_default();
            let text = std::str::from_utf8(token).unwrap_or_default();
            !text.trim_start_matches(SPACE).contains(SPACE)
        });
        Some(Self { vocabulary, unknown, bytes, merges: flat, slots, by_words })
    }

    pub(super) fn encode(&self, text: &str, memo: &mut Memo, ids: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        let mut all = String::with_capacity(text.len() + 16);
        all.push(SPACE);
        text.chars().for_each(|c| all.push(if c == ' ' { SPACE } else { c }));
        if !self.by_words {
            return self.encode_word(&all, ids);
        }
        let mut rest = all.as_str();
        while !rest.is_empty() {
            let inside = rest.trim_start_matches(SPACE);
            let end = inside.find(SPACE).map_or(rest.len(), |at| rest.len() - inside.len() + at);
            let (word, tail) = rest.split_at(end);
            rest = tail;
            if let Some(known) = memo.get(word) {
                ids.extend_from_slice(known);
                continue;
            }
            let before = ids.len();
            self.encode_word(word, ids);
            if memo.len() < MAX_MEMO {
                memo.insert(word.into(), ids.get(before..).unwrap_or_default().into());
            }
        }
    }

    fn encode_word(&self, word: &str, ids: &mut Vec<u32>) {
        let before = ids.len();
        let mut letter = [0; 4];
        for c in word.chars() {
            let letter = c.encode_utf8(&mut letter);
            if let Some(id) = self.vocabulary.id(letter) {
                ids.push(id);
            } else if !self.bytes.is_empty() {
                ids.extend(letter.bytes().filter_map(|byte| self.bytes.get(usize::from(byte))));
            } else if let Some(unknown) = self.unknown
                && (ids.len() == before || ids.last() != Some(&unknown))
            {
                ids.push(unknown);
            }
        }
        self.join(ids, before);
    }

    /// Merges adjacent pairs, best rank first and leftmost among equals, until none is left.
    fn join(&self, ids: &mut Vec<u32>, start: usize) {
        let symbols = ids.get_mut(start..).unwrap_or_default();
        let count = symbols.len();
        let mut next: Vec<usize> = (1..=count).collect();
        let mut previous: Vec<usize> = (0..count).map(|at| at.wrapping_sub(1)).collect();
        let mut queue = BinaryHeap::new();
        let offer = |queue: &mut BinaryHeap<_>, symbols: &[u32], left: usize, right: usize| {
            if let (Some(a), Some(b)) = (symbols.get(left), symbols.get(right))
                && let Some(rank) = self.rank(*a, *b)
            {
                queue.push(Reverse((rank, left, right)));
            }
        };
        (1..count).for_each(|at| offer(&mut queue, symbols, at - 1, at));
        while let Some(Reverse((rank, left, right))) = queue.pop() {
            let [a, b, joined] = self.merge(rank);
            // The pair may have changed since it was seen.
            if next[left] != right || symbols[left] != a || symbols[right] != b {
                continue;
            }
            symbols[left] = joined;
            symbols[right] = GONE;
            next[left] = next[right];
            if next[left] < count {
                previous[next[left]] = left;
            }
            offer(&mut queue, symbols, previous[left], left);
            offer(&mut queue, symbols, left, next[left]);
        }
        let mut at = start;
        ids.retain(|id| {
            at += 1;
            at <= start || *id != GONE
        });
    }

    fn merge(&self, rank: u32) -> [u32; 3] {
        self.merges.as_chunks().0.get(rank as usize).copied().unwrap_or([GONE; 3])
    }

    fn rank(&self, left: u32, right: u32) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = mixed(left, right) & mask;
        for _ in 0..self.slots.len() {
            let rank = self.slots.get(slot)?.checked_sub(1)?;
            let [a, b, _] = self.merge(rank);
            if (a, b) == (left, right) {
                return Some(rank);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    pub(super) fn pack(&self, into: &mut Packed) {
        self.vocabulary.pack(into);
        into.number(self.unknown.unwrap_or(GONE));
        into.numbers(&self.bytes);
        into.numbers(&self.merges);
        into.numbers(&self.slots);
        into.number(u32::from(self.by_words));
    }

    pub(super) fn unpack(from: &mut Unpacked) -> Option<Self> {
        let vocabulary = Vocabulary::unpack(from)?;
        let unknown = Some(from.number()?).filter(|unknown| *unknown != GONE);
        let (bytes, merges, slots) = (from.numbers()?, from.numbers()?, from.numbers()?);
        let by_words = from.number()? != 0;
        let sound = slots.len().is_power_of_two() && matches!(bytes.len(), 0 | 256);
        sound.then_some(Self { vocabulary, unknown, bytes, merges, slots, by_words })
    }
}

/// Spreads pairs over a table.
fn mixed(left: u32, right: u32) -> usize {
    let both = u64::from(left) << 32 | u64::from(right);
    (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}
