//! The MCP servers of a run: which are configured, which may be used, and how they are started.

mod switches;

pub use switches::{switch_server, switches_file, switches_problem};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::server_name::same_server;
use pollux_config::settings::{Layer, interpolate, read_object};
use pollux_domain::JsonObject;
use pollux_domain::content::Part;
use pollux_domain::event::{Event, NoticeCode, Severity};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::one_line;
use pollux_domain::time::SystemClock;
use pollux_domain::tool::{ToolSource as _, ToolSpec};
use pollux_exec::background::Background;
use pollux_extend::extension::tuned;
use pollux_mcp::{
    ConfigError, Owners, Report, ServerConfig, ServerEntry, Servers, Setup, SignIn, Status, split_words,
};
use pollux_net::client::ClientOptions;
use pollux_net::oauth::{OAuth, OAuthOptions};
use pollux_policy::qualified_tool_name;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::extensions::{self, ExtensionServer};
use super::{Loaded, Sink, server_names};
use switches::Switches;

use crate::VERSION;
use crate::mentions::{self, Piece};

/// A configured server.
pub struct Named {
    pub name: String,
    /// The entry as written, with `$NAME` not expanded.
    pub written: Value,
    pub state: Result<ServerConfig, Unused>,
    /// The extension that defines it.
    pub from: Option<String>,
    /// What is not used of its entry.
    pub remarks: Vec<String>,
}

impl Named {
    pub fn is_overlay(&self) -> bool {
        matches!(self.state, Err(Unused::Overlay))
    }
}

/// Why a server is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unused {
    /// Excluded by a list or an administrator.
    Blocked(String),
    /// Disabled, or the folder is not trusted.
    Disabled(String),
    /// Its entry is invalid.
    Invalid(String),
    /// Its entry only adjusts a server of an extension that is not active.
    Overlay,
}

/// Upstream's two lines about untrusted folders.
pub const UNTRUSTED: [&str; 2] = [
    "Warning: MCP servers are configured but disabled because this folder is untrusted.",
    "User-level servers are also suppressed in untrusted folders to prevent accidental side-effects.",
];

pub const SWITCHED_OFF_BY_ADMIN: &str =
    "MCP servers are disabled by administrator. Check admin settings or contact your admin.";

/// A longer wait is announced.
const QUIET_WAIT: Duration = Duration::from_secs(3);
/// Upper limit, whatever the setting says.
const LONGEST_WAIT: u64 = 60_000;

/// Whether any server is configured.
pub fn any(loaded: &Loaded) -> bool {
    let object = |value: &Value| value.as_object().is_some_and(|map| !map.is_empty());
    object(loaded.settings.section("mcpServers"))
        || !loaded.client_servers.is_empty()
        || server_command(loaded).is_some()
        || extensions::any_server(loaded)
        || loaded.settings.get("admin.mcp.requiredConfig").is_some_and(|(value, _)| object(value))
}

/// Every server, sorted by name.
pub fn named(loaded: &Loaded) -> Vec<Named> {
    let mut found = found(loaded);
    for server in &mut found {
        if let Some(written) = written(loaded, &server.name) {
            server.written = match server.from {
                Some(_) => tuned(&server.written, &written),
                None => written,
            };
        }
    }
    found
}

/// The same without reading the files again; entries are the effective ones.
fn found(loaded: &Loaded) -> Vec<Named> {
    let switches = Switches::read(loaded);
    let mut found: Vec<Named> = Vec::new();
    let of_extensions = extensions::servers(loaded);
    let entries = entries(loaded, &of_extensions);
    let owners = server_names::owners(loaded);
    let names: Vec<String> = entries.iter().map(|(name, _)| name.clone()).collect();
    for (name, entry) in entries {
        let conflict = || server_names::conflict(&owners, &names, &name).map(Unused::Invalid);
        let state = match refusal(loaded, &switches, &name).or_else(conflict) {
            Some(unused) => Err(unused),
            None => configured(loaded, &name, &entry).map_err(|error| match error {
                ConfigError::NoTransport | ConfigError::TypeNeeds { .. }
                    if is_of_extension(loaded, &name) =>
                {
                    Unused::Overlay
                }
                other => Unused::Invalid(other.to_string()),
            }),
        };
        let remarks = if state.is_ok() { unset_headers(&entry) } else { Vec::new() };
        // The effective entry may contain secrets, so show it as the extension wrote it.
        let of_extension = of_extensions.iter().find(|server| server.name == name);
        let from = of_extension.map(|server| server.extension.clone());
        let written = of_extension.map_or(entry, |server| server.written.clone());
        found.push(Named { name, written, state, from, remarks });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Whether an extension defines a server, active or not.
fn is_of_extension(loaded: &Loaded, name: &str) -> bool {
    let mut servers = extensions::of(loaded).all.iter().flat_map(|one| one.manifest.servers());
    servers.any(|(known, _)| known == name)
}

/// Lines about headers of an entry that are not sent.
fn unset_headers(entry: &Value) -> Vec<String> {
    let unset = ServerConfig::unset_headers(entry).into_iter();
    unset
        .map(|header| {
            format!("header `{}` is not sent because `{}` is not set", header.name, header.variable)
        })
        .collect()
}

/// The configuration of a server: its entry, or its place in the session's client.
fn configured(loaded: &Loaded, name: &str, entry: &Value) -> Result<ServerConfig, ConfigError> {
    // An administrator's entry of the same name takes its place.
    let is_own = loaded.client_servers.iter().any(|(known, own)| known == name && own == entry);
    match loaded.client_links.iter().find(|(known, _)| known == name) {
        Some((_, link)) if is_own => Ok(ServerConfig::of_client(name, link.clone())),
        _ => ServerConfig::parse(name, entry),
    }
}

/// The effective `mcpServers` entries, including extensions and administrator changes.
fn entries(loaded: &Loaded, of_extensions: &[ExtensionServer]) -> Vec<(String, Value)> {
    let map = |key: &str| match loaded.settings.get(key) {
        Some((Value::Object(map), _)) => map.clone(),
        _ => JsonObject::new(),
    };
    let mut entries = map("mcpServers");
    if let Some(words) = server_command(loaded) {
        let (command, args) =
            words.split_first().map(|(command, args)| (command.clone(), args)).unwrap_or_default();
        entries.entry("mcp").or_insert_with(|| json!({"command": command, "args": args}));
    }
    for server in of_extensions {
        let by_project =
            loaded.settings.origin(&format!("mcpServers.{}", server.name)).layer == Layer::Project;
        let entry = match entries.get(&server.name) {
            // A project can take over no existing name, with neither an extension nor an entry.
            Some(_) if server.of_project => continue,
            Some(by) if by_project => tuned(&server.entry, &filters(by)),
            Some(by) => tuned(&server.entry, by),
            None => server.entry.clone(),
        };
        entries.insert(server.name.clone(), entry);
    }
    if loaded.only_client_servers {
        entries.clear();
    }
    // The person's own client decides for its session; an administrator decides for both.
    entries.extend(loaded.client_servers.iter().cloned());
    rule(loaded, &mut entries);
    entries.extend(map("admin.mcp.requiredConfig"));
    entries.into_iter().collect()
}

/// Restricts the servers to an administrator's list, if there is one, with the entries it gives.
fn rule(loaded: &Loaded, entries: &mut JsonObject) {
    let Some((Value::Object(allowed), _)) = loaded.settings.get("admin.mcp.config") else { return };
    if allowed.is_empty() {
        return;
    }
    entries.retain(|name, _| allowed.contains_key(name));
    for (name, entry) in entries {
        if let (Value::Object(entry), Some(Value::Object(ruled))) = (entry, allowed.get(name)) {
            ["command", "args", "env", "cwd"].iter().for_each(|key| drop(entry.shift_remove(*key)));
            entry.extend(ruled.clone());
        }
    }
}

/// The servers of an agent that may be started, and notes about the others.
pub(crate) fn of_agent(
    loaded: &Loaded,
    agent: &str,
    own: &JsonObject,
    env: &Env,
    owners: &Owners,
) -> (Vec<ServerConfig>, Vec<String>) {
    let switches = Switches::read(loaded);
    let taken = server_names::server_names(loaded);
    let mut ruled = own.clone();
    rule(loaded, &mut ruled);
    let (mut configs, mut problems) = (Vec::new(), Vec::new());
    for name in own.keys() {
        let unused = |why: &str| format!("MCP server '{name}' of agent '{agent}' is not used: {why}");
        // A server with a configured server's name would inherit its rules and approvals.
        if taken.iter().any(|other| same_server(other, name)) {
            problems.push(unused("a configured server has the same name and takes precedence"));
            continue;
        }
        if let Some(why) = server_names::conflict(owners, &[], name) {
            problems.push(unused(&why));
            continue;
        }
        if loaded.only_client_servers {
            problems.push(unused("only the servers of the client are used"));
            continue;
        }
        if let Some(Unused::Blocked(why) | Unused::Disabled(why)) = refusal(loaded, &switches, name) {
            problems.push(unused(&why));
            continue;
        }
        let Some(entry) = ruled.get_mut(name) else {
            problems.push(unused("it is not on the administrator's list"));
            continue;
        };
        interpolate(entry, env);
        match ServerConfig::parse(name, entry) {
            Ok(config) => configs.push(config),
            Err(error) => {
                problems.push(unused(&error.to_string()));
                continue;
            }
        }
        let remarks = unset_headers(entry).into_iter();
        problems.extend(remarks.map(|remark| format!("MCP server '{name}' of agent '{agent}': {remark}")));
    }
    (configs, problems)
}

/// The parts of an entry that only restrict a server.
fn filters(entry: &Value) -> Value {
    let mut kept = entry.as_object().cloned().unwrap_or_default();
    kept.retain(|key, _| ["includeTools", "excludeTools", "timeout", "description"].contains(&key.as_str()));
    Value::Object(kept)
}

/// `mcp.serverCommand`, split into words.
fn server_command(loaded: &Loaded) -> Option<Vec<String>> {
    let (value, _) = loaded.settings.get("mcp.serverCommand")?;
    Some(split_words(value.as_str()?)).filter(|words| !words.is_empty())
}

/// The entry as written in its file.
fn written(loaded: &Loaded, name: &str) -> Option<Value> {
    let origin = loaded.settings.origin(&format!("mcpServers.{name}"));
    let file = match origin.layer {
        Layer::User => loaded.home.settings_file(),
        Layer::Project => loaded.project.settings_file(),
        Layer::Default | Layer::SystemDefaults | Layer::System | Layer::Environment | Layer::Arguments => {
            return None;
        }
    };
    let object = read_object(&file).ok()??;
    object.get("mcpServers")?.get(name).cloned()
}

/// Why a server may not be used; the first reason wins.
fn refusal(loaded: &Loaded, switches: &Switches, name: &str) -> Option<Unused> {
    let same = |other: &String| other.trim().eq_ignore_ascii_case(name.trim());
    if loaded.settings.get("admin.mcp.enabled").is_some_and(|(value, _)| value == &Value::Bool(false)) {
        return Some(Unused::Blocked(SWITCHED_OFF_BY_ADMIN.to_owned()));
    }
    if server_names::only_servers(loaded).is_some_and(|only| !only.iter().any(same)) {
        let text = format!(
            "Server '{name}' is not in mcp.allowed list. Add it to settings.json mcp.allowed array to enable."
        );
        return Some(Unused::Blocked(text));
    }
    let excluded = loaded.settings.get("mcp.excluded").and_then(|(value, _)| value.as_array());
    let excluded = excluded.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    if excluded.into_iter().any(|other| same(&other)) {
        let text = format!(
            "Server '{name}' is blocked by mcp.excluded. Remove it from settings.json mcp.excluded array to enable."
        );
        return Some(Unused::Blocked(text));
    }
    if loaded.client_servers.iter().any(|(known, _)| known == name) {
        return None;
    }
    if let Some(text) = switches.refusal(name) {
        return Some(Unused::Disabled(text));
    }
    let untrusted =
        || format!("Server '{name}' is not started: this folder is not trusted (`pollux trust show`).");
    (!loaded.trust.uses_project()).then(|| Unused::Disabled(untrusted()))
}

/// The URL of the client metadata document.
fn client_metadata_url(loaded: &Loaded) -> Option<String> {
    let (value, _) = loaded.settings.get("mcp.clientMetadataUrl")?;
    value.as_str().map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned)
}

/// The sign-in options.
pub fn sign_in(loaded: &Loaded) -> SignIn {
    let http = ClientOptions::from_env(&loaded.env, format!("pollux/{VERSION}"));
    let port = loaded.env.non_empty("OAUTH_CALLBACK_PORT").and_then(|port| port.parse().ok());
    let oauth = OAuth::new(OAuthOptions {
        client: http.clone(),
        store: loaded.credential_store(),
        clock: Arc::new(SystemClock),
        callback_port: port,
        client_metadata_url: client_metadata_url(loaded),
    });
    let user_home = loaded.home.user_home().to_path_buf();
    SignIn { oauth, env: loaded.env.clone(), user_home, http, clock: Arc::new(SystemClock) }
}

/// How long the first request of a headless run waits for servers with unknown tools.
fn first_wait(loaded: &Loaded) -> Duration {
    let given = loaded.settings.get("mcp.firstRequestWaitMs").and_then(|(value, _)| value.as_i64());
    Duration::from_millis(given.and_then(|given| given.try_into().ok()).unwrap_or(0).min(LONGEST_WAIT))
}

/// Waits until the tools of all servers are known, up to the limit. A long wait is reported
/// to the user.
pub async fn wait_for_tools(servers: Option<&Servers>, cancel: &CancellationToken, sink: &mut Sink<'_>) {
    let Some(servers) = servers else { return };
    let most = servers.first_wait();
    let settled = servers.settled(cancel);
    tokio::pin!(settled);
    tokio::select! {
        biased;
        () = &mut settled => {}
        () = tokio::time::sleep(QUIET_WAIT.min(most)) => {
            if most > QUIET_WAIT {
                let names = one_line(&servers.unknown().join(", "));
                let text = format!("Waiting up to {} s for MCP servers to start: {names}", most.as_secs_f64());
                let _ = sink(&note(text));
            }
            settled.await;
        }
    }
    let missing = servers.take_missing();
    if !missing.is_empty() && !cancel.is_cancelled() {
        let names = one_line(&missing.join(", "));
        let text = format!(
            "MCP servers not ready after {} s: {names}. The first request is sent without their tools \
             (`mcp.firstRequestWaitMs`).",
            most.as_secs_f64()
        );
        let _ = sink(&note(text));
    }
}

fn note(message: String) -> Event {
    Event::Notice { severity: Severity::Info, code: NoticeCode::Server, message }
}

/// Connects to these servers to check their status; cached declarations are not used.
pub fn connect(
    loaded: &Loaded,
    configs: Vec<ServerConfig>,
    roots: Vec<PathBuf>,
    background: &Arc<Background>,
) -> Servers {
    Servers::start(Setup { cache: None, ..setup(loaded, configs, roots, background, false) })
}

/// The setup these servers are started with.
pub fn setup(
    loaded: &Loaded,
    configs: Vec<ServerConfig>,
    roots: Vec<PathBuf>,
    background: &Arc<Background>,
    interactive: bool,
) -> Setup {
    // Local programs need no credential store.
    let sign_in = configs.iter().any(|config| config.url().is_some()).then(|| sign_in(loaded));
    let entries = configs.into_iter().map(|config| {
        let access = sign_in.as_ref().and_then(|sign_in| sign_in.access(&config));
        ServerEntry { config, access }
    });
    Setup {
        entries: entries.collect(),
        owners: server_names::owners(loaded),
        env: loaded.env.clone(),
        redaction: loaded.groups.tools.redaction.clone(),
        directory: loaded.project.root().to_path_buf(),
        roots,
        background: Arc::clone(background),
        http: ClientOptions::from_env(&loaded.env, format!("pollux/{VERSION}")),
        version: VERSION.to_owned(),
        interactive,
        name_tool: qualified_tool_name,
        listener: None,
        first_wait: first_wait(loaded),
        cache: Some(loaded.home.gemini_dir().join("pollux").join("mcp-declarations")),
    }
}

/// Starts the servers of a conversation; notes are about unusable ones. `None` if none is configured.
pub fn start(loaded: &Loaded, roots: &[PathBuf], interactive: bool) -> (Option<Arc<Servers>>, Vec<String>) {
    if let Some(kept) = loaded.servers.take() {
        return (Some(kept), Vec::new());
    }
    if !any(loaded) {
        return (None, Vec::new());
    }
    let mut notes: Vec<String> = switches_problem(loaded).into_iter().collect();
    let mut configs = Vec::new();
    for server in found(loaded) {
        let remarks = server.remarks.iter();
        notes.extend(remarks.map(|remark| format!("MCP server '{}': {remark}", server.name)));
        match server.state {
            Ok(config) => configs.push(config),
            Err(Unused::Invalid(why)) => {
                notes.push(format!("MCP server '{}' is not used: {why}", server.name));
            }
            // The user disabled it, so no note is needed.
            Err(Unused::Blocked(_) | Unused::Disabled(_) | Unused::Overlay) => {}
        }
    }
    if configs.is_empty() {
        return (None, notes);
    }
    // Not the conversation's token, since servers may outlive it.
    let background = Arc::new(Background::guarded(loaded.home.tmp_dir().join("background-processes")));
    let setup = setup(loaded, configs, roots.to_vec(), &background, interactive);
    let servers = match &loaded.shared_servers {
        Some(shared) => Servers::prepare_shared(setup, shared),
        None => Servers::prepare(setup),
    };
    if interactive {
        // In an interactive run the servers are ready before the first prompt is typed.
        servers.begin();
    } else {
        servers.begin_unknown();
    }
    (Some(Arc::new(servers)), notes)
}

/// The text of the MCP prompt that was typed; `None` for anything else.
pub async fn prompt_text(
    servers: &Servers,
    typed: &str,
    cancel: &CancellationToken,
) -> Option<Result<String, Failure>> {
    let line = typed.trim().strip_prefix('/')?;
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    // A path is not a command.
    if word.is_empty() || word.contains(['/', '*']) {
        return None;
    }
    let command = servers.find_prompt(word, cancel).await?;
    if rest.trim() == "help" {
        return Some(Err(Failure::new(ExitKind::Input, command.help())));
    }
    Some(command.text(rest, cancel).await.map_err(|error| Failure::from_error(ExitKind::Input, &error)))
}

/// The resources that a prompt mentions as `@server:uri`.
pub async fn mentioned(
    servers: &Servers,
    typed: &str,
    cancel: &CancellationToken,
) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    let mut seen = Vec::new();
    for piece in mentions::pieces(typed) {
        let Piece::Mention(mention) = piece else { continue };
        if seen.contains(&mention.path) {
            continue;
        }
        let Some(read) = servers.read(&mention.path, cancel).await else { continue };
        parts.extend(read.map_err(|error| {
            let what = format!("could not read `{}` mentioned in the prompt", mention.path);
            Failure::new(ExitKind::Input, what).because(&error)
        })?);
        seen.push(mention.path);
    }
    if !parts.is_empty() {
        parts.insert(0, Part::text("\n--- Content from MCP resources ---"));
        parts.push(Part::text("\n--- End of content ---"));
    }
    Ok(parts)
}

/// The level of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Names,
    Descriptions,
    /// Include tool parameters.
    Schemas,
}

/// The status of each server and what it offers.
pub fn lines(servers: &Servers, detail: Detail, tools: &[Arc<ToolSpec>]) -> Vec<String> {
    servers.reports().into_iter().flat_map(|report| told(report, detail, tools)).collect()
}

/// Lines of a server's last output that tell why it is not there.
const LOG_LINES: usize = 5;

fn told(report: Report, detail: Detail, tools: &[Arc<ToolSpec>]) -> Vec<String> {
    let name = &report.name;
    match report.status {
        Status::Connecting => return vec![format!("… {name}: connecting")],
        Status::Disconnected => {
            let hint = match report.sign_in {
                Some(_) => format!(" (run /mcp auth {name} to sign in)"),
                None => String::new(),
            };
            let first = format!("✗ {name}: {}{hint}", report.problem.unwrap_or_default());
            let hidden = report.log.len().saturating_sub(LOG_LINES);
            let said =
                report.log.iter().skip(hidden).map(|line| format!("    {}", redacted(&one_line(line))));
            return std::iter::once(first).chain(said).collect();
        }
        Status::Connected => {}
    }
    let mut lines = vec![format!(
        "✓ {name}: {} tools, {} prompts, {} resources",
        report.tools.len(),
        report.prompts.len(),
        report.resources
    )];
    for tool in &report.tools {
        lines.push(format!("  - {}", one_line(&tool.declared)));
        if detail != Detail::Names && !tool.description.trim().is_empty() {
            lines.extend(tool.description.trim().lines().map(|line| format!("      {}", one_line(line))));
        }
        let spec = tools.iter().find(|spec| detail == Detail::Schemas && spec.name == tool.declared);
        if let Some(spec) = spec {
            let schema = format!("{:#}", spec.parameters);
            lines.extend(schema.lines().map(|line| format!("      {line}")));
        }
    }
    if detail != Detail::Names && !report.prompts.is_empty() {
        lines.push(format!("  Prompts: {}", one_line(&report.prompts.join(", "))));
    }
    lines
}

/// The one-time message about failed servers.
pub fn problem(command: &str) -> Event {
    let message = format!("MCP issues detected. Run {command} for status.");
    Event::Notice { severity: Severity::Warning, code: NoticeCode::Server, message }
}

/// The command or URL of a server, as written.
pub fn reached(entry: &Value) -> String {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    if let Some(url) = text("httpUrl") {
        return format!("{url} (http)");
    }
    if let Some(url) = text("url") {
        return format!("{url} ({})", text("type").unwrap_or("http"));
    }
    let args = entry.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    match text("command").filter(|command| !command.trim().is_empty()) {
        Some(command) => {
            format!("{} (stdio)", [command].into_iter().chain(args).collect::<Vec<_>>().join(" "))
        }
        None => "no command or URL".to_owned(),
    }
}
