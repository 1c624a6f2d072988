//! The interface between a conversation and the front end that shows it.
//!
//! Implement [`FrontEnd`] to add another way to show conversations: plain lines (`lines.rs`) and the screen (the crate
//! `screen`) are the existing ones. A front end shows and asks; the flow, the commands and the session are not its concern.

use std::pin::Pin;

use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, ApprovalRequest};
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::panel::Panel;
use pollux_domain::terminal_screen::TerminalSize;
use pollux_host::{Conversation, HistoryItem, Loaded, Prepared};
use pollux_output::Console;

use super::choice::{Choice, Chosen, ListEvent};
use super::input::Input;

/// Messages of a resumed session that are shown.
const SHOWN: usize = 50;

/// Input that is still awaited.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Facts about an open session, for a status line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// What the session can use, such as `1 GEMINI.md file · 2 MCP servers`.
    pub context: String,
    /// The size of the model's context window in tokens; 0 while unknown.
    pub window: u64,
    pub session: String,
    /// The authentication method.
    pub auth: String,
    /// The session goes on without this front end.
    pub detaches: bool,
}

/// Something to show after the conversation has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Farewell {
    Note(String),
    Panel(Panel),
}

/// Shows a conversation and reads the person's input. The default methods suit a front end that only prints text.
pub trait FrontEnd {
    /// Whether it draws a screen and reads keys instead of lines.
    fn is_screen(&self) -> bool {
        false
    }

    /// Whether it shows one session only, so that a command cannot put another in its place.
    fn keeps_its_session(&self) -> bool {
        false
    }

    /// The size of the terminal for commands; `None` if it cannot show one.
    fn command_terminal(&self) -> Option<TerminalSize> {
        None
    }

    /// How many earlier messages of a resumed session are shown; `None` if it shows them itself.
    fn history_limit(&self) -> Option<usize> {
        Some(SHOWN)
    }

    /// The console that telemetry is exported through.
    fn console(&mut self) -> &mut Console;

    /// Shows the first lines, or what changed when a conversation is reopened.
    fn greet(&mut self, turn: &Prepared<'_>, mode: ApprovalMode);

    /// Shows an event of the session.
    fn event(&mut self, event: &Event);

    fn note(&mut self, text: &str);

    fn error(&mut self, text: &str) {
        self.note(text);
    }

    fn panel(&mut self, panel: Panel) {
        panel.words().iter().for_each(|line| self.note(line));
    }

    /// Shows something at the end, when the conversation has left the screen.
    fn farewell(&mut self, farewell: Farewell) {
        match farewell {
            Farewell::Panel(panel) => self.panel(panel),
            Farewell::Note(text) => self.note(&text),
        }
    }

    /// Shows the earlier messages of a resumed session.
    fn show_history(&mut self, said: Vec<HistoryItem>);

    /// Clears the screen for a new session; earlier output stays in the scrollback.
    fn clear(&mut self) {}

    /// Puts a text into the composer for the person to edit and send.
    fn suggest(&mut self, _text: &str) {}

    /// Writes an escape sequence that does not move the cursor.
    fn terminal_sequence(&mut self, sequence: &str);

    fn turn_started(&mut self, _typed: &str) {}

    fn turn_ended(&mut self, _end: &TurnEnd) {}

    /// Shows that the next prompt is awaited.
    fn await_prompt(&mut self);

    /// The conversation is left; ending the session may take a moment.
    fn ending(&mut self) {}

    /// The session is open, and another front end's turn runs in it.
    fn joins_turn(&mut self) {}

    /// Sets the names that prompts can complete from now on.
    fn set_offers(&mut self, _conversation: &Conversation, _loaded: &Loaded) {}

    /// Called before each prompt, so that names found meanwhile are offered too.
    fn refresh_offers(&mut self, _conversation: &Conversation, _loaded: &Loaded) {}

    fn show_facts(&mut self, _facts: SessionFacts) {}

    fn sandbox_changed(&mut self, turn: &Prepared<'_>, model: &str);

    /// Reads the settings again and applies those about appearance.
    fn reload_settings(&mut self, _turn: &Prepared<'_>, _model: &str) {}

    /// Loads the themes that [`FrontEnd::show_theme`] and lists can name.
    fn load_themes(&mut self, _loaded: &Loaded) {}

    /// Shows a loaded theme; `None` returns to the one that the settings choose.
    fn show_theme(&mut self, _name: Option<&str>) {}

    /// Switches vim mode of the composer.
    fn set_vim(&mut self, on: bool) {
        let word = if on { "on" } else { "off" };
        self.note(&format!("Vim mode is {word}. It works only in the full-screen interface."));
    }

    /// Sets the editor for long prompts and proposed changes.
    fn prefer_editor(&mut self, _id: Option<&str>) {}

    /// Shows that a `!` command runs; its output goes to the returned function.
    fn shell_started(&mut self, command: &str) -> Box<dyn Fn(&str) + Send + Sync>;

    /// Shows that it ended, with a line about how unless it succeeded.
    fn shell_ended(&mut self, ending: Option<&str>) {
        ending.into_iter().for_each(|line| self.note(line));
    }

    /// The next input. Dropping the future loses nothing.
    fn input(&mut self) -> Pending<'_, Input>;

    /// Queues a prompt that was given on the command line.
    fn queue_prompt(&mut self, prompt: String);

    /// A file that a prompt mentions was not read; the prompt is sent without it.
    fn not_read(&mut self, text: &str) {
        self.note(text);
    }

    /// Whether an interrupt ends the conversation while a prompt is awaited; otherwise it discarded what was typed.
    fn interrupt_leaves(&mut self) -> bool {
        true
    }

    /// Keeps an input until the next prompt is awaited.
    fn defer(&mut self, input: Input);

    /// Whether the front end logged a prompt when it was queued. It answers once for each prompt, when that is sent.
    fn has_logged(&mut self, _typed: &str) -> bool {
        false
    }

    /// Asks for an approval; `None` where the answer comes as [`Input::Decide`].
    fn ask_approval<'a>(&'a mut self, _request: &'a ApprovalRequest) -> Option<Pending<'a, ApprovalAnswer>> {
        None
    }

    /// Asks for a line of text, not echoed if it is secret; `None` when the person cancels.
    fn ask_line<'a>(&'a mut self, question: &'a str, secret: bool) -> Pending<'a, Option<String>>;

    /// Asks yes or no. Anything but `y` or `yes` means no.
    fn confirm<'a>(&'a mut self, question: &'a str) -> Pending<'a, bool>;

    /// Asks for one of several; `None` when the person cancels.
    fn choose(&mut self, choice: Choice) -> Pending<'_, Option<Chosen>> {
        Box::pin(async move {
            self.present(choice);
            loop {
                if let ListEvent::Chosen(chosen) = self.list_event().await? {
                    return Some(chosen);
                }
            }
        })
    }

    /// Shows a list, or its new content.
    fn present(&mut self, choice: Choice);

    /// The next thing done with the list; `None` when the person closes it. On a screen, dropping the future loses
    /// nothing.
    fn list_event(&mut self) -> Pending<'_, Option<ListEvent>>;

    /// Sets the preview of a row.
    fn show_preview(&mut self, _key: String, _lines: Vec<String>) {}

    /// Sets the rows whose content, found elsewhere, contains the words, each with an excerpt.
    fn show_hits(&mut self, _words: String, _hits: Vec<(String, String)>) {}

    /// Closes a list that stays open after a choice.
    fn close_list(&mut self) {}

    /// Whether the output is closed.
    fn is_broken(&self) -> bool {
        false
    }

    /// Gives the terminal back, at once after a signal, and reports a failure.
    fn leave(self: Box<Self>, signalled: bool, ended: Result<(), Failure>) -> ExitKind;
}
