//! Compares what was recorded with what a replay recorded.

use crate::event::{EventKind, RecordedEvent, RecordedStatus};

/// The first event that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The number of the event in the capsule, or the one after its last.
    pub number: usize,
    /// `None` if the replay did more than was recorded.
    pub expected: Option<RecordedEvent>,
    /// `None` if the replay did less.
    pub actual: Option<RecordedEvent>,
}

/// Compares events one by one; the number of equal ones. Notices depend on the machine and its settings, so they are
/// left out.
pub fn first_difference(
    expected: &[RecordedEvent],
    actual: &[RecordedEvent],
) -> Result<usize, Box<Difference>> {
    let after_last = expected.last().map(|event| event.number.saturating_add(1));
    let mut expected = expected.iter().filter(|event| is_compared(event));
    let mut actual = actual.iter().filter(|event| is_compared(event));
    let mut same = 0;
    loop {
        match (expected.next(), actual.next()) {
            (None, None) => return Ok(same),
            (Some(one), Some(other)) if is_same(&one.kind, &other.kind) => same += 1,
            (one, other) => {
                let number = one.map(|one| one.number).or(after_last);
                let number = number.or_else(|| other.map(|other| other.number)).unwrap_or_default();
                return Err(Box::new(Difference { number, expected: one.cloned(), actual: other.cloned() }));
            }
        }
    }
}

fn is_compared(event: &RecordedEvent) -> bool {
    match event.kind {
        EventKind::Prompt { .. }
        | EventKind::Steer { .. }
        | EventKind::Note { .. }
        | EventKind::Reply { .. }
        | EventKind::Call { .. } => true,
        EventKind::Notice { .. } | EventKind::Other => false,
    }
}

fn is_same(expected: &EventKind, actual: &EventKind) -> bool {
    match (expected, actual) {
        // A call without an end cannot be replayed to that point; the turn is stopped there.
        (
            EventKind::Call { tool, args, result },
            EventKind::Call { tool: other, args: others, result: end },
        ) if result.status == RecordedStatus::Pending => {
            (tool, args, end.status) == (other, others, RecordedStatus::Cancelled)
        }
        // What the program said to the model is replayed as if a person had said it.
        (expected, actual) => match (said(expected), said(actual)) {
            (None, None) => expected == actual,
            (one, other) => one == other,
        },
    }
}

/// What was said to the model.
fn said(event: &EventKind) -> Option<&str> {
    match event {
        EventKind::Prompt { text } | EventKind::Steer { text } | EventKind::Note { text } => Some(text),
        EventKind::Reply { .. } | EventKind::Call { .. } | EventKind::Notice { .. } | EventKind::Other => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(number: usize, text: &str) -> RecordedEvent {
        RecordedEvent { number, after_ms: None, kind: EventKind::Prompt { text: text.into() } }
    }

    fn notice(number: usize) -> RecordedEvent {
        let kind = EventKind::Notice { severity: "info".into(), compressed: false, text: "x".into() };
        RecordedEvent { number, after_ms: Some(1), kind }
    }

    #[test]
    fn the_first_difference_has_the_number_of_the_capsule() {
        let recorded = [prompt(1, "a"), notice(2), prompt(3, "b")];
        assert_eq!(first_difference(&recorded, &[prompt(1, "a"), prompt(2, "b")]), Ok(2));
        let other = first_difference(&recorded, &[prompt(1, "a"), prompt(2, "c")]).unwrap_err();
        assert_eq!((other.number, other.actual), (3, Some(prompt(2, "c"))));
        let less = first_difference(&recorded, &[prompt(1, "a")]).unwrap_err();
        assert_eq!((less.number, less.actual), (3, None));
        let more = first_difference(&recorded[..1], &[prompt(1, "a"), prompt(2, "b")]).unwrap_err();
        assert_eq!((more.number, more.expected), (2, None));
        let after_notices = [prompt(1, "a"), notice(2), notice(3)];
        let more = first_difference(&after_notices, &[prompt(1, "a"), prompt(2, "b")]).unwrap_err();
        assert_eq!((more.number, more.expected), (4, None));
        assert_eq!(first_difference(&[], &[prompt(7, "a")]).unwrap_err().number, 7);
    }
}
