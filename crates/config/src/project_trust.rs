//! Whether project settings may be used.

/// Whether a project's files may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectTrust {
    Trusted,
    Untrusted,
}
