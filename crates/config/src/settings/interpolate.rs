//! `$NAME`, `${NAME}` and `${NAME:-default}` in string values.

use serde_json::Value;

use crate::env::Env;

/// Replaces variables in every string of a tree; keys stay as they are.
pub fn interpolate(value: &mut Value, env: &Env) {
    match value {
        Value::String(text) if text.contains('$') => *text = expand(text, env),
        Value::Array(items) => items.iter_mut().for_each(|item| interpolate(item, env)),
        Value::Object(map) => map.values_mut().for_each(|item| interpolate(item, env)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// One pass over a text. A variable set to nothing counts as set; an unknown one without default stays.
pub fn expand(text: &str, env: &Env) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let (whole, name, default) = reference(after);
        match env.get(name).or(default) {
            Some(value) if !whole.is_empty() => result.push_str(value),
            Some(_) | None => {
                result.push('$');
                result.push_str(whole);
            }
        }
        rest = after.strip_prefix(whole).unwrap_or_default();
    }
    result.push_str(rest);
    result
}

/// The first variable of a text that is unset and has no default.
pub(crate) fn unset_variable<'t>(text: &'t str, env: &Env) -> Option<&'t str> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('$') {
        let (whole, name, default) = reference(after);
        if is_name(name) && default.is_none() && env.get(name).is_none() {
            return Some(name);
        }
        rest = after.strip_prefix(whole).unwrap_or_default();
    }
    None
}

/// Whether a text is one reference and nothing else.
pub(crate) fn is_reference(text: &str) -> bool {
    text.strip_prefix('$').is_some_and(|after| !after.is_empty() && reference(after).0 == after)
}

/// Whether a shell could set a variable of this name; `$5` is a price.
fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What follows a `$`: the text of the reference (empty if it is none), its name and its default.
fn reference(after: &str) -> (&str, &str, Option<&str>) {
    let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}')).map(|(inner, _)| inner);
    if let Some(inner) = braced.filter(|inner| !inner.is_empty()) {
        let whole = after.get(..inner.len() + 2).unwrap_or_default();
        return match inner.split_once(":-") {
            Some((name, default)) if !name.is_empty() => (whole, name, Some(default)),
            Some(_) | None => (whole, inner, None),
        };
    }
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let length = after.bytes().take_while(|byte| word(*byte)).count();
    let name = after.get(..length).unwrap_or_default();
    (name, name, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_reference_is_replaced_once() {
        let vars = [("A", "one"), ("EMPTY", ""), ("LOOP", "$A"), ("é", "accent")];
        let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value.to_owned())), "/".into());
        for (given, wanted) in [
            ("$A", "one"),
            ("x${A}y", "xoney"),
            ("$A$A-$A", "oneone-one"),
            ("$MISSING and ${MISSING}", "$MISSING and ${MISSING}"),
            ("${MISSING:-two}", "two"),
            ("${MISSING:-}", ""),
            ("${MISSING:-a:-b}", "a:-b"),
            ("${EMPTY:-two}", ""),
            ("$EMPTY.", "."),
            ("$LOOP", "$A"),
            ("$$A", "$one"),
            ("${}", "${}"),
            ("${A", "${A"),
            ("${:-x}", "${:-x}"),
            ("$", "$"),
            ("100$", "100$"),
            ("$A.b", "one.b"),
            ("${é}$é", "accent$é"),
            ("no reference", "no reference"),
        ] {
            assert_eq!(expand(given, &env), wanted, "{given}");
        }
    }

    #[test]
    fn strings_at_all_depths_are_expanded_and_keys_are_not() {
        let env = Env::new([("A".to_owned(), "1".to_owned())], "/".into());
        let mut value = serde_json::json!({"$A": ["$A", {"x": "${A}", "y": 2}]});
        interpolate(&mut value, &env);
        assert_eq!(value, serde_json::json!({"$A": ["1", {"x": "1", "y": 2}]}));
    }
}
