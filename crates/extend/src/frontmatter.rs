//! The YAML front matter of a Markdown file: `---`, keys, `---`, and the text after it.
//!
//! These files come from third parties, so every step is bounded: the bytes read before the closing line, and
//! the size of the parsed result.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_saphyr::{Budget, Options, options::AliasLimits};

/// Size limit of front matter, far above any handwritten one.
pub const MAX_BYTES: usize = 64 * 1024;

/// How much is read at a time while the closing line is looked for; nearly every front matter ends within the first.
const CHUNK: usize = 4 * 1024;

/// Limit of parser events for one front matter. Aliases count each time they are used.
const MAX_EVENTS: usize = 20_000;
const MAX_ALIASES: usize = 100;
const MAX_DEPTH: usize = 32;

/// Why front matter is invalid. The messages follow the file's name and a colon.
#[derive(Debug, thiserror::Error)]
pub enum FrontMatterError {
    #[error("could not be read: {0}")]
    Read(#[from] io::Error),
    #[error("is not valid UTF-8")]
    NotUtf8,
    #[error("the front matter is longer than {} KiB", MAX_BYTES / 1024)]
    TooLong,
    #[error("the front matter expands beyond the limit ({0}); replace YAML aliases with plain values")]
    Grows(String),
    #[error("the front matter is not valid YAML: {0}")]
    Invalid(String),
}

/// Front matter and the text after it; `None` when the text does not begin with one.
///
/// The text has to begin with a line `---`; the next line that is `---` ends the front matter.
pub fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let start = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let mut at = 0;
    for line in start.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let (front, rest) = start.split_at_checked(at)?;
            let body = rest.split_once('\n').map_or("", |(_, body)| body);
            let front = front.strip_suffix('\n').unwrap_or(front);
            return Some((front.strip_suffix('\r').unwrap_or(front), body));
        }
        at += line.len();
    }
    None
}

/// The front matter as a value. Unknown keys are the type's business (`deny_unknown_fields`).
pub fn parse<T: DeserializeOwned>(front: &str) -> Result<T, FrontMatterError> {
    use serde_saphyr::Error;
    if front.len() > MAX_BYTES {
        return Err(FrontMatterError::TooLong);
    }
    serde_saphyr::from_str_with_options(front, options()).map_err(|error| {
        let mut cause = error.without_snippet();
        while let Error::AliasError { error, .. } = cause {
            cause = error;
        }
        match cause {
            Error::Budget { .. }
            | Error::AliasReplayCounterOverflow { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. } => FrontMatterError::Grows(error.to_string()),
            _ => FrontMatterError::Invalid(error.to_string()),
        }
    })
}

fn options() -> Options {
    let mut budget = Budget::default();
    budget.max_events = MAX_EVENTS;
    budget.max_nodes = MAX_EVENTS;
    budget.max_recorded_anchor_events = MAX_EVENTS;
    budget.max_recorded_anchor_bytes = MAX_BYTES;
    budget.max_total_scalar_bytes = 2 * MAX_BYTES;
    budget.max_aliases = MAX_ALIASES;
    budget.max_anchors = MAX_ALIASES;
    budget.max_merge_keys = MAX_ALIASES;
    budget.max_depth = MAX_DEPTH;
    budget.flow_nesting_limit = MAX_DEPTH;
    budget.max_documents = 1;
    let mut aliases = AliasLimits::default();
    aliases.max_total_replayed_events = MAX_EVENTS;
    aliases.max_replay_stack_depth = MAX_DEPTH;
    let mut options = Options::default();
    options.budget = Some(budget);
    options.alias_limits = aliases;
    options.with_snippet = false;
    options
}

/// The value of one key, read line by line, for front matter that is not valid YAML, such as a description
/// with a colon. Indented lines that follow belong to the value.
pub fn line_value(front: &str, key: &str) -> Option<String> {
    let mut lines = front.lines().skip_while(|line| key_line(line, key).is_none());
    let first = key_line(lines.next()?, key)?.trim();
    let more: Vec<&str> = lines
        .take_while(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty())
        .map(str::trim)
        .collect();
    // A block's sign (`>`, `|-`) is not part of its text.
    let first = if more.is_empty() || !first.starts_with(['>', '|']) || first.len() > 2 { first } else { "" };
    let parts: Vec<&str> =
        std::iter::once(unquoted(first)).chain(more).filter(|part| !part.is_empty()).collect();
    Some(parts.join(" "))
}

fn key_line<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.strip_prefix(':')
}

fn unquoted(value: &str) -> &str {
    ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(value)
}

/// The front matter of a file, reading no more than that; `None` when it does not begin with one.
pub fn read(path: &Path) -> Result<Option<String>, FrontMatterError> {
    let mut file = open(path)?;
    let mut bytes = Vec::with_capacity(CHUNK);
    loop {
        let ended = (&mut file).take(CHUNK as u64).read_to_end(&mut bytes)? < CHUNK;
        let head = valid_part(&bytes, ended)?;
        if let Some((front, _)) = closed(head, ended) {
            return if front.len() > MAX_BYTES {
                Err(FrontMatterError::TooLong)
            } else {
                Ok(Some(front.to_owned()))
            };
        }
        let begins = head.strip_prefix('\u{feff}').unwrap_or(head).starts_with("---");
        if ended || !begins {
            return Ok(None);
        }
        if bytes.len() > MAX_BYTES {
            return Err(FrontMatterError::TooLong);
        }
    }
}

/// A complete file of at most `limit` bytes.
pub fn read_whole(path: &Path, limit: u64) -> Result<String, FrontMatterError> {
    let mut bytes = Vec::new();
    open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {} KiB", limit / 1024),
        )
        .into());
    }
    String::from_utf8(bytes).map_err(|_| FrontMatterError::NotUtf8)
}

/// Opens only regular files: a pipe would wait for a writer that may never come.
fn open(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

/// The valid UTF-8 part of the bytes; only at the end of a chunk may a character be incomplete.
fn valid_part(bytes: &[u8], ended: bool) -> Result<&str, FrontMatterError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) if error.error_len().is_none() && !ended => {
            let whole = bytes.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(whole).map_err(|_| FrontMatterError::NotUtf8)
        }
        Err(_) => Err(FrontMatterError::NotUtf8),
    }
}

/// Like [`split`], for an incomplete text: its last line counts only when it is complete.
fn closed(head: &str, ended: bool) -> Option<(&str, &str)> {
    let complete = if ended { head } else { head.rsplit_once('\n').map_or("", |(lines, _)| lines) };
    split(complete)
}

#[cfg(test)]
mod tests;
