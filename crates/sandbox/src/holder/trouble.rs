//! Why a holder could not be set up.

use std::fmt;
use std::io;

/// What failed, and why.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) what: String,
    pub(super) why: io::Error,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// Adds what was attempted to an error.
pub(super) fn doing<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Trouble {
    move |why| Trouble { what: what.into(), why: why.into() }
}
