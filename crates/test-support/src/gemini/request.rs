//! The recorded requests.

use serde_json::Value;

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// Path without the query.
    pub path: String,
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The JSON body; null if it was none.
    pub body: Value,
    /// Which connection it came over, from 0; equal numbers mean a reused connection.
    pub connection: usize,
}

impl Request {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The turns.
    pub fn contents(&self) -> Vec<Value> {
        array(&self.body["contents"])
    }

    /// Every `functionResponse` of the last turn, in order.
    pub fn function_responses(&self) -> Vec<Value> {
        let last = self.contents().pop().unwrap_or_default();
        array(&last["parts"])
            .into_iter()
            .filter_map(|mut part| part.get_mut("functionResponse").map(Value::take))
            .collect()
    }

    /// The names of the declared tools, in order.
    pub fn tool_names(&self) -> Vec<String> {
        array(&self.body["tools"])
            .iter()
            .flat_map(|entry| array(&entry["functionDeclarations"]))
            .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
            .collect()
    }

    /// The texts of the last turn, in order.
    pub fn last_texts(&self) -> Vec<String> {
        let last = self.contents().pop().unwrap_or_default();
        array(&last["parts"]).iter().filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()
    }

    /// The system instruction's text.
    pub fn system_text(&self) -> String {
        array(&self.body["systemInstruction"]["parts"])
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect()
    }
}

fn array(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}
