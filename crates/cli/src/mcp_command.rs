//! `pollux mcp`: which servers there are, whether they can be reached, and changing that.

mod page;

use std::io::Write;

use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;

use crate::launch::{McpCommand, NewServer, ServerScope};

/// Where a server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Connected,
    Connecting,
    Blocked,
    Disabled,
    Disconnected,
}

/// A server that was looked at.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// How it is reached, as its entry is written.
    pub(crate) reached: String,
    pub(crate) standing: Standing,
    /// Why it is not connected.
    pub(crate) reason: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) tools: Vec<(String, String)>,
    pub(crate) prompts: Vec<String>,
    pub(crate) resources: usize,
    /// The last lines that it printed.
    pub(crate) log: Vec<String>,
}

/// What a change did, or a line about why nothing was done.
pub(crate) struct Said {
    /// Results.
    pub(crate) out: String,
    /// Lines beside them.
    pub(crate) notes: Vec<String>,
}

/// Who sits at the terminal.
pub(crate) struct Somebody<'a> {
    pub(crate) at_terminal: bool,
    pub(crate) screen: &'a mut dyn Write,
}

/// The servers, as this command needs them.
pub(crate) trait ServerSet {
    /// Lines about what was found on the way to them, for stderr.
    fn notes(&self) -> &[String];

    fn add(&mut self, server: &NewServer) -> Result<Said, Failure>;

    fn remove(&mut self, name: &str, scope: ServerScope) -> Result<Said, Failure>;

    fn switch(&mut self, name: &str, on: bool, session: bool) -> Result<Said, Failure>;

    /// Connects to one server or to all of them, and says how they stand. Lines beside it come with it.
    fn look(&self, name: Option<&str>) -> Result<(Vec<Row>, Vec<String>), Failure>;

    /// Signs in.
    fn auth(&self, name: &str, somebody: &mut Somebody<'_>) -> Result<String, Failure>;
}

/// Runs the command; the result goes to `out`, everything else to `err`.
pub(crate) fn run(
    command: &McpCommand,
    servers: &mut dyn ServerSet,
    somebody: &mut Somebody<'_>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let said = match command {
        McpCommand::Add(server) => servers.add(server)?,
        McpCommand::Remove { name, scope } => servers.remove(name, *scope)?,
        McpCommand::Switch { name, on, session } => servers.switch(name, *on, *session)?,
        McpCommand::List => {
            let (rows, notes) = servers.look(None)?;
            let reasons = rows
                .iter()
                .filter(|row| row.standing == Standing::Disconnected)
                .filter_map(|row| row.reason.as_ref().map(|reason| format!("{}: {reason}", row.name)));
            // Who has nothing but servers that are not trusted has servers.
            let out =
                if rows.is_empty() && !notes.is_empty() { page::none_here() } else { page::list(&rows) };
            let notes = notes.into_iter().chain(reasons).collect();
            Said { out, notes }
        }
        McpCommand::Test { name } => {
            let (rows, notes) = servers.look(Some(name))?;
            let failed = rows.iter().find(|row| row.standing != Standing::Connected);
            match failed {
                Some(row) => return Err(page::failure(row)),
                None => Said { out: rows.iter().map(page::test).collect(), notes },
            }
        }
        McpCommand::Tools { name } => {
            let (rows, notes) = servers.look(name.as_deref())?;
            let out =
                if rows.is_empty() && !notes.is_empty() { page::none_here() } else { page::tools(&rows) };
            Said { out, notes }
        }
        McpCommand::Auth { name } => Said { out: servers.auth(name, somebody)?, notes: Vec::new() },
    };
    for line in &said.notes {
        // Nobody can be told when stderr is gone.
        let _ = writeln!(err, "{}", redacted(&plain(line)));
    }
    print_result(out, &redacted(&plain(&said.out)))
}
