//! Rights of sandboxed commands: what was refused, asked for and granted.
//!
//! The words and the JSON are the same in events, hooks and reports. Does not decide or enforce anything.

use serde_json::{Map, Value, json};

use crate::terminal_text;

/// A kind of access that can be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RightKind {
    Write,
    Read,
    Host,
    Port,
    Socket,
}

impl RightKind {
    pub const ALL: [Self; 5] = [Self::Write, Self::Read, Self::Host, Self::Port, Self::Socket];

    /// The word in flags, files and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Host => "host",
            Self::Port => "port",
            Self::Socket => "socket",
        }
    }
}

/// One right: a kind of access and its target.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Right {
    pub kind: RightKind,
    /// A real path, `host:port` or a port.
    pub target: String,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.kind.as_str(), self.target)
    }
}

/// How long a grant lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantScope {
    /// For one command.
    Once,
    Session,
    /// In this project from now on.
    Project,
    /// Everywhere from now on.
    Always,
}

impl GrantScope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Project => "project",
            Self::Always => "all",
        }
    }
}

/// Who granted a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantedBy {
    User,
    Flag,
    Settings,
    /// The user's `sandbox.toml`.
    File,
}

impl GrantedBy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Flag => "flag",
            Self::Settings => "settings",
            Self::File => "sandbox.toml",
        }
    }
}

/// A right that a command has beyond the sandbox's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub right: Right,
    pub scope: GrantScope,
    pub by: GrantedBy,
}

/// What was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialKind {
    Write,
    Read,
    Exec,
    Connect,
    Socket,
    Signal,
    Limit,
}

impl DenialKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Exec => "exec",
            Self::Connect => "connect",
            Self::Socket => "socket",
            Self::Signal => "signal",
            Self::Limit => "limit",
        }
    }
}

/// How sure it is that the sandbox refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// The part that refused it says so.
    Certain,
    /// The output names a path that only the sandbox closes.
    Strong,
    Weak,
}

impl Strength {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Strong => "strong",
            Self::Weak => "weak",
        }
    }
}

/// An access that the sandbox refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    pub kind: DenialKind,
    pub target: String,
    pub port: Option<u16>,
    pub strength: Strength,
    /// The rule that refused it.
    pub rule: String,
}

/// A protected file that a command changed, and how it was handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TripwireHit {
    pub path: String,
    pub action: String,
}

/// The sandbox of one command, and what it refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxReport {
    pub level: String,
    pub mode: String,
    pub network: String,
    pub denials: Vec<Denial>,
    pub requested: Vec<Right>,
    pub granted: Vec<Grant>,
    /// Whether the command ran a second time with more rights.
    pub rerun: bool,
    pub tripwire: Vec<TripwireHit>,
    /// Hosts that it reached through the proxy, with their ports.
    pub hosts: Vec<String>,
}

impl Denial {
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("kind".to_owned(), self.kind.as_str().into());
        fields.insert("target".to_owned(), self.target.as_str().into());
        if let Some(port) = self.port {
            fields.insert("port".to_owned(), port.into());
        }
        fields.insert("strength".to_owned(), self.strength.as_str().into());
        fields.insert("rule".to_owned(), self.rule.as_str().into());
        Value::Object(fields)
    }
}

impl Right {
    pub fn to_json(&self) -> Value {
        json!({"kind": self.kind.as_str(), "target": self.target})
    }
}

impl Grant {
    pub fn to_json(&self) -> Value {
        let Right { kind, target } = &self.right;
        json!({"kind": kind.as_str(), "target": target, "scope": self.scope.as_str(), "by": self.by.as_str()})
    }
}

impl SandboxReport {
    /// The `sandbox` field of events and hooks.
    pub fn to_json(&self) -> Value {
        let hits = self.tripwire.iter().map(|hit| json!({"path": hit.path, "action": hit.action}));
        json!({
            "level": self.level,
            "mode": self.mode,
            "network": self.network,
            "denials": self.denials.iter().map(Denial::to_json).collect::<Vec<_>>(),
            "requested": self.requested.iter().map(Right::to_json).collect::<Vec<_>>(),
            "granted": self.granted.iter().map(Grant::to_json).collect::<Vec<_>>(),
            "rerun": self.rerun,
            "tripwire": hits.collect::<Vec<_>>(),
            "hosts": self.hosts,
        })
    }
}

/// A question about one right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RightQuestion {
    pub right: Right,
    /// The command line that wants it.
    pub command: Option<String>,
    /// The program of it that was refused, if that is known.
    pub program: Option<String>,
    /// The tool call that runs it.
    pub call: Option<String>,
    /// Why exactly this right is needed, if that is not obvious.
    pub note: Option<String>,
    /// Whether the command runs again if the right is granted; otherwise it waits.
    pub rerun: bool,
}

impl RightQuestion {
    /// The fields of requests for approval and of hooks.
    pub fn to_json(&self) -> Value {
        json!({
            "kind": self.right.kind.as_str(),
            "target": self.right.target,
            "program": self.program,
            "callId": self.call,
            "rerun": self.rerun,
        })
    }

    /// The question as one line.
    pub fn sentence(&self) -> String {
        // Names can hide parts of themselves, or look like something else.
        let target = &terminal_text::name(&self.right.target);
        let note = self.note.as_deref().map(terminal_text::name);
        let why = note.map(|note| format!(" ({note})")).unwrap_or_default();
        let of_command = || self.command.as_deref().and_then(program);
        let who = self.program.as_deref().or_else(of_command).unwrap_or("A command");
        let who = &terminal_text::name(who);
        match self.right.kind {
            RightKind::Write => format!("{who} was not allowed to write to {target}{why}"),
            RightKind::Read => format!("{who} was not allowed to read {target}{why}"),
            RightKind::Host => format!("{who} wants to connect to {target}{why}"),
            RightKind::Port => format!("{who} wants to connect to port {target} of this machine{why}"),
            RightKind::Socket => format!("{who} was not allowed to connect to the socket {target}{why}"),
        }
    }
}

/// The program of a command line, without its folder.
fn program(command: &str) -> Option<&str> {
    let mut words = command.split_whitespace();
    let word = words.find(|word| !word.contains('='))?;
    word.rsplit('/').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_documented_fields() {
        let right = Right { kind: RightKind::Write, target: "/home/u/x".to_owned() };
        let denial = |kind, port| Denial {
            kind,
            target: "t".to_owned(),
            port,
            strength: Strength::Strong,
            rule: "r".to_owned(),
        };
        let report = SandboxReport {
            level: "namespaces".to_owned(),
            mode: "workspace".to_owned(),
            network: "proxy".to_owned(),
            denials: vec![denial(DenialKind::Write, None), denial(DenialKind::Connect, Some(443))],
            requested: vec![right.clone()],
            granted: vec![Grant { right, scope: GrantScope::Once, by: GrantedBy::User }],
            rerun: true,
            tripwire: vec![TripwireHit { path: "/w/.envrc".to_owned(), action: "renamed".to_owned() }],
            hosts: vec!["a.example:443".to_owned()],
        };
        let expected = json!({
            "level": "namespaces", "mode": "workspace", "network": "proxy",
            "denials": [
                {"kind": "write", "target": "t", "strength": "strong", "rule": "r"},
                {"kind": "connect", "target": "t", "port": 443, "strength": "strong", "rule": "r"},
            ],
            "requested": [{"kind": "write", "target": "/home/u/x"}],
            "granted": [{"kind": "write", "target": "/home/u/x", "scope": "once", "by": "user"}],
            "rerun": true,
            "tripwire": [{"path": "/w/.envrc", "action": "renamed"}],
            "hosts": ["a.example:443"],
        });
        assert_eq!(report.to_json(), expected);
    }

    #[test]
    fn a_question_names_the_program_and_the_target() {
        let right = Right { kind: RightKind::Host, target: "a.example:443".to_owned() };
        let question = |command: &str| {
            let command = Some(command.to_owned());
            let (program, call, note) = (None, None, None);
            RightQuestion { right: right.clone(), command, program, call, note, rerun: false }.sentence()
        };
        assert_eq!(question("X=1 /usr/bin/npm install"), "npm wants to connect to a.example:443");
        assert_eq!(question(""), "A command wants to connect to a.example:443");
        let right = Right { kind: RightKind::Write, target: "/h/a\u{2028}b\u{202e}c\nd".to_owned() };
        let question = RightQuestion {
            right,
            command: Some("x\u{200b}y".to_owned()),
            program: None,
            call: None,
            note: None,
            rerun: true,
        };
        let expected = "x<U+200B>y was not allowed to write to /h/a<U+2028>b<U+202E>c<U+000A>d";
        assert_eq!(question.sentence(), expected);
        let (program, note) = (Some("p\u{202e}q".to_owned()), Some("to replace a\nb".to_owned()));
        let question = RightQuestion { program, note, ..question };
        let expected =
            "p<U+202E>q was not allowed to write to /h/a<U+2028>b<U+202E>c<U+000A>d (to replace a<U+000A>b)";
        assert_eq!(question.sentence(), expected);
    }
}
