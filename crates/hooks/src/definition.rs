//! Parses hook definitions and reports their mistakes.
//!
//! A bad definition is skipped and reported; the others stay active.

use std::fmt;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::settings::expand;
use pollux_config::trust::scripts::NamedScripts;
use pollux_domain::JsonObject;
use serde_json::Value;

use crate::callback::Callback;
use crate::claude;
use crate::event::Event;
use crate::matcher::Matcher;

/// Upstream's default.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// No interactive wait takes longer.
const MAX_TIMEOUT_MS: f64 = 24.0 * 3600.0 * 1000.0;
/// A timeout this short is probably given in seconds.
const LIKELY_SECONDS_MS: f64 = 100.0;
/// More hooks than this are certainly a mistake.
const MAX_HOOKS: usize = 1000;

const HOOK_KEYS: &[&str] = &["type", "command", "name", "timeout", "description", "env", "required"];
const DEFINITION_KEYS: &[&str] = &["matcher", "sequential", "hooks"];

/// The source of a hook; earlier ones run first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookSource {
    Project,
    User,
    System,
    /// By its name.
    Extension(String),
    /// The program that drives the session.
    Client,
}

impl HookSource {
    /// One word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
            Self::System => "system",
            Self::Extension(_) => "extension",
            Self::Client => "client",
        }
    }

    /// Whether a project or an extension defines it, not the user or the administrator.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self, Self::Project | Self::Extension(_))
    }

    /// Precedence among duplicates: a project must not change a user's hook of the same name.
    pub(crate) fn authority(&self) -> u8 {
        match self {
            Self::Project => 0,
            Self::Extension(_) => 1,
            Self::User => 2,
            Self::System => 3,
            Self::Client => 4,
        }
    }
}

impl fmt::Display for HookSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extension(name) => write!(f, "extension {name}"),
            Self::Project | Self::User | Self::System | Self::Client => f.write_str(self.word()),
        }
    }
}

/// A command that runs at an event.
#[derive(Debug, Clone)]
pub struct Hook {
    pub event: Event,
    pub source: HookSource,
    pub name: Option<String>,
    pub command: String,
    /// As it is written.
    pub matcher: Option<String>,
    pub sequential: bool,
    pub timeout: Duration,
    pub description: Option<String>,
    /// If it fails, the guarded action is denied.
    pub required: bool,
    /// Not on the list of those that are switched off.
    pub enabled: bool,
    /// The file that defines it.
    pub file: String,
    /// The key in the file, such as `hooks.BeforeTool[0].hooks[1]`.
    pub key: String,
    pub(crate) env: Vec<(String, String)>,
    /// Variables of an extension that its commands refer to.
    pub(crate) variables: Vec<String>,
    pub(crate) rule: Matcher,
    /// The files of the project that it runs.
    pub(crate) scripts: NamedScripts,
    /// Set if it is a function of the program that drives the session, and no command.
    pub(crate) callback: Option<Callback>,
}

impl Hook {
    /// Its display name: its name, or its command.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.command)
    }
}

/// Something wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookProblem {
    pub severity: Severity,
    pub file: String,
    pub key: String,
    pub text: String,
}

/// Whether the definition is still used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It is not used.
    Skipped,
    /// It is used, but perhaps not as intended.
    Note,
}

impl fmt::Display for HookProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", self.file, self.key, self.text)?;
        match self.severity {
            Severity::Skipped => f.write_str("; skipped"),
            Severity::Note => Ok(()),
        }
    }
}

/// Where a group of definitions comes from.
pub(crate) struct Origin {
    pub(crate) source: HookSource,
    pub(crate) file: String,
    /// Added to every hook, over its own.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) variables: Vec<String>,
}

/// Collects hooks and problems.
pub(crate) struct Reader<'a> {
    pub(crate) env: &'a Env,
    /// For projects and extensions.
    pub(crate) lent_env: &'a Env,
    pub(crate) current_name: fn(&str) -> &str,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) problems: Vec<HookProblem>,
}

/// The fields that all hooks of a definition share.
struct Shared<'a> {
    event: Event,
    matcher: Option<&'a str>,
    sequential: bool,
}

impl Reader<'_> {
    fn problem(&mut self, severity: Severity, origin: &Origin, key: &str, text: impl Into<String>) {
        let (file, key) = (origin.file.clone(), key.to_owned());
        self.problems.push(HookProblem { severity, file, key, text: text.into() });
    }

    /// Reads `{"<event>": [definition…]}`.
    pub(crate) fn events(&mut self, origin: &Origin, events: &JsonObject) {
        for (name, definitions) in events {
            let key = format!("hooks.{name}");
            let Ok(event) = Event::parse(name).map_err(|unknown| {
                // Upstream's words.
                let text =
                    format!("Invalid hook event name: \"{name}\" from {} config. Skipping.", origin.source);
                let near = unknown.near.map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
                self.problem(Severity::Skipped, origin, &key, text + &near);
            }) else {
                continue;
            };
            let Value::Array(definitions) = definitions else {
                self.problem(Severity::Skipped, origin, &key, "expected a list of definitions");
                continue;
            };
            let foreign = Event::of_alias(name).is_some();
            if foreign {
                let text = format!(
                    "is Claude Code's name for `{event}`; its timeouts are read as seconds and its tool names are translated (`pollux hooks migrate` converts such hooks)"
                );
                self.problem(Severity::Note, origin, &key, text);
            } else if event.name() != name {
                self.problem(Severity::Note, origin, &key, format!("read as `{event}`"));
            }
            for (index, definition) in definitions.iter().enumerate() {
                let key = format!("{key}[{index}]");
                if foreign {
                    self.definition(origin, event, &key, &claude::translated(definition));
                } else {
                    self.definition(origin, event, &key, definition);
                }
            }
        }
    }

    /// Reads a definition in its full or its short form.
    fn definition(&mut self, origin: &Origin, event: Event, key: &str, definition: &Value) {
        let Value::Object(fields) = definition else {
            return self.problem(Severity::Skipped, origin, key, "expected an object");
        };
        let matcher = match fields.get("matcher") {
            None | Some(Value::Null) => None,
            Some(Value::String(matcher)) => Some(matcher.as_str()),
            Some(other) => {
                // Without its matcher it would run for unintended tools.
                let text = format!("`matcher` must be a string, not {other}");
                return self.problem(Severity::Skipped, origin, key, text);
            }
        };
        let sequential = fields.get("sequential") == Some(&Value::Bool(true));
        let shared = Shared { event, matcher, sequential };
        match fields.get("hooks") {
            Some(Value::Array(hooks)) => {
                self.unknown_keys(origin, key, fields, &[DEFINITION_KEYS]);
                for (index, hook) in hooks.iter().enumerate() {
                    self.hook(origin, &shared, &format!("{key}.hooks[{index}]"), hook);
                }
            }
            None if fields.contains_key("command") => {
                self.unknown_keys(origin, key, fields, &[DEFINITION_KEYS, HOOK_KEYS]);
                self.fields(origin, &shared, key, fields);
            }
            Some(_) => self.problem(Severity::Skipped, origin, key, "`hooks` must be a list"),
            None => self.problem(Severity::Skipped, origin, key, "missing `hooks` or `command`"),
        }
    }

    fn hook(&mut self, origin: &Origin, shared: &Shared<'_>, key: &str, hook: &Value) {
        match hook {
            Value::Object(fields) => {
                self.unknown_keys(origin, key, fields, &[HOOK_KEYS]);
                self.fields(origin, shared, key, fields);
            }
            _ => self.problem(Severity::Skipped, origin, key, "expected an object"),
        }
    }

    fn fields(&mut self, origin: &Origin, shared: &Shared<'_>, key: &str, fields: &JsonObject) {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        match fields.get("type") {
            None | Some(Value::Null) => {}
            Some(Value::String(kind)) if kind == "command" => {}
            Some(other) => {
                let text = format!("unsupported hook type {other} (expected \"command\")");
                return self.problem(Severity::Skipped, origin, key, text);
            }
        }
        let Some(command) = text("command").filter(|command| !command.trim().is_empty()) else {
            return self.problem(Severity::Skipped, origin, key, "`command` must be a non-empty string");
        };
        if command.contains('\0') {
            return self.problem(Severity::Skipped, origin, key, "`command` contains a NUL character");
        }
        if self.hooks.len() >= MAX_HOOKS {
            return self.problem(
                Severity::Skipped,
                origin,
                key,
                format!("limit of {MAX_HOOKS} hooks reached"),
            );
        }
        let (rule, odd) = Matcher::new(shared.event, shared.matcher.unwrap_or_default(), self.current_name);
        if let Some(odd) = odd {
            self.problem(Severity::Note, origin, key, format!("matcher {odd}"));
        }
        let timeout = self.timeout(origin, key, fields.get("timeout"));
        let mut env = self.env(origin, key, fields.get("env"));
        env.extend(origin.env.iter().cloned());
        self.hooks.push(Hook {
            event: shared.event,
            source: origin.source.clone(),
            name: text("name").filter(|name| !name.trim().is_empty()).map(str::to_owned),
            command: command.to_owned(),
            matcher: shared.matcher.map(str::to_owned),
            sequential: shared.sequential,
            timeout,
            description: text("description").map(str::to_owned),
            required: fields.get("required") == Some(&Value::Bool(true)),
            enabled: true,
            file: origin.file.clone(),
            key: key.to_owned(),
            env,
            variables: origin.variables.clone(),
            rule,
            scripts: NamedScripts::default(),
            callback: None,
        });
    }

    fn timeout(&mut self, origin: &Origin, key: &str, value: Option<&Value>) -> Duration {
        let Some(value) = value.filter(|value| !value.is_null()) else { return DEFAULT_TIMEOUT };
        match value.as_f64() {
            Some(millis) if millis > 0.0 => {
                if millis < LIKELY_SECONDS_MS {
                    let text = format!(
                        "`timeout` is in milliseconds; {millis} ms is too short for most programs to start"
                    );
                    self.problem(Severity::Note, origin, key, text);
                }
                Duration::from_secs_f64(millis.min(MAX_TIMEOUT_MS) / 1000.0)
            }
            _ => {
                let text = format!(
                    "`timeout` must be a positive number of milliseconds, not {value}; using {}",
                    DEFAULT_TIMEOUT.as_millis()
                );
                self.problem(Severity::Note, origin, key, text);
                DEFAULT_TIMEOUT
            }
        }
    }

    fn env(&mut self, origin: &Origin, key: &str, value: Option<&Value>) -> Vec<(String, String)> {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Vec::new() };
        let Value::Object(variables) = value else {
            self.problem(Severity::Note, origin, key, "ignored `env`: must be an object with string values");
            return Vec::new();
        };
        let known = match origin.source {
            HookSource::User | HookSource::System | HookSource::Client => self.env,
            HookSource::Project | HookSource::Extension(_) => self.lent_env,
        };
        let mut env = Vec::with_capacity(variables.len());
        for (name, value) in variables {
            let text = match value {
                Value::String(text) => expand(text, known),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => String::from('\0'),
            };
            if name.is_empty() || name.contains(['=', '\0']) || text.contains('\0') {
                let text = format!("ignored `env.{name}`: not a valid environment variable");
                self.problem(Severity::Note, origin, key, text);
            } else {
                env.push((name.clone(), text));
            }
        }
        env
    }

    /// Reports unknown keys, because a misspelt key would otherwise be ignored silently.
    fn unknown_keys(&mut self, origin: &Origin, key: &str, fields: &JsonObject, known: &[&[&str]]) {
        let unknown = fields.keys().filter(|name| !known.iter().any(|keys| keys.contains(&name.as_str())));
        let names: Vec<String> = unknown.take(5).map(|name| format!("`{name}`")).collect();
        if !names.is_empty() {
            self.problem(Severity::Note, origin, key, format!("unknown keys ignored: {}", names.join(", ")));
        }
    }
}
