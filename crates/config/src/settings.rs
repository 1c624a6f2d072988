//! Loads settings: files, environment and command line, merged into one tree with origins.
//!
//! Start at [`load`]. Values are read through [`Settings::groups`]; [`Settings::rows`] is for showing them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::budget;
use crate::credential_variables::ProviderKeys;
use crate::dotenv::{DotenvOptions, Offer};
use crate::env::Env;
use crate::files as disk;
use crate::groups::Groups;
use crate::jsonc;
use crate::paths::{self, Home, SystemFiles};

mod defect;
mod edit;
mod interpolate;
pub(crate) mod layers;
mod merge;
mod migrate;
mod origin;
pub(crate) mod project;
mod resolve;
mod rows;
pub mod schema;
mod unset;
mod validate;

pub(crate) use edit::change;

pub use crate::project_trust::ProjectTrust;
pub use defect::{BadFile, SettingsError, SettingsWarning, WarningKind, report};
pub use edit::{EditError, ValueError, parse_user_value, remove_path, remove_value, set_path, set_value};
pub use interpolate::{expand, interpolate};
pub use layers::sandbox_value;
pub use migrate::Migrated;
pub use origin::{Layer, Origin};
pub use rows::{SECRET_OBJECTS, SettingRow};
pub use validate::MCP_SERVER_KEYS;

use layers::{LayerValues, Reading};

/// Whether old key names may be renamed in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Migration {
    #[default]
    Write,
    /// Only for this run; for commands that must not write.
    InMemory,
}

/// Values that the command line sets: dotted keys and their values.
#[derive(Debug, Clone, Default)]
pub struct ArgOverrides(pub Vec<(String, Value)>);

/// What [`load`] needs. The environment already includes `.env` files.
#[derive(Debug)]
pub struct LoadRequest<'a> {
    pub env: &'a Env,
    /// What the project's `.env` files offer: `$NAME` in the project's own file may stand for it.
    pub offered: &'a [Offer],
    /// The environment without what `.env` files of the project set; files other than the project's use it.
    pub own_env: &'a Env,
    pub home: &'a Home,
    pub project_root: &'a Path,
    pub trust: ProjectTrust,
    pub args: ArgOverrides,
    pub migration: Migration,
}

/// Settings of this run.
#[derive(Debug)]
pub struct Settings {
    pub groups: Groups,
    /// The merged tree, defaults included.
    pub effective: Value,
    pub warnings: Vec<SettingsWarning>,
    /// Files whose old key names were renamed just now.
    pub migrated: Vec<Migrated>,
    /// `budget` of the system's settings: limits that nobody can raise.
    pub system_budget: Value,
    // Dotted path → origin; what is not here is a default.
    origins: BTreeMap<String, Origin>,
    hooks: Vec<(Origin, Value)>,
    /// `model.name` of all files but the project's.
    pub own_model: Option<String>,
}

/// Reads and merges all layers. A file that cannot be used is an error and is left alone.
pub fn load(request: &LoadRequest<'_>) -> Result<Settings, SettingsError> {
    let mut reading = Reading {
        offered: request.offered,
        own_env: request.own_env,
        ..reading(request.env, request.migration)
    };
    let mut layers = files(&mut reading, request.home, Some((request.project_root, request.trust)))?;
    layers.push(layers::environment(request.env));
    layers.push(layers::arguments(&request.args));
    Ok(assemble(layers, reading))
}

/// The object in a file of JSON with comments, as it is written; `None` if there is no file.
pub fn read_object(path: &Path) -> Result<Option<Map<String, Value>>, SettingsError> {
    let bad = |file| SettingsError { files: vec![file] };
    let text = disk::read_text(path).map_err(|error| bad(BadFile::read(path, &error)))?;
    let Some(text) = text else { return Ok(None) };
    match jsonc::parse(&text).map_err(|defect| bad(BadFile::parse(path, defect)))?.value {
        Value::Object(object) => Ok(Some(object)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Ok(None),
    }
}

/// What must be known before a folder is trusted; reads no project file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlySettings {
    /// `security.folderTrust.enabled`
    pub folder_trust: bool,
}

/// Reads the machine's and the user's files alone and writes nothing.
pub fn early(env: &Env, home: &Home) -> Result<EarlySettings, SettingsError> {
    let mut reading = reading(env, Migration::InMemory);
    let layers = checked(files(&mut reading, home, None)?);
    Ok(EarlySettings { folder_trust: flag(&layers, "security.folderTrust.enabled") })
}

/// The variables that hold keys by the machine's and the user's files; writes nothing, and a file that cannot be used
/// names none.
pub fn provider_keys(env: &Env) -> ProviderKeys {
    let system = SystemFiles::locate(env);
    let user = Home::locate(env).ok().map(|home| home.settings_file());
    let mut keys = ProviderKeys::default();
    for file in [system.defaults, system.settings].into_iter().chain(user) {
        let text = disk::read_text(&file).ok().flatten().filter(|text| text.contains("\"providers\""));
        let Some(Value::Object(values)) = text.and_then(|text| Some(jsonc::parse(&text).ok()?.value)) else {
            continue;
        };
        let named = values.get("providers").map(ProviderKeys::of_settings).unwrap_or_default();
        named.named().iter().for_each(|name| keys.add(name));
    }
    keys
}

/// What the files say about `.env` files; writes nothing.
pub fn dotenv_options(
    env: &Env,
    home: &Home,
    project_root: &Path,
    trust: ProjectTrust,
) -> Result<DotenvOptions, SettingsError> {
    let mut reading = reading(env, Migration::InMemory);
    let layers = checked(files(&mut reading, home, Some((project_root, trust)))?);
    let mut excluded = Vec::new();
    let default = schema::find("advanced.excludedEnvVars").and_then(|key| key.default.value());
    let given = layers.iter().filter_map(|layer| lookup(&layer.values, "advanced.excludedEnvVars"));
    for name in default.iter().chain(given).filter_map(Value::as_array).flatten().filter_map(Value::as_str) {
        if !excluded.iter().any(|known| known == name) {
            excluded.push(name.to_owned());
        }
    }
    let ignore_local = flag(&layers, "advanced.ignoreLocalEnv");
    Ok(DotenvOptions { excluded, ignore_local, border: None })
}

/// Layers with what does not fit dropped; [`load`] warns about it later.
fn checked(mut layers: Vec<LayerValues>) -> Vec<LayerValues> {
    layers.iter_mut().for_each(|layer| validate::validate(layer, &mut Vec::new()));
    layers
}

/// A boolean before the merge, from the highest layer that sets it, otherwise the default. A project cannot turn it off.
fn flag(layers: &[LayerValues], key: &str) -> bool {
    let said = |layer: &LayerValues| {
        let on = lookup(&layer.values, key)?.as_bool()?;
        (on || layer.layer != Layer::Project).then_some(on)
    };
    let given = layers.iter().rev().find_map(said);
    let default = || schema::find(key).and_then(|key| key.default.value()).and_then(|value| value.as_bool());
    given.or_else(default).unwrap_or_default()
}

fn reading(env: &Env, migration: Migration) -> Reading<'_> {
    Reading {
        env,
        own_env: env,
        provider_keys: ProviderKeys::default(),
        offered: &[],
        migration,
        bad: Vec::new(),
        warnings: Vec::new(),
        migrated: Vec::new(),
    }
}

/// The layers that are files, lowest first.
fn files(
    reading: &mut Reading<'_>,
    home: &Home,
    project: Option<(&Path, ProjectTrust)>,
) -> Result<Vec<LayerValues>, SettingsError> {
    let system = SystemFiles::locate(reading.env);
    let mut layers = Vec::with_capacity(6);
    layers.extend(reading.file(Layer::SystemDefaults, system.defaults));
    layers.extend(reading.file(Layer::User, home.settings_file()));
    let before = reading.bad.len();
    let of_system = reading.file(Layer::System, system.settings);
    let bad_of_system = reading.bad.split_off(before);
    for layer in layers.iter().chain(&of_system) {
        let named = layer.values.get("providers").map(ProviderKeys::of_settings).unwrap_or_default();
        named.named().iter().for_each(|name| reading.provider_keys.add(name));
    }
    if let Some((root, ProjectTrust::Trusted)) = project {
        let file = paths::project_settings_file(root);
        // In the home directory the project's file is the user's own.
        if file.exists() && !paths::same_place(root, home.user_home()) && file != home.settings_file() {
            layers.extend(reading.file(Layer::Project, file));
        }
    }
    layers.extend(of_system);
    reading.bad.extend(bad_of_system);
    if reading.bad.is_empty() {
        Ok(layers)
    } else {
        Err(SettingsError { files: std::mem::take(&mut reading.bad) })
    }
}

fn assemble(layers: Vec<LayerValues>, reading: Reading<'_>) -> Settings {
    let mut warnings = reading.warnings;
    let mut effective = schema::defaults();
    schema::insert(&mut effective, "output.dialect", reading.env.usual_dialect().into());
    let mut origins = BTreeMap::new();
    let mut withheld = Vec::new();
    let mut hooks = Vec::new();
    let mut own_model = lookup(&effective, "model.name").and_then(Value::as_str).map(str::to_owned);
    let widening = project::widening(&layers);
    let mut system_budget = Value::Null;
    for mut layer in layers {
        let kept_back = match layer.layer {
            Layer::Project => {
                let mut withheld = project::withhold(&mut layer.values, widening);
                withheld.extend(project::yield_programs(&mut layer.values, &effective));
                project::narrow(&mut layer.values, &effective);
                withheld.extend(project::narrow_agents(&mut layer.values, &effective));
                withheld.extend(project::narrow_budget(&mut layer.values, &effective));
                withheld
            }
            Layer::System => {
                system_budget = layer.values.get("budget").cloned().unwrap_or_default();
                if let Some(Value::Object(budget)) = layer.values.get_mut("budget") {
                    budget::keep_lowest(budget, effective.get("budget").unwrap_or(&Value::Null));
                }
                Vec::new()
            }
            Layer::Default | Layer::SystemDefaults | Layer::User | Layer::Environment | Layer::Arguments => {
                Vec::new()
            }
        };
        validate::validate(&mut layer, &mut warnings);
        hooks.extend(layer.values.get("hooks").map(|own| (layer.origin("hooks"), own.clone())));
        if layer.layer == Layer::Arguments {
            override_lists(&layer, &mut effective);
        }
        merge::merge(&mut effective, &layer.values, &mut |path| {
            forget_below(&mut origins, path);
            origins.insert(path.to_owned(), layer.origin(path));
        });
        let is_own = layer.layer != Layer::Project && layer.layer <= Layer::System;
        if let Some(name) = lookup(&layer.values, "model.name").and_then(Value::as_str).filter(|_| is_own) {
            own_model = Some(name.to_owned());
        }
        if !kept_back.is_empty() {
            withheld.push((kept_back, layer));
        }
    }
    for (values, layer) in withheld {
        project::report(values, &layer, &effective, &mut warnings);
    }
    let groups = resolve::groups(&effective);
    let effective = Value::Object(effective);
    let migrated = reading.migrated;
    let mut settings =
        Settings { groups, effective, warnings, migrated, system_budget, origins, hooks, own_model };
    settings.explain_effective_values();
    settings
}

/// `--allowed-mcp-server-names` replaces both lists instead of joining them.
fn override_lists(arguments: &LayerValues, effective: &mut Map<String, Value>) {
    for list in ["allowed", "excluded"] {
        let given = arguments.values.get("mcp").and_then(|mcp| mcp.get(list)).is_some();
        if given && let Some(Value::Object(mcp)) = effective.get_mut("mcp") {
            mcp.shift_remove(list);
        }
    }
}

/// A replaced object takes the origins of what was in it along.
fn forget_below(origins: &mut BTreeMap<String, Origin>, path: &str) {
    if origins.is_empty() {
        return;
    }
    let prefix = format!("{path}.");
    let stale: Vec<String> = origins
        .range(prefix.clone()..)
        .take_while(|(key, _)| key.starts_with(&prefix))
        .map(|(key, _)| key.clone())
        .collect();
    for key in stale {
        origins.remove(&key);
    }
}

impl Settings {
    /// A value and where it was set; also for groups and for single entries of a map.
    pub fn get(&self, key: &str) -> Option<(&Value, &Origin)> {
        let value = lookup(self.effective.as_object()?, key)?;
        Some((value, self.origin(key)))
    }

    /// A top-level part of the tree, such as `hooks` or `mcpServers`.
    pub fn section(&self, name: &str) -> &Value {
        self.effective.get(name).unwrap_or(&Value::Null)
    }

    /// `hooks` of each layer that has it, lowest first: who wrote a hook decides what it may do.
    pub fn hooks_by_layer(&self) -> &[(Origin, Value)] {
        &self.hooks
    }

    /// Where a key was set; for a group, the highest layer that set something in it.
    pub fn origin(&self, key: &str) -> &Origin {
        if let Some(origin) = self.origins.get(key) {
            return origin;
        }
        let prefix = format!("{key}.");
        let below = self.origins.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        if let Some((_, origin)) = below.max_by_key(|(_, origin)| origin.layer) {
            return origin;
        }
        let containers = key.rmatch_indices('.').filter_map(|(at, _)| key.get(..at));
        containers.filter_map(|path| self.origins.get(path)).next().unwrap_or(Origin::DEFAULT)
    }

    fn explain_effective_values(&mut self) {
        let mut warnings = std::mem::take(&mut self.warnings);
        for warning in &mut warnings {
            if !matches!(warning.kind, WarningKind::Invalid { .. }) || !warning.fix.is_empty() {
                continue;
            }
            let key = warning.key.split('[').next().unwrap_or_default();
            warning.fix = match self.get(key) {
                Some((value, origin)) if value.is_object() => {
                    format!("value ignored; `{key}` keeps the value from {origin}")
                }
                Some((value, origin)) => {
                    let shown = rows::masked(key, value);
                    format!("value ignored; using {shown} ({origin})")
                }
                None => format!("value ignored; `{key}` stays unset"),
            };
        }
        self.warnings = warnings;
    }
}

/// The value at a dotted path. Names may contain dots themselves; the longest name that exists is tried first.
pub(crate) fn lookup<'v>(map: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    if let Some(value) = map.get(path) {
        return Some(value);
    }
    path.rmatch_indices('.').find_map(|(at, _)| {
        let (name, rest) = (path.get(..at)?, path.get(at + 1..)?);
        lookup(map.get(name)?.as_object()?, rest)
    })
}

#[cfg(test)]
mod tests;
