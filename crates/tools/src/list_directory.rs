//! The tool `list_directory`: the entries of a folder.

use std::io;
use std::path::Path;
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolFailure, ToolKind,
    ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_scope::{FileScope, on_thread};
use crate::ignore_rules::Respect;
use crate::workspace::{EntryKind, Folder, Location};

/// Limit of listed entries.
const MAX_ENTRIES: usize = 10_000;

/// The tool.
pub(crate) struct ListDirectory {
    spec: Arc<ToolSpec>,
    scope: Arc<FileScope>,
}

struct Call {
    scope: Arc<FileScope>,
    location: Location,
    respect: Respect,
    ignore: GlobSet,
}

/// The entries found in a folder.
#[derive(Default)]
struct Listing {
    entries: Vec<Entry>,
    /// How many entries ignore files removed.
    ignored: usize,
    /// Whether anything is left out without being counted.
    has_hidden: bool,
}

struct Entry {
    name: String,
    is_dir: bool,
    size: u64,
}

impl ListDirectory {
    pub(crate) fn new(scope: Arc<FileScope>) -> Self {
        let spec = ToolSpec {
            name: "list_directory".to_owned(),
            display_name: "ReadFolder".to_owned(),
            description:
                "Lists the files and folders directly inside one folder, with the sizes of the files. \
                Folders come first. Use it to get to know a project's layout; use glob to find files by name."
                    .to_owned(),
            kind: ToolKind::Search,
            parameters: json!({
                "type": "object",
                "properties": {
                    "dir_path": {
                        "type": "string",
                        "description": "Path of the folder, absolute or relative to the project root."
                    },
                    "ignore": {
                        "type": "array",
                        "items": { "type": "string" },
                        "description": "Names to leave out; * and ? stand for any characters."
                    },
                    "file_filtering_options": {
                        "type": "object",
                        "description": "Which ignore files count; both do unless switched off.",
                        "properties": {
                            "respect_git_ignore": {
                                "type": "boolean",
                                "description": "Leave out what .gitignore names (inside a git repository)."
                            },
                            "respect_gemini_ignore": {
                                "type": "boolean",
                                "description": "Leave out what .geminiignore names."
                            }
                        }
                    }
                },
                "required": ["dir_path"]
            }),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), scope }
    }
}

impl Tool for ListDirectory {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        let given = arguments.text("dir_path")?.or(arguments.text("path")?);
        let given =
            given.ok_or_else(|| ArgError("params must have required property 'dir_path'".to_owned()))?;
        let location = self.scope.locate(if given.is_empty() { "." } else { given })?;
        let respect = self.scope.respect_in(arguments.object("file_filtering_options")?)?;
        let ignore = name_patterns(&arguments.texts("ignore")?.unwrap_or_default())?;
        Ok(Box::new(Call { scope: Arc::clone(&self.scope), location, respect, ignore }))
    }
}

/// Only `*` and `?` have a meaning, as upstream has it.
fn name_patterns(patterns: &[&str]) -> Result<GlobSet, ArgError> {
    let mut set = GlobSetBuilder::new();
    let problem = |error: globset::Error| ArgError(format!("invalid pattern in `ignore`: {error}"));
    for pattern in patterns {
        let plain: String = pattern
            .chars()
            .map(|c| if matches!(c, '*' | '?') { c.to_string() } else { globset::escape(&c.to_string()) })
            .collect();
        set.add(GlobBuilder::new(&plain).build().map_err(problem)?);
    }
    set.build().map_err(problem)
}

impl Invocation for Call {
    fn describe(&self) -> String {
        self.scope.workspace.short(self.location.path())
    }

    fn effect(&self) -> Effect {
        Effect::Read(vec![self.location.path().to_owned()])
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(on_thread(context, move |cancel| self.list(cancel)))
    }
}

impl Call {
    fn list(&self, cancel: &CancellationToken) -> ToolOutcome {
        let location = match self.scope.workspace.admit_again(&self.location) {
            Ok(location) => location,
            Err(refusal) => {
                return ToolOutcome::failed(ToolErrorKind::PathNotInWorkspace, refusal.to_string());
            }
        };
        let path = location.path();
        let folder = match self.scope.workspace.status(&location) {
            Ok(status) if status.kind != EntryKind::Folder => {
                return failed(
                    ToolErrorKind::PathIsNotADirectory,
                    format!("Error: Path is not a directory: {}", path.display()),
                );
            }
            Ok(_) => self.scope.workspace.open_folder(path),
            Err(error) => Err(error),
        };
        let mut listing = match folder.and_then(|folder| self.collect(path, &folder, cancel)) {
            Ok(listing) => listing,
            Err(_) if cancel.is_cancelled() => return ToolOutcome::Cancelled { partial: None },
            Err(error) => {
                let message =
                    format!("Error listing directory: {}: {error}", self.location.asked().display());
                return failed(ToolErrorKind::LsExecutionError, message);
            }
        };
        if listing.entries.is_empty() && listing.ignored == 0 && !listing.has_hidden {
            let text = format!("Directory {} is empty.", self.location.asked().display());
            return ToolOutcome::text(text, Display::Text("Directory is empty.".to_owned()));
        }
        let sort_key = |entry: &Entry| (!entry.is_dir, entry.name.to_lowercase(), entry.name.clone());
        listing.entries.sort_by_cached_key(sort_key);
        self.present(&listing)
    }

    fn collect(&self, at: &Path, folder: &Folder, cancel: &CancellationToken) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for entry in folder.entries()? {
            if cancel.is_cancelled() {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            let path = at.join(&entry.name);
            let name = entry.name.to_string_lossy().into_owned();
            // Also skips links that lead outside the workspace, or nowhere.
            let target = self.scope.workspace.admit(path.clone()).ok();
            let status = target.and_then(|target| match entry.kind {
                EntryKind::Link => self.scope.workspace.status(&target).ok(),
                _ => folder.status(&entry.name).ok(),
            });
            let Some(status) = status.filter(|_| !self.ignore.is_match(&name)) else {
                listing.has_hidden = true;
                continue;
            };
            let is_dir = status.kind == EntryKind::Folder;
            if self.scope.rules.is_ignored(&path, is_dir, self.respect) {
                listing.ignored += 1;
                continue;
            }
            listing.entries.push(Entry { name, is_dir, size: if is_dir { 0 } else { status.size } });
        }
        Ok(listing)
    }

    fn present(&self, listing: &Listing) -> ToolOutcome {
        let Listing { entries, ignored, .. } = listing;
        let line = |entry: &Entry| match entry.is_dir {
            true => format!("[DIR] {}", entry.name),
            false => format!("{} ({} bytes)", entry.name, entry.size),
        };
        let items: Vec<String> = entries.iter().take(MAX_ENTRIES).map(line).collect();
        let mut text =
            format!("Directory listing for {}:\n{}", self.location.asked().display(), items.join("\n"));
        if entries.len() > items.len() {
            text.push_str(&format!("\n... [{} more entries not listed]", entries.len() - items.len()));
        }
        let mut summary = format!("Found {} item(s).", entries.len());
        if *ignored > 0 {
            text.push_str(&format!("\n\n({ignored} ignored)"));
            summary.push_str(&format!(" ({ignored} ignored)"));
        }
        ToolOutcome::text(text, Display::List { summary, items })
    }
}

fn failed(kind: ToolErrorKind, message: String) -> ToolOutcome {
    ToolOutcome::Failed(ToolFailure { kind, message, display: None })
}
