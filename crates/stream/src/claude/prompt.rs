//! Prompts of the host.

use pollux_domain::content::{Blob, Body};
use pollux_front::input::Typed;
use serde_json::Value;

use crate::own::slash_command;

/// A prompt from the `content` of a message: a text, or blocks of text, images and documents.
pub(crate) fn prompt(content: &Value) -> Result<Typed, String> {
    let mut typed = Typed::default();
    match content {
        Value::String(text) => typed.text.clone_from(text),
        Value::Array(blocks) => {
            for block in blocks {
                add(&mut typed, block)?;
            }
        }
        _ => return Err("`message.content` must be a string or a list of blocks".to_owned()),
    }
    if typed.text.trim().is_empty() && typed.parts.is_empty() {
        return Err("the prompt is empty".to_owned());
    }
    // The only built-in command of theirs that programs send.
    match typed.text.trim() {
        "/compact" => Ok(slash_command("/compress")),
        _ => Ok(typed),
    }
}

fn add(typed: &mut Typed, block: &Value) -> Result<(), String> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let kind = text(block, "type").unwrap_or_default();
    match kind.as_str() {
        "text" => {
            let text = text(block, "text").ok_or("a `text` block needs a `text`")?;
            if !typed.text.is_empty() {
                typed.text.push_str("\n\n");
            }
            typed.text.push_str(&text);
        }
        "image" | "document" => {
            let source = block.get("source").unwrap_or(&Value::Null);
            match (text(source, "type").as_deref(), text(source, "media_type"), text(source, "data")) {
                (Some("base64"), Some(mime_type), Some(data)) => {
                    typed.parts.push(Body::InlineData(Blob { mime_type, data_base64: data }).into());
                }
                (Some("text"), _, Some(data)) => typed.parts.push(Body::Text(data).into()),
                _ => return Err(format!("the source of this `{kind}` block is not supported")),
            }
        }
        other => {
            let other: String = other.chars().take(100).collect();
            return Err(format!("content blocks of type `{other}` are not supported"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_become_text_and_images() {
        let image =
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}});
        let typed =
            prompt(&json!([{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}])).unwrap();
        assert_eq!((typed.text.as_str(), typed.parts.len()), ("a\n\nb", 1));
        assert!(!typed.may_be_command && !typed.may_be_shell);
        assert!(prompt(&json!("/compact")).unwrap().may_be_command);
        for wrong in [
            json!(null),
            json!(" "),
            json!([]),
            json!([{"type": "text"}]),
            json!([{"type": "image", "source": {"type": "url", "url": "http://x"}}]),
            json!([{"type": "tool_result", "tool_use_id": "x"}]),
        ] {
            assert!(prompt(&wrong).is_err(), "{wrong}");
        }
    }
}
