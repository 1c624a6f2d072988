//! The screen as a front end: what a conversation shows becomes messages to the screen's thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, Severity};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_domain::panel::Panel;
use pollux_domain::terminal_screen::TerminalSize;
use pollux_front::choice::{Choice, ListEvent, ListOptions};
use pollux_front::front_end::{Farewell, FrontEnd, Pending, SessionFacts};
use pollux_front::input::Input;
use pollux_front::path_display;
use pollux_host::{Conversation, HistoryItem, Loaded, Prepared};
use pollux_output::{Console, Style};
use pollux_tui::app::{App, Facts, command_terminal};
use pollux_tui::composer::Submission;
use pollux_tui::dialog::{Picker, PickerOptions, PickerRow, TextEntry};
use pollux_tui::terminal::{SCREEN_THREAD, Terminal};
use pollux_tui::theme::Theme;
use pollux_tui::transcript::Item;
use tokio::sync::{mpsc, oneshot};

use crate::appearance::{footer, settings};
use crate::list_keys::picker_letter;
use crate::mailbox::Mailbox;
use crate::message::Message;
use crate::services::{ComposerServices, QueuedPrompts};
use crate::stage::Stage;
use crate::terminal_watch::{HangupWatcher, ScreenOptions};
use crate::themes::{chosen_theme, themes};

/// Inputs that may wait for the conversation; more are refused with a message.
const WAITING: usize = 1024;
/// Time to give the terminal back when the person leaves, and when the terminal may be gone.
const IN_ORDER: Duration = Duration::from_secs(10);
const PROMPTLY: Duration = Duration::from_secs(2);

/// The conversation's end of the screen.
pub(crate) struct Screen {
    console: Console,
    /// For failures, which are printed after the terminal is given back.
    style: Style,
    to: Mailbox,
    from: mpsc::Receiver<Input>,
    /// Input to return before anything from the screen.
    pending: VecDeque<Input>,
    /// Input to return when the next prompt is awaited.
    later: VecDeque<Input>,
    /// Events of the open list.
    list_events: Option<mpsc::Receiver<ListEvent>>,
    /// Upgradable as long as that list is open.
    picking: Option<mpsc::WeakSender<ListEvent>>,
    services: Option<Arc<ComposerServices>>,
    /// They survive the services, which change with the session.
    queued: Arc<QueuedPrompts>,
    /// The themes that lists and previews can name.
    themes: Vec<(String, Theme)>,
    /// The theme that the settings choose.
    chosen_theme: Option<Theme>,
    thread: Option<JoinHandle<()>>,
    /// The screen's thread has panicked; what is still to be said is printed.
    crashed: bool,
    /// Notices a closed terminal even while the screen's thread is blocked.
    _watcher: HangupWatcher,
}

impl Screen {
    /// Takes over the terminal and shows the first frame.
    pub(crate) fn open(app: App, options: ScreenOptions, style: Style) -> io::Result<Self> {
        let terminal = Terminal::open(options.alternate)?;
        let to = Mailbox::default();
        let (inputs, from) = mpsc::channel(WAITING);
        let stage = Stage::new(app, terminal, options, to.clone(), inputs);
        let thread = std::thread::Builder::new().name(SCREEN_THREAD.to_owned()).spawn(move || stage.run())?;
        let (pending, later) = (VecDeque::new(), VecDeque::new());
        let console = Console::new(style.clone(), Box::new(io::sink()), Box::new(io::sink()));
        Ok(Self {
            console,
            style,
            to,
            from,
            pending,
            later,
            list_events: None,
            picking: None,
            services: None,
            queued: Arc::default(),
            themes: Vec::new(),
            chosen_theme: None,
            thread: Some(thread),
            crashed: false,
            _watcher: HangupWatcher::start()?,
        })
    }

    fn tell(&self, message: Message) {
        // A screen that has ended is noticed where input is awaited.
        self.to.send(message);
    }

    fn say(&self, item: Item) {
        self.tell(Message::Say(item));
    }

    /// The input of a screen that has ended without any: a crash ends the session in order, and its message has been
    /// printed; otherwise the terminal is gone.
    fn last_input(&mut self) -> Input {
        self.crashed |= self.thread.take().is_some_and(|thread| thread.join().is_err());
        if self.crashed { Input::Leave } else { Input::Gone }
    }

    /// Saves prompts that were sent and not read any more, such as those that waited behind `/quit`.
    fn save_unread(&mut self) {
        self.from.close();
        let mut unread: Vec<Input> = self.pending.drain(..).chain(self.later.drain(..)).collect();
        unread.extend(std::iter::from_fn(|| self.from.try_recv().ok()));
        for input in unread {
            let Input::Said(text) = input else { continue };
            let unsent = Submission::typed(&text);
            if unsent.leaves() {
                continue;
            }
            let services = self.services.as_ref();
            let is_saved = services.is_some_and(|services| services.save_unsent(&unsent.text, unsent.shell));
            self.farewell(Farewell::Note(unsent.not_sent(is_saved)));
        }
    }

    /// Gives the terminal back. A screen that does not end in time is left behind: it may be reading from a closed
    /// terminal, or waiting for an editor, or not get any time on a busy machine.
    fn end(&mut self, patience: Duration) {
        self.save_unread();
        self.tell(Message::End);
        self.to.close();
        let Some(thread) = self.thread.take() else { return };
        let since = Instant::now();
        while !thread.is_finished() {
            if since.elapsed() > patience {
                return pollux_tui::terminal::restore_without_screen();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = thread.join();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.end(PROMPTLY);
    }
}

impl FrontEnd for Screen {
    fn is_screen(&self) -> bool {
        true
    }

    fn command_terminal(&self) -> Option<TerminalSize> {
        let (columns, rows) = pollux_tui::terminal::size();
        Some(command_terminal(columns, rows))
    }

    fn console(&mut self) -> &mut Console {
        &mut self.console
    }

    fn greet(&mut self, turn: &Prepared<'_>, _mode: ApprovalMode) {
        self.sandbox_changed(turn, &turn.credentials.model);
        self.tell(Message::Paths(Box::new(path_display(turn.loaded))));
        let auth = turn.credentials.auth_type.as_deref();
        let sign_in = auth.map(|auth| format!("Authenticated with {auth} /auth"));
        self.tell(Message::SignedIn(sign_in.unwrap_or_default()));
        let queued = Arc::clone(&self.queued);
        let services = Arc::new(ComposerServices::new(turn.loaded, turn.session.id.clone(), queued));
        self.tell(Message::Services(Arc::clone(&services)));
        self.services = Some(services);
    }

    fn event(&mut self, event: &Event) {
        self.console.export(event);
        self.tell(Message::Event(Box::new(event.clone())));
    }

    fn note(&mut self, text: &str) {
        self.say(Item::info(text));
    }

    fn error(&mut self, text: &str) {
        self.say(Item::error(text));
    }

    fn panel(&mut self, panel: Panel) {
        self.say(Item::Panel(Box::new(panel)));
    }

    fn farewell(&mut self, farewell: Farewell) {
        if let (true, Farewell::Note(text)) = (self.crashed, &farewell) {
            return Console::of_process(self.style.clone()).note(text);
        }
        self.tell(Message::Farewell(match farewell {
            Farewell::Note(text) => Item::info(text),
            Farewell::Panel(panel) => Item::Panel(Box::new(panel)),
        }));
    }

    fn show_history(&mut self, said: Vec<HistoryItem>) {
        let prompts = said.iter().filter_map(|said| match said {
            HistoryItem::Prompt(text) => Some(text.clone()),
            _ => None,
        });
        self.tell(Message::History(prompts.collect()));
        said.into_iter().for_each(|said| self.say(item(said)));
    }

    fn clear(&mut self) {
        self.tell(Message::Clear);
    }

    fn suggest(&mut self, text: &str) {
        self.tell(Message::Text(text.to_owned()));
    }

    fn terminal_sequence(&mut self, sequence: &str) {
        self.tell(Message::Sequence(sequence.to_owned()));
    }

    fn turn_started(&mut self, typed: &str) {
        self.tell(Message::TurnStarted(typed.to_owned()));
    }

    fn await_prompt(&mut self) {
        self.pending.append(&mut self.later);
        self.tell(Message::AwaitPrompt);
    }

    fn ending(&mut self) {
        self.tell(Message::Ending);
    }

    fn set_offers(&mut self, conversation: &Conversation, loaded: &Loaded) {
        if let Some(services) = &self.services {
            services.set_offers(conversation.offers(loaded));
        }
    }

    fn show_facts(&mut self, facts: SessionFacts) {
        let SessionFacts { context, window, session, auth, detaches } = facts;
        if let (Some(services), false) = (&self.services, session.is_empty()) {
            services.set_session(SessionId::from_file(session.as_str()));
        }
        self.tell(Message::Facts(Box::new(Facts { context, window, session, auth, detaches })));
    }

    fn sandbox_changed(&mut self, turn: &Prepared<'_>, model: &str) {
        let in_force = turn.sandbox.in_force(&turn.loaded.env);
        self.tell(Message::Footer(Box::new(footer(turn.loaded, model, Some(&in_force)))));
    }

    fn reload_settings(&mut self, turn: &Prepared<'_>, model: &str) {
        if let Ok(loaded) = pollux_host::load_settings(turn.request, &turn.loaded.env) {
            self.tell(Message::Settings(Box::new(settings(&loaded).0)));
            let in_force = turn.sandbox.in_force(&turn.loaded.env);
            self.tell(Message::Footer(Box::new(footer(&loaded, model, Some(&in_force)))));
        }
    }

    fn load_themes(&mut self, loaded: &Loaded) {
        self.themes = themes(loaded);
        self.chosen_theme = Some(chosen_theme(loaded));
    }

    fn show_theme(&mut self, name: Option<&str>) {
        let theme = match name {
            Some(name) => self.theme(name),
            None => self.chosen_theme.as_ref(),
        };
        if let Some(theme) = theme.cloned() {
            self.tell(Message::Theme(Box::new(theme)));
        }
    }

    fn set_vim(&mut self, on: bool) {
        self.tell(Message::Vim(on));
        self.note(&format!("Vim mode is {}.", if on { "on" } else { "off" }));
    }

    fn prefer_editor(&mut self, id: Option<&str>) {
        if let Some(services) = &self.services {
            services.prefer_editor(id);
        }
    }

    fn shell_started(&mut self, command: &str) -> Box<dyn Fn(&str) + Send + Sync> {
        self.turn_started(&format!("!{command}"));
        let to = self.to.clone();
        Box::new(move |text: &str| to.send(Message::ShellOutput(text.to_owned())))
    }

    fn shell_ended(&mut self, ending: Option<&str>) {
        self.tell(Message::ShellEnded(ending.map(str::to_owned)));
    }

    fn input(&mut self) -> Pending<'_, Input> {
        Box::pin(async move {
            match self.pending.pop_front() {
                Some(input) => input,
                None => match self.from.recv().await {
                    Some(input) => input,
                    None => self.last_input(),
                },
            }
        })
    }

    fn queue_prompt(&mut self, prompt: String) {
        self.pending.push_back(Input::Said(prompt));
    }

    fn defer(&mut self, input: Input) {
        self.later.push_back(input);
    }

    fn has_logged(&mut self, typed: &str) -> bool {
        self.services.as_ref().is_some_and(|services| services.has_logged(typed))
    }

    fn ask_line<'a>(&'a mut self, question: &'a str, secret: bool) -> Pending<'a, Option<String>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.tell(Message::Enter(TextEntry::new(question, secret), answer));
            answered.await.ok().flatten()
        })
    }

    fn confirm<'a>(&'a mut self, question: &'a str) -> Pending<'a, bool> {
        Box::pin(async move {
            let mut choice = Choice::of(question, [("yes", "Yes"), ("no", "No")]);
            // What is confirmed cannot be undone.
            choice.marked = Some("no".to_owned());
            self.choose(choice).await.is_some_and(|chosen| chosen.key == "yes")
        })
    }

    fn present(&mut self, choice: Choice) {
        // Events from before the list changed still count.
        let events = match self.picking.as_ref().and_then(mpsc::WeakSender::upgrade) {
            Some(events) => events,
            None => {
                let (events, receiver) = mpsc::channel(WAITING);
                self.list_events = Some(receiver);
                events
            }
        };
        self.picking = Some(events.downgrade());
        let picker = self.picker(choice);
        self.tell(Message::Pick(Box::new(picker), events));
    }

    fn list_event(&mut self) -> Pending<'_, Option<ListEvent>> {
        Box::pin(async move { self.list_events.as_mut()?.recv().await })
    }

    fn show_preview(&mut self, key: String, lines: Vec<String>) {
        self.tell(Message::Preview(key, lines));
    }

    fn show_hits(&mut self, words: String, hits: Vec<(String, String)>) {
        self.tell(Message::Hits(words, hits));
    }

    fn close_list(&mut self) {
        self.tell(Message::CloseList);
    }

    fn leave(mut self: Box<Self>, signalled: bool, ended: Result<(), Failure>) -> ExitKind {
        self.end(if signalled { PROMPTLY } else { IN_ORDER });
        let (style, crashed) = (self.style.clone(), self.crashed);
        drop(self);
        match ended {
            Ok(()) if crashed => ExitKind::Failure,
            Ok(()) => ExitKind::Success,
            Err(failure) => Console::of_process(style).fail(&failure),
        }
    }
}

impl Screen {
    fn theme(&self, name: &str) -> Option<&Theme> {
        self.themes.iter().find(|(known, _)| known == name).map(|(_, theme)| theme)
    }

    fn picker(&self, choice: Choice) -> Picker {
        let sample = |name: &String| self.theme(name).cloned().map(Box::new);
        let rows = choice.rows.into_iter().map(|row| PickerRow {
            key: row.key,
            columns: row.columns,
            preview: row.preview,
            sample: row.sample_theme.as_ref().and_then(sample),
        });
        let mut picker = Picker::new(choice.title, &choice.headings, rows.collect())
            .options(picker_options(choice.options))
            .note(choice.note)
            .about(choice.about)
            .foot(choice.foot);
        if let Some(hint) = choice.hint {
            picker = picker.hint(hint);
        }
        if let Some(key) = &choice.marked {
            picker = picker.mark(key);
        }
        let actions = choice.actions.iter();
        actions.fold(picker, |picker, action| {
            picker.letter(picker_letter(action.key), action.about, action.confirm)
        })
    }
}

fn picker_options(options: ListOptions) -> PickerOptions {
    let ListOptions { counted, numbered, stays_open, type_to_search, optional_columns, unrequested } =
        options;
    PickerOptions { counted, numbered, stays_open, type_to_search, optional_columns, unrequested }
}

fn item(said: HistoryItem) -> Item {
    match said {
        HistoryItem::Prompt(text) => Item::Prompt(text),
        HistoryItem::Answer(text) => Item::Answer { text, goes_on: false },
        HistoryItem::Call { name, about, went_well, .. } => Item::Call { name, about, went_well },
        HistoryItem::Note(Severity::Info, text) => Item::info(text),
        HistoryItem::Note(Severity::Warning, text) => Item::warning(text),
        HistoryItem::Note(Severity::Error, text) => Item::error(text),
    }
}
