//! How one model request ended, for the turn that made it.

use pollux_domain::model::ModelError;

use tokio_util::sync::CancellationToken;

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

impl StepEnd {
    /// A request that cannot be sent again, unless the user stopped what was tried.
    pub(crate) fn refused(error: ModelError, cancel: &CancellationToken) -> Self {
        if cancel.is_cancelled() { Self::Cancelled(Reply::default()) } else { Self::Failed(error) }
    }
}
