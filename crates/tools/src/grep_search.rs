//! The tool `grep_search`: finds lines by content, with ripgrep's libraries.

mod engine;
mod report;

use std::path::PathBuf;
use std::sync::Arc;

use grep_regex::RegexMatcherBuilder;
use pollux_domain::tool::{ArgError, Effect, Invocation, Tool, ToolContext, ToolKind, ToolOutcome, ToolSpec};
use pollux_domain::{BoxFuture, JsonObject};
use regex::RegexBuilder;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_scope::{FileScope, on_thread};
use crate::workspace::Location;
use engine::{Context, Query, SearchEnd};

/// Default limit of reported matches; upstream's value.
const DEFAULT_MATCHES: u64 = 100;
/// Upper limit for any call.
const MAX_MATCHES: u64 = 20_000;

/// The tool.
pub(crate) struct GrepSearch {
    spec: Arc<ToolSpec>,
    scope: Arc<FileScope>,
}

struct Call {
    scope: Arc<FileScope>,
    location: Location,
    /// `dir_path` as it was given.
    given_path: Option<String>,
    query: Query,
    names_only: bool,
}

impl GrepSearch {
    pub(crate) fn new(scope: Arc<FileScope>) -> Self {
        let spec = ToolSpec {
            name: "grep_search".to_owned(),
            display_name: "SearchText".to_owned(),
            description:
                "Searches the content of files for a regular expression and returns the matching lines \
                with their numbers, grouped by file. Ignored and binary files are left out. With very few \
                matches the lines around them are shown as well. At most 100 matches are returned unless \
                total_max_matches says otherwise. Prefer this to running grep in the shell."
                    .to_owned(),
            kind: ToolKind::Search,
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
            "pattern": {
                "type": "string",
                "description": "The regular expression (Rust syntax: no look-around or back-references). It is \
                    matched against each line."
            },
            "dir_path": {
                "type": "string",
                "description": "Folder or file to search; the project root if left out."
            },
            "include_pattern": {
                "type": "string",
                "description": "Only files whose path matches this glob, such as *.rs or src/**/*.ts."
            },
            "exclude_pattern": {
                "type": "string",
                "description": "Leave out matching lines that also match this regular expression."
            },
            "names_only": {
                "type": "boolean",
                "description": "Return only the paths of files with a match."
            },
            "case_sensitive": {
                "type": "boolean",
                "description": "Whether case matters; it does not by default."
            },
            "fixed_strings": {
                "type": "boolean",
                "description": "Take the pattern as plain text."
            },
            "context": { "type": "integer", "minimum": 0, "description": "Lines to show around each match." },
            "after": { "type": "integer", "minimum": 0, "description": "Lines to show after each match." },
            "before": { "type": "integer", "minimum": 0, "description": "Lines to show before each match." },
            "no_ignore": {
                "type": "boolean",
                "description": "Also search what .gitignore names, build output and logs."
            },
            "max_matches_per_file": {
                "type": "integer",
                "minimum": 1,
                "description": "Stop after this many matches in one file."
            },
            "total_max_matches": {
                "type": "integer",
                "minimum": 1,
                "description": "Stop after this many matches; 100 by default."
            }
        },
        "required": ["pattern"]
    })
}

impl Tool for GrepSearch {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        let given = arguments.text("dir_path")?.or(arguments.text("path")?).filter(|path| !path.is_empty());
        let location = self.scope.locate(given.unwrap_or("."))?;
        if location.path().symlink_metadata().is_err() {
            return Err(ArgError(format!("Path does not exist: {}", location.path().display())));
        }
        let names_only = arguments.flag("names_only")?.unwrap_or(false);
        let query = query(arguments, names_only)?;
        Ok(Box::new(Call {
            scope: Arc::clone(&self.scope),
            location,
            given_path: given.map(str::to_owned),
            query,
            names_only,
        }))
    }
}

fn query(arguments: Arguments<'_>, names_only: bool) -> Result<Query, ArgError> {
    let pattern = arguments.required("pattern")?;
    let invalid = |pattern: &str, error: &dyn std::fmt::Display| {
        ArgError(format!("Invalid regular expression pattern provided: {pattern}. Error: {error}"))
    };
    let is_case_sensitive = arguments.flag("case_sensitive")?.unwrap_or(false);
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(!is_case_sensitive)
        .fixed_strings(arguments.flag("fixed_strings")?.unwrap_or(false))
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| invalid(pattern, &error))?;
    let exclude = match arguments.text("exclude_pattern")?.filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(
            RegexBuilder::new(text)
                .case_insensitive(!is_case_sensitive)
                .build()
                .map_err(|error| invalid(text, &error))?,
        ),
    };
    let include = arguments.text("include_pattern")?.or(arguments.text("include")?);
    let around = arguments.number("context", 0)?;
    let before = arguments.number("before", 0)?.or(around);
    let after = arguments.number("after", 0)?.or(around);
    let context = match (before, after) {
        _ if names_only => Context::NONE,
        (None, None) => Context::Automatic,
        (before, after) => Context::Lines { before: lines(before), after: lines(after) },
    };
    Ok(Query {
        pattern: pattern.to_owned(),
        matcher,
        exclude,
        include: include.filter(|text| !text.is_empty()).map(str::to_owned),
        per_file: if names_only { Some(1) } else { arguments.number("max_matches_per_file", 1)? },
        total: arguments.number("total_max_matches", 1)?.unwrap_or(DEFAULT_MATCHES).min(MAX_MATCHES),
        context,
        no_ignore: arguments.flag("no_ignore")?.unwrap_or(false),
    })
}

/// Context is kept within reason.
fn lines(count: Option<u64>) -> usize {
    usize::try_from(count.unwrap_or(0)).unwrap_or(usize::MAX).min(500)
}

impl Invocation for Call {
    fn describe(&self) -> String {
        let mut text = format!("'{}'", self.query.pattern);
        if let Some(include) = &self.query.include {
            text.push_str(&format!(" in {include}"));
        }
        if self.given_path.is_some() {
            match self.scope.workspace.short(self.location.path()).as_str() {
                "." => text.push_str(" within ./"),
                path => text.push_str(&format!(" within {path}")),
            }
        }
        text
    }

    fn effect(&self) -> Effect {
        Effect::Read(vec![self.location.path().to_owned()])
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(on_thread(context, move |cancel| self.search(cancel)))
    }
}

impl Call {
    fn search(&self, cancel: &CancellationToken) -> ToolOutcome {
        let place =
            report::SearchPlace { given: self.given_path.as_deref().unwrap_or("."), query: &self.query };
        let start: PathBuf = match self.scope.workspace.admit_again(&self.location) {
            Ok(location) => location.path().to_owned(),
            Err(refusal) => return place.failed(&refusal.to_string()),
        };
        match engine::search(&self.scope, &start, &self.query, cancel) {
            Ok(SearchEnd::Cancelled) => ToolOutcome::Cancelled { partial: None },
            Ok(SearchEnd::TimedOut { millis }) => place.failed(&format!(
                "Operation timed out after {millis}ms. In large repositories, consider narrowing your search \
                 scope by specifying a 'dir_path' or an 'include_pattern'."
            )),
            Ok(SearchEnd::Found(files, withheld)) => {
                place.found(&self.scope.workspace, &files, &withheld, self.names_only)
            }
            Err(error) => place.failed(&error.to_string()),
        }
    }
}
