//! Whether a project may set anything.

/// Whether what a project brings along may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectTrust {
    Trusted,
    Untrusted,
}
