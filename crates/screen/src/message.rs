//! The messages that the conversation sends to the screen's thread.

use std::sync::Arc;

use pollux_domain::event::Event;
use pollux_domain::path_display::PathDisplay;
use pollux_front::choice::ListEvent;
use pollux_tui::app::{Facts, Footer, Settings};
use pollux_tui::dialog::{Picker, TextEntry};
use pollux_tui::theme::Theme;
use pollux_tui::transcript::Item;
use tokio::sync::{mpsc, oneshot};

use crate::services::ComposerServices;

/// A message to the screen.
pub(crate) enum Message {
    Event(Box<Event>),
    Say(Item),
    /// Shown when the conversation has ended.
    Farewell(Item),
    /// The authentication method, for the header.
    SignedIn(String),
    TurnStarted(String),
    AwaitPrompt,
    /// The conversation is left.
    Ending,
    /// A list; events go to the sender until it is closed.
    Pick(Box<Picker>, mpsc::Sender<ListEvent>),
    /// The preview of a row.
    Preview(String, Vec<String>),
    /// Rows whose content contains the words, each with an excerpt.
    Hits(String, Vec<(String, String)>),
    Enter(TextEntry, oneshot::Sender<Option<String>>),
    CloseList,
    /// Clear the screen; earlier output stays in the scrollback.
    Clear,
    ShellOutput(String),
    /// A `!` command ended, with a line about how unless it succeeded.
    ShellEnded(Option<String>),
    Footer(Box<Footer>),
    Paths(Box<PathDisplay>),
    Facts(Box<Facts>),
    Settings(Box<Settings>),
    Theme(Box<Theme>),
    Vim(bool),
    /// Text for the composer.
    Text(String),
    /// Earlier prompts, oldest first.
    History(Vec<String>),
    /// Replaces the services, such as for another project.
    Services(Arc<ComposerServices>),
    /// An escape sequence that does not move the cursor.
    Sequence(String),
    /// Give the terminal back and leave the last frame on it.
    End,
}
