//! Percent-encoding, as in addresses and in file names made from foreign names.

use crate::hex;

/// What stays as it is in any part of an address, next tos letters and digits.
pub const UNRESERVED: &[u8] = b"-_.~";
/// The same for the segments of a path.
pub const PATH: &[u8] = b"-_.~/";
/// The same for JavaScript's `encodeURIComponent`.
pub const COMPONENT: &[u8] = b"-_.!~*'()";

/// Every byte but ASCII letters, digits and `kept` as `%` with two upper-case digits.
pub fn encode(bytes: &[u8], kept: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push('%');
            text.push_str(&hex::encode(&[*byte]).to_ascii_uppercase());
        }
    }
    text
}

/// The bytes that an encoded text stands for. A `%` without two digits stays as it is.
pub fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let value = after.get(..2).filter(|_| *first == b'%').and_then(hex::byte);
        bytes.push(value.unwrap_or(*first));
        rest = if value.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_keeps_its_own_signs() {
        let text = "a-b_c.d~e/f!g*h'i(j)k l%é";
        for (kept, expected) in [
            (UNRESERVED, "a-b_c.d~e%2Ff%21g%2Ah%27i%28j%29k%20l%25%C3%A9"),
            (PATH, "a-b_c.d~e/f%21g%2Ah%27i%28j%29k%20l%25%C3%A9"),
            (COMPONENT, "a-b_c.d~e%2Ff!g*h'i(j)k%20l%25%C3%A9"),
        ] {
            assert_eq!(encode(text.as_bytes(), kept), expected);
            assert_eq!(decode(expected), text.as_bytes());
        }
    }

    #[test]
    fn invalid_encodings_stay_unchanged() {
        for (text, expected) in
            [("50%", "50%"), ("%4", "%4"), ("%zz%41", "%zzA"), ("%+1", "%+1"), ("%%41", "%A")]
        {
            assert_eq!(String::from_utf8_lossy(&decode(text)), expected, "{text}");
        }
    }
}
