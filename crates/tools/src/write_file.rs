//! The tool `write_file`: creates or overwrites a whole file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use pollux_domain::content::Part;
use pollux_domain::tool::{
    ArgError, Display, Effect, FileDiff, Invocation, Tool, ToolContext, ToolErrorKind, ToolFailure, ToolKind,
    ToolOutcome, ToolOutput, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::json;

use crate::arguments::Arguments;
use crate::diff::{FileChange, line_delta};
use crate::encoding::{self, Encoding, LineEnd};
use crate::file_scope::{FileScope, looked_at, on_thread};
use crate::omission;
use crate::shown::Shown;
use crate::workspace::{Location, OpenError, SaveError};

/// A file larger than this is replaced without being compared.
const COMPARED_BYTES: u64 = 20 << 20;

/// The tool.
pub(crate) struct WriteFile {
    spec: Arc<ToolSpec>,
    scope: Arc<FileScope>,
}

struct Call {
    scope: Arc<FileScope>,
    location: Location,
    content: String,
    /// Set when the user changed the content before approving it.
    is_modified_by_user: bool,
    shown: Shown,
}

impl WriteFile {
    pub(crate) fn new(scope: Arc<FileScope>) -> Self {
        let spec = ToolSpec {
            name: "write_file".to_owned(),
            display_name: "WriteFile".to_owned(),
            description:
                "Writes a whole file: creates it, with the folders it needs, or replaces everything in \
                it. The content must be complete; never leave parts out with remarks such as 'rest of code'. \
                Encoding and line ends of an existing file are kept. To change part of a file use replace."
                    .to_owned(),
            kind: ToolKind::Edit,
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "Path of the file, absolute or relative to the project root."
                    },
                    "content": {
                        "type": "string",
                        "description": "Everything the file shall hold."
                    }
                },
                "required": ["file_path", "content"]
            }),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), scope }
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        let given = arguments.text("file_path")?.unwrap_or_default();
        if given.trim().is_empty() {
            return Err(ArgError("Missing or empty \"file_path\"".to_owned()));
        }
        let content = arguments.required("content")?;
        let location = self.scope.locate(given)?;
        if location.path().is_dir() {
            return Err(ArgError(format!("Path is a directory, not a file: {}", location.path().display())));
        }
        if omission::placeholders(content).next().is_some() {
            return Err(ArgError(
                "`content` contains an omission placeholder (for example 'rest of methods ...'). Provide \
                 complete file content."
                    .to_owned(),
            ));
        }
        Ok(Box::new(Call {
            scope: Arc::clone(&self.scope),
            location,
            content: content.to_owned(),
            is_modified_by_user: arguments.flag("modified_by_user")?.unwrap_or(false),
            shown: Shown::default(),
        }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        format!("Writing to {}", self.scope.workspace.short(self.location.path()))
    }

    fn effect(&self) -> Effect {
        Effect::Edit(self.location.path().to_owned())
    }

    fn preview(&self) -> BoxFuture<'_, Result<Option<FileDiff>, ToolFailure>> {
        Box::pin(async {
            let Some(before) = looked_at(&self.scope, &self.location, before).await else { return Ok(None) };
            let before = before?;
            self.shown.keep(before.bytes());
            let (_, content) = self.content_for(&before);
            Ok(Some(FileChange::new(before.text(), &content).for_people(self.location.path())))
        })
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(on_thread(context, move |_| self.write()))
    }
}

/// The previous content of the file.
fn before(scope: &FileScope, location: &Location) -> Result<Before, ToolFailure> {
    match scope.workspace.open_file(location) {
        Ok(opened) if opened.metadata.len() > COMPARED_BYTES => Ok(Before::Large),
        Ok(opened) => match opened.read(COMPARED_BYTES) {
            Ok(bytes) => Ok(Before::Text(encoding::decode(bytes))),
            Err(error) => Err(check_failure(location, &error)),
        },
        Err(OpenError::Missing) => Ok(Before::Nothing),
        Err(OpenError::IsDirectory) => {
            Err(write_failure(location.path(), SaveError::Io(io::Error::from_raw_os_error(libc::EISDIR))))
        }
        Err(OpenError::Special(what)) => Err(write_failure(location.path(), SaveError::Special(what))),
        Err(OpenError::Refused(refusal)) => Err(write_failure(location.path(), SaveError::Refused(refusal))),
        Err(OpenError::Io(error)) => Err(check_failure(location, &error)),
    }
}

fn check_failure(location: &Location, error: &io::Error) -> ToolFailure {
    let path = location.path().display();
    let message = format!("Error checking existing file '{path}': {error}{}", code(error));
    ToolFailure { kind: ToolErrorKind::FileWriteFailure, message, display: None }
}

/// The previous content of a file.
enum Before {
    Nothing,
    Text(encoding::Decoded),
    /// Too large to compare.
    Large,
}

impl Before {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::Text(old) => Some(&old.text),
            Self::Large => Some(""),
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.text().map(str::as_bytes)
    }
}

impl Call {
    fn write(&self) -> ToolOutcome {
        let path = self.location.path();
        let before = match before(&self.scope, &self.location) {
            Ok(before) => before,
            Err(failure) => return ToolOutcome::Failed(failure),
        };
        if let Err(failure) = self.shown.check(before.bytes()) {
            return ToolOutcome::Failed(failure);
        }
        let (encoding, content) = self.content_for(&before);
        if let Err(error) = self.scope.save(&self.location, &encoding.encode(&content)) {
            return ToolOutcome::Failed(match error {
                // A file is in the place of a folder; upstream notices when it looks for the old file.
                SaveError::Io(error) if error.raw_os_error() == Some(libc::ENOTDIR) => {
                    check_failure(&self.location, &error)
                }
                error => write_failure(path, error),
            });
        }
        self.done(&before, &content)
    }

    /// The new content with the encoding and the line ends of the old.
    fn content_for(&self, before: &Before) -> (Encoding, String) {
        match before {
            Before::Text(old) if LineEnd::of(&old.text) == LineEnd::CrLf => {
                (old.encoding, LineEnd::CrLf.apply(&self.content))
            }
            Before::Text(old) => (old.encoding, self.content.clone()),
            Before::Nothing | Before::Large => (Encoding::Utf8, self.content.clone()),
        }
    }

    fn done(&self, before: &Before, content: &str) -> ToolOutcome {
        let path = self.location.path();
        let change = FileChange::new(before.text(), content);
        let mut text = match before {
            Before::Nothing => format!("Successfully created and wrote to new file: {}.", path.display()),
            Before::Text(_) | Before::Large => format!("Successfully overwrote file: {}.", path.display()),
        };
        if self.is_modified_by_user {
            text.push_str(&format!(" User modified the `content` to be: {}", self.content));
        }
        text.push_str(&format!(" Here is the updated code:\n{}", change.snippet()));
        let diff = change.for_people(path);
        let lines = line_delta(diff.stat);
        let display = Display::Diff(Box::new(diff));
        ToolOutcome::Done(ToolOutput { lines, ..ToolOutput::new(vec![Part::text(text)], display) })
    }
}

/// A failed write in upstream's words.
pub(crate) fn write_failure(path: &Path, error: SaveError) -> ToolFailure {
    let shown = path.display();
    let (kind, message) = match error {
        SaveError::Refused(refusal) => (ToolErrorKind::PathNotInWorkspace, refusal.to_string()),
        SaveError::Special(what) => {
            let message = format!("Error writing to file '{shown}': it is a {what}, not a regular file");
            (ToolErrorKind::FileWriteFailure, message)
        }
        SaveError::ReadOnly => {
            (ToolErrorKind::PermissionDenied, format!("Error writing to file '{shown}': {error}"))
        }
        SaveError::Linked => {
            (ToolErrorKind::FileWriteFailure, format!("Error writing to file '{shown}': {error}"))
        }
        SaveError::Io(error) => match error.raw_os_error() {
            Some(libc::EACCES) => (
                ToolErrorKind::PermissionDenied,
                format!("Permission denied writing to file: {shown} (EACCES)"),
            ),
            Some(libc::ENOSPC) => {
                (ToolErrorKind::NoSpaceLeft, format!("No space left on device: {shown} (ENOSPC)"))
            }
            Some(libc::EISDIR) => (
                ToolErrorKind::TargetIsDirectory,
                format!("Target is a directory, not a file: {shown} (EISDIR)"),
            ),
            _ => {
                let message = format!("Error writing to file '{shown}': {error}{}", code(&error));
                (ToolErrorKind::FileWriteFailure, message)
            }
        },
    };
    ToolFailure { kind, message, display: None }
}

/// The name of the error in parentheses, if it has a well-known one.
fn code(error: &io::Error) -> String {
    let name = match error.raw_os_error() {
        Some(libc::EACCES) => "EACCES",
        Some(libc::EDQUOT) => "EDQUOT",
        Some(libc::EFBIG) => "EFBIG",
        Some(libc::EIO) => "EIO",
        Some(libc::EMFILE) => "EMFILE",
        Some(libc::ENAMETOOLONG) => "ENAMETOOLONG",
        Some(libc::ENOTDIR) => "ENOTDIR",
        Some(libc::EPERM) => "EPERM",
        Some(libc::EROFS) => "EROFS",
        Some(libc::ETXTBSY) => "ETXTBSY",
        _ => return String::new(),
    };
    format!(" ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_errors_have_their_own_words_and_kinds() {
        let cases = [
            (
                libc::EACCES,
                ToolErrorKind::PermissionDenied,
                "Permission denied writing to file: /w/a (EACCES)",
            ),
            (libc::ENOSPC, ToolErrorKind::NoSpaceLeft, "No space left on device: /w/a (ENOSPC)"),
            (
                libc::EISDIR,
                ToolErrorKind::TargetIsDirectory,
                "Target is a directory, not a file: /w/a (EISDIR)",
            ),
        ];
        for (number, kind, message) in cases {
            let failure =
                write_failure(Path::new("/w/a"), SaveError::Io(io::Error::from_raw_os_error(number)));
            assert_eq!((failure.kind, failure.message.as_str()), (kind, message));
        }
        let other =
            write_failure(Path::new("/w/a"), SaveError::Io(io::Error::from_raw_os_error(libc::EROFS)));
        assert_eq!(other.kind, ToolErrorKind::FileWriteFailure);
        assert!(
            other.message.starts_with("Error writing to file '/w/a': ") && other.message.ends_with("(EROFS)")
        );
    }
}
