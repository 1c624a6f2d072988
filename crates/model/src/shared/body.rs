//! The body of a request, fields of which may already be JSON text.

use pollux_domain::JsonObject;
use pollux_domain::model::{ModelError, ModelErrorKind};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::declarations::Declaration;

/// The fields of a body in the order in which they are sent.
#[derive(Debug, Default)]
pub(crate) struct RequestBody(Vec<(String, Field)>);

/// What a field holds.
#[derive(Debug)]
pub(crate) enum Field {
    Value(Value),
    /// JSON text, such as a conversation that was written in one go.
    Written(Box<RawValue>),
    Tools(Vec<Declaration>),
}

impl Field {
    /// A field that is written now.
    pub(crate) fn written(value: &impl Serialize) -> Result<Self, ModelError> {
        serde_json::value::to_raw_value(value).map(Self::Written).map_err(|error| unwritable(&error))
    }
}

impl From<Value> for Field {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<JsonObject> for RequestBody {
    fn from(fields: JsonObject) -> Self {
        Self(fields.into_iter().map(|(key, value)| (key, value.into())).collect())
    }
}

impl<const N: usize> From<[(&str, Value); N]> for RequestBody {
    fn from(fields: [(&str, Value); N]) -> Self {
        Self(fields.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect())
    }
}

impl RequestBody {
    /// Sets a field; one that is there already keeps its place.
    pub(crate) fn insert(&mut self, key: String, field: impl Into<Field>) {
        let field = field.into();
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = field,
            None => self.0.push((key, field)),
        }
    }

    pub(crate) fn extend(&mut self, fields: JsonObject) {
        for (key, value) in fields {
            self.insert(key, value);
        }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|(key, _)| keep(key));
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.0.iter().any(|(known, _)| known == key)
    }

    /// A field that is not JSON text yet.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.0.iter().find_map(|(known, field)| match field {
            Field::Value(value) if known == key => Some(value),
            _ => None,
        })
    }

    /// About how many tokens the body has.
    pub(crate) fn tokens(&self) -> u64 {
        let field = |field: &Field| match field {
            Field::Value(value) => tokens(value),
            Field::Written(text) => (text.get().len() as u64).div_ceil(4),
            Field::Tools(tools) => tools.iter().map(Declaration::tokens).sum(),
        };
        self.0.iter().map(|(key, value)| field(value) + key.len() as u64 / 4).sum()
    }

    /// The JSON text, with other fields laid over these; one that is null there is left out.
    pub(crate) fn to_json(&self, over: &[(&str, &Value)]) -> Result<Vec<u8>, ModelError> {
        serde_json::to_vec(&Layered { body: self, over }).map_err(|error| unwritable(&error))
    }
}

fn unwritable(error: &serde_json::Error) -> ModelError {
    let message = format!("the request cannot be written as JSON: {error}");
    ModelError::new(ModelErrorKind::BadRequest, None, message)
}

/// About how many tokens a value has: four bytes each, pictures and documents apart.
pub(super) fn tokens(value: &Value) -> u64 {
    let bytes = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        // A picture is read as tiles and not as text.
        Value::String(text) if text.starts_with("data:") => return 1000,
        Value::String(text) => text.len(),
        Value::Array(items) => return items.iter().map(tokens).sum(),
        Value::Object(fields) => {
            return fields.iter().map(|(key, value)| tokens(value) + key.len() as u64 / 4).sum();
        }
    };
    (bytes as u64).div_ceil(4)
}

struct Layered<'a> {
    body: &'a RequestBody,
    over: &'a [(&'a str, &'a Value)],
}

impl Serialize for Layered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, field) in &self.body.0 {
            match self.over.iter().find(|(other, _)| other == key) {
                Some((_, Value::Null)) => {}
                Some((_, value)) => map.serialize_entry(key, value)?,
                None => map.serialize_entry(key, field)?,
            }
        }
        let more = self.over.iter().filter(|(key, value)| !value.is_null() && !self.body.contains(key));
        for (key, value) in more {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Written(text) => text.serialize(serializer),
            Self::Tools(tools) => {
                let mut list = serializer.serialize_seq(Some(tools.len()))?;
                for tool in tools {
                    list.serialize_element(tool)?;
                }
                list.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(body: &RequestBody, over: &[(&str, &Value)]) -> String {
        String::from_utf8(body.to_json(over).unwrap()).unwrap()
    }

    #[test]
    fn fields_keep_their_places_whatever_they_hold() {
        let mut body = RequestBody::from([("model", json!("m")), ("input", json!(null))]);
        body.insert("tools".into(), Field::Tools(vec![Declaration::Other(json!({"name": "ls"}))]));
        body.insert("input".into(), Field::written(&json!([1, {"a": "b"}])).unwrap());
        assert_eq!(text(&body, &[]), r#"{"model":"m","input":[1,{"a":"b"}],"tools":[{"name":"ls"}]}"#);
        body.retain(|key| key != "input");
        assert!(!body.contains("input") && body.value("tools").is_none());
        assert_eq!(body.value("model"), Some(&json!("m")));
    }

    #[test]
    fn what_is_laid_over_a_body_replaces_removes_and_adds() {
        let body = RequestBody::from([("a", json!(1)), ("b", json!(2)), ("c", json!(3))]);
        let (null, new) = (json!(null), json!({"x": 0}));
        let over = [("b", &null), ("c", &new), ("d", &new), ("e", &null)];
        assert_eq!(text(&body, &over), r#"{"a":1,"c":{"x":0},"d":{"x":0}}"#);
    }

    #[test]
    fn a_picture_does_not_count_as_text() {
        let picture = format!("data:image/png;base64,{}", "A".repeat(100_000));
        let body = RequestBody::from([("text", json!("x".repeat(400))), ("image", json!(picture))]);
        assert_eq!(body.tokens(), 100 + 1 + 1000 + 1);
    }
}
