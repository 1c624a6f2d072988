//! What was typed while the model works: said to the running turn, or queued until it has ended.

use pollux_domain::event::{Event, RefusalCode, RequestId, TurnEnd};
use pollux_domain::terminal_text::one_line;
use ratatui::text::{Line, Span};

use super::{Action, App};
use crate::composer::Submission;
use crate::transcript::{Item, Look};
use crate::wrap::{Margin, wrap};

/// Rows of each list that are shown.
const SHOWN: usize = 3;

/// What the right side of the mode line says while text is typed.
pub(super) const HINT: &str = "Enter sends · Tab queues";

/// Shown after `/quit` while something runs.
pub(super) const AFTER_TURN: &str = "  Quits when the turn ends (Esc stops the turn)";
pub(super) const AFTER_COMMAND: &str = "  Quits when the command ends (Esc stops the command)";

/// Texts that were typed during the turn, in order.
#[derive(Debug, Default)]
pub(super) struct Tray {
    pub(super) waiting: Vec<Waiting>,
    /// Texts of this turn that were moved to the composer and may have reached the turn nevertheless.
    taken_back: Vec<(RequestId, String)>,
    /// What ends the conversation, once that was asked for.
    pub(super) leaves: Option<&'static str>,
}

/// A text that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) submission: Submission,
    /// Set if it was said to the running turn.
    steer: Option<RequestId>,
    /// It was taken back and does not fit the text in the composer: it is not sent.
    held: bool,
    /// [`App::take_unlogged`] has returned it.
    is_logged: bool,
}

impl Waiting {
    fn new(submission: Submission, steer: Option<RequestId>) -> Self {
        Self { submission, steer, held: false, is_logged: false }
    }

    fn state(&self) -> State {
        match &self.steer {
            _ if self.held => State::Held,
            Some(_) => State::Steers,
            None => State::Queued,
        }
    }
}

/// What becomes of a text that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Steers,
    Queued,
    Held,
}

/// How many texts from the first on are sent as one prompt: a command stands alone.
fn batch<'a>(mut texts: impl Iterator<Item = &'a Submission>) -> usize {
    match texts.next() {
        None => 0,
        Some(first) if first.is_command() => 1,
        Some(_) => 1 + texts.take_while(|text| !text.is_command()).count(),
    }
}

impl Tray {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps a text until the turn has ended.
    pub(super) fn queue(&mut self, submission: Submission) {
        self.waiting.push(Waiting::new(submission, None));
    }

    /// Keeps a text until the running turn has it.
    fn steer(&mut self, submission: Submission) -> Action {
        let id = RequestId::random();
        let text = submission.text.clone();
        self.waiting.push(Waiting::new(submission, Some(id.clone())));
        Action::Steer { id, text }
    }

    fn remove(&mut self, id: &RequestId) -> Option<Submission> {
        let place = self.waiting.iter().position(|waiting| waiting.steer.as_ref() == Some(id))?;
        Some(self.waiting.remove(place).submission)
    }

    /// The rows, with what happens to each text.
    pub(super) fn lines(&self, is_choosing: bool, look: Look<'_>) -> Vec<Line<'static>> {
        let dim = look.theme.secondary();
        let title = |text: &'static str| {
            wrap(&[Span::styled(text, dim)], look.width, &Margin::default()).into_iter().take(1)
        };
        let mut lines: Vec<Line<'static>> = self.leaves.into_iter().flat_map(title).collect();
        let queued = match is_choosing {
            true => "  Queued until you answer:",
            false => "  Queued until the turn ends (press ↑ to edit):",
        };
        for (state, heading) in [
            (State::Steers, "  Sent with the next request (press ↑ to edit):"),
            (State::Queued, queued),
            (State::Held, "  Not sent (press ↑ to edit):"),
        ] {
            let fits = |waiting: &&Waiting| waiting.state() == state;
            let texts: Vec<&Waiting> = self.waiting.iter().filter(fits).collect();
            if texts.is_empty() {
                continue;
            }
            lines.extend(title(heading));
            for waiting in texts.iter().take(SHOWN) {
                let text = one_line(&waiting.submission.typed_raw());
                let row = wrap(&[Span::styled(text, dim)], look.width, &Margin::hanging(Span::raw("    ")));
                lines.extend(row.into_iter().take(1));
            }
            if let Some(more) = texts.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                lines.push(Line::from(Span::styled(format!("    ... (+{more} more)"), dim)));
            }
        }
        lines
    }
}

impl App {
    /// A text that was sent while the model works: a prompt joins the turn, anything else waits for its end.
    pub(super) fn send_during_turn(&mut self, submission: Submission) -> Vec<Action> {
        if !self.can_steer() || submission.shell || submission.text.trim_start().starts_with('/') {
            self.tray.queue(submission);
            return Vec::new();
        }
        vec![self.tray.steer(submission)]
    }

    /// Whether a turn of the model runs, and not a command of the person's.
    pub(super) fn can_steer(&self) -> bool {
        self.is_busy() && !self.transcript.runs_shell()
    }

    /// Takes back everything that waits. What the text in the composer goes with is moved there, before that text; the
    /// rest is held: joined, a prompt would become part of a command, or a command of a prompt.
    pub(super) fn unqueue(&mut self) -> Vec<Action> {
        self.stop_waiting();
        let mut withdrawals = Vec::new();
        for waiting in self.tray.waiting.iter_mut().filter(|waiting| !waiting.held) {
            withdrawals.extend(waiting.steer.clone().map(Action::Withdraw));
            waiting.held = true;
        }
        self.pull(0);
        withdrawals
    }

    /// Moves texts back into the empty composer: the first that are held, or the last, so that the order stays the same
    /// when they are queued again.
    pub(super) fn pull_queue(&mut self) -> Vec<Action> {
        self.stop_waiting();
        let waiting = &self.tray.waiting;
        let at = match waiting.iter().position(|waiting| waiting.held) {
            Some(held) => held,
            None => {
                let mut at = 0;
                while let count @ 1.. = batch(waiting.iter().skip(at).map(|waiting| &waiting.submission))
                    && at + count < waiting.len()
                {
                    at += count;
                }
                at
            }
        };
        self.pull(at)
    }

    /// Moves the texts from this one on that are sent together into the composer, if they go with its text. Returns how
    /// those that were said to the turn are taken back.
    fn pull(&mut self, at: usize) -> Vec<Action> {
        let waiting = &mut self.tray.waiting;
        let Some(held) = waiting.get(at).map(|first| first.held) else { return Vec::new() };
        self.composer.stop_search();
        let alike = waiting.iter().skip(at).take_while(|waiting| waiting.held == held);
        let count = batch(alike.map(|waiting| &waiting.submission));
        let is_free = self.composer.is_blank();
        let is_command = waiting.get(at).is_some_and(|first| first.submission.is_command());
        if !is_free && (is_command || self.composer.is_command()) {
            self.set_conditions();
            return Vec::new();
        }
        let pulled: Vec<Waiting> = waiting.drain(at..at + count).collect();
        if is_free {
            self.composer.set_shell_mode(pulled.first().is_some_and(|first| first.submission.shell));
        }
        let texts: Vec<&str> = pulled.iter().map(|waiting| waiting.submission.text.as_str()).collect();
        self.composer.prepend(&texts.join("\n\n"));
        let mut withdrawals = Vec::new();
        for Waiting { submission, steer, .. } in pulled {
            let Some(id) = steer else { continue };
            withdrawals.extend((!held).then(|| Action::Withdraw(id.clone())));
            self.tray.taken_back.push((id, submission.text));
        }
        self.set_conditions();
        withdrawals
    }

    /// Gives a text back that could not be sent.
    pub fn give_back(&mut self, text: &str, shell: bool) {
        self.hold(Submission { text: text.to_owned(), raw: text.to_owned(), shell });
    }

    fn hold(&mut self, submission: Submission) {
        self.tray.waiting.insert(0, Waiting { held: true, ..Waiting::new(submission, None) });
        self.pull(0);
    }

    /// The queued prompts, joined, to send when the turn has ended.
    pub fn take_queue(&mut self) -> Option<Submission> {
        let queue = &mut self.tray.waiting;
        let first = queue.iter().position(|waiting| !waiting.held)?;
        let sent = queue.iter().skip(first).take_while(|waiting| !waiting.held);
        let count = batch(sent.map(|waiting| &waiting.submission));
        let taken: Vec<Submission> =
            queue.drain(first..first + count).map(|queued| queued.submission).collect();
        self.set_conditions();
        let shell = taken.first().is_some_and(|first| first.shell);
        let joined = |part: fn(&Submission) -> &str| taken.iter().map(part).collect::<Vec<_>>().join("\n\n");
        Some(Submission { text: joined(|queued| &queued.text), raw: joined(|queued| &queued.raw), shell })
    }

    /// The prompts that wait and were not returned before: they are logged before they are sent, since a program that
    /// is killed loses its memory. Commands are logged when they run.
    pub fn take_unlogged(&mut self) -> Vec<String> {
        let new = self.tray.waiting.iter_mut().filter(|waiting| !waiting.is_logged);
        let new = new.filter_map(|waiting| {
            waiting.is_logged = true;
            (!waiting.submission.is_command()).then(|| waiting.submission.text.clone())
        });
        new.collect()
    }

    /// What was neither sent nor discarded: the queue, then the drafts. Nothing of it is shown any more.
    pub fn take_unsent(&mut self) -> Vec<Submission> {
        let queue = std::mem::take(&mut self.tray.waiting);
        // The turn goes on in the core and has what was said to it.
        let has_turn = |waiting: &Waiting| self.facts.detaches && waiting.state() == State::Steers;
        let mut unsent: Vec<Submission> = queue
            .into_iter()
            .filter(|waiting| !has_turn(waiting))
            .map(|waiting| waiting.submission)
            .collect();
        unsent.extend(self.composer.take_drafts());
        // That is what happens.
        unsent.retain(|unsent| !unsent.leaves());
        self.set_conditions();
        unsent
    }

    /// Follows what becomes of texts that were said to the turn.
    pub(super) fn follow_tray(&mut self, event: &Event) {
        match event {
            Event::Steered { id, typed, .. } => {
                self.tray.remove(id);
                // It was on its way when it was taken back.
                let back = &mut self.tray.taken_back;
                if let Some(place) = back.iter().position(|(taken, _)| taken == id) {
                    let (_, text) = back.remove(place);
                    self.composer.remove(&text);
                }
                self.transcript.push(Item::Prompt(typed.clone()));
            }
            // What the turn did not get in time is sent after it.
            Event::Acknowledged { id, result, .. }
                if result.refusal().is_some_and(|refusal| refusal.code != RefusalCode::Dropped) =>
            {
                if let Some(submission) = self.tray.remove(id) {
                    self.hold(submission);
                }
            }
            Event::TurnEnded(end) => {
                self.tray.waiting.iter_mut().for_each(|waiting| waiting.steer = None);
                self.tray.taken_back.clear();
                // The next prompt would fail in the same way.
                if matches!(end, TurnEnd::Failed(_)) {
                    drop(self.unqueue());
                }
            }
            _ => {}
        }
    }
}
