//! The front end of a conversation and the signals that can end it.
//!
//! The flow and the commands use [`UserInterface`] and never a [`FrontEnd`] directly, so that a signal ends every question.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, ApprovalRequest};
use pollux_domain::event::{Event, Op, RequestId, TurnEnd};
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::failure::Failure;
use pollux_domain::panel::Panel;
use pollux_domain::terminal_screen::TerminalSize;
use pollux_host::{Conversation, HistoryItem, Loaded, Prepared};
use pollux_output::Console;

use super::choice::{Choice, Chosen, ListEvent};
use super::front_end::{Farewell, FrontEnd, SessionFacts};
use super::input::Input;
use crate::signals::Signals;

/// Time to end a conversation after the terminal is gone or the machine shuts down, long enough for a busy machine to
/// record a cancelled turn.
const SHUTDOWN_TIME: Duration = Duration::from_secs(5);

/// A front end whose questions end with a signal.
pub(super) struct UserInterface {
    front_end: Box<dyn FrontEnd>,
    signals: Signals,
    /// The signal that ends the conversation.
    pub(super) ended_by: Option<Received>,
    /// When it must have ended then.
    deadline: Option<Instant>,
}

/// Input and questions, all of which a signal ends.
impl UserInterface {
    pub(super) fn new(front_end: Box<dyn FrontEnd>, signals: Signals) -> Self {
        Self { front_end, signals, ended_by: None, deadline: None }
    }

    /// The next input. Dropping the future loses nothing.
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

    /// Waits for the deadline that a signal set; forever without one.
    pub(super) fn deadline_passed(&self) -> impl Future<Output = ()> + use<> {
        let deadline = self.deadline;
        async move {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Turns a signal into input; all but an interrupt end the conversation.
    fn signalled(&mut self, received: Received) -> Input {
        if received == Received::Interrupt {
            return Input::Interrupt;
        }
        self.ended_by = Some(received);
        self.deadline = Some(Instant::now() + SHUTDOWN_TIME);
        Input::Leave
    }

    /// The answer to a question; `None` when the person cancels it or the conversation is ending.
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

    /// Waits until the person interrupts; other input is deferred.
    pub(super) async fn interrupted(&mut self) {
        while let Some((id, op)) = self.input_to_command().await {
            self.defer(Input::Ask(id, op));
        }
    }

    /// Waits until the person does something to the running command, or interrupts it (`None`); other input is
    /// deferred.
    pub(super) async fn input_to_command(&mut self) -> Option<(RequestId, Op)> {
        loop {
            match self.input().await {
                Input::Interrupt => return None,
                Input::Leave | Input::Gone => {
                    self.defer(Input::Leave);
                    return None;
                }
                Input::Decide { .. } => {}
                Input::Ask(id, op @ (Op::Type { .. } | Op::MoveToBackground { .. } | Op::SetTerminal(_))) => {
                    return Some((id, op));
                }
                other => self.defer(other),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until a person who is leaving interrupts again. End of input does not count, and what is said meanwhile
    /// waits for the next session.
    pub(super) async fn cancel_requested(&mut self) {
        loop {
            match self.input().await {
                Input::Interrupt => return,
                Input::Leave | Input::Gone if self.is_screen() => return,
                Input::Leave | Input::Gone => std::future::pending().await,
                Input::Steer(..) | Input::Detach | Input::Decide { .. } => {}
                other @ (Input::Said(_)
                | Input::Prompt(_)
                | Input::Queue(..)
                | Input::Ask(..)
                | Input::Mode(_)) => self.defer(other),
            }
        }
    }

    /// Asks for a line of text; `None` when the person cancels.
    pub(super) async fn ask_line(&mut self, question: &str) -> Option<String> {
        self.answer(async |front_end| front_end.ask_line(question, false).await).await
    }

    /// Asks for a line of text that is not echoed.
    pub(super) async fn ask_secret(&mut self, question: &str) -> Option<String> {
        self.answer(async |front_end| front_end.ask_line(question, true).await).await
    }

    /// Asks yes or no. Anything but `y` or `yes` means no.
    pub(super) async fn confirm(&mut self, question: &str) -> bool {
        let answer = self.answer(async |front_end| Some(front_end.confirm(question).await));
        answer.await.unwrap_or(false)
    }

    /// Asks for one of several; `None` when the person cancels. A list that stays open must be closed with
    /// [`UserInterface::close_list`].
    pub(super) async fn choose(&mut self, choice: Choice) -> Option<Chosen> {
        self.answer(async |front_end| front_end.choose(choice).await).await
    }

    /// The next thing done with the list; `None` when the person closes it. On a screen, dropping the future loses
    /// nothing.
    pub(super) async fn list_event(&mut self) -> Option<ListEvent> {
        self.answer(async |front_end| front_end.list_event().await).await
    }

    /// Asks for an approval; `None` where the answer comes as [`Input::Decide`].
    pub(super) async fn ask_approval(&mut self, request: &Arc<ApprovalRequest>) -> Option<ApprovalAnswer> {
        let asked = self.front_end.ask_approval(request)?;
        if self.ended_by.is_some() {
            return Some(ApprovalAnswer::Cancel);
        }
        match unless_signalled(&mut self.signals, asked).await {
            Ok(answer) => Some(answer),
            Err(received) => {
                self.signalled(received);
                Some(ApprovalAnswer::Cancel)
            }
        }
    }

    /// Gives the terminal back and returns the exit code.
    pub(super) fn leave(self, ended: Result<(), Failure>) -> ExitKind {
        let exit = self.front_end.leave(self.ended_by.is_some(), ended);
        self.ended_by.map_or(exit, Received::exit)
    }
}

/// Output, as described at [`FrontEnd`].
impl UserInterface {
    pub(super) fn is_screen(&self) -> bool {
        self.front_end.is_screen()
    }

    pub(super) fn command_terminal(&self) -> Option<TerminalSize> {
        self.front_end.command_terminal()
    }

    pub(super) fn history_limit(&self) -> Option<usize> {
        self.front_end.history_limit()
    }

    pub(super) fn keeps_its_session(&self) -> bool {
        self.front_end.keeps_its_session()
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

    pub(super) fn not_read(&mut self, text: &str) {
        self.front_end.not_read(text);
    }

    pub(super) fn error(&mut self, text: &str) {
        self.front_end.error(text);
    }

    pub(super) fn panel(&mut self, panel: Panel) {
        self.front_end.panel(panel);
    }

    pub(super) fn farewell(&mut self, farewell: Farewell) {
        self.front_end.farewell(farewell);
    }

    /// Shows earlier messages, and the number of those left out.
    pub(super) fn show_history(&mut self, said: Vec<HistoryItem>, above: usize) {
        if above > 0 {
            self.note(&format!("{above} earlier messages not shown; run `pollux sessions show` to see all."));
        }
        self.front_end.show_history(said);
    }

    pub(super) fn clear(&mut self) {
        self.front_end.clear();
    }

    pub(super) fn suggest(&mut self, text: &str) {
        self.front_end.suggest(text);
    }

    pub(super) fn terminal_sequence(&mut self, sequence: &str) {
        self.front_end.terminal_sequence(sequence);
    }

    pub(super) fn turn_started(&mut self, typed: &str) {
        self.front_end.turn_started(typed);
    }

    pub(super) fn turn_ended(&mut self, end: &TurnEnd) {
        self.front_end.turn_ended(end);
    }

    pub(super) fn await_prompt(&mut self) {
        self.front_end.await_prompt();
    }

    pub(super) fn ending(&mut self) {
        self.front_end.ending();
    }

    pub(super) fn joins_turn(&mut self) {
        self.front_end.joins_turn();
    }

    pub(super) fn set_offers(&mut self, conversation: &Conversation, loaded: &Loaded) {
        self.front_end.set_offers(conversation, loaded);
    }

    pub(super) fn refresh_offers(&mut self, conversation: &Conversation, loaded: &Loaded) {
        self.front_end.refresh_offers(conversation, loaded);
    }

    pub(super) fn show_facts(&mut self, facts: SessionFacts) {
        self.front_end.show_facts(facts);
    }

    pub(super) fn sandbox_changed(&mut self, turn: &Prepared<'_>, model: &str) {
        self.front_end.sandbox_changed(turn, model);
    }

    pub(super) fn reload_settings(&mut self, turn: &Prepared<'_>, model: &str) {
        self.front_end.reload_settings(turn, model);
    }

    pub(super) fn load_themes(&mut self, loaded: &Loaded) {
        self.front_end.load_themes(loaded);
    }

    pub(super) fn show_theme(&mut self, name: Option<&str>) {
        self.front_end.show_theme(name);
    }

    pub(super) fn set_vim(&mut self, on: bool) {
        self.front_end.set_vim(on);
    }

    pub(super) fn prefer_editor(&mut self, id: Option<&str>) {
        self.front_end.prefer_editor(id);
    }

    pub(super) fn shell_started(&mut self, command: &str) -> Box<dyn Fn(&str) + Send + Sync> {
        self.front_end.shell_started(command)
    }

    pub(super) fn shell_ended(&mut self, ending: Option<&str>) {
        self.front_end.shell_ended(ending);
    }

    pub(super) fn queue_prompt(&mut self, prompt: String) {
        self.front_end.queue_prompt(prompt);
    }

    pub(super) fn interrupt_leaves(&mut self) -> bool {
        self.front_end.interrupt_leaves()
    }

    pub(super) fn defer(&mut self, input: Input) {
        self.front_end.defer(input);
    }

    pub(super) fn has_logged(&mut self, typed: &str) -> bool {
        self.front_end.has_logged(typed)
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

    pub(super) fn close_list(&mut self) {
        self.front_end.close_list();
    }

    pub(super) fn is_broken(&self) -> bool {
        self.front_end.is_broken()
    }
}

/// The awaited value, unless a signal comes first.
async fn unless_signalled<T>(signals: &mut Signals, awaited: impl Future<Output = T>) -> Result<T, Received> {
    tokio::select! {
        biased;
        received = signals.next() => Err(received),
        awaited = awaited => Ok(awaited),
    }
}

#[cfg(test)]
mod tests;
