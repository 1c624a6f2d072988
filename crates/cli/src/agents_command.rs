//! `pollux agents`: which sub-agents there are, and whether they may be asked.

mod page;

use std::io::{self, Write};

use pollux_domain::JsonObject;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{self, plain};
use serde_json::Value;

use crate::launch::{AgentsCommand, Scope};

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

/// What is asked about agents of the project that nobody has agreed to yet, in lines, and their names; `None` when
/// there are none. Whoever says no is asked again next time.
pub(crate) fn question(agents: &dyn AgentSet) -> Option<(Vec<String>, Vec<String>)> {
    let open: Vec<Row> = agents.rows().into_iter().filter(|row| row.status == "unacknowledged").collect();
    if open.is_empty() || !agents.is_on() {
        return None;
    }
    let mut lines = vec![
        "This project brings agents that are new, or were changed since somebody agreed to them:".to_owned(),
    ];
    for row in &open {
        let about = page::first_line(&row.description);
        lines.push(redacted(&plain(&format!("  * {}: {about}", row.name))).into_owned());
        lines.push(format!("    {}", plain(row.path.as_deref().unwrap_or_default())));
        // Whoever agrees to the agent agrees to these.
        let servers = row.details.get("mcpServers").and_then(Value::as_array).into_iter().flatten();
        for server in servers.filter_map(Value::as_str) {
            lines.push(redacted(&plain(&format!("    runs the MCP server {server}"))).into_owned());
        }
    }
    Some((lines, open.into_iter().map(|row| row.name).collect()))
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
