//! What a front end may do at a session.

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::Op;

/// What a front end may do. The server says so when it connects; a front end never gives itself rights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes {
    /// See events.
    pub watch: bool,
    /// Prompt, cancel, and choose any mode but yolo.
    pub drive: bool,
    /// Answer questions, choose yolo, and run commands of a person's own.
    pub approve: bool,
    /// End the session.
    pub admin: bool,
}

impl Scopes {
    pub const ALL: Self = Self { watch: true, drive: true, approve: true, admin: true };
    pub const WATCH: Self = Self { watch: true, drive: false, approve: false, admin: false };

    pub(super) fn allow(self, op: &Op) -> bool {
        match op {
            Op::Describe => self.watch,
            Op::Prompt { .. }
            | Op::Withdraw { .. }
            | Op::Cancel
            | Op::SetModel(_)
            | Op::Rewind { .. }
            | Op::Compress
            | Op::Propose { .. }
            | Op::ShellRan { .. } => self.drive,
            Op::SetMode(ApprovalMode::Yolo) => self.drive && self.approve,
            Op::SetMode(_) => self.drive,
            // No rule looks at it, so that whoever may not approve may not run it either.
            Op::Shell { .. } => self.drive && self.approve,
            Op::Decide { .. } => self.approve,
            Op::End { .. } => self.admin,
        }
    }
}
