//! The window title.

use pollux_domain::terminal_text::one_line;

use super::App;

/// How the window is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Titles {
    /// The folder's name.
    pub folder: String,
    /// Always this, whatever happens.
    pub fixed: Option<String>,
    /// Include the current thought.
    pub thought: bool,
}

impl App {
    /// The current window title; `None` leaves it unchanged.
    pub fn title(&self) -> Option<String> {
        let titles = self.settings.titles.as_ref()?;
        if let Some(fixed) = &titles.fixed {
            return Some(one_line(fixed));
        }
        let thought = self.transcript.thought().filter(|_| titles.thought);
        let state = if self.is_asking() {
            "✋  Action Required".to_owned()
        } else if !self.is_busy() {
            "◇  Ready".to_owned()
        } else if let Some(thought) = thought {
            format!("✦  {}", one_line(thought))
        } else if self.transcript.running().is_some() {
            "⏲  Working…".to_owned()
        } else {
            "✦  Working…".to_owned()
        };
        let others = match self.session.others {
            0 => String::new(),
            others => format!(" +{others}"),
        };
        Some(format!("{state} ({}){others}", one_line(&titles.folder)))
    }
}
