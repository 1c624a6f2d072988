//! Content blocks of a prompt as what the conversation takes.

use pollux_domain::content::{Blob, Body, Part};
use pollux_domain::percent;
use pollux_front::input::{Typed, mention};
use serde_json::Value;

use pollux_front::rpc::RpcError;

/// The largest block, in bytes as it travels.
const MAX_BLOCK: usize = 20 * 1000 * 1000;

/// A prompt, and addresses that the client named without their content.
pub(crate) struct Prompt {
    pub(crate) typed: Typed,
    pub(crate) unread: Vec<String>,
}

/// Reads the content blocks of a field. A link to a file becomes a mention, which is read like one that was typed.
pub(crate) fn read(name: &str, blocks: &Value) -> Result<Prompt, RpcError> {
    let Some(blocks) = blocks.as_array() else {
        return Err(RpcError::invalid_params(name, format!("`{name}` must be an array of content blocks")));
    };
    let mut prompt = Prompt { typed: Typed { may_be_command: true, ..Typed::default() }, unread: Vec::new() };
    for (index, block) in blocks.iter().enumerate() {
        let field = format!("{name}[{index}]");
        take(block, &field, &mut prompt)?;
    }
    Ok(prompt)
}

fn take(block: &Value, field: &str, prompt: &mut Prompt) -> Result<(), RpcError> {
    let bad = |why: &str| RpcError::invalid_params(field, format!("`{field}` {why}"));
    let text = |pointer: &str| block.pointer(pointer).and_then(Value::as_str);
    let needed = |pointer: &str| {
        let found = text(pointer).ok_or_else(|| bad(&format!("needs a string at `{pointer}`")))?;
        if found.len() > MAX_BLOCK { Err(bad("is larger than 20 MB")) } else { Ok(found) }
    };
    let Prompt { typed, unread } = prompt;
    match text("/type") {
        Some("text") => typed.text.push_str(needed("/text")?),
        Some("image" | "audio") => {
            let blob =
                Blob { mime_type: needed("/mimeType")?.to_owned(), data_base64: needed("/data")?.to_owned() };
            typed.parts.push(Body::InlineData(blob).into());
        }
        Some("resource_link") => {
            let uri = needed("/uri")?;
            match file(uri) {
                Some((path, lines)) => typed.text.push_str(&mention(&path, lines.as_deref())),
                None => {
                    let name = text("/name").unwrap_or_default();
                    typed.text.push_str(&format!("[{name}]({uri})"));
                    unread.push(uri.to_owned());
                }
            }
        }
        Some("resource") => {
            let uri = needed("/resource/uri")?;
            typed.text.push_str(&format!("[{uri}]"));
            if text("/resource/text").is_some() {
                let content = needed("/resource/text")?;
                let part = format!("--- Content of {uri} ---\n{content}\n--- End of {uri} ---");
                typed.parts.push(Part::text(part));
            } else {
                let mime_type = text("/resource/mimeType").unwrap_or("application/octet-stream").to_owned();
                let blob = Blob { mime_type, data_base64: needed("/resource/blob")?.to_owned() };
                typed.parts.push(Part::text(format!("--- Content of {uri} ---")));
                typed.parts.push(Body::InlineData(blob).into());
            }
        }
        Some(other) => return Err(bad(&format!("has the unsupported type `{other}`"))),
        None => return Err(bad("needs a `type`")),
    }
    Ok(())
}

/// The path and the lines that a `file://` address names.
fn file(uri: &str) -> Option<(String, Option<String>)> {
    let rest = uri.strip_prefix("file://")?;
    let (path, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = String::from_utf8(percent::decode(path)).ok()?;
    let lines = fragment.strip_prefix('L').map(|lines| lines.replace(":L", "-").replace("-L", "-"));
    path.starts_with('/').then_some((path, lines))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_block_reaches_the_conversation() {
        let prompt = read("prompt", &json!([
            {"type": "text", "text": "look at "},
            {"type": "resource_link", "name": "a b.rs", "uri": "file:///w/a%20b.rs#L10-20"},
            {"type": "resource_link", "name": "t", "uri": "zed:///thread/7"},
            {"type": "resource", "resource": {"uri": "file:///w/c.rs", "text": "unsaved"}},
            {"type": "resource", "resource": {"uri": "file:///w/d.png", "blob": "AAAA", "mimeType": "image/png"}},
            {"type": "image", "data": "BBBB", "mimeType": "image/png"},
            {"type": "audio", "data": "CCCC", "mimeType": "audio/wav"},
        ]))
        .unwrap();
        assert_eq!(
            prompt.typed.text,
            "look at @\"/w/a b.rs\" (lines 10-20)[t](zed:///thread/7)[file:///w/c.rs][file:///w/d.png]"
        );
        assert_eq!(prompt.unread, ["zed:///thread/7"]);
        assert_eq!(prompt.typed.parts.len(), 5);
        assert!(!prompt.typed.may_be_shell);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let cases = [
            (json!("x"), "prompt"),
            (json!([{"type": "text"}]), "prompt[0]"),
            (json!([{"type": "text", "text": "a"}, {"type": "video"}]), "prompt[1]"),
            (
                json!([{"type": "image", "data": "x".repeat(MAX_BLOCK + 1), "mimeType": "image/png"}]),
                "prompt[0]",
            ),
        ];
        for (blocks, field) in cases {
            let Err(error) = read("prompt", &blocks) else { panic!("{field}") };
            assert_eq!((error.code, error.data), (-32602, Some(json!({"field": field}))));
        }
    }
}
