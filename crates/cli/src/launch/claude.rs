//! Flags of Claude Code, which its SDKs pass, in terms of ours.
//!
//! Each flag of the table means one of ours, is ignored with a line on stderr, or is refused because ignoring it would do
//! more than the host allows. Flags that are not in the table are ours or unknown.

use pollux_admin::UsageError;
use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_host::request::{
    Request, ToolList, is_known_entry, other_built_in_tools, tool_entries, tool_entry,
};
use pollux_stream::ClaudeOptions;
use serde_json::Value;

/// What a flag means.
enum Meaning {
    /// One of ours, which takes the same value.
    Ours(&'static str),
    /// It changes nothing here.
    Nothing,
    /// Why it has no effect.
    Ignored(&'static str),
    /// Why it cannot be passed.
    Refused(&'static str),
    Set(fn(&mut ClaudeFlags, &str)),
    Read(fn(&mut ClaudeFlags, &str) -> Result<(), String>),
}

use Meaning::{Ignored, Nothing, Ours, Read, Refused, Set};

/// A flag, whether it takes a value, and what it means.
type Flag = (&'static str, bool, Meaning);

const FLAGS: &[Flag] = &[
    ("--add-dir", true, Set(|flags, value| flags.directories.push(value.to_owned()))),
    ("--agents", true, Ignored("sub-agents of the host are not used")),
    ("--allow-dangerously-skip-permissions", false, Nothing),
    ("--allowedTools", true, Read(ClaudeFlags::allow)),
    ("--allowed-tools", true, Read(ClaudeFlags::allow)),
    ("--append-system-prompt", true, Read(ClaudeFlags::instruct)),
    ("--betas", true, Ignored("it applies to another API")),
    ("--continue", false, Set(|flags, _| flags.words.push("--resume=latest".to_owned()))),
    ("--dangerously-skip-permissions", false, Read(|flags, _| flags.set_mode("bypassPermissions"))),
    ("--debug-to-stderr", false, Ours("--debug")),
    ("--disallowedTools", true, Read(ClaudeFlags::deny)),
    ("--disallowed-tools", true, Read(ClaudeFlags::deny)),
    ("--fallback-model", true, Ours("--fallback")),
    ("--fork-session", false, Ours("--fork")),
    ("--include-hook-events", false, Set(|flags, _| flags.stream.includes_hooks = true)),
    ("--include-partial-messages", false, Set(|flags, _| flags.stream.includes_partial = true)),
    ("--json-schema", true, Refused("structured output is not supported")),
    ("--max-thinking-tokens", true, Read(ClaudeFlags::limit_thinking)),
    ("--max-turns", true, Read(ClaudeFlags::limit_turns)),
    ("--mcp-config", true, Read(ClaudeFlags::add_servers)),
    ("--no-session-persistence", false, Refused("sessions are always recorded")),
    ("--output-dialect", true, Nothing),
    ("--permission-mode", true, Read(ClaudeFlags::set_mode)),
    ("--permission-prompt-tool", true, Read(ClaudeFlags::set_prompt_tool)),
    ("--plugin-dir", true, Refused("plugins are not supported")),
    ("--print", false, Nothing),
    ("--replay-user-messages", false, Set(|flags, _| flags.stream.replays_prompts = true)),
    ("--resume-drops-turn", true, Refused("resuming part of a session is not supported")),
    ("--resume-session-at", true, Refused("resuming part of a session is not supported")),
    ("--session-mirror", false, Refused("session stores of the host are not supported")),
    ("--setting-sources", true, Read(ClaudeFlags::choose_sources)),
    ("--settings", true, Read(ClaudeFlags::read_settings)),
    ("--strict-mcp-config", false, Set(|flags, _| flags.only_own_servers = true)),
    ("--system-prompt", true, Read(ClaudeFlags::instruct)),
    ("--system-prompt-file", true, Read(ClaudeFlags::instruct_by_file)),
    ("--task-budget", true, Ignored("use --max-tokens-total")),
    ("--thinking", true, Read(ClaudeFlags::set_thinking)),
    ("--thinking-display", true, Ignored("thoughts are always sent")),
    ("--tools", true, Read(ClaudeFlags::keep_tools)),
];

/// Whether a host speaks the protocol of Claude Code's SDKs: it says so, or one of them started us.
pub(super) fn is_spoken(words: &[String], env: &Env) -> bool {
    let value = |flag: &str| {
        let at = words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1));
        let joined = words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
        at.map(String::as_str).or(joined)
    };
    let is_driven = value("--input-format") == Some("stream-json");
    let by_sdk = || env.get("CLAUDE_CODE_ENTRYPOINT").is_some_and(|entry| entry.starts_with("sdk-"));
    is_driven
        && match value("--output-dialect") {
            Some(dialect) => dialect == "claude",
            None => env.non_empty("POLLUX_OUTPUT_DIALECT").is_none() && by_sdk(),
        }
}

/// What the flags of such a host ask for.
#[derive(Debug, Default)]
pub(super) struct ClaudeFlags {
    /// The command line in our flags.
    pub(super) words: Vec<String>,
    directories: Vec<String>,
    allowed: Vec<String>,
    denied: Vec<String>,
    asked: Vec<String>,
    instructions: Vec<String>,
    servers: Vec<(String, Value)>,
    only_own_servers: bool,
    mode: Option<ApprovalMode>,
    overrides: Vec<(String, Value)>,
    ignores_project: bool,
    notes: Vec<String>,
    stream: ClaudeOptions,
    /// The folder that relative paths refer to.
    directory: std::path::PathBuf,
}

impl ClaudeFlags {
    /// Reads the flags of the table and keeps the others.
    pub(super) fn read(words: Vec<String>, env: &Env) -> Result<Self, UsageError> {
        let mut flags = Self { directory: env.cwd().to_path_buf(), ..Self::default() };
        flags.stream.reports_state = env.is_true("CLAUDE_CODE_SDK_READS_SESSION_STATE")
            || env.get("CLAUDE_CODE_SDK_READS_SESSION_STATE") == Some("1");
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (name, joined) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let Some((name, takes_value, meaning)) = FLAGS.iter().find(|(flag, ..)| *flag == name) else {
                flags.words.push(word);
                continue;
            };
            let value = match (takes_value, joined) {
                (true, Some(value)) => value,
                (true, None) => words.next().ok_or_else(|| UsageError::MissingValue((*name).to_owned()))?,
                (false, _) => String::new(),
            };
            flags.take(name, *takes_value, meaning, &value)?;
        }
        Ok(flags)
    }

    fn take(
        &mut self,
        name: &str,
        takes_value: bool,
        meaning: &Meaning,
        value: &str,
    ) -> Result<(), UsageError> {
        let refused = |why: &str| UsageError::Malformed(format!("`{name}`: {why}"));
        match meaning {
            Ours(ours) if takes_value => self.words.push(format!("{ours}={value}")),
            Ours(ours) => self.words.push((*ours).to_owned()),
            Nothing => {}
            Ignored(why) => self.notes.push(format!("ignored `{name}`: {why}")),
            Refused(why) => return Err(refused(why)),
            Set(set) => set(self, value),
            Read(read) => read(self, value).map_err(|why| refused(&why))?,
        }
        Ok(())
    }

    fn allow(&mut self, list: &str) -> Result<(), String> {
        for entry in tool_entries(list) {
            match tool_entry(entry, ToolList::Allowed) {
                Ok(entries) => self.allowed.extend(entries),
                // Without it the host is asked.
                Err(why) => self.notes.push(format!("ignored an allowed tool: {why}")),
            }
        }
        Ok(())
    }

    fn deny(&mut self, list: &str) -> Result<(), String> {
        self.deny_from("--disallowedTools", list)
    }

    fn deny_from(&mut self, place: &str, list: &str) -> Result<(), String> {
        for entry in tool_entries(list) {
            let entries = self.restricted(place, entry)?;
            self.denied.extend(entries);
        }
        Ok(())
    }

    fn ask(&mut self, list: &str) -> Result<(), String> {
        for entry in tool_entries(list) {
            let entries = self.restricted("permissions.ask", entry)?;
            self.asked.extend(entries);
        }
        Ok(())
    }

    fn keep_tools(&mut self, list: &str) -> Result<(), String> {
        if list != "default" {
            let mut kept = Vec::new();
            for entry in tool_entries(list) {
                kept.extend(self.restricted("--tools", entry)?);
            }
            self.denied.extend(other_built_in_tools(&kept));
        }
        Ok(())
    }

    /// An entry of a list that restricts. One that restricts nothing is told.
    fn restricted(&mut self, place: &str, entry: &str) -> Result<Vec<String>, String> {
        let entries = tool_entry(entry, ToolList::Restricted)?;
        if !entries.iter().all(|entry| is_known_entry(entry)) {
            self.notes.push(format!("ignored `{entry}` in `{place}`: unknown tool"));
        }
        Ok(entries)
    }

    fn instruct(&mut self, text: &str) -> Result<(), String> {
        if !text.trim().is_empty() {
            self.instructions.push(text.to_owned());
        }
        Ok(())
    }

    fn instruct_by_file(&mut self, path: &str) -> Result<(), String> {
        let text = self.file(path)?;
        self.instruct(&text)
    }

    fn file(&self, path: &str) -> Result<String, String> {
        let path = self.directory.join(path);
        std::fs::read_to_string(&path)
            .map_err(|error| format!("could not read `{}`: {error}", path.display()))
    }

    /// An object that is given itself, or in a file.
    fn object(&self, given: &str) -> Result<Value, String> {
        let text = match given.trim_start().starts_with('{') {
            true => given.to_owned(),
            false => self.file(given)?,
        };
        match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
            Ok(object @ Value::Object(_)) => Ok(object),
            Ok(_) => Err("expected a JSON object".to_owned()),
            Err(error) => Err(format!("not valid JSON: {error}")),
        }
    }

    fn limit_thinking(&mut self, tokens: &str) -> Result<(), String> {
        match tokens {
            "0" => self.words.push("--effort=none".to_owned()),
            _ => self.notes.push("ignored `--max-thinking-tokens`: use --effort".to_owned()),
        }
        Ok(())
    }

    fn set_thinking(&mut self, word: &str) -> Result<(), String> {
        if word == "disabled" {
            self.words.push("--effort=none".to_owned());
        }
        Ok(())
    }

    fn limit_turns(&mut self, turns: &str) -> Result<(), String> {
        let turns: u32 = turns.parse().map_err(|_| "expected a number".to_owned())?;
        self.overrides.push(("model.maxSessionTurns".to_owned(), turns.into()));
        Ok(())
    }

    fn add_servers(&mut self, given: &str) -> Result<(), String> {
        let object = self.object(given)?;
        let Some(Value::Object(servers)) = object.get("mcpServers") else {
            return Err("expected an object `mcpServers`".to_owned());
        };
        for (name, entry) in servers {
            match entry.get("type").and_then(Value::as_str) {
                Some("sdk") => self.stream.servers.push(name.clone()),
                _ => self.servers.push((name.clone(), entry.clone())),
            }
        }
        Ok(())
    }

    fn set_mode(&mut self, word: &str) -> Result<(), String> {
        let (mode, never_asks) = pollux_stream::claude_mode(word)
            .ok_or("expected default, acceptEdits, plan, bypassPermissions, dontAsk or auto")?;
        self.mode = Some(mode);
        self.stream.never_asks = never_asks;
        Ok(())
    }

    fn set_prompt_tool(&mut self, tool: &str) -> Result<(), String> {
        if tool != "stdio" {
            return Err("only `stdio` is supported".to_owned());
        }
        self.stream.asks = true;
        Ok(())
    }

    fn choose_sources(&mut self, list: &str) -> Result<(), String> {
        let sources: Vec<&str> = list.split(',').map(str::trim).collect();
        self.ignores_project = !sources.contains(&"project");
        if !sources.contains(&"user") {
            self.notes.push("`--setting-sources`: user settings are always read".to_owned());
        }
        Ok(())
    }

    /// Settings of Claude Code. Those that have no equivalent are refused: they may be restrictions.
    fn read_settings(&mut self, given: &str) -> Result<(), String> {
        let settings = self.object(given)?;
        for (key, value) in settings.as_object().into_iter().flatten() {
            match (key.as_str(), value) {
                ("$schema", _) => {}
                ("model", Value::String(model)) => {
                    self.overrides.push(("model.name".to_owned(), model.as_str().into()));
                }
                ("permissions", Value::Object(permissions)) => {
                    for (key, value) in permissions {
                        self.read_permission(key, value)?;
                    }
                }
                ("sandbox", Value::Object(sandbox)) if sandbox.keys().all(|key| key == "enabled") => {
                    match sandbox.get("enabled") {
                        None => {}
                        Some(Value::Bool(enabled)) => self.words.push(format!("--sandbox={enabled}")),
                        Some(_) => return Err("`sandbox.enabled` must be `true` or `false`".to_owned()),
                    }
                }
                _ => return Err(format!("the setting `{key}` is not supported")),
            }
        }
        Ok(())
    }

    fn read_permission(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let wrong = || format!("the setting `permissions.{key}` is not supported, or has the wrong type");
        if let (key, Value::Array(entries)) = (key, value) {
            for entry in entries {
                let entry = entry.as_str().ok_or_else(wrong)?;
                match key {
                    "allow" => self.allow(entry)?,
                    "deny" => self.deny_from("permissions.deny", entry)?,
                    "ask" => self.ask(entry)?,
                    "additionalDirectories" => self.directories.push(entry.to_owned()),
                    _ => return Err(wrong()),
                }
            }
            return Ok(());
        }
        match (key, value) {
            ("defaultMode", Value::String(mode)) if self.mode.is_none() => self.set_mode(mode),
            ("defaultMode", Value::String(_)) => Ok(()),
            _ => Err(wrong()),
        }
    }

    /// Puts everything where a run reads it.
    pub(super) fn apply(self, options: &mut Request) -> ClaudeOptions {
        options.allowed_tools.extend(self.allowed);
        options.excluded_tools.extend(self.denied);
        options.include_directories.extend(self.directories);
        options.client_servers.extend(self.servers);
        options.only_client_servers = self.only_own_servers;
        options.ignores_project_settings = self.ignores_project;
        options.overrides.extend(self.overrides);
        if !self.asked.is_empty() {
            options.confirmed_tools.extend(self.asked);
        }
        if !self.instructions.is_empty() {
            options.client_instructions = Some(self.instructions.join("\n\n"));
        }
        options.approval = options.approval.or(self.mode);
        options.remarks.extend(self.notes);
        self.stream
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flags(words: &[&str]) -> Result<(Request, ClaudeOptions, Vec<String>), String> {
        let env = Env::new([], "/".into());
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let mut flags = ClaudeFlags::read(words, &env).map_err(|error| error.to_string())?;
        let mut request = Request::default();
        let words = std::mem::take(&mut flags.words);
        let stream = flags.apply(&mut request);
        Ok((request, stream, words))
    }

    #[test]
    fn flags_of_the_sdk_become_ours() {
        let (request, stream, words) = flags(&[
            "--verbose",
            "--system-prompt",
            "",
            "--append-system-prompt",
            "- be brief",
            "--allowedTools",
            "Read,Bash(git:*),Bash(npm test)",
            "--disallowedTools",
            "Write,mcp__x",
            "--max-turns",
            "3",
            "--permission-mode",
            "acceptEdits",
            "--permission-prompt-tool",
            "stdio",
            "--continue",
            "--add-dir",
            "/a,b",
            "--mcp-config",
            r#"{"mcpServers":{"calc":{"type":"sdk","name":"calc"},"far":{"type":"http","url":"http://x"}}}"#,
            "--include-partial-messages",
            "--fallback-model",
            "flash",
            "--betas",
            "x",
            "--fake-responses",
            "f",
        ])
        .unwrap();
        assert_eq!(words, ["--verbose", "--resume=latest", "--fallback=flash", "--fake-responses", "f"]);
        assert_eq!(request.allowed_tools, ["read_file", "run_shell_command(git)"]);
        assert_eq!(request.excluded_tools, ["write_file", "mcp_x_*"]);
        assert_eq!(request.overrides, [("model.maxSessionTurns".to_owned(), json!(3))]);
        assert_eq!(request.approval, Some(ApprovalMode::AutoEdit));
        assert_eq!(request.include_directories, ["/a,b"]);
        assert_eq!(request.client_instructions.as_deref(), Some("- be brief"));
        assert_eq!(request.client_servers.len(), 1);
        assert_eq!(request.remarks.len(), 2, "{:?}", request.remarks);
        assert_eq!(stream.servers, ["calc"]);
        assert!(stream.asks && stream.includes_partial && !stream.never_asks);
    }

    #[test]
    fn what_would_do_more_than_the_host_allows_is_refused() {
        for words in [
            &["--disallowedTools", "Read(./secrets/**)"][..],
            &["--tools", "Bash(git"],
            &["--json-schema", "{}"],
            &["--settings", r#"{"hooks":{}}"#],
            &["--settings", r#"{"permissions":{"deny":["Read(x)"]}}"#],
            &["--settings", r#"{"permissions":{"disableBypassPermissionsMode":"disable"}}"#],
            &["--settings", r#"{"sandbox":{"enabled":true,"network":{}}}"#],
            &["--settings", "/no/such/file"],
            &["--resume-session-at=x"],
            &["--plugin-dir", "x"],
            &["--permission-mode", "yes"],
            &["--permission-prompt-tool", "mcp__a__b"],
            &["--mcp-config", "[]"],
            &["--max-turns", "many"],
            &["--max-turns"],
        ] {
            assert!(flags(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn settings_of_claude_code_are_read_as_far_as_there_are_such() {
        let settings = r#"{"permissions":{"allow":["Read"],"deny":["Bash(rm:*)"],"ask":["Write"],
            "defaultMode":"plan","additionalDirectories":["/x"]},"sandbox":{"enabled":true},"model":"pro"}"#;
        let (request, _, words) = flags(&["--settings", settings]).unwrap();
        assert_eq!(request.allowed_tools, ["read_file"]);
        assert_eq!(request.excluded_tools, ["run_shell_command(rm)"]);
        assert_eq!(request.confirmed_tools, ["write_file"]);
        assert_eq!((request.approval, words), (Some(ApprovalMode::Plan), vec!["--sandbox=true".to_owned()]));
        let (request, ..) = flags(&["--tools", "Read"]).unwrap();
        assert!(request.excluded_tools.contains(&"write_file".to_owned()));
        assert!(!request.excluded_tools.contains(&"read_file".to_owned()));
        let (request, ..) = flags(&["--setting-sources=user"]).unwrap();
        assert!(request.ignores_project_settings);
        assert!(!flags(&["--setting-sources=user,project"]).unwrap().0.ignores_project_settings);
    }

    #[test]
    fn the_dialect_is_named_or_follows_from_the_sdk() {
        let spoken = |words: &[&str], vars: &[(&str, &str)]| {
            let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            is_spoken(&words, &Env::new(vars, "/".into()))
        };
        let sdk = [("CLAUDE_CODE_ENTRYPOINT", "sdk-py")];
        assert!(spoken(&["--input-format", "stream-json"], &sdk));
        assert!(spoken(&["--input-format=stream-json", "--output-dialect=claude"], &[]));
        assert!(!spoken(&["--input-format", "stream-json"], &[]));
        assert!(!spoken(&["--input-format", "stream-json", "--output-dialect", "pollux"], &sdk));
        assert!(!spoken(&["-p", "x"], &sdk));
        assert!(!spoken(&["--input-format", "stream-json"], &[("CLAUDE_CODE_ENTRYPOINT", "cli")]));
    }
}
