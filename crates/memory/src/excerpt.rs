//! Reads lines of a note.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::authorship::Authorship;
use crate::index::error::IndexError;
use crate::index::sync::blocking;
use crate::memory::Memory;
use crate::redaction;
use crate::setup::Setup;
use crate::source::Provenance;
use crate::source::notes::{LEARNINGS, MAX_BYTES};

/// Default number of lines.
const DEFAULT_LINES: usize = 120;
const MAX_CHARS: usize = 12_000;

/// Some lines of a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    pub path: String,
    pub text: String,
    /// The first line, from 1.
    pub from: usize,
    pub lines: usize,
    pub total_lines: usize,
    /// The next line, if there are more.
    pub next: Option<usize>,
    pub provenance: Provenance,
}

/// Why a note cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    #[error("`{path}` is not a note")]
    NotANote { path: String },
    #[error("note `{path}` not found")]
    NotFound { path: String },
    #[error("could not read `{}`: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl GetError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotANote { .. } => {
                Some("notes are MEMORY.md, memory.md, files under memory/, and agent/LEARNINGS.md")
            }
            Self::NotFound { .. } => Some("run `pollux memory search` to find a note's path"),
            Self::Unreadable { .. } => None,
            Self::Index(error) => error.hint(),
        }
    }
}

impl Memory {
    /// Lines of a note without its secrets. Conversations are not read here.
    pub async fn get(
        &self,
        path: &str,
        from: Option<usize>,
        lines: Option<usize>,
    ) -> Result<Excerpt, GetError> {
        let (setup, path) = (self.shared_setup(), path.to_owned());
        blocking(move || Ok(read(&setup, path, from, lines))).await?
    }
}

fn read(setup: &Setup, path: String, from: Option<usize>, lines: Option<usize>) -> Result<Excerpt, GetError> {
    let forgotten = setup.forgotten()?;
    let Some(file) = setup.places().file_of(&path).filter(|_| !forgotten.has_path(&path)) else {
        return Err(GetError::NotANote { path });
    };
    let bytes = match fs::metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(GetError::NotFound { path }),
        Ok(meta) if !meta.is_file() || meta.len() > MAX_BYTES => return Err(GetError::NotANote { path }),
        Ok(_) | Err(_) => fs::read(&file).map_err(|source| GetError::Unreadable { path: file, source })?,
    };
    let mut text = String::from_utf8_lossy(&bytes);
    if path == LEARNINGS {
        text = setup.learnings().visible(&text).into();
    }
    let clean = redaction::clean(&text, forgotten.phrases());
    let all: Vec<&str> = clean.lines().collect();
    let from = from.unwrap_or(1).max(1);
    let (mut shown, mut chars) = (Vec::new(), 0);
    let trusted = setup.trusted || path == LEARNINGS;
    let mut provenance = if trusted { Provenance::Owner } else { Provenance::Untrusted };
    let authorship = Authorship::read(&setup.agent);
    for line in all.iter().skip(from - 1).take(lines.unwrap_or(DEFAULT_LINES).max(1)) {
        chars += line.chars().count() + 1;
        if chars > MAX_CHARS && !shown.is_empty() {
            break;
        }
        provenance = authorship.of(line, provenance);
        shown.push(line.chars().take(MAX_CHARS).collect::<String>());
    }
    let next = from + shown.len();
    Ok(Excerpt {
        path,
        lines: shown.len(),
        text: shown.join("\n"),
        from,
        total_lines: all.len(),
        next: (next <= all.len()).then_some(next),
        provenance,
    })
}
