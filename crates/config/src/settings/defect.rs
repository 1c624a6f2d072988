//! Errors and warnings about settings.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use super::origin::Origin;
use crate::files::FileError;
use crate::jsonc::Defect;

/// How many problems of one file are spelt out; upstream's number.
const MAX_SHOWN: usize = 5;

/// Settings files that cannot be used at all. The program ends with exit code 52; no file is touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError {
    /// Every bad file, never empty.
    pub files: Vec<BadFile>,
}

/// One file that cannot be read or parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFile {
    pub path: PathBuf,
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub reason: String,
    pub fix: String,
}

/// A problem that does not stop the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsWarning {
    pub kind: WarningKind,
    /// `None` for environment variables.
    pub file: Option<PathBuf>,
    pub line: Option<u32>,
    /// Dotted key; empty when the whole file is meant.
    pub key: String,
    pub message: String,
    /// The value used instead, or what to do.
    pub fix: String,
}

/// What a warning is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarningKind {
    /// The value does not fit the key and was not used.
    Invalid { expected: Option<String>, received: Option<String> },
    /// The value was used, but not as written (a single text for a list, an unknown extra key).
    Tolerated,
    /// A project may not set this.
    NotFromProject,
    /// An old spelling in a file that Pollux does not rewrite.
    Deprecated,
    /// The key is unknown and very near to a known one.
    Misspelt,
    /// The file should have been rewritten and could not be.
    NotRewritten,
    /// The value refers to a variable that is not set, and was not used.
    UnsetVariable,
}

impl BadFile {
    pub(crate) fn parse(path: &Path, defect: Defect) -> Self {
        let Defect { line, column, reason, fix } = defect;
        Self { path: path.to_owned(), line, column, reason, fix }
    }

    pub(crate) fn read(path: &Path, error: &FileError) -> Self {
        let (reason, fix) = match error {
            FileError::Read { source, .. } => (source.to_string(), "check its permissions"),
            FileError::NotUtf8 { .. } => ("not valid UTF-8".to_owned(), "save the file as UTF-8"),
            FileError::TooLarge { .. }
            | FileError::CreateFolder { .. }
            | FileError::Write { .. }
            | FileError::LinkLoop { .. } => (error.to_string(), "check what this path points to"),
        };
        Self { path: path.to_owned(), line: None, column: None, reason, fix: fix.to_owned() }
    }
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error in {}: ", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, "line {line}, ")?;
        }
        if let Some(column) = self.column {
            write!(f, "column {column}: ")?;
        }
        write!(f, "{} (fix: {})", self.reason, self.fix)
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            writeln!(f, "{file}")?;
        }
        f.write_str("Please fix the configuration file(s) and try again.")
    }
}

impl SettingsWarning {
    pub(crate) fn new(kind: WarningKind, origin: &Origin, key: &str, message: String) -> Self {
        Self {
            kind,
            file: origin.file.as_deref().map(Path::to_owned),
            line: origin.line,
            key: key.to_owned(),
            message,
            fix: String::new(),
        }
    }

    pub(crate) fn with_fix(self, fix: impl Into<String>) -> Self {
        Self { fix: fix.into(), ..self }
    }

    fn is_invalid(&self) -> bool {
        match self.kind {
            WarningKind::Invalid { .. } | WarningKind::Tolerated => true,
            WarningKind::NotFromProject
            | WarningKind::Deprecated
            | WarningKind::Misspelt
            | WarningKind::NotRewritten
            | WarningKind::UnsetVariable => false,
        }
    }
}

/// One line, for everything that is not part of [`report`]'s block.
impl fmt::Display for SettingsWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}: ", file.display())?,
            (Some(file), None) => write!(f, "{}: ", file.display())?,
            (None, _) => {}
        }
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        f.write_str(&self.message)?;
        if self.fix.is_empty() { Ok(()) } else { write!(f, " ({})", self.fix) }
    }
}

/// All warnings as the user reads them on stderr; empty when there are none.
pub fn report(warnings: &[SettingsWarning]) -> String {
    let mut text = String::new();
    let mut seen: Vec<&Path> = Vec::new();
    for warning in warnings.iter().filter(|warning| warning.is_invalid()) {
        let Some(file) = warning.file.as_deref() else { continue };
        if !seen.contains(&file) {
            seen.push(file);
            block(&mut text, file, warnings);
        }
    }
    for warning in warnings.iter().filter(|warning| !warning.is_invalid() || warning.file.is_none()) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{warning}");
    }
    text
}

/// Upstream's form, with the line and the value used instead added.
fn block(text: &mut String, file: &Path, warnings: &[SettingsWarning]) {
    let own =
        || warnings.iter().filter(|warning| warning.is_invalid() && warning.file.as_deref() == Some(file));
    let _ = writeln!(text, "Invalid configuration in {}:\n", file.display());
    for warning in own().take(MAX_SHOWN) {
        let line = warning.line.map(|line| format!(" (line {line})")).unwrap_or_default();
        let _ = writeln!(text, "Error in: {}{line}\n    {}", warning.key, warning.message);
        if let WarningKind::Invalid { expected: Some(expected), received: Some(received) } = &warning.kind {
            let _ = writeln!(text, "Expected: {expected}, but received: {received}");
        }
        if !warning.fix.is_empty() {
            let _ = writeln!(text, "    {}", warning.fix);
        }
        text.push('\n');
    }
    let more = own().count().saturating_sub(MAX_SHOWN);
    if more > 0 {
        let _ = writeln!(text, "...and {more} more errors.\n");
    }
    text.push_str("Please fix the configuration.\n");
    text.push_str("See: https://geminicli.com/docs/reference/configuration/\n");
}
