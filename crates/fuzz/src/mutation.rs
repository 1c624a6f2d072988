//! Changes of inputs, the same ones for the same seed.

/// What a mutation may insert, in libFuzzer's format: a quoted token per line, with `\"`, `\\` and `\xNN`.
pub fn dictionary(text: &str) -> Vec<Vec<u8>> {
    text.lines().filter_map(|line| token(line.trim().strip_prefix('"')?.strip_suffix('"')?)).collect()
}

fn token(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match (byte, byte == b'\\') {
            (_, true) => match rest.next()? {
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                other => other,
            },
            (byte, false) => byte,
        });
    }
    Some(bytes)
}

/// A source of changes.
pub struct Mutator {
    state: u64,
}

impl Mutator {
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// A changed copy of one of the seeds, with pieces of the others and of the dictionary.
    pub fn next(&mut self, seeds: &[Vec<u8>], dictionary: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.pick(seeds).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, seeds, dictionary);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], dictionary: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + 1 + self.below(16)).min(bytes.len());
        match self.below(8) {
            0 => {
                let bit = 1 << self.below(8);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
            }
            1 => {
                let value = self.below(256) as u8;
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = value);
            }
            2 => drop(bytes.drain(at..end.max(at))),
            3 => {
                let copy = bytes.get(at..end).unwrap_or_default().to_vec();
                drop(bytes.splice(at..at, copy));
            }
            4 => bytes.truncate(at),
            5 => {
                let other = self.pick(seeds).cloned().unwrap_or_default();
                let from = self.below(other.len() + 1);
                let piece = other.into_iter().skip(from).take(1 + self.below(64));
                drop(bytes.splice(at..at, piece.collect::<Vec<u8>>()));
            }
            _ => {
                let token = self.pick(dictionary).cloned().unwrap_or_default();
                let upto = if self.below(2) == 0 { at } else { end.max(at) };
                drop(bytes.splice(at..upto, token));
            }
        }
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// A number below the limit; 0 for none.
    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 16).unwrap_or_default().checked_rem(limit).unwrap_or_default()
    }
}
