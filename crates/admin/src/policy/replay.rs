//! The calls of past sessions through the rules of today.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::PathBuf;

use pollux_domain::JsonObject;
use pollux_domain::failure::Failure;
use pollux_domain::plural::counted;
use pollux_domain::terminal_text::plain;
use serde_json::{Value, json};

use super::{Depth, PolicyCall, PolicyView, Rules};
use crate::context::Context;

/// Longest arguments in the list for people, in characters.
const SHOWN_ARGS: usize = 160;

/// Longest text of an argument in the list for programs, in characters.
const KEPT_TEXT: usize = 1000;

/// Sessions to go through.
#[derive(Debug, Default)]
pub struct PastSessions {
    pub sessions: Vec<PastSession>,
    /// Lines about files that could not be read.
    pub unreadable: Vec<String>,
}

/// A session that was found.
#[derive(Debug, Clone)]
pub struct PastSession {
    pub id: String,
    pub path: PathBuf,
    /// Of this project, so that its paths mean something.
    pub is_here: bool,
}

/// A call that was made.
#[derive(Debug, Clone)]
pub struct PastCall {
    pub tool: String,
    pub args: JsonObject,
}

/// What the rules say about all of them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    sessions: usize,
    all: Counts,
    tools: BTreeMap<String, Counts>,
    stopped: Vec<Stopped>,
    unreadable: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    allow: usize,
    ask: usize,
    deny: usize,
}

/// A call that would not simply run.
#[derive(Debug)]
struct Stopped {
    session: String,
    tool: String,
    args: Value,
    /// How often this very call was made.
    times: usize,
    decision: &'static str,
    reason: String,
    outcome: Value,
}

/// Goes through the sessions; what cannot be read is named and left out.
pub(super) fn replay(
    rules: &Rules,
    past: &PastSessions,
    view: PolicyView,
    context: &mut Context<'_>,
) -> Result<Tally, Failure> {
    let mut tally = Tally { unreadable: past.unreadable.clone(), ..Tally::default() };
    let mut known = HashMap::new();
    let progress = Progress::of(past.sessions.len(), context.err_is_terminal);
    for (index, session) in past.sessions.iter().enumerate() {
        progress.show(index, context.err);
        let calls = match rules.calls(session) {
            Ok(calls) => calls,
            Err(reason) => {
                tally.unreadable.push(reason);
                continue;
            }
        };
        tally.sessions += 1;
        let depth = if session.is_here { Depth::Still } else { Depth::Rules };
        for call in calls {
            tally.add(
                rules,
                session,
                PolicyCall { tool: call.tool, args: call.args, view },
                depth,
                &mut known,
            )?;
        }
    }
    progress.end(context.err);
    for reason in &tally.unreadable {
        let _ = writeln!(context.err, "{}", plain(reason));
    }
    Ok(tally)
}

impl Tally {
    fn add(
        &mut self,
        rules: &Rules,
        session: &PastSession,
        call: PolicyCall,
        depth: Depth,
        known: &mut HashMap<String, usize>,
    ) -> Result<(), Failure> {
        let outcome = rules.explain(&call, depth)?;
        self.all.add(outcome.decision);
        self.tools.entry(call.tool.clone()).or_default().add(outcome.decision);
        if outcome.decision == "allow" {
            return Ok(());
        }
        let args = shortened(&Value::Object(call.args));
        let key = format!("{}\0{}\0{args}", call.tool, outcome.decision);
        if let Some(stopped) = known.get(&key).and_then(|place| self.stopped.get_mut(*place)) {
            stopped.times += 1;
            return Ok(());
        }
        known.insert(key, self.stopped.len());
        self.stopped.push(Stopped {
            session: session.id.clone(),
            tool: call.tool,
            args,
            times: 1,
            decision: outcome.decision,
            reason: outcome.reason,
            outcome: outcome.json,
        });
        Ok(())
    }

    pub(super) fn text(&self) -> String {
        let all = self.all;
        let mut text = format!(
            "{} in {}: {} allow, {} ask, {} deny\n",
            counted(all.sum(), "call"),
            counted(self.sessions, "session"),
            all.allow,
            all.ask,
            all.deny
        );
        if !self.tools.is_empty() {
            let width = self.tools.keys().map(|tool| tool.chars().count()).max().unwrap_or_default().max(4);
            text.push_str(&format!("\n{:width$}  {:>7} {:>7} {:>7}\n", "tool", "allow", "ask", "deny"));
            for (tool, counts) in &self.tools {
                let Counts { allow, ask, deny } = counts;
                text.push_str(&format!("{tool:width$}  {allow:>7} {ask:>7} {deny:>7}\n"));
            }
        }
        if !self.stopped.is_empty() {
            text.push('\n');
        }
        for stopped in &self.stopped {
            let args = stopped.args.to_string();
            let cut: String = args.chars().take(SHOWN_ARGS).collect();
            let dots = if cut.len() < args.len() { "…" } else { "" };
            let times = if stopped.times > 1 { format!(" ({} times)", stopped.times) } else { String::new() };
            let Stopped { decision, tool, reason, .. } = stopped;
            text.push_str(&format!("{decision:4}  {tool} {cut}{dots}{times}: {reason}\n"));
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let tools: serde_json::Map<String, Value> =
            self.tools.iter().map(|(tool, counts)| (tool.clone(), counts.json())).collect();
        let stopped: Vec<Value> = self.stopped.iter().map(Stopped::json).collect();
        let all = json!({
            "sessions": self.sessions,
            "calls": self.all.sum(),
            "allow": self.all.allow,
            "ask": self.all.ask,
            "deny": self.all.deny,
            "tools": tools,
            "stopped": stopped,
            "unreadable": self.unreadable,
        });
        format!("{all:#}\n")
    }
}

impl Stopped {
    fn json(&self) -> Value {
        let mut all = json!({
            "session": self.session,
            "tool": self.tool,
            "args": self.args,
            "times": self.times,
        });
        if let (Some(all), Some(outcome)) = (all.as_object_mut(), self.outcome.as_object()) {
            all.extend(outcome.clone());
        }
        all
    }
}

impl Counts {
    fn add(&mut self, decision: &str) {
        match decision {
            "allow" => self.allow += 1,
            "ask" => self.ask += 1,
            _ => self.deny += 1,
        }
    }

    fn sum(self) -> usize {
        self.allow + self.ask + self.deny
    }

    fn json(&self) -> Value {
        json!({"allow": self.allow, "ask": self.ask, "deny": self.deny})
    }
}

/// Arguments without the bulk of a file's content.
fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) => match text.char_indices().nth(KEPT_TEXT) {
            None => value.clone(),
            Some(_) => Value::String(text.chars().take(KEPT_TEXT).chain(['…']).collect()),
        },
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shortened(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// A line on stderr that counts, for a person who waits.
struct Progress {
    total: usize,
    shown: bool,
}

impl Progress {
    fn of(total: usize, watched: bool) -> Self {
        Self { total, shown: total > 20 && watched }
    }

    fn show(&self, index: usize, err: &mut dyn Write) {
        if self.shown && index.is_multiple_of(10) {
            let _ = write!(err, "\rsession {} of {}", index + 1, self.total);
        }
    }

    fn end(&self, err: &mut dyn Write) {
        if self.shown {
            let _ = write!(err, "\r\u{1b}[K");
        }
    }
}
