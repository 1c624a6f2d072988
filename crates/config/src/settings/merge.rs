//! Merges a layer over the lower ones.

use serde_json::{Map, Value};

use super::schema::{self, Merge};

/// Merges `above` into `below`; `taken` is told the dotted path of every value that `above` decided.
pub(crate) fn merge(below: &mut Map<String, Value>, above: &Map<String, Value>, taken: &mut dyn FnMut(&str)) {
    let mut path = String::new();
    merge_at(below, above, &mut path, taken);
}

fn merge_at(
    below: &mut Map<String, Value>,
    above: &Map<String, Value>,
    path: &mut String,
    taken: &mut dyn FnMut(&str),
) {
    for (name, value) in above {
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        merge_one(below, name, value, path, taken);
        path.truncate(length);
    }
}

fn merge_one(
    below: &mut Map<String, Value>,
    name: &str,
    value: &Value,
    path: &mut String,
    taken: &mut dyn FnMut(&str),
) {
    if path == "tools.sandbox"
        && let Some(known) = below.get_mut(name)
        && let Some(combined) = combined_sandbox(known, value)
    {
        *known = combined;
        return taken(path);
    }
    match (rule(path), below.get_mut(name), value) {
        (Merge::Concat, Some(Value::Array(list)), _) => {
            list.extend(items(value));
            taken(path);
        }
        (Merge::Union, Some(Value::Array(list)), _) => {
            add_missing(list, value);
            taken(path);
        }
        (Merge::Intersect, Some(Value::Array(list)), Value::Array(allowed)) => {
            list.retain(|item| allowed.iter().any(|other| same_name(item, other)));
            taken(path);
        }
        (Merge::Shallow, Some(Value::Object(map)), Value::Object(entries)) => {
            for (entry, value) in entries {
                map.insert(entry.clone(), value.clone());
                taken(&format!("{path}.{entry}"));
            }
        }
        (Merge::Replace, Some(Value::Object(inner)), Value::Object(entries)) if !entries.is_empty() => {
            merge_at(inner, entries, path, taken);
        }
        // An object over nothing is merged too, so that each of its values knows its origin.
        (Merge::Replace, None, Value::Object(entries)) if !entries.is_empty() => {
            let mut inner = Map::new();
            merge_at(&mut inner, entries, path, taken);
            below.insert(name.to_owned(), Value::Object(inner));
        }
        // An empty object over another says nothing.
        (Merge::Replace, Some(Value::Object(_)), Value::Object(_)) => {}
        (_, _, _) => {
            below.insert(name.to_owned(), value.clone());
            taken(path);
        }
    }
}

/// A wish for a sandbox keeps the one that is named below, and a name keeps what is said about it.
fn combined_sandbox(below: &Value, above: &Value) -> Option<Value> {
    // `auto` means the same as no setting.
    let names_one = |name: &str| !name.is_empty() && !name.eq_ignore_ascii_case("auto");
    match (below, above) {
        (Value::String(name), Value::Bool(true)) if names_one(name) => Some(below.clone()),
        (Value::Object(known), Value::Bool(true)) => {
            let mut object = known.clone();
            object.insert("enabled".to_owned(), Value::Bool(true));
            Some(Value::Object(object))
        }
        (Value::Object(known), Value::String(name)) if names_one(name) => {
            let mut object = known.clone();
            object.shift_remove("type");
            object.insert("enabled".to_owned(), Value::Bool(true));
            object.insert("command".to_owned(), above.clone());
            Some(Value::Object(object))
        }
        _ => None,
    }
}

fn rule(path: &str) -> Merge {
    match schema::find(path) {
        Some(key) => key.merge,
        // Hooks of events that only an extension or a later release knows.
        None if path.strip_prefix("hooks.").is_some_and(|event| !event.contains('.')) => Merge::Concat,
        None => Merge::Replace,
    }
}

/// The items of two values, each once.
pub(super) fn union(first: &Value, second: &Value) -> Value {
    let mut list = items(first);
    add_missing(&mut list, second);
    Value::Array(list)
}

fn add_missing(list: &mut Vec<Value>, value: &Value) {
    for item in items(value) {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            vec![value.clone()]
        }
    }
}

fn same_name(one: &Value, other: &Value) -> bool {
    match (one.as_str(), other.as_str()) {
        (Some(one), Some(other)) => one.trim().to_lowercase() == other.trim().to_lowercase(),
        (None, _) | (_, None) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn merged(layers: &[&Value]) -> Value {
        let mut result = Map::new();
        for layer in layers {
            merge(&mut result, layer.as_object().unwrap(), &mut |_| {});
        }
        Value::Object(result)
    }

    #[test]
    fn each_rule_combines_as_the_table_says() {
        for (below, above, wanted) in [
            (
                json!({"ui": {"theme": "a", "hideTips": true}}),
                json!({"ui": {"theme": "b"}}),
                json!({"ui": {"theme": "b", "hideTips": true}}),
            ),
            (
                json!({"tools": {"core": ["a"]}}),
                json!({"tools": {"core": ["b"]}}),
                json!({"tools": {"core": ["b"]}}),
            ),
            (
                json!({"tools": {"exclude": ["a", "b"]}}),
                json!({"tools": {"exclude": ["b", "c"]}}),
                json!({"tools": {"exclude": ["a", "b", "c"]}}),
            ),
            (json!({"tools": {}}), json!({"tools": {"exclude": "a"}}), json!({"tools": {"exclude": "a"}})),
            (
                json!({"tools": {"exclude": ["a"]}}),
                json!({"tools": {"exclude": "b"}}),
                json!({"tools": {"exclude": ["a", "b"]}}),
            ),
            (
                json!({"context": {"includeDirectories": ["a"]}}),
                json!({"context": {"includeDirectories": ["a"]}}),
                json!({"context": {"includeDirectories": ["a", "a"]}}),
            ),
            (
                json!({"mcpServers": {"x": {"command": "a", "args": ["1"]}, "y": {}}}),
                json!({"mcpServers": {"x": {"url": "u"}}}),
                json!({"mcpServers": {"x": {"url": "u"}, "y": {}}}),
            ),
            (
                json!({"mcp": {"allowed": ["A", "b"]}}),
                json!({"mcp": {"allowed": [" a ", "c"]}}),
                json!({"mcp": {"allowed": ["A"]}}),
            ),
            (
                json!({"mcp": {"excluded": ["a"]}}),
                json!({"mcp": {"excluded": ["b"]}}),
                json!({"mcp": {"excluded": ["a", "b"]}}),
            ),
            (
                json!({"hooks": {"BeforeTool": [1]}}),
                json!({"hooks": {"BeforeTool": [2], "Own": [3]}}),
                json!({"hooks": {"BeforeTool": [1, 2], "Own": [3]}}),
            ),
            (
                json!({"hooks": {"Own": [1]}}),
                json!({"hooks": {"Own": [2]}}),
                json!({"hooks": {"Own": [1, 2]}}),
            ),
            (json!({"ui": {"theme": "a"}}), json!({"ui": {"theme": null}}), json!({"ui": {"theme": null}})),
            (json!({"ui": {"theme": "a"}}), json!({"ui": {}}), json!({"ui": {"theme": "a"}})),
            (json!({"x": 1}), json!({"x": {"y": 2}}), json!({"x": {"y": 2}})),
            (
                json!({"tools": {"sandbox": "docker"}}),
                json!({"tools": {"sandbox": true}}),
                json!({"tools": {"sandbox": "docker"}}),
            ),
            (
                json!({"tools": {"sandbox": {"image": "i", "type": "docker"}}}),
                json!({"tools": {"sandbox": "podman"}}),
                json!({"tools": {"sandbox": {"image": "i", "enabled": true, "command": "podman"}}}),
            ),
            (
                json!({"tools": {"sandbox": {"image": "i", "enabled": false}}}),
                json!({"tools": {"sandbox": true}}),
                json!({"tools": {"sandbox": {"image": "i", "enabled": true}}}),
            ),
            (
                json!({"tools": {"sandbox": "docker"}}),
                json!({"tools": {"sandbox": false}}),
                json!({"tools": {"sandbox": false}}),
            ),
        ] {
            assert_eq!(merged(&[&below, &above]), wanted, "{below} + {above}");
        }
    }

    /// Trees in which a name is either always an object or always a value, as a schema makes them.
    fn layer() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            Just(Value::Null)
        ];
        let values = prop::collection::btree_map("[a-c]", leaf, 0..4);
        let inner = (values.clone(), prop::option::of(values.clone())).prop_map(|(values, below)| {
            let mut map: Map<String, Value> = values.into_iter().collect();
            map.extend(below.map(|below| ("z".to_owned(), Value::Object(below.into_iter().collect()))));
            Value::Object(map)
        });
        (values, prop::collection::btree_map("[p-r]", inner, 0..3))
            .prop_map(|(values, objects)| Value::Object(values.into_iter().chain(objects).collect()))
    }

    proptest! {
        #[test]
        fn merging_is_associative_for_replaced_values(a in layer(), b in layer(), c in layer()) {
            prop_assert_eq!(merged(&[&merged(&[&a, &b]), &c]), merged(&[&a, &merged(&[&b, &c])]));
        }

        #[test]
        fn an_empty_layer_changes_nothing(a in layer()) {
            prop_assert_eq!(merged(&[&a, &json!({})]), a.clone());
            prop_assert_eq!(merged(&[&json!({}), &a]), a);
        }
    }
}
