//! How much of a message, an artifact or an output a task keeps.

use pollux_a2a::protocol::{Message, Part, PartBody};
use serde_json::Value;

/// Limits of one message: its bytes, its parts, and the text of a part.
const MAX_MESSAGE: usize = 1024 * 1024;
pub(super) const MAX_PARTS: usize = 100;
pub(super) const MAX_TEXT: usize = 256 * 1024;
/// The text of an artifact.
const MAX_OUTPUT: usize = 64 * 1024;

/// A message as the history keeps it: without the content of files, and with so much of anything else.
pub(super) fn kept(message: &Message) -> Message {
    let mut parts: Vec<Part> = message.parts.iter().take(MAX_PARTS).map(kept_part).collect();
    while parts.len() > 1 && parts_size(&parts) > MAX_MESSAGE {
        parts.pop();
    }
    let metadata = Value::Object(message.metadata.clone());
    let mut kept = Message { parts, ..message.clone() };
    if metadata.to_string().len() > MAX_OUTPUT {
        kept.metadata.clear();
    }
    kept
}

pub(super) fn kept_part(part: &Part) -> Part {
    let mut kept = part.clone();
    let name = part.name.as_deref().map(|name| name.chars().take(200).collect::<String>());
    match &mut kept.body {
        PartBody::Bytes(bytes) => {
            // Base64 has four characters for three bytes.
            let size = bytes.len() / 4 * 3;
            return Part::text(format!("[file `{}`: {size} bytes, not kept]", name.unwrap_or_default()));
        }
        PartBody::Text(text) | PartBody::Uri(text) if text.len() > MAX_TEXT => {
            let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let left = text.len() - end;
            text.truncate(end);
            text.push_str(&format!("\n[{left} more bytes, not kept]"));
        }
        PartBody::Data(data) => {
            let size = data.to_string().len();
            if size > MAX_TEXT {
                return Part::text(format!("[data of {size} bytes, not kept]"));
            }
        }
        _ => {}
    }
    kept.name = name;
    if kept.media_type.as_ref().is_some_and(|kind| kind.len() > 200) {
        kept.media_type = None;
    }
    kept
}

/// About how much memory parts take.
pub(super) fn parts_size(parts: &[Part]) -> usize {
    let size = |part: &Part| match &part.body {
        PartBody::Text(text) | PartBody::Bytes(text) | PartBody::Uri(text) => text.len(),
        PartBody::Data(data) => data.to_string().len(),
        PartBody::Nothing => 0,
    };
    parts.iter().map(size).sum()
}

/// Keeps the end of an output that has become too long.
pub(super) fn keep_end(text: &mut String) {
    if text.len() > 2 * MAX_OUTPUT {
        let start = text.len() - MAX_OUTPUT;
        let start = (start..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text.drain(..start);
    }
}

/// The texts of a stored list.
pub(super) fn read_texts(value: Option<&Value>) -> impl Iterator<Item = String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|text| Some(text.as_str()?.to_owned()))
}
