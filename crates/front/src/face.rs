//! What a conversation needs of whoever shows it: one interface for the screen and for plain lines.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::approval::{Answer, ApprovalRequest};
use pollux_domain::event::{Event, Severity, TurnEnd};
use pollux_domain::exit::Received;
use pollux_domain::terminal_text::plain;
use pollux_host::Said;
use pollux_output::Console;
use pollux_tui::transcript::{Item, Panel};

use super::choice::{Choice, Chosen, ListEvent};
use super::input::Input;
use super::lines::{self, Lines, show};
use super::screen::{Message, Screen, footer};
use crate::signals::Signals;

/// How long a conversation may take to end when the terminal is gone or the machine goes down.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// Who shows a conversation and hears the person.
pub(super) struct Face {
    pub(super) kind: Kind,
    signals: Signals,
    /// The signal that ends it all.
    pub(super) ended_by: Option<Received>,
    /// When it must be over then.
    deadline: Option<Instant>,
}

pub(super) enum Kind {
    Lines(Box<Lines>),
    Screen(Box<Screen>),
}

impl Face {
    pub(super) fn new(kind: Kind, signals: Signals) -> Self {
        Self { kind, signals, ended_by: None, deadline: None }
    }

    pub(super) fn is_screen(&self) -> bool {
        matches!(self.kind, Kind::Screen(_))
    }

    /// What is exported goes through it.
    pub(super) fn console(&mut self) -> &mut Console {
        match &mut self.kind {
            Kind::Lines(lines) => &mut lines.console,
            Kind::Screen(screen) => &mut screen.console,
        }
    }

    /// A text for the person.
    pub(super) fn note(&mut self, text: &str) {
        match &mut self.kind {
            Kind::Lines(lines) => lines.console.note(text),
            Kind::Screen(screen) => screen.say(Item::info(text)),
        }
    }

    /// Figures.
    pub(super) fn panel(&mut self, panel: Panel) {
        match &mut self.kind {
            Kind::Lines(lines) => panel.words().iter().for_each(|line| lines.console.note(line)),
            Kind::Screen(screen) => screen.say(Item::Panel(Box::new(panel))),
        }
    }

    /// Something for the end, when the conversation has left the screen.
    pub(super) fn farewell(&mut self, item: Item) {
        match (&mut self.kind, item) {
            (Kind::Screen(screen), item) => screen.tell(Message::Farewell(item)),
            (Kind::Lines(lines), Item::Panel(panel)) => {
                panel.words().iter().for_each(|line| lines.console.note(line));
            }
            (Kind::Lines(lines), Item::Info(text)) => lines.console.note(&text),
            (Kind::Lines(_), _) => {}
        }
    }

    /// A text about something that went wrong.
    pub(super) fn complain(&mut self, text: &str) {
        match &mut self.kind {
            Kind::Lines(lines) => lines.console.note(text),
            Kind::Screen(screen) => screen.say(Item::error(text)),
        }
    }

    /// An empty screen to begin anew; what stood there can be scrolled to.
    pub(super) fn clear(&mut self) {
        if let Kind::Screen(screen) = &mut self.kind {
            screen.tell(Message::Clear);
        }
    }

    /// A text that the person may change and send.
    pub(super) fn suggest(&mut self, text: &str) {
        if let Kind::Screen(screen) = &mut self.kind {
            screen.tell(Message::Text(text.to_owned()));
        }
    }

    /// A sequence for the terminal that moves nothing.
    pub(super) fn sequence(&mut self, sequence: &str) {
        match &mut self.kind {
            Kind::Lines(_) => show(sequence),
            Kind::Screen(screen) => screen.tell(Message::Sequence(sequence.to_owned())),
        }
    }

    /// What was said before, and how much of it is not shown.
    pub(super) fn remember(&mut self, said: Vec<Said>, above: usize) {
        if above > 0 {
            self.note(&format!(
                "{above} earlier messages are not shown; `pollux sessions show` has all of them."
            ));
        }
        if let Kind::Screen(screen) = &self.kind {
            let prompts = said.iter().filter_map(|said| match said {
                Said::Prompt(text) => Some(text.clone()),
                _ => None,
            });
            screen.tell(Message::Past(prompts.collect()));
        }
        for said in said {
            match &mut self.kind {
                Kind::Lines(_) => show(&lines::said(&said)),
                Kind::Screen(screen) => screen.say(item(said)),
            }
        }
    }

    /// What a session tells.
    pub(super) fn event(&mut self, event: &Event) {
        match &mut self.kind {
            Kind::Lines(lines) => lines.event(event),
            Kind::Screen(screen) => screen.event(event),
        }
    }

    /// A turn begins with what was typed.
    pub(super) fn begin(&mut self, typed: &str) {
        if let Kind::Screen(screen) = &mut self.kind {
            screen.begin(typed);
        }
    }

    /// What can be named in a prompt from now on.
    pub(super) fn offer(&self, conversation: &pollux_host::Conversation, loaded: &pollux_host::Loaded) {
        if let Kind::Screen(screen) = &self.kind
            && let Some(desk) = &screen.desk
        {
            desk.set_offers(conversation.offers(loaded));
        }
    }

    /// Another sandbox is in force.
    pub(super) fn confined(&mut self, turn: &pollux_host::Prepared<'_>, model: &str) {
        let in_force = turn.sandbox.in_force(&turn.loaded.env);
        match &mut self.kind {
            Kind::Lines(lines) => lines.sandbox = in_force.name(),
            Kind::Screen(screen) => {
                screen.tell(Message::Footer(Box::new(footer(turn.loaded, model, Some(&in_force)))));
            }
        }
    }

    /// A turn is over.
    pub(super) fn over(&mut self, end: &TurnEnd) {
        if let Kind::Lines(lines) = &mut self.kind {
            lines.over(end);
        }
    }

    /// The next prompt is awaited.
    pub(super) fn ready(&mut self) {
        match &mut self.kind {
            Kind::Lines(lines) => lines.ready(),
            Kind::Screen(screen) => screen.ready(),
        }
    }

    /// A prompt that somebody gave already.
    pub(super) fn say_first(&mut self, prompt: String) {
        match &mut self.kind {
            Kind::Lines(lines) => lines.ahead.push_back(prompt),
            Kind::Screen(screen) => screen.pending.push_back(Input::Said(prompt)),
        }
    }

    /// What the person does next. Nothing is lost when this is dropped half-way.
    pub(super) async fn input(&mut self) -> Input {
        if self.ended_by.is_some() {
            return Input::Leave;
        }
        let Self { kind, signals, .. } = self;
        let input = tokio::select! {
            biased;
            received = signals.next() => Err(received),
            input = async {
                match kind {
                    Kind::Lines(lines) => lines.input().await,
                    Kind::Screen(screen) => screen.input().await,
                }
            } => Ok(input),
        };
        match input {
            Ok(Input::Gone) => self.signalled(Received::HangUp),
            Ok(input) => input,
            Err(received) => self.signalled(received),
        }
    }

    /// Waits until nobody may be kept waiting any more, which is never unless a signal came.
    pub(super) fn time_is_up(&self) -> impl Future<Output = ()> + use<> {
        let deadline = self.deadline;
        async move {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        }
    }

    /// A signal that is no interrupt ends everything, whoever waits for what.
    fn signalled(&mut self, received: Received) -> Input {
        if received == Received::Interrupt {
            return Input::Interrupt;
        }
        self.ended_by = Some(received);
        self.deadline = Some(Instant::now() + LAST_WORDS);
        Input::Leave
    }

    /// A question's answer; `None` when it was left, or there is nobody any more.
    async fn answer<T>(&mut self, asked: impl AsyncFnOnce(&mut Kind) -> Option<T>) -> Option<T> {
        if self.ended_by.is_some() {
            return None;
        }
        let Self { kind, signals, .. } = self;
        let answer = tokio::select! {
            biased;
            received = signals.next() => Err(received),
            answer = asked(kind) => Ok(answer),
        };
        match answer {
            Ok(answer) => answer,
            Err(received) => {
                self.signalled(received);
                None
            }
        }
    }

    /// Waits until the person wants what runs to stop; what else is typed meanwhile waits for its turn.
    pub(super) async fn interrupted(&mut self) {
        loop {
            match self.input().await {
                Input::Interrupt => return,
                Input::Leave | Input::Gone => {
                    self.put_back(Input::Leave);
                    return;
                }
                Input::Decide { .. } => {}
                other => self.put_back(other),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until somebody who is leaving presses once more. The end of the input is no such wish.
    pub(super) async fn hurried(&mut self) {
        loop {
            match self.input().await {
                Input::Interrupt => return,
                Input::Leave | Input::Gone if self.is_screen() => return,
                Input::Leave | Input::Gone => std::future::pending().await,
                Input::Said(_) | Input::Decide { .. } | Input::Mode(_) => {}
            }
        }
    }

    /// It is taken when the next prompt is awaited.
    pub(super) fn put_back(&mut self, input: Input) {
        match (&mut self.kind, input) {
            (Kind::Screen(screen), input) => screen.later.push_back(input),
            (Kind::Lines(lines), Input::Said(text)) => lines.later.push_back(text),
            (Kind::Lines(lines), Input::Leave) => lines.leaving = true,
            (Kind::Lines(_), _) => {}
        }
    }

    /// A line that the person types; `None` when they leave the question.
    pub(super) async fn line(&mut self, question: &str) -> Option<String> {
        self.entry(question, false).await
    }

    /// The same for what nobody should read over their shoulder.
    pub(super) async fn secret(&mut self, question: &str) -> Option<String> {
        self.entry(question, true).await
    }

    async fn entry(&mut self, question: &str, secret: bool) -> Option<String> {
        self.answer(async |kind| match kind {
            Kind::Lines(lines) => lines.line(question, secret).await,
            Kind::Screen(screen) => screen.line(question, secret).await,
        })
        .await
    }

    /// Only a clear yes is one.
    pub(super) async fn agrees(&mut self, question: &str) -> bool {
        match &mut self.kind {
            Kind::Lines(_) => {
                let answer = self.line(&format!("{question} (yes or no): ")).await.unwrap_or_default();
                matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
            }
            Kind::Screen(_) => {
                let choice = Choice::of(question, [("yes", "Yes"), ("no", "No")]);
                self.choose(choice).await.is_some_and(|chosen| chosen.key == "yes")
            }
        }
    }

    /// One of several; `None` when the person leaves. After a letter the list stays until it is asked for again or
    /// [`Face::close`]d.
    pub(super) async fn choose(&mut self, choice: Choice) -> Option<Chosen> {
        self.present(choice);
        loop {
            if let ListEvent::Chosen(chosen) = self.list_event().await? {
                return Some(chosen);
            }
        }
    }

    /// Shows a list, or what became of it.
    pub(super) fn present(&mut self, choice: Choice) {
        match &mut self.kind {
            Kind::Lines(lines) => lines.presented = Some(choice),
            Kind::Screen(screen) => screen.present(choice),
        }
    }

    /// What the person does with the list; `None` when they leave it. Where it is a screen, nothing is lost when this
    /// is dropped half-way.
    pub(super) async fn list_event(&mut self) -> Option<ListEvent> {
        self.answer(async |kind| match kind {
            Kind::Lines(lines) => lines.choose().await.map(ListEvent::Chosen),
            Kind::Screen(screen) => screen.list_event().await,
        })
        .await
    }

    /// The screen, where there is one.
    pub(super) fn screen(&self) -> Option<&Screen> {
        match &self.kind {
            Kind::Lines(_) => None,
            Kind::Screen(screen) => Some(screen),
        }
    }

    /// Takes a list away that stayed after a letter.
    pub(super) fn close(&mut self) {
        if let Kind::Screen(screen) = &mut self.kind {
            screen.close();
        }
    }

    /// Asks about a call; `None` where the answer comes as [`Input::Decide`].
    pub(super) async fn ask(&mut self, request: &Arc<ApprovalRequest>) -> Option<Answer> {
        if self.is_screen() {
            return None;
        }
        let answer = self.answer(async |kind| match kind {
            Kind::Lines(lines) => Some(lines.ask(request).await),
            Kind::Screen(_) => None,
        });
        Some(answer.await.unwrap_or(Answer::Cancel))
    }

    /// A person's own command begins; what it prints goes to the result.
    pub(super) fn begin_shell(&mut self, command: &str) -> Box<dyn Fn(&str) + Send + Sync> {
        match &mut self.kind {
            Kind::Lines(_) => Box::new(|text: &str| show(&plain(text))),
            Kind::Screen(screen) => screen.begin_shell(command),
        }
    }

    /// It is over; a line about how, unless it went well.
    pub(super) fn end_shell(&mut self, said: Option<&str>) {
        match &mut self.kind {
            Kind::Lines(lines) => said.into_iter().for_each(|line| lines.console.note(line)),
            Kind::Screen(screen) => screen.end_shell(said),
        }
    }

    /// Whether nobody sees it any more.
    pub(super) fn is_broken(&self) -> bool {
        match &self.kind {
            Kind::Lines(lines) => lines.console.is_broken(),
            Kind::Screen(_) => false,
        }
    }
}

fn item(said: Said) -> Item {
    match said {
        Said::Prompt(text) => Item::Prompt(text),
        Said::Answer(text) => Item::Answer { text, goes_on: false },
        Said::Call { name, about, went_well } => Item::Call { name, about, went_well },
        Said::Note(Severity::Info, text) => Item::info(text),
        Said::Note(Severity::Warning, text) => Item::warning(text),
        Said::Note(Severity::Error, text) => Item::error(text),
    }
}
