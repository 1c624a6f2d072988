//! The learnings file as lines: only generated entries are changed.

use super::{Category, Confidence, Learning};

const TITLE: &str = "# Agent Learnings";
/// Before the key of a workspace, in the comment of an item.
const WORKSPACE: &str = "workspace:";

pub(crate) struct Page {
    lines: Vec<String>,
}

/// A line of a category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) category: Category,
    pub(crate) date: Option<String>,
    pub(crate) text: String,
    pub(crate) confidence: Confidence,
    pub(crate) id: Option<String>,
    /// The key of the workspace it was learned in.
    pub(crate) workspace: Option<String>,
}

impl Item {
    pub(super) fn learning(self) -> Learning {
        Learning {
            category: self.category,
            text: self.text,
            date: self.date,
            confidence: self.confidence,
            id: self.id,
            workspace: self.workspace,
        }
    }

    fn parse(line: &str, category: Category) -> Option<Self> {
        let rest = line.strip_prefix("- ")?;
        let (rest, comment) = match rest.rsplit_once("<!--") {
            Some((rest, comment)) => (rest, comment.trim_end().strip_suffix("-->").unwrap_or_default()),
            None => (rest, ""),
        };
        let dated = rest
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
            .filter(|(date, _)| crate::dates::days(date).is_some());
        let (date, text) = match dated {
            Some((date, text)) => (Some(date.to_owned()), text),
            None => (None, rest),
        };
        let mut words = comment.split_whitespace();
        let id = words.next().filter(|word| word.starts_with("l_")).map(str::to_owned);
        let confidence = words.next().and_then(Confidence::parse).unwrap_or(Confidence::Medium);
        let workspace = words.find_map(|word| word.strip_prefix(WORKSPACE)).map(str::to_owned);
        let text = text.trim().to_owned();
        (!text.is_empty()).then_some(Self { category, date, text, confidence, id, workspace })
    }

    fn line(&self) -> String {
        let date = self.date.as_deref().map(|date| format!("[{date}] ")).unwrap_or_default();
        let workspace = self.workspace.as_deref().map(|key| format!(" {WORKSPACE}{key}")).unwrap_or_default();
        let comment = self
            .id
            .as_deref()
            .map(|id| format!(" <!-- {id} {}{workspace} -->", self.confidence.as_str()))
            .unwrap_or_default();
        format!("- {date}{}{comment}", self.text)
    }
}

impl Page {
    pub(super) fn parse(text: &str) -> Self {
        Self { lines: text.lines().map(str::to_owned).collect() }
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.lines.join("\n");
        text.push('\n');
        text
    }

    /// Every item with the number of its line.
    pub(super) fn items(&self) -> Vec<(usize, Item)> {
        let mut category = None;
        let mut items = Vec::new();
        for (number, line) in self.lines.iter().enumerate() {
            if line.starts_with('#') {
                category = category_of(line);
            } else if let Some(category) = category {
                items.extend(Item::parse(line.trim_end(), category).map(|item| (number, item)));
            }
        }
        items
    }

    pub(super) fn replace(&mut self, line: usize, item: &Item) {
        if let Some(place) = self.lines.get_mut(line) {
            // An item without an id is hand-written: only its date is updated.
            *place = item.line();
        }
    }

    pub(super) fn remove(&mut self, gone: &[usize]) {
        let mut number = 0;
        self.lines.retain(|_| {
            number += 1;
            !gone.contains(&(number - 1))
        });
    }

    /// Puts an item at the end of its category, which is made when it is missing.
    pub(super) fn insert(&mut self, item: &Item) {
        let heading = self.heading(item.category);
        let end = self
            .lines
            .iter()
            .skip(heading + 1)
            .position(|line| line.starts_with('#'))
            .map_or(self.lines.len(), |at| heading + 1 + at);
        let last = (heading + 1..end)
            .rev()
            .find(|line| self.lines.get(*line).is_some_and(|line| !line.trim().is_empty()));
        match last {
            Some(last) => self.lines.insert(last + 1, item.line()),
            None => {
                self.lines.splice(heading + 1..end, [String::new(), item.line()]);
                if heading + 3 < self.lines.len() {
                    self.lines.insert(heading + 3, String::new());
                }
            }
        }
    }

    /// The line of a category's heading.
    fn heading(&mut self, category: Category) -> usize {
        if let Some(line) = self.lines.iter().position(|line| category_of(line) == Some(category)) {
            return line;
        }
        if self.lines.iter().all(|line| line.trim().is_empty()) {
            self.lines = vec![TITLE.to_owned()];
        }
        // Before the first of those that come after it; else at the end.
        let later =
            self.lines.iter().position(|line| category_of(line).is_some_and(|other| other > category));
        match later {
            Some(line) => {
                self.lines.splice(line..line, [format!("## {}", category.heading()), String::new()]);
                line
            }
            None => {
                if self.lines.last().is_some_and(|line| !line.trim().is_empty()) {
                    self.lines.push(String::new());
                }
                self.lines.push(format!("## {}", category.heading()));
                self.lines.len() - 1
            }
        }
    }
}

fn category_of(line: &str) -> Option<Category> {
    let title = line.strip_prefix("## ")?.trim();
    Category::ALL.into_iter().find(|category| category.heading().eq_ignore_ascii_case(title))
}
