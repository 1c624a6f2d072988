//! Short forms of texts that are the same on every machine.

use pollux_domain::hex;
use sha2::{Digest, Sha256};

const BASE_62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn hash(parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        // Keeps `ab` + `c` and `a` + `bc` apart.
        hasher.update([0]);
    }
    hasher.finalize().into()
}

/// The first digits of the texts' hash.
pub(super) fn hexadecimal(parts: &[&str], digits: usize) -> String {
    hex::encode(&hash(parts)).chars().take(digits).collect()
}

/// The same in letters and digits, of which at most 32 are available.
pub(super) fn base_62(parts: &[&str], digits: usize) -> String {
    let bytes = hash(parts).into_iter().take(digits);
    bytes.filter_map(|byte| BASE_62.get(usize::from(byte) % 62)).map(|digit| char::from(*digit)).collect()
}
