//! Converts hooks. Both programs write them in the form that [`pollux_hooks::migrate`] reads.

use pollux_domain::JsonObject;
use pollux_hooks::migrate;
use serde_json::{Map, Value};

use super::plan::{Collector, ImportChange, ImportKind};

/// Keys of a hook that mean the same here.
const HOOK_KEYS: &[&str] = &["type", "command", "timeout", "name", "env", "description"];

/// Collects the hooks of a `hooks` object.
pub(super) fn collect(hooks: &JsonObject, out: &mut Collector<'_>) {
    for (event, definitions) in hooks {
        let (runnable, skipped) = commands_only(definitions);
        for kind in skipped {
            out.skipped(ImportKind::Hook, event, format!("hooks of type `{kind}` are not supported"));
        }
        let migrated = migrate(&JsonObject::from_iter([(event.clone(), runnable)]));
        for (ours, definitions) in migrated.events {
            let name =
                if event == ours.name() { event.clone() } else { format!("{event} as {}", ours.name()) };
            let path = vec!["hooks".to_owned(), ours.name().to_owned()];
            out.ready(ImportKind::Hook, name, ImportChange::AddToList { path, values: definitions });
        }
        for _ in migrated.notes {
            out.skipped(ImportKind::Hook, event, "no matching hook event");
        }
    }
}

/// The definitions with their commands alone, and the types of the hooks that were removed.
fn commands_only(definitions: &Value) -> (Value, Vec<String>) {
    let Value::Array(definitions) = definitions else { return (definitions.clone(), Vec::new()) };
    let (mut kept, mut removed) = (Vec::new(), Vec::new());
    for definition in definitions {
        let Some(hooks) = definition.get("hooks").and_then(Value::as_array) else { continue };
        let mut commands = Vec::new();
        for hook in hooks.iter().filter_map(Value::as_object) {
            match hook.get("type").and_then(Value::as_str) {
                None | Some("command") if hook.get("command").is_some_and(Value::is_string) => {
                    let known = hook.iter().filter(|(key, _)| HOOK_KEYS.contains(&key.as_str()));
                    let known: Map<String, Value> =
                        known.map(|(key, value)| (key.clone(), value.clone())).collect();
                    commands.push(Value::Object(known));
                }
                kind => removed.push(kind.unwrap_or("unknown").to_owned()),
            }
        }
        if !commands.is_empty() {
            let mut fields = Map::new();
            if let Some(matcher @ Value::String(_)) = definition.get("matcher") {
                fields.insert("matcher".to_owned(), matcher.clone());
            }
            fields.insert("hooks".to_owned(), Value::Array(commands));
            kept.push(Value::Object(fields));
        }
    }
    (Value::Array(kept), removed)
}
