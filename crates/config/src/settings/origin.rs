//! Where a value came from.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// One source of settings; later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    Default,
    SystemDefaults,
    User,
    Project,
    System,
    Environment,
    Arguments,
}

/// The place a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub layer: Layer,
    pub file: Option<Arc<Path>>,
    /// Counted from 1.
    pub line: Option<u32>,
    /// The environment variable.
    pub variable: Option<&'static str>,
}

impl Origin {
    /// The origin of defaults.
    pub const DEFAULT: &'static Self =
        &Self { layer: Layer::Default, file: None, line: None, variable: None };
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::SystemDefaults => "system defaults",
            Self::User => "user settings",
            Self::Project => "project settings",
            Self::System => "system settings",
            Self::Environment => "environment",
            Self::Arguments => "command line",
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line, self.variable) {
            (Some(file), Some(line), _) => write!(f, "{}:{line}", file.display()),
            (Some(file), None, _) => write!(f, "{}", file.display()),
            (None, _, Some(variable)) => write!(f, "{variable}"),
            (None, _, None) => write!(f, "{}", self.layer),
        }
    }
}
