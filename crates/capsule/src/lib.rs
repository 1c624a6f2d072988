//! Capsules: what a bug report needs to know of a session, and what it takes to run that session again.
//!
//! Owns: the capsule file format, the events of a session in it, the recorded replies and results, and how contents are
//! hidden or redacted on the way into it.
//! Does not own: what is said of the machine and its settings (`admin`), running a session again (`host`).
//! Start at [`SessionRecord::of`] for writing and [`Capsule::read`] for reading. A capsule that was read comes from a
//! stranger: nothing in it is a path, a command or an address.

mod concealment;
mod difference;
mod event;
mod file;
mod private;
mod steps;

pub use concealment::Concealment;
pub use difference::{Difference, first_difference};
pub use event::{CallEnd, EventKind, RecordedEvent, RecordedStatus, RecordedThought, Tokens, events_of};
pub use file::{Capsule, CapsuleError, Contents, FORMAT, MAX_BYTES, SessionRecord};
pub use private::Private;
pub use steps::ReplayStep;
