//! Expands a typed prompt into model input: `@path` adds the file's content.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::groups::FileFiltering;
use pollux_domain::content::Part;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_mcp::Servers;
use pollux_tools::{ReadManyRequest, Workspace, read_many};
use tokio_util::sync::CancellationToken;

use super::mcp;
use crate::mentions::{self, Mention, Piece};

/// An expanded prompt, and notes about files that were left out.
pub type Expanded = (Vec<Part>, Vec<String>);

/// The text of a prompt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PromptText<'a> {
    pub(crate) text: &'a str,
    /// The bytes at its start that another program piped in. Mentions in them produce no notes: addresses and source
    /// code are full of `@`.
    pub(crate) piped: usize,
    /// Whether it may be the name of a skill or an MCP prompt.
    pub(crate) may_be_command: bool,
}

impl<'a> PromptText<'a> {
    /// Text that the user typed.
    pub(crate) fn typed(text: &'a str) -> Self {
        Self { text, piped: 0, may_be_command: true }
    }

    /// The text of a headless run, which ends with what the user typed, if anything. Then only that can be a command.
    pub(crate) fn headless(text: &'a str, typed: Option<&str>) -> Self {
        let typed = typed.filter(|typed| !typed.trim().is_empty());
        match typed.and_then(|typed| text.strip_suffix(typed)) {
            Some(piped) => Self { text, piped: piped.len(), may_be_command: piped.is_empty() },
            None => Self { text, piped: text.len(), may_be_command: true },
        }
    }

    /// What another program piped in before the user's text; empty if there is only one of them.
    pub(crate) fn before_typed(&self) -> &'a str {
        if self.may_be_command { "" } else { self.text.get(..self.piped).unwrap_or_default() }
    }

    /// The part that can be a command.
    pub(crate) fn command(&self) -> &'a str {
        if self.may_be_command { self.text } else { self.text.get(self.piped..).unwrap_or_default() }
    }
}

/// Reads the files a prompt mentions on a blocking thread, so that it can be cancelled; `None` if it was.
pub(super) async fn expand(
    prompt: PromptText<'_>,
    workspace: &Arc<Workspace>,
    filtering: &FileFiltering,
    servers: Option<&Servers>,
    cancel: &CancellationToken,
) -> Option<Result<Expanded, Failure>> {
    let PromptText { text, piped, may_be_command } = prompt;
    // Text from an MCP prompt is sent unchanged: `@` in it does not refer to a file.
    if let Some(servers) = servers.filter(|_| may_be_command)
        && let Some(text) = mcp::prompt_text(servers, text, cancel).await
    {
        return Some(text.map(|text| (vec![Part::text(text)], Vec::new())));
    }
    if !text.contains('@') {
        return Some(Ok((vec![Part::text(text)], Vec::new())));
    }
    let resources = match servers {
        Some(servers) => match mcp::mentioned(servers, text, cancel).await {
            Ok(resources) => resources,
            Err(failure) => return Some(Err(failure)),
        },
        None => Vec::new(),
    };
    let mut expanded = read_files(text, piped, workspace, filtering, cancel).await?;
    if let Ok((parts, _)) = &mut expanded {
        parts.extend(resources);
    }
    Some(expanded)
}

async fn read_files(
    typed: &str,
    piped: usize,
    workspace: &Arc<Workspace>,
    filtering: &FileFiltering,
    cancel: &CancellationToken,
) -> Option<Result<Expanded, Failure>> {
    let (typed, workspace, filtering) = (typed.to_owned(), Arc::clone(workspace), filtering.clone());
    let stop = cancel.child_token();
    let reading = tokio::task::spawn_blocking(move || read(&typed, piped, &workspace, &filtering, &stop));
    tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        read = reading => Some(read.unwrap_or_else(|error| {
            Err(Failure::new(ExitKind::Failure, "could not read the files mentioned in the prompt").because(&error))
        })),
    }
}

/// A mention without a matching file in the workspace stays plain text.
fn read(
    typed: &str,
    piped: usize,
    workspace: &Arc<Workspace>,
    filtering: &FileFiltering,
    cancel: &CancellationToken,
) -> Result<Expanded, Failure> {
    let mut query = String::new();
    let mut files = Vec::new();
    let mut seen = BTreeSet::new();
    let mut notes = Notes::default();
    let (mut at, mut before) = (0, None);
    for piece in mentions::pieces(typed) {
        let mention = match piece {
            Piece::Words(words) => {
                at += words.len();
                before = words.chars().next_back();
                query.push_str(&words);
                continue;
            }
            Piece::Mention(mention) => mention,
        };
        let is_noted = at >= piped && !before.is_some_and(continues_word);
        at += mention.written.len();
        before = mention.written.chars().next_back();
        let Some(wanted) = wanted(&mention, workspace) else {
            if is_noted && mention.names_file() {
                notes.add(&mention, "no such file in the workspace");
            }
            query.push_str(&mention.written);
            continue;
        };
        let read = read_many(workspace, filtering, &wanted.request, cancel).map_err(|error| {
            let what = format!("could not read `{}` mentioned in the prompt", mention.path);
            Failure::new(ExitKind::Input, what).because(&error)
        })?;
        // Files skipped in a folder are expected; a mentioned file that was skipped deserves a note.
        if read.files.is_empty() {
            query.push_str(&mention.written);
            let reason =
                read.skipped.first().map_or("it contains no readable files", |skipped| &skipped.reason);
            if is_noted {
                notes.add(&mention, reason);
            }
            continue;
        }
        query.push_str(&format!("@{}", wanted.shown));
        for (file, part) in read.files.into_iter().zip(read.parts) {
            if seen.insert(file.clone()) {
                files.push(Part::text(format!("\nContent from @{file}:\n")));
                files.push(bare(part));
            }
        }
    }
    let passed_over = notes.lines;
    if files.is_empty() {
        return Ok((vec![Part::text(typed)], passed_over));
    }
    let mut all = vec![Part::text(query), Part::text("\n--- Content from referenced files ---")];
    all.extend(files);
    all.push(Part::text("\n--- End of content ---"));
    Ok((all, passed_over))
}

/// Notes about mentions that were not read, each once.
#[derive(Default)]
struct Notes {
    noted: BTreeSet<String>,
    lines: Vec<String>,
}

impl Notes {
    fn add(&mut self, mention: &Mention, reason: &str) {
        if self.noted.insert(mention.written.clone()) {
            self.lines.push(format!("`{}` in the prompt was not read: {reason}", mention.written));
        }
    }
}

/// Whether an `@` after this character is inside a word, as in a mail address.
fn continues_word(before: char) -> bool {
    before.is_alphanumeric() || "._-+%/:".contains(before)
}

/// The content for `@{path}` in a custom command: the parts of a file or of all files in a folder; empty if everything is
/// ignored, `None` if cancelled.
pub(super) async fn inject(
    path: &str,
    workspace: &Arc<Workspace>,
    filtering: &FileFiltering,
    cancel: &CancellationToken,
) -> Option<Result<Vec<Part>, String>> {
    let (path, workspace, filtering) = (path.to_owned(), Arc::clone(workspace), filtering.clone());
    let stop = cancel.child_token();
    let reading = tokio::task::spawn_blocking(move || injected(path, &workspace, &filtering, &stop));
    tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        read = reading => Some(read.unwrap_or_else(|error| Err(error.to_string()))),
    }
}

fn injected(
    path: String,
    workspace: &Arc<Workspace>,
    filtering: &FileFiltering,
    cancel: &CancellationToken,
) -> Result<Vec<Part>, String> {
    let mention = Mention { written: String::new(), path };
    let path = &mention.path;
    let Some(Wanted { request, .. }) = wanted(&mention, workspace).filter(|_| !path.is_empty()) else {
        // Upstream's words.
        return Err(match Path::new(path).is_absolute() {
            true => format!("Absolute path is outside of the allowed workspace: {path}"),
            false => format!("Path not found in workspace: {path}"),
        });
    };
    let read = read_many(workspace, filtering, &request, cancel).map_err(|error| error.to_string())?;
    if let (true, Some(skipped)) = (read.files.is_empty(), read.skipped.first()) {
        return Err(skipped.reason.clone());
    }
    let files = read.files.iter().zip(read.parts);
    if request.no_default_excludes || read.files.is_empty() {
        return Ok(files.map(|(_, part)| unframed(part)).collect());
    }
    let mut parts = vec![Part::text(format!("--- Start of content for directory: {path} ---\n"))];
    for (file, part) in files {
        let below = Path::new(file).strip_prefix(path.trim_start_matches("./")).unwrap_or(Path::new(file));
        parts.push(Part::text(format!("--- {} ---\n", below.display())));
        parts.push(unframed(part));
        parts.push(Part::text("\n"));
    }
    parts.push(Part::text(format!("--- End of content for directory: {path} ---")));
    Ok(parts)
}

/// The content as in the file.
fn unframed(part: Part) -> Part {
    let Some(text) = part.spoken_text() else { return part };
    let content = text.split_once(" ---\n\n").map_or(text, |(_, content)| content);
    Part::text(content.strip_suffix("\n\n").unwrap_or(content))
}

/// The content without the heading that the tool adds.
fn bare(part: Part) -> Part {
    let Some(text) = part.spoken_text() else { return part };
    Part::text(text.split_once(" ---\n\n").map_or(text, |(_, content)| content).trim())
}

/// What a mention asks for.
struct Wanted {
    request: ReadManyRequest,
    /// What the model sees instead of the mention.
    shown: String,
}

/// The read request for a mention; `None` if the workspace has no such file or folder.
fn wanted(mention: &Mention, workspace: &Workspace) -> Option<Wanted> {
    let roots = workspace.directories();
    let real = roots.iter().filter_map(|root| std::fs::canonicalize(root.join(&mention.path)).ok());
    let is_open =
        |path: &PathBuf| roots.iter().any(|root| path.starts_with(root)) || workspace.is_scratch(path);
    let found = real.into_iter().find(is_open)?;
    let is_folder = found.is_dir();
    let (pattern, shown) = if is_folder {
        let all = |folder: &str| Path::new(folder).join("**").display().to_string();
        (all(&literal(&mention.path)), all(&mention.path))
    } else if workspace.is_scratch(&found) {
        let path = found.display().to_string();
        (path.clone(), path)
    } else {
        (mention.path.clone(), mention.path.clone())
    };
    // A file that is mentioned explicitly is read even if it would be excluded by default.
    let request = ReadManyRequest {
        include: vec![pattern],
        no_default_excludes: !is_folder,
        ..ReadManyRequest::default()
    };
    Some(Wanted { request, shown })
}

/// A glob pattern that matches this path alone.
fn literal(path: &str) -> String {
    let mut pattern = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            '?' | '*' | '[' | ']' | '{' | '}' => pattern.extend(['[', c, ']']),
            '\\' => pattern.push_str("\\\\"),
            c => pattern.push(c),
        }
    }
    pattern
}

#[cfg(test)]
mod tests;
