//! What is being waited for, and since when.

use std::time::{Duration, Instant};

use pollux_domain::event::Event;

/// The signs of a turning wheel, and how fast it turns.
const WHEEL: &[char] = &['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const TURN: Duration = Duration::from_millis(120);

/// The state of the turn.
#[derive(Debug, Default)]
pub(super) struct Status {
    since: Option<Instant>,
    /// The provider waits: why, and until when.
    waiting: Option<(String, Instant)>,
    hook: Option<String>,
}

impl Status {
    pub(super) fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    pub(super) fn rest(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_busy(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn take(&mut self, event: &Event, now: Instant) {
        match event {
            Event::PromptAccepted { .. } => self.begin(now),
            Event::Waiting(wait) => {
                let why = format!("{} (attempt {} of {})", wait.cause, wait.attempt, wait.max_attempts);
                self.waiting = Some((why, now + wait.delay));
            }
            Event::RequestSent(_) | Event::Text(_) | Event::Thought(_) | Event::RequestEnded(_) => {
                self.waiting = None;
            }
            Event::TurnEnded(_) => self.rest(),
            _ => {}
        }
    }

    /// When the picture changes by itself.
    pub(super) fn next_tick(&self, now: Instant) -> Option<Instant> {
        self.since.map(|_| now + TURN)
    }

    /// The line for the person; `None` when nothing is going on.
    pub(super) fn line(&self, doing: Option<&str>, now: Instant) -> Option<String> {
        let since = self.since?;
        let elapsed = now.saturating_duration_since(since);
        let what = match (&self.waiting, &self.hook, doing) {
            (Some((why, until)), _, _) => {
                let left = until.saturating_duration_since(now).as_secs();
                format!("Waiting: {why}, next try in {left}s")
            }
            (None, Some(hook), _) => format!("Executing Hook: {hook}"),
            (None, None, Some(doing)) => doing.to_owned(),
            (None, None, None) => "Thinking...".to_owned(),
        };
        let turns = elapsed.as_millis() / TURN.as_millis();
        let place = usize::try_from(turns).unwrap_or_default() % WHEEL.len();
        let wheel = WHEEL.get(place).copied().unwrap_or(' ');
        Some(format!("{wheel} {what} (esc to cancel, {})", short(elapsed)))
    }
}

/// `12s`, `3m 4s`.
pub(super) fn short(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds => format!("{}m {}s", seconds / 60, seconds % 60),
    }
}
