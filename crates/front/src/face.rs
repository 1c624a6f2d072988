//! The front end of a conversation together with the signals that may end it: no question outlasts them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::approval::{Answer, ApprovalMode, ApprovalRequest};
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::failure::Failure;
use pollux_domain::panel::Panel;
use pollux_host::{Conversation, Loaded, Prepared, Said};
use pollux_output::Console;
use pollux_tui::app::Facts;
use pollux_tui::theme::Theme;
use pollux_tui::transcript::Item;

use super::choice::{Choice, Chosen, ListEvent};
use super::front_end::FrontEnd;
use super::input::Input;
use crate::signals::Signals;

/// How long a conversation may take to end when the terminal is gone or the machine goes down.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// Who shows a conversation and hears the person.
pub(super) struct Face {
    front_end: Box<dyn FrontEnd>,
    signals: Signals,
    /// The signal that ends it all.
    pub(super) ended_by: Option<Received>,
    /// When it must be over then.
    deadline: Option<Instant>,
}

/// What the person is asked and does: a signal is heard whoever waits for what.
impl Face {
    pub(super) fn new(front_end: Box<dyn FrontEnd>, signals: Signals) -> Self {
        Self { front_end, signals, ended_by: None, deadline: None }
    }

    /// What the person does next. Nothing is lost when this is dropped half-way.
    pub(super) async fn input(&mut self) -> Input {
        if self.ended_by.is_some() {
            return Input::Leave;
        }
        match unless_signalled(&mut self.signals, self.front_end.input()).await {
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
    async fn answer<T>(&mut self, asked: impl AsyncFnOnce(&mut dyn FrontEnd) -> Option<T>) -> Option<T> {
        if self.ended_by.is_some() {
            return None;
        }
        match unless_signalled(&mut self.signals, asked(self.front_end.as_mut())).await {
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

    /// A line that the person types; `None` when they leave the question.
    pub(super) async fn line(&mut self, question: &str) -> Option<String> {
        self.answer(async |front_end| front_end.entry(question, false).await).await
    }

    /// The same for what nobody should read over their shoulder.
    pub(super) async fn secret(&mut self, question: &str) -> Option<String> {
        self.answer(async |front_end| front_end.entry(question, true).await).await
    }

    /// Only a clear yes is one.
    pub(super) async fn agrees(&mut self, question: &str) -> bool {
        let answer = self.answer(async |front_end| Some(front_end.agrees(question).await));
        answer.await.unwrap_or(false)
    }

    /// One of several; `None` when the person leaves. After a letter the list stays until it is asked for again or
    /// [`Face::close`]d.
    pub(super) async fn choose(&mut self, choice: Choice) -> Option<Chosen> {
        self.answer(async |front_end| front_end.choose(choice).await).await
    }

    /// What the person does with the list; `None` when they leave it. Where it is a screen, nothing is lost when this
    /// is dropped half-way.
    pub(super) async fn list_event(&mut self) -> Option<ListEvent> {
        self.answer(async |front_end| front_end.list_event().await).await
    }

    /// Asks about a call; `None` where the answer comes as [`Input::Decide`].
    pub(super) async fn ask(&mut self, request: &Arc<ApprovalRequest>) -> Option<Answer> {
        let asked = self.front_end.ask(request)?;
        if self.ended_by.is_some() {
            return Some(Answer::Cancel);
        }
        match unless_signalled(&mut self.signals, asked).await {
            Ok(answer) => Some(answer),
            Err(received) => {
                self.signalled(received);
                Some(Answer::Cancel)
            }
        }
    }

    /// Gives the terminal back, and says how it ended.
    pub(super) fn leave(self, ended: Result<(), Failure>) -> ExitKind {
        let exit = self.front_end.leave(self.ended_by.is_some(), ended);
        self.ended_by.map_or(exit, Received::exit)
    }
}

/// What is shown, as [`FrontEnd`] tells.
impl Face {
    pub(super) fn is_screen(&self) -> bool {
        self.front_end.is_screen()
    }

    pub(super) fn console(&mut self) -> &mut Console {
        self.front_end.console()
    }

    pub(super) fn greet(&mut self, turn: &Prepared<'_>, mode: ApprovalMode) {
        self.front_end.greet(turn, mode);
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.front_end.event(event);
    }

    pub(super) fn note(&mut self, text: &str) {
        self.front_end.note(text);
    }

    pub(super) fn complain(&mut self, text: &str) {
        self.front_end.complain(text);
    }

    pub(super) fn panel(&mut self, panel: Panel) {
        self.front_end.panel(panel);
    }

    pub(super) fn farewell(&mut self, item: Item) {
        self.front_end.farewell(item);
    }

    /// What was said before, and how much of it is not shown.
    pub(super) fn remember(&mut self, said: Vec<Said>, above: usize) {
        if above > 0 {
            self.note(&format!(
                "{above} earlier messages are not shown; `pollux sessions show` has all of them."
            ));
        }
        self.front_end.remember(said);
    }

    pub(super) fn clear(&mut self) {
        self.front_end.clear();
    }

    pub(super) fn suggest(&mut self, text: &str) {
        self.front_end.suggest(text);
    }

    pub(super) fn sequence(&mut self, sequence: &str) {
        self.front_end.sequence(sequence);
    }

    pub(super) fn begin(&mut self, typed: &str) {
        self.front_end.begin(typed);
    }

    pub(super) fn over(&mut self, end: &TurnEnd) {
        self.front_end.over(end);
    }

    pub(super) fn ready(&mut self) {
        self.front_end.ready();
    }

    pub(super) fn offer(&mut self, conversation: &Conversation, loaded: &Loaded) {
        self.front_end.offer(conversation, loaded);
    }

    pub(super) fn show_facts(&mut self, facts: Facts) {
        self.front_end.show_facts(facts);
    }

    pub(super) fn confined(&mut self, turn: &Prepared<'_>, model: &str) {
        self.front_end.confined(turn, model);
    }

    pub(super) fn look_anew(&mut self, turn: &Prepared<'_>, model: &str) {
        self.front_end.look_anew(turn, model);
    }

    pub(super) fn show_theme(&mut self, theme: &Theme) {
        self.front_end.show_theme(theme);
    }

    pub(super) fn set_vim(&mut self, on: bool) {
        self.front_end.set_vim(on);
    }

    pub(super) fn prefer_editor(&mut self, id: Option<&str>) {
        self.front_end.prefer_editor(id);
    }

    pub(super) fn begin_shell(&mut self, command: &str) -> Box<dyn Fn(&str) + Send + Sync> {
        self.front_end.begin_shell(command)
    }

    pub(super) fn end_shell(&mut self, said: Option<&str>) {
        self.front_end.end_shell(said);
    }

    pub(super) fn say_first(&mut self, prompt: String) {
        self.front_end.say_first(prompt);
    }

    pub(super) fn put_back(&mut self, input: Input) {
        self.front_end.put_back(input);
    }

    pub(super) fn present(&mut self, choice: Choice) {
        self.front_end.present(choice);
    }

    pub(super) fn show_preview(&mut self, key: String, lines: Vec<String>) {
        self.front_end.show_preview(key, lines);
    }

    pub(super) fn show_hits(&mut self, words: String, hits: Vec<(String, String)>) {
        self.front_end.show_hits(words, hits);
    }

    pub(super) fn close(&mut self) {
        self.front_end.close();
    }

    pub(super) fn is_broken(&self) -> bool {
        self.front_end.is_broken()
    }
}

/// What is awaited, unless a signal comes first.
async fn unless_signalled<T>(signals: &mut Signals, awaited: impl Future<Output = T>) -> Result<T, Received> {
    tokio::select! {
        biased;
        received = signals.next() => Err(received),
        awaited = awaited => Ok(awaited),
    }
}

#[cfg(test)]
mod tests;
