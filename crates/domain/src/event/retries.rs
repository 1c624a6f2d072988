//! What people are told about requests that are tried again.

use std::time::Duration;

use super::{Discarded, ModelFallback};
use crate::model::{ModelError, ModelErrorKind, Wait};
use crate::terminal_text::one_line;

/// A wait up to this long is not worth a line, unless the server asked for it.
const QUIET_WAIT: Duration = Duration::from_secs(3);

impl Wait {
    /// Whether people should know of it.
    pub fn is_worth_a_line(&self) -> bool {
        // A server that cannot be reached is most likely a wrong address.
        let is_unreachable = self.kind == Some(ModelErrorKind::Network);
        self.delay > QUIET_WAIT || self.status == Some(429) || is_unreachable
    }

    /// Cause, attempt and time of the next try.
    pub fn sentence(&self) -> String {
        let Self { attempt, max_attempts, cause, .. } = self;
        let status = self.status.map(|status| format!(" with status {status}")).unwrap_or_default();
        let cause = one_line(cause);
        let cause = cause.trim_end_matches('.');
        let next = seconds(self.delay);
        format!("Attempt {attempt}/{max_attempts} failed{status}: {cause}. Retrying in {next}.")
    }
}

impl Discarded {
    /// Cause, attempt, what was shown of it, and time of the next try.
    pub fn sentence(&self) -> String {
        let Self { attempt, max_attempts, .. } = self;
        let reason = one_line(&self.reason);
        let reason = reason.trim_end_matches('.');
        let void = if self.text_was_shown { " Disregard the text shown for it." } else { "" };
        let next = match self.retry_in {
            Some(delay) if delay.is_zero() => " Retrying.".to_owned(),
            Some(delay) => format!(" Retrying in {}.", seconds(delay)),
            None => String::new(),
        };
        format!("Attempt {attempt}/{max_attempts} gave no usable reply: {reason}.{void}{next}")
    }
}

impl ModelFallback {
    /// From, to, why, until when, and what is lost.
    pub fn sentence(&self) -> String {
        let Self { from, to, .. } = self;
        let reason = one_line(&self.reason);
        let reason = reason.trim_end_matches('.');
        let until = match self.for_session {
            true => "for the rest of this session".to_owned(),
            false => format!(
                "until the end of this turn ({} is tried again after {})",
                one_line(from),
                seconds(self.cool_down)
            ),
        };
        let lost = match self.lost.is_empty() {
            true => String::new(),
            false => format!(" Not carried over: {}.", self.lost.join(", ")),
        };
        format!("Switched from {} to {} {until}: {reason}.{lost}", one_line(from), one_line(to))
    }
}

impl ModelError {
    /// The message as upstream marks it.
    pub fn marked(&self) -> String {
        // The API was not asked when the budget refused.
        if self.message.starts_with("[API Error:") || self.kind == ModelErrorKind::BudgetExceeded {
            self.message.clone()
        } else {
            format!("[API Error: {}]", self.message)
        }
    }
}

/// Whole seconds, or tenths below ten.
fn seconds(delay: Duration) -> String {
    let tenths = (delay.as_millis() + 50) / 100;
    if tenths >= 100 || tenths.is_multiple_of(10) {
        format!("{} s", (tenths + 5) / 10)
    } else {
        format!("{}.{} s", tenths / 10, tenths % 10)
    }
}
