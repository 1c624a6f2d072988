//! The conversation in the form that external checkers receive, limited in size.

use std::sync::Arc;

use pollux_domain::content::{Content, Role};
use serde_json::{Value, json};

/// Bytes of conversation that a checker receives; older turns are dropped.
const MAX_BYTES: usize = 1024 * 1024;

/// One turn for each message of the model, with the prompt before it; the newest that fit.
pub(crate) fn of(history: &[Arc<Content>]) -> Vec<Value> {
    let mut turns = Vec::new();
    let mut asked: Option<String> = None;
    for content in history {
        match content.role {
            Role::User => {
                let before = asked.replace(content.text());
                turns.extend(before.map(|text| turn(&text, json!({}))));
            }
            Role::Model => {
                let calls: Vec<Value> =
                    content.calls().map(|call| json!({"name": call.name, "args": call.args})).collect();
                let said = json!({"text": content.text(), "toolCalls": calls});
                turns.push(turn(&asked.take().unwrap_or_default(), said));
            }
        }
    }
    turns.extend(asked.map(|text| turn(&text, json!({}))));
    newest(turns)
}

fn turn(asked: &str, said: Value) -> Value {
    json!({"user": {"text": asked}, "model": said})
}

fn newest(mut turns: Vec<Value>) -> Vec<Value> {
    let mut room = MAX_BYTES;
    let kept = turns.iter().rev().take_while(|turn| {
        let size = turn.to_string().len();
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    });
    let left_out = turns.len() - kept.count();
    turns.drain(..left_out);
    turns
}

#[cfg(test)]
mod tests {
    use pollux_domain::content::{Body, FunctionCall, Part};

    use super::*;

    #[test]
    fn prompts_are_paired_with_their_replies() {
        let args = json!({"path": "a"}).as_object().cloned().unwrap();
        let mut call = Part::text("");
        call.body = Body::Call(FunctionCall::new(None, "x", args));
        let history = [
            Content::user_text("context"),
            Content::user_text("do it"),
            Content::model(vec![Part::text("well"), call]),
            Content::model(vec![Part::text("done")]),
            Content::user_text("thanks"),
        ];
        let said = json!({"text": "well", "toolCalls": [{"name": "x", "args": {"path": "a"}}]});
        let expected = [
            turn("context", json!({})),
            turn("do it", said),
            turn("", json!({"text": "done", "toolCalls": []})),
            turn("thanks", json!({})),
        ];
        assert_eq!(of(&history.map(Arc::new)), expected);
    }

    #[test]
    fn a_long_conversation_is_truncated_at_the_start() {
        let long = "x".repeat(400 * 1024);
        let history: Vec<Arc<Content>> = (0..5).map(|_| Arc::new(Content::user_text(long.clone()))).collect();
        assert_eq!(of(&history).len(), 2);
    }
}
