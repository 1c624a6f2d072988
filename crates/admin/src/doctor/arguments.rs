//! Arguments of `pollux doctor`.

use std::time::Duration;

use clap::Args;

use crate::command_line::{RootOptions, SubcommandArgs};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 without problems (warnings do not count), otherwise 1.

Examples:
  pollux doctor
  pollux doctor --fix
  pollux doctor --json --offline")]
pub struct DoctorArgs {
    /// Repair what can be repaired safely
    #[arg(long)]
    fix: bool,
    /// Do not connect to model providers and proxies
    #[arg(long)]
    offline: bool,
    /// Seconds that all checks together may take
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Output JSON
    #[arg(long)]
    json: bool,
}

/// `pollux doctor`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorCommand {
    pub fix: bool,
    pub offline: bool,
    pub timeout: Duration,
    pub json: bool,
}

impl SubcommandArgs for DoctorArgs {
    type Command = DoctorCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<DoctorCommand, UsageError> {
        let timeout = Duration::from_secs(self.timeout);
        Ok(DoctorCommand { fix: self.fix, offline: self.offline, timeout, json: self.json })
    }
}
