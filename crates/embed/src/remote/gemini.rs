//! The Gemini API's JSON: `embedContent` and `batchEmbedContents`.

use pollux_domain::embedding::Purpose;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    embedding: Option<Embedding>,
    #[serde(default)]
    embeddings: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    values: Vec<f32>,
}

/// A single query is sent alone; other texts are sent as one list.
pub(super) fn request(
    model: &str,
    texts: &[String],
    purpose: Purpose,
    dimensions: Option<u32>,
) -> (String, Value) {
    let task = match purpose {
        Purpose::Query => "RETRIEVAL_QUERY",
        Purpose::Document => "RETRIEVAL_DOCUMENT",
    };
    let one = |text: &String| {
        let mut request = json!({
            "model": format!("models/{model}"),
            "content": { "parts": [{ "text": text }] },
            "taskType": task,
        });
        if let Some(dimensions) = dimensions {
            request["outputDimensionality"] = dimensions.into();
        }
        request
    };
    match texts {
        [text] if purpose == Purpose::Query => (format!("/models/{model}:embedContent"), one(text)),
        texts => {
            let requests: Vec<Value> = texts.iter().map(one).collect();
            (format!("/models/{model}:batchEmbedContents"), json!({ "requests": requests }))
        }
    }
}

/// `None` if it is not a response of this API.
pub(super) fn vectors(body: &[u8]) -> Option<Vec<Vec<f32>>> {
    let reply: Reply = serde_json::from_slice(body).ok()?;
    let all = reply.embedding.into_iter().chain(reply.embeddings);
    Some(all.map(|embedding| embedding.values).collect())
}
