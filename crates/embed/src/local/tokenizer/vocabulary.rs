//! Tokens by their text, in flat arrays that are written to a file and used as they come back.

use super::packed::{Packed, Unpacked};

/// Tokens with their numbers.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::local) struct Vocabulary {
    text: Vec<u8>,
    /// Where each token ends in `text`.
    ends: Vec<u32>,
    /// An open hash table of numbers plus one; its length is a power of two.
    slots: Vec<u32>,
    longest: usize,
}

/// A hash that can be continued byte by byte (FNV-1a).
#[derive(Debug, Clone, Copy)]
pub(super) struct Hash(u32);

impl Hash {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(0x811c_9dc5).then(bytes)
    }

    pub(super) fn then(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)))
    }
}

impl Vocabulary {
    /// From tokens in the order of their numbers. Among equal tokens the last one is used.
    pub(super) fn new<'a>(tokens: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let count = tokens.len();
        let mut vocabulary = Self {
            text: Vec::new(),
            ends: Vec::with_capacity(count),
            slots: vec![0; (count * 2).next_power_of_two().max(2)],
            longest: 0,
        };
        for (id, token) in tokens.enumerate() {
            vocabulary.text.extend_from_slice(token.as_bytes());
            vocabulary.ends.push(u32::try_from(vocabulary.text.len()).unwrap_or(u32::MAX));
            vocabulary.longest = vocabulary.longest.max(token.len());
            let mask = vocabulary.slots.len() - 1;
            let mut slot = Hash::of(token.as_bytes()).0 as usize & mask;
            while vocabulary.slots[slot] != 0
                && vocabulary.token(vocabulary.slots[slot] - 1) != Some(token.as_bytes())
            {
                slot = (slot + 1) & mask;
            }
            vocabulary.slots[slot] = u32::try_from(id + 1).unwrap_or_default();
        }
        vocabulary
    }

    /// The bytes of the longest token.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    pub(super) fn token(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let from = if id == 0 { 0 } else { *self.ends.get(id - 1)? as usize };
        self.text.get(from..*self.ends.get(id)? as usize)
    }

    pub(super) fn id(&self, token: &str) -> Option<u32> {
        self.find(Hash::of(token.as_bytes()), &[], token.as_bytes())
    }

    /// The number of the token `prefix` + `rest`, whose hash is known.
    pub(super) fn find(&self, hash: Hash, prefix: &[u8], rest: &[u8]) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = hash.0 as usize & mask;
        // A full round only happens in a table that someone else wrote.
        for _ in 0..self.slots.len() {
            let id = self.slots.get(slot)?.checked_sub(1)?;
            if self.token(id)?.strip_prefix(prefix) == Some(rest) {
                return Some(id);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    pub(super) fn pack(&self, into: &mut Packed) {
        into.bytes(&self.text);
        into.numbers(&self.ends);
        into.numbers(&self.slots);
        into.number(u32::try_from(self.longest).unwrap_or(u32::MAX));
    }

    pub(super) fn unpack(from: &mut Unpacked) -> Option<Self> {
        let (text, ends, slots) = (from.bytes()?.to_vec(), from.numbers()?, from.numbers()?);
        let longest = from.number()? as usize;
        slots.len().is_power_of_two().then_some(Self { text, ends, slots, longest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_by_text_and_by_number_also_after_packing() {
        let words: Vec<String> = (0..1000).map(|n| format!("word{n}")).collect();
        let made = Vocabulary::new(words.iter().map(String::as_str));
        let mut packed = Packed::default();
        made.pack(&mut packed);
        let bytes = packed.finish();
        let read = Vocabulary::unpack(&mut Unpacked::new(&bytes)).unwrap();
        assert_eq!(made, read);
        for (id, word) in words.iter().enumerate() {
            let id = u32::try_from(id).unwrap();
            assert_eq!(read.id(word), Some(id));
            assert_eq!(read.token(id), Some(word.as_bytes()));
            let hash = Hash::of(b"wo").then(word.strip_prefix("wo").unwrap().as_bytes());
            assert_eq!(read.find(hash, b"wo", word.strip_prefix("wo").unwrap().as_bytes()), Some(id));
        }
        assert_eq!(read.id("word1000"), None);
        assert_eq!(read.token(1000), None);
        assert_eq!(read.longest(), 7);
        for cut in 0..bytes.len() {
            assert!(Vocabulary::unpack(&mut Unpacked::new(&bytes[..cut])).is_none(), "{cut}");
        }
    }
}
