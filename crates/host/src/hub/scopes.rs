//! Permissions of a front end.

use pollux_domain::approval::ApprovalMode;
use pollux_domain::budget::BudgetChange;
use pollux_domain::event::Op;

/// The permissions of a front end, assigned by the server when it connects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes {
    /// See events.
    pub watch: bool,
    /// Prompt, cancel, and choose any mode but yolo.
    pub drive: bool,
    /// Answer questions, choose yolo, and run shell commands.
    pub approve: bool,
    /// End the session.
    pub admin: bool,
}

impl Scopes {
    pub const ALL: Self = Self { watch: true, drive: true, approve: true, admin: true };
    pub const WATCH: Self = Self { watch: true, drive: false, approve: false, admin: false };

    /// Whether an operation is within these rights.
    pub fn allow(self, op: &Op) -> bool {
        match op {
            Op::Describe | Op::Explain { .. } | Op::Budget(BudgetChange::Show) => self.watch,
            Op::Prompt { .. }
            | Op::Steer { .. }
            | Op::Withdraw { .. }
            | Op::Cancel
            | Op::SetModel(_)
            | Op::Budget(_)
            | Op::Rewind { .. }
            | Op::Compress
            | Op::SetTitle(_)
            | Op::RunTool { .. }
            | Op::Propose { .. }
            | Op::ShellRan { .. }
            | Op::SetTerminal(_)
            | Op::MoveToBackground { .. } => self.drive,
            Op::SetMode(ApprovalMode::Yolo) => self.drive && self.approve,
            Op::SetMode(_) => self.drive,
            // The policy checks neither user commands nor what is typed into a command, so both require the right to
            // approve.
            Op::Shell { .. } | Op::Type { .. } => self.drive && self.approve,
            Op::Decide { .. } => self.approve,
            Op::End { .. } => self.admin,
        }
    }
}
