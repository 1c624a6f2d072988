//! `pollux agents`: which sub-agents there are, and whether they may be asked.

mod page;

use std::io::{self, Write};

use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{self, plain};
use serde_json::Value;

pub(crate) use pollux_host::agents::{AgentSet, Row};

use crate::launch::AgentsCommand;

/// The agents in lines, what is wrong with them first.
pub(crate) fn listing(agents: &dyn AgentSet) -> String {
    let problems = agents.problems().into_iter().map(|problem| format!("{problem}\n"));
    redacted(&plain(&format!("{}{}", problems.collect::<String>(), page::text(agents)))).into_owned()
}

/// Runs the command; the result goes to `out`.
pub(crate) fn run(
    command: &AgentsCommand,
    agents: &mut dyn AgentSet,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match command {
        AgentsCommand::List { json } => {
            if *json {
                return show_json(out, &page::json(agents));
            }
            for problem in agents.problems() {
                let _ = writeln!(io::stderr(), "{}", redacted(&plain(&problem)));
            }
            show(out, &page::text(agents))
        }
        AgentsCommand::Show { name, json } => {
            let (row, prompt) = agents.show(name)?;
            if *json {
                show_json(out, &page::whole_json(&row, &prompt))
            } else {
                show(out, &page::whole(&row, &prompt))
            }
        }
        AgentsCommand::Enable { name, scope } => show(out, &agents.switch(name, true, *scope)?),
        AgentsCommand::Disable { name, scope } => show(out, &agents.switch(name, false, *scope)?),
        AgentsCommand::Acknowledge { name } => show(out, &agents.acknowledge(name)?),
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
