//! The footer: workspace, sandbox, model and other facts.

use pollux_domain::editor::EditorStatus;
use pollux_domain::event::Event;
use pollux_domain::model::RequestRole;
use pollux_domain::plural::counted;
use pollux_domain::terminal_text::one_line;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::theme::Theme;
use crate::transcript::cut_to_width;

/// An item of the footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FooterItem {
    Workspace,
    Branch,
    Sandbox,
    Model,
    ContextUsed,
    Quota,
    Budget,
    Background,
    Editor,
    Memory,
    Session,
    Machine,
    Auth,
    CodeChanges,
    Tokens,
}

impl FooterItem {
    /// All of them, with the name in `ui.footer.items` and the label above it.
    pub const ALL: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Workspace, "workspace", "workspace (/directory)"),
        (Self::Branch, "git-branch", "branch"),
        (Self::Sandbox, "sandbox", "sandbox"),
        (Self::Model, "model-name", "/model"),
        (Self::ContextUsed, "context-used", "context"),
        (Self::Quota, "quota", "quota"),
        (Self::Budget, "budget", "/budget"),
        (Self::Background, "background", "Ctrl+B"),
        (Self::Editor, "ide", "/ide"),
        (Self::Memory, "memory-usage", "memory"),
        (Self::Session, "session-id", "session"),
        (Self::Machine, "hostname", "machine"),
        (Self::Auth, "auth", "/auth"),
        (Self::CodeChanges, "code-changes", "diff"),
        (Self::Tokens, "token-count", "tokens"),
    ];

    /// The items shown by default.
    pub const DEFAULT: &'static [Self] = &[
        Self::Workspace,
        Self::Branch,
        Self::Sandbox,
        Self::Model,
        Self::Quota,
        Self::Budget,
        Self::Background,
        Self::Editor,
    ];

    /// The item with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(item, ..)| *item)
    }

    fn label(self) -> &'static str {
        Self::ALL.iter().find(|(item, ..)| *item == self).map_or("", |(.., label)| label)
    }

    /// Whether it is shown even in the narrowest window.
    fn is_telling(self) -> bool {
        matches!(self, Self::Workspace | Self::Model)
    }

    /// How long it stays in a window that gets narrower; what costs money or guards the machine stays longest.
    fn rank(self) -> u8 {
        match self {
            Self::Workspace | Self::Model => 4,
            Self::Budget | Self::Background => 3,
            Self::Sandbox => 2,
            Self::ContextUsed | Self::Quota => 1,
            _ => 0,
        }
    }
}

/// The content of the footer; empty texts are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// The items, in this order.
    pub items: Vec<FooterItem>,
    /// A word above each.
    pub labels: bool,
    pub workspace: String,
    pub branch: String,
    pub sandbox: String,
    /// It is known that no sandbox confines commands.
    pub unconfined: bool,
    pub model: String,
    /// How much of the window is used, in percent.
    pub context_used: Option<u8>,
    pub quota: String,
    pub memory: String,
    pub machine: String,
}

/// Facts that are known once a session is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// What the session can use, such as `1 GEMINI.md file · 2 MCP servers`.
    pub context: String,
    /// The size of the context window in tokens; 0 while unknown.
    pub window: u64,
    pub session: String,
    /// The authentication method.
    pub auth: String,
    /// The session goes on without this front end.
    pub detaches: bool,
}

impl Default for Footer {
    fn default() -> Self {
        Self {
            items: FooterItem::DEFAULT.to_vec(),
            labels: true,
            workspace: String::new(),
            branch: String::new(),
            sandbox: String::new(),
            unconfined: false,
            model: String::new(),
            context_used: None,
            quota: String::new(),
            memory: String::new(),
            machine: String::new(),
        }
    }
}

/// Figures summed up from events.
#[derive(Debug, Default)]
pub(super) struct Tally {
    tokens: u64,
    /// Of the last request of the conversation itself.
    last: u64,
    added: u64,
    removed: u64,
    /// What was spent of the limit in money.
    budget: Option<String>,
    /// Commands that run in the background.
    background: usize,
    editor: Option<EditorStatus>,
}

impl Tally {
    /// Commands that run in the background.
    pub(super) fn background(&self) -> usize {
        self.background
    }

    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::RequestEnded(ended) => {
                self.tokens = self.tokens.saturating_add(ended.usage.total);
                if ended.role == RequestRole::Main && ended.usage.input > 0 {
                    self.last = ended.usage.input;
                }
            }
            Event::Compressed(done) if done.tokens_after > 0 => self.last = done.tokens_after,
            Event::BackgroundChanged(commands) => self.background = commands.len(),
            Event::EditorChanged(editor) => self.editor.clone_from(editor),
            Event::Budget(status) => self.budget = status.money(),
            Event::CallFinished(report) => {
                self.added += report.lines.added;
                self.removed += report.lines.removed;
            }
            _ => {}
        }
    }
}

/// A column: its label, its text, whether it must be seen, and its rank among those that need not be.
struct Column {
    label: &'static str,
    text: String,
    telling: bool,
    rank: u8,
}

impl Column {
    fn width(&self, labels: bool) -> usize {
        let label = if labels { self.label.width() } else { 0 };
        self.text.width().max(label)
    }
}

impl Footer {
    fn text(&self, item: FooterItem, facts: &Facts, tally: &Tally) -> String {
        let text = match item {
            FooterItem::Workspace => &self.workspace,
            FooterItem::Branch => &self.branch,
            FooterItem::Sandbox => &self.sandbox,
            FooterItem::Model => &self.model,
            FooterItem::Quota => &self.quota,
            FooterItem::Memory => &self.memory,
            FooterItem::Session => &facts.session,
            FooterItem::Machine => &self.machine,
            FooterItem::Auth => &facts.auth,
            FooterItem::ContextUsed => {
                let counted = (tally.last * 100).checked_div(facts.window).filter(|_| tally.last > 0);
                let used = counted.or(self.context_used.map(u64::from));
                return used.map(|percent| format!("{}% used", percent.min(100))).unwrap_or_default();
            }
            FooterItem::Budget => return tally.budget.clone().unwrap_or_default(),
            FooterItem::Background if tally.background == 0 => return String::new(),
            FooterItem::Background => return format!("{} in background", tally.background),
            FooterItem::Editor => match &tally.editor {
                None => return String::new(),
                Some(EditorStatus { name, open_files: 0 }) => name,
                Some(EditorStatus { name, open_files }) => {
                    return format!("{} ({})", one_line(name), counted(*open_files, "file"));
                }
            },
            FooterItem::CodeChanges if tally.added + tally.removed == 0 => return String::new(),
            FooterItem::CodeChanges => return format!("+{} -{}", tally.added, tally.removed),
            FooterItem::Tokens if tally.tokens == 0 => return String::new(),
            FooterItem::Tokens => return tally.tokens.to_string(),
        };
        one_line(text)
    }

    /// One row, or two with labels where there is room for them.
    pub(super) fn lines(
        &self,
        width: u16,
        theme: &Theme,
        vim: Option<&'static str>,
        (facts, tally): (&Facts, &Tally),
        labels: bool,
    ) -> Vec<Line<'static>> {
        let labels = labels && self.labels;
        let mut columns: Vec<Column> = self
            .items
            .iter()
            .map(|item| Column {
                label: item.label(),
                text: self.text(*item, facts, tally),
                telling: item.is_telling(),
                rank: item.rank(),
            })
            .filter(|column| !column.text.is_empty())
            .collect();
        if let Some(mode) = vim {
            columns.insert(0, Column { label: "", text: mode.to_owned(), telling: true, rank: u8::MAX });
        }
        let room = usize::from(width);
        fit(&mut columns, room, labels);
        let used: usize = columns.iter().map(|column| column.width(labels)).sum();
        let gaps = columns.len().saturating_sub(1);
        let gap = room.saturating_sub(used).checked_div(gaps).unwrap_or_default().clamp(2, 12);
        let row = |text: fn(&Column) -> &str, look: &dyn Fn(&Column) -> ratatui::style::Style| {
            let mut spans = Vec::new();
            for column in &columns {
                let blanks = column.width(labels).saturating_sub(text(column).width()) + gap;
                spans.push(Span::styled(text(column).to_owned(), look(column)));
                spans.push(Span::raw(" ".repeat(blanks)));
            }
            spans.pop();
            Line::from(spans)
        };
        let dim = theme.secondary();
        let values = row(|column| &column.text, &|column| match column.telling {
            true => theme.link_plain(),
            false => dim,
        });
        match labels && !columns.is_empty() {
            true => vec![row(|column| column.label, &|_| dim.add_modifier(Modifier::DIM)), values],
            false => vec![values],
        }
    }
}

/// Removes the least important items until the rest fits; the folder is shortened before the model is removed.
fn fit(columns: &mut Vec<Column>, room: usize, labels: bool) {
    let total = |columns: &[Column]| {
        let texts: usize = columns.iter().map(|column| column.width(labels)).sum();
        texts + 2 * columns.len().saturating_sub(1)
    };
    while total(columns) > room {
        let optional = columns.iter().enumerate().rev().filter(|(_, column)| !column.telling);
        match optional.min_by_key(|(_, column)| column.rank) {
            Some((place, _)) => drop(columns.remove(place)),
            None => break,
        }
    }
    let excess = total(columns).saturating_sub(room);
    let widest = columns.iter_mut().max_by_key(|column| column.width(labels));
    if let Some(widest) = widest.filter(|_| excess > 0) {
        let most = widest.width(labels).saturating_sub(excess).max(4);
        widest.label = "";
        widest.text = cut_to_width(&widest.text, most);
    }
    while total(columns) > room && columns.len() > 1 {
        columns.pop();
    }
    if let Some(only) = columns.first_mut().filter(|only| only.width(labels) > room) {
        only.label = "";
        only.text = cut_to_width(&only.text, room);
    }
}
