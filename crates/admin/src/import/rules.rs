//! Converts approval rules whose meaning is exactly the same.
//!
//! A rule that cannot be expressed exactly is reported instead: a rule that allows a little more than before is worse
//! than none. In both programs, deny takes precedence over ask, and ask over allow; the priorities of the converted
//! rules keep that order.

use pollux_hooks::claude_tool_name;
use serde_json::Value;
use toml::Table;

const SHELL: &str = "run_shell_command";

/// Tools of Claude Code whose bare name means the same call here. Reading and editing are excluded: their rules also
/// cover other tools, and allowing them would bypass the protection of files.
const SAME_TOOLS: &[&str] = &["WebFetch", "WebSearch"];

/// Tools that a bare name can deny or require approval for.
const RESTRICTABLE: &[&str] = &["Write", "Glob", "Grep", "LS"];

/// The decision of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleDecision {
    Allow,
    Ask,
    Deny,
}

impl RuleDecision {
    fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask_user",
            Self::Deny => "deny",
        }
    }

    /// Stricter rules win.
    fn priority(self) -> i64 {
        match self {
            Self::Allow => 100,
            Self::Ask => 200,
            Self::Deny => 300,
        }
    }

    pub(super) fn of_codex(word: &str) -> Option<Self> {
        match word {
            "allow" => Some(Self::Allow),
            "prompt" => Some(Self::Ask),
            "forbidden" => Some(Self::Deny),
            _ => None,
        }
    }
}

/// A rule of Claude Code as a `[[rule]]` block; the error says why it has no equivalent.
pub(super) fn from_claude(rule: &str, decision: RuleDecision) -> Result<String, &'static str> {
    let (tool, inner) = match rule.split_once('(') {
        Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or("not a valid rule")?)),
        None => (rule, None),
    };
    let mut keys = Table::new();
    if let Some(named) = tool.strip_prefix("mcp__") {
        if inner.is_some() {
            return Err("rules on the arguments of MCP tools have no equivalent");
        }
        let (server, name) =
            named.split_once("__").map_or((named, None), |(server, name)| (server, Some(name)));
        if server.is_empty()
            || server.contains('*')
            || name.is_some_and(|name| name != "*" && name.contains('*'))
        {
            return Err("this MCP tool pattern has no equivalent");
        }
        put(&mut keys, "mcpName", server);
        put(&mut keys, "toolName", name.filter(|name| !name.is_empty()).unwrap_or("*"));
        return Ok(block(rule, decision, keys));
    }
    match (tool, inner) {
        ("Bash", None | Some("*")) => {
            put(&mut keys, "toolName", SHELL);
            if decision == RuleDecision::Allow {
                keys.insert("allowRedirection".to_owned(), true.into());
            }
        }
        ("Bash", Some(command)) => shell(command, &mut keys)?,
        (tool, None) if SAME_TOOLS.contains(&tool) => put(&mut keys, "toolName", ours(tool)),
        (tool, None) if RESTRICTABLE.contains(&tool) && decision != RuleDecision::Allow => {
            put(&mut keys, "toolName", ours(tool));
        }
        ("Edit", None) if decision != RuleDecision::Allow => {
            let tools: Vec<toml::Value> = ["replace", "write_file"].map(toml::Value::from).into();
            keys.insert("toolName".to_owned(), tools.into());
        }
        ("Edit" | "Write" | "MultiEdit", None) => {
            return Err("it would also allow protected files; use `--approval-mode auto_edit`");
        }
        ("Read" | "Edit" | "Write", _) => return Err("path patterns have no exact equivalent"),
        ("WebFetch", Some(_)) => return Err("domain rules have no equivalent"),
        _ => return Err("no equivalent tool"),
    }
    Ok(block(rule, decision, keys))
}

/// Whether a rule covers calls that another one is about, as far as their texts tell.
pub(super) fn overlaps(allowed: &str, restricted: &str) -> bool {
    let parts = |rule: &str| {
        let (tool, inner) = rule.split_once('(').unwrap_or((rule, ""));
        (tool.to_owned(), inner.strip_suffix(')').unwrap_or(inner).to_owned())
    };
    let ((tool, allowed), (other, restricted)) = (parts(allowed), parts(restricted));
    if let (Some(server), Some(named)) = (tool.strip_prefix("mcp__"), other.strip_prefix("mcp__")) {
        let (server, named) = (literal(server), literal(named));
        return server.starts_with(named) || named.starts_with(server);
    }
    let (allowed, restricted) = (literal(&allowed), literal(&restricted));
    tool == other && (tool != "Bash" || allowed.starts_with(restricted) || restricted.starts_with(allowed))
}

/// What a pattern begins with, before anything that could stand for something else.
fn literal(pattern: &str) -> &str {
    let pattern = pattern.strip_suffix(":*").unwrap_or(pattern);
    let end = pattern.find(|c: char| !c.is_ascii_alphanumeric() && !"_-./:=@+, ".contains(c));
    pattern.get(..end.unwrap_or(pattern.len())).unwrap_or_default().trim_end()
}

/// A line of a `.rules` file of Codex as a `[[rule]]` block; `None` for comments and empty lines.
pub(super) fn from_codex(line: &str) -> Option<Result<String, &'static str>> {
    let line = line.trim();
    (!line.is_empty() && !line.starts_with('#')).then(|| {
        let (words, decision) = prefix_rule(line)?;
        let mut keys = Table::new();
        if words.is_empty() || !words.iter().all(|word| is_plain(word)) {
            return Err("its prefix contains unsupported characters");
        }
        put(&mut keys, "toolName", SHELL);
        put(&mut keys, "commandPrefix", &words.join(" "));
        Ok(block(&words.join(" "), decision, keys))
    })
}

/// Whether a line of Codex allows commands that a line without an equivalent may have been about.
pub(super) fn allows_more(line: &str, lost: &str) -> bool {
    let Ok((words, RuleDecision::Allow)) = prefix_rule(line.trim()) else { return false };
    let Some(rest) = lost.trim().strip_prefix("prefix_rule(") else { return false };
    // The first word of its pattern, if that is one word.
    let first =
        rest.split_once('[').and_then(|(_, list)| list.trim_start().strip_prefix('"')?.split('"').next());
    first.is_none_or(|first| words.first().is_none_or(|word| word == first))
}

/// `prefix_rule(pattern=["git", "push"], decision="allow")`, the form that Codex writes itself.
fn prefix_rule(line: &str) -> Result<(Vec<String>, RuleDecision), &'static str> {
    const FORM: &str = "only `prefix_rule(pattern=[…], decision=\"…\")` on one line can be converted";
    let inner = line.strip_prefix("prefix_rule(").and_then(|rest| rest.strip_suffix(')')).ok_or(FORM)?;
    let list = inner.trim_start().strip_prefix("pattern").ok_or(FORM)?.trim_start();
    let list = list.strip_prefix('=').ok_or(FORM)?;
    let mut values = serde_json::Deserializer::from_str(list).into_iter::<Vec<Value>>();
    let pattern = values.next().and_then(Result::ok).ok_or(FORM)?;
    let rest = list.get(values.byte_offset()..).unwrap_or_default().trim();
    let words: Option<Vec<String>> = pattern.iter().map(|word| word.as_str().map(str::to_owned)).collect();
    let words = words.ok_or("alternatives in a pattern have no equivalent")?;
    if rest.is_empty() {
        return Ok((words, RuleDecision::Allow));
    }
    let decision = rest.strip_prefix(',').map(str::trim).and_then(|rest| rest.strip_prefix("decision"));
    let decision =
        decision.and_then(|rest| rest.trim_start().strip_prefix('=')).map(str::trim).ok_or(FORM)?;
    let word = decision.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or(FORM)?;
    Ok((words, RuleDecision::of_codex(word).ok_or(FORM)?))
}

/// `npm run test:*` and `npm run test *` are prefixes, `npm test` is a whole command.
fn shell(command: &str, keys: &mut Table) -> Result<(), &'static str> {
    let prefix = command.strip_suffix(":*").or_else(|| command.strip_suffix(" *"));
    let words = prefix.unwrap_or(command);
    if words.split(' ').any(|word| !is_plain(word)) {
        return Err("this command pattern has no equivalent");
    }
    put(keys, "toolName", SHELL);
    match prefix {
        Some(prefix) => put(keys, "commandPrefix", prefix),
        None => {
            let escaped: String =
                words.chars().flat_map(|c| ".+".contains(c).then_some('\\').into_iter().chain([c])).collect();
            put(keys, "commandRegex", &format!("^{escaped}$"));
        }
    }
    Ok(())
}

/// A word that the shell and a regex take literally, apart from `.` and `+`.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:=@+,".contains(c))
}

fn ours(tool: &str) -> &'static str {
    claude_tool_name(tool).unwrap_or_default()
}

fn put(keys: &mut Table, key: &str, value: &str) {
    keys.insert(key.to_owned(), value.into());
}

fn block(name: &str, decision: RuleDecision, mut keys: Table) -> String {
    put(&mut keys, "name", name);
    put(&mut keys, "decision", decision.word());
    keys.insert("priority".to_owned(), decision.priority().into());
    format!("[[rule]]\n{keys}")
}
