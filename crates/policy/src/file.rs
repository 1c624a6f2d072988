//! Parses policy files: TOML with `[[rule]]` and `[[safety_checker]]`.
//!
//! A bad rule is reported and skipped; the rest of the file applies. Does not read from disk; see
//! [`crate::load`].

mod fields;
mod problem;

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use self::problem::{Problem, Severity};

use self::fields::{FieldError, Fields};
use crate::checker::{CheckerKind, CheckerRule};
use crate::pattern::{Pattern, PatternError};
use crate::request::{Decision, RuleSource};
use crate::rule::{Condition, Rule, Unreadable, UnreadableScope, short_label};
use crate::tier::{Rank, Tier};
use crate::tool_name::{self, ToolMatch};

/// Largest policy file that is read, in bytes.
pub(crate) const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Where a file's text comes from.
#[derive(Debug, Clone)]
pub(crate) struct RuleOrigin {
    pub(crate) tier: Tier,
    pub(crate) source: String,
    pub(crate) path: Option<PathBuf>,
}

impl RuleOrigin {
    pub(crate) fn of_file(tier: Tier, path: &Path) -> Self {
        Self { tier, source: path.display().to_string(), path: Some(path.to_owned()) }
    }

    /// Whether the rules came with the program.
    fn is_shipped(&self) -> bool {
        self.tier == Tier::Default && self.path.is_none()
    }
}

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct FileRules {
    pub(crate) rules: Vec<Rule>,
    pub(crate) checkers: Vec<CheckerRule>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) unreadable: Vec<Unreadable>,
}

impl FileRules {
    pub(crate) fn append(&mut self, other: Self) {
        self.rules.extend(other.rules);
        self.checkers.extend(other.checkers);
        self.problems.extend(other.problems);
        self.unreadable.extend(other.unreadable);
    }
}

/// Parses one file's text. A bad rule is reported and skipped.
pub(crate) fn parse(text: &str, place: &RuleOrigin) -> FileRules {
    let mut out = FileRules::default();
    let lines = LineIndex::new(text);
    let table = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        Err(error) => {
            let line = error.span().map(|span| lines.line(span.start));
            out.problems.push(
                Problem::error(place, "TOML parsing failed")
                    .at(line)
                    .details(error.message().to_owned())
                    .suggest("Check the TOML syntax of this file"),
            );
            if may_deny(text) {
                let (about, reason) =
                    (UnreadableScope::Text(text.to_owned()), unreadable_reason(place, line));
                out.unreadable.push(Unreadable { about, reason });
            }
            return out;
        }
    };
    let reader = Reader { place, lines: &lines };
    for (index, entry) in entries(&table, "rule", &reader, &mut out).into_iter().enumerate() {
        reader.rule(index, entry, &mut out);
    }
    for (index, entry) in entries(&table, "safety_checker", &reader, &mut out).into_iter().enumerate() {
        reader.checker(index, entry, &mut out);
    }
    out
}

/// Whether an unparsable text may contain a deny rule.
pub(crate) fn may_deny(text: &str) -> bool {
    text.to_ascii_lowercase().contains("deny")
}

fn unreadable_reason(place: &RuleOrigin, line: Option<u32>) -> String {
    let at = line.map(|line| format!(":{line}")).unwrap_or_default();
    format!("policy file `{}{at}` could not be read and may deny this", place.source)
}

/// The tables of `[[key]]`; a single `[key]` counts as one.
fn entries<'t, 'i>(
    table: &'t DeTable<'i>,
    key: &str,
    reader: &Reader<'_>,
    out: &mut FileRules,
) -> Vec<(u32, &'t DeTable<'i>)> {
    let Some(value) = table.get(key) else {
        return Vec::new();
    };
    let items: Vec<&Spanned<DeValue<'i>>> = match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        let line = reader.lines.line(item.span().start);
        match item.get_ref().as_table() {
            Some(table) => found.push((line, table)),
            None => {
                out.problems.push(
                    Problem::error(reader.place, "Schema validation failed")
                        .at(Some(line))
                        .details(format!("`{key}` must be a table, written `[[{key}]]`")),
                );
                let reason = unreadable_reason(reader.place, Some(line));
                out.unreadable.push(Unreadable { about: UnreadableScope::Anything, reason });
            }
        }
    }
    found
}

struct Reader<'a> {
    place: &'a RuleOrigin,
    lines: &'a LineIndex,
}

/// The part of a rule and a checker that determines when it applies.
struct Target {
    tools: Vec<ToolMatch>,
    conditions: Vec<Condition>,
}

impl Reader<'_> {
    fn rule(&self, index: usize, (line, table): (u32, &DeTable<'_>), out: &mut FileRules) {
        let fields = Fields::new(table, self.lines, line);
        match self.read_rule(index, &fields, out) {
            Ok(rules) => out.rules.extend(rules),
            Err(error) => {
                let decision = fields.text("decision").ok().flatten();
                if !matches!(decision.as_deref(), Some("allow" | "ask_user")) {
                    let about = tools_of(&fields).map_or(UnreadableScope::Anything, UnreadableScope::Tools);
                    let reason = unreadable_reason(self.place, Some(error.line));
                    out.unreadable.push(Unreadable { about, reason });
                }
                out.problems.push(self.problem(index, "rule", error));
            }
        }
    }

    fn read_rule(
        &self,
        index: usize,
        fields: &Fields<'_>,
        out: &mut FileRules,
    ) -> Result<Vec<Rule>, FieldError> {
        let target = self.target(index, fields, out)?;
        let decision = match fields.required_text("decision")?.as_str() {
            "allow" => Decision::Allow,
            "ask_user" => Decision::Ask,
            "deny" => Decision::Deny,
            other => {
                let why = format!("expected allow, deny or ask_user, got `{other}`");
                return Err(fields.schema("decision", &why));
            }
        };
        let priority = fields.priority(None)?;
        let modes = fields.modes()?;
        let interactive = fields.flag("interactive")?;
        let annotations = fields.annotations()?;
        let subagent = fields.text("subagent")?;
        let allow_redirection = fields.flag("allowRedirection")?.unwrap_or(false);
        let deny_message = fields.text("denyMessage")?;
        let name = fields.text("name")?;
        let rank = Rank::new(self.place.tier, priority);
        let mut rules = Vec::new();
        for tool in &target.tools {
            for condition in &target.conditions {
                let label = name.clone().unwrap_or_else(|| short_label(decision, tool, condition));
                rules.push(Rule {
                    tool: tool.clone(),
                    condition: condition.clone(),
                    decision,
                    modes,
                    interactive,
                    annotations: annotations.clone(),
                    subagent: subagent.clone(),
                    allow_redirection: allow_redirection && decision == Decision::Allow,
                    deny_message: deny_message.clone(),
                    rank,
                    tier: self.place.tier,
                    from_session: false,
                    source: self.source(fields.line(), label, rank),
                });
            }
        }
        Ok(rules)
    }

    fn checker(&self, index: usize, (line, table): (u32, &DeTable<'_>), out: &mut FileRules) {
        let fields = Fields::new(table, self.lines, line);
        match self.read_checker(index, &fields, out) {
            Ok(checkers) => out.checkers.extend(checkers),
            Err(error) => {
                // A checker can only deny, so one that cannot be parsed may have denied.
                let about = tools_of(&fields).map_or(UnreadableScope::Anything, UnreadableScope::Tools);
                let reason = unreadable_reason(self.place, Some(error.line));
                out.unreadable.push(Unreadable { about, reason });
                out.problems.push(self.problem(index, "safety_checker", error));
            }
        }
    }

    fn read_checker(
        &self,
        index: usize,
        fields: &Fields<'_>,
        out: &mut FileRules,
    ) -> Result<Vec<CheckerRule>, FieldError> {
        let target = self.target(index, fields, out)?;
        let priority = fields.priority(Some(0))?;
        let modes = fields.modes()?;
        let annotations = fields.annotations()?;
        let spec = fields.table("checker")?.ok_or_else(|| fields.schema("checker", "Required"))?;
        let kind = match spec.required_text("type")?.as_str() {
            "in-process" => CheckerKind::InProcess,
            "external" => CheckerKind::External,
            other => {
                let why = format!("expected in-process or external, got `{other}`");
                return Err(spec.schema("type", &why));
            }
        };
        let name = spec.required_text("name")?;
        if kind == CheckerKind::InProcess && !matches!(name.as_str(), "allowed-path" | "conseca") {
            return Err(spec.schema("name", &format!("`{name}` is not an in-process checker")));
        }
        let command = match kind {
            CheckerKind::InProcess => None,
            CheckerKind::External => self.checker_command(&spec, &name)?,
        };
        let context = spec.texts("required_context")?.unwrap_or_default();
        let config = spec.json("config")?;
        let rank = Rank::new(self.place.tier, priority);
        let mut checkers = Vec::new();
        for tool in &target.tools {
            for condition in &target.conditions {
                checkers.push(CheckerRule {
                    tool: tool.clone(),
                    condition: condition.clone(),
                    modes,
                    annotations: annotations.clone(),
                    rank,
                    kind,
                    name: name.clone(),
                    command: command.clone(),
                    required_context: context.clone(),
                    config: config.clone(),
                    source: self.source(fields.line(), format!("checker {name}"), rank),
                });
            }
        }
        Ok(checkers)
    }

    /// The command of an external checker, if the file gives one: only user and admin files may.
    fn checker_command(&self, spec: &Fields<'_>, name: &str) -> Result<Option<Vec<String>>, FieldError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            return Err(spec.schema("name", "expected letters, digits, `-`, `_` and `.`"));
        }
        let Some(config) = spec.table("config")? else { return Ok(None) };
        let Some(command) = config.texts("command")? else { return Ok(None) };
        if !matches!(self.place.tier, Tier::User | Tier::Admin) {
            let why = "a project's or an extension's file can only name an installed checker";
            return Err(spec.schema("config", why));
        }
        if !command.first().is_some_and(|program| Path::new(program).is_absolute()) {
            return Err(spec.schema("config", "`command` must start with the absolute path of a program"));
        }
        Ok(Some(command))
    }

    fn target(&self, index: usize, fields: &Fields<'_>, out: &mut FileRules) -> Result<Target, FieldError> {
        let tools = tools_of(fields)?;
        if let Some(names) = fields.texts("toolName")?
            && fields.text("mcpName")?.is_none()
        {
            for name in names {
                out.problems.extend(self.misspelt(index, fields.line(), &name));
            }
        }
        let conditions = self.conditions(index, fields, &tools, out)?;
        Ok(Target { tools, conditions })
    }

    fn conditions(
        &self,
        index: usize,
        fields: &Fields<'_>,
        tools: &[ToolMatch],
        out: &mut FileRules,
    ) -> Result<Vec<Condition>, FieldError> {
        let args = fields.text("argsPattern")?;
        let prefixes = fields.texts("commandPrefix")?;
        let regex = fields.text("commandRegex")?;
        let path = fields.text("pathPattern")?;
        let given = [args.is_some(), prefixes.is_some(), regex.is_some(), path.is_some()];
        if given.into_iter().filter(|given| *given).count() > 1 {
            let why = "argsPattern, commandPrefix and commandRegex are mutually exclusive";
            return Err(fields.schema("argsPattern", why));
        }
        let for_shell = prefixes.is_some() || regex.is_some();
        if for_shell && !tools.iter().all(ToolMatch::is_shell) {
            let key = if prefixes.is_some() { "commandPrefix" } else { "commandRegex" };
            return Err(fields.schema(key, "only allowed with toolName \"run_shell_command\""));
        }
        let pattern = |key: &str, result: Result<Pattern, PatternError>| {
            result.map_err(|error| fields.pattern(key, error))
        };
        if let Some(text) = args {
            return Ok(vec![Condition::Args(pattern("argsPattern", Pattern::for_args(&text))?)]);
        }
        if let Some(text) = regex {
            return Ok(vec![Condition::Command(pattern("commandRegex", Pattern::for_command(&text))?)]);
        }
        if let Some(text) = path.as_deref().filter(|_| self.place.is_shipped()) {
            return Ok(vec![Condition::Path(Pattern::for_own_path(text))]);
        }
        if let Some(text) = path {
            return Ok(vec![Condition::Path(pattern("pathPattern", Pattern::for_path(&text))?)]);
        }
        let Some(prefixes) = prefixes else {
            return Ok(vec![Condition::Always]);
        };
        for prefix in &prefixes {
            if prefix.split_whitespace().next().is_none() {
                return Err(fields.schema("commandPrefix", "must name a command"));
            }
            if prefix.matches('"').count() % 2 == 1 || prefix.matches('\'').count() % 2 == 1 {
                out.problems.push(
                    Problem::warning(self.place, "Invalid shell command syntax")
                        .at(Some(fields.line()))
                        .rule(index)
                        .details(format!("  - Field \"rule.{index}.commandPrefix\": `{prefix}`")),
                );
            }
        }
        Ok(prefixes.iter().map(|prefix| Condition::prefix(prefix)).collect())
    }

    fn misspelt(&self, index: usize, line: u32, name: &str) -> Option<Problem> {
        if tool_name::double_underscore(name).is_some() {
            let text = "The \"__\" syntax for MCP tools is strictly deprecated.";
            return Some(
                Problem::warning(self.place, text)
                    .at(Some(line))
                    .rule(index)
                    .suggest("Name the server with mcpName and the tool with toolName"),
            );
        }
        let known = tool_name::canonical(name);
        if name.contains('*') || name.starts_with("mcp_") || tool_name::BUILT_IN.contains(&known) {
            return None;
        }
        let near = tool_name::BUILT_IN
            .iter()
            .map(|tool| (pollux_domain::spelling::distance(name, tool), *tool))
            .min()
            .filter(|(distance, _)| *distance <= 3)?;
        Some(
            Problem::warning(self.place, "Unrecognized tool name")
                .at(Some(line))
                .rule(index)
                .details(format!("  - Field \"rule.{index}.toolName\": `{name}`"))
                .suggest(&format!("Did you mean \"{}\"?", near.1)),
        )
    }

    fn problem(&self, index: usize, kind: &str, error: FieldError) -> Problem {
        let details = format!(
            "Invalid policy rule ({kind} #{}):\n  - Field \"{kind}.{index}.{}\": {}",
            index + 1,
            error.field,
            error.why
        );
        Problem::error(self.place, error.message)
            .at(Some(error.line))
            .rule(index)
            .details(details)
            .suggest("Correct the rule; until then it is ignored")
    }

    fn source(&self, line: u32, label: String, rank: Rank) -> RuleSource {
        RuleSource {
            tier: self.place.tier.as_str(),
            source: self.place.source.clone(),
            path: self.place.path.clone(),
            line: Some(line),
            label,
            priority: rank.as_f64(),
        }
    }
}

fn tools_of(fields: &Fields<'_>) -> Result<Vec<ToolMatch>, FieldError> {
    let server = fields.text("mcpName")?;
    let Some(names) = fields.texts("toolName")? else {
        return match server {
            Some(server) => Ok(vec![ToolMatch::new(None, Some(&server))]),
            None => Err(fields.schema("toolName", "Required")),
        };
    };
    if names.is_empty() {
        return Err(fields.schema("toolName", "must name a tool"));
    }
    if names.iter().any(|name| name.trim().is_empty()) {
        let mut error = fields.schema("toolName", "must not be empty");
        error.message = "Invalid policy rule: toolName cannot be empty string";
        return Err(error);
    }
    Ok(names.iter().map(|name| ToolMatch::new(Some(name), server.as_deref())).collect())
}

/// Where each line of a text begins.
pub(crate) struct LineIndex(Vec<usize>);

impl LineIndex {
    fn new(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    /// The 1-based line of a byte offset.
    fn line(&self, offset: usize) -> u32 {
        u32::try_from(self.0.partition_point(|end| *end < offset) + 1).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
