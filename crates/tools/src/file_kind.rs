//! Detects the kind of a file from its name and its first bytes.

use std::path::Path;

use crate::encoding::Encoding;

/// The kind of a file, for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Text,
    Svg,
    Image(&'static str),
    Pdf,
    Audio(&'static str),
    Video(&'static str),
    Binary,
}

/// Number of bytes examined.
const SNIFF_BYTES: usize = 512;

const MEDIA: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("bmp", "image/bmp"),
    ("ico", "image/x-icon"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("avif", "image/avif"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("aif", "audio/aiff"),
    ("aiff", "audio/aiff"),
    ("aac", "audio/aac"),
    ("ogg", "audio/ogg"),
    ("oga", "audio/ogg"),
    ("flac", "audio/flac"),
    ("m4a", "audio/mp4"),
    ("wma", "audio/x-ms-wma"),
    ("mid", "audio/midi"),
    ("mp4", "video/mp4"),
    ("m4v", "video/x-m4v"),
    ("mov", "video/quicktime"),
    ("avi", "video/x-msvideo"),
    ("mkv", "video/x-matroska"),
    ("webm", "video/webm"),
    ("mpg", "video/mpeg"),
    ("mpeg", "video/mpeg"),
    ("wmv", "video/x-ms-wmv"),
    ("flv", "video/x-flv"),
    ("3gp", "video/3gpp"),
];

/// Upstream's list of audio types a model can hear.
const AUDIBLE: &[&str] = &["audio/mpeg", "audio/wav", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"];

/// Extensions that mark archives, office files and compiled code; upstream's list.
pub(crate) const BINARY_EXTENSIONS: &[&str] = &[
    "bin", "exe", "dll", "so", "dylib", "class", "jar", "war", "zip", "tar", "gz", "bz2", "rar", "7z", "pak",
    "rpa", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "odp", "dat", "obj", "o", "a", "lib",
    "wasm",
];

impl FileKind {
    /// Detects the kind of a file; `start` contains its first bytes.
    pub(crate) fn of(path: &Path, start: &[u8]) -> Self {
        let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
        match extension.as_str() {
            "ts" | "mts" | "cts" => return Self::Text,
            "svg" => return Self::Svg,
            "pdf" => return Self::Pdf,
            _ => {}
        }
        if let Some((_, mime)) = MEDIA.iter().find(|(known, _)| *known == extension) {
            if mime.starts_with("image/") {
                return Self::Image(mime);
            }
            // `.mid`, `.ogg` and others are also names of text files.
            return match (is_binary(start), mime.starts_with("audio/")) {
                (false, _) => Self::Text,
                (true, true) => Self::Audio(mime),
                (true, false) => Self::Video(mime),
            };
        }
        if BINARY_EXTENSIONS.contains(&extension.as_str()) || is_binary(start) {
            Self::Binary
        } else {
            Self::Text
        }
    }

    /// Whether such a name needs a look at the first bytes.
    pub(crate) fn is_audible(mime: &str) -> bool {
        AUDIBLE.contains(&mime)
    }

    /// The display name and the MIME type of a file that is sent unchanged.
    pub(crate) fn media(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Image(mime) => Some(("image", mime)),
            Self::Pdf => Some(("pdf", "application/pdf")),
            Self::Audio(mime) => Some(("audio", mime)),
            Self::Video(mime) => Some(("video", mime)),
            Self::Text | Self::Svg | Self::Binary => None,
        }
    }
}

/// Whether bytes do not look like text: a NUL, or more than a tenth of odd bytes.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    let sample = start.get(..SNIFF_BYTES.min(start.len())).unwrap_or_default();
    if sample.is_empty() || Encoding::detect(sample) != Encoding::Utf8 {
        return false;
    }
    if sample.contains(&0) || sample.starts_with(b"%PDF-") {
        return true;
    }
    let control = |byte: &&u8| matches!(**byte, 0..=6 | 14..=26 | 28..=31);
    let odd = sample.iter().filter(control).count() + invalid_bytes(sample);
    odd * 10 > sample.len()
}

/// Counts bytes that are not UTF-8; a character cut at the end of the sample does not count.
fn invalid_bytes(sample: &[u8]) -> usize {
    let mut count = 0;
    let mut chunks = sample.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        if chunks.peek().is_some() || chunk.invalid().len() == 1 {
            count += chunk.invalid().len();
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_kind_depends_on_name_and_content() {
        let cases: [(&str, &[u8], FileKind); 12] = [
            ("a.ts", b"\0\0", FileKind::Text),
            ("a.svg", b"<svg/>", FileKind::Svg),
            ("a.PNG", b"", FileKind::Image("image/png")),
            ("a.pdf", b"", FileKind::Pdf),
            ("a.mp3", b"just words", FileKind::Text),
            ("a.mp3", b"ID3\0\0", FileKind::Audio("audio/mpeg")),
            ("a.mp4", b"\0\0\0 ftyp", FileKind::Video("video/mp4")),
            ("a.zip", b"text", FileKind::Binary),
            ("a", b"\x7fELF\0", FileKind::Binary),
            ("a", "grün".as_bytes(), FileKind::Text),
            ("a", b"\xff\xfea\0", FileKind::Text),
            ("a", b"", FileKind::Text),
        ];
        for (name, bytes, kind) in cases {
            assert_eq!(FileKind::of(Path::new(name), bytes), kind, "{name} {bytes:?}");
        }
    }

    #[test]
    fn a_few_latin1_letters_do_not_make_a_file_binary() {
        assert!(!is_binary(b"ein Wort mit \xfc und sonst nichts Besonderes"));
        assert!(is_binary(b"\xfc\xfd\xfe\xff\x80"));
    }
}
