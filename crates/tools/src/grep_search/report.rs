//! Formats search results, in upstream's wording.

use std::path::PathBuf;

use pollux_domain::tool::{Display, ToolOutcome};

use super::engine::{FileMatches, Query};
use crate::withheld::note;
use crate::workspace::Workspace;

/// The searched path and the query.
pub(super) struct SearchPlace<'a> {
    pub(super) given: &'a str,
    pub(super) query: &'a Query,
}

impl SearchPlace<'_> {
    /// A failure while searching is reported as a result.
    pub(super) fn failed(&self, problem: &str) -> ToolOutcome {
        let text = format!("Error during grep search operation: {problem}");
        ToolOutcome::text(text, Display::Text(format!("Error: {problem}")))
    }

    /// The matches and, for the model alone, which files were not searched.
    pub(super) fn found(
        &self,
        workspace: &Workspace,
        files: &[FileMatches],
        withheld: &[PathBuf],
        names_only: bool,
    ) -> ToolOutcome {
        let (mut text, display) = match names_only {
            _ if files.is_empty() => self.nothing(),
            true => self.names(workspace, files),
            false => self.matches(workspace, files),
        };
        let withheld: Vec<String> = withheld.iter().map(|file| workspace.relative(file)).collect();
        if let Some(note) = note(&withheld) {
            text.push('\n');
            text.push_str(&note);
        }
        ToolOutcome::text(text, display)
    }

    fn names(&self, workspace: &Workspace, files: &[FileMatches]) -> (String, Display) {
        let mut names: Vec<String> = files.iter().map(|file| workspace.relative(&file.path)).collect();
        names.sort_unstable();
        let text = format!(
            "Found {} files with matches for pattern \"{}\" {}{}:\n{}",
            names.len(),
            self.query.pattern,
            self.place(),
            self.limit(names.len() as u64),
            names.join("\n")
        );
        let summary = format!("Found {} files", names.len());
        (text, Display::List { summary, items: names })
    }

    fn matches(&self, workspace: &Workspace, files: &[FileMatches]) -> (String, Display) {
        let count: u64 = files.iter().map(FileMatches::count).sum();
        let noun = if count == 1 { "match" } else { "matches" };
        let mut text =
            format!("Found {count} {noun} for pattern \"{}\" {}", self.query.pattern, self.place());
        let limit = self.limit(count);
        text.push_str(&limit);
        text.push_str(":\n---\n");
        let mut items = Vec::new();
        for file in files {
            let name = workspace.relative(&file.path);
            text.push_str(&format!("File: {name}\n"));
            for line in &file.lines {
                let mark = if line.is_match { ':' } else { '-' };
                text.push_str(&format!("L{}{mark} {}\n", line.number, line.text));
                if line.is_match {
                    items.push(format!("{name}:{}: {}", line.number, line.text.trim()));
                }
            }
            text.push_str("---\n");
        }
        let limited = if limit.is_empty() { "" } else { " (limited)" };
        let summary = format!("Found {count} {noun}{limited}");
        (text.trim().to_owned(), Display::List { summary, items })
    }

    /// Notes that there may be more matches.
    fn limit(&self, count: u64) -> String {
        match self.query.total {
            total if count >= total => format!(" (results limited to {total} matches for performance)"),
            _ => String::new(),
        }
    }

    fn nothing(&self) -> (String, Display) {
        let text = format!("No matches found for pattern \"{}\" {}.", self.query.pattern, self.place());
        (text, Display::Text("No matches found".to_owned()))
    }

    fn place(&self) -> String {
        let filter = self.query.include.as_ref().map(|glob| format!(" (filter: \"{glob}\")"));
        format!("in path \"{}\"{}", self.given, filter.unwrap_or_default())
    }
}
