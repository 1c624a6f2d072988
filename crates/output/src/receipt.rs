//! A receipt of what a run did: files, commands, hosts, calls and what allowed each, tokens and money.
//!
//! [`Receipt`] is folded from events, like the statistics, and shown as text or JSON. Every call carries a digest of
//! what the model asked for, so that `pollux sessions verify --receipt` can compare it with the session file.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, Mode};
use pollux_config::paths::sha256_hex;
use pollux_domain::event::{ActivityKind, CallOutcome, CallReport, Event, Permit};
use pollux_domain::id::CallId;
use pollux_domain::model::{MicroUsd, Usage};
use pollux_domain::plural::counted;
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{one_line, plain};
use pollux_domain::tool::{Display, RunFailure, ToolKind};
use serde_json::{Value, json};

use crate::stats::Stats;

/// The price of a model's tokens, if it is known.
pub type PriceOf = fn(&str, &Usage) -> Option<MicroUsd>;

/// The version of the document.
const VERSION: u32 = 1;
/// Calls that are listed one by one; later ones are only counted.
const MAX_CALLS: usize = 10_000;

/// What a run did so far.
#[derive(Debug, Default)]
pub struct Receipt {
    session: String,
    models: BTreeSet<String>,
    turns: u64,
    files: Vec<FileChange>,
    calls: Vec<ReceiptCall>,
    left_out: u64,
    /// Commands that the user ran with `!`, and how they ended.
    own_commands: Vec<(String, Option<String>)>,
    hosts: BTreeSet<String>,
    /// Calls that the model asked for, until they end: a person or a hook may change what runs.
    asked: HashMap<CallId, (String, String)>,
    /// The model was asked in this turn.
    has_model: bool,
}

/// A file that was changed.
#[derive(Debug)]
struct FileChange {
    path: PathBuf,
    is_new: bool,
    added: u64,
    removed: u64,
}

/// A call, as far as a receipt tells.
#[derive(Debug)]
struct ReceiptCall {
    id: String,
    tool: String,
    /// The agent that made it, unless it is the session's own.
    agent: Option<String>,
    outcome: &'static str,
    /// The command line and its exit code.
    command: Option<(String, Option<i32>)>,
    permit: Option<Permit>,
    /// What the model asked for: the tool, and the digest of its arguments. `None` for calls of a client.
    asked: Option<(String, String)>,
}

impl Receipt {
    pub fn fold(&mut self, event: &Event) {
        match event {
            Event::SessionReady { session, .. } => self.session = session.as_str().to_owned(),
            Event::PromptAccepted { .. } => self.turns += 1,
            Event::StepBegan { .. } => self.has_model = true,
            Event::TurnEnded(_) => self.has_model = false,
            Event::CallRequested(request) if self.has_model => {
                let asked = (request.name.clone(), digest(&request.args));
                self.asked.insert(request.call.clone(), asked);
            }
            Event::RequestEnded(ended) => {
                self.models.insert(ended.model_version.clone().unwrap_or_else(|| ended.model.clone()));
            }
            Event::CallFinished(report) => self.call(report, None),
            Event::Activity(activity) => {
                if let ActivityKind::CallEnded(report) = &activity.what {
                    self.call(report, Some(&activity.agent));
                }
            }
            Event::ShellEnded(report) => {
                self.own_commands.push((report.command.clone(), report.ending.clone()));
            }
            _ => {}
        }
    }

    fn call(&mut self, report: &CallReport, agent: Option<&String>) {
        if matches!(report.outcome, CallOutcome::Succeeded)
            && let Display::Diff(diff) = &report.display
        {
            let stat = diff.stat;
            self.changed(&diff.path, diff.before.is_none(), stat.added_lines, stat.removed_lines);
        }
        if let Some(sandbox) = &report.sandbox {
            self.hosts.extend(sandbox.hosts.iter().cloned());
        }
        if report.kind == ToolKind::Fetch && report.permit.is_some() {
            self.hosts.extend(report.args.values().filter_map(Value::as_str).flat_map(hosts_in));
        }
        if self.calls.len() >= MAX_CALLS {
            self.left_out += 1;
            return;
        }
        let command = report.args.get("command").and_then(Value::as_str);
        let command = command.filter(|_| report.kind == ToolKind::Execute);
        self.calls.push(ReceiptCall {
            id: report.call.as_str().to_owned(),
            tool: report.name.clone(),
            agent: agent.cloned(),
            outcome: outcome_word(report),
            command: command.map(|command| (command.to_owned(), exit_code(report))),
            permit: report.permit.clone(),
            asked: match (self.asked.remove(&report.call), agent) {
                (Some(asked), _) => Some(asked),
                (None, Some(_)) => Some((report.name.clone(), digest(&report.args))),
                (None, None) => None,
            },
        });
    }

    fn changed(&mut self, path: &Path, is_new: bool, added: u64, removed: u64) {
        match self.files.iter_mut().find(|known| known.path == path) {
            Some(known) => {
                known.added += added;
                known.removed += removed;
            }
            None => self.files.push(FileChange { path: path.to_path_buf(), is_new, added, removed }),
        }
    }

    /// The document for programs.
    pub fn json(&self, stats: &Stats, price: PriceOf) -> Value {
        let usage = stats.usage();
        let files = self.files.iter().map(|file| {
            json!({"path": file.path, "new": file.is_new, "added": file.added, "removed": file.removed})
        });
        let calls = self.calls.iter().map(|call| {
            let mut value = json!({
                "id": call.id,
                "tool": call.tool,
                "status": call.outcome,
                "allowedBy": call.permit.as_ref().map(permit_json),
            });
            if let Some((tool, digest)) = &call.asked {
                value["askedTool"] = json!(tool);
                value["askedSha256"] = json!(digest);
            }
            if let Some(agent) = &call.agent {
                value["agent"] = json!(agent);
            }
            if let Some((command, exit)) = &call.command {
                value["command"] = json!(command);
                value["exitCode"] = json!(exit);
            }
            value
        });
        let own =
            self.own_commands.iter().map(|(command, ending)| json!({"command": command, "ending": ending}));
        let mut document = json!({
            "receipt": VERSION,
            "sessionId": self.session,
            "turns": self.turns,
            "models": self.models,
            "files": files.collect::<Value>(),
            "calls": calls.collect::<Value>(),
            "callsLeftOut": self.left_out,
            "userCommands": own.collect::<Value>(),
            "hosts": self.hosts,
            "tokens": {
                "input": usage.input,
                "output": usage.output,
                "cached": usage.cached,
                "reasoning": usage.reasoning,
                "total": usage.total,
            },
            "costUsd": cost(stats, price).map(dollars),
        });
        redact_value(&mut document);
        document
    }

    /// Writes it to a file: text if its name ends with `.txt` or `.md`, otherwise JSON.
    pub fn save(&self, file: &Path, stats: &Stats, price: PriceOf) -> Result<(), FileError> {
        let text = if file.extension().is_some_and(|ending| ending == "txt" || ending == "md") {
            self.text(stats, price)
        } else {
            format!("{:#}\n", self.json(stats, price))
        };
        files::write_output(file, text.as_bytes(), Mode::Private)
    }

    /// The page for people.
    pub fn text(&self, stats: &Stats, price: PriceOf) -> String {
        let mut text = format!("Receipt of session {}\n", self.session);
        let usage = stats.usage();
        let models: Vec<&str> = self.models.iter().map(String::as_str).collect();
        let cost = match cost(stats, price) {
            Some(cost) => format!("{:.4} USD", dollars(cost)),
            None => "price unknown".to_owned(),
        };
        let _ = writeln!(
            text,
            "{}, {} tokens ({} in, {} out, {} cached), {cost}; {}",
            counted(self.turns, "turn"),
            usage.total,
            usage.input,
            usage.output,
            usage.cached,
            if models.is_empty() { "no model was asked".to_owned() } else { models.join(", ") },
        );
        section(
            &mut text,
            "Files changed",
            self.files.iter().map(|file| {
                let new = if file.is_new { " (new)" } else { "" };
                format!("{}{new}  +{} -{}", file.path.display(), file.added, file.removed)
            }),
        );
        section(
            &mut text,
            "Commands run",
            self.calls
                .iter()
                .filter_map(|call| {
                    let (command, exit) = call.command.as_ref()?;
                    let exit = exit.map_or_else(|| call.outcome.to_owned(), |code| format!("exit {code}"));
                    Some(format!("{}  {exit}", one_line(command)))
                })
                .chain(self.own_commands.iter().map(|(command, ending)| {
                    format!("!{}  {}", one_line(command), ending.as_deref().unwrap_or("exit 0"))
                })),
        );
        section(&mut text, "Hosts contacted", self.hosts.iter().cloned());
        section(
            &mut text,
            "Calls and what allowed them",
            self.calls.iter().map(|call| {
                let allowed = call.permit.as_ref().map_or_else(|| "-".to_owned(), permit_text);
                let agent = call.agent.as_ref().map(|agent| format!(" ({agent})")).unwrap_or_default();
                format!("{}{agent}  {}  {allowed}", call.tool, call.outcome)
            }),
        );
        if self.left_out > 0 {
            let _ = writeln!(text, "  … and {} more", self.left_out);
        }
        redacted(&plain(&text)).into_owned()
    }
}

/// Writes a receipt to a file when a turn ends.
pub(crate) struct ReceiptFile {
    path: PathBuf,
    price: PriceOf,
    receipt: Receipt,
    stats: Stats,
}

impl ReceiptFile {
    pub(crate) fn new(path: PathBuf, price: PriceOf) -> Self {
        Self { path, price, receipt: Receipt::default(), stats: Stats::default() }
    }

    /// Takes one event; writes the file at the end of a turn.
    pub(crate) fn event(&mut self, event: &Event) -> Result<(), FileError> {
        self.receipt.fold(event);
        self.stats.fold(event);
        if !matches!(event, Event::TurnEnded(_)) {
            return Ok(());
        }
        self.receipt.save(&self.path, &self.stats, self.price)
    }
}

fn section(text: &mut String, heading: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = write!(text, "\n{heading}\n");
        lines.for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
}

fn outcome_word(report: &CallReport) -> &'static str {
    match &report.outcome {
        CallOutcome::Succeeded => "success",
        CallOutcome::Failed(_) => "error",
        CallOutcome::Cancelled => "cancelled",
    }
}

/// The exit code of a command that ended.
fn exit_code(report: &CallReport) -> Option<i32> {
    match (&report.outcome, report.outcome.run_failure()) {
        (_, Some(RunFailure::ExitCode(code))) => Some(*code),
        (CallOutcome::Succeeded, None) => Some(0),
        _ => None,
    }
}

/// The digest of a call's arguments, with their keys in order.
pub fn digest(args: &pollux_domain::JsonObject) -> String {
    let ordered: std::collections::BTreeMap<&String, &Value> = args.iter().collect();
    sha256_hex(json!(ordered).to_string().as_bytes())
}

fn permit_json(permit: &Permit) -> Value {
    match permit {
        Permit::Rule { name, tier, source, line } => {
            json!({"rule": name, "tier": tier, "source": source, "line": line})
        }
        Permit::Mode(mode) => json!({"mode": mode.to_string()}),
        Permit::User(front) => json!({"user": front.as_ref().map(ToString::to_string)}),
    }
}

fn permit_text(permit: &Permit) -> String {
    match permit {
        Permit::Rule { name, tier, source, line } => {
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            format!("rule `{}` ({tier}, {}{line})", one_line(name), one_line(source))
        }
        Permit::Mode(mode) => format!("approval mode {mode}"),
        Permit::User(Some(front)) => format!("approved by you ({front})"),
        Permit::User(None) => "approved by you".to_owned(),
    }
}

/// What the models cost; `None` if the price of one of them is not known.
fn cost(stats: &Stats, price: PriceOf) -> Option<MicroUsd> {
    let mut sum = MicroUsd(0);
    for (model, counts) in &stats.models {
        let usage = &counts.api.usage;
        match price(model, usage) {
            Some(amount) => sum += amount,
            None if usage.total == 0 => {}
            None => return None,
        }
    }
    Some(sum)
}

fn dollars(amount: MicroUsd) -> f64 {
    amount.0 as f64 / 1e6
}

/// Hosts of the URLs in a text.
fn hosts_in(text: &str) -> Vec<String> {
    let urls = text.split(|c: char| c.is_whitespace() || "<>\"'`,()".contains(c));
    let host = |url: &str| {
        let (scheme, rest) = url.split_once("://")?;
        if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
            return None;
        }
        // As a URL parser reads it: a backslash is a slash, and further slashes are skipped.
        let authority = rest.trim_start_matches(['/', '\\']).split(['/', '\\', '?', '#']).next()?;
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let host = host.trim_end_matches(['.', ';', ':', '!']);
        (!host.is_empty()).then(|| host.to_ascii_lowercase())
    };
    urls.filter_map(host).collect()
}

#[cfg(test)]
mod tests;
