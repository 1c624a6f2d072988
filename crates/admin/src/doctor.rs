//! `pollux doctor`: checks the installation and says how to fix what is wrong.
//!
//! Every check is a function from [`Patient`] to [`Finding`]s. All run at once and share one deadline, so that a check
//! that hangs is reported instead of waited for.

mod accounts;
mod arguments;
mod finding;
mod home;
mod network;
mod page;
mod parts;
mod program;
mod records;
mod repair;
mod settings;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{json, plain};
use pollux_host::request::Request;
use pollux_host::{Loaded, load_settings};

pub use arguments::{DoctorArgs, DoctorCommand};
pub use finding::{Finding, Level};

use crate::context::Context;
use repair::Repair;

/// What is examined.
struct Patient {
    request: Request,
    env: Env,
    /// `None` if the settings cannot be loaded.
    loaded: Option<Loaded>,
    /// Why they cannot.
    failure: Option<Failure>,
    extent: Extent,
    at_terminal: bool,
    /// How long a server or a host may take.
    answer: Duration,
}

type Check = fn(&Patient) -> Vec<Finding>;

/// In the order of the page.
const CHECKS: &[(&str, Check)] = &[
    ("Program", program::program),
    ("Terminal", program::terminal),
    ("Home", home::home),
    ("Disk space", home::disk),
    ("Settings", settings::settings),
    ("Folder", settings::folder),
    ("Credentials", accounts::credentials),
    ("Providers", accounts::providers),
    ("Network", network::network),
    ("Sandbox", parts::sandbox),
    ("MCP servers", parts::servers),
    ("Hooks", parts::hooks),
    ("Policies", parts::policies),
    ("Extensions", parts::extensions),
    ("Skills", parts::skills),
    ("Sub-agents", parts::agents),
    ("Commands", parts::commands),
    ("Sessions", records::sessions),
    ("Memory", records::memory),
    ("Other agents", program::other_agents),
];

/// Runs the command.
pub fn run(command: &DoctorCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let extent = Extent { timeout: command.timeout, offline: command.offline, without_servers: false };
    let inspect = || examine(extent, context);
    let mut findings = inspect();
    let mut repaired = Vec::new();
    if command.fix {
        let mut repairs: Vec<&Repair> =
            findings.iter().filter_map(|finding| finding.repair.as_ref()).collect();
        repairs.dedup();
        repaired = repairs.iter().map(|repair| repair::apply(repair, context.request, context.env)).collect();
        if !repaired.is_empty() {
            findings = inspect();
        }
    }
    if command.json {
        let mut value = page::json(&findings, &repaired);
        redact_value(&mut value);
        print_result(context.out, &json(format!("{value:#}\n")))?;
    } else {
        print_result(context.out, &redacted(&plain(&page::text(&findings, &repaired))))?;
    }
    match findings.iter().filter(|finding| finding.level == Level::Problem).count() {
        0 => Ok(()),
        count => Err(Failure::new(ExitKind::Failure, format!("problems found: {count}"))),
    }
}

/// How far the checks go.
#[derive(Debug, Clone, Copy)]
struct Extent {
    timeout: Duration,
    /// Model providers and proxies are not contacted.
    offline: bool,
    /// MCP servers are not started.
    without_servers: bool,
}

/// What can be found without connecting to anything.
pub(crate) fn look(context: &Context<'_>, timeout: Duration) -> Vec<Finding> {
    examine(Extent { timeout, offline: true, without_servers: true }, context)
}

fn examine(extent: Extent, context: &Context<'_>) -> Vec<Finding> {
    let timeout = extent.timeout;
    let (loaded, failure) = match load_settings(context.request, context.env) {
        Ok(loaded) => (Some(loaded), None),
        Err(failure) => (None, Some(failure)),
    };
    let patient = Arc::new(Patient {
        request: context.request.clone(),
        env: context.env.clone(),
        loaded,
        failure,
        extent,
        at_terminal: context.out_is_terminal,
        answer: timeout * 13 / 20,
    });
    // A little is left for printing.
    let (started, deadline) = (Instant::now(), timeout * 19 / 20);
    let (sender, results) = mpsc::channel();
    for (index, (_, check)) in CHECKS.iter().enumerate() {
        let (sender, patient, check) = (sender.clone(), Arc::clone(&patient), *check);
        // Not joined: a check that hangs ends with the program.
        let spawned = thread::Builder::new().name("doctor".to_owned()).spawn(move || {
            // Nobody listens after the deadline.
            let _ = sender.send((index, check(&patient)));
        });
        drop(spawned);
    }
    drop(sender);
    let mut found: Vec<Option<Vec<Finding>>> = CHECKS.iter().map(|_| None).collect();
    while let Ok((index, findings)) = results.recv_timeout(deadline.saturating_sub(started.elapsed())) {
        if let Some(slot) = found.get_mut(index) {
            *slot = Some(findings);
        }
    }
    CHECKS.iter().zip(found).flat_map(|((area, _), findings)| named(area, findings, timeout)).collect()
}

/// The findings of a check under its name; a check that did not end is a finding, too.
fn named(area: &'static str, findings: Option<Vec<Finding>>, timeout: Duration) -> Vec<Finding> {
    let mut findings = findings.unwrap_or_else(|| {
        let text = format!("not finished within {} s", timeout.as_secs());
        vec![Finding::warning(text).hint("run `pollux doctor --timeout 10`")]
    });
    for finding in &mut findings {
        finding.area = area;
    }
    findings
}

#[cfg(test)]
mod tests;
