//! The greeting.

use pollux_domain::terminal_text::one_line;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::Show;
use crate::theme::Theme;
use crate::wrap::{Margin, wrap};

/// The lines at the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    pub version: String,
    /// How the model is reached, such as `Authenticated with gemini-api-key`.
    pub sign_in: String,
    /// Whether the project has a context file; otherwise a tip says how to make one.
    pub has_context: bool,
    /// The tips were shown often enough.
    pub knows_tips: bool,
    /// Problems found at start.
    pub notes: Vec<String>,
}

const NAME: &[&str] = &["┏━┓┏━┓╻  ╻  ╻ ╻╻ ╻", "┣━┛┃ ┃┃  ┃  ┃ ┃┏╋┛", "╹  ┗━┛┗━╸┗━╸┗━┛╹ ╹"];

impl Header {
    pub(super) fn lines(&self, width: u16, theme: &Theme, show: Show) -> Vec<Line<'static>> {
        let mut lines = vec![Line::default()];
        let wide = NAME.first().map_or(0, |row| row.chars().count());
        if !show.banner || usize::from(width) < wide + 2 {
            lines.push(Line::from(Span::styled("Pollux", theme.accent().add_modifier(Modifier::BOLD))));
        } else {
            lines.extend(NAME.iter().map(|row| {
                let letters = row.chars().enumerate();
                Line::from(
                    letters
                        .map(|(at, sign)| Span::styled(sign.to_string(), theme.letter(at, wide)))
                        .collect::<Vec<_>>(),
                )
            }));
        }
        let about = format!("Pollux v{}", self.version);
        lines.push(Line::from(Span::styled(about, theme.text())));
        if !self.sign_in.is_empty() {
            let text = Span::styled(one_line(&self.sign_in), theme.secondary());
            lines.extend(wrap(&[text], width, &Margin::default()));
        }
        if show.tips && !self.knows_tips {
            lines.push(Line::default());
            lines.extend(
                self.tips()
                    .into_iter()
                    .flat_map(|tip| wrap(&[Span::styled(tip, theme.text())], width, &Margin::default())),
            );
        }
        for note in &self.notes {
            let margin = Margin::hanging(Span::styled("ℹ ", theme.warning()));
            lines.extend(wrap(&[Span::styled(one_line(note), theme.warning())], width, &margin));
        }
        lines
    }

    /// The heading and the tips, a line each.
    pub fn tips(&self) -> Vec<String> {
        let mut tips = vec![
            "Ask a question or describe a task. @ adds files, ! runs a shell command.".to_owned(),
            "/help lists all commands.".to_owned(),
        ];
        if !self.has_context {
            tips.push("/init creates a GEMINI.md file that describes this project to the model.".to_owned());
        }
        let numbered = tips.into_iter().enumerate().map(|(index, tip)| format!("{}. {tip}", index + 1));
        std::iter::once("Tips for getting started:".to_owned()).chain(numbered).collect()
    }
}
