//! How much of its tools a session offers: a small model cannot use as many as a large one, and reads slowly.

use std::sync::Arc;

use pollux_domain::model::ModelInfo;
use pollux_domain::tool::ToolSpec;
use serde_json::Value;

/// The tools of the compact profile: read, list, search, edit, shell.
const COMPACT: &[&str] =
    &["read_file", "list_directory", "grep_search", "replace", "write_file", "run_shell_command"];
/// The longest description of a tool or an argument in the compact profile, in characters.
const MAX_DESCRIPTION: usize = 200;

/// What is declared to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ToolOffer {
    #[default]
    All,
    /// The basic tools, in short words.
    Compact,
    /// It cannot call tools.
    Nothing,
}

impl ToolOffer {
    pub(crate) fn to(model: &ModelInfo) -> Self {
        match (model.caps.tools, model.is_compact()) {
            (false, _) => Self::Nothing,
            (true, true) => Self::Compact,
            (true, false) => Self::All,
        }
    }

    /// Whether a tool can be called. The tools of a sub-agent were chosen for it, so all of them can.
    pub(super) fn includes(self, spec: &ToolSpec, is_subagents: bool) -> bool {
        match self {
            Self::All => true,
            Self::Compact => is_subagents || COMPACT.contains(&spec.name.as_str()),
            Self::Nothing => false,
        }
    }

    /// A tool as it is declared, if it is.
    pub(super) fn of(self, spec: &Arc<ToolSpec>, is_subagents: bool) -> Option<Arc<ToolSpec>> {
        self.includes(spec, is_subagents).then(|| match self {
            Self::Compact => Arc::new(shortened(spec)),
            Self::All | Self::Nothing => Arc::clone(spec),
        })
    }
}

fn shortened(spec: &ToolSpec) -> ToolSpec {
    let mut spec = spec.clone();
    spec.description = short(&spec.description);
    shorten_descriptions(&mut spec.parameters);
    spec
}

fn shorten_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = short(text);
            }
            fields.values_mut().for_each(shorten_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_descriptions),
        _ => {}
    }
}

/// The first sentences that fit, or the first words of one that is too long.
fn short(text: &str) -> String {
    if text.chars().count() <= MAX_DESCRIPTION {
        return text.to_owned();
    }
    let start: String = text.chars().take(MAX_DESCRIPTION).collect();
    if let Some((sentences, _)) = start.rsplit_once(". ") {
        return format!("{sentences}.");
    }
    let words = start.rsplit_once(' ').map_or(start.as_str(), |(words, _)| words);
    let words: String = words.chars().take(MAX_DESCRIPTION - 1).collect();
    format!("{}…", words.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::model::{Dialect, ProviderId};
    use pollux_domain::tool::ToolKind;
    use serde_json::json;

    fn spec(name: &str, description: &str) -> Arc<ToolSpec> {
        Arc::new(ToolSpec {
            name: name.into(),
            display_name: name.into(),
            description: description.into(),
            kind: ToolKind::Read,
            parameters: json!({"properties": {"path": {"type": "string", "description": "word ".repeat(90)}}}),
            output_is_markdown: false,
            offloads_long_output: false,
        })
    }

    #[test]
    fn the_compact_profile_has_few_tools_with_short_descriptions() {
        let long = format!("Reads a file. {} The end.", "Much more about it. ".repeat(20));
        let read = ToolOffer::Compact.of(&spec("read_file", &long), false).unwrap();
        assert!(read.description.starts_with("Reads a file. ") && read.description.ends_with("it."));
        assert!(read.description.chars().count() <= MAX_DESCRIPTION, "{}", read.description);
        let argument = read.parameters["properties"]["path"]["description"].as_str().unwrap();
        assert!(argument.chars().count() <= MAX_DESCRIPTION && argument.ends_with('…'), "{argument}");
        assert_eq!(ToolOffer::Compact.of(&spec("web_fetch", "x"), false), None);
        assert!(ToolOffer::Compact.of(&spec("complete_task", "x"), true).is_some());
        assert_eq!(ToolOffer::Nothing.of(&spec("read_file", "x"), true), None);
        assert_eq!(ToolOffer::All.of(&spec("web_fetch", &long), false).unwrap().description, long);
        assert_eq!(short(&"ü".repeat(300)).chars().count(), MAX_DESCRIPTION);
    }

    #[test]
    fn a_model_is_offered_what_it_can_use() {
        let mut model = ModelInfo::unknown("m", ProviderId::new("lab"), Dialect::CHAT);
        assert_eq!(ToolOffer::to(&model), ToolOffer::All);
        model.local = true;
        assert_eq!(ToolOffer::to(&model), ToolOffer::Compact);
        model.caps.tools = false;
        assert_eq!(ToolOffer::to(&model), ToolOffer::Nothing);
    }
}
