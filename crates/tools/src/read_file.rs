//! The tool `read_file`: one file, or a range of its lines.

use std::sync::Arc;

use pollux_domain::content::Part;
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolFailure, ToolKind, ToolOutcome, ToolOutput,
    ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::json;

use crate::arguments::Arguments;
use crate::file_content::{self, Excerpt, FileContent, LineRange};
use crate::file_scope::{FileScope, at_once, on_thread};
use crate::workspace::Location;

/// Files up to this size are read on the spot; handing them to a thread would take longer.
const SMALL: u64 = 1 << 20;

/// The tool.
pub(crate) struct ReadFile {
    spec: Arc<ToolSpec>,
    scope: Arc<FileScope>,
}

struct Call {
    scope: Arc<FileScope>,
    location: Location,
    lines: LineRange,
}

impl ReadFile {
    pub(crate) fn new(scope: Arc<FileScope>) -> Self {
        let spec = ToolSpec {
            name: "read_file".to_owned(),
            display_name: "ReadFile".to_owned(),
            description:
                "Reads one file and returns its content. Works for text in any common encoding, for \
                images, PDF documents and audio. Without a range the first 2000 lines are returned; if more \
                exist, the result says so and tells how to continue. Ask only for the lines you need of a \
                large file, and read a region before you edit it."
                    .to_owned(),
            kind: ToolKind::Read,
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "Path of the file, absolute or relative to the project root."
                    },
                    "start_line": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "First line to return, counted from 1."
                    },
                    "end_line": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "Last line to return; this line is included."
                    }
                },
                "required": ["file_path"]
            }),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), scope }
    }
}

impl Tool for ReadFile {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        let given = arguments.required("file_path")?;
        if given.trim().is_empty() {
            return Err(ArgError("The 'file_path' parameter must be non-empty.".to_owned()));
        }
        let location = self.scope.locate(given)?;
        let lines = wanted_lines(arguments)?;
        if self.scope.rules.is_ignored(location.path(), false, self.scope.respect) {
            return Err(ArgError(format!(
                "File path '{}' is ignored by configured ignore patterns.",
                location.path().display()
            )));
        }
        Ok(Box::new(Call { scope: Arc::clone(&self.scope), location, lines }))
    }
}

/// `start_line` and `end_line`, or the older `offset` (from 0) and `limit`.
fn wanted_lines(arguments: Arguments<'_>) -> Result<LineRange, ArgError> {
    let mut start = arguments.number("start_line", 1)?;
    let mut end = arguments.number("end_line", 1)?;
    if start.is_none() && end.is_none() {
        let offset = arguments.number("offset", 0)?;
        let limit = arguments.number("limit", 1)?;
        start = offset.map(|offset| offset.saturating_add(1));
        end = limit.map(|limit| offset.unwrap_or(0).saturating_add(limit));
    }
    if let (Some(start), Some(end)) = (start, end)
        && start > end
    {
        return Err(ArgError("start_line cannot be greater than end_line".to_owned()));
    }
    Ok(LineRange { start, end })
}

impl Invocation for Call {
    fn describe(&self) -> String {
        self.scope.workspace.short(self.location.path())
    }

    fn effect(&self) -> Effect {
        Effect::Read(vec![self.location.path().to_owned()])
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let size = std::fs::metadata(self.location.path()).map_or(0, |metadata| metadata.len());
            if size <= SMALL && !self.scope.workspace.has_editor() {
                at_once(|| self.read())
            } else {
                on_thread(context, move |_| self.read()).await
            }
        })
    }
}

impl Call {
    fn read(&self) -> ToolOutcome {
        let workspace = &self.scope.workspace;
        let relative = workspace.short(self.location.path());
        let done = |parts, display| ToolOutcome::Done(ToolOutput::new(parts, display));
        match file_content::read(workspace, &self.location, self.lines) {
            Ok(FileContent::Text(excerpt)) => {
                let display = text_display(&excerpt, &relative);
                done(vec![Part::text(with_notice(excerpt))], display)
            }
            Ok(FileContent::Media { part, word }) => {
                done(vec![*part], Display::Text(format!("Read {word} file: {relative}")))
            }
            Ok(FileContent::Unshown { for_model, for_people }) => {
                done(vec![Part::text(for_model)], Display::Text(for_people))
            }
            Err(failure) => ToolOutcome::Failed(ToolFailure {
                kind: failure.kind,
                message: failure.message,
                display: Some(failure.for_people),
            }),
        }
    }
}

/// Upstream's notice in front of a text that is not all there.
fn with_notice(excerpt: Excerpt) -> String {
    if !excerpt.is_partial() && !excerpt.is_shortened {
        return excerpt.text;
    }
    format!(
        "\nIMPORTANT: The file content has been truncated.\n\
         Status: Showing lines {first}-{last} of {total} total lines.\n\
         Action: To read more of the file, you can use the 'start_line' and 'end_line' parameters in a \
         subsequent 'read_file' call. For example, to read the next section of the file, use start_line: \
         {next}.\n\n--- FILE CONTENT (truncated) ---\n{text}",
        first = excerpt.first,
        last = excerpt.last,
        total = excerpt.total,
        next = excerpt.last + 1,
        text = excerpt.text,
    )
}

fn text_display(excerpt: &Excerpt, relative: &str) -> Display {
    let Excerpt { first, last, total, is_shortened, .. } = excerpt;
    let suffix = if *is_shortened { " (some lines were shortened)" } else { "" };
    if excerpt.is_partial() {
        Display::Text(format!("Read lines {first}-{last} of {total} from {relative}{suffix}"))
    } else if *is_shortened {
        Display::Text(format!("Read all {total} lines from {relative}{suffix}"))
    } else {
        Display::Nothing
    }
}
