//! Names that stay closed to the model wherever they are in a project, for file tools and imports of context files.
//!
//! The secrets among them are part of the list in [`crate::secret_names`].

use std::ffi::OsStr;
use std::path::{Component, Path};

use crate::secret_names::{folded, is_closed_secret};

/// The first part of a path that stays closed, and why.
pub fn closed_part(below: &Path) -> Option<(String, &'static str)> {
    below.components().find_map(|part| match part {
        Component::Normal(name) => Some((name.to_string_lossy().into_owned(), why_closed(name)?)),
        _ => None,
    })
}

fn why_closed(name: &OsStr) -> Option<&'static str> {
    let name = name.to_string_lossy();
    let name = folded(&name);
    match &*name {
        ".git" => Some("it is git's own data and may contain credentials"),
        "node_modules" => Some("it contains installed packages, not the project's own files"),
        _ if is_closed_secret(&name) => Some("it may contain secrets"),
        _ if is_short_form(&name) => Some("it may be the short form of a protected name"),
        _ => None,
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
