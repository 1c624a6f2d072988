//! Embedding vectors for texts: texts that share words are close. Does not use the script.

use serde_json::{Value, json};

use super::reply::Reply;
use super::request::Request;

const DIMENSIONS: usize = 64;

pub(super) fn is_asked(request: &Request) -> bool {
    request.path.ends_with(":embedContent") || request.path.ends_with(":batchEmbedContents")
}

/// The answer to a request for vectors; `None` if it is about something else.
pub(super) fn answer(request: &Request) -> Option<Reply> {
    if !is_asked(request) {
        return None;
    }
    let body = match request.body["requests"].as_array() {
        Some(all) => json!({"embeddings": all.iter().map(embedded).collect::<Vec<_>>()}),
        None => json!({"embedding": embedded(&request.body)}),
    };
    Some(Reply::http(200, body.to_string()).header("Content-Type", "application/json"))
}

fn embedded(one: &Value) -> Value {
    let parts = one["content"]["parts"].as_array().cloned().unwrap_or_default();
    let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let mut vector = [0.0_f64; DIMENSIONS];
    vector[0] = 0.01;
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let hash = word
            .to_lowercase()
            .bytes()
            .fold(5381_usize, |hash, byte| hash.wrapping_mul(33) ^ usize::from(byte));
        vector[1 + hash % (DIMENSIONS - 1)] += 1.0;
    }
    json!({"values": vector.to_vec()})
}
