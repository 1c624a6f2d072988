//! Replacing in a file that is not valid text: bytes for bytes.

use crate::encoding::{Decoded, LineEnd};

/// The new bytes and how often they changed; `None` if `old` does not occur exactly.
pub(super) fn replace(bytes: &[u8], decoded: &Decoded, old: &str, new: &str) -> Option<(Vec<u8>, usize)> {
    let line_end = LineEnd::of(&decoded.text);
    let needle = decoded.encoding.encode_bare(&line_end.apply(old));
    let fresh = decoded.encoding.encode_bare(&line_end.apply(new));
    let unit = decoded.encoding.unit();
    let mut result = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    let mut count = 0;
    while !rest.is_empty() {
        if rest.starts_with(&needle) {
            result.extend_from_slice(&fresh);
            rest = rest.get(needle.len()..).unwrap_or_default();
            count += 1;
        } else {
            // Characters begin at multiples of the unit; the mark at the start is as long as one.
            let (kept, after) = rest.split_at(unit.min(rest.len()));
            result.extend_from_slice(kept);
            rest = after;
        }
    }
    (count > 0).then_some((result, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::decode;

    #[test]
    fn bytes_that_are_no_text_survive() {
        let bytes = b"caf\xe9 = one\r\nx = one\r\n";
        let decoded = decode(bytes.to_vec());
        let (after, count) = replace(bytes, &decoded, "one\nx", "two\ny").unwrap();
        assert_eq!(count, 1);
        assert_eq!(after, b"caf\xe9 = two\r\ny = one\r\n");
        assert_eq!(replace(bytes, &decoded, "café", "tea"), None);
    }

    #[test]
    fn wide_characters_are_only_found_where_they_begin() {
        // A lone surrogate makes it invalid; "ab" must not be found across two units.
        let bytes = [0xff, 0xfe, 0x00, 0xd8, b'x', b'a', 0x00, b'b', b'a', 0, b'b', 0];
        let decoded = decode(bytes.to_vec());
        assert!(!decoded.is_lossless);
        let (after, count) = replace(&bytes, &decoded, "ab", "z").unwrap();
        assert_eq!(count, 1);
        assert!(after.ends_with(&[0x00, b'b', b'z', 0]));
    }
}
