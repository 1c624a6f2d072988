//! The rights of a session's sandboxed commands: the sandbox, the way to the network, and what is granted on the way.
//!
//! [`SessionRights::open`] opens the sandbox and, where commands have no network of their own, the egress proxy.
//! [`SessionRights::begin`] starts a command; its [`CommandRun`] tells what was refused, asks the user for more rights
//! and says whether the command should run again with them.
//!
//! Owns: which refusals lead to a question, grants and how long they last, the report of a run.
//! Does not own: confinement (`sandbox`), decisions about hosts (`egress`), dialogs (`agent` and the front ends).

mod connect;
mod copies;
mod denial;
mod desk;
mod downloads;
mod explain;
mod gate;
mod mode;
mod opening;
mod options;
mod packages;
#[cfg(target_os = "linux")]
mod publish;
mod report;
mod right;
mod run;
mod session;

pub use connect::connect_if_asked;
pub use explain::Explanation;
pub use mode::{NetworkMode, Profile, seatbelt_profile};
pub use options::RightsOptions;
pub use right::{RightError, parse_right, resolve_right};
pub use run::CommandRun;
pub use session::{Opened, SessionRights};
