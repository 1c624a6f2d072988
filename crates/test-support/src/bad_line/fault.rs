//! What a line does to bytes.

use super::Case;
use super::conversation::{clean, events, framed};
use crate::wires::Wire;

/// The longest span that is doubled or moved.
const SPAN: usize = 8;

/// What goes wrong on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
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
pub(super) struct Disturbed {
    pub(super) first: Vec<u8>,
    pub(super) then: Then,
    /// How many bytes are not what they were.
    pub(super) touched: usize,
}

pub(super) enum Then {
    Close,
    Reset,
    Pause(Vec<u8>),
    Silence,
}

impl Fault {
    pub const ALL: [Self; 10] = [
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
    pub fn keeps_bytes(self) -> bool {
        matches!(self, Self::Cut | Self::Reset | Self::Pause | Self::Silence)
    }

    /// Whether it is about whole events.
    pub fn is_of_events(self) -> bool {
        matches!(self, Self::DoubleEvent | Self::SwapEvents)
    }

    /// Only the limits of configured providers can be set, and a minute of silence is too long for a test.
    pub fn applies_to(self, wire: Wire) -> bool {
        self != Self::Silence || wire != Wire::Gemini
    }
}

/// The bytes of the disturbed reply.
pub(super) fn disturb(case: Case) -> Disturbed {
    let chance = &mut case.chance();
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
