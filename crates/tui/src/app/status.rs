//! The status line: the current activity and its duration.

use std::time::{Duration, Instant};

use pollux_domain::event::{Event, NoticeCode, Severity};
use pollux_domain::model::RequestRole;
use pollux_domain::terminal_text::one_line;

use crate::transcript::waited_for_hooks;
use crate::wrap::short;

/// The signs of a turning wheel, and how fast it turns.
const WHEEL: &[char] = &['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const TURN: Duration = Duration::from_millis(120);

/// A server that is silent for longer is waited for, which must not look like thinking.
const SILENT: Duration = Duration::from_secs(10);

/// The default status text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Phrases {
    pub texts: Vec<String>,
    /// How long each stays.
    pub stay: Duration,
}

impl Phrases {
    fn at(&self, elapsed: Duration) -> Option<&str> {
        let turns = elapsed.as_millis().checked_div(self.stay.as_millis())?;
        let place = usize::try_from(turns).unwrap_or_default().checked_rem(self.texts.len())?;
        self.texts.get(place).map(String::as_str)
    }
}

/// The state of the turn.
#[derive(Debug, Default)]
pub(super) struct Status {
    since: Option<Instant>,
    /// The provider waits: why, and until when.
    waiting: Option<(String, Instant)>,
    /// The model that is asked, and when it was last heard of.
    asked_model: Option<(String, Instant)>,
    /// The call that the model writes, and how much of it has come.
    writing: Option<String>,
    /// The hooks that everything waits for.
    hook: Option<String>,
    /// The questions that stand, and since when the first of them does.
    asked: (usize, Option<Instant>),
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
        self.follow_request(event, now);
        match event {
            Event::PromptAccepted { .. } => self.begin(now),
            Event::Waiting(wait) => {
                let cause = one_line(&wait.cause);
                let model = self.asked_model.as_ref().map(|(model, _)| format!("{model}: "));
                let status = wait.status.map(|status| status.to_string());
                let status = status.filter(|status| !cause.contains(status));
                let why = format!(
                    "{}{cause} ({}attempt {} of {})",
                    model.unwrap_or_default(),
                    status.map(|status| format!("HTTP {status}, ")).unwrap_or_default(),
                    wait.attempt,
                    wait.max_attempts
                );
                self.waiting = Some((why, now + wait.delay));
            }
            Event::Notice { severity: Severity::Info, code: NoticeCode::Hook, message } => {
                self.hook = waited_for_hooks(message).map(one_line);
            }
            Event::CallProgress { name, bytes } => {
                let size = bytes.div_ceil(1024);
                self.writing = Some(format!("Writing call: {} ({size} KiB)", one_line(name)));
                self.waiting = None;
            }
            Event::HookRan(_) | Event::RequestSent(_) => (self.hook, self.waiting) = (None, None),
            Event::Text(_) | Event::Thought(_) => self.waiting = None,
            Event::RequestEnded(_) => (self.waiting, self.writing) = (None, None),
            Event::ApprovalWanted(_) => self.asked = (self.asked.0 + 1, self.asked.1.or(Some(now))),
            // While a person is asked no clock runs.
            Event::ApprovalSettled { .. } => {
                self.asked.0 = self.asked.0.saturating_sub(1);
                if self.asked.0 == 0
                    && let Some(asked) = self.asked.1.take()
                {
                    self.since = self.since.map(|since| since + now.saturating_duration_since(asked));
                }
            }
            Event::TurnEnded(_) => self.rest(),
            _ => {}
        }
    }

    /// Follows the request to the model that runs, and signs of life of its server.
    fn follow_request(&mut self, event: &Event, now: Instant) {
        match event {
            Event::RequestSent(sent) if sent.role == RequestRole::Main && sent.subagent.is_none() => {
                self.asked_model = Some((one_line(&sent.model), now));
            }
            Event::Text(_) | Event::Thought(_) | Event::CallProgress { .. } => {
                self.asked_model.iter_mut().for_each(|(_, heard)| *heard = now);
            }
            Event::Waiting(wait) => {
                self.asked_model.iter_mut().for_each(|(_, heard)| *heard = now + wait.delay);
            }
            Event::RequestEnded(ended) if ended.role == RequestRole::Main => self.asked_model = None,
            // Whatever ended the request, its calls run now.
            Event::StepCommitted => self.asked_model = None,
            _ => {}
        }
    }

    /// How long the server has been silent, if that is worth saying.
    fn silence(&self, now: Instant) -> Option<String> {
        let (model, heard) = self.asked_model.as_ref()?;
        let silent = now.saturating_duration_since(*heard);
        (silent >= SILENT).then(|| format!("Waiting for {model}, {}", short(silent)))
    }

    /// When the picture changes by itself.
    pub(super) fn next_tick(&self, now: Instant, wheel: bool) -> Option<Instant> {
        self.since.map(|_| now + if wheel { TURN } else { Duration::from_secs(1) })
    }

    /// The line for the person; `None` when nothing is going on.
    pub(super) fn line(
        &self,
        doing: Option<&str>,
        phrases: &Phrases,
        now: Instant,
        wheel: bool,
    ) -> Option<String> {
        let elapsed = now.saturating_duration_since(self.since?);
        let silence = self.silence(now);
        let doing = silence.as_deref().or(self.writing.as_deref()).or(doing);
        let what = match (&self.waiting, &self.hook, doing) {
            (Some((why, until)), _, _) if *until > now => {
                let left = until.saturating_duration_since(now).as_secs();
                format!("Waiting: {why}, retrying in {left}s")
            }
            (_, Some(hook), _) => format!("Executing Hook: {hook}"),
            (_, None, Some(doing)) => doing.to_owned(),
            (_, None, None) => phrases.at(elapsed).unwrap_or("Thinking...").to_owned(),
        };
        let turns = usize::try_from(elapsed.as_millis() / TURN.as_millis()).unwrap_or_default();
        let sign = WHEEL.get(turns % WHEEL.len()).filter(|_| wheel).map(|sign| format!("{sign} "));
        Some(format!("{}{what} (esc to cancel, {})", sign.unwrap_or_default(), short(elapsed)))
    }
}
