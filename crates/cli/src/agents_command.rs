//! `pollux agents`: which sub-agents there are, and whether they may be asked.

mod page;

use std::io::{self, BufRead, Write};

use pollux_domain::JsonObject;
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{self, plain};
use serde_json::Value;

use crate::launch::{AgentsCommand, Scope};
use crate::report::{Failure, print_result};

/// One agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Its name for people.
    pub(crate) title: String,
    pub(crate) description: String,
    /// `built-in`, `project`, `user` or `extension NAME`.
    pub(crate) origin: String,
    pub(crate) path: Option<String>,
    /// `enabled`, `disabled` or `unacknowledged`.
    pub(crate) status: &'static str,
    pub(crate) is_remote: bool,
    /// Model, tools, limits; or where it is.
    pub(crate) details: JsonObject,
}

/// The agents, as this command needs them.
pub(crate) trait AgentSet {
    /// Lines about what was found on the way to them, for stderr.
    fn notes(&self) -> &[String];

    /// Whether there are sub-agents at all.
    fn is_on(&self) -> bool;

    /// In the order in which they were found.
    fn rows(&self) -> Vec<Row>;

    /// What is wrong with definitions, a line each.
    fn problems(&self) -> Vec<String>;

    /// One agent and its system prompt.
    fn show(&self, name: &str) -> Result<(Row, String), Failure>;

    /// Switches an agent on or off; says what was done.
    fn switch(&mut self, name: &str, on: bool, scope: Scope) -> Result<String, Failure>;

    /// Writes down that somebody agreed to an agent of the project as it is now; says so.
    fn acknowledge(&mut self, name: &str) -> Result<String, Failure>;
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

/// Asks about agents of the project that nobody has agreed to yet. Whoever says no is asked again next time.
pub(crate) fn ask(
    agents: &mut dyn AgentSet,
    input: &mut dyn BufRead,
    screen: &mut dyn Write,
) -> Result<(), Failure> {
    let open: Vec<Row> = agents.rows().into_iter().filter(|row| row.status == "unacknowledged").collect();
    if open.is_empty() || !agents.is_on() {
        return Ok(());
    }
    let mut said =
        "\nThis project brings agents that are new, or were changed since somebody agreed to them:\n"
            .to_owned();
    for row in &open {
        let path = row.path.as_deref().unwrap_or_default();
        said.push_str(&format!("  * {}: {}\n    {path}\n", row.name, page::first_line(&row.description)));
    }
    said.push_str("They act with your tools, within your rules. Use them? [y/N]: ");
    let _ = write!(screen, "{}", redacted(&plain(&said)));
    let _ = screen.flush();
    let mut line = String::new();
    let _ = input.read_line(&mut line);
    if matches!(line.trim().to_lowercase().as_str(), "y" | "yes") {
        for row in &open {
            agents.acknowledge(&row.name)?;
        }
    } else {
        let _ = writeln!(screen, "They are left out; `pollux agents acknowledge <name>` lets one in.");
    }
    Ok(())
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
