//! The providers that a folder's project may choose, as the user decided.

use pollux_config::state;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use serde_json::{Map, Value};

use crate::loaded::Loaded;

/// In `state.json`: folders, and for each the providers that its project may choose.
const STATE: &str = "projectProviders";

/// The providers that this folder's project may choose.
pub(crate) fn allowed(loaded: &Loaded) -> Vec<String> {
    let folder = loaded.project.root().display().to_string();
    let state = state::read(&loaded.home);
    let decided = state.get(STATE).and_then(|all| all.get(&folder)?.as_object()).into_iter().flatten();
    decided.filter(|(_, allowed)| **allowed == Value::Bool(true)).map(|(id, _)| id.clone()).collect()
}

/// What the user decided about a provider for this folder.
pub(crate) fn decision(loaded: &Loaded, provider: &str) -> Option<bool> {
    let folder = loaded.project.root().display().to_string();
    state::read(&loaded.home).get(STATE)?.get(&folder)?.get(provider)?.as_bool()
}

/// Remembers whether this folder's project may choose the provider.
pub fn decide(loaded: &Loaded, provider: &str, allowed: bool) -> Result<(), Failure> {
    let folder = loaded.project.root().display().to_string();
    let object = |value: &mut Value| {
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
    };
    let result = state::update(&loaded.home, |state| {
        let folders = state.entry(STATE).or_insert(Value::Null);
        object(folders);
        let entry = &mut folders[folder.as_str()];
        object(entry);
        entry[provider] = Value::Bool(allowed);
    });
    result.map(drop).map_err(|error| Failure::from_error(ExitKind::Failure, &error))
}
