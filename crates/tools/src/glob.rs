//! The tool `glob`: finds files by name pattern.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use globset::{GlobBuilder, GlobMatcher};
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_scope::{FileScope, on_thread};
use crate::ignore_rules::Respect;
use crate::walk::{Cancelled, Walk, exclude_set};

/// Files changed within this time come first; upstream's value.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);
/// Upstream lists everything; a model has no use for more than this.
const MAX_LISTED: usize = 20_000;

/// The tool.
pub(crate) struct Glob {
    spec: Arc<ToolSpec>,
    scope: Arc<FileScope>,
}

struct Call {
    scope: Arc<FileScope>,
    pattern: String,
    is_case_sensitive: bool,
    /// Where to search; the complete workspace if no folder was given.
    directories: Vec<PathBuf>,
    is_folder_given: bool,
    respect: Respect,
}

impl Glob {
    pub(crate) fn new(scope: Arc<FileScope>) -> Self {
        let spec = ToolSpec {
            name: "glob".to_owned(),
            display_name: "FindFiles".to_owned(),
            description: "Finds files whose path matches a glob pattern such as src/**/*.rs or **/*.{md,txt}. \
                Returns absolute paths: recently changed files first, newest on top, then the others by path. \
                Use it when you know something of the name; use grep_search to look for content."
                .to_owned(),
            kind: ToolKind::Search,
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {
                        "type": "string",
                        "description": "The pattern: * within one name, ** across folders, ? for one character, \
                            {a,b} for alternatives."
                    },
                    "dir_path": {
                        "type": "string",
                        "description": "Folder to search; the whole workspace if left out."
                    },
                    "case_sensitive": {
                        "type": "boolean",
                        "description": "Whether case matters; it does not by default."
                    },
                    "respect_git_ignore": {
                        "type": "boolean",
                        "description": "Leave out what .gitignore names; yes by default."
                    },
                    "respect_gemini_ignore": {
                        "type": "boolean",
                        "description": "Leave out what .geminiignore names; yes by default."
                    }
                },
                "required": ["pattern"]
            }),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), scope }
    }
}

impl Tool for Glob {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        let pattern = arguments.required("pattern")?;
        if pattern.trim().is_empty() {
            return Err(ArgError("The 'pattern' parameter cannot be empty.".to_owned()));
        }
        let given = arguments.text("dir_path")?.or(arguments.text("path")?).filter(|path| !path.is_empty());
        let directories = match given {
            None => self.scope.workspace.directories().to_vec(),
            Some(given) => vec![existing_directory(&self.scope, given)?],
        };
        let is_case_sensitive = arguments.flag("case_sensitive")?.unwrap_or(false);
        matcher(pattern, is_case_sensitive).map_err(|error| ArgError(error.to_string()))?;
        Ok(Box::new(Call {
            scope: Arc::clone(&self.scope),
            pattern: pattern.to_owned(),
            is_case_sensitive,
            directories,
            is_folder_given: given.is_some(),
            respect: self.scope.respect_in(Some(arguments))?,
        }))
    }
}

fn existing_directory(scope: &FileScope, given: &str) -> Result<PathBuf, ArgError> {
    let location = scope.locate(given)?;
    let path = location.path();
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(path.to_owned()),
        Ok(_) => Err(ArgError(format!("Search path is not a directory: {}", path.display()))),
        Err(_) => Err(ArgError(format!("Search path does not exist {}", path.display()))),
    }
}

fn matcher(pattern: &str, is_case_sensitive: bool) -> Result<GlobMatcher, globset::Error> {
    let glob = GlobBuilder::new(pattern)
        .literal_separator(true)
        .case_insensitive(!is_case_sensitive)
        .empty_alternates(true)
        .build()?;
    Ok(glob.compile_matcher())
}

impl Invocation for Call {
    fn describe(&self) -> String {
        match self.directories.first() {
            Some(directory) if self.is_folder_given => {
                format!("'{}' within {}", self.pattern, self.scope.workspace.short(directory))
            }
            _ => format!("'{}'", self.pattern),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Read(self.directories.clone())
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(on_thread(context, move |cancel| self.search(cancel)))
    }
}

/// A file that matched.
struct Hit {
    path: PathBuf,
    changed: SystemTime,
}

impl Call {
    fn search(&self, cancel: &CancellationToken) -> ToolOutcome {
        let mut hits = Vec::new();
        let mut ignored = 0;
        for directory in &self.directories {
            match self.search_in(directory, &mut hits, &mut ignored, cancel) {
                Ok(Ok(())) => {}
                Ok(Err(Cancelled)) => return ToolOutcome::Cancelled { partial: None },
                Err(error) => {
                    let message = format!("Error during glob search operation: {error}");
                    return ToolOutcome::failed(ToolErrorKind::GlobExecutionError, message);
                }
            }
        }
        let now = u64::try_from(self.scope.clock.now().millis()).unwrap_or_default();
        order(&mut hits, UNIX_EPOCH + Duration::from_millis(now));
        hits.dedup_by(|a, b| a.path == b.path);
        self.present(&hits, ignored)
    }

    fn search_in(
        &self,
        directory: &Path,
        hits: &mut Vec<Hit>,
        ignored: &mut usize,
        cancel: &CancellationToken,
    ) -> Result<Result<(), Cancelled>, globset::Error> {
        let pattern = relative_pattern(directory, &self.pattern);
        // A name with brackets or stars in it may simply exist.
        let is_literal = !pattern.is_empty() && directory.join(&pattern).symlink_metadata().is_ok();
        let pattern = if is_literal { globset::escape(&pattern) } else { pattern };
        let matcher = matcher(&pattern, self.is_case_sensitive)?;
        let prefix = if self.is_case_sensitive { literal_prefix(&pattern) } else { PathBuf::new() };
        let excludes = exclude_set(&[])?;
        let walk = Walk {
            workspace: &self.scope.workspace,
            rules: &self.scope.rules,
            respect: self.respect,
            start: directory,
            excludes: &excludes,
            prefix: &prefix,
            reports_ignored: true,
            cancel,
        };
        Ok(walk.run(&mut |found| {
            if !matcher.is_match(found.below) {
            } else if found.is_ignored {
                *ignored += 1;
            } else {
                hits.push(Hit { path: found.path.to_owned(), changed: found.modified() });
            }
        }))
    }

    fn present(&self, hits: &[Hit], ignored: usize) -> ToolOutcome {
        let pattern = &self.pattern;
        let place = match &self.directories[..] {
            [only] => format!(" within {}", only.display()),
            several => format!(" across {} workspace directories", several.len()),
        };
        if hits.is_empty() {
            let mut text = format!("No files found matching pattern \"{pattern}\"{place}");
            if ignored > 0 {
                text.push_str(&format!(" ({ignored} files were ignored)"));
            }
            return ToolOutcome::text(text, Display::Text("No files found".to_owned()));
        }
        let mut text = format!("Found {} file(s) matching \"{pattern}\"{place}", hits.len());
        if ignored > 0 {
            text.push_str(&format!(" ({ignored} additional files were ignored)"));
        }
        text.push_str(", sorted by modification time (newest first):");
        for hit in hits.iter().take(MAX_LISTED) {
            text.push('\n');
            text.push_str(&hit.path.to_string_lossy());
        }
        if hits.len() > MAX_LISTED {
            text.push_str(&format!(
                "\n... [{} more files not listed; narrow the pattern]",
                hits.len() - MAX_LISTED
            ));
        }
        ToolOutcome::text(text, Display::Text(format!("Found {} matching file(s)", hits.len())))
    }
}

/// The pattern relative to the folder that is searched.
fn relative_pattern(directory: &Path, pattern: &str) -> String {
    let prefix = format!("{}/", directory.display());
    let pattern = pattern.strip_prefix(&prefix).unwrap_or(pattern);
    pattern.trim_start_matches("./").to_owned()
}

/// The folders a pattern names before its first special character.
fn literal_prefix(pattern: &str) -> PathBuf {
    let Some((folders, _)) = pattern.rsplit_once('/') else { return PathBuf::new() };
    Path::new(folders)
        .components()
        .take_while(|part| match part {
            Component::Normal(name) => {
                !name.to_string_lossy().contains(['*', '?', '[', ']', '{', '}', '\\', '!', ','])
            }
            _ => false,
        })
        .collect()
}

/// Recently changed files first, newest on top; then the others by path.
fn order(hits: &mut [Hit], now: SystemTime) {
    let is_recent =
        |hit: &Hit| now.duration_since(hit.changed).is_ok_and(|age| age < RECENT) || hit.changed > now;
    hits.sort_by(|a, b| match (is_recent(a), is_recent(b)) {
        (true, true) => b.changed.cmp(&a.changed).then_with(|| a.path.cmp(&b.path)),
        (true, false) => std::cmp::Ordering::Less,
        (false, true) => std::cmp::Ordering::Greater,
        (false, false) => a.path.cmp(&b.path),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_without_special_characters_narrow_the_walk() {
        for (pattern, expected) in [
            ("src/a/*.rs", "src/a"),
            ("src/**/x.rs", "src"),
            ("*.rs", ""),
            ("{a,b}/c", ""),
            ("src/[ab]/c", "src"),
        ] {
            assert_eq!(literal_prefix(pattern), Path::new(expected), "{pattern}");
        }
    }

    #[test]
    fn recent_files_come_first_and_the_rest_by_path() {
        let now = UNIX_EPOCH + Duration::from_secs(10_000_000);
        let hit = |name: &str, age| Hit { path: name.into(), changed: now - Duration::from_secs(age) };
        let mut hits = [hit("b-old", 200_000), hit("young", 10), hit("a-old", 100_000), hit("younger", 5)];
        order(&mut hits, now);
        let names: Vec<&Path> = hits.iter().map(|hit| hit.path.as_path()).collect();
        assert_eq!(names, ["younger", "young", "a-old", "b-old"].map(Path::new));
    }
}
