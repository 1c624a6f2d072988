//! What follows a reply.

use pollux_domain::event::TurnEnd;

/// What a committed reply leads to.
pub(super) enum Next {
    /// The calls were answered; ask again.
    Continue,
    End(TurnEnd),
}
