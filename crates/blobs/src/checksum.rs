//! Checksums that travel with objects.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pollux_domain::hex;
use ring::digest::{Context, SHA256, digest};

/// CRC-32C, bit by bit reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Which sum a store uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChecksumKind {
    /// In hexadecimal digits.
    Sha256,
    /// In base64, as Google writes it.
    Crc32c,
}

/// A sum in the making.
pub(crate) enum Checksum {
    Sha256(Box<Context>),
    Crc32c(u32),
}

impl Checksum {
    pub(crate) fn new(kind: ChecksumKind) -> Self {
        match kind {
            ChecksumKind::Sha256 => Self::Sha256(Box::new(Context::new(&SHA256))),
            ChecksumKind::Crc32c => Self::Crc32c(!0),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(context) => context.update(bytes),
            Self::Crc32c(sum) => *sum = bytes.iter().fold(*sum, |sum, byte| step(sum, *byte)),
        }
    }

    pub(crate) fn finish(self) -> String {
        match self {
            Self::Sha256(context) => hex::encode(context.finish().as_ref()),
            Self::Crc32c(sum) => STANDARD.encode((!sum).to_be_bytes()),
        }
    }
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest(&SHA256, bytes).as_ref())
}

fn step(sum: u32, byte: u8) -> u32 {
    let index = usize::from(sum.to_le_bytes()[0] ^ byte);
    TABLE.get(index).copied().unwrap_or_default() ^ (sum >> 8)
}

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_equal_the_published_ones() {
        let sum = |kind, text: &str| {
            let mut sum = Checksum::new(kind);
            let (first, second) = text.as_bytes().split_at(text.len() / 2);
            sum.update(first);
            sum.update(second);
            sum.finish()
        };
        let crc = STANDARD.encode(0xe306_9283_u32.to_be_bytes());
        assert_eq!(sum(ChecksumKind::Crc32c, "123456789"), crc);
        assert_eq!(sum(ChecksumKind::Crc32c, ""), "AAAAAA==");
        assert_eq!(sum(ChecksumKind::Sha256, "abc"), sha256(b"abc"));
        assert!(sha256(b"abc").starts_with("ba7816bf"));
    }
}
