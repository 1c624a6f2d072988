//! The report of a sub-agent, as a person reads it.

use std::borrow::Cow;

use pollux_domain::terminal_text::plain;
use ratatui::text::Line;
use serde_json::Value;

use super::look::Look;
use crate::markdown;

/// The report as lines.
pub(super) fn lines(report: &str, look: Look<'_>) -> Vec<Line<'static>> {
    let text = as_markdown(report);
    let look = markdown::Look { theme: look.theme, width: look.width, line_numbers: look.line_numbers };
    markdown::render(&plain(&text), look)
}

/// Agents report as JSON where a form was asked of them: its fields become headings with their texts.
fn as_markdown(report: &str) -> Cow<'_, str> {
    let Ok(value) = serde_json::from_str::<Value>(report.trim()) else { return report.into() };
    match &value {
        Value::Object(fields) if fields.len() == 1 => fields.values().map(text).collect(),
        Value::Object(fields) => {
            let parts = fields.iter().map(|(name, value)| (name, text(value)));
            let parts = parts
                .filter(|(_, text)| !text.is_empty())
                .map(|(name, text)| format!("**{}**\n\n{text}", heading(name)));
            parts.collect::<Vec<_>>().join("\n\n").into()
        }
        Value::String(said) => said.clone().into(),
        _ => report.into(),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        Value::Array(items) => {
            let items = items.iter().map(|item| match item {
                Value::Object(fields) => {
                    let parts =
                        fields.iter().map(|(name, value)| format!("{}: {}", heading(name), short(value)));
                    format!("- {}", parts.collect::<Vec<_>>().join("; "))
                }
                other => format!("- {}", short(other)),
            });
            items.collect::<Vec<_>>().join("\n")
        }
        Value::Object(fields) => {
            let items = fields.iter().map(|(name, value)| format!("- {}: {}", heading(name), short(value)));
            items.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// A value inside a list.
fn short(value: &Value) -> String {
    match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Array(items) => items.iter().map(short).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// `relevantFiles` and `relevant_files` → `Relevant files`.
fn heading(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        match letter {
            '_' | '-' => words.push(' '),
            letter if letter.is_uppercase() && !words.is_empty() && !words.ends_with(' ') => {
                words.push(' ');
                words.extend(letter.to_lowercase());
            }
            letter if words.is_empty() => words.extend(letter.to_uppercase()),
            letter => words.extend(letter.to_lowercase()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_in_a_form_reads_as_text() {
        let report = r#"{"SummaryOfFindings": "The cart is in `src`.", "relevant_locations":
            [{"FilePath": "src/cart.py", "Reasoning": "It adds  up."}], "trace": [], "notes": ["a", "b"]}"#;
        assert_eq!(
            as_markdown(report),
            "**Summary of findings**\n\nThe cart is in `src`.\n\n**Relevant locations**\n\n\
             - File path: src/cart.py; Reasoning: It adds up.\n\n**Notes**\n\n- a\n- b"
        );
        assert_eq!(as_markdown(r#"{"response": "Only this."}"#), "Only this.");
        assert_eq!(as_markdown("not {json"), "not {json");
    }
}
