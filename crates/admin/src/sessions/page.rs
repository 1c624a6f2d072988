//! What `pollux sessions show` prints.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Details, list, shown};

/// A prompt is shown as far as it fits on a line.
const PROMPT_CHARS: usize = 100;

pub(super) fn text(details: &Details) -> String {
    let mut text = format!("{}\n", shown(&details.row.title));
    let widest = details.facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in &details.facts {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<widest$}  {}", shown(value));
    }
    if !details.prompts.is_empty() {
        text.push_str("\nPrompts:\n");
        let digits = details.prompts.len().to_string().len();
        for (index, prompt) in details.prompts.iter().enumerate() {
            let line = shown(&prompt.text);
            let cut: String = line.chars().take(PROMPT_CHARS).collect();
            let more = if cut.len() < line.len() { "…" } else { "" };
            let _ = writeln!(text, "  {:>digits$}. {cut}{more} [{}]", index + 1, shown(&prompt.id));
        }
    }
    if !details.subagents.is_empty() {
        text.push_str("\nSub-agents:\n");
        for row in &details.subagents {
            let _ = writeln!(text, "  {} ({}) [{}]", shown(&row.title), row.age, shown(&row.id));
        }
    }
    text
}

pub(super) fn json(details: &Details) -> Value {
    let mut value = list::json(&details.row);
    let prompts: Vec<Value> = details
        .prompts
        .iter()
        .enumerate()
        .map(|(index, prompt)| {
            let time = prompt.time.map(|time| time.to_iso());
            json!({"number": index + 1, "id": prompt.id, "text": prompt.text, "timestamp": time})
        })
        .collect();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("prompts".into(), Value::Array(prompts));
        fields.insert("subagents".into(), details.subagents.iter().map(list::json).collect());
    }
    value
}
