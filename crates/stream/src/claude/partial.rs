//! Pieces of a message while it is written, as events of the model's API.

use serde_json::{Value, json};

/// Turns pieces into events. Makes nothing unless pieces are wanted.
#[derive(Default)]
pub(crate) struct Partial {
    pub(crate) is_wanted: bool,
    is_open: bool,
    /// The kind of the open block.
    block: Option<&'static str>,
    blocks: u64,
}

impl Partial {
    /// A message begins.
    pub(crate) fn begin(&mut self, id: &str, model: &str) -> Vec<Value> {
        if !self.is_wanted {
            return Vec::new();
        }
        let mut events = self.end(None);
        self.is_open = true;
        self.blocks = 0;
        events.push(json!({"type": "message_start", "message": {
            "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 0, "output_tokens": 0},
        }}));
        events
    }

    pub(crate) fn text(&mut self, text: &str) -> Vec<Value> {
        self.piece("text", json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}))
    }

    pub(crate) fn thinking(&mut self, text: &str) -> Vec<Value> {
        let block = json!({"type": "thinking", "thinking": "", "signature": ""});
        self.piece("thinking", block, json!({"type": "thinking_delta", "thinking": text}))
    }

    /// A call, which comes whole.
    pub(crate) fn call(&mut self, id: &str, name: &str, input: &Value) -> Vec<Value> {
        let mut events = self.end_block();
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
        events.extend(self.piece("tool_use", block, delta));
        events.extend(self.end_block());
        events
    }

    /// The message ends.
    pub(crate) fn end(&mut self, stop_reason: Option<&str>) -> Vec<Value> {
        let mut events = self.end_block();
        if std::mem::take(&mut self.is_open) {
            let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
            events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 0}}));
            events.push(json!({"type": "message_stop"}));
        }
        events
    }

    fn piece(&mut self, kind: &'static str, block: Value, delta: Value) -> Vec<Value> {
        if !self.is_open {
            return Vec::new();
        }
        let mut events = Vec::new();
        if self.block != Some(kind) {
            events = self.end_block();
            self.block = Some(kind);
            events.push(json!({"type": "content_block_start", "index": self.blocks, "content_block": block}));
        }
        events.push(json!({"type": "content_block_delta", "index": self.blocks, "delta": delta}));
        events
    }

    fn end_block(&mut self) -> Vec<Value> {
        if self.block.take().is_none() {
            return Vec::new();
        }
        let index = self.blocks;
        self.blocks += 1;
        vec![json!({"type": "content_block_stop", "index": index})]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_opened_and_closed_in_order() {
        let mut partial = Partial { is_wanted: true, ..Partial::default() };
        let mut events = partial.begin("m", "x");
        events.extend(partial.thinking("hm"));
        events.extend(partial.text("a"));
        events.extend(partial.text("b"));
        events.extend(partial.call("c", "ls", &json!({"path": "."})));
        events.extend(partial.begin("n", "x"));
        let words: Vec<String> = events
            .iter()
            .map(|event| {
                format!("{}{}", event["type"].as_str().unwrap(), event.get("index").unwrap_or(&json!("")))
            })
            .collect();
        let expected = [
            "message_start\"\"",
            "content_block_start0",
            "content_block_delta0",
            "content_block_stop0",
            "content_block_start1",
            "content_block_delta1",
            "content_block_delta1",
            "content_block_stop1",
            "content_block_start2",
            "content_block_delta2",
            "content_block_stop2",
            "message_delta\"\"",
            "message_stop\"\"",
            "message_start\"\"",
        ];
        assert_eq!(words, expected);
        assert_eq!(Partial::default().begin("m", "x"), Vec::<Value>::new());
    }
}
