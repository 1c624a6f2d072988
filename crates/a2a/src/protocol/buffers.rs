//! Requests of 0.3 over HTTP, whose clients may name fields as the definition of the protocol buffers does.

use pollux_domain::JsonObject;
use serde_json::Value;

/// Members whose names belong to the client.
const FREE: [&str; 2] = ["metadata", "data"];

/// The same request with the names that JSON uses: `message_id` becomes `messageId`, and `request` is the message.
pub fn with_json_names(request: JsonObject) -> JsonObject {
    let mut request = renamed(request);
    if let Some(message) = request.remove("request") {
        request.entry("message").or_insert(message);
    }
    request
}

fn renamed(fields: JsonObject) -> JsonObject {
    let rename = |(name, value): (String, Value)| match FREE.contains(&name.as_str()) {
        true => (name, value),
        false => (camel_case(&name), renamed_value(value)),
    };
    fields.into_iter().map(rename).collect()
}

fn renamed_value(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(renamed(fields)),
        Value::Array(values) => Value::Array(values.into_iter().map(renamed_value).collect()),
        other => other,
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let initial = letters.next().map(|letter| letter.to_ascii_uppercase());
        name + &initial.into_iter().chain(letters).collect::<String>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_fields_change_and_names_of_clients_do_not() {
        let request = json!({
            "request": {
                "message_id": "m", "taskId": "t", "metadata": {"my_key": 1},
                "content": [{"file": {"file_with_bytes": "AA=="}}, {"data": {"data": {"call_id": 2}}}],
            },
            "configuration": {"accepted_output_modes": ["text_plain"], "history_length": 3},
        });
        let expected = json!({
            "message": {
                "messageId": "m", "taskId": "t", "metadata": {"my_key": 1},
                "content": [{"file": {"fileWithBytes": "AA=="}}, {"data": {"data": {"call_id": 2}}}],
            },
            "configuration": {"acceptedOutputModes": ["text_plain"], "historyLength": 3},
        });
        let Value::Object(request) = request else { panic!() };
        let read = with_json_names(request);
        assert_eq!(Value::Object(read.clone()), expected);
        assert_eq!(with_json_names(read.clone()), read, "names of JSON stay");
    }
}
