//! The sub-agents of a run, and the operations behind `pollux agents`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pollux_agent::AgentPort;
use pollux_config::env::Env;
use pollux_config::paths::same_place;
use pollux_config::settings;
use pollux_config::trust;
use pollux_domain::JsonObject;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::redact::redacted;
use pollux_domain::remote_agent::{CardSource, RemoteAgent};
use pollux_domain::spelling::distance;
use pollux_domain::terminal_text::plain;
use pollux_domain::time::{Clock, SystemClock};
use pollux_exec::background::Background;
use pollux_extend::agents::{
    Acknowledgements, AgentEntry, AgentSettings, Definition, Kind, Local, Prompt, Registry, Sources, Status,
    same_name,
};
use serde_json::{Value, json};

use super::hooks::refused;
use super::mcp::reached;
use super::project_model;
use super::remote_agents::RemoteAgents;
use super::{Loaded, agent_servers, extensions, load_settings};
use crate::VERSION;
use crate::mentions::{self, Piece};
use crate::request::{Request, Scope};

/// How long start-up waits for the cards of remote agents.
const INTRODUCTION: Duration = Duration::from_secs(3);

/// One agent.
#[derive(Debug, Clone, Default)]
pub struct AgentRow {
    pub name: String,
    /// Display name.
    pub title: String,
    pub description: String,
    /// `built-in`, `project`, `user` or `extension NAME`.
    pub origin: String,
    pub path: Option<String>,
    /// `enabled`, `disabled` or `unacknowledged`.
    pub status: &'static str,
    pub is_remote: bool,
    /// Model, tools and limits, or the card of a remote agent.
    pub details: JsonObject,
}

/// The question about project agents that are not approved yet, as lines, and their names; `None` if there are
/// none. Declining is not stored, so the question returns next time.
pub fn question(agents: &AgentSet) -> Option<(Vec<String>, Vec<String>)> {
    if agents.is_on() { question_about(&agents.rows()) } else { None }
}

/// The same for the given agents.
pub fn question_about(rows: &[AgentRow]) -> Option<(Vec<String>, Vec<String>)> {
    let open: Vec<&AgentRow> = rows.iter().filter(|row| row.status == "unacknowledged").collect();
    if open.is_empty() {
        return None;
    }
    let mut lines =
        vec!["This project defines agents that are new or have changed since you approved them:".to_owned()];
    for row in &open {
        let about = first_line(&row.description);
        lines.push(redacted(&plain(&format!("  * {}: {about}", row.name))).into_owned());
        lines.push(format!("    {}", plain(row.path.as_deref().unwrap_or_default())));
        // Approving the agent approves its servers, so they are listed.
        let servers = row.details.get("mcpServers").and_then(Value::as_array).into_iter().flatten();
        for server in servers.filter_map(Value::as_str) {
            lines.push(redacted(&plain(&format!("    runs the MCP server {server}"))).into_owned());
        }
    }
    Some((lines, open.iter().map(|row| row.name.clone()).collect()))
}

/// The description on one line.
pub fn first_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "(described by its agent card)".to_owned() } else { line }
}

/// Whether sub-agents are enabled.
pub(crate) fn is_on(loaded: &Loaded) -> bool {
    !matches!(loaded.settings.get("experimental.enableAgents"), Some((Value::Bool(false), _)))
}

/// The agents of a run, read on first use.
pub fn of(loaded: &Loaded) -> &Arc<Registry> {
    loaded.agents.get_or_init(|| Arc::new(if is_on(loaded) { read(loaded) } else { Registry::default() }))
}

fn read(loaded: &Loaded) -> Registry {
    let root = loaded.project.root();
    let own = loaded.trust.uses_project() && !same_place(root, loaded.home.user_home());
    let texts = |key: &str| {
        let items = loaded.settings.get(key).and_then(|(value, _)| value.as_array()).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let overrides = loaded.settings.get("agents.overrides").and_then(|(value, _)| value.as_object());
    let mut registry = Registry::load(&Sources {
        user: loaded.home.agents_dir(),
        project: own.then(|| (root, loaded.project.gemini_dir().join("agents"))),
        extensions: &extensions::readable(loaded),
        acknowledged: Acknowledgements::read(loaded.home.gemini_dir()),
        settings: AgentSettings {
            overrides: overrides.cloned().unwrap_or_default(),
            enabled: texts("agents.enabled"),
            disabled: texts("agents.disabled"),
        },
    });
    registry.refuse_models(|agent, model| project_model::refused_for_agent(loaded, agent, model));
    registry
}

/// Names of remote agents, which always require approval.
pub fn remote_names(loaded: &Loaded) -> Vec<String> {
    of(loaded).enabled().filter(|agent| agent.is_remote()).map(|agent| agent.name.clone()).collect()
}

/// The agents for a conversation; the warnings are about invalid definitions.
pub async fn port(
    loaded: &Loaded,
    roots: &[PathBuf],
    background: &Arc<Background>,
    interactive: bool,
    warnings: &mut Vec<String>,
) -> Option<AgentPort> {
    if !is_on(loaded) {
        return None;
    }
    let registry = Arc::clone(of(loaded));
    let failures = |line: &String| match line.starts_with("Failed to load agent") {
        true => format!("Agent loading error: {line}"),
        false => line.clone(),
    };
    warnings.extend(registry.problems().iter().map(failures));
    let (mut port, silent) = unintroduced(loaded, roots, background, interactive);
    port.about = introductions(silent, warnings).await;
    Some(port)
}

/// Remote agents by name that do not say what they do before they are asked.
type Silent = Vec<(String, Arc<dyn RemoteAgent>)>;

/// The agents without asking remote ones what they do, and those that would have to be asked.
pub(crate) fn unintroduced(
    loaded: &Loaded,
    roots: &[PathBuf],
    background: &Arc<Background>,
    interactive: bool,
) -> (AgentPort, Silent) {
    let registry = Arc::clone(of(loaded));
    let maker = RemoteAgents::new(loaded, background);
    let mut remote: BTreeMap<String, Arc<dyn RemoteAgent>> = BTreeMap::new();
    let mut silent = Vec::new();
    for agent in registry.enabled() {
        let Kind::Remote(target) = &agent.kind else { continue };
        let port = maker.agent((**target).clone(), agent_servers::is_users_own(&agent.origin));
        // An agent with a description does not need its card before the first call.
        if agent.description.trim().is_empty() || matches!(target.card, CardSource::Json(_)) {
            silent.push((agent.name.clone(), Arc::clone(&port)));
        }
        remote.insert(agent.name.clone(), port);
    }
    let project_hash = loaded.project.hash().to_owned();
    let servers = agent_servers::of(loaded, &registry, roots, background, interactive);
    let version = VERSION.to_owned();
    let port = AgentPort { registry, remote, servers, about: BTreeMap::new(), version, project_hash };
    (port, silent)
}

async fn introductions(
    agents: Vec<(String, Arc<dyn RemoteAgent>)>,
    warnings: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let mut asked = tokio::task::JoinSet::new();
    for (name, agent) in agents {
        asked.spawn(async move { (name, tokio::time::timeout(INTRODUCTION, agent.about()).await) });
    }
    let mut about = BTreeMap::new();
    for (name, answer) in asked.join_all().await {
        match answer {
            Ok(Ok(text)) => drop(about.insert(name, text)),
            Ok(Err(error)) => warnings.push(format!("agent `{name}`: {error}")),
            Err(_) => warnings.push(format!("agent `{name}`: timed out while fetching its agent card")),
        }
    }
    about
}

/// The note for the model when a prompt mentions agents, in upstream's words.
pub fn note(typed: &str, loaded: &Loaded) -> Option<String> {
    if !typed.contains('@') {
        return None;
    }
    let mut names: Vec<String> = Vec::new();
    for piece in mentions::pieces(typed) {
        let Piece::Mention(mention) = piece else { continue };
        if let Some(agent) = of(loaded).find(&mention.path)
            && !names.contains(&agent.name)
        {
            names.push(agent.name.clone());
        }
    }
    (!names.is_empty()).then(|| {
        format!(
            "\n<system_note>\nThe user has explicitly selected the following agent(s): {}. Please use the \
             'invoke_agent' tool to delegate the task to the selected agent(s).\n</system_note>\n",
            names.join(", ")
        )
    })
}

/// The agents for `pollux agents`.
pub fn agent_set(options: &Request, env: &Env) -> Result<AgentSet, Failure> {
    let loaded = load_settings(options, env)?;
    let registry = read(&loaded);
    let mut notes = loaded.notes.clone();
    let folder = loaded.project.gemini_dir().join("agents");
    let is_home = same_place(loaded.project.root(), loaded.home.user_home());
    if !loaded.trust.uses_project() && folder.is_dir() && !is_home {
        notes.push(format!(
            "Agents in `{}` are not loaded: this folder is not trusted (see `pollux trust show`).",
            folder.display()
        ));
    }
    Ok(AgentSet { loaded, registry, notes })
}

/// The sub-agents of a run.
pub struct AgentSet {
    loaded: Loaded,
    registry: Registry,
    notes: Vec<String>,
}

impl AgentSet {
    fn entry(&self, name: &str) -> Result<&AgentEntry, Failure> {
        let entries = self.registry.entries();
        if let Some(entry) = entries.iter().find(|entry| same_name(&entry.definition.name, name)) {
            return Ok(entry);
        }
        let nearest = entries.iter().min_by_key(|entry| distance(name, &entry.definition.name));
        let failure = Failure::new(ExitKind::Failure, format!("no sub-agent named \"{name}\""));
        // A definition that cannot be loaded mostly has the name of its file.
        let of_file =
            |line: &&String| ["md", "toml"].iter().any(|end| line.contains(&format!("/{name}.{end}: ")));
        if let Some(problem) = self.registry.problems().iter().find(of_file) {
            return Err(failure.hint(problem.as_str()));
        }
        Err(match nearest.filter(|entry| distance(name, &entry.definition.name) <= 3) {
            Some(entry) => failure.hint(format!("did you mean `{}`?", entry.definition.name)),
            None => failure.hint("run `pollux agents list`"),
        })
    }
}

impl AgentSet {
    /// Notes for stderr.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether sub-agents are enabled.
    pub fn is_on(&self) -> bool {
        is_on(&self.loaded)
    }

    /// In discovery order.
    pub fn rows(&self) -> Vec<AgentRow> {
        self.registry.entries().iter().map(row).collect()
    }

    /// Problems in definitions, one per line.
    pub fn problems(&self) -> Vec<String> {
        self.registry.problems().to_vec()
    }

    /// One agent and its system prompt.
    pub fn show(&self, name: &str) -> Result<(AgentRow, String), Failure> {
        let entry = self.entry(name)?;
        let text = match &entry.definition.kind {
            Kind::Local(local) => match local.prompt.text() {
                Ok(Some(text)) => text,
                Ok(None) => String::new(),
                Err(error) => return Err(Failure::from_error(ExitKind::Failure, &error)),
            },
            Kind::Remote(_) => String::new(),
        };
        Ok((row(entry), text))
    }

    /// Enables or disables an agent and returns a message.
    pub fn switch(&mut self, name: &str, on: bool, scope: Scope) -> Result<String, Failure> {
        let entry = self.entry(name)?;
        let name = entry.definition.name.clone();
        let word = if on { "enabled" } else { "disabled" };
        if (entry.status == Status::Disabled) != on {
            return Ok(format!("Agent \"{name}\" is already {word}.\n"));
        }
        let home = same_place(self.loaded.project.root(), self.loaded.home.user_home());
        if scope == Scope::Project && home {
            return Err(Failure::new(
                ExitKind::Failure,
                "Error: Please use --scope user to edit settings in the home directory.",
            ));
        }
        let (user, project) = (self.loaded.home.settings_file(), self.loaded.project.settings_file());
        let path = ["agents", "overrides", name.as_str(), "enabled"];
        // A project file that still disables the agent is changed too, or enabling would have no effect.
        let says_off = |file| {
            let object = settings::read_object(file).ok().flatten().unwrap_or_default();
            Value::Object(object).pointer(&format!("/{}", path.join("/"))) == Some(&json!(false))
        };
        let mut files = vec![if scope == Scope::Project { &project } else { &user }];
        let other = if scope == Scope::Project { &user } else { &project };
        if on && !home && says_off(other) {
            files.push(other);
        }
        for file in &files {
            settings::set_path(file, &path, &json!(on)).map_err(|error| refused(&error))?;
        }
        if files.contains(&&project) {
            // The user's own change does not need a second approval.
            let now = Some(SystemClock.now());
            trust::rebind(&self.loaded.home, self.loaded.project.root(), &self.loaded.binding, now)
                .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        }
        let names: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
        Ok(format!("Agent \"{name}\" {word} in {}.\n", names.join(" and ")))
    }

    /// Records approval of a project agent in its current form and returns a message.
    pub fn acknowledge(&mut self, name: &str) -> Result<String, Failure> {
        let entry = self.entry(name)?;
        let name = entry.definition.name.clone();
        let Status::Unacknowledged { hash } = &entry.status else {
            return Ok(format!("Agent \"{name}\" does not need approval.\n"));
        };
        let moved = Acknowledgements::read(self.loaded.home.gemini_dir())
            .agree(self.loaded.project.root(), &name, hash)
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        let mut message = format!("Agent \"{name}\" is approved for this project in its current form.\n");
        if let Some(aside) = moved {
            let aside = aside.display();
            message.push_str(&format!("Earlier approvals could not be read; they are now in `{aside}`.\n"));
        }
        Ok(message)
    }
}

fn row(entry: &AgentEntry) -> AgentRow {
    let agent: &Definition = &entry.definition;
    AgentRow {
        name: agent.name.clone(),
        title: agent.title().to_owned(),
        description: agent.description.clone(),
        origin: agent.origin.label(),
        path: agent.origin.path().map(|path| path.display().to_string()),
        status: match entry.status {
            Status::Enabled => "enabled",
            Status::Disabled => "disabled",
            Status::Unacknowledged { .. } => "unacknowledged",
        },
        is_remote: agent.is_remote(),
        details: match &agent.kind {
            Kind::Local(local) => local_details(local),
            Kind::Remote(target) => {
                let card = match &target.card {
                    CardSource::Url(url) => json!(url),
                    CardSource::Json(_) => json!("in the definition"),
                };
                let auth = target.auth.as_ref().map(|auth| json!(auth.kind()));
                JsonObject::from_iter([
                    ("card".to_owned(), card),
                    ("auth".to_owned(), auth.unwrap_or_else(|| json!("none"))),
                ])
            }
        },
    }
}

/// Its MCP servers with their command or URL.
fn servers(local: &Local) -> Vec<String> {
    local.mcp_servers.iter().map(|(name, entry)| format!("{name}: {}", reached(entry))).collect()
}

fn local_details(local: &Local) -> JsonObject {
    let tools = local.tools.as_ref().map_or_else(|| json!(["*"]), |tools| json!(tools));
    let mut details = JsonObject::from_iter([
        ("model".to_owned(), json!(local.model.label())),
        ("tools".to_owned(), tools),
        ("maxTurns".to_owned(), json!(local.max_turns)),
        ("timeoutSeconds".to_owned(), json!(local.time_limit.as_secs())),
        ("inputs".to_owned(), local.inputs.clone()),
    ]);
    if let Some(temperature) = local.generation.get("temperature") {
        details.insert("temperature".to_owned(), temperature.clone());
    }
    if !local.mcp_servers.is_empty() {
        details.insert("mcpServers".to_owned(), json!(servers(local)));
    }
    if let Some(output) = &local.output {
        details.insert("output".to_owned(), json!({"name": output.name, "schema": output.schema}));
    }
    if local.prompt == Prompt::Main {
        details.insert("prompt".to_owned(), json!("the main agent's"));
    }
    details
}
