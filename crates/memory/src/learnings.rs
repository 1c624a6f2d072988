//! Learnings: short, dated sentences about the user's preferences, in a file that users can edit.

mod extract;
mod page;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pollux_config::files::{self, FileError, Mode};
use pollux_domain::time::Clock;
use pollux_domain::{redact, terminal_text};
use serde_json::Value;

use crate::dates;
use crate::lock::{OwnedLock, OwnedLockError, Patience};
use crate::search::words;
use crate::state::{self, AgentDir};
use crate::workspace::{Belonging, Space};
use page::{Item, Page};

pub use extract::{Candidate, EXTRACTION_PROMPT, Turn, extract, from_model};

const MAX_CHARS: usize = 150;
/// Inclusive bounds.
const DUPLICATE: f64 = 0.8;
const MAX_IN_CATEGORY: usize = 200;
const CHARS_PER_TOKEN: usize = 4;
/// Phrases of texts that try to give instructions (prompt injection).
const COMMANDS: &[&str] = &[
    "ignore all",
    "ignore any",
    "ignore previous",
    "ignore prior",
    "ignore the above",
    "ignore your",
    "disregard",
    "forget all",
    "forget previous",
    "forget your",
    "system prompt",
    "system:",
    "user:",
    "assistant:",
    "```",
    "developer mode",
    "you are now",
    "new instructions",
    "jailbreak",
    "override",
    "functioncall",
    "function_call",
    "tool_call",
    "<tool",
    "</",
    "<|",
    "exfiltrate",
    "do not tell the user",
    "don't tell the user",
    "without asking",
    "without telling",
    "reveal your",
    "base64",
    "curl ",
    "wget ",
    "| sh",
    "|sh",
    "eval(",
    "rm -rf",
];

/// Those of them that are the names of programs.
const PROGRAMS: &[&str] = &["curl ", "wget ", "rm -rf"];

/// The category of a learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    Preference,
    Correction,
    Pattern,
    ToolUsage,
}

impl Category {
    pub const ALL: [Self; 4] = [Self::Preference, Self::Correction, Self::Pattern, Self::ToolUsage];

    pub fn heading(self) -> &'static str {
        match self {
            Self::Preference => "User Preferences",
            Self::Correction => "Corrections",
            Self::Pattern => "Successful Patterns",
            Self::ToolUsage => "Tool Usage",
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preference => "preference",
            Self::Correction => "correction",
            Self::Pattern => "pattern",
            Self::ToolUsage => "tool-usage",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

/// The confidence of a learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Confidence {
    Low,
    Medium,
    High,
}

impl Confidence {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Low, Self::Medium, Self::High].into_iter().find(|known| known.as_str() == text)
    }
}

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learning {
    pub category: Category,
    pub text: String,
    /// `None` for entries written by hand without a date.
    pub date: Option<String>,
    pub confidence: Confidence,
    /// `None` for entries not written by the program.
    pub id: Option<String>,
    /// The key of its workspace; `None` if it applies to all.
    pub workspace: Option<String>,
}

/// The result of adding a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    New,
    /// Already known; its date was updated.
    Refreshed,
    /// Rejected: empty, or an instruction.
    Refused,
}

/// Why learnings could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LearningsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] OwnedLockError),
}

impl LearningsError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File(_) => Some("check the state directory's permissions and the free disk space"),
            Self::Lock(error) => error.hint(),
        }
    }
}

/// The file `LEARNINGS.md`. Hand-written content is preserved.
///
/// There is one file per agent. Learnings about a project belong to its workspace; personal preferences
/// and hand-written entries apply everywhere.
pub struct Learnings {
    file: PathBuf,
    clock: Arc<dyn Clock>,
    /// New items are marked with its key.
    belonging: Option<Belonging>,
    space: Space,
    patience: Patience,
}

impl Learnings {
    /// All learnings of an agent, from every workspace.
    pub fn new(file: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { file, clock, belonging: None, space: Space::Shared, patience: Patience::STORE }
    }

    /// The learnings visible in a workspace.
    pub fn of(agent: &AgentDir, workspace: &Path, space: Space, clock: Arc<dyn Clock>) -> Self {
        let belonging = Some(Belonging::of(agent, workspace));
        Self { file: agent.learnings_file(), clock, belonging, space, patience: Patience::STORE }
    }

    /// With another limit on the wait for their lock.
    #[must_use]
    pub fn within(self, wait: Duration) -> Self {
        Self { patience: Patience::store(wait), ..self }
    }

    /// All visible learnings, in file order.
    pub fn list(&self) -> Result<Vec<Learning>, LearningsError> {
        let page = self.read()?;
        let items = page.items().into_iter().map(|(_, item)| item).filter(|item| self.sees(item));
        Ok(items.map(Item::learning).collect())
    }

    /// Number of learnings hidden here.
    pub fn hidden(&self) -> Result<usize, LearningsError> {
        Ok(self.read()?.items().iter().filter(|(_, item)| !self.sees(item)).count())
    }

    /// Whether any hidden learning satisfies a predicate.
    pub(crate) fn hidden_with(&self, test: impl Fn(&str) -> bool) -> bool {
        self.read()
            .is_ok_and(|page| page.items().iter().any(|(_, item)| !self.sees(item) && test(&item.text)))
    }

    /// Whether an item is visible.
    fn sees(&self, item: &Item) -> bool {
        let is_own = |key: &str| self.belonging.as_ref().is_some_and(|belonging| belonging.has_key(key));
        match (self.space, &item.workspace, &item.id) {
            (Space::Shared, _, _) => true,
            (Space::Workspace, _, None) => true,
            (Space::Workspace, Some(key), Some(_)) => is_own(key),
            // From before workspaces were kept apart.
            (Space::Workspace, None, Some(_)) => is_general(item.category, &item.text),
            (Space::Unassigned, workspace, id) => {
                id.is_some() && workspace.is_none() && !is_general(item.category, &item.text)
            }
        }
    }

    /// The text of the file without the lines that may not be seen; the others keep their numbers.
    pub(crate) fn visible(&self, text: &str) -> String {
        let page = Page::parse(text);
        let hidden: Vec<usize> =
            page.items().iter().filter(|(_, item)| !self.sees(item)).map(|(line, _)| *line).collect();
        let lines = text.split('\n').enumerate();
        let lines = lines.map(|(number, line)| if hidden.contains(&number) { "" } else { line });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Adds a sentence of the user; never pass text of a tool, page or file.
    pub fn add(
        &self,
        category: Category,
        text: &str,
        confidence: Confidence,
    ) -> Result<Added, LearningsError> {
        let Some(text) = sentence(text) else { return Ok(Added::Refused) };
        let now = self.clock.now();
        let today = dates::today(now);
        self.change(|page| {
            let words = words::set(&text);
            let known = page.items().into_iter().filter(|(_, item)| self.sees(item)).find(|(_, item)| {
                item.category == category && words::jaccard(&words::set(&item.text), &words) >= DUPLICATE
            });
            if let Some((line, item)) = known {
                page.replace(line, &Item { date: item.date.is_some().then(|| today.clone()), ..item });
                return Added::Refreshed;
            }
            let id = format!(
                "l_{}_{}",
                base36(now.millis()),
                uuid::Uuid::new_v4().simple().to_string().get(..6).unwrap_or("0")
            );
            let key = self.belonging.as_ref().and_then(Belonging::key).map(str::to_owned);
            page.insert(&Item {
                category,
                date: Some(today.clone()),
                text: text.clone(),
                confidence,
                id: Some(id),
                workspace: key.filter(|_| !is_general(category, &text)),
            });
            evict(page, category);
            Added::New
        })
    }

    /// Removes learnings by id or text; returns how many.
    pub fn remove(&self, what: &str) -> Result<usize, LearningsError> {
        self.retain(|item| item.id.as_deref() != Some(what) && item.text != what)
    }

    /// Keeps learnings that satisfy a predicate, and hidden ones; returns how many were removed.
    pub(crate) fn retain(&self, keep: impl Fn(&Item) -> bool) -> Result<usize, LearningsError> {
        if !self.file.exists() {
            return Ok(0);
        }
        self.change(|page| {
            let gone: Vec<usize> = page
                .items()
                .into_iter()
                .filter(|(_, item)| self.sees(item) && !keep(item))
                .map(|(line, _)| line)
                .collect();
            page.remove(&gone);
            gone.len()
        })
    }

    /// The most confident and newest learnings within a budget, as Markdown; `None` without any.
    pub fn for_context(&self, tokens: usize) -> Result<Option<String>, LearningsError> {
        let mut all: Vec<Learning> = self.list()?;
        all.retain(|learning| sentence(&learning.text).is_some());
        all.sort_by(|a, b| b.confidence.cmp(&a.confidence).then(b.date.cmp(&a.date)));
        let mut left = tokens * CHARS_PER_TOKEN;
        let mut chosen = Vec::new();
        for learning in all {
            let text = sentence(&learning.text).unwrap_or_default();
            let cost = text.chars().count() + 3;
            if cost <= left {
                left -= cost;
                chosen.push((learning.category, text));
            }
        }
        if chosen.is_empty() {
            return Ok(None);
        }
        let mut text = String::from("# Agent Learnings");
        for category in Category::ALL {
            let lines: Vec<String> = chosen
                .iter()
                .filter(|(of, _)| *of == category)
                .map(|(_, text)| format!("\n- {text}"))
                .collect();
            if !lines.is_empty() {
                text.push_str(&format!("\n\n## {}\n", category.heading()));
                text.push_str(&lines.concat());
            }
        }
        Ok(Some(text))
    }

    fn read(&self) -> Result<Page, LearningsError> {
        Ok(match files::read_text(&self.file)? {
            Some(text) => Page::parse(&text),
            None => self.imported(),
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Page) -> T) -> Result<T, LearningsError> {
        if let Some(folder) = self.file.parent() {
            files::create_folder(folder, Mode::Private)?;
        }
        let _lock = OwnedLock::acquire(&self.file, self.patience)?;
        let mut page = self.read()?;
        let result = change(&mut page);
        files::replace(&self.file, page.text().as_bytes(), Mode::Private)?;
        // Replacing keeps a mode that may be too open; the next preparation closes it if this cannot.
        let _ = state::set_mode(&self.file, 0o600);
        Ok(result)
    }

    /// gimli's learnings file, if it is the only one.
    fn imported(&self) -> Page {
        let mut page = Page::parse("");
        let other =
            self.file.parent().and_then(Path::parent).map(|agent| agent.join("learning/learnings.json"));
        let text = other.and_then(|other| files::read_text(&other).ok().flatten()).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        for entry in value.get("learnings").and_then(Value::as_array).into_iter().flatten() {
            let field = |name: &str| entry.get(name).and_then(Value::as_str);
            let category = field("category").and_then(Category::parse);
            let text = field("content").or_else(|| field("text")).and_then(sentence);
            if let (Some(category), Some(text)) = (category, text) {
                page.insert(&Item {
                    category,
                    text,
                    date: field("timestamp")
                        .or_else(|| field("createdAt"))
                        .and_then(|time| time.get(..10))
                        .map(str::to_owned),
                    confidence: field("confidence").and_then(Confidence::parse).unwrap_or(Confidence::Medium),
                    id: Some(imported_id(field("id").unwrap_or_default())),
                    workspace: None,
                });
            }
        }
        page
    }
}

/// An id assigned by another program, in our format: it shows that the line was not hand-written.
fn imported_id(id: &str) -> String {
    let plain: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(64).collect();
    if plain.starts_with("l_") { plain } else { format!("l_{plain}") }
}

/// Whether a sentence is about the user rather than a project: it contains no file, URL, number or name.
fn is_general(category: Category, text: &str) -> bool {
    let is_personal = matches!(category, Category::Preference | Category::ToolUsage);
    let mut words = text.split_whitespace();
    let is_plain = |word: &str, is_first: bool| {
        let word = word.trim_matches(|c: char| matches!(c, ',' | '.' | ';' | '!' | '?' | '(' | ')'));
        let mut letters = word.chars();
        let begins = letters.next().is_none_or(|c| c.is_lowercase() || (is_first && c.is_alphabetic()));
        let rest = letters.all(|c| c.is_lowercase() || matches!(c, '\'' | '’' | '-'));
        (begins && rest) || matches!(word, "I" | "I'm" | "I'd" | "I'll" | "I've")
    };
    is_personal
        && words.next().is_some_and(|word| is_plain(word, true))
        && words.all(|word| is_plain(word, false))
}

/// A text as one sentence without secrets; `None` if it must not be stored.
fn sentence(text: &str) -> Option<String> {
    if terminal_text::visible(text) != text {
        // Reject texts with hidden characters.
        return None;
    }
    let line = terminal_text::one_line(text);
    let line = redact::redacted(&line).replace("<!--", "").replace("-->", "");
    let line: String =
        line.trim().trim_start_matches(['#', '-', '*', '>', ' ']).chars().take(MAX_CHARS).collect();
    let lower = line.to_lowercase();
    // To forbid a command is no attempt to have it run.
    let forbids = ["never ", "don't ", "do not ", "please never ", "please don't "];
    let forbids =
        forbids.iter().any(|start| lower.starts_with(start)) && !lower.contains(['|', ';', '&', '$', '`']);
    let is_command = COMMANDS
        .iter()
        .filter(|command| !(forbids && PROGRAMS.contains(command)))
        .any(|command| lower.contains(command));
    (!line.trim().is_empty() && !is_command).then(|| line.trim().to_owned())
}

/// Drops the least confident and oldest entries over the limit. Those without an id are hand-written and stay.
fn evict(page: &mut Page, category: Category) {
    let mut dated: Vec<(usize, Item)> =
        page.items().into_iter().filter(|(_, item)| item.category == category && item.id.is_some()).collect();
    let excess = dated.len().saturating_sub(MAX_IN_CATEGORY);
    dated.sort_by(|(_, a), (_, b)| a.confidence.cmp(&b.confidence).then(a.date.cmp(&b.date)));
    let gone: Vec<usize> = dated.into_iter().take(excess).map(|(line, _)| line).collect();
    page.remove(&gone);
}

fn base36(mut number: i64) -> String {
    let mut digits = Vec::new();
    while number > 0 {
        let digit = u32::try_from(number % 36).unwrap_or(0);
        digits.extend(char::from_digit(digit, 36));
        number /= 36;
    }
    digits.into_iter().rev().collect()
}

#[cfg(test)]
mod tests;
