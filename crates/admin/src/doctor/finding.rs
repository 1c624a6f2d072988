//! The result of a check.

use pollux_domain::failure::Failure;

use super::repair::Repair;

/// A result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was checked; set by the caller of the check.
    pub area: &'static str,
    pub level: Level,
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What `--fix` does about it.
    pub(super) repair: Option<Repair>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Ok,
    Warning,
    Problem,
}

impl Level {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl Finding {
    pub(super) fn at(level: Level, what: impl Into<String>) -> Self {
        Self { area: "", level, what: what.into(), hint: None, repair: None }
    }

    pub(super) fn ok(what: impl Into<String>) -> Self {
        Self::at(Level::Ok, what)
    }

    pub(super) fn warning(what: impl Into<String>) -> Self {
        Self::at(Level::Warning, what)
    }

    pub(super) fn problem(what: impl Into<String>) -> Self {
        Self::at(Level::Problem, what)
    }

    /// What could not be looked at, with its hint.
    pub(super) fn failed(failure: &Failure) -> Self {
        Self { hint: failure.hint.clone(), ..Self::problem(failure.message()) }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn repair(mut self, repair: Repair) -> Self {
        self.repair = Some(repair);
        self
    }
}

/// The findings, or this if there are none.
pub(super) fn or_ok(findings: Vec<Finding>, what: impl Into<String>) -> Vec<Finding> {
    if findings.is_empty() { vec![Finding::ok(what)] } else { findings }
}
