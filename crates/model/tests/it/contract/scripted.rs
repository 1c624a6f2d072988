//! Replies from a script.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_model::catalogue::Catalogue;
use pollux_model::scripted::{ScriptedClient, Strictness};
use serde_json::{Value, json};

use super::{Peer, PeerAnswer, Running};

pub(crate) struct Script;

impl Peer for Script {
    fn has_server(&self) -> bool {
        false
    }

    fn start(&self, answers: Vec<PeerAnswer>) -> BoxFuture<'_, Running> {
        let lines: String = answers.into_iter().map(|answer| format!("{}\n", line(answer))).collect();
        let catalogue = Arc::new(Catalogue::built_in());
        let client = ScriptedClient::from_text(&lines, Strictness::Strict, catalogue).unwrap();
        // Nothing is ever sent.
        Box::pin(async { Running { client: Arc::new(client), requests: Box::new(|| 0) } })
    }
}

fn line(answer: PeerAnswer) -> Value {
    if let PeerAnswer::Whole(text) = answer {
        return json!({"method": "generateContent", "response": chunk(&json!({"text": text}), true)});
    }
    json!({"method": "generateContentStream", "response": chunks(answer)})
}

fn chunks(answer: PeerAnswer) -> Vec<Value> {
    let text = |text: &str| chunk(&json!({"text": text}), false);
    let error = |code: u16, message: &str| json!({"error": {"code": code, "message": message}});
    match answer {
        PeerAnswer::Text(pieces) => {
            let last = json!({"candidates": [{"finishReason": "STOP"}]});
            pieces.iter().map(|piece| text(piece)).chain([last]).collect()
        }
        PeerAnswer::Whole(_) => Vec::new(),
        PeerAnswer::Counted { text, input, output } => {
            let mut counted = chunk(&json!({"text": text}), true);
            counted["usageMetadata"] = json!({"promptTokenCount": input, "candidatesTokenCount": output,
                "totalTokenCount": input + output});
            vec![counted]
        }
        PeerAnswer::Call { id, name, args } => {
            vec![chunk(&json!({"functionCall": {"id": id, "name": name, "args": args}}), true)]
        }
        PeerAnswer::BadCall { name, raw } => {
            vec![chunk(&json!({"functionCall": {"name": name, "args": raw}}), true)]
        }
        PeerAnswer::CutAfter(piece) => vec![text(piece), error(500, "the connection broke")],
        PeerAnswer::SilentAfter(piece) => vec![text(piece), text("late")],
        PeerAnswer::RateLimited { .. } => vec![error(429, "slow down")],
        PeerAnswer::ServerError => vec![error(500, "oops")],
        PeerAnswer::Overflow { asked, limit } => vec![error(
            400,
            &format!(
                "The input token count ({asked}) exceeds the maximum number of tokens allowed ({limit})."
            ),
        )],
    }
}

fn chunk(part: &Value, last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": [part]}});
    if last {
        candidate["finishReason"] = json!("STOP");
    }
    json!({"candidates": [candidate]})
}
