//! What a line does to bytes.

use pollux_test_support::wires::Wire;

use crate::Case;
use crate::chance::Chance;
use crate::conversation::{clean, events, framed};

/// The longest span that is doubled or moved.
const SPAN: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The connection is closed.
    Cut,
    Reset,
    /// A short pause.
    Pause,
    /// Nothing comes any more, and the connection stays open.
    Silence,
    Corrupt,
    Drop,
    /// A span comes twice.
    Double,
    /// Two spans next to each other change places.
    Swap,
    DoubleEvent,
    SwapEvents,
}

/// What is sent instead.
pub(crate) struct Disturbed {
    pub(crate) first: Vec<u8>,
    pub(crate) then: Then,
    /// How many bytes are not what they were.
    pub(crate) touched: usize,
}

pub(crate) enum Then {
    Close,
    Reset,
    Pause(Vec<u8>),
    Silence,
}

impl Fault {
    pub(crate) const ALL: [Self; 10] = [
        Self::DoubleEvent,
        Self::SwapEvents,
        Self::Cut,
        Self::Drop,
        Self::Corrupt,
        Self::Double,
        Self::Swap,
        Self::Reset,
        Self::Silence,
        Self::Pause,
    ];

    /// Whether the client gets only bytes of the server, in their order; then the result must be the same.
    pub(crate) fn keeps_bytes(self) -> bool {
        matches!(self, Self::Cut | Self::Reset | Self::Pause | Self::Silence)
    }

    pub(crate) fn is_of_events(self) -> bool {
        matches!(self, Self::DoubleEvent | Self::SwapEvents)
    }

    /// Only the limits of configured providers can be set, and a minute of silence is too long for a test.
    pub(crate) fn applies_to(self, wire: Wire) -> bool {
        self != Self::Silence || wire != Wire::Gemini
    }
}

/// The bytes of the disturbed reply.
pub(crate) fn disturb(case: Case, chance: &mut Chance) -> Disturbed {
    let Case { wire, framing, fault, reply, at, .. } = case;
    let mut bytes = clean(wire, framing, reply, 0);
    let close = |first: Vec<u8>, touched| Disturbed { first, then: Then::Close, touched };
    match fault {
        Fault::Cut => close(bytes[..at].to_vec(), 0),
        Fault::Reset => Disturbed { first: bytes[..at].to_vec(), then: Then::Reset, touched: 0 },
        Fault::Silence => Disturbed { first: bytes[..at].to_vec(), then: Then::Silence, touched: 0 },
        Fault::Pause => {
            let rest = bytes.split_off(at);
            Disturbed { first: bytes, then: Then::Pause(rest), touched: 0 }
        }
        Fault::Corrupt => {
            // One bit, or any other byte.
            let other = if chance.one_in(2) { 1 << chance.below(8) } else { 1 + chance.below(255) };
            bytes[at] ^= u8::try_from(other).unwrap();
            close(bytes, 1)
        }
        Fault::Drop => {
            bytes.remove(at);
            close(bytes, 1)
        }
        Fault::Double => {
            let end = (at + 1 + chance.below(SPAN)).min(bytes.len());
            let twice = [&bytes[..end], &bytes[at..]].concat();
            close(twice, end - at)
        }
        Fault::Swap => {
            let middle = (at + 1 + chance.below(SPAN)).min(bytes.len());
            let end = (middle + 1 + chance.below(SPAN)).min(bytes.len());
            let moved = [&bytes[..at], &bytes[middle..end], &bytes[at..middle], &bytes[end..]].concat();
            close(moved, end - at)
        }
        Fault::DoubleEvent | Fault::SwapEvents => {
            let mut events = events(wire, reply, 0);
            let touched = events[at].len();
            match fault {
                Fault::DoubleEvent => events.insert(at, events[at].clone()),
                _ => {
                    let other = chance.below(events.len());
                    events.swap(at, other);
                }
            }
            close(framed(framing, &events), touched)
        }
    }
}
