//! Servers of this machine that a command looked for on its own loopback.

use std::fs;

use pollux_domain::sandbox::{Denial, DenialKind, Right, RightKind, Strength};

use super::{FoundDenial, Scene, programs};

/// What programs say if nobody listens on a port.
const NOBODY: &[&str] =
    &["connection refused", "econnrefused", "couldn't connect", "could not connect", "failed to connect"];
/// Names of the loopback.
const OWN_NAMES: &[&str] = &["localhost", "127.0.0.1", "[::1]", "::1"];
/// Programs that may be told to say nothing: their command line names the port.
const QUIET: &[&str] = &["curl", "wget", "nc", "http", "psql", "redis-cli", "mysql"];
/// Ports of programs that usually run anything, or show everything, for anyone who connects: container engines and
/// clusters, debuggers, screens. For them, printed text is not enough.
const POWERFUL: &[u16] = &[
    2375, 2376, 2377, 2379, 4243, 4646, 5005, 5037, 5555, 5858, 5900, 6000, 6443, 8001, 8500, 9222, 9229,
    10250, 10255,
];
/// Different ports that are looked at.
const MAX_PORTS: usize = 8;

/// Ports of this machine on which something listens, and of the commands' own network on which nothing does.
pub(super) fn find(output: &str, scene: &Scene<'_>) -> Vec<FoundDenial> {
    if scene.sandbox.confinement().network {
        return Vec::new();
    }
    let mut ports: Vec<u16> = Vec::new();
    for line in output.lines().rev().take(super::MAX_LINES) {
        let lower = line.to_ascii_lowercase();
        if NOBODY.iter().any(|word| lower.contains(word)) {
            ports.extend(ports_in(&lower));
        }
    }
    if programs(scene.command).any(|program| QUIET.contains(&program)) {
        ports.extend(ports_in(&scene.command.to_ascii_lowercase()));
    }
    let inside = scene.sandbox.listening();
    let mut seen = Vec::new();
    for port in ports {
        if !seen.contains(&port) && seen.len() < MAX_PORTS && !inside.contains(&port) {
            seen.push(port);
        }
    }
    let outside = listening_outside();
    let there = seen.into_iter().filter(|port| outside.contains(port));
    there.map(|port| found(port, is_believed(port, scene.command))).collect()
}

/// Whether the output of a command may lead to a question about a port.
fn is_believed(port: u16, command: &str) -> bool {
    let mut numbers = command.split(|c: char| !c.is_ascii_digit());
    !POWERFUL.contains(&port) || numbers.any(|number| number.parse() == Ok(port))
}

fn found(port: u16, is_believed: bool) -> FoundDenial {
    let right = Right { kind: RightKind::Port, target: port.to_string() };
    FoundDenial {
        denial: Denial {
            kind: DenialKind::Connect,
            target: "localhost".to_owned(),
            port: Some(port),
            strength: if is_believed { Strength::Strong } else { Strength::Weak },
            rule: format!(
                "commands have a localhost of their own; `--sandbox-allow port:{port}` leads to this machine's"
            ),
        },
        right: is_believed.then_some(right),
        danger: Some(format!(
            "Whatever listens on port {port} of this machine may trust everyone who connects"
        )),
        program: None,
        note: None,
    }
}

/// Ports after a name of the loopback, as in `localhost:80`, `localhost port 80` and `"localhost" (127.0.0.1), port 80`.
fn ports_in(text: &str) -> Vec<u16> {
    let mut ports = Vec::new();
    for name in OWN_NAMES {
        for (at, _) in text.match_indices(name) {
            let rest = text.get(at + name.len()..).unwrap_or_default();
            let rest = rest.trim_start_matches(|c: char| "\"'):, (".contains(c));
            let rest = OWN_NAMES.iter().find_map(|name| rest.strip_prefix(name)).unwrap_or(rest);
            let rest = rest.trim_start_matches(|c: char| "\"'):, (".contains(c));
            let rest = rest.strip_prefix("port").unwrap_or(rest).trim_start_matches([' ', ':', '=']);
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            ports.extend(digits.parse::<u16>().ok().filter(|port| *port != 0));
        }
    }
    ports
}

/// Ports of this machine's loopback on which something listens.
fn listening_outside() -> Vec<u16> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let text = tables.map(|table| fs::read_to_string(table).unwrap_or_default()).concat();
    let listening = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (address, port) = fields.get(1)?.rsplit_once(':')?;
        let is_local = address.chars().all(|c| c == '0')
            || address.ends_with("0100007F")
            || address.ends_with("01000000");
        (fields.get(3) == Some(&"0A") && is_local).then(|| u16::from_str_radix(port, 16).ok()).flatten()
    });
    listening.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_found_in_the_messages_of_common_programs() {
        for (line, port) in [
            (
                "curl: (7) failed to connect to localhost port 8000 after 0 ms: couldn't connect to server",
                8000,
            ),
            ("connection to server at \"localhost\" (127.0.0.1), port 5432 failed: connection refused", 5432),
            ("could not connect to redis at 127.0.0.1:6379: connection refused", 6379),
            ("error: connect econnrefused ::1:3000", 3000),
            ("dial tcp [::1]:8080: connect: connection refused", 8080),
            ("curl -s http://localhost:9/x", 9),
        ] {
            assert!(ports_in(line).contains(&port), "{line}: {:?}", ports_in(line));
        }
        assert!(ports_in("connect to example.com:80: connection refused").is_empty());
        assert!(ports_in("localhost: connection refused").is_empty());
    }

    #[test]
    fn ports_of_powerful_programs_are_asked_about_only_if_the_command_line_names_them() {
        for (port, command, expected) in [
            (2375, "npm test", false),
            (2375, "curl localhost:23750", false),
            (2375, "curl localhost:2375/info", true),
            (9229, "node inspect --port=9229", true),
            (5432, "npm test", true),
        ] {
            let found = found(port, is_believed(port, command));
            assert_eq!(found.right.is_some(), expected, "{port} {command}");
            assert_eq!(found.denial.strength == Strength::Strong, expected, "{port} {command}");
        }
    }
}
