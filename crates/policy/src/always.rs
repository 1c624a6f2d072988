//! "Always allow": narrows an approval to the call it was given for and turns it into a rule.
//!
//! Use [`Grant::narrow`] to find out what an approval may cover, then put the grant into force on the
//! [`Engine`]. Does not prompt the user; saving to disk is in `save`.

mod definitions;
mod save;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use pollux_domain::approval::ApprovalMode;
use serde_json::Value;

use crate::engine::{Engine, called, leaves_no_file, program_base};
use crate::file::{RuleOrigin, parse};
use crate::pattern::json_string;
use crate::request::{Request, RuleSource};
use crate::rule::Rule;
use crate::shell::{self, Part};
use crate::tier::{Rank, Tier};
use crate::tool_name::{SHELL, qualified};

pub use definitions::{ApprovedDefinitions, DefinitionStatus};
pub use save::{SaveError, save};

/// Programs that run code from their arguments: an approval for one call says nothing about the next.
const RUNS_OTHERS: &[&str] = &[
    "awk", "bash", "dash", "docker", "doas", "env", "eval", "exec", "find", "node", "perl", "php", "podman",
    "python", "python3", "ruby", "sh", "source", "ssh", "su", "sudo", "xargs", "zsh", ".",
];

/// Destructive commands that are described per command line.
const TOLD: usize = 5;

/// Source of the rules created by approvals for this session.
const THIS_SESSION: &str = "this session";

/// How much of a server an approval covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantScope {
    /// This tool, narrowed to the subject of the call.
    Tool,
    /// Every tool of the call's MCP server.
    Server,
}

/// A narrowed "always allow" approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The tool, without `mcp_<server>_`; `None` for every tool of the server.
    pub tool: Option<String>,
    pub server: Option<String>,
    /// For the shell: the first words of each command.
    pub command_prefixes: Vec<String>,
    /// For file tools: a regex over the arguments.
    pub args_pattern: Option<String>,
    pub allow_redirection: bool,
    /// The mode it was given in and the more permissive ones.
    pub modes: Vec<ApprovalMode>,
    /// Description of its scope, shown before it is accepted.
    pub shown: String,
}

impl Grant {
    /// The scope of "always allow" for a call; `None` where it must not be offered.
    pub fn narrow(request: &Request<'_>, reach: GrantScope) -> Option<Self> {
        let name = called(request);
        let mut grant = Self {
            tool: Some(name.canonical().to_owned()),
            server: None,
            command_prefixes: Vec::new(),
            args_pattern: None,
            allow_redirection: false,
            modes: modes_from(request.mode),
            shown: String::new(),
        };
        if let Some(server) = request.server {
            return grant.for_server(request, server, reach);
        }
        let key = match name.canonical() {
            SHELL => return grant.for_shell(request),
            "read_file" | "write_file" | "replace" => "file_path",
            "list_directory" => "dir_path",
            "glob" | "grep_search" => "pattern",
            "read_many_files" => "include",
            tool => {
                grant.shown = format!("every call of {tool}");
                return Some(grant);
            }
        };
        let value = request.args.get(key)?;
        let pair = format!("{}:{}", json_string(key), canonical_value(value)?);
        let pattern = format!(r"\x00{}\x00", escaped(&pair));
        if pattern.chars().count() > 2048 {
            return None;
        }
        grant.shown = format!("{} with {key} {value}", name.canonical());
        grant.args_pattern = Some(pattern);
        Some(grant)
    }

    fn for_server(mut self, request: &Request<'_>, server: &str, reach: GrantScope) -> Option<Self> {
        // In a rule it would stand for other servers.
        if server.contains('*') {
            return None;
        }
        self.server = Some(server.to_owned());
        if reach == GrantScope::Server {
            self.tool = None;
            self.shown = format!("every tool of server {server}");
            return Some(self);
        }
        let start = qualified(server, "");
        let bare = request.tool.strip_prefix(start.as_str()).unwrap_or(request.tool);
        self.shown = format!("every call of {bare} of server {server}");
        self.tool = Some(bare.to_owned());
        Some(self)
    }

    fn for_shell(mut self, request: &Request<'_>) -> Option<Self> {
        let command = request.args.get("command").and_then(Value::as_str)?;
        let understood = shell::analyse(command);
        if !understood.doubts.is_empty() || understood.parts.is_empty() {
            return None;
        }
        for part in &understood.parts {
            // A destructive command is only approved for this one call.
            if shell::is_dangerous(part).is_some() {
                return None;
            }
        }
        self.allow_redirection = !understood.redirections.iter().all(leaves_no_file);
        // Among other commands, one that only reads needs no rule; a rule would cover secrets, and files anywhere.
        let needs_rule = |part: &&Part| self.allow_redirection || shell::reads(part).is_none();
        let mut covered: Vec<&Part> = understood.parts.iter().filter(needs_rule).collect();
        if covered.is_empty() {
            covered.extend(&understood.parts);
        }
        for part in covered {
            let prefix = root(part)?;
            if !self.command_prefixes.contains(&prefix) {
                self.command_prefixes.push(prefix);
            }
        }
        let list: Vec<String> = self.command_prefixes.iter().map(|prefix| format!("`{prefix} …`")).collect();
        let files = if self.allow_redirection { ", with output to files" } else { "" };
        self.shown = format!("commands that begin with {}{files}", list.join(", "));
        Some(self)
    }

    /// The rule as TOML, to be appended to `auto-saved.toml`.
    pub fn to_toml(&self) -> String {
        let mut out = String::from("[[rule]]\n");
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(out, "{key} = {value}");
        };
        if let Some(server) = &self.server {
            line("mcpName", &toml_string(server));
        }
        line("toolName", &toml_string(self.tool.as_deref().unwrap_or("*")));
        line("decision", "\"allow\"");
        line("priority", &Rank::ALWAYS.to_string());
        if !self.command_prefixes.is_empty() {
            line("commandPrefix", &toml_array(self.command_prefixes.iter().map(String::as_str)));
        }
        if let Some(pattern) = &self.args_pattern {
            line("argsPattern", &toml_string(pattern));
        }
        if self.allow_redirection {
            line("allowRedirection", "true");
        }
        line("modes", &toml_array(self.modes.iter().map(|mode| mode_word(*mode))));
        out
    }

    /// A saved file's text with this rule in it. A rule that differs only in its modes or in redirections is
    /// updated in place; the rest of the file is preserved.
    pub fn merged_into(&self, saved: &str) -> Result<String, InvalidSavedRules> {
        if let Err(error) = toml::de::DeTable::parse(saved) {
            return Err(InvalidSavedRules(error.message().to_owned()));
        }
        let own = self.to_toml();
        let mut out = String::with_capacity(saved.len() + own.len() + 1);
        let mut placed = false;
        for block in blocks(saved) {
            if !placed && unchanging(&block) == unchanging(&own) {
                out.push_str(&self.joined(&block).to_toml());
                if block.ends_with("\n\n") {
                    out.push('\n');
                }
                placed = true;
            } else {
                out.push_str(&block);
            }
        }
        if !placed {
            if !out.is_empty() {
                out.push_str(if out.ends_with('\n') { "\n" } else { "\n\n" });
            }
            out.push_str(&own);
        }
        Ok(out)
    }

    /// This grant with the modes and the redirection of an older block like it.
    fn joined(&self, block: &str) -> Self {
        let place = RuleOrigin { tier: Tier::User, source: String::new(), path: None };
        let mut joined = self.clone();
        if let Some(older) = parse(block, &place).rules.first() {
            let order =
                [ApprovalMode::Plan, ApprovalMode::Default, ApprovalMode::AutoEdit, ApprovalMode::Yolo];
            joined.modes = order
                .into_iter()
                .filter(|mode| self.modes.contains(mode) || older.modes.names(*mode))
                .collect();
            joined.allow_redirection |= older.allow_redirection;
        }
        joined
    }

    fn rules(&self, place: &RuleOrigin) -> Vec<Rule> {
        parse(&self.to_toml(), place).rules
    }
}

/// The kind of approval that a rule comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantOrigin<'f> {
    ForSession,
    InFile(&'f Path),
}

/// Whether a decision comes from an "always allow" approval, and of which kind; `file` contains the saved
/// ones.
pub fn grant_origin<'f>(rule: &RuleSource, file: Option<&'f Path>) -> Option<GrantOrigin<'f>> {
    match file {
        Some(file) if rule.path.as_deref() == Some(file) => Some(GrantOrigin::InFile(file)),
        _ => (rule.path.is_none() && rule.source == THIS_SESSION).then_some(GrantOrigin::ForSession),
    }
}

/// The file of saved approvals is not TOML; it should be backed up before a new one is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not read the saved approvals: {0}")]
pub struct InvalidSavedRules(String);

/// A file's text, split before each `[[`.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        match blocks.last_mut() {
            Some(block) if !line.starts_with("[[") => block.push_str(line),
            _ => blocks.push(line.to_owned()),
        }
    }
    blocks
}

/// The lines of a rule that identify it.
fn unchanging(block: &str) -> Vec<&str> {
    let changing = |line: &&str| line.starts_with("modes = ") || line.starts_with("allowRedirection = ");
    block.lines().map(str::trim).filter(|line| !line.is_empty() && !changing(line)).collect()
}

impl Engine {
    /// Activates an approval for the rest of the session.
    pub fn allow_for_session(&mut self, grant: &Grant) {
        let place = RuleOrigin { tier: Tier::Workspace, source: THIS_SESSION.to_owned(), path: None };
        let mut rules = grant.rules(&place);
        for rule in &mut rules {
            rule.from_session = true;
            rule.source.line = None;
        }
        self.add(rules);
    }

    /// Activates an approval that was also saved to a user's file.
    pub fn allow_saved(&mut self, grant: &Grant, file: PathBuf) {
        let place = RuleOrigin::of_file(Tier::User, &file);
        let mut rules = grant.rules(&place);
        for rule in &mut rules {
            rule.source.line = None;
        }
        self.add(rules);
    }
}

/// A one-sentence description of what a call would destroy, for the approval prompt; `None` if no loss is
/// known.
pub fn destruction(request: &Request<'_>) -> Option<String> {
    if let Some(server) = request.server {
        let hint =
            request.annotations.and_then(|given| given.get("destructiveHint")).and_then(Value::as_bool);
        return (hint == Some(true)).then(|| format!("The server {server} marks this tool as destructive."));
    }
    if called(request).canonical() != SHELL {
        return None;
    }
    let command = request.args.get("command").and_then(Value::as_str)?;
    let mut told: Vec<String> = Vec::new();
    for part in &shell::analyse(command).parts {
        told.extend(part.destruction().filter(|sentence| !told.contains(sentence)));
    }
    let more = told.len().saturating_sub(TOLD);
    told.truncate(TOLD);
    if more > 0 {
        told.push(format!("and {more} more destructive commands"));
    }
    let text = told.join("; ");
    let mut letters = text.chars();
    let first = letters.next()?;
    Some(first.to_uppercase().chain(letters).collect())
}

/// The words of a command that an approval covers: the program, and its subcommand if it has one.
fn root(part: &shell::Part) -> Option<String> {
    let program = part.words.first()?.as_deref()?;
    if !part.behind.is_empty() || RUNS_OTHERS.contains(&program_base(program)) {
        // Only this very command.
        let words: Option<Vec<&str>> = part.words.iter().map(Option::as_deref).collect();
        let words = words?;
        let plain = part.behind.is_empty() && words.iter().all(|word| is_plain(word));
        return plain.then(|| words.join(" "));
    }
    if !is_plain(program) {
        return None;
    }
    let second = part.words.get(1).and_then(Option::as_deref);
    match second.filter(|word| is_subcommand(word)) {
        Some(word) if HAS_SUBCOMMANDS.contains(&program) => Some(format!("{program} {word}")),
        None if HAS_SUBCOMMANDS.contains(&program) && part.words.len() > 1 => None,
        _ => Some(program.to_owned()),
    }
}

/// Programs whose first argument is a subcommand.
const HAS_SUBCOMMANDS: &[&str] = &[
    "apt",
    "apt-get",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "deno",
    "dotnet",
    "gcloud",
    "gem",
    "gh",
    "git",
    "go",
    "helm",
    "hg",
    "jj",
    "kubectl",
    "make",
    "mvn",
    "npm",
    "npx",
    "pip",
    "pip3",
    "pnpm",
    "poetry",
    "rustup",
    "svn",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
];

fn is_subcommand(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric()) && is_plain(word)
}

fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:+@=,%".contains(c))
}

fn modes_from(mode: ApprovalMode) -> Vec<ApprovalMode> {
    let order = [ApprovalMode::Plan, ApprovalMode::Default, ApprovalMode::AutoEdit, ApprovalMode::Yolo];
    order.into_iter().skip_while(|other| *other != mode).collect()
}

fn mode_word(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Default => "default",
        ApprovalMode::AutoEdit => "autoEdit",
        ApprovalMode::Yolo => "yolo",
        ApprovalMode::Plan => "plan",
    }
}

/// A value as canonical JSON; only texts and lists of texts are used to narrow.
fn canonical_value(value: &Value) -> Option<String> {
    match value {
        Value::String(_) => Some(value.to_string()),
        Value::Array(items) if items.iter().all(Value::is_string) => Some(value.to_string()),
        _ => None,
    }
}

/// A text escaped for literal matching in a regex.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if r"\^$.|?*+()[]{}/-".contains(c) && c != '/' && c != '-' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn toml_string(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn toml_array<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.map(toml_string).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests;
