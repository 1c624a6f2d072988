//! The tool `read_many_files`: all files that match some patterns. Also implements `@path` mentions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use pollux_config::groups::FileFiltering;
use pollux_domain::content::Part;
use pollux_domain::secret_names::secret_part;
use pollux_domain::time::SystemClock;
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome,
    ToolOutput, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_content::{self, FileContent, LineRange};
use crate::file_kind::BINARY_EXTENSIONS;
use crate::file_scope::{FileScope, on_thread};
use crate::ignore_rules::Respect;
use crate::walk::{Walk, exclude_set};
use crate::withheld::{self, names_secret};
use crate::workspace::Workspace;

/// Beyond this the rest is left out; a model could not read it anyway.
const MAX_TOTAL_BYTES: usize = 20 << 20;
/// How many names the summary shows; upstream's values.
const SHOWN_READ: usize = 10;
const SHOWN_SKIPPED: usize = 5;

const MORE_EXCLUDES: &[&str] = &[
    ".vscode",
    ".idea",
    "dist",
    "build",
    "coverage",
    "__pycache__",
    "*.pyc",
    "*.pyo",
    ".DS_Store",
    ".env",
    "GEMINI.md",
];

/// The files to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadManyRequest {
    /// Globs or paths, relative to each workspace directory or absolute.
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    /// Whether to include files that are usually not interesting, such as build output and archives.
    pub no_default_excludes: bool,
    /// Whether files that may contain secrets are read if a pattern names them. Only a call that needed approval for it
    /// may say so.
    pub named_secrets: bool,
    /// Overrides the settings.
    pub respect_git_ignore: Option<bool>,
    pub respect_gemini_ignore: Option<bool>,
}

/// The result of reading.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadMany {
    /// For the model; empty if nothing was read.
    pub parts: Vec<Part>,
    /// The files, in order, relative to the project root.
    pub files: Vec<String>,
    pub skipped: Vec<Skipped>,
}

/// A file that matched and was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: String,
    pub reason: String,
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadManyError {
    #[error("invalid pattern `{pattern}`: {source}")]
    Pattern { pattern: String, source: globset::Error },
    #[error("cancelled")]
    Cancelled,
}

/// Reads all files that match. Blocks; call it from a thread that may.
pub fn read_many(
    workspace: &Arc<Workspace>,
    filtering: &FileFiltering,
    request: &ReadManyRequest,
    cancel: &CancellationToken,
) -> Result<ReadMany, ReadManyError> {
    let scope = FileScope::of(Arc::clone(workspace), filtering, Arc::new(SystemClock));
    read_all(&scope, request, cancel)
}

fn read_all(
    scope: &FileScope,
    request: &ReadManyRequest,
    cancel: &CancellationToken,
) -> Result<ReadMany, ReadManyError> {
    let mut result = ReadMany { parts: Vec::new(), files: Vec::new(), skipped: Vec::new() };
    let mut total = 0;
    for (path, is_withheld) in matching(scope, request, cancel)? {
        if cancel.is_cancelled() {
            return Err(ReadManyError::Cancelled);
        }
        let name = scope.workspace.relative(&path);
        let outcome = if is_withheld {
            Err(withheld::REASON.to_owned())
        } else if total > MAX_TOTAL_BYTES {
            Err("the size limit is reached".to_owned())
        } else {
            read_one(scope, &path, request)
        };
        match outcome {
            Ok((part, size)) => {
                total += size;
                result.parts.push(part);
                result.files.push(name);
            }
            Err(reason) => result.skipped.push(Skipped { path: name, reason }),
        }
    }
    if !result.parts.is_empty() {
        result.parts.push(Part::text("\n--- End of content ---"));
    }
    Ok(result)
}

/// The matching files of all workspace directories, sorted by path, and whether they are withheld; ignored ones are left
/// out.
fn matching(
    scope: &FileScope,
    request: &ReadManyRequest,
    cancel: &CancellationToken,
) -> Result<BTreeMap<PathBuf, bool>, ReadManyError> {
    let respect = Respect {
        git: request.respect_git_ignore.unwrap_or(scope.respect.git),
        gemini: request.respect_gemini_ignore.unwrap_or(scope.respect.gemini),
    };
    let built_in = default_excludes(request)?;
    let exclude = patterns(Path::new(""), &request.exclude)?;
    // Files in the project's own folder, such as a pasted picture, are named by their path.
    let named = request.include.iter().map(PathBuf::from).filter(|path| scope.workspace.is_scratch(path));
    let mut found: BTreeMap<PathBuf, bool> = named.map(|path| (path, false)).collect();
    if let Some((path, is_secret)) = named_file(scope, request, respect) {
        found.insert(path, is_secret && !request.named_secrets);
    }
    if found.len() == request.include.len() {
        return Ok(found);
    }
    for directory in scope.workspace.directories() {
        let include = patterns(directory, &request.include)?;
        let is_naming =
            |text: &&String| request.named_secrets && names_secret(relative_pattern(directory, text));
        let naming: Vec<String> = request.include.iter().filter(is_naming).cloned().collect();
        let naming = patterns(directory, &naming)?;
        let walk = Walk {
            workspace: &scope.workspace,
            rules: &scope.rules,
            respect,
            start: directory,
            excludes: &built_in,
            prefix: Path::new(""),
            reports_ignored: false,
            cancel,
        };
        walk.run(&mut |file| {
            if include.is_match(file.below) && !exclude.is_match(file.below) {
                found.insert(file.path.to_owned(), file.is_secret && !naming.is_match(file.below));
            }
        })
        .map_err(|_| ReadManyError::Cancelled)?;
    }
    Ok(found)
}

/// The file that the only pattern names by its path, without searching the workspace, and whether it may contain secrets.
fn named_file(scope: &FileScope, request: &ReadManyRequest, respect: Respect) -> Option<(PathBuf, bool)> {
    let ([pattern], [], true) = (&*request.include, &*request.exclude, request.no_default_excludes) else {
        return None;
    };
    let directories = scope.workspace.directories().iter();
    let (directory, path) =
        directories.map(|directory| (directory, directory.join(pattern))).find(|(_, path)| path.is_file())?;
    // A walk would not follow links either.
    let is_itself = std::fs::canonicalize(&path).is_ok_and(|real| real == path);
    let may_be_read = scope.workspace.may_see(&path) && !path.starts_with(scope.workspace.state_dir());
    let is_secret = path.strip_prefix(directory).is_ok_and(|below| secret_part(below).is_some());
    (is_itself && may_be_read && !scope.rules.is_ignored(&path, false, respect)).then_some((path, is_secret))
}

fn default_excludes(request: &ReadManyRequest) -> Result<GlobSet, ReadManyError> {
    let problem = |source| ReadManyError::Pattern { pattern: "(default excludes)".to_owned(), source };
    if request.no_default_excludes {
        return GlobSetBuilder::new().build().map_err(problem);
    }
    let binaries: Vec<String> = BINARY_EXTENSIONS.iter().map(|extension| format!("*.{extension}")).collect();
    let more: Vec<&str> = MORE_EXCLUDES.iter().copied().chain(binaries.iter().map(String::as_str)).collect();
    exclude_set(&more).map_err(problem)
}

fn relative_pattern<'p>(directory: &Path, pattern: &'p str) -> &'p str {
    let prefix = format!("{}/", directory.display());
    pattern.strip_prefix(&prefix).unwrap_or(pattern).trim_start_matches("./")
}

/// Patterns relative to a directory; one that names an existing file is taken literally.
fn patterns(directory: &Path, patterns: &[String]) -> Result<GlobSet, ReadManyError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let problem = |source| ReadManyError::Pattern { pattern: pattern.clone(), source };
        let relative = relative_pattern(directory, pattern);
        let is_literal = directory.is_absolute() && directory.join(relative).is_file();
        let glob = if is_literal { globset::escape(relative) } else { relative.to_owned() };
        let glob = GlobBuilder::new(&glob).literal_separator(true).case_insensitive(true).build();
        set.add(glob.map_err(problem)?);
    }
    set.build().map_err(|source| ReadManyError::Pattern { pattern: patterns.join(", "), source })
}

fn read_one(scope: &FileScope, path: &Path, request: &ReadManyRequest) -> Result<(Part, usize), String> {
    let location = scope.workspace.admit(path.to_owned()).map_err(|refusal| refusal.to_string())?;
    match file_content::read(&scope.workspace, &location, LineRange::default()) {
        Ok(FileContent::Text(excerpt)) => {
            let warning = if excerpt.is_partial() || excerpt.is_shortened {
                "[WARNING: This file was truncated. To view the full content, use the 'read_file' tool on this \
                 specific file.]\n\n"
            } else {
                ""
            };
            let text = format!("--- {} ---\n\n{warning}{}\n\n", path.display(), excerpt.text);
            let size = text.len();
            Ok((Part::text(text), size))
        }
        Ok(FileContent::Media { part, .. }) if is_named(path, &request.include) => {
            let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            Ok((*part, usize::try_from(size).unwrap_or(usize::MAX / 2)))
        }
        Ok(FileContent::Media { .. }) => {
            Err("asset file (image/pdf/audio) was not explicitly requested by name or extension".to_owned())
        }
        Ok(FileContent::Unshown { for_model, .. }) => Err(for_model),
        Err(failure) => Err(format!("Read error: {}", failure.message)),
    }
}

/// Whether a pattern names the extension or the name of a file.
fn is_named(path: &Path, include: &[String]) -> bool {
    let lower = |text: &std::ffi::OsStr| text.to_string_lossy().to_lowercase();
    let extension = path.extension().map(lower);
    let stem = path.file_stem().map(lower);
    include.iter().map(|pattern| pattern.to_lowercase()).any(|pattern| {
        extension.as_ref().is_some_and(|extension| pattern.contains(&format!(".{extension}")))
            || stem.as_ref().is_some_and(|stem| pattern.contains(stem.as_str()))
    })
}

/// The tool.
pub(crate) struct ReadManyFiles {
    spec: Arc<ToolSpec>,
    scope: Arc<FileScope>,
}

struct Call {
    scope: Arc<FileScope>,
    request: ReadManyRequest,
}

impl ReadManyFiles {
    pub(crate) fn new(scope: Arc<FileScope>) -> Self {
        let spec = ToolSpec {
            name: "read_many_files".to_owned(),
            display_name: "ReadManyFiles".to_owned(),
            description:
                "Reads all files that match the given paths or glob patterns and returns their contents one \
                after the other, each under its path. Images, PDF documents and audio are included only when \
                a pattern names them."
                    .to_owned(),
            kind: ToolKind::Read,
            parameters: parameters(),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), scope }
    }
}

fn parameters() -> Value {
    let switch = |description: &str| json!({ "type": "boolean", "description": description });
    let globs = |description: &str| json!({ "type": "array", "items": { "type": "string", "minLength": 1 }, "description": description });
    let mut include = globs("Paths or glob patterns of the files to read.");
    if let Some(include) = include.as_object_mut() {
        include.insert("minItems".to_owned(), json!(1));
    }
    json!({
        "type": "object",
        "properties": {
            "include": include,
            "exclude": globs("Glob patterns of files to leave out."),
            "recursive": switch("Has no effect; use ** in a pattern to reach into folders."),
            "useDefaultExcludes": switch("Leave out build output, archives and the like; yes by default."),
            "file_filtering_options": {
                "type": "object",
                "description": "Which ignore files count; both do unless switched off.",
                "properties": {
                    "respect_git_ignore": switch("Leave out what .gitignore names."),
                    "respect_gemini_ignore": switch("Leave out what .geminiignore names.")
                }
            }
        },
        "required": ["include"]
    })
}

impl Tool for ReadManyFiles {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        let owned = |texts: Option<Vec<&str>>| -> Vec<String> {
            texts.unwrap_or_default().into_iter().map(str::to_owned).collect()
        };
        let include = owned(arguments.texts("include")?.or(arguments.texts("paths")?));
        if include.is_empty() {
            return Err(ArgError("params/include must NOT have fewer than 1 items".to_owned()));
        }
        let respect = self.scope.respect_in(arguments.object("file_filtering_options")?)?;
        let request = ReadManyRequest {
            include,
            exclude: owned(arguments.texts("exclude")?),
            no_default_excludes: !arguments.flag("useDefaultExcludes")?.unwrap_or(true),
            named_secrets: true,
            respect_git_ignore: Some(respect.git),
            respect_gemini_ignore: Some(respect.gemini),
        };
        Ok(Box::new(Call { scope: Arc::clone(&self.scope), request }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        format!(
            "Will attempt to read and concatenate files using patterns: {}",
            self.request.include.join(", ")
        )
    }

    fn effect(&self) -> Effect {
        Effect::Read(self.scope.workspace.directories().to_vec())
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(on_thread(context, move |cancel| match read_all(&self.scope, &self.request, cancel) {
            Err(ReadManyError::Cancelled) => ToolOutcome::Cancelled { partial: None },
            Err(error) => ToolOutcome::failed(
                ToolErrorKind::ReadManyFilesSearchError,
                format!("Error during file search: {error}"),
            ),
            Ok(result) => present(result),
        }))
    }
}

fn present(result: ReadMany) -> ToolOutcome {
    let display = Display::Text(summary(&result));
    let withheld: Vec<String> = result
        .skipped
        .into_iter()
        .filter(|file| file.reason == withheld::REASON)
        .map(|file| file.path)
        .collect();
    let mut parts = result.parts;
    if parts.is_empty() {
        parts.push(Part::text("No files matching the criteria were found or all were skipped."));
    }
    parts.extend(withheld::note(&withheld).map(Part::text));
    ToolOutcome::Done(ToolOutput::new(parts, display))
}

fn summary(result: &ReadMany) -> String {
    let mut text = "### ReadManyFiles Result\n".to_owned();
    let files: Vec<String> = result.files.iter().map(|file| format!("`{file}`")).collect();
    let skipped: Vec<String> =
        result.skipped.iter().map(|file| format!("`{}` (Reason: {})", file.path, file.reason)).collect();
    for (title, items, most) in [("Read", files, SHOWN_READ), ("Skipped", skipped, SHOWN_SKIPPED)] {
        if items.is_empty() {
            continue;
        }
        text.push_str(&format!("\n**{title} {} file(s)**\n", items.len()));
        for item in items.iter().take(most) {
            text.push_str(&format!("- {item}\n"));
        }
        if items.len() > most {
            text.push_str(&format!("- ...and {} more\n", items.len() - most));
        }
    }
    if result.files.is_empty() && result.skipped.is_empty() {
        text.push_str("\nNo files were read.");
    }
    text.trim_end().to_owned()
}
