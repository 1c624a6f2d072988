//! `pollux agents`: which sub-agents there are, and whether they may be asked.

mod arguments;
mod page;

use std::io::Write;

use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{self, plain};
use serde_json::Value;

use pollux_host::agents::{AgentRow, agent_set};

pub use arguments::{AgentsArgs, AgentsCommand};

use crate::context::Context;

/// Runs the command.
pub fn run(command: &AgentsCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let mut agents = agent_set(context.request, context.env)?;
    context.note(agents.notes());
    match command {
        AgentsCommand::List { json } => {
            let (rows, problems) = (agents.rows(), agents.problems());
            if *json {
                return show_json(context.out, &page::json(&rows, agents.is_on(), &problems));
            }
            context.warn(&problems);
            show(context.out, &page::text(&rows, agents.is_on()))
        }
        AgentsCommand::Show { name, json } => {
            let (row, prompt) = agents.show(name)?;
            if *json {
                show_json(context.out, &page::whole_json(&row, &prompt))
            } else {
                show(context.out, &page::whole(&row, &prompt))
            }
        }
        AgentsCommand::Enable { name, scope } => show(context.out, &agents.switch(name, true, *scope)?),
        AgentsCommand::Disable { name, scope } => show(context.out, &agents.switch(name, false, *scope)?),
        AgentsCommand::Acknowledge { name } => show(context.out, &agents.acknowledge(name)?),
    }
}

/// Others wrote these texts: they neither steer the terminal nor spill a key.
fn show(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    print_result(out, &redacted(&plain(text)))
}

fn show_json(out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
    let mut value = value.clone();
    redact_value(&mut value);
    print_result(out, &terminal_text::json(format!("{value:#}\n")))
}

#[cfg(test)]
mod tests;
