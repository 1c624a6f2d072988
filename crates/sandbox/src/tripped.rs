//! What a command did to files that other programs act on, and what was done about it.

use std::path::{Path, PathBuf};

use pollux_domain::terminal_text;

/// A file that a command created or changed although it is protected, or one whose changes are only reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tripped {
    pub path: PathBuf,
    pub action: TripAction,
}

/// What was done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TripAction {
    /// It was new, and has this name now.
    Renamed(PathBuf),
    /// It is as before again. The command's version has this name, if there was one.
    Restored(Option<PathBuf>),
    /// Lines that run programs were turned into comments.
    Disarmed,
    /// Nothing: changing it is allowed. The text says what changed, if that is known.
    Reported(Option<String>),
    /// It could be neither moved nor restored.
    Failed,
}

impl TripAction {
    /// The name in events.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Renamed(_) => "renamed",
            Self::Restored(_) => "restored",
            Self::Disarmed => "disarmed",
            Self::Reported(_) => "reported",
            Self::Failed => "failed",
        }
    }
}

impl Tripped {
    /// One clause for the model and the user.
    fn clause(&self) -> String {
        let path = self.path.to_string_lossy();
        // Commands choose names; none may look like another sentence.
        let path = terminal_text::name(&path);
        let name = |path: &Path| {
            terminal_text::name(&path.file_name().unwrap_or_default().to_string_lossy()).into_owned()
        };
        match &self.action {
            TripAction::Renamed(to) => format!(
                "`{path}` was created by a sandboxed command, which is not allowed; renamed it to `{}`",
                name(to)
            ),
            TripAction::Restored(Some(kept)) => format!(
                "`{path}` was changed by a sandboxed command, which is not allowed; restored it and kept the \
                 changed version as `{}`",
                name(kept)
            ),
            TripAction::Restored(None) => {
                format!("`{path}` was removed by a sandboxed command, which is not allowed; restored it")
            }
            TripAction::Disarmed => {
                format!("`{path}` of a new repository could run programs; commented out those lines")
            }
            TripAction::Reported(None) => format!("the command changed `{path}`"),
            TripAction::Reported(Some(what)) => format!("the command changed `{path}`: {what}"),
            TripAction::Failed => format!(
                "`{path}` was created or changed by a sandboxed command, which is not allowed, and could not be \
                 restored; check it"
            ),
        }
    }
}

/// A line for the user about those that were not left as the command made them; `None` if there are none.
pub fn undone(tripped: &[Tripped]) -> Option<String> {
    let is_undone = |tripped: &&Tripped| !matches!(tripped.action, TripAction::Reported(_));
    notice(&tripped.iter().filter(is_undone).cloned().collect::<Vec<_>>())
}

/// A line for the model about all of them; `None` if there are none.
pub fn notice(tripped: &[Tripped]) -> Option<String> {
    let clauses: Vec<String> = tripped.iter().map(Tripped::clause).collect();
    (!clauses.is_empty()).then(|| format!("Sandbox: {}", clauses.join("; ")))
}
