//! Skills that are part of the program.

use std::path::PathBuf;

use super::{Content, Origin, Skill, properties};
use crate::frontmatter;

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../skills/", $name, "/SKILL.md")))),*]
    };
}

const TEXTS: &[(&str, &str)] = embedded!["review-change", "write-extension", "write-skill"];

pub(super) fn all() -> Vec<Skill> {
    let skill = |(name, text): &(&str, &'static str)| {
        let (front, _) = frontmatter::split(text)?;
        let properties = properties(front).ok()?;
        Some(Skill {
            name: properties.name,
            description: properties.description,
            location: PathBuf::from(format!("built-in:{name}")),
            origin: Origin::BuiltIn,
            disabled: false,
            content: Content::Embedded(text),
        })
    };
    TEXTS.iter().filter_map(skill).collect()
}
