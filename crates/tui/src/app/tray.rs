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

/// Texts that were typed during the turn, in order.
#[derive(Debug, Default)]
pub(super) struct Tray {
    pub(super) waiting: Vec<Waiting>,
    /// Texts of this turn that were moved to the composer and may have reached the turn nevertheless.
    taken_back: Vec<(RequestId, String)>,
}

/// A text that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) submission: Submission,
    /// Set if it goes to the running turn.
    steer: Option<RequestId>,
}

impl Tray {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps a text until the turn has ended.
    pub(super) fn queue(&mut self, submission: Submission) {
        self.waiting.push(Waiting { submission, steer: None });
    }

    /// Keeps a text until the running turn has it.
    fn steer(&mut self, submission: Submission) -> Action {
        let id = RequestId::random();
        let text = submission.text.clone();
        self.waiting.push(Waiting { submission, steer: Some(id.clone()) });
        Action::Steer { id, text }
    }

    fn remove(&mut self, id: &RequestId) -> Option<Submission> {
        let place = self.waiting.iter().position(|waiting| waiting.steer.as_ref() == Some(id))?;
        Some(self.waiting.remove(place).submission)
    }

    /// The rows, with what happens to each text.
    pub(super) fn lines(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let dim = look.theme.secondary();
        let mut lines = Vec::new();
        for (steers, title) in [
            (true, "  Sent with the next request (press ↑ to edit):"),
            (false, "  Queued until the turn ends (press ↑ to edit):"),
        ] {
            let fits = |waiting: &&Waiting| waiting.steer.is_some() == steers;
            let texts: Vec<&Waiting> = self.waiting.iter().filter(fits).collect();
            if texts.is_empty() {
                continue;
            }
            lines.extend(
                wrap(&[Span::styled(title, dim)], look.width, &Margin::default()).into_iter().take(1),
            );
            for waiting in texts.iter().take(SHOWN) {
                let text = one_line(&waiting.submission.raw);
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

    /// Moves everything that waits back into the composer, before its text.
    pub(super) fn unqueue(&mut self) -> Vec<Action> {
        self.stop_waiting();
        let waiting = std::mem::take(&mut self.tray.waiting);
        if let [only] = waiting.as_slice()
            && self.composer.is_empty()
        {
            self.composer.set_shell_mode(only.submission.shell);
        }
        let texts: Vec<&str> = waiting.iter().map(|waiting| waiting.submission.text.as_str()).collect();
        self.composer.prepend(&texts.join("\n\n"));
        self.set_conditions();
        let mut withdrawals = Vec::new();
        for Waiting { submission, steer } in waiting {
            let Some(id) = steer else { continue };
            withdrawals.push(Action::Withdraw(id.clone()));
            self.tray.taken_back.push((id, submission.text));
        }
        withdrawals
    }

    /// The queued prompts, joined, to send when the turn has ended.
    pub fn take_queue(&mut self) -> Option<Submission> {
        let queue = &mut self.tray.waiting;
        let shell = queue.first()?.submission.shell;
        let count =
            if shell { 1 } else { queue.iter().take_while(|queued| !queued.submission.shell).count() };
        let taken: Vec<Submission> = queue.drain(..count).map(|queued| queued.submission).collect();
        self.set_conditions();
        let joined = |part: fn(&Submission) -> &str| taken.iter().map(part).collect::<Vec<_>>().join("\n\n");
        Some(Submission { text: joined(|queued| &queued.text), raw: joined(|queued| &queued.raw), shell })
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
                    self.composer.prepend(&submission.text);
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
