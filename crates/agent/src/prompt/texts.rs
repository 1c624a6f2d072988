//! The texts of the sections, from the files in `prompts/`, and how their placeholders are filled.
//!
//! A file begins with the section; `{{name}}` stands for a value. A line `<!-- name -->` begins a fragment, a text that
//! is put into the section or another fragment on some condition. `default/` has every section; a profile has files
//! for those that differ.

use pollux_domain::model::{Dialect, ModelInfo};

/// Which texts a model gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    #[default]
    Default,
    Claude,
    Gpt,
    /// Short texts for models with a small window.
    Compact,
}

impl Profile {
    /// The profile of a model. Gemini models have the default one.
    pub fn of(model: &ModelInfo) -> Self {
        if model.dialect == Dialect::GEMINI {
            return Self::Default;
        }
        if model.is_compact() {
            return Self::Compact;
        }
        let id = model.id.to_ascii_lowercase();
        let name = id.rsplit('/').next().unwrap_or_default();
        match name {
            _ if name.contains("claude") => Self::Claude,
            // Open models of the family, such as gpt-oss, are served by others but are told the same.
            _ if name.starts_with("gpt") || name.starts_with("codex") || is_reasoning_series(name) => {
                Self::Gpt
            }
            _ => Self::Default,
        }
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Claude => "claude",
            Self::Gpt => "gpt",
            Self::Compact => "compact",
        }
    }
}

/// `o3`, `o4-mini` and so on.
fn is_reasoning_series(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next() == Some('o') && letters.next().is_some_and(|digit| digit.is_ascii_digit())
}

/// A section of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Preamble,
    Principles,
    Workflow,
    Planning,
    Agents,
    Style,
    Sandbox,
    Git,
}

/// A section's file, read.
pub(super) struct Text {
    body: &'static str,
    fragments: Vec<(&'static str, &'static str)>,
}

impl Text {
    pub(super) fn of(profile: Profile, section: Section) -> Self {
        Self::parse(file(profile, section))
    }

    fn parse(file: &'static str) -> Self {
        let mut pieces = file.split("<!-- ");
        let body = pieces.next().unwrap_or_default().trim_end_matches('\n');
        let fragment = |piece: &'static str| {
            let (name, text) = piece.split_once(" -->\n")?;
            Some((name, text.trim_end_matches('\n')))
        };
        Self { body, fragments: pieces.filter_map(fragment).collect() }
    }

    /// A fragment; empty if the file has none of that name.
    pub(super) fn fragment(&self, name: &str) -> &'static str {
        self.fragments.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).unwrap_or_default()
    }

    /// The section with its placeholders filled.
    pub(super) fn filled(&self, values: &[(&str, &str)]) -> String {
        fill(self.body, values)
    }
}

/// Replaces the placeholders of a text in one pass, so that a value is never read as a text.
pub(super) fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        result.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            result.push_str("{{");
            rest = after;
            continue;
        };
        result.push_str(values.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value));
        rest = after;
    }
    result.push_str(rest);
    result
}

fn file(profile: Profile, section: Section) -> &'static str {
    match (profile, section) {
        (Profile::Compact, Section::Preamble) => include_str!("../../prompts/compact/preamble.md"),
        (Profile::Compact, Section::Principles) => include_str!("../../prompts/compact/principles.md"),
        (Profile::Compact, Section::Workflow) => include_str!("../../prompts/compact/workflow.md"),
        (Profile::Compact, Section::Planning) => include_str!("../../prompts/compact/planning.md"),
        (Profile::Compact, Section::Agents) => include_str!("../../prompts/compact/agents.md"),
        (Profile::Compact, Section::Style) => include_str!("../../prompts/compact/style.md"),
        (Profile::Compact, Section::Sandbox) => include_str!("../../prompts/compact/sandbox.md"),
        (Profile::Compact, Section::Git) => include_str!("../../prompts/compact/git.md"),
        (Profile::Claude, Section::Style) => include_str!("../../prompts/claude/style.md"),
        (Profile::Gpt, Section::Workflow) => include_str!("../../prompts/gpt/workflow.md"),
        (_, Section::Preamble) => include_str!("../../prompts/default/preamble.md"),
        (_, Section::Principles) => include_str!("../../prompts/default/principles.md"),
        (_, Section::Workflow) => include_str!("../../prompts/default/workflow.md"),
        (_, Section::Planning) => include_str!("../../prompts/default/planning.md"),
        (_, Section::Agents) => include_str!("../../prompts/default/agents.md"),
        (_, Section::Style) => include_str!("../../prompts/default/style.md"),
        (_, Section::Sandbox) => include_str!("../../prompts/default/sandbox.md"),
        (_, Section::Git) => include_str!("../../prompts/default/git.md"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::model::ProviderId;

    #[test]
    fn models_get_the_texts_of_their_family() {
        let info = |id: &str, dialect: Dialect| ModelInfo::unknown(id, ProviderId::new("p"), dialect);
        let profile = |id: &str| Profile::of(&info(id, Dialect::CHAT));
        assert_eq!(profile("anthropic/claude-sonnet-5-5"), Profile::Claude);
        assert_eq!(profile("openrouter/anthropic/claude-x"), Profile::Claude);
        assert_eq!(profile("openai/gpt-6.1-sol"), Profile::Gpt);
        assert_eq!(profile("openai/o4-mini"), Profile::Gpt);
        assert_eq!(profile("ollama/qwen3"), Profile::Default);
        let small = ModelInfo { context_window: 32_768, ..info("claude-tiny", Dialect::CHAT) };
        assert_eq!(Profile::of(&small), Profile::Compact);
        let google = ModelInfo { context_window: 8_192, ..info("gemma-3", Dialect::GEMINI) };
        assert_eq!(Profile::of(&google), Profile::Default);
    }

    #[test]
    fn a_value_is_never_read_as_a_text() {
        assert_eq!(fill("a {{x}} {{y}} {{none}}{{", &[("x", "{{y}}"), ("y", "1")]), "a {{y}} 1 {{");
    }

    #[test]
    fn every_file_has_the_fragments_of_the_default_one() {
        use Section::{Agents, Git, Planning, Preamble, Principles, Sandbox, Style, Workflow};
        for section in [Preamble, Principles, Workflow, Planning, Agents, Style, Sandbox, Git] {
            let names = |profile| {
                let text = Text::of(profile, section);
                let mut names: Vec<&str> = text.fragments.iter().map(|(name, _)| *name).collect();
                names.sort_unstable();
                let holes: Vec<&str> =
                    text.body.split("{{").skip(1).filter_map(|piece| piece.split("}}").next()).collect();
                (names, holes)
            };
            for profile in [Profile::Claude, Profile::Gpt, Profile::Compact] {
                assert_eq!(names(profile), names(Profile::Default), "{section:?} {profile:?}");
            }
        }
    }
}
