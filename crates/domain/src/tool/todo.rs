//! The model's list of subtasks.

use std::borrow::Cow;

use super::Display;

/// A subtask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Todo {
    pub text: String,
    pub status: TodoStatus,
}

/// How far a subtask is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
    Cancelled,
    Blocked,
}

impl TodoStatus {
    /// All of them, in the order in which the model is told of them.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::InProgress, Self::Completed, Self::Cancelled, Self::Blocked];

    /// The word in calls and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Blocked => "blocked",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl Todo {
    /// `[status] text`.
    pub fn line(&self) -> String {
        format!("[{}] {}", self.status.as_str(), self.text)
    }
}

impl Display {
    /// A list of subtasks as a plain list, for readers that have no form of their own for it; everything else as it is.
    pub fn listed(&self) -> Cow<'_, Self> {
        let Self::Todos(todos) = self else { return Cow::Borrowed(self) };
        let summary = match todos.len() {
            0 => "Cleared todo list".to_owned(),
            count => format!("Set {count} todo(s)"),
        };
        Cow::Owned(Self::List { summary, items: todos.iter().map(Todo::line).collect() })
    }
}
