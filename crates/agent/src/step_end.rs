//! How one model request ended, for the turn that made it.

use pollux_domain::model::ModelError;

use crate::reply::{Fault, Reply};

/// How a step ended.
pub(crate) enum StepEnd {
    Reply(Reply),
    /// The model repeated this passage; the reply is what came until then.
    Chanting {
        reply: Reply,
        passage: String,
    },
    Invalid(Fault),
    Failed(ModelError),
    /// Stopped by the user, with the text that had arrived.
    Cancelled(Reply),
    /// A hook stopped the agent; the reply up to then.
    Halted(Reply),
}
