//! The screen's thread: keys and messages in, frames and input out.

use std::io::{self, Stdout};
use std::mem::discriminant;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{Event as Typed, KeyEvent, KeyEventKind};
use pollux_domain::approval::ApprovalAnswer;
use pollux_domain::event::{Op, RequestId};
use pollux_domain::terminal_screen::TerminalSize;
use pollux_front::choice::{Chosen, ListEvent};
use pollux_front::input::Input;
use pollux_tui::app::{Action, App, command_terminal};
use pollux_tui::composer::{Candidates, Mark, Pastes, Submission};
use pollux_tui::screen::Screen as Painter;
use pollux_tui::terminal::Terminal;
use pollux_tui::transcript::Item;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::keyboard::Keyboard;
use crate::list_keys::list_key;
use crate::mailbox::Mailbox;
use crate::message::Message;
use crate::services::{Clip, ComposerServices};
use crate::terminal_watch::{ScreenOptions, TerminalWatch};
use crate::{edit_call, terminal_watch};

/// Shortest time between frames without key input.
const FRAME: Duration = Duration::from_millis(16);
/// Service replies that may wait.
const REPLIES: usize = 64;
/// Capacity reserved for input that must not be lost.
const RESERVED: usize = 16;
/// Interval of the check for a closed terminal.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Stage {
    app: App,
    terminal: Terminal,
    painter: Painter<Stdout>,
    messages: Mailbox,
    inputs: mpsc::Sender<Input>,
    /// Receives the events of the open list.
    picking: Option<mpsc::Sender<ListEvent>>,
    /// Receives the requested line; takes precedence over the list.
    asking: Option<oneshot::Sender<Option<String>>>,
    services: Option<Arc<ComposerServices>>,
    /// Actions requested before the services were ready.
    early: Vec<Action>,
    /// Replies of the services.
    replies: mpsc::Receiver<ServiceReply>,
    reply_sender: mpsc::Sender<ServiceReply>,
    painted: Option<Instant>,
    /// The size that commands were told.
    told_size: Option<TerminalSize>,
    /// Numbers operations.
    asked: u64,
    watch: TerminalWatch,
    /// The terminal was closed while another program used it; it must not be read any more.
    gone: bool,
}

/// The answer of a service.
enum ServiceReply {
    Candidates(Candidates),
    History(Vec<String>, Vec<String>),
    Clip(Mark, Clip),
}

/// The next step of the event loop.
enum Next {
    Nothing,
    /// Paint at the next frame.
    Soon,
    /// Paint at once, after key input.
    Now,
    End,
}

impl Stage {
    pub(crate) fn new(
        app: App,
        terminal: Terminal,
        options: ScreenOptions,
        messages: Mailbox,
        inputs: mpsc::Sender<Input>,
    ) -> Self {
        let (columns, _) = terminal.size();
        let painter = match options.alternate {
            true => Painter::whole(io::stdout(), columns, options.colours),
            false => Painter::new(io::stdout(), columns, options.colours),
        };
        let (reply_sender, replies) = mpsc::channel(REPLIES);
        Self {
            app,
            terminal,
            painter,
            messages,
            inputs,
            picking: None,
            asking: None,
            services: None,
            early: Vec::new(),
            replies,
            reply_sender,
            painted: None,
            told_size: None,
            asked: 0,
            watch: TerminalWatch::new(options),
            gone: false,
        }
    }

    pub(crate) fn run(mut self) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        // Paint the first frame before anything else.
        self.paint();
        self.watch.ask(self.painter.out());
        runtime.block_on(self.event_loop());
        self.save_unsent();
        let _ = self.painter.leave();
        if self.app.is_alternate() {
            self.terminal.suspend();
            let (columns, _) = self.terminal.size();
            let mut painter = Painter::new(io::stdout(), columns, self.watch.options.colours);
            let last = self.app.last_words(columns, Instant::now());
            let _ = painter.paint(&last).and_then(|()| painter.leave());
        }
    }

    async fn event_loop(&mut self) {
        let mut typed = Keyboard::open();
        let mut due: Option<Instant> = None;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.gone {
            let now = Instant::now();
            // A pending frame also covers later deadlines.
            let wake = due.or_else(|| self.app.deadline(now));
            let next = tokio::select! {
                biased;
                event = typed.next() => match event {
                    None | Some(Err(_)) => {
                        self.tell(Input::Gone);
                        Next::End
                    }
                    Some(Ok(first)) => {
                        let mut events = vec![first];
                        // Drain the other events of the same read. Polling the stream would keep the first waker.
                        while let Ok(true) = crossterm::event::poll(Duration::ZERO) {
                            events.extend(crossterm::event::read().ok());
                        }
                        self.typed(events, &mut typed)
                    }
                },
                message = self.messages.recv() => self.messages(message),
                reply = self.replies.recv() => {
                    for action in reply.map(|reply| self.service_reply(reply)).unwrap_or_default() {
                        self.act(action, &mut typed);
                    }
                    Next::Now
                }
                () = until(wake) => Next::Soon,
                _ = look.tick() => self.look_around(),
            };
            if self.services.is_some() && !matches!(next, Next::End) {
                for action in std::mem::take(&mut self.early) {
                    self.act(action, &mut typed);
                }
            }
            self.log_queued();
            let now = Instant::now();
            let last = self.painted.map_or(Duration::MAX, |painted| now.saturating_duration_since(painted));
            match next {
                Next::End => return,
                Next::Nothing => {}
                Next::Soon if last < FRAME => due = self.painted.map(|painted| painted + FRAME),
                Next::Soon | Next::Now => {
                    self.paint();
                    due = None;
                }
            }
        }
    }

    fn paint(&mut self) {
        let (columns, rows) = self.terminal.size();
        let now = Instant::now();
        let frame = self.app.frame(columns, rows, now);
        // A closed terminal is noticed where keys are read.
        let _ = self.painter.resize(columns).and_then(|()| self.painter.paint(&frame));
        self.watch.tell(&mut self.app, self.painter.out());
        self.painted = Some(now);
        let size = command_terminal(columns, rows);
        // The first size is told when a session is opened.
        if self.told_size.replace(size).is_some_and(|before| before != size) {
            self.ask("size", Op::SetTerminal(size));
        }
    }

    fn look_around(&mut self) -> Next {
        if self.watch.is_alone() {
            self.tell(Input::Gone);
            return Next::End;
        }
        self.watch.ask(self.painter.out());
        if self.watch.weigh(&mut self.app) { Next::Soon } else { Next::Nothing }
    }

    /// Handles all waiting messages.
    fn messages(&mut self, first: Option<Message>) -> Next {
        let mut message = first;
        loop {
            match message {
                None => return Next::End,
                Some(Message::End) => {
                    // Before the terminal is written to, which may be gone.
                    self.save_unsent();
                    self.app.end();
                    self.paint();
                    return Next::End;
                }
                Some(other) => self.message(other),
            }
            match self.messages.try_recv() {
                Some(another) => message = Some(another),
                None => return Next::Soon,
            }
        }
    }

    fn message(&mut self, message: Message) {
        let now = Instant::now();
        match message {
            Message::Event(event) => self.app.event(&event, now),
            Message::Say(item) => self.app.say(item),
            Message::Farewell(item) => self.app.farewell(item),
            Message::SignedIn(text) => self.app.signed_in(text),
            Message::TurnStarted(typed) => {
                let (text, shell) = match typed.strip_prefix('!') {
                    Some(command) => (command, true),
                    None => (typed.as_str(), false),
                };
                self.app.begin_turn(text, shell, now);
            }
            Message::AwaitPrompt => {
                self.app.rest();
                if let Some(queued) = self.app.take_queue() {
                    self.said(queued.text, queued.shell);
                }
            }
            Message::Ending => self.app.begin_end(),
            Message::Pick(picker, answer) => {
                self.app.pick(*picker);
                (self.picking, self.asking) = (Some(answer), None);
            }
            Message::Enter(entry, answer) => {
                self.app.enter(entry);
                self.asking = Some(answer);
            }
            Message::Preview(key, lines) => {
                if let Some(picker) = self.app.picker() {
                    picker.set_preview(&key, lines);
                }
            }
            Message::Hits(words, hits) => {
                if let Some(picker) = self.app.picker() {
                    picker.set_hits(&words, hits);
                }
            }
            Message::CloseList => {
                self.app.close();
                (self.picking, self.asking) = (None, None);
            }
            Message::Clear => self.clear(),
            Message::ShellOutput(text) => self.app.shell_output(&text),
            Message::ShellEnded(said) => self.app.shell_ended(said.as_deref(), now),
            Message::Footer(footer) => self.app.footer = *footer,
            Message::Facts(facts) => self.app.set_facts(*facts),
            Message::Paths(paths) => self.app.set_paths(*paths),
            Message::Settings(settings) => self.app.set_settings(*settings),
            Message::Theme(theme) => self.app.set_theme(*theme),
            Message::Vim(on) => self.app.set_vim(on),
            Message::Text(text) => self.app.suggest(&text),
            Message::History(prompts) => self.app.add_history(prompts, Vec::new()),
            Message::Services(services) => self.set_services(services),
            Message::Sequence(sequence) => {
                use io::Write as _;
                let _ = self.painter.out().write_all(sequence.as_bytes());
                let _ = self.painter.out().flush();
            }
            Message::End => {}
        }
    }

    /// Logs prompts that wait, on another thread: a busy disk must not stop the screen.
    fn log_queued(&mut self) {
        let Some(services) = self.services.clone() else { return };
        let queued = self.app.take_unlogged();
        if queued.is_empty() {
            return;
        }
        services.add_queued(queued);
        let logging = Arc::clone(&services);
        if !self.in_background(move |_| logging.log_queued()) {
            services.log_queued();
        }
    }

    /// Saves what was not sent, and says so at the end.
    fn save_unsent(&mut self) {
        for unsent in self.app.take_unsent() {
            let services = self.services.as_ref();
            let is_saved = services.is_some_and(|services| services.save_unsent(&unsent.text, unsent.shell));
            self.app.farewell(Item::info(unsent.not_sent(is_saved)));
        }
    }

    /// Scrolls the screen's content into the scrollback.
    fn clear(&mut self) {
        use io::Write as _;
        // The last output belongs into the scrollback.
        self.paint();
        let _ = self.painter.forget();
        let (columns, rows) = self.terminal.size();
        let away = "\n".repeat(usize::from(rows)) + "\x1b[H";
        let _ = self.painter.out().write_all(away.as_bytes());
        self.painter.begin_anew(columns);
        self.app.clear();
    }

    fn set_services(&mut self, services: Arc<ComposerServices>) {
        self.services = Some(Arc::clone(&services));
        self.in_background(move |reply| {
            let (prompts, commands) = services.history();
            reply(ServiceReply::History(prompts, commands));
        });
    }

    /// Runs a service on a thread of its own; false if there is no thread for it.
    fn in_background(&self, work: impl FnOnce(&dyn Fn(ServiceReply)) + Send + 'static) -> bool {
        let sender = self.reply_sender.clone();
        // A full channel blocks the service.
        let reply = move |reply| drop(sender.blocking_send(reply));
        std::thread::Builder::new().name("services".to_owned()).spawn(move || work(&reply)).is_ok()
    }

    fn service_reply(&mut self, reply: ServiceReply) -> Vec<Action> {
        let now = Instant::now();
        match reply {
            ServiceReply::Candidates(candidates) => self.app.candidates(candidates),
            ServiceReply::History(prompts, commands) => self.app.add_history(prompts, commands),
            ServiceReply::Clip(place, Clip::Picture(path)) => return self.app.paste_image(&path, place, now),
            ServiceReply::Clip(place, Clip::Text(text)) => return self.app.paste_text(&text, place, now),
            ServiceReply::Clip(place, Clip::Nothing(why)) => self.app.paste_failed(&why, place, now),
        }
        Vec::new()
    }

    fn typed(&mut self, events: Vec<Typed>, keyboard: &mut Keyboard) -> Next {
        let now = Instant::now();
        let mut keys: Vec<KeyEvent> = Vec::new();
        let mut actions = Vec::new();
        let mut is_input = false;
        for event in events {
            if let Typed::Key(key) = event {
                keys.push(key);
                continue;
            }
            let before = self.watch.hear(std::mem::take(&mut keys), &mut self.app);
            is_input |= before.iter().any(is_press);
            actions.extend(self.app.keys(&before, now));
            match event {
                Typed::Paste(text) => {
                    is_input = true;
                    self.app.set_pastes(Pastes::Marked);
                    let services = self.services.clone();
                    let exists =
                        move |path: &str| services.as_ref().is_some_and(|services| services.exists(path));
                    actions.extend(self.app.paste(&text, now, &exists));
                }
                Typed::FocusGained => self.app.set_focused(true),
                Typed::FocusLost => self.app.set_focused(false),
                Typed::Mouse(mouse) => self.app.mouse(mouse),
                Typed::Resize(..) => terminal_watch::announce_keys(),
                Typed::Key(_) => {}
            }
        }
        let keys = self.watch.hear(keys, &mut self.app);
        is_input |= keys.iter().any(is_press);
        actions.extend(self.app.keys(&keys, now));
        // Most keys need no action, but each may give up a waiting editor, as Ctrl+C does. A completion is requested again
        // with each key.
        if is_input {
            self.early.retain(is_paste);
        }
        for action in actions {
            self.act(action, keyboard);
        }
        Next::Now
    }

    fn did(&self, event: ListEvent) {
        let Some(picking) = &self.picking else { return };
        // Old marks can be dropped; choices use the reserved capacity.
        let is_choice = matches!(event, ListEvent::Chosen(_));
        if is_choice || picking.capacity() > RESERVED {
            let _ = picking.try_send(event);
        }
    }

    /// Sends input to the conversation. A prompt that does not fit goes back into the composer.
    fn tell(&mut self, input: Input) {
        let full = match input {
            Input::Said(_) | Input::Mode(_) => self.inputs.capacity() <= RESERVED,
            _ => false,
        };
        match input {
            Input::Said(text) if full => {
                self.give_back(&text);
                self.app.toast("Too many queued prompts; this one was not sent.", Instant::now());
            }
            Input::Mode(_) if full => {}
            input => {
                // The conversation has ended, and what was not sent is saved.
                if let Err(TrySendError::Closed(Input::Said(text))) = self.inputs.try_send(input) {
                    self.give_back(&text);
                }
            }
        }
    }

    fn give_back(&mut self, text: &str) {
        let Submission { text, shell, .. } = Submission::typed(text);
        self.app.give_back(&text, shell);
    }

    /// Sends an operation whose result nobody waits for.
    fn ask(&mut self, name: &str, op: Op) {
        self.asked += 1;
        let id = RequestId::new(format!("{name}-{}", self.asked));
        self.tell(Input::Ask(id, op));
    }

    fn said(&mut self, text: String, shell: bool) {
        let text = if shell { format!("!{text}") } else { text };
        self.tell(Input::Said(text));
    }

    fn act(&mut self, action: Action, keyboard: &mut Keyboard) {
        let needs_services =
            matches!(action, Action::Complete(_) | Action::PasteClipboard(_) | Action::OpenEditor);
        if needs_services && self.services.is_none() {
            self.early.retain(|other| is_paste(other) || discriminant(other) != discriminant(&action));
            self.early.push(action);
            return;
        }
        // Any other action cancels the waiting ones.
        if !needs_services {
            self.early.retain(is_paste);
        }
        match action {
            Action::Submit { text, shell } => self.said(text, shell),
            Action::Steer { id, text } => self.tell(Input::Steer(id, text)),
            Action::Withdraw(prompt) => {
                let id = RequestId::new(format!("withdraw-{prompt}"));
                self.tell(Input::Ask(id, Op::Withdraw { prompt }));
            }
            Action::Type { call, input } => self.ask("type", Op::Type { call, input }),
            Action::MoveToBackground(call) => self.ask("background", Op::MoveToBackground { call }),
            Action::Cancel => self.tell(Input::Interrupt),
            Action::Decide { call, answer } => self.tell(Input::Decide { call, answer }),
            Action::SetMode(mode) => self.tell(Input::Mode(mode)),
            Action::Rewind => self.said("/rewind".to_owned(), false),
            Action::Quit => self.tell(Input::Leave),
            Action::Detach => self.tell(Input::Detach),
            Action::Complete(wanted) => {
                if let Some(services) = self.services.clone() {
                    self.in_background(move |reply| {
                        services.complete(&wanted, &mut |items, note| {
                            reply(ServiceReply::Candidates(Candidates { id: wanted.id, items, note }));
                        });
                    });
                }
            }
            Action::PasteClipboard(place) => {
                if let Some(services) = self.services.clone() {
                    let read = move |reply: &dyn Fn(ServiceReply)| {
                        reply(ServiceReply::Clip(place, services.clipboard()));
                    };
                    if !self.in_background(read) {
                        let why = "Cannot read the clipboard: could not start a thread.";
                        self.app.paste_failed(why, place, Instant::now());
                    }
                }
            }
            Action::OpenEditor => {
                if let Some(changed) = self.edited(&self.app.composed(), "prompt.md", keyboard) {
                    self.app.set_text(changed.trim_end_matches('\n'));
                }
            }
            Action::EditCall(call) => {
                let Some(request) = self.app.request(&call).cloned() else { return };
                let Some((text, name)) = edit_call::editable(&request) else { return };
                if let Some(changed) = self.edited(&text, &name, keyboard)
                    && let Some(args) = edit_call::changed(&request, &changed)
                {
                    self.app.settle(&call);
                    self.tell(Input::Decide { call, answer: ApprovalAnswer::Edited(args) });
                }
            }
            Action::Picked { key, with } => {
                self.did(ListEvent::Chosen(Chosen { key, action: with.map(list_key) }))
            }
            Action::Marked(key) => self.did(ListEvent::Marked(key)),
            Action::Searched(words) => self.did(ListEvent::Searched(words)),
            Action::Entered(text) => {
                if let Some(answer) = self.asking.take() {
                    let _ = answer.send(Some(text));
                }
            }
            // Dropping the sender reports the cancellation.
            Action::Closed => match self.asking.take() {
                Some(_) => {}
                None => self.picking = None,
            },
            Action::Redraw => drop(self.painter.clear()),
            Action::ToggleMouse => self.watch.toggle_mouse(self.painter.out()),
            Action::Suspend => self.lend(keyboard, terminal_watch::pause),
        }
    }

    /// Lends the terminal to another program.
    fn lend<T>(&mut self, keyboard: &mut Keyboard, work: impl FnOnce() -> T) -> T {
        let _ = self.painter.forget();
        self.terminal.suspend();
        // The other program must get all input.
        keyboard.release();
        let done = work();
        // Keys typed there must not answer a question here.
        self.app.touched(Instant::now());
        if self.watch.is_alone() {
            self.tell(Input::Gone);
            self.gone = true;
            return done;
        }
        let _ = self.terminal.resume();
        let (columns, _) = self.terminal.size();
        self.painter.begin_anew(columns);
        done
    }

    fn edited(&mut self, text: &str, name: &str, keyboard: &mut Keyboard) -> Option<String> {
        let services = self.services.clone()?;
        match self.lend(keyboard, || services.edit(text, name)) {
            Ok(changed) => Some(changed),
            Err(problem) => {
                self.app.say(Item::error(problem));
                None
            }
        }
    }
}

impl Drop for Stage {
    /// After a panic, the prompts are still there.
    fn drop(&mut self) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.save_unsent()));
    }
}

/// Whether an action pastes. A paste remains pending whatever is typed next.
fn is_paste(action: &Action) -> bool {
    matches!(action, Action::PasteClipboard(_))
}

fn is_press(key: &KeyEvent) -> bool {
    key.kind != KeyEventKind::Release
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}
