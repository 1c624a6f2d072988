//! Every message that is written can be read back.

use pollux_domain::JsonObject;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::incoming::{Incoming, read, read_object};
use crate::outgoing::Outgoing;
use crate::shape::Kind;

/// JSON of any shape, with text that tries to break out of a line.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_text(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), Just("a\nb\r\n{\"type\":\"RESULT\"}\u{2028}\u{85}\u{1b}[2J\0".to_owned()),]
}

/// A value that fits a schema of this crate.
fn fitting(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(only) = schema.get("const") {
        return Just(only.clone()).boxed();
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return prop::sample::select(words.clone()).boxed();
    }
    if let Some(either) = schema.get("oneOf").and_then(Value::as_array) {
        let either: Vec<BoxedStrategy<Value>> = either.iter().map(fitting).collect();
        return prop::strategy::Union::new(either).boxed();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => any_text().prop_map(Value::from).boxed(),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("integer") => any::<u64>().prop_map(Value::from).boxed(),
        Some("array") => prop::collection::vec(fitting(&schema["items"]), 0..3).prop_map(Value::from).boxed(),
        Some("object") => match schema.get("properties").and_then(Value::as_object) {
            Some(members) => {
                let members: Vec<_> = members
                    .iter()
                    // Optional members are covered by the messages themselves.
                    .map(|(name, schema)| field(name.clone(), schema, true))
                    .collect();
                members.prop_map(|members| Value::Object(members.into_iter().flatten().collect())).boxed()
            }
            None => prop::collection::vec((any_text(), any_json()), 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect()))
                .boxed(),
        },
        _ => any_json().boxed(),
    }
}

fn field(name: String, schema: &Value, is_required: bool) -> BoxedStrategy<Option<(String, Value)>> {
    let value = fitting(schema);
    let there = value.prop_map(move |value| Some((name.clone(), value)));
    if is_required {
        return there.boxed();
    }
    // An optional field that is null is the same as none.
    let there = there.prop_map(|member| member.filter(|(_, value)| !value.is_null()));
    prop_oneof![Just(None), there].boxed()
}

/// A message of any of these kinds: its word and its fields.
fn message(kinds: Vec<Kind>) -> impl Strategy<Value = (&'static str, JsonObject)> {
    let kinds: Vec<_> = kinds
        .into_iter()
        .map(|kind| {
            let fields: Vec<_> = kind
                .fields
                .iter()
                .map(|member| field(member.name.clone(), &member.schema, !member.is_optional))
                .collect();
            let word = kind.word;
            fields
                .prop_map(move |fields| (word, fields.into_iter().flatten().collect::<JsonObject>()))
                .boxed()
        })
        .collect();
    prop::strategy::Union::new(kinds)
}

fn line(word: &str, fields: &JsonObject) -> String {
    let mut members = serde_json::Map::new();
    members.insert("type".to_owned(), json!(word));
    members.extend(fields.clone());
    pollux_domain::terminal_text::json(Value::Object(members).to_string())
}

proptest! {
    #[test]
    fn what_a_host_writes_is_read_as_it_was_meant((word, fields) in message(Incoming::kinds())) {
        let written = line(word, &fields);
        prop_assert!(!written.contains('\n'));
        let message = read(written.as_bytes()).map_err(|error| TestCaseError::fail(error.message))?;
        prop_assert_eq!(message.word(), word);
        let again = message.to_fields().unwrap();
        // A number of type `any JSON` keeps its value.
        prop_assert_eq!(again, Value::Object(fields));
    }

    #[test]
    fn what_is_sent_to_a_host_can_be_read_back((word, fields) in message(Outgoing::kinds())) {
        let written = line(word, &fields);
        prop_assert!(written.chars().all(|letter| !letter.is_control()), "{:?}", written);
        let (found, read) = read_object(written.as_bytes()).map_err(|error| TestCaseError::fail(error.message))?;
        let message = Outgoing::read(&found, read).unwrap().unwrap();
        prop_assert_eq!(message.word(), word);
        prop_assert_eq!(message.to_fields().unwrap(), Value::Object(fields));
    }

    #[test]
    fn no_line_stops_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }
}
