//! Parses what a server offers: lenient, bounded, with names and texts sanitised.

use pollux_domain::JsonObject;
use serde_json::Value;

/// Characters of a server's instructions that are passed on.
pub(crate) const INSTRUCTIONS: usize = 8000;
/// Things of one kind that are taken from a server.
const MAX_ITEMS: usize = 1000;
/// Characters of a description; more than that is no description.
const TEXT: usize = 10_000;
const NAME: usize = 200;

/// A tool as the server describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolOffer {
    /// As it is called on the wire.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Option<Value>,
    pub(crate) annotations: Option<JsonObject>,
}

/// A prompt as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSpec {
    pub name: String,
    pub description: String,
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    pub name: String,
    pub description: String,
    pub required: bool,
}

/// A resource as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceOffer {
    pub(crate) uri: String,
    pub(crate) name: String,
    pub(crate) description: String,
}

/// Everything of one server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Offer {
    pub(crate) tools: Vec<ToolOffer>,
    pub(crate) prompts: Vec<PromptSpec>,
    pub(crate) resources: Vec<ResourceOffer>,
}

impl Offer {
    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.prompts.is_empty() && self.resources.is_empty()
    }
}

/// The items of a page and the cursor of the next.
pub(crate) fn page<'v>(result: &'v Value, key: &str) -> (&'v [Value], Option<String>) {
    let items = result.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let cursor = result.get("nextCursor").and_then(Value::as_str).filter(|cursor| !cursor.is_empty());
    (items, cursor.map(str::to_owned))
}

/// Adds what a page holds, up to the bound; whether there is room for more.
pub(crate) fn add<T>(into: &mut Vec<T>, items: &[Value], read: impl Fn(&Value) -> Option<T>) -> bool {
    let room = MAX_ITEMS.saturating_sub(into.len());
    into.extend(items.iter().filter_map(read).take(room));
    into.len() < MAX_ITEMS
}

pub(crate) fn tool(value: &Value) -> Option<ToolOffer> {
    Some(ToolOffer {
        name: name(value, "name")?,
        description: text(value, "description"),
        schema: value.get("inputSchema").filter(|schema| schema.is_object()).cloned(),
        annotations: value
            .get("annotations")
            .and_then(Value::as_object)
            .filter(|map| map.len() < 50)
            .cloned(),
    })
}

pub(crate) fn prompt(value: &Value) -> Option<PromptSpec> {
    let arguments = value.get("arguments").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    Some(PromptSpec {
        name: name(value, "name")?,
        description: text(value, "description"),
        arguments: arguments
            .iter()
            .take(100)
            .filter_map(|argument| {
                Some(PromptArgument {
                    name: name(argument, "name")?,
                    description: text(argument, "description"),
                    required: argument.get("required").and_then(Value::as_bool) == Some(true),
                })
            })
            .collect(),
    })
}

pub(crate) fn resource(value: &Value) -> Option<ResourceOffer> {
    let uri = value.get("uri").and_then(Value::as_str)?;
    Some(ResourceOffer {
        uri: Some(uri).filter(|uri| !uri.is_empty() && uri.len() <= 2000)?.to_owned(),
        name: name(value, "name").unwrap_or_default(),
        description: text(value, "description"),
    })
}

/// A name that somebody could write; others are left out.
fn name(value: &Value, key: &str) -> Option<String> {
    let name = value.get(key).and_then(Value::as_str)?;
    (!name.trim().is_empty() && name.chars().count() <= NAME).then(|| name.to_owned())
}

fn text(value: &Value, key: &str) -> String {
    let text = value.get(key).and_then(Value::as_str).unwrap_or_default();
    bounded(text, TEXT)
}

/// A foreign text: no invisible characters, and not longer than it may be.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    let clean = |c: &char| !is_hidden(*c);
    if text.chars().count() <= most {
        return text.chars().filter(clean).collect();
    }
    let mut cut: String = text.chars().filter(clean).take(most).collect();
    cut.push_str(" [cut]");
    cut
}

/// Characters that nobody sees and a model reads: controls, tags, zero width, direction changes.
fn is_hidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn half_filled_entries_are_read_and_nonsense_is_left_out() {
        assert_eq!(tool(&json!({"name": "t"})).unwrap().schema, None);
        assert_eq!(tool(&json!({"name": ""})), None);
        assert_eq!(tool(&json!({"name": "x".repeat(1000)})), None);
        assert_eq!(tool(&json!("t")), None);
        let prompt =
            prompt(&json!({"name": "p", "arguments": [{"name": "a", "required": true}, {}, 3]})).unwrap();
        assert_eq!(prompt.arguments.len(), 1);
        assert_eq!(resource(&json!({"name": "no uri"})), None);
        let answer = json!({"tools": [1, 2], "nextCursor": "c"});
        let (items, next) = page(&answer, "tools");
        assert_eq!((items.len(), next.as_deref()), (2, Some("c")));
    }

    #[test]
    fn a_description_has_no_hidden_words_and_an_end() {
        let hidden = "harmless\u{200b}\u{e0041}\u{202e}\u{1b}[8m text";
        assert_eq!(
            tool(&json!({"name": "t", "description": hidden})).unwrap().description,
            "harmless[8m text"
        );
        let long = tool(&json!({"name": "t", "description": "é".repeat(50_000)})).unwrap().description;
        assert_eq!(long.chars().count(), TEXT + " [cut]".len());
    }

    #[test]
    fn no_more_than_the_bound_is_taken() {
        let items: Vec<Value> = (0..3000).map(|n| json!({"name": format!("t{n}")})).collect();
        let mut tools = Vec::new();
        assert!(!add(&mut tools, &items, tool));
        assert_eq!(tools.len(), MAX_ITEMS);
    }
}
