//! Decodes and encodes file contents: byte order marks, encodings and line endings.

use std::borrow::Cow;

/// How a file's bytes mean text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf8WithBom,
    Utf16Le,
    Utf16Be,
    Utf32Le,
    Utf32Be,
}

/// The line ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnd {
    Lf,
    CrLf,
}

/// A decoded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Without the byte order mark; line ends as in the file.
    pub(crate) text: String,
    pub(crate) encoding: Encoding,
    /// False if some bytes were not valid and became replacement characters.
    pub(crate) is_lossless: bool,
}

impl Encoding {
    /// Detects the encoding from the first bytes.
    pub(crate) fn detect(bytes: &[u8]) -> Self {
        match bytes {
            [0xff, 0xfe, 0, 0, ..] => Self::Utf32Le,
            [0, 0, 0xfe, 0xff, ..] => Self::Utf32Be,
            [0xff, 0xfe, ..] => Self::Utf16Le,
            [0xfe, 0xff, ..] => Self::Utf16Be,
            [0xef, 0xbb, 0xbf, ..] => Self::Utf8WithBom,
            _ => Self::Utf8,
        }
    }

    fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 => &[],
            Self::Utf8WithBom => &[0xef, 0xbb, 0xbf],
            Self::Utf16Le => &[0xff, 0xfe],
            Self::Utf16Be => &[0xfe, 0xff],
            Self::Utf32Le => &[0xff, 0xfe, 0, 0],
            Self::Utf32Be => &[0, 0, 0xfe, 0xff],
        }
    }

    /// How many bytes make one unit.
    pub(crate) fn unit(self) -> usize {
        match self {
            Self::Utf8 | Self::Utf8WithBom => 1,
            Self::Utf16Le | Self::Utf16Be => 2,
            Self::Utf32Le | Self::Utf32Be => 4,
        }
    }

    /// The bytes of a complete file with this text.
    pub(crate) fn encode(self, text: &str) -> Vec<u8> {
        // A text that brings its own mark does not get a second one.
        let text = if self == Self::Utf8 { text } else { text.strip_prefix('\u{feff}').unwrap_or(text) };
        let mut bytes = self.mark().to_vec();
        bytes.extend(self.encode_bare(text));
        bytes
    }

    /// The bytes of a piece of text, without a mark.
    pub(crate) fn encode_bare(self, text: &str) -> Vec<u8> {
        match self {
            Self::Utf8 | Self::Utf8WithBom => text.as_bytes().to_vec(),
            Self::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Self::Utf32Le => text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
            Self::Utf32Be => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
        }
    }
}

/// Decodes a file. Never fails: invalid bytes become replacement characters.
pub(crate) fn decode(bytes: Vec<u8>) -> Decoded {
    let encoding = Encoding::detect(&bytes);
    let body = bytes.get(encoding.mark().len()..).unwrap_or_default();
    let (text, is_lossless) = match encoding {
        Encoding::Utf8 => match String::from_utf8(bytes) {
            Ok(text) => (text, true),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
        },
        Encoding::Utf8WithBom => match String::from_utf8_lossy(body) {
            Cow::Borrowed(text) => (text.to_owned(), true),
            Cow::Owned(text) => (text, false),
        },
        Encoding::Utf16Le => from_utf16(body, u16::from_le_bytes),
        Encoding::Utf16Be => from_utf16(body, u16::from_be_bytes),
        Encoding::Utf32Le => from_utf32(body, u32::from_le_bytes),
        Encoding::Utf32Be => from_utf32(body, u32::from_be_bytes),
    };
    Decoded { text, encoding, is_lossless }
}

fn from_utf16(body: &[u8], join: fn([u8; 2]) -> u16) -> (String, bool) {
    let (pairs, rest) = body.as_chunks::<2>();
    let mut is_lossless = rest.is_empty();
    let mut text: String = char::decode_utf16(pairs.iter().map(|pair| join(*pair)))
        .map(|unit| {
            unit.unwrap_or_else(|_| {
                is_lossless = false;
                char::REPLACEMENT_CHARACTER
            })
        })
        .collect();
    if !rest.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    (text, is_lossless)
}

fn from_utf32(body: &[u8], join: fn([u8; 4]) -> u32) -> (String, bool) {
    let (units, rest) = body.as_chunks::<4>();
    let mut is_lossless = rest.is_empty();
    let mut text: String = units
        .iter()
        .map(|unit| {
            char::from_u32(join(*unit)).unwrap_or_else(|| {
                is_lossless = false;
                char::REPLACEMENT_CHARACTER
            })
        })
        .collect();
    if !rest.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    (text, is_lossless)
}

impl LineEnd {
    /// The most frequent line ending of a text; `Lf` for a text without line endings.
    ///
    /// Upstream calls a file CRLF if it holds any; one stray line should not convert a whole file.
    pub(crate) fn of(text: &str) -> Self {
        let crlf = text.matches("\r\n").count();
        let all = text.matches('\n').count();
        if crlf > 0 && crlf * 2 >= all { Self::CrLf } else { Self::Lf }
    }

    /// The text with every line end in this style.
    pub(crate) fn apply(self, text: &str) -> String {
        let plain = normalised(text);
        match self {
            Self::Lf => plain.into_owned(),
            Self::CrLf => plain.replace('\n', "\r\n"),
        }
    }
}

/// The text with `\n` as its only line end.
pub(crate) fn normalised(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Encoding; 6] = [
        Encoding::Utf8,
        Encoding::Utf8WithBom,
        Encoding::Utf16Le,
        Encoding::Utf16Be,
        Encoding::Utf32Le,
        Encoding::Utf32Be,
    ];

    #[test]
    fn every_encoding_survives_a_round_trip() {
        for encoding in ALL {
            let text = "grün €\r\n𝄞\n";
            let decoded = decode(encoding.encode(text));
            assert_eq!(decoded, Decoded { text: text.to_owned(), encoding, is_lossless: true });
        }
    }

    #[test]
    fn broken_bytes_are_noticed() {
        for bytes in [
            &b"a\xffb"[..],
            b"\xff\xfea",
            b"\xff\xfe\x00\xd8",
            b"\xff\xfe\0\0\0\0\x11\0",
            b"\xef\xbb\xbf\xff",
        ] {
            let decoded = decode(bytes.to_vec());
            assert!(!decoded.is_lossless, "{bytes:?}");
            assert!(decoded.text.contains('\u{fffd}'));
        }
    }

    #[test]
    fn a_byte_order_mark_is_never_doubled() {
        assert_eq!(Encoding::Utf8WithBom.encode("\u{feff}a"), b"\xef\xbb\xbfa");
        assert_eq!(Encoding::Utf8.encode("\u{feff}a"), b"\xef\xbb\xbfa");
    }

    #[test]
    fn the_majority_decides_about_line_ends() {
        assert_eq!(LineEnd::of("a\r\nb\r\n"), LineEnd::CrLf);
        assert_eq!(LineEnd::of("a\nb\nc\r\n"), LineEnd::Lf);
        assert_eq!(LineEnd::of("a"), LineEnd::Lf);
        assert_eq!(LineEnd::CrLf.apply("a\nb\r\nc"), "a\r\nb\r\nc");
    }
}
