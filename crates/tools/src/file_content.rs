//! Reads one file in the form that the model receives.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pollux_domain::content::{Blob, Body, Part};
use pollux_domain::tool::ToolErrorKind;

use crate::encoding;
use crate::file_kind::FileKind;
use crate::workspace::{Location, OpenError, Workspace};

/// Upstream's limits.
const MAX_LINES: usize = 2000;
const MAX_LINE_CHARS: usize = 2000;
const MAX_FILE_BYTES: u64 = 20 << 20;
const MAX_SVG_BYTES: usize = 1 << 20;

/// Which lines are wanted, counted from 1; both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LineRange {
    pub(crate) start: Option<u64>,
    pub(crate) end: Option<u64>,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FileContent {
    Text(Excerpt),
    Media {
        part: Box<Part>,
        word: &'static str,
    },
    /// The file cannot be shown; the reason for the model and for display.
    Unshown {
        for_model: String,
        for_people: String,
    },
}

/// Lines of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excerpt {
    pub(crate) text: String,
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) total: usize,
    pub(crate) is_shortened: bool,
}

impl Excerpt {
    /// Whether lines are missing at either end.
    pub(crate) fn is_partial(&self) -> bool {
        self.first > 1 || self.last < self.total
    }
}

/// A file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadFailure {
    pub(crate) kind: ToolErrorKind,
    pub(crate) message: String,
    pub(crate) for_people: String,
}

/// Reads a file.
pub(crate) fn read(
    workspace: &Workspace,
    location: &Location,
    lines: LineRange,
) -> Result<FileContent, ReadFailure> {
    let path = location.path();
    let opened = workspace.open_file(location).map_err(|error| explain(path, error))?;
    let size = opened.metadata.len();
    if size > MAX_FILE_BYTES {
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        let megabytes = size as f64 / f64::from(1 << 20);
        return Err(ReadFailure {
            kind: ToolErrorKind::FileTooLarge,
            message: format!("File size exceeds the 20MB limit: {} ({megabytes:.2}MB)", path.display()),
            for_people: "File size exceeds the 20MB limit.".to_owned(),
        });
    }
    let bytes = opened.read(MAX_FILE_BYTES).map_err(|error| explain(path, OpenError::Io(error)))?;
    present(workspace, path, bytes, lines)
}

fn present(
    workspace: &Workspace,
    path: &Path,
    bytes: Vec<u8>,
    lines: LineRange,
) -> Result<FileContent, ReadFailure> {
    let relative = workspace.relative(path);
    let kind = FileKind::of(path, &bytes);
    if let FileKind::Audio(mime) = kind
        && !FileKind::is_audible(mime)
    {
        let message = format!("Unsupported audio file format for {relative}: {mime}");
        return Err(ReadFailure {
            kind: ToolErrorKind::ReadContentFailure,
            for_people: message.clone(),
            message,
        });
    }
    if let Some((word, mime)) = kind.media() {
        let blob = Blob { mime_type: mime.to_owned(), data_base64: STANDARD.encode(&bytes) };
        return Ok(FileContent::Media { part: Box::new(Body::InlineData(blob).into()), word });
    }
    match kind {
        FileKind::Binary => Ok(FileContent::Unshown {
            for_model: format!("Cannot display content of binary file: {relative}"),
            for_people: format!("Skipped binary file: {relative}"),
        }),
        FileKind::Svg if bytes.len() > MAX_SVG_BYTES => Ok(FileContent::Unshown {
            for_model: format!("Cannot display content of SVG file larger than 1MB: {relative}"),
            for_people: format!("Skipped large SVG file (>1MB): {relative}"),
        }),
        _ => Ok(FileContent::Text(excerpt(&encoding::decode(bytes).text, lines))),
    }
}

/// Cuts a text to the lines that are wanted, or to the first 2000.
fn excerpt(text: &str, range: LineRange) -> Excerpt {
    let as_index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let normalised = encoding::normalised(text);
    // An empty piece after the last line end counts as a line, as upstream counts.
    let total = normalised.bytes().filter(|byte| *byte == b'\n').count() + 1;
    // Nothing follows the last line, whatever range was requested.
    let first = as_index(range.start.unwrap_or(1)).clamp(1, total + 1);
    let last = match range.end {
        Some(end) => as_index(end),
        None => first.saturating_add(MAX_LINES - 1),
    };
    let last = last.min(total);
    let mut is_shortened = false;
    let mut shown = String::with_capacity(if last == total && first == 1 { normalised.len() } else { 0 });
    let count = last.saturating_sub(first - 1);
    for (index, line) in normalised.split('\n').skip(first - 1).take(count).enumerate() {
        if index > 0 {
            shown.push('\n');
        }
        match line.char_indices().nth(MAX_LINE_CHARS) {
            Some((cut, _)) => {
                is_shortened = true;
                shown.push_str(line.get(..cut).unwrap_or_default());
                shown.push_str("... [truncated]");
            }
            None => shown.push_str(line),
        }
    }
    Excerpt { text: shown, first, last, total, is_shortened }
}

fn explain(path: &Path, error: OpenError) -> ReadFailure {
    let path = path.display();
    let (kind, message, for_people) = match error {
        OpenError::Missing => {
            (ToolErrorKind::FileNotFound, format!("File not found: {path}"), "File not found.".to_owned())
        }
        OpenError::IsDirectory => (
            ToolErrorKind::TargetIsDirectory,
            format!("Path is a directory, not a file: {path}"),
            "Path is a directory.".to_owned(),
        ),
        OpenError::Refused(refusal) => {
            (ToolErrorKind::PathNotInWorkspace, refusal.to_string(), refusal.summary().to_owned())
        }
        OpenError::Special(what) => {
            let text = format!("Error reading file {path}: it is a {what}, not a regular file");
            (ToolErrorKind::ReadContentFailure, text.clone(), text)
        }
        OpenError::Io(error) => {
            let text = format!("Error reading file {path}: {error}");
            (ToolErrorKind::ReadContentFailure, text.clone(), text)
        }
    };
    ReadFailure { kind, message, for_people }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(start: Option<u64>, end: Option<u64>) -> LineRange {
        LineRange { start, end }
    }

    #[test]
    fn a_short_text_is_whole_and_keeps_its_last_line_end() {
        let whole = excerpt("a\r\nb\n", LineRange::default());
        assert_eq!((whole.text.as_str(), whole.total, whole.is_partial()), ("a\nb\n", 3, false));
    }

    #[test]
    fn ranges_are_clipped_and_never_panic() {
        let text = "1\n2\n3\n4";
        assert_eq!(excerpt(text, lines(Some(2), Some(3))).text, "2\n3");
        assert_eq!(excerpt(text, lines(Some(3), Some(99))).text, "3\n4");
        let beyond = excerpt(text, lines(Some(99), None));
        assert_eq!((beyond.text.as_str(), beyond.first, beyond.last), ("", 5, 4));
        assert_eq!(excerpt(text, lines(Some(u64::MAX), Some(u64::MAX))).text, "");
        assert_eq!(excerpt("", lines(None, None)).text, "");
    }

    #[test]
    fn long_lines_and_long_files_are_cut() {
        let long = "ä".repeat(2001);
        let cut = excerpt(&long, LineRange::default());
        assert_eq!(cut.text, format!("{}... [truncated]", "ä".repeat(2000)));
        assert!(cut.is_shortened && !cut.is_partial());
        let many = "x\n".repeat(3000);
        let cut = excerpt(&many, LineRange::default());
        assert_eq!((cut.first, cut.last, cut.total), (1, 2000, 3001));
        assert_eq!(excerpt(&many, lines(None, Some(2500))).last, 2500);
    }
}
