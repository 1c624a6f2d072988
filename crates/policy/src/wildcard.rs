//! Characters that stand for names a command only finds out when it runs.

/// Any name or part of a name, with a leading dot as well.
pub const ANY_NAME: char = '\u{2}';

/// Any folders, one in another, or none.
pub const ANY_FOLDERS: char = '\u{3}';
