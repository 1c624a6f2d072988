//! A problem in a policy file and how it is printed.

use std::fmt;
use std::path::PathBuf;

use super::RuleOrigin;
use crate::tier::Tier;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// A rule or file is not active.
    Error,
    /// Active, but perhaps not intended.
    Warning,
}

/// A problem in a policy file; loading continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    pub tier: Tier,
    pub source: String,
    pub path: Option<PathBuf>,
    pub line: Option<u32>,
    /// The rule's number in its file, from 1.
    pub rule: Option<usize>,
    pub message: String,
    pub details: Option<String>,
    pub suggestion: Option<String>,
}

impl Problem {
    pub(crate) fn error(place: &RuleOrigin, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, place, message.into())
    }

    pub(crate) fn warning(place: &RuleOrigin, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, place, message.into())
    }

    fn new(severity: Severity, place: &RuleOrigin, message: String) -> Self {
        Self {
            severity,
            tier: place.tier,
            source: place.source.clone(),
            path: place.path.clone(),
            line: None,
            rule: None,
            message,
            details: None,
            suggestion: None,
        }
    }

    pub(crate) fn at(mut self, line: Option<u32>) -> Self {
        self.line = line;
        self
    }

    pub(crate) fn rule(mut self, index: usize) -> Self {
        self.rule = Some(index + 1);
        self
    }

    pub(crate) fn details(mut self, text: String) -> Self {
        self.details = Some(text);
        self
    }

    pub(crate) fn suggest(mut self, text: &str) -> Self {
        self.suggestion = Some(text.to_owned());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tier = self.tier.as_str().to_ascii_uppercase();
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "[{tier}] Policy file {kind} in {}", self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ":\n  {}", self.message)?;
        if let Some(details) = &self.details {
            write!(f, "\n{details}")?;
        }
        if let Some(suggestion) = &self.suggestion {
            write!(f, "\n  Suggestion: {suggestion}")?;
        }
        Ok(())
    }
}
