//! This program as its own child.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use pollux_domain::approval::ApprovalMode;
use serde_json::Value;
use tokio::process::Command;

use crate::tools::ToolChoice;

/// Counts how many servers of ours stand above each other.
const DEPTH: &str = "POLLUX_DEPTH";
/// A server that is called by its own sessions would start sessions without end.
const MAX_DEPTH: u32 = 3;

/// What the server was started with.
#[derive(Debug, Clone)]
pub struct Program {
    executable: PathBuf,
    /// Flags of every session, as given on the command line.
    flags: Vec<OsString>,
    /// The approval mode among the flags. A client cannot ask for more.
    mode: Option<ApprovalMode>,
    directory: PathBuf,
    depth: u32,
    /// The built-in tools that clients can call.
    tools: ToolChoice,
}

impl Program {
    /// `depth` is the value of `POLLUX_DEPTH`. The error is for the person who configured the server.
    pub fn new(
        executable: PathBuf,
        flags: Vec<OsString>,
        mode: Option<ApprovalMode>,
        directory: PathBuf,
        depth: Option<&str>,
    ) -> Result<Self, String> {
        let depth = depth.and_then(|depth| depth.parse().ok()).unwrap_or(0);
        if depth >= MAX_DEPTH {
            return Err(format!("too many nested Pollux servers (limit {MAX_DEPTH}, counted in {DEPTH})"));
        }
        Ok(Self { executable, flags, mode, directory, depth, tools: ToolChoice::default() })
    }

    /// Offers built-in tools, too.
    #[must_use]
    pub fn with_tools(mut self, tools: ToolChoice) -> Self {
        self.tools = tools;
        self
    }

    pub(crate) fn tools(&self) -> &ToolChoice {
        &self.tools
    }

    /// The approval mode among the flags.
    pub(crate) fn mode(&self) -> Option<ApprovalMode> {
        self.mode
    }

    /// Where sessions work unless a call names a folder.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A session that is driven over its standard streams.
    pub(crate) fn session(&self, directory: &Path, arguments: &[String]) -> Command {
        let mut command = self.command(directory);
        command
            .args(&self.flags)
            .args(["--input-format", "stream-json", "--output-format", "stream-json"])
            .args(["--output-dialect", "pollux"])
            .args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// The JSON that a subcommand prints, or what it says is wrong.
    pub(crate) async fn query(&self, directory: &Path, words: &[&str]) -> Result<Value, String> {
        let mut command = self.command(directory);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done = command.output().await.map_err(|error| format!("could not start Pollux: {error}"))?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).trim().to_owned());
        }
        serde_json::from_slice(&done.stdout)
            .map_err(|error| format!("unexpected output from Pollux: {error}"))
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(directory).env(DEPTH, (self.depth + 1).to_string()).kill_on_drop(true);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_start_each_other_come_to_an_end() {
        let program =
            |depth| Program::new("pollux".into(), Vec::new(), None, "/".into(), depth).map(|it| it.depth);
        assert_eq!(program(None), Ok(0));
        assert_eq!(program(Some("2")), Ok(2));
        assert_eq!(program(Some("nonsense")), Ok(0));
        assert!(program(Some("3")).is_err());
    }
}
