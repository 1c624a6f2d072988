//! Numbers with their nouns.

use std::fmt::Display;

/// `1 request`, `2 requests`; for nouns that take an `s`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}
