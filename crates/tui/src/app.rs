//! The state of the screen as a value: input and events in, actions and frames out.
//!
//! It uses neither the terminal nor the disk nor the clock, so tests can play every interaction. The program
//! carries out the actions and reports their results.

mod clipboard;
mod command_keys;
mod dialogs;
mod footer;
mod header;
mod input;
mod page;
mod phrases;
mod shortcuts;
mod status;
mod title;
mod todos;
mod tray;
mod view;

use std::path::Path;
use std::time::{Duration, Instant};

use pollux_domain::approval::{ApprovalAnswer, ApprovalMode};
use pollux_domain::event::{Event, RequestId};
use pollux_domain::id::CallId;
use pollux_domain::model::RequestRole;
use pollux_domain::path_display::PathDisplay;
use pollux_domain::terminal_screen::TypedBytes;
use pollux_domain::terminal_text::one_line;

pub use command_keys::command_terminal;
pub use dialogs::STILL;
pub use footer::{Facts, Footer, FooterItem};
pub use header::Header;
pub use phrases::{TIPS, WIT};
pub use status::Phrases;
pub use title::Titles;

use crate::composer::{Candidates, Composer, Mark, Pastes, Wanted};
use crate::keys::KeyMap;
use crate::theme::{Shade, Theme};
use crate::transcript::{Item, Transcript};

use self::clipboard::ClipboardReads;
use self::command_keys::CommandKeys;
use self::dialogs::Questions;
use self::footer::Tally;
use self::page::Page;
use self::status::Status;
use self::todos::Todos;
use self::tray::Tray;

/// How long a toast stays, and the repeated key it announces counts.
const TOAST: Duration = crate::composer::TWICE;

/// Appearance and behaviour.
#[derive(Debug, Clone)]
pub struct Settings {
    pub theme: Theme,
    pub keys: KeyMap,
    pub vim: bool,
    /// Use the alternate screen; otherwise only the area below the scrollback.
    pub alternate: bool,
    pub show: Show,
    pub line_numbers: bool,
    /// Lines of a tool's output that are shown.
    pub box_lines: usize,
    /// Show successful calls in one line.
    pub compact: bool,
    /// Show the colours of command output.
    pub command_colours: bool,
    /// Show thoughts in the conversation.
    pub thoughts: bool,
    /// Show the model's name whenever it changes.
    pub model_in_chat: bool,
    pub phrases: Phrases,
    /// The window title; `None` leaves it unchanged.
    pub titles: Option<Titles>,
}

/// The parts of the screen to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Show {
    pub banner: bool,
    pub tips: bool,
    pub footer: bool,
    /// The context summary above the composer.
    pub context: bool,
    /// The hint at the list of shortcuts.
    pub hint: bool,
    pub wheel: bool,
}

impl Default for Show {
    fn default() -> Self {
        Self { banner: true, tips: true, footer: true, context: true, hint: true, wheel: true }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            theme: Theme::for_shade(Shade::Dark),
            keys: KeyMap::default(),
            vim: false,
            alternate: false,
            show: Show::default(),
            line_numbers: true,
            box_lines: 15,
            compact: true,
            command_colours: true,
            thoughts: false,
            model_in_chat: false,
            phrases: Phrases::default(),
            titles: None,
        }
    }
}

/// What the program must do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A prompt, a command with `/`, or a shell command, as it was typed.
    Submit {
        text: String,
        shell: bool,
    },
    /// Say something to the running turn.
    Steer {
        id: RequestId,
        text: String,
    },
    /// Take back what was said to it.
    Withdraw(RequestId),
    /// Stop the running turn.
    Cancel,
    /// Type into a running command.
    Type {
        call: CallId,
        input: TypedBytes,
    },
    /// Let a running command continue in the background.
    MoveToBackground(CallId),
    Decide {
        call: CallId,
        answer: ApprovalAnswer,
    },
    /// Let the person change a call's arguments in an editor.
    EditCall(CallId),
    SetMode(ApprovalMode),
    /// Candidates are wanted; answered with [`App::candidates`].
    Complete(Wanted),
    /// Open [`App::composed`] in an editor; answered with [`App::set_text`].
    OpenEditor,
    /// Read the clipboard; answered with [`App::paste_image`], [`App::paste_text`] or
    /// [`App::paste_failed`]. It goes where the cursor was.
    PasteClipboard(Mark),
    /// A row of the picker that the program opened.
    Picked {
        key: String,
        with: Option<char>,
    },
    /// Another row of that picker is marked.
    Marked(String),
    /// No row of that picker has these words.
    Searched(String),
    /// A line that the program asked for.
    Entered(String),
    /// The picker or the entry that the program opened was left.
    Closed,
    /// Rewind to an earlier prompt.
    Rewind,
    /// Redraw everything.
    Redraw,
    /// Toggle mouse reporting.
    ToggleMouse,
    Suspend,
    Quit,
    /// Leave the session running.
    Detach,
}

/// A short-lived message.
#[derive(Debug)]
struct Toast {
    text: String,
    until: Instant,
    /// It asks for the same key again; any other key removes it.
    again: bool,
}

/// The state of the screen.
#[derive(Debug)]
pub struct App {
    settings: Settings,
    greeting: Greeting,
    pub footer: Footer,
    pub facts: Facts,
    paths: PathDisplay,
    transcript: Transcript,
    composer: Composer,
    clipboard: ClipboardReads,
    questions: Questions,
    command_keys: CommandKeys,
    /// What was typed during the turn.
    tray: Tray,
    session: SessionState,
    notices: Notices,
    view: ViewState,
    window: Window,
    ending: Ending,
}

/// The header.
#[derive(Debug)]
struct Greeting {
    header: Header,
    /// The header can no longer change.
    complete: bool,
    /// It is in the scrollback.
    printed: bool,
}

/// State from session events, apart from the transcript.
#[derive(Debug)]
struct SessionState {
    status: Status,
    todos: Todos,
    tally: Tally,
    mode: ApprovalMode,
    /// The model that answered last.
    model: String,
    /// The number of other front ends.
    others: usize,
}

/// Short-lived messages.
#[derive(Debug, Default)]
struct Notices {
    toast: Option<Toast>,
    /// The key that leaves was pressed once.
    leaving: Option<Instant>,
    /// The first key of detaching was pressed.
    detaching: Option<Instant>,
}

/// Display options that the person toggled.
#[derive(Debug, Default)]
struct ViewState {
    /// Long outputs are shown whole.
    expanded: bool,
    /// What was printed in short is printed again with the next frame.
    reveals: bool,
    /// Markdown as it is written.
    raw: bool,
    /// The list of shortcuts is open.
    shortcuts: bool,
    /// The conversation, when the whole screen is ours.
    page: Page,
}

/// The terminal's window.
#[derive(Debug)]
struct Window {
    focused: bool,
    /// The terminal looks elsewhere, and something happened: a title and a line.
    attention: Option<(String, String)>,
}

/// The end of the conversation.
#[derive(Debug, Default)]
struct Ending {
    /// Shown at the end.
    farewell: Vec<Item>,
    /// The session is being ended.
    begun: bool,
    over: bool,
}

impl App {
    pub fn new(settings: Settings, header: Header, footer: Footer, mode: ApprovalMode) -> Self {
        let mut composer = Composer::new(settings.keys.clone());
        composer.set_vim(settings.vim);
        let mut app = Self {
            settings,
            greeting: Greeting { header, complete: false, printed: false },
            footer,
            facts: Facts::default(),
            paths: PathDisplay::default(),
            transcript: Transcript::default(),
            composer,
            clipboard: ClipboardReads::default(),
            questions: Questions::default(),
            command_keys: CommandKeys::default(),
            tray: Tray::default(),
            session: SessionState {
                status: Status::default(),
                todos: Todos::default(),
                tally: Tally::default(),
                mode,
                model: String::new(),
                others: 0,
            },
            notices: Notices::default(),
            view: ViewState::default(),
            window: Window { focused: true, attention: None },
            ending: Ending::default(),
        };
        app.transcript.thoughts = app.settings.thoughts;
        app.transcript.command_colours = app.settings.command_colours;
        app.set_conditions();
        app
    }

    /// Adds the history of earlier sessions, oldest first.
    pub fn add_history(&mut self, prompts: Vec<String>, shell: Vec<String>) {
        self.composer.add_history(prompts, shell);
    }

    pub fn candidates(&mut self, candidates: Candidates) {
        self.composer.candidates(candidates);
    }

    pub fn set_text(&mut self, text: &str) {
        self.stop_waiting();
        self.composer.set_text(text);
        self.set_conditions();
    }

    /// Puts a prompt into the composer to edit and send. A draft comes back when it has been sent.
    pub fn suggest(&mut self, text: &str) {
        self.stop_waiting();
        self.composer.suggest(text);
        self.set_conditions();
    }

    /// The composer's text, with every paste in full.
    pub fn composed(&self) -> String {
        self.composer.expanded()
    }

    /// Sets how paths are displayed.
    pub fn set_paths(&mut self, paths: PathDisplay) {
        self.transcript.paths = paths.clone();
        self.paths = paths;
    }

    /// Adds an item to the transcript.
    pub fn say(&mut self, item: Item) {
        let item = match item {
            Item::Call { name, about, went_well } => {
                let about = self
                    .paths
                    .inside(Path::new(&about))
                    .map(|path| path.display().to_string())
                    .unwrap_or(about);
                Item::Call { name, about, went_well }
            }
            other => other,
        };
        self.transcript.push(item);
    }

    /// Sets facts about the session.
    pub fn set_facts(&mut self, facts: Facts) {
        if self.facts.session != facts.session && !self.facts.session.is_empty() {
            self.stop_waiting();
        }
        self.facts = facts;
    }

    /// Clears the transcript for a new session.
    pub fn clear(&mut self) {
        self.transcript = Transcript::default();
        self.transcript.thoughts = self.settings.thoughts;
        self.transcript.command_colours = self.settings.command_colours;
        self.transcript.paths = self.paths.clone();
        self.session.todos = Todos::default();
        self.view.page = Page::default();
        self.session.tally = Tally::default();
        // The prompt was meant for the session before.
        self.stop_waiting();
        self.set_conditions();
    }

    /// Whether the model is at work.
    pub fn is_busy(&self) -> bool {
        self.session.status.is_busy()
    }

    pub fn mode(&self) -> ApprovalMode {
        self.session.mode
    }

    /// The last answer, as the model wrote it.
    pub fn answer(&self) -> &str {
        self.transcript.answer()
    }

    pub fn set_theme(&mut self, theme: Theme) {
        self.settings.theme = theme;
    }

    /// Applies the terminal's shade, unless a theme was chosen.
    pub fn follow(&mut self, shade: Shade) {
        if self.settings.theme.follows_terminal() {
            self.settings.theme = Theme::for_shade(shade);
        }
    }

    /// Applies new settings; the alternate screen needs a restart.
    pub fn set_settings(&mut self, settings: Settings) {
        if settings.vim != self.settings.vim {
            self.composer.set_vim(settings.vim);
        }
        let theme = match settings.theme.follows_terminal() && self.settings.theme.follows_terminal() {
            true => self.settings.theme.clone(),
            false => settings.theme.clone(),
        };
        self.transcript.thoughts = settings.thoughts;
        self.transcript.command_colours = settings.command_colours;
        self.settings = Settings { alternate: self.settings.alternate, theme, ..settings };
    }

    pub fn set_vim(&mut self, vim: bool) {
        self.settings.vim = vim;
        self.composer.set_vim(vim);
    }

    /// A turn begins with this prompt, or a command of the person's runs.
    pub fn begin_turn(&mut self, typed: &str, shell: bool, now: Instant) {
        match shell {
            true => {
                self.transcript.push(Item::Shell(typed.to_owned()));
                self.transcript.begin_shell(typed, now);
            }
            false => self.transcript.push(Item::Prompt(typed.to_owned())),
        }
        self.session.status.begin(now);
        self.set_conditions();
    }

    pub fn shell_output(&mut self, text: &str) {
        self.transcript.shell_output(text);
    }

    /// The person's command is over; a word about how, unless it went well.
    pub fn shell_ended(&mut self, said: Option<&str>, now: Instant) {
        self.transcript.shell_ended(said);
        self.follow_command(now);
        self.rest();
    }

    /// The program is idle.
    pub fn rest(&mut self) {
        self.session.status.rest();
        self.tray.leaves = None;
        self.set_conditions();
    }

    /// It is known how the model is reached; the greeting is complete.
    pub fn signed_in(&mut self, text: impl Into<String>) {
        self.greeting.header.sign_in = text.into();
        self.greeting.complete = true;
    }

    /// The conversation is left: ending the session takes a moment.
    pub fn begin_end(&mut self) {
        self.ending.begun = true;
    }

    /// Something to be said when everything is over.
    pub fn farewell(&mut self, item: Item) {
        self.ending.farewell.push(item);
    }

    /// The last frame: the transcript without composer and footer, and what was not sent.
    pub fn end(&mut self) {
        for unsent in self.take_unsent() {
            self.farewell(Item::info(unsent.not_sent(false)));
        }
        self.rest();
        self.ending.over = true;
        if !self.settings.alternate {
            std::mem::take(&mut self.ending.farewell).into_iter().for_each(|item| self.transcript.push(item));
        }
    }

    /// The pending notification (title and line), if the terminal is not focused.
    pub fn take_attention(&mut self) -> Option<(String, String)> {
        self.window.attention.take().filter(|_| !self.window.focused)
    }

    /// Whether the alternate screen is used.
    pub fn is_alternate(&self) -> bool {
        self.settings.alternate
    }

    pub fn set_focused(&mut self, focused: bool) {
        self.window.focused = focused;
    }

    /// Whether the terminal is focused, if it reports that.
    pub fn is_focused(&self) -> bool {
        self.window.focused
    }

    /// Folds in an event of the session.
    pub fn event(&mut self, event: &Event, now: Instant) {
        self.session.status.take(event, now);
        self.session.todos.take(event);
        self.transcript.take(event, now);
        self.session.tally.take(event);
        self.follow_tray(event);
        match event {
            Event::RequestSent(sent)
                if self.settings.model_in_chat
                    && sent.role == RequestRole::Main
                    && self.session.model != sent.model =>
            {
                self.session.model.clone_from(&sent.model);
                self.transcript.push(Item::info(format!("Responding with {}", one_line(&sent.model))));
            }
            Event::ApprovalWanted(request) => {
                let line = format!("{} needs approval", one_line(&request.display_name));
                self.window.attention = Some(("Action required".to_owned(), line));
                self.ask(request);
            }
            Event::ApprovalSettled { call, .. } => self.settle(call),
            Event::ModeChanged { mode, .. } => self.session.mode = *mode,
            Event::FrontsChanged(fronts) => self.session.others = fronts.len().saturating_sub(1),
            // Where it is hidden it stays so.
            Event::ModelChanged(model) if !self.footer.model.is_empty() => {
                self.footer.model.clone_from(model)
            }
            Event::ModelFallback(fallback) if !self.footer.model.is_empty() => {
                self.footer.model.clone_from(&fallback.to)
            }
            Event::TurnEnded(_) => {
                let line = self.transcript.answer().lines().next().unwrap_or_default();
                self.window.attention = Some(("Done".to_owned(), one_line(line)));
                self.settle_all();
            }
            _ => {}
        }
        self.follow_command(now);
        self.notice_question(now);
        self.set_conditions();
    }

    fn set_conditions(&mut self) {
        self.composer.conditions.busy = self.session.status.is_busy();
        self.composer.conditions.queued = !self.tray.is_empty();
        self.composer.conditions.yolo = self.session.mode == ApprovalMode::Yolo;
        self.composer.conditions.clipboard = self.clipboard_state();
    }

    /// How the terminal delivers pastes.
    pub fn set_pastes(&mut self, pastes: Pastes) {
        self.composer.conditions.pastes = pastes;
    }

    /// Whether `@` in pasted text is text.
    pub fn set_escape_at(&mut self, on: bool) {
        self.composer.conditions.escape_at = on;
    }

    /// A word for a moment.
    pub fn toast(&mut self, text: impl Into<String>, now: Instant) {
        self.notices.toast = Some(Toast { text: text.into(), until: now + TOAST, again: false });
    }

    /// Shows what the same key does when pressed again.
    fn toast_again(&mut self, text: impl Into<String>, now: Instant) {
        self.notices.toast = Some(Toast { text: text.into(), until: now + TOAST, again: true });
    }

    /// When it must be drawn again though nothing happens.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let toast = self.notices.toast.as_ref().map(|toast| toast.until);
        let question = [self.takes_keys_at(), self.keyboard_rests_at()].into_iter().flatten().min();
        // Nothing turns while a question stands.
        let wheel = self
            .questions
            .standing
            .is_empty()
            .then(|| self.session.status.next_tick(now, self.settings.show.wheel));
        [toast, question, wheel.flatten()].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
