//! One thing on the screen, and how it looks.

use pollux_domain::event::TurnEnd;
use pollux_domain::model::ModelErrorKind;
use pollux_domain::panel::Panel;
use pollux_domain::terminal_text::{one_line, plain};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::look::Look;
use super::panel;
use crate::markdown;
use crate::wrap::{Margin, wrap};

/// Something complete.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A prompt.
    Prompt(String),
    /// A command of the person's own.
    Shell(String),
    /// A part of an answer; `goes_on` when another part was before it.
    Answer {
        text: String,
        goes_on: bool,
    },
    /// A call of an earlier run, in short.
    Call {
        name: String,
        about: String,
        went_well: bool,
    },
    /// A thought of the model.
    Thought(String),
    Info(String),
    Warning(String),
    Error(String),
    /// Figures in a box.
    Panel(Box<Panel>),
    /// Rendered lines, such as a table.
    Drawn(Vec<Line<'static>>),
}

impl Item {
    pub fn info(text: impl Into<String>) -> Self {
        Self::Info(text.into())
    }

    pub fn warning(text: impl Into<String>) -> Self {
        Self::Warning(text.into())
    }

    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// As lines, with a blank one before it.
    pub(crate) fn lines(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let theme = look.theme;
        match self {
            Self::Prompt(text) => prompt(text, look),
            Self::Shell(text) => apart(message(" $ ", theme.accent(), text, theme.text(), look)),
            Self::Answer { text, goes_on } => answer(text, *goes_on, look),
            Self::Thought(text) => {
                let style = theme.secondary().add_modifier(Modifier::ITALIC);
                apart(message("∴ ", style, text, style, look))
            }
            Self::Call { name, about, went_well } => call(name, about, *went_well, look),
            Self::Info(text) => apart(message("ℹ ", theme.accent(), text, theme.text(), look)),
            Self::Warning(text) => apart(message("⚠ ", theme.warning(), text, theme.warning(), look)),
            Self::Error(text) => apart(message("✕ ", theme.error(), text, theme.error(), look)),
            Self::Panel(panel) => apart(panel::lines(panel, look)),
            Self::Drawn(lines) => lines.clone(),
        }
    }
}

/// The message about a turn that did not finish normally.
pub(super) fn of_end(end: &TurnEnd) -> Option<Item> {
    Some(match end {
        TurnEnd::Finished(_) => return None,
        TurnEnd::Cancelled => Item::info("Request cancelled."),
        TurnEnd::TurnLimit => Item::warning("Turn limit reached (`model.maxSessionTurns`)."),
        TurnEnd::Loop(what) => Item::warning(format!("Loop detected: {what}")),
        TurnEnd::InvalidReply { message, .. } => Item::error(message),
        TurnEnd::Overflow { estimated, remaining } => Item::error(format!(
            "The request of about {estimated} tokens exceeds the {remaining} tokens left. /compress makes room."
        )),
        // Here commands are at hand, which the advice for other places cannot know.
        TurnEnd::Failed(error) if error.kind == ModelErrorKind::Auth && error.details.advice.is_none() => {
            Item::error(format!("{}\nhint: /auth changes the key or the sign-in", error.described()))
        }
        TurnEnd::Failed(error)
            if error.kind == ModelErrorKind::NotFound && error.details.advice.is_none() =>
        {
            Item::error(format!("{}\nhint: /model lists the available models", error.described()))
        }
        TurnEnd::Failed(error) => Item::error(match error.advice() {
            Some(advice) => format!("{}\nhint: {}", error.described(), plain(&advice)),
            None => error.described(),
        }),
        TurnEnd::FatalTool { message, .. } => Item::error(message),
    })
}

fn apart(mut lines: Vec<Line<'static>>) -> Vec<Line<'static>> {
    lines.insert(0, Line::default());
    lines
}

/// A text with a sign before it; its own lines stay lines.
fn message(sign: &str, sign_style: Style, text: &str, style: Style, look: Look<'_>) -> Vec<Line<'static>> {
    let mut margin = Margin::hanging(Span::styled(sign.to_owned(), sign_style));
    let mut lines = Vec::new();
    for line in plain(text.trim_end()).lines() {
        lines.extend(wrap(&[Span::styled(line.to_owned(), style)], look.width, &margin));
        margin.first = margin.rest.clone();
    }
    lines
}

/// A call in one line.
fn call(name: &str, about: &str, went_well: bool, look: Look<'_>) -> Vec<Line<'static>> {
    let theme = look.theme;
    let (sign, style) = if went_well { ("✓  ", theme.success()) } else { ("✕  ", theme.error()) };
    let name = Span::styled(one_line(name), theme.text().add_modifier(Modifier::BOLD));
    let about = Span::styled(format!("  {}", one_line(about)), theme.secondary());
    let lines = wrap(&[name, about], look.width, &Margin::hanging(Span::styled(sign, style)));
    lines.into_iter().take(1).collect()
}

/// Rows of a prompt that are shown.
const PROMPT_ROWS: usize = 200;

/// A prompt, with a coloured edge. Nothing fills the row: in the scrollback it would wrap when the window shrinks.
fn prompt(text: &str, look: Look<'_>) -> Vec<Line<'static>> {
    let theme = look.theme;
    let strong = theme.text().add_modifier(Modifier::BOLD);
    let edge = |sign: &str| vec![Span::styled(format!("▌{sign}"), theme.accent())];
    let mut margin = Margin { first: edge("> "), rest: edge("  ") };
    let mut said = Vec::new();
    for line in plain(text.trim_end()).lines() {
        said.extend(wrap(&[Span::styled(line.to_owned(), strong)], look.width, &margin));
        margin.first = margin.rest.clone();
    }
    let more = said.len().saturating_sub(PROMPT_ROWS);
    let mut lines = vec![Line::default()];
    lines.extend(said.into_iter().take(PROMPT_ROWS));
    if more > 0 {
        let note = Span::styled(format!("… {more} more rows"), theme.secondary());
        lines.push(Line::from([edge("  "), vec![note]].concat()));
    }
    lines
}

/// An answer, or a part of it, with the model's sign.
pub(super) fn answer(text: &str, goes_on: bool, look: Look<'_>) -> Vec<Line<'static>> {
    let lines = match look.raw {
        true => plain(text)
            .lines()
            .flat_map(|line| {
                let span = Span::styled(line.to_owned(), look.theme.response());
                wrap(&[span], look.width.saturating_sub(2).max(1), &Margin::default())
            })
            .collect(),
        false => markdown::render(text, look.markdown()),
    };
    let mut signed = vec![Line::default()];
    for (index, line) in lines.into_iter().enumerate() {
        let begins = index == 0 && !goes_on;
        let before = if begins { Span::styled("✦ ", look.theme.accent()) } else { Span::raw("  ") };
        signed.push(Line::from([vec![before], line.spans].concat()).style(line.style));
    }
    signed
}
