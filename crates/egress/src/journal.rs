//! The record of connections: log lines and the denials of a session.
//!
//! A line says who reached which host, never a path, a header or content.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::sync::Locked;
use pollux_domain::time::Clock;
use serde_json::{Map, Value, json};

/// Maximum number of different denials that are kept.
const MAX_DENIALS: usize = 256;
/// Maximum number of different hosts that are kept for a command.
const MAX_REACHED: usize = 1024;
/// Maximum number of hosts of all commands; those of the oldest ones are dropped.
const MAX_ALL_REACHED: usize = 4 * MAX_REACHED;
/// Maximum size of a log.
const MAX_LOG: u64 = 16 * 1024 * 1024;

/// Who opened a connection, as far as that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The id of the command in the session.
    pub command: Option<String>,
    /// The program, as in `npm install`.
    pub program: Option<String>,
    /// The port at its end, in the network that it is in.
    pub port: Option<u16>,
}

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Allowed,
    Refused,
    /// Allowed, but the host could not be reached or did not speak the protocol.
    Failed,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allow",
            Self::Refused => "deny",
            Self::Failed => "error",
        }
    }
}

/// One connection or, for plain HTTP, one request.
#[derive(Debug, Clone)]
pub struct ConnectionEntry {
    pub caller: Caller,
    pub host: String,
    pub port: u16,
    pub outcome: Outcome,
    /// The rule or the reason.
    pub rule: String,
    /// Bytes in both directions.
    pub bytes: u64,
    pub time: Duration,
}

/// A refused connection, with the fields that approvals, events and hooks use for sandbox denials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    pub command: Option<String>,
    pub target: String,
    pub port: u16,
    pub rule: String,
    /// How often it happened.
    pub count: u64,
}

impl Denial {
    /// The denial as JSON. It is certain: the proxy itself refused.
    pub fn to_json(&self) -> Value {
        json!({"kind": "connect", "target": self.target, "port": self.port, "strength": "certain", "rule": self.rule})
    }
}

/// Writes log lines and keeps denials.
pub struct Journal {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sink: Option<Box<dyn Write + Send>>,
    written: u64,
    denials: Vec<Denial>,
    /// Commands and the hosts that they reached.
    reached: Vec<(String, String)>,
}

impl Journal {
    /// A journal without a log.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// A journal whose lines are written to `sink`, at most 16 MiB of them.
    pub fn with_log(clock: Arc<dyn Clock>, sink: Box<dyn Write + Send>) -> Self {
        Self { clock, state: Mutex::new(State { sink: Some(sink), ..State::default() }) }
    }

    /// Adds an entry.
    pub fn record(&self, entry: &ConnectionEntry) {
        let line = self.line(entry);
        let mut state = self.state.locked();
        state.write(&line);
        match entry.outcome {
            Outcome::Refused => state.deny(entry),
            Outcome::Allowed => state.reach(entry),
            Outcome::Failed => {}
        }
    }

    /// The denials so far; those of one command if it is named.
    pub fn denials(&self, command: Option<&str>) -> Vec<Denial> {
        let state = self.state.locked();
        let wanted = |denial: &&Denial| command.is_none() || denial.command.as_deref() == command;
        state.denials.iter().filter(wanted).cloned().collect()
    }

    /// Takes the hosts that a command reached, as `host:port`.
    pub fn take_hosts(&self, command: &str) -> Vec<String> {
        let mut state = self.state.locked();
        let own = state.reached.extract_if(.., |(known, _)| known == command);
        own.map(|(_, host)| host).collect()
    }

    fn line(&self, entry: &ConnectionEntry) -> String {
        let mut fields = Map::new();
        fields.insert("time".to_owned(), json!(self.clock.now().to_iso()));
        if let Some(command) = &entry.caller.command {
            fields.insert("command".to_owned(), json!(command));
        }
        if let Some(program) = &entry.caller.program {
            fields.insert("program".to_owned(), json!(program));
        }
        fields.insert("host".to_owned(), json!(entry.host));
        fields.insert("port".to_owned(), json!(entry.port));
        fields.insert("decision".to_owned(), json!(entry.outcome.as_str()));
        fields.insert("rule".to_owned(), json!(entry.rule));
        fields.insert("bytes".to_owned(), json!(entry.bytes));
        fields.insert("ms".to_owned(), json!(u64::try_from(entry.time.as_millis()).unwrap_or(u64::MAX)));
        let mut line = Value::Object(fields).to_string();
        line.push('\n');
        line
    }
}

impl State {
    fn write(&mut self, line: &str) {
        let Some(sink) = &mut self.sink else { return };
        self.written += line.len() as u64;
        let text = if self.written > MAX_LOG { "{\"truncated\":true}\n" } else { line };
        // A full disk ends the log, not the connections.
        let failed = sink.write_all(text.as_bytes()).and_then(|()| sink.flush()).is_err();
        if failed || self.written > MAX_LOG {
            self.sink = None;
        }
    }

    fn reach(&mut self, entry: &ConnectionEntry) {
        // Hosts are taken by command, so those of an unknown one would stay.
        let Some(command) = entry.caller.command.clone() else { return };
        let reached = (command, format!("{}:{}", entry.host, entry.port));
        let own = self.reached.iter().filter(|(command, _)| *command == reached.0).count();
        if own < MAX_REACHED && !self.reached.contains(&reached) {
            self.reached.push(reached);
            let extra = self.reached.len().saturating_sub(MAX_ALL_REACHED);
            self.reached.drain(..extra);
        }
    }

    fn deny(&mut self, entry: &ConnectionEntry) {
        let same = |known: &&mut Denial| {
            known.target == entry.host
                && known.port == entry.port
                && known.rule == entry.rule
                && known.command == entry.caller.command
        };
        if let Some(known) = self.denials.iter_mut().find(same) {
            known.count += 1;
        } else if self.denials.len() < MAX_DENIALS {
            let (target, rule) = (entry.host.clone(), entry.rule.clone());
            let command = entry.caller.command.clone();
            self.denials.push(Denial { command, target, port: entry.port, rule, count: 1 });
        }
    }
}

#[cfg(test)]
mod tests {
    use pollux_domain::time::Timestamp;

    use super::*;

    struct Fixed;

    impl Clock for Fixed {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(0)
        }
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn entry(host: &str, outcome: Outcome) -> ConnectionEntry {
        let caller = Caller { command: Some("c1".to_owned()), program: None, port: None };
        let (rule, time) = ("no rule".to_owned(), Duration::from_millis(7));
        ConnectionEntry { caller, host: host.to_owned(), port: 443, outcome, rule, bytes: 12, time }
    }

    #[test]
    fn a_line_has_the_documented_fields() {
        let out = Shared::default();
        let journal = Journal::with_log(Arc::new(Fixed), Box::new(out.clone()));
        journal.record(&entry("a.example", Outcome::Allowed));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let expected = r#"{"time":"1970-01-01T00:00:00.000Z","command":"c1","host":"a.example","port":443,"decision":"allow","rule":"no rule","bytes":12,"ms":7}"#;
        assert_eq!(text.trim_end(), expected);
    }

    #[test]
    fn hosts_are_those_that_a_command_reached() {
        let journal = Journal::new(Arc::new(Fixed));
        for (host, outcome) in [
            ("a.example", Outcome::Allowed),
            ("a.example", Outcome::Allowed),
            ("b.example", Outcome::Refused),
            ("c.example", Outcome::Failed),
        ] {
            journal.record(&entry(host, outcome));
        }
        assert!(journal.take_hosts("c2").is_empty());
        assert_eq!(journal.take_hosts("c1"), ["a.example:443"]);
        assert!(journal.take_hosts("c1").is_empty(), "they are taken");
    }

    #[test]
    fn hosts_that_nobody_takes_are_bounded() {
        let journal = Journal::new(Arc::new(Fixed));
        let reach = |command: Option<String>, host: usize| {
            let mut entry = entry(&format!("{host}.example"), Outcome::Allowed);
            entry.caller.command = command;
            journal.record(&entry);
        };
        for command in 0..MAX_ALL_REACHED / 512 + 1 {
            (0..512).for_each(|host| reach(Some(format!("c{command}")), host));
        }
        (0..10).for_each(|host| reach(None, host));
        assert_eq!(journal.state.locked().reached.len(), MAX_ALL_REACHED);
        assert!(journal.take_hosts("c0").is_empty(), "the oldest are dropped");
        assert_eq!(journal.take_hosts("c1").len(), 512);
        (0..2 * MAX_REACHED).for_each(|host| reach(Some("many".to_owned()), host));
        assert_eq!(journal.take_hosts("many").len(), MAX_REACHED);
    }

    #[test]
    fn denials_are_merged_and_bounded() {
        let journal = Journal::new(Arc::new(Fixed));
        journal.record(&entry("a.example", Outcome::Allowed));
        for number in 0..2 * MAX_DENIALS {
            journal.record(&entry(&format!("{}.example", number % (MAX_DENIALS + 9)), Outcome::Refused));
        }
        assert_eq!(journal.denials(None).len(), MAX_DENIALS);
        assert_eq!(journal.denials(Some("c2")), []);
        let first = &journal.denials(Some("c1"))[0];
        assert_eq!(first.count, 2);
        let json = json!({"kind": "connect", "target": "0.example", "port": 443, "strength": "certain", "rule": "no rule"});
        assert_eq!(first.to_json(), json);
    }
}
