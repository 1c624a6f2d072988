//! Validates an extension under development.

use std::path::Path;

use pollux_config::files;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_extend::extension::Manifest;
use pollux_mcp::{ConfigError, ServerConfig};
use pollux_policy::engine::Options as Rules;
use pollux_policy::load::{Sources, load};
use serde_json::Value;

/// Warnings and errors; a folder without a usable manifest is a failure.
pub(super) fn look(folder: &Path) -> Result<(Vec<String>, Vec<String>), Failure> {
    let manifest = Manifest::read(folder).map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
    let (mut warnings, mut errors) = (manifest.warnings(), Vec::new());
    context(&manifest, folder, &mut errors);
    for (name, entry) in manifest.servers() {
        match ServerConfig::parse(name, entry) {
            // The URL may use a variable that is not set here.
            Ok(_) | Err(ConfigError::BadUrl { .. }) => {}
            Err(error) => errors.push(format!("MCP server \"{name}\": {error}")),
        }
    }
    hooks(folder, &mut errors);
    let rules = Sources { extension: vec![folder.join("policies")], ..Sources::default() };
    warnings.extend(load(&rules, Rules::default()).problems().iter().map(ToString::to_string));
    if !is_semver(&manifest.version) {
        warnings.push(format!(
            "Warning: Version '{}' does not appear to be standard semver (e.g., 1.0.0).",
            manifest.version
        ));
    }
    Ok((warnings, errors))
}

fn context(manifest: &Manifest, folder: &Path, errors: &mut Vec<String>) {
    if !manifest.names_context() {
        return;
    }
    let mut missing = Vec::new();
    for file in manifest.context_files(folder) {
        match file.path {
            Err(why) => errors.push(format!("Invalid context file path: \"{}\". {why}", file.name)),
            Ok(path) if !path.exists() => missing.push(file.name),
            Ok(_) => {}
        }
    }
    if !missing.is_empty() {
        errors.push(format!(
            "The following context files referenced in gemini-extension.json are missing: {}",
            missing.join(",")
        ));
    }
}

fn hooks(folder: &Path, errors: &mut Vec<String>) {
    let file = folder.join("hooks").join("hooks.json");
    let parsed = match files::read_text(&file) {
        Ok(None) => return,
        Ok(Some(text)) => serde_json::from_str::<Value>(&text).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match parsed {
        Err(why) => errors.push(format!("{} cannot be read: {why}", file.display())),
        Ok(value) if !value.get("hooks").is_some_and(Value::is_object) => errors.push(format!(
            "Invalid hooks configuration in {}: \"hooks\" property must be an object",
            file.display()
        )),
        Ok(_) => {}
    }
}

/// `1.2.3`, maybe with `-rc.1` and `+build`.
fn is_semver(version: &str) -> bool {
    let version = version.strip_prefix('v').unwrap_or(version);
    let (version, build) =
        version.split_once('+').map_or((version, None), |(version, build)| (version, Some(build)));
    let (numbers, pre) =
        version.split_once('-').map_or((version, None), |(numbers, pre)| (numbers, Some(pre)));
    let words = |text: &str| {
        text.split('.').all(|word| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
    };
    let number = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
    };
    let parts: Vec<&str> = numbers.split('.').collect();
    parts.len() == 3
        && parts.iter().all(|part| number(part))
        && pre.is_none_or(words)
        && build.is_none_or(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_from_words() {
        for (version, fine) in [
            ("1.0.0", true),
            ("v1.2.3", true),
            ("1.0.0-rc.1+b5", true),
            ("1.0", false),
            ("01.0.0", false),
            ("latest", false),
            ("1.0.0-", false),
        ] {
            assert_eq!(is_semver(version), fine, "{version}");
        }
    }
}
