//! `pollux mcp`: which servers there are, whether they can be reached, and changing that.

mod arguments;
mod page;
mod servers;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;

pub use arguments::{
    McpArgs, McpCommand, McpServeArgs, NewServer, ServerScope, ServerTransport, server_words_last,
};
pub use servers::{ServerSet, server_set};

use crate::context::Context;

/// The connection state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Connected,
    Blocked,
    Disabled,
    Disconnected,
}

/// A server that was looked at.
#[derive(Debug, Clone)]
pub struct ServerRow {
    pub name: String,
    /// How it is reached, as its entry is written.
    pub reached: String,
    pub standing: Standing,
    /// Why it is not connected.
    pub reason: Option<String>,
    pub version: Option<String>,
    pub tools: Vec<(String, String)>,
    pub prompts: Vec<String>,
    pub resources: usize,
    /// The last lines that it printed.
    pub log: Vec<String>,
}

/// What a change did, or a line about why nothing was done.
pub struct ServerOutcome {
    /// Results.
    pub out: String,
    /// Notes and warnings.
    pub notes: Vec<String>,
}

/// Runs the command.
pub fn run(command: &McpCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let mut servers = server_set(context.request, context.env)?;
    context.note(servers.notes());
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
            ServerOutcome { out, notes }
        }
        McpCommand::Test { name } => {
            let (rows, notes) = servers.look(Some(name))?;
            let failed = rows.iter().find(|row| row.standing != Standing::Connected);
            match failed {
                Some(row) => return Err(page::failure(row)),
                None => ServerOutcome { out: rows.iter().map(page::test).collect(), notes },
            }
        }
        McpCommand::Tools { name } => {
            let (rows, notes) = servers.look(name.as_deref())?;
            let out =
                if rows.is_empty() && !notes.is_empty() { page::none_here() } else { page::tools(&rows) };
            ServerOutcome { out, notes }
        }
        McpCommand::Auth { name } => {
            ServerOutcome { out: servers.auth(name, &mut context.prompter)?, notes: Vec::new() }
        }
        McpCommand::Serve => {
            let failure = Failure::new(ExitKind::Failure, "`mcp serve` does not run inside a session");
            return Err(failure.hint("run `pollux mcp serve` from the client's configuration"));
        }
    };
    context.warn(&said.notes);
    print_result(context.out, &redacted(&plain(&said.out)))
}
