//! The tool `replace`: changes part of a file.
//!
//! Finding the text is in `ladder`; this module validates the call, shows the change and writes it.

mod apply;
mod distance;
mod fuzzy;
mod ladder;
mod nearest;
mod raw;

use std::path::Path;
use std::sync::Arc;

use pollux_domain::content::Part;
use pollux_domain::tool::{
    ArgError, Display, Effect, FileDiff, Invocation, Tool, ToolContext, ToolErrorKind, ToolFailure, ToolKind,
    ToolOutcome, ToolOutput, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::diff::{FileChange, line_delta};
use crate::encoding::{self, Decoded};
use crate::file_scope::{FileScope, looked_at, on_thread};
use crate::omission;
use crate::shown::Shown;
use crate::workspace::{Location, OpenError};
use crate::write_file::write_failure;

/// Larger files are not edited; everything is held in memory more than once.
const MAX_BYTES: u64 = 100 << 20;

/// The tool.
pub(crate) struct Replace {
    spec: Arc<ToolSpec>,
    scope: Arc<FileScope>,
}

struct Call {
    scope: Arc<FileScope>,
    location: Location,
    /// The path as the model wrote it; messages use it.
    given: String,
    old: String,
    new: String,
    expected: Expected,
    is_modified_by_user: bool,
    shown: Shown,
}

/// How many places may match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    One,
    Any,
    Exactly(u64),
}

impl Replace {
    pub(crate) fn new(scope: Arc<FileScope>) -> Self {
        let spec = ToolSpec {
            name: "replace".to_owned(),
            display_name: "Edit".to_owned(),
            description:
                "Replaces a piece of text in a file with another. old_string must be copied from the file \
                exactly, with its white space, and with enough lines around the change to occur only once. \
                Set allow_multiple to change every occurrence. An empty old_string creates a new file with \
                new_string as its content. Read the lines in question before you edit them."
                    .to_owned(),
            kind: ToolKind::Edit,
            parameters: parameters(),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), scope }
    }
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file_path": {
                "type": "string",
                "description": "Path of the file, absolute or relative to the project root."
            },
            "instruction": {
                "type": "string",
                "description": "What the change does and why, in a sentence that makes sense without the rest of \
                    the conversation."
            },
            "old_string": {
                "type": "string",
                "description": "The text to be replaced, literally as it stands in the file."
            },
            "new_string": {
                "type": "string",
                "description": "The text to put in its place, literally; complete, nothing left out."
            },
            "allow_multiple": {
                "type": "boolean",
                "description": "Replace every occurrence instead of requiring exactly one."
            }
        },
        "required": ["file_path", "instruction", "old_string", "new_string"]
    })
}

impl Tool for Replace {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        let given = arguments.required("file_path")?;
        if given.trim().is_empty() {
            return Err(ArgError("The 'file_path' parameter must be non-empty.".to_owned()));
        }
        let (old, new) = (arguments.required("old_string")?, arguments.required("new_string")?);
        let known: Vec<String> = omission::placeholders(old).collect();
        if omission::placeholders(new).any(|placeholder| !known.contains(&placeholder)) {
            return Err(ArgError(
                "`new_string` contains an omission placeholder (for example 'rest of methods ...'). Provide \
                 exact literal replacement text."
                    .to_owned(),
            ));
        }
        let expected =
            match (arguments.flag("allow_multiple")?, arguments.number("expected_replacements", 1)?) {
                (Some(true), _) => Expected::Any,
                (_, Some(count)) if count > 1 => Expected::Exactly(count),
                _ => Expected::One,
            };
        let location = match self.scope.workspace.unique_match(given) {
            Some(path) if !old.is_empty() => {
                self.scope.workspace.admit(path).map_err(|refusal| ArgError(refusal.to_string()))?
            }
            _ => self.scope.locate(given)?,
        };
        Ok(Box::new(Call {
            scope: Arc::clone(&self.scope),
            location,
            given: given.to_owned(),
            old: encoding::normalised(old).into_owned(),
            // A new file gets its content as it was given; an edited one keeps its own line ends.
            new: if old.is_empty() { new.to_owned() } else { encoding::normalised(new).into_owned() },
            expected,
            is_modified_by_user: arguments.flag("modified_by_user")?.unwrap_or(false),
            shown: Shown::default(),
        }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        let path = self.scope.workspace.short(self.location.path());
        if self.old.is_empty() {
            return format!("Create {path}");
        }
        if self.old == self.new {
            return format!("No file changes to {path}");
        }
        let first = |text: &str| {
            let line: String = text.lines().next().unwrap_or_default().chars().take(30).collect();
            let rest = if text.chars().nth(30).is_some() { "..." } else { "" };
            format!("{line}{rest}")
        };
        format!("{path}: {} => {}", first(&self.old), first(&self.new))
    }

    fn effect(&self) -> Effect {
        Effect::Edit(self.location.path().to_owned())
    }

    fn preview(&self) -> BoxFuture<'_, Result<Option<FileDiff>, ToolFailure>> {
        Box::pin(async {
            let Some(before) = looked_at(&self.scope, &self.location, current).await else { return Ok(None) };
            let before = before?;
            self.shown.keep(before.as_deref());
            let planned = self.planned(before)?;
            Ok(Some(planned.change().for_people(self.location.path())))
        })
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(on_thread(context, move |_| self.edit().unwrap_or_else(ToolOutcome::Failed)))
    }
}

/// The file as it is; `None` if there is none.
fn current(scope: &FileScope, location: &Location) -> Result<Option<Vec<u8>>, ToolFailure> {
    let unreadable = |message: String| failure(ToolErrorKind::EditPreparationFailure, message);
    match scope.workspace.open_file(location) {
        Ok(opened) if opened.metadata.len() > MAX_BYTES => {
            let path = location.path().display();
            Err(failure(ToolErrorKind::FileTooLarge, format!("File size exceeds the 100MB limit: {path}")))
        }
        Ok(opened) => opened.read(MAX_BYTES).map(Some).map_err(|error| unreadable(error.to_string())),
        Err(OpenError::Missing) => Ok(None),
        Err(OpenError::IsDirectory) => {
            let path = location.path().display();
            Err(failure(ToolErrorKind::TargetIsDirectory, format!("Path is a directory, not a file: {path}")))
        }
        Err(OpenError::Refused(refusal)) => {
            Err(failure(ToolErrorKind::PathNotInWorkspace, refusal.to_string()))
        }
        Err(error @ (OpenError::Special(_) | OpenError::Io(_))) => Err(unreadable(error.to_string())),
    }
}

/// An edit that could be made.
struct Planned {
    before: Option<String>,
    after: String,
    /// The new file content.
    bytes: Vec<u8>,
    said: String,
    note: String,
}

impl Planned {
    fn change(&self) -> FileChange<'_> {
        FileChange::new(self.before.as_deref(), &self.after)
    }
}

impl Call {
    fn edit(&self) -> Result<ToolOutcome, ToolFailure> {
        let before = current(&self.scope, &self.location)?;
        self.shown.check(before.as_deref())?;
        let planned = self.planned(before)?;
        self.save(&planned.bytes)?;
        Ok(self.done(&planned))
    }

    fn planned(&self, current: Option<Vec<u8>>) -> Result<Planned, ToolFailure> {
        let path = self.location.path();
        let Some(bytes) = current else {
            return if self.old.is_empty() {
                Ok(self.creation())
            } else {
                Err(failure(ToolErrorKind::FileNotFound, format!("File not found: {}", path.display())))
            };
        };
        if self.old.is_empty() {
            let message = format!("File already exists, cannot create: {}", path.display());
            return Err(failure(ToolErrorKind::AttemptToCreateExistingFile, message));
        }
        let decoded = encoding::decode(bytes.clone());
        if decoded.is_lossless { self.edit_of_text(decoded) } else { self.edit_of_bytes(&bytes, decoded) }
    }

    fn creation(&self) -> Planned {
        Planned {
            before: None,
            after: self.new.clone(),
            bytes: self.new.clone().into_bytes(),
            said: format!("Created new file: {} with provided content.", self.location.path().display()),
            note: String::new(),
        }
    }

    fn edit_of_text(&self, decoded: Decoded) -> Result<Planned, ToolFailure> {
        let text = encoding::normalised(&decoded.text);
        let Some(matched) = ladder::find(&text, &self.old, &self.new) else {
            return Err(self.not_found(&text));
        };
        self.check_count(matched.edits.len())?;
        let after = apply::edits(&decoded.text, &matched.edits);
        if after == decoded.text {
            return Err(self.identical());
        }
        let (said, note) = (self.modified(matched.edits.len()), matched.note());
        let bytes = decoded.encoding.encode(&after);
        Ok(Planned { bytes, before: Some(decoded.text), after, said, note })
    }

    /// Invalid bytes must survive, so only an exact match is replaced.
    fn edit_of_bytes(&self, bytes: &[u8], decoded: Decoded) -> Result<Planned, ToolFailure> {
        let Some((bytes, count)) = raw::replace(bytes, &decoded, &self.old, &self.new) else {
            let message = format!(
                "'{}' is not valid in its encoding, and 'old_string' does not occur in it byte for byte. Nothing \
                 was changed, because rewriting the file would damage the bytes that are not text. Use an \
                 'old_string' without such characters.",
                self.given
            );
            return Err(failure(ToolErrorKind::EditNoOccurrenceFound, message));
        };
        self.check_count(count)?;
        let after = encoding::decode(bytes.clone()).text;
        let said = self.modified(count);
        Ok(Planned { before: Some(decoded.text), after, bytes, said, note: String::new() })
    }

    fn check_count(&self, found: usize) -> Result<(), ToolFailure> {
        let found = found as u64;
        let message = match self.expected {
            Expected::Any => None,
            Expected::One if found == 1 => None,
            Expected::One => Some(format!(
                "Failed to edit, Expected 1 occurrence but found {found} for old_string in file: {}. If you \
                 intended to replace multiple occurrences, set 'allow_multiple' to true.",
                self.given
            )),
            Expected::Exactly(count) if found == count => None,
            Expected::Exactly(count) => Some(format!(
                "Failed to edit, Expected {count} occurrences but found {found} for old_string in file: {}",
                self.given
            )),
        };
        match message {
            Some(message) => Err(failure(ToolErrorKind::EditExpectedOccurrenceMismatch, message)),
            None if self.old == self.new => Err(self.identical()),
            None => Ok(()),
        }
    }

    fn identical(&self) -> ToolFailure {
        let message = if self.old == self.new {
            format!(
                "No changes to apply. The old_string and new_string are identical in file: {}",
                self.given
            )
        } else {
            format!(
                "No changes to apply. The new content is identical to the current content in file: {}",
                self.given
            )
        };
        failure(ToolErrorKind::EditNoChange, message)
    }

    fn not_found(&self, text: &str) -> ToolFailure {
        let mut message = format!(
            "Could not find an exact match for 'old_string' in '{}'. If previous edits modified the file or you \
             are modifying lines outside your recent read window, please use ReadFile to inspect the target \
             lines before retrying with an exact 'old_string'.",
            self.given
        );
        if let Some(region) = nearest::region(text, &self.old) {
            message.push_str(&format!("\n\n{region}"));
        }
        let display = "Failed to edit, could not find the string to replace.".to_owned();
        ToolFailure { kind: ToolErrorKind::EditNoOccurrenceFound, message, display: Some(display) }
    }

    fn save(&self, bytes: &[u8]) -> Result<(), ToolFailure> {
        let path: &Path = self.location.path();
        self.scope.save(&self.location, bytes).map_err(|error| write_failure(path, error))
    }

    fn modified(&self, count: usize) -> String {
        format!("Successfully modified file: {} ({count} replacements).", self.location.path().display())
    }

    fn done(&self, planned: &Planned) -> ToolOutcome {
        let change = planned.change();
        let mut text = format!("{} Here is the updated code:\n{}", planned.said, change.snippet());
        text.push_str(&planned.note);
        if self.is_modified_by_user {
            text.push_str(&format!(
                " The confirmation step modified the `new_string` content to be: {}.",
                self.new
            ));
        }
        let path = self.location.path();
        let lines = line_delta(change.stat());
        let display = if planned.before.is_none() {
            Display::Text(format!("Created {}", self.scope.workspace.short(path)))
        } else {
            Display::Diff(Box::new(change.for_people(path)))
        };
        ToolOutcome::Done(ToolOutput { lines, ..ToolOutput::new(vec![Part::text(text)], display) })
    }
}

fn failure(kind: ToolErrorKind, message: String) -> ToolFailure {
    ToolFailure { kind, message, display: None }
}
