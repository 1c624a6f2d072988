//! Reads the sources of settings and prepares them for merging.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::defect::{BadFile, SettingsWarning, WarningKind};
use super::interpolate::interpolate;
use super::origin::{Layer, Origin};
use super::unset::{UnsetScope, UnsetValue, remove_unset};
use super::{ArgOverrides, Migrated, Migration, lookup, merge, migrate, schema};
use crate::credential_variables::ProviderKeys;
use crate::dotenv::Offer;
use crate::env::{Env, name};
use crate::files;
use crate::jsonc::{self, Lines};

/// Parts of a project's settings that may refer to credentials of the user: those of servers and commands, which the
/// user reviewed with the folder.
const TAKES_CREDENTIALS: &[&str] = &["mcp", "mcpServers", "tools"];
/// Parts that are sent to the model's provider. A project's references to variables that are not set, or that may hold
/// credentials, are dropped there.
const IS_SENT: &[&str] = &["agents", "model", "modelConfigs"];

/// The part whose own reader replaces unset references.
const SERVERS: &str = "mcpServers";

/// One layer's values and where each of them stands.
#[derive(Debug)]
pub(crate) struct LayerValues {
    pub(crate) layer: Layer,
    pub(crate) values: Map<String, Value>,
    file: Option<Arc<Path>>,
    lines: Lines,
    variables: HashMap<&'static str, &'static str>,
}

impl LayerValues {
    fn new(layer: Layer) -> Self {
        Self { layer, values: Map::new(), file: None, lines: Lines::default(), variables: HashMap::new() }
    }

    /// Where a key of this layer was set; the nearest container's line if the key has none of its own.
    pub(crate) fn origin(&self, path: &str) -> Origin {
        let mut at = path;
        let line = loop {
            if let Some(line) = self.lines.get(at) {
                break Some(line);
            }
            match at.rfind(['.', '[']).and_then(|end| at.get(..end)) {
                Some(container) => at = container,
                None => break None,
            }
        };
        Origin {
            layer: self.layer,
            file: self.file.clone(),
            line,
            variable: self.variables.get(path).copied(),
        }
    }
}

/// What reading a file needs and what it leaves behind.
pub(crate) struct Reading<'a> {
    pub(crate) env: &'a Env,
    pub(crate) offered: &'a [Offer],
    pub(crate) own_env: &'a Env,
    /// Variables that a project's file cannot refer to.
    pub(crate) provider_keys: ProviderKeys,
    pub(crate) migration: Migration,
    pub(crate) bad: Vec<BadFile>,
    pub(crate) warnings: Vec<SettingsWarning>,
    pub(crate) migrated: Vec<Migrated>,
}

impl Reading<'_> {
    /// Reads one file; `None` if there is none or if it is bad, which is noted.
    pub(crate) fn file(&mut self, layer: Layer, path: PathBuf) -> Option<LayerValues> {
        let text = match files::read_text(&path) {
            Ok(text) => text?,
            Err(error) => {
                self.bad.push(BadFile::read(&path, &error));
                return None;
            }
        };
        let document = match jsonc::parse(&text) {
            Ok(document) => document,
            Err(defect) => {
                self.bad.push(BadFile::parse(&path, defect));
                return None;
            }
        };
        let document = if migrate::is_needed(&document.value) {
            self.migrate(layer, &path, &text, document)
        } else {
            document
        };
        let Value::Object(values) = document.value else { return None };
        let mut read =
            LayerValues { values, file: Some(path.into()), lines: document.lines, ..LayerValues::new(layer) };
        self.fill_in(&mut read);
        normalise(&mut read.values);
        Some(read)
    }

    /// Replaces variables, and removes values that need one which is not set.
    fn fill_in(&mut self, read: &mut LayerValues) {
        let env = self.env_for(read.layer);
        let is_project = read.layer == Layer::Project;
        let without_credentials = is_project.then(|| self.provider_keys.and_credentials_removed_from(&env));
        let parts: Vec<String> = read.values.keys().cloned().collect();
        let mut warnings = Vec::new();
        // A variable pasted into a hook's command would be run as a part of it; its shell reads them itself.
        for part in parts.iter().filter(|part| *part != "hooks") {
            let is_sent = is_project && IS_SENT.contains(&part.as_str());
            let env = match &without_credentials {
                Some(without) if !TAKES_CREDENTIALS.contains(&part.as_str()) => without,
                Some(_) | None => &*env,
            };
            let scope = if is_sent { UnsetScope::All } else { UnsetScope::Credentials };
            for unset in unset_values(&mut read.values, part, env, scope) {
                let UnsetValue { path, variable } = unset;
                let limit = if is_project { ", or not available to project settings" } else { "" };
                let message = format!("the environment variable `{variable}` is not set{limit}");
                let fix = match part.as_str() {
                    SERVERS => "the server gets an empty value".to_owned(),
                    _ if is_sent => {
                        format!("the value is ignored; set a default with `${{{variable}:-VALUE}}`")
                    }
                    _ => "the value is ignored".to_owned(),
                };
                let origin = read.origin(&path);
                let warning = SettingsWarning::new(WarningKind::UnsetVariable, &origin, &path, message);
                warnings.push(warning.with_fix(fix));
            }
            if let Some(value) = read.values.get_mut(part) {
                interpolate(value, env);
            }
        }
        self.warnings.extend(warnings);
    }

    /// A project's own file may name what its own `.env` offers; nobody else's file does.
    fn env_for(&self, layer: Layer) -> Cow<'_, Env> {
        if layer != Layer::Project {
            return Cow::Borrowed(self.own_env);
        }
        let mut env = self.provider_keys.removed_from(self.env);
        for offer in self.offered {
            env.set_default(offer.name.clone(), offer.value.reveal());
        }
        Cow::Owned(env)
    }

    /// The document with new names; in the file too, if it is one that Pollux may rewrite.
    fn migrate(&mut self, layer: Layer, path: &Path, text: &str, old: jsonc::Document) -> jsonc::Document {
        let Some(plan) = migrate::plan(text) else { return old };
        let Ok(new) = jsonc::parse(&plan.text) else { return old };
        let origin = |line| Origin { layer, file: Some(path.into()), line, variable: None };
        let mut on_disk = false;
        match (layer, self.migration) {
            // A project's file is under version control and belongs to others, too.
            (Layer::Project, _) | (Layer::User, Migration::InMemory) => {}
            (Layer::User, Migration::Write) => match migrate::rewrite(path) {
                Ok(migrated) => {
                    self.migrated.extend(migrated);
                    on_disk = true;
                }
                Err(error) => {
                    let message = format!("could not rename deprecated keys in the file: {error}");
                    let warning = SettingsWarning::new(WarningKind::NotRewritten, &origin(None), "", message);
                    self.warnings.push(warning.with_fix("they still work under their old names"));
                }
            },
            (_, _) => self.warnings.extend(plan.renamed.iter().map(|(old_name, new_name)| {
                let message = format!("deprecated; the new name is `{new_name}`");
                let origin = origin(old.lines.get(old_name));
                SettingsWarning::new(WarningKind::Deprecated, &origin, old_name, message)
            })),
        }
        // Line numbers are those of the file as the user finds it.
        if on_disk { new } else { jsonc::Document { value: new.value, lines: old.lines } }
    }
}

/// Values that are to be reported because of an unset variable. Those of MCP servers stay: their reader knows what each
/// transport does with them, and reports headers.
fn unset_values(
    values: &mut Map<String, Value>,
    part: &str,
    env: &Env,
    scope: UnsetScope,
) -> Vec<UnsetValue> {
    if part != SERVERS {
        return remove_unset(values, part, env, scope);
    }
    let mut unset = remove_unset(&mut values.clone(), part, env, scope);
    unset.retain(|unset| unset.path.rsplit('.').nth(1) == Some("env"));
    unset
}

/// The values of a file under their present names; nothing is written and no variable is filled in.
pub(crate) fn modern(text: &str) -> Option<Map<String, Value>> {
    let mut document = jsonc::parse(text).ok()?;
    if migrate::is_needed(&document.value) {
        document = migrate::plan(text).and_then(|plan| jsonc::parse(&plan.text).ok()).unwrap_or(document);
    }
    let Value::Object(mut values) = document.value else { return None };
    normalise(&mut values);
    Some(values)
}

/// Older forms of the current keys, brought into one.
fn normalise(values: &mut Map<String, Value>) {
    if let Some(Value::Bool(enabled)) = values.get("telemetry") {
        let enabled = Value::Bool(*enabled);
        values
            .insert("telemetry".to_owned(), Value::Object(Map::from_iter([("enabled".to_owned(), enabled)])));
    }
    for switch in ["enabled", "disabled", "notifications"] {
        take_hook_switch(values, switch);
    }
    for (enabling, disabling) in INVERTED {
        invert(values, enabling, disabling);
    }
    name_theme(values);
    choose_vertex(values);
    let accessibility = values.get("ui").and_then(|ui| ui.get("accessibility"));
    let no_phrases =
        accessibility.and_then(|part| part.get("enableLoadingPhrases")) == Some(&Value::Bool(false));
    if no_phrases && values.get("ui").and_then(|ui| ui.get("loadingPhrases")).is_none() {
        schema::insert(values, "ui.loadingPhrases", Value::from("off"));
    }
    // An API key alone is never moved in the file, so its old place is read for good.
    if let Some(key) = values.shift_remove("apiKey")
        && values.get("api").and_then(|api| api.get("key")).is_none()
    {
        schema::insert(values, "api.key", key);
    }
    // The default, which has no name of its own.
    if values.get("editor").and_then(Value::as_str) == Some("none") {
        values.shift_remove("editor");
    }
    // Only an administrator's service sets these.
    values.shift_remove("admin");
}

/// Positive spellings of switches whose own name is negative.
const INVERTED: &[(&str, &str)] = &[
    ("agents.browser.enableUserInput", "agents.browser.disableUserInput"),
    ("model.enableLoopDetection", "model.disableLoopDetection"),
    ("security.enableAlwaysAllow", "security.disableAlwaysAllow"),
    ("security.enableYoloMode", "security.disableYoloMode"),
    ("tools.enableLLMCorrection", "tools.disableLLMCorrection"),
];

/// Moves `hooks.enabled` and the like to `hooksConfig`. Where both are set, each of them can switch hooks off.
fn take_hook_switch(values: &mut Map<String, Value>, switch: &str) {
    let Some(Value::Object(hooks)) = values.get_mut("hooks") else { return };
    // A list of objects holds the hooks of an event of this name.
    let is_switch = |value: &Value| !value.as_array().is_some_and(|list| list.iter().any(Value::is_object));
    if !hooks.get(switch).is_some_and(is_switch) {
        return;
    }
    let Some(older) = hooks.shift_remove(switch) else { return };
    let path = format!("hooksConfig.{switch}");
    let value = match lookup(values, &path) {
        None | Some(Value::Null) => older,
        Some(newer) => match switch {
            "disabled" => merge::union(newer, &older),
            "enabled" if is_no(&older) => older,
            _ => newer.clone(),
        },
    };
    schema::insert(values, &path, value);
}

fn is_no(value: &Value) -> bool {
    value == &Value::Bool(false) || value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("false"))
}

/// Moves a switch to its own name, unless that is set too.
fn invert(values: &mut Map<String, Value>, enabling: &str, disabling: &str) {
    let Some(on) = lookup(values, enabling).and_then(Value::as_bool) else { return };
    let Some((container, name)) = enabling.rsplit_once('.') else { return };
    let mut inner = Some(&mut *values);
    for part in container.split('.') {
        inner = inner.and_then(|inner| inner.get_mut(part)?.as_object_mut());
    }
    if inner.and_then(|inner| inner.shift_remove(name)).is_some() && lookup(values, disabling).is_none() {
        schema::insert(values, disabling, Value::Bool(!on));
    }
}

/// Older names of themes, and `light`, `dark` and `auto`, which no theme is called. A shade that is asked for by name
/// does not follow the terminal.
fn name_theme(values: &mut Map<String, Value>) {
    let Some(Value::Object(ui)) = values.get_mut("ui") else { return };
    let Some(given) = ui.get("theme").and_then(Value::as_str).map(str::to_owned) else { return };
    if ui.get("customThemes").and_then(|themes| themes.get(&given)).is_some() {
        return;
    }
    let (theme, is_fixed) = match given.as_str() {
        "VS" => ("Default Light", false),
        "VS2015" => ("Default", false),
        "light" => ("Default Light", true),
        "dark" => ("Default", true),
        "auto" => {
            ui.shift_remove("theme");
            return;
        }
        _ => return,
    };
    ui.insert("theme".to_owned(), theme.into());
    if is_fixed && !ui.contains_key("autoThemeSwitching") {
        ui.insert("autoThemeSwitching".to_owned(), Value::Bool(false));
    }
}

/// `api.provider` selects how to sign in where `security.auth.selectedType` does not.
fn choose_vertex(values: &mut Map<String, Value>) {
    let provider = lookup(values, "api.provider").and_then(Value::as_str).unwrap_or_default();
    let is_vertex = matches!(provider.to_lowercase().as_str(), "vertex" | "vertexai" | "vertex-ai");
    if is_vertex && lookup(values, "security.auth.selectedType").is_none() {
        schema::insert(values, "security.auth.selectedType", Value::from("vertex-ai"));
    }
}

/// How a variable's text becomes a value.
enum Form {
    Text,
    Switch,
    /// A switch, or the name of a sandbox.
    Sandbox,
}

/// Variables that set a key; a later row wins.
const VARIABLES: &[(&str, &str, Form)] = &[
    (name::MODEL, "model.name", Form::Text),
    (name::POLLUX_MODEL, "model.name", Form::Text),
    (name::SANDBOX, "tools.sandbox", Form::Sandbox),
    (name::OUTPUT_DIALECT, "output.dialect", Form::Text),
    (name::EXTENSION_REGISTRY_URI, "experimental.extensionRegistryURI", Form::Text),
    (name::TELEMETRY_ENABLED, "telemetry.enabled", Form::Switch),
    (name::TELEMETRY_TRACES_ENABLED, "telemetry.traces", Form::Switch),
    (name::TELEMETRY_TARGET, "telemetry.target", Form::Text),
    (name::OTEL_EXPORTER_OTLP_ENDPOINT, "telemetry.otlpEndpoint", Form::Text),
    (name::TELEMETRY_OTLP_ENDPOINT, "telemetry.otlpEndpoint", Form::Text),
    (name::TELEMETRY_OTLP_PROTOCOL, "telemetry.otlpProtocol", Form::Text),
    (name::TELEMETRY_OUTFILE, "telemetry.outfile", Form::Text),
    (name::TELEMETRY_LOG_PROMPTS, "telemetry.logPrompts", Form::Switch),
    (name::TELEMETRY_USE_COLLECTOR, "telemetry.useCollector", Form::Switch),
    (name::TELEMETRY_USE_CLI_AUTH, "telemetry.useCliAuth", Form::Switch),
];

/// What the environment sets.
pub(crate) fn environment(env: &Env) -> LayerValues {
    let mut layer = LayerValues::new(Layer::Environment);
    for (variable, key, form) in VARIABLES {
        // An empty endpoint means that there is none; any other empty variable means nothing.
        let Some(text) =
            env.get(variable).filter(|text| !text.is_empty() || *key == "telemetry.otlpEndpoint")
        else {
            continue;
        };
        let value = match form {
            Form::Text => Value::from(text),
            Form::Switch => Value::from(is_yes(text)),
            Form::Sandbox => sandbox_value(text),
        };
        schema::insert(&mut layer.values, key, value);
        layer.variables.insert(key, variable);
    }
    layer
}

/// What the command line sets.
pub(crate) fn arguments(overrides: &ArgOverrides) -> LayerValues {
    let mut layer = LayerValues::new(Layer::Arguments);
    for (key, value) in &overrides.0 {
        schema::insert(&mut layer.values, key, value.clone());
    }
    layer
}

/// The value of `tools.sandbox` that a word of a variable or a flag stands for.
pub fn sandbox_value(text: &str) -> Value {
    match text.trim().to_lowercase().as_str() {
        "true" | "1" => Value::Bool(true),
        "false" | "0" => Value::Bool(false),
        _ => Value::from(text.trim()),
    }
}

fn is_yes(text: &str) -> bool {
    matches!(text.trim().to_lowercase().as_str(), "true" | "1")
}
