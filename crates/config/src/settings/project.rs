//! Restrictions on project settings, even in a trusted folder.
//!
//! Contributors of a repository must not be able to redirect prompts and keys, or to
//! remove a protection that the user chose.

use std::path::{Component, Path};

use serde_json::{Map, Value};

use super::defect::{SettingsWarning, WarningKind};
use super::layers::LayerValues;
use super::lookup;
use super::origin::{Layer, Origin};
use super::schema;
use crate::agent_name::same_agent;
use crate::budget::keep_lower;
use crate::server_name::same_server;

/// Keys and containers a project cannot set at all. Most would redirect where prompts, keys and files go,
/// choose a program, or take the place of what the user chose.
const NEVER: &[&str] = &[
    // Who may use a server, and which addresses it calls.
    "a2a",
    // Commands in terminals of the editor have its variables.
    "acp",
    "adminPolicyPaths",
    "advanced.bugCommand",
    "api",
    "billing",
    // With the root of the disk as the project's top, every file would be part of the project.
    "context.memoryBoundaryMarkers",
    // It decides which process runs sessions, and with which variables.
    "core",
    "experimental.extensionRegistryURI",
    "experimental.gemmaModelRouter",
    "general.defaultApprovalMode",
    "general.preferredEditor",
    // The user must be able to undo what a project's commands destroy.
    "general.durability",
    "general.rewind",
    // The user's own hooks may be a protection.
    "hooksConfig.disabled",
    // What the user's editor shows is sent to the model.
    "ide",
    // The program that serves a model file.
    "local",
    // The client's identity.
    "mcp.clientMetadataUrl",
    // Whether and where conversations are stored, and which service receives texts.
    "memory",
    // Which account is asked, and who sees what is said.
    "model.fallback",
    "model.provider",
    "model.small",
    // It would replace the user's own rules.
    "policyPaths",
    "privacy",
    // Addresses that keys and prompts are sent to.
    "providers",
    "telemetry",
    "tools.approvalMode",
    // What a device can do is for the user to know.
    "tools.sandboxDevices",
    "tools.shell.pager",
    // It opens the local network.
    "tools.webFetch",
];

/// Switches a project can turn on but not off.
const ONLY_ON: &[&str] = &[
    "advanced.ignoreLocalEnv",
    "context.fileFiltering.respectGeminiIgnore",
    "context.fileFiltering.respectGitIgnore",
    "hooksConfig.enabled",
    "security.blockGitExtensions",
    "security.disableAlwaysAllow",
    "security.disableYoloMode",
    "security.environmentVariableRedaction.enabled",
    "security.protectBuildFiles",
    "security.toolSandboxing",
];

/// Switches a project cannot turn on again if the user's own settings turn them off.
const STAY_OFF: &[&str] =
    &["experimental.enableAgents", "hooksConfig.enabled", "skills.enabled", "tools.enableHooks"];

/// Where plan mode may write.
const PLANS: &str = "general.plan.directory";

/// The commands that list tools and call them.
const DISCOVERY: &[&str] = &["tools.callCommand", "tools.discoveryCommand"];

/// Keys that widen what runs without approval. Taken from a project only if the user's own
/// settings say `security.projectMayWiden`.
const WIDENS: &[&str] = &[
    "agents.browser",
    "context.includeDirectories",
    "mcp.autoAllowInHeadless",
    "tools.allowed",
    "tools.autoAccept",
    "tools.sandboxAllowedPaths",
    "tools.sandboxNetwork",
    "tools.sandboxNetworkAccess",
    "tools.sandboxPackageDownloads",
    "tools.sandboxProfile",
];

/// Whether a project may let more happen than the user's own settings do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widening {
    Allowed,
    Refused,
}

/// What everybody but the project says about it.
pub(crate) fn widening(layers: &[LayerValues]) -> Widening {
    let others = layers.iter().rev().filter(|layer| layer.layer != Layer::Project);
    let said = others.filter_map(|layer| lookup(&layer.values, "security.projectMayWiden")?.as_bool());
    if said.into_iter().next() == Some(true) { Widening::Allowed } else { Widening::Refused }
}

/// Removes those values from a project's layer and returns them by dotted path.
pub(crate) fn withhold(values: &mut Map<String, Value>, widening: Widening) -> Vec<(String, Value)> {
    let mut withheld = Vec::new();
    withhold_dotted(values, "", &mut withheld);
    take(values, NEVER, &mut withheld);
    for path in ONLY_ON {
        let off = |value: &Value| match value {
            Value::Bool(on) => !on,
            Value::String(text) => !text.eq_ignore_ascii_case("true"),
            Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
        };
        if lookup(values, path).is_some_and(off) {
            take(values, &[path], &mut withheld);
        }
    }
    if lookup(values, PLANS).is_some_and(|folder| !folder.as_str().is_some_and(is_folder_of_its_own)) {
        take(values, &[PLANS], &mut withheld);
    }
    // A project may set nothing else below `security`, known or not.
    let mut all = Vec::new();
    if let Some(security) = values.get("security") {
        leaves("security", security.clone(), &mut all);
    }
    for (path, _) in all.iter().filter(|(path, _)| !ONLY_ON.contains(&path.as_str())) {
        take(values, &[path], &mut withheld);
    }
    if widening == Widening::Refused {
        take(values, WIDENS, &mut withheld);
        // A sandbox may be asked for; which one, how open it is, and that there is none, may not.
        if lookup(values, "tools.sandbox").is_some_and(|wish| wish != &Value::Bool(true)) {
            take(values, &["tools.sandbox"], &mut withheld);
        }
        withhold_server_trust(values, &mut withheld);
    }
    for part in ["agents", "model", "modelConfigs"] {
        if let Some(value) = values.get_mut(part) {
            withhold_foreign_models(part, value, &mut withheld);
        }
    }
    withheld
}

fn take(values: &mut Map<String, Value>, paths: &[&str], withheld: &mut Vec<(String, Value)>) {
    for path in paths {
        if let Some(value) = remove(values, path) {
            leaves(path, value, withheld);
        }
    }
}

/// Whether a path leads to a folder below the project which is not configuration: agents and skills are Markdown files,
/// too.
fn is_folder_of_its_own(path: &str) -> bool {
    let mut parts = Path::new(path.trim()).components().filter(|part| *part != Component::CurDir).peekable();
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
        _ => false,
    };
    parts.peek().is_some() && parts.all(is_plain)
}

/// `trust` of an MCP server: its tools would run without approval.
fn withhold_server_trust(values: &mut Map<String, Value>, withheld: &mut Vec<(String, Value)>) {
    let Some(Value::Object(servers)) = values.get_mut("mcpServers") else { return };
    for (name, server) in servers {
        let trust = server.as_object_mut().and_then(|server| server.shift_remove("trust"));
        withheld.extend(
            trust
                .filter(|trust| trust != &Value::Bool(false))
                .map(|trust| (format!("mcpServers.{name}.trust"), trust)),
        );
    }
}

/// Removes names of models that live in an account: its owner could read the prompts sent there.
fn withhold_foreign_models(path: &str, value: &mut Value, withheld: &mut Vec<(String, Value)>) {
    match value {
        Value::String(name) if is_in_account(name) => {
            withheld.push((path.to_owned(), std::mem::take(value)));
        }
        Value::Object(map) => {
            for (name, inner) in map.iter_mut() {
                withhold_foreign_models(&format!("{path}.{name}"), inner, withheld);
            }
            map.retain(|_, inner| !inner.is_null());
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|inner| withhold_foreign_models(path, inner, withheld));
            items.retain(|inner| !inner.is_null());
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a model is named by its place in an account, such as `projects/x/locations/y/endpoints/z`.
fn is_in_account(name: &str) -> bool {
    let kinds = ["endpoints", "projects", "tunedModels"];
    name.contains('/') && name.split('/').any(|segment| kinds.contains(&segment))
}

/// A server keeps what the user's own settings say of it: under its name a project could start something else,
/// with the trust and the answers that the user gave. So do the commands that list and call tools.
pub(crate) fn yield_programs(
    values: &mut Map<String, Value>,
    below: &Map<String, Value>,
) -> Vec<(String, Value)> {
    let mut withheld = Vec::new();
    if lookup(below, "mcp.serverCommand").is_some_and(Value::is_string) {
        take(values, &["mcp.serverCommand"], &mut withheld);
    }
    // One half of a pair would be run by the other, with the approvals that the user gave to both.
    if DISCOVERY.iter().any(|key| lookup(below, key).is_some_and(Value::is_string)) {
        take(values, DISCOVERY, &mut withheld);
    }
    let (Some(Value::Object(own)), Some(Value::Object(theirs))) =
        (values.get_mut("mcpServers"), below.get("mcpServers"))
    else {
        return withheld;
    };
    let is_taken = |name: &str| theirs.keys().any(|known| same_server(known, name));
    let taken: Vec<String> = own.keys().filter(|name| is_taken(name)).cloned().collect();
    for name in taken {
        if let Some(entry) = own.shift_remove(&name) {
            leaves(&format!("mcpServers.{name}"), entry, &mut withheld);
        }
    }
    withheld
}

/// Lists that say what exists can only become shorter through a project, and lists of what always asks only
/// longer. What the user turned off stays off.
pub(crate) fn narrow(values: &mut Map<String, Value>, below: &Map<String, Value>) {
    let is_off = |value: &Value| match value {
        Value::String(text) => text.eq_ignore_ascii_case("false"),
        other => other == &Value::Bool(false),
    };
    for path in STAY_OFF {
        if lookup(below, path).is_some_and(is_off) {
            remove(values, path);
        }
    }
    let Some(Value::Object(tools)) = values.get_mut("tools") else { return };
    let list = |key: &str| lookup(below, key).and_then(Value::as_array);
    if let (Some(Value::Array(core)), Some(allowed)) = (tools.get_mut("core"), list("tools.core")) {
        // `run_shell_command(ls)` is less than `run_shell_command`.
        let whole = |entry: &Value| entry.as_str().and_then(|entry| entry.split('(').next()).map(Value::from);
        core.retain(|entry| {
            allowed.contains(entry) || whole(entry).is_some_and(|whole| allowed.contains(&whole))
        });
    }
    let asking = list("tools.confirmationRequired");
    if let (Some(Value::Array(own)), Some(theirs)) = (tools.get_mut("confirmationRequired"), asking) {
        let missing: Vec<Value> = theirs.iter().filter(|entry| !own.contains(entry)).cloned().collect();
        own.extend(missing);
    }
}

/// A project can disable agents, and enable only those that the user's own settings leave enabled. Returns what it
/// cannot set.
pub(crate) fn narrow_agents(
    values: &mut Map<String, Value>,
    below: &Map<String, Value>,
) -> Vec<(String, Value)> {
    let mut withheld = Vec::new();
    let Some(Value::Object(agents)) = values.get_mut("agents") else { return withheld };
    let listed = |key: &str, name: &str| {
        let list = lookup(below, key).and_then(Value::as_array)?;
        let names = |entry: &Value| entry.as_str().is_some_and(|entry| same_agent(entry, name));
        (!list.is_empty()).then(|| list.iter().any(names))
    };
    let is_listed_out = |name: &str| {
        listed("agents.enabled", name) == Some(false) || listed("agents.disabled", name) == Some(true)
    };
    let has_list =
        lookup(below, "agents.enabled").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if let Some(wanted) = agents.get("enabled").filter(|_| has_list).cloned() {
        // A single name is accepted as a list of one.
        let names = match &wanted {
            Value::Array(names) => names.clone(),
            other => vec![other.clone()],
        };
        let is_in =
            |entry: &Value| entry.as_str().is_some_and(|name| listed("agents.enabled", name) == Some(true));
        let kept: Vec<Value> = names.into_iter().filter(is_in).collect();
        // An empty list would enable all agents.
        if kept.is_empty() {
            withheld.push(("agents.enabled".to_owned(), wanted));
            agents.shift_remove("enabled");
        } else {
            agents.insert("enabled".to_owned(), Value::Array(kept));
        }
    }
    if let Some(Value::Object(overrides)) = agents.get_mut("overrides") {
        let theirs = lookup(below, "agents.overrides").and_then(Value::as_object);
        // Anything else would take the place of what the user says of the agent.
        overrides.retain(|_, fields| fields.is_object());
        for (name, fields) in overrides {
            let same = theirs.into_iter().flatten().filter(|(known, _)| same_agent(known, name));
            let said: Vec<bool> = same.filter_map(|(_, fields)| fields.get("enabled")?.as_bool()).collect();
            let is_out = if said.is_empty() { is_listed_out(name) } else { said.contains(&false) };
            let Some(fields) = fields.as_object_mut().filter(|_| is_out) else { continue };
            // Said here too: under another spelling of its name, the agent would be enabled by default.
            let wanted = fields.insert("enabled".to_owned(), Value::Bool(false));
            let wanted = wanted.filter(|wanted| wanted != &Value::Bool(false));
            withheld.extend(wanted.map(|value| (format!("agents.overrides.{name}.enabled"), value)));
        }
    }
    withheld
}

/// A project can lower a limit on spending, never raise it or say what unknown prices mean. Returns what it cannot set.
pub(crate) fn narrow_budget(
    values: &mut Map<String, Value>,
    below: &Map<String, Value>,
) -> Vec<(String, Value)> {
    let Some(budget) = values.get_mut("budget") else { return Vec::new() };
    let mut wanted = Vec::new();
    leaves("budget", budget.clone(), &mut wanted);
    match budget {
        Value::Object(scopes) => keep_lower(scopes, below.get("budget").unwrap_or(&Value::Null)),
        _ => drop(values.shift_remove("budget")),
    }
    wanted.retain(|(path, _)| lookup(values, path).is_none());
    wanted
}

/// One warning that names the withheld values which would have changed something.
pub(crate) fn report(
    withheld: Vec<(String, Value)>,
    layer: &LayerValues,
    effective: &Map<String, Value>,
    warnings: &mut Vec<SettingsWarning>,
) {
    let missed = withheld.into_iter().filter(|(path, value)| lookup(effective, path) != Some(value));
    let paths: Vec<String> = missed.map(|(path, _)| path).collect();
    if paths.is_empty() {
        return;
    }
    let widens = |path: &String| {
        let listed = WIDENS.iter().any(|key| path == key || path.starts_with(&format!("{key}.")));
        listed || path.starts_with("tools.sandbox") || path.starts_with("mcpServers.")
    };
    let fix = if paths.iter().any(widens) {
        "set it in your user settings, or set `security.projectMayWiden` there to let projects widen what runs without approval"
    } else {
        "set it in your user settings"
    };
    let line = |path: &str| layer.origin(path).line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let named: Vec<String> = paths.iter().map(|path| format!("`{path}`{}", line(path))).collect();
    let message = format!("ignored, because project settings cannot change it: {}", named.join(", "));
    let whole_file = Origin { line: None, ..layer.origin("") };
    let warning = SettingsWarning::new(WarningKind::NotFromProject, &whole_file, "", message);
    warnings.push(warning.with_fix(fix));
}

/// The values below a path, each with its own path.
pub(crate) fn leaves(path: &str, value: Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                leaves(&format!("{path}.{name}"), value, found);
            }
        }
        Value::Object(_) => {}
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            found.push((path.to_owned(), value));
        }
    }
}

fn remove(values: &mut Map<String, Value>, path: &str) -> Option<Value> {
    match path.split_once('.') {
        None => values.shift_remove(path),
        Some((head, rest)) => remove(values.get_mut(head)?.as_object_mut()?, rest),
    }
}

/// `{"tools.allowed": …}` would be found where `{"tools": {"allowed": …}}` is looked for.
fn withhold_dotted(values: &mut Map<String, Value>, container: &str, withheld: &mut Vec<(String, Value)>) {
    let path = |name: &str| {
        if container.is_empty() { name.to_owned() } else { format!("{container}.{name}") }
    };
    let means_a_key = |name: &String| {
        let path = path(name);
        name.contains('.') && (schema::covering(&path).is_some() || !schema::below(&path).is_empty())
    };
    let dotted: Vec<String> = values.keys().filter(|name| means_a_key(name)).cloned().collect();
    for name in dotted {
        withheld.extend(values.shift_remove(&name).map(|value| (path(&name), value)));
    }
    for (name, value) in values {
        let path = path(name);
        // Below a key the names are the user's own.
        if let Value::Object(inner) = value
            && schema::find(&path).is_none()
        {
            withhold_dotted(inner, &path, withheld);
        }
    }
}
