//! Names that stay closed to the model wherever they are in a project, for file tools and imports of context files.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// The first part of a path that stays closed, and why.
pub fn closed_part(below: &Path) -> Option<(String, &'static str)> {
    below.components().find_map(|part| match part {
        Component::Normal(name) => Some((name.to_string_lossy().into_owned(), why_closed(name)?)),
        _ => None,
    })
}

fn why_closed(name: &OsStr) -> Option<&'static str> {
    // Some file systems take names for the same that differ in case, or in characters that are not drawn.
    let name: String = name.to_string_lossy().to_lowercase().chars().filter_map(folded).collect();
    // Trailing characters that Windows ignores must not bypass the check.
    let name = name.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    match name {
        ".git" => Some("it is git's own data and may contain credentials"),
        ".env" => Some("it may contain secrets"),
        "node_modules" => Some("it contains installed packages, not the project's own files"),
        _ if name.starts_with("gha-creds-") && name.ends_with(".json") => Some("it contains credentials"),
        _ if is_short_form(name) => Some("it may be the short form of a protected name"),
        _ => None,
    }
}

fn folded(c: char) -> Option<char> {
    match c {
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}' => None,
        'ſ' => Some('s'),
        other => Some(other),
    }
}

/// The 8.3 forms of the protected names, such as `GIT~1`.
fn is_short_form(name: &str) -> bool {
    let Some((stem, rest)) = name.split_once('~') else { return false };
    let number = rest.split('.').next().unwrap_or_default();
    matches!(stem, "git" | "env" | "node_m" | "gha-cr")
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_are_recognised_in_every_spelling() {
        for name in
            [".git", ".GIT/x", "a/.env", ".env.", ".git::$INDEX", "GIT~1", ".g\u{200c}it", "node_moduleſ"]
        {
            assert!(closed_part(Path::new(name)).is_some(), "{name}");
        }
        for name in [".gitignore", ".env.example", "git", "node_modules2", "a~1"] {
            assert!(closed_part(Path::new(name)).is_none(), "{name}");
        }
    }
}
