//! The text of `/sandbox`: the level in force, what was granted and refused, and taking grants back.

use std::fmt::Write as _;

use pollux_config::env::Env;
use pollux_domain::sandbox::{GrantedBy, Right};
use pollux_domain::terminal_text::one_line;
use pollux_rights::{SessionRights, parse_right};

use crate::Sandbox;

/// Log lines and denials that are shown.
const SHOWN: usize = 20;
const USAGE: &str = "Usage: /sandbox [log | publish PORT | revoke KIND:TARGET]";

/// Runs `/sandbox` with its arguments.
pub fn sandbox_page(sandbox: &Sandbox, env: &Env, rest: &str) -> String {
    let (word, argument) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    let Some(rights) = &sandbox.rights else {
        return format!("Sandbox: {}", sandbox.in_force(env).summary());
    };
    match (word, argument.trim()) {
        ("" | "status", "") => status(sandbox, env, rights),
        ("log", "") => log(rights),
        ("publish", port) if !port.is_empty() => publish(rights, port),
        ("revoke", target) if !target.is_empty() => revoke(rights, target),
        _ => USAGE.to_owned(),
    }
}

fn status(sandbox: &Sandbox, env: &Env, rights: &SessionRights) -> String {
    let mut text = format!("Sandbox: {}\n", sandbox.in_force(env).summary());
    let _ = writeln!(text, "Mode: {}\nNetwork: {}", rights.profile().as_str(), rights.network().as_str());
    let grants = rights.grants();
    let _ = writeln!(text, "Granted: {}", if grants.is_empty() { "nothing" } else { "" });
    for grant in &grants {
        let (right, scope, by) =
            (one_line(&grant.right.to_string()), grant.scope.as_str(), grant.by.as_str());
        let _ = writeln!(text, "  {right} ({scope}, by {by})");
    }
    let denials = rights.denials();
    let _ = writeln!(text, "Refused: {}", if denials.is_empty() { "nothing" } else { "" });
    for (command, denial) in denials.iter().rev().take(SHOWN) {
        let port = denial.port.map(|port| format!(":{port}")).unwrap_or_default();
        let line = format!("{} {}{port} ({}): {command}", denial.kind.as_str(), denial.target, denial.rule);
        let _ = writeln!(text, "  {}", one_line(&line));
    }
    if grants.iter().any(|grant| grant.by == GrantedBy::User) {
        text.push_str("/sandbox revoke KIND:TARGET revokes a grant and ends the commands that use it.\n");
    }
    text
}

/// The last connections through the proxy.
fn log(rights: &SessionRights) -> String {
    let Some(file) = rights.log() else {
        return "No connections are logged: commands do not use the proxy.".to_owned();
    };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(SHOWN)..).unwrap_or_default();
    let shown: Vec<String> = last.iter().map(|line| one_line(line)).collect();
    format!("{}\n{}", file.display(), shown.join("\n"))
}

fn publish(rights: &SessionRights, port: &str) -> String {
    let Some(number) = port.parse::<u16>().ok().filter(|number| *number != 0) else {
        return format!("Could not publish: invalid port `{}` (expected 1 to 65535)", one_line(port));
    };
    match rights.publish(number) {
        Ok(()) => format!(
            "http://127.0.0.1:{number} leads to port {number} of the commands until the session ends."
        ),
        Err(error) => format!("Could not publish port {number}: {error}"),
    }
}

fn revoke(rights: &SessionRights, target: &str) -> String {
    let right: Right = match parse_right(target) {
        Ok(right) => right,
        Err(error) => return format!("Could not revoke: {error}"),
    };
    if rights.revoke(&right) {
        return format!("Revoked {right}. Commands that used it were ended; rules in sandbox.toml are kept.");
    }
    format!("{right} was not granted in this session.")
}
