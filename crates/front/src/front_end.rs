//! What a conversation needs of whoever shows it. The screen and plain lines are two such front ends.

use std::pin::Pin;

use pollux_domain::approval::{Answer, ApprovalMode, ApprovalRequest};
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::panel::Panel;
use pollux_host::{Conversation, Loaded, Prepared, Said};
use pollux_output::Console;
use pollux_tui::app::Facts;
use pollux_tui::theme::Theme;
use pollux_tui::transcript::Item;

use super::choice::{Choice, Chosen, ListEvent};
use super::input::Input;

/// What a person has yet to say.
pub(super) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Shows a conversation and hears the person. What it has no place for, it leaves out: most of what is not text.
pub(super) trait FrontEnd {
    /// Whether it draws, and takes keys rather than lines.
    fn is_screen(&self) -> bool {
        false
    }

    /// What is exported goes through it.
    fn console(&mut self) -> &mut Console;

    /// First words, or what changed when a conversation is opened again.
    fn greet(&mut self, turn: &Prepared<'_>, mode: ApprovalMode);

    /// What a session tells.
    fn event(&mut self, event: &Event);

    /// A text for the person.
    fn note(&mut self, text: &str);

    /// A text about something that went wrong.
    fn complain(&mut self, text: &str) {
        self.note(text);
    }

    /// Figures.
    fn panel(&mut self, panel: Panel) {
        panel.words().iter().for_each(|line| self.note(line));
    }

    /// Something for the end, when the conversation has left the screen.
    fn farewell(&mut self, item: Item) {
        match item {
            Item::Panel(panel) => self.panel(*panel),
            Item::Info(text) => self.note(&text),
            _ => {}
        }
    }

    /// What was said before.
    fn remember(&mut self, said: Vec<Said>);

    /// An empty screen to begin anew; what stood there can be scrolled to.
    fn clear(&mut self) {}

    /// A text that the person may change and send.
    fn suggest(&mut self, _text: &str) {}

    /// A sequence for the terminal that moves nothing.
    fn sequence(&mut self, sequence: &str);

    /// A turn begins with what was typed.
    fn begin(&mut self, _typed: &str) {}

    /// A turn is over.
    fn over(&mut self, _end: &TurnEnd) {}

    /// The next prompt is awaited.
    fn ready(&mut self);

    /// What can be named in a prompt from now on.
    fn offer(&mut self, _conversation: &Conversation, _loaded: &Loaded) {}

    /// What a conversation can use.
    fn show_facts(&mut self, _facts: Facts) {}

    /// Another sandbox is in force.
    fn confined(&mut self, turn: &Prepared<'_>, model: &str);

    /// Shows everything as the settings say now.
    fn look_anew(&mut self, _turn: &Prepared<'_>, _model: &str) {}

    fn show_theme(&mut self, _theme: &Theme) {}

    /// Prompts are typed as in vim, or no longer.
    fn set_vim(&mut self, on: bool) {
        let word = if on { "on" } else { "off" };
        self.note(&format!("Vim mode is {word}; it counts on the screen, not in plain lines."));
    }

    /// The editor for long prompts and proposed changes.
    fn prefer_editor(&mut self, _id: Option<&str>) {}

    /// A person's own command begins; what it prints goes to the result.
    fn begin_shell(&mut self, command: &str) -> Box<dyn Fn(&str) + Send + Sync>;

    /// It is over; a line about how, unless it went well.
    fn end_shell(&mut self, said: Option<&str>) {
        said.into_iter().for_each(|line| self.note(line));
    }

    /// What the person does next. Nothing is lost when this is dropped half-way.
    fn input(&mut self) -> Pending<'_, Input>;

    /// A prompt that somebody gave already.
    fn say_first(&mut self, prompt: String);

    /// It is taken when the next prompt is awaited.
    fn put_back(&mut self, input: Input);

    /// Asks about a call; `None` where the answer comes as [`Input::Decide`].
    fn ask<'a>(&'a mut self, _request: &'a ApprovalRequest) -> Option<Pending<'a, Answer>> {
        None
    }

    /// A line that the person types, unseen if it is secret; `None` when they leave the question.
    fn entry<'a>(&'a mut self, question: &'a str, secret: bool) -> Pending<'a, Option<String>>;

    /// Only a clear yes is one.
    fn agrees<'a>(&'a mut self, question: &'a str) -> Pending<'a, bool>;

    /// One of several; `None` when the person leaves.
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

    /// Shows a list, or what became of it.
    fn present(&mut self, choice: Choice);

    /// What the person does with the list; `None` when they leave it. Where it is a screen, nothing is lost when this
    /// is dropped half-way.
    fn list_event(&mut self) -> Pending<'_, Option<ListEvent>>;

    /// More about a row of the list.
    fn show_preview(&mut self, _key: String, _lines: Vec<String>) {}

    /// Rows of the list in which words are found elsewhere, with the place.
    fn show_hits(&mut self, _words: String, _hits: Vec<(String, String)>) {}

    /// Takes a list away that stayed after a letter.
    fn close(&mut self) {}

    /// Whether nobody sees it any more.
    fn is_broken(&self) -> bool {
        false
    }

    /// Gives the terminal back, soon if a signal ended everything, and says what failed.
    fn leave(self: Box<Self>, signalled: bool, ended: Result<(), Failure>) -> ExitKind;
}
