//! Builds an [`Engine`] from the shipped rules, policy files, settings and flags.
//!
//! Use it once per session. Files that cannot be read make the engine ask instead of allow.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pollux_config::paths::sha256_hex;

use crate::checker::{CheckerRule, NO_CONSECA};
use crate::engine::{Engine, Options};
use crate::file::{FileRules, MAX_FILE, Problem, RuleOrigin, parse};
use crate::request::Decision;
use crate::rule::{Condition, Unreadable, UnreadableScope};
use crate::settings_rules::{self, Lists};
use crate::tier::Tier;

/// The rules that come with the program.
const SHIPPED: &[(&str, &str)] = &[
    ("read-only.toml", include_str!("../rules/read-only.toml")),
    ("write.toml", include_str!("../rules/write.toml")),
    ("agent.toml", include_str!("../rules/agent.toml")),
    ("yolo.toml", include_str!("../rules/yolo.toml")),
    ("discovered.toml", include_str!("../rules/discovered.toml")),
    ("plan.toml", include_str!("../rules/plan.toml")),
    ("non-interactive.toml", include_str!("../rules/non-interactive.toml")),
    ("build-files.toml", include_str!("../rules/build-files.toml")),
];

/// Where policies are. Paths are directories or single files.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `~/.gemini/policies`, or the paths that `--policy` and `policyPaths` replace it with.
    pub user: Vec<PathBuf>,
    /// `.gemini/policies` of a trusted folder.
    pub workspace: Option<PathBuf>,
    /// The machine's directory; must belong to the administrator.
    pub system: Option<PathBuf>,
    /// `--admin-policy` and `adminPolicyPaths`; only without system policies.
    pub admin: Vec<PathBuf>,
    /// The extensions' `policies` directories.
    pub extension: Vec<PathBuf>,
    pub lists: Lists,
}

/// Loads everything. Never fails: problems are in [`Engine::problems`], and unreadable rules that may deny
/// make the engine ask.
pub fn load(sources: &Sources, options: Options) -> Engine {
    let mut found = FileRules::default();
    load_admin(sources, &mut found);
    for path in &sources.user {
        found.append(read_path(Tier::User, path));
    }
    found.rules.extend(settings_rules::rules(&sources.lists));
    if let Some(path) = &sources.workspace {
        found.append(read_path(Tier::Workspace, path));
    }
    for path in &sources.extension {
        found.append(without_widening(read_path(Tier::Extension, path)));
    }
    for (name, text) in SHIPPED {
        let place = RuleOrigin { tier: Tier::Default, source: (*name).to_owned(), path: None };
        found.append(parse(text, &place));
    }
    if let Some(text) = rule_of_scripts(&options.scripts) {
        let place = RuleOrigin { tier: Tier::Default, source: "build-files.toml".to_owned(), path: None };
        found.append(parse(&text, &place));
    }
    if options.conseca {
        found.checkers.push(CheckerRule::conseca());
        let place = RuleOrigin { tier: Tier::User, source: "security.enableConseca".to_owned(), path: None };
        let text = format!("{NO_CONSECA}; every call is denied");
        found.problems.push(Problem::warning(&place, text).suggest("Turn the setting off"));
    }
    let (protections, rules) = found
        .rules
        .into_iter()
        .partition(|rule| rule.tier == Tier::Default && matches!(rule.condition, Condition::Path(_)));
    Engine::assemble(rules, protections, found.checkers, found.unreadable, found.problems, options)
}

/// A rule that protects the files that hooks and servers run.
fn rule_of_scripts(files: &[PathBuf]) -> Option<String> {
    let names = files.iter().map(|file| regex::escape(&file.to_string_lossy().replace('\\', "/")));
    let pattern = format!("^(?:{})$", names.collect::<Vec<_>>().join("|"));
    let pattern = serde_json::Value::from(pattern);
    let rule = |pattern| {
        format!(
            "[[rule]]\nname = \"scripts of hooks and servers\"\ntoolName = \"*\"\npathPattern = {pattern}\n\
             decision = \"ask_user\"\npriority = 900\nmodes = [\"default\", \"autoEdit\"]\n"
        )
    };
    (!files.is_empty()).then(|| rule(pattern))
}

fn load_admin(sources: &Sources, found: &mut FileRules) {
    let mut system_rules = false;
    if let Some(dir) = &sources.system {
        let place = RuleOrigin::of_file(Tier::Admin, dir);
        match (dir.exists(), owned_by_administrator(dir)) {
            (false, _) => {}
            (true, Ok(())) => {
                system_rules = !toml_files(dir).unwrap_or_default().is_empty();
                found.append(read_path(Tier::Admin, dir));
            }
            (true, Err(why)) => {
                let text =
                    format!("Security Warning: Skipping system policies from {}: {why}", dir.display());
                found.problems.push(Problem::warning(&place, text));
            }
        }
        if system_rules && !sources.admin.is_empty() {
            let text = format!(
                "Security Warning: Ignoring --admin-policy because system policies are already defined in {}",
                dir.display()
            );
            found.problems.push(Problem::warning(&place, text));
        }
    }
    if !system_rules {
        for path in &sources.admin {
            found.append(read_path(Tier::Admin, path));
        }
    }
}

/// An extension may only make decisions stricter, and its rules do not apply in yolo mode.
fn without_widening(mut found: FileRules) -> FileRules {
    let mut dropped = Vec::new();
    found.rules.retain(|rule| {
        let widens = rule.decision == Decision::Allow;
        let yolo = rule.modes.names(pollux_domain::approval::ApprovalMode::Yolo);
        if widens || yolo {
            let why = if widens {
                "extension rules cannot allow"
            } else {
                "extension rules do not apply in yolo mode"
            };
            dropped.push((rule.source.clone(), why));
        }
        !(widens || yolo)
    });
    found.checkers.retain(|rule| !rule.modes.names(pollux_domain::approval::ApprovalMode::Yolo));
    for (source, why) in dropped {
        let place = RuleOrigin { tier: Tier::Extension, source: source.source, path: source.path };
        let text = format!("Ignoring rule `{}`: {why}", source.label);
        found.problems.push(Problem::warning(&place, text).at(source.line));
    }
    found
}

/// One file, or every `.toml` directly in a directory, sorted by name. A path that does not exist has no rules.
pub(crate) fn read_path(tier: Tier, path: &Path) -> FileRules {
    let mut found = FileRules::default();
    let files = match toml_files(path) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return found,
        Err(error) => {
            unreadable(tier, path, &error, &mut found);
            return found;
        }
    };
    for file in files {
        match read_text(&file) {
            Ok(text) => found.append(parse(&text, &RuleOrigin::of_file(tier, &file))),
            Err(error) => unreadable(tier, &file, &error, &mut found),
        }
    }
    found
}

/// Rules that could not be read may have denied something.
fn unreadable(tier: Tier, path: &Path, error: &io::Error, found: &mut FileRules) {
    let place = RuleOrigin::of_file(tier, path);
    found.problems.push(
        Problem::error(&place, "Failed to read policy path")
            .details(error.to_string())
            .suggest("Check that the file is readable text"),
    );
    let reason = format!("policy file `{}` could not be read and may deny this", place.source);
    found.unreadable.push(Unreadable { about: UnreadableScope::Anything, reason });
}

fn toml_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|end| end == "toml") && !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn read_text(file: &Path) -> io::Result<String> {
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    let read = fs::File::open(file)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_FILE {
        return Err(io::Error::other(format!("longer than {MAX_FILE} bytes")));
    }
    Ok(text)
}

/// Whether only the administrator can change a directory; the error gives the reason.
#[cfg(unix)]
pub fn owned_by_administrator(dir: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    let data = fs::symlink_metadata(dir).map_err(|error| error.to_string())?;
    if !data.is_dir() {
        Err("it is not a directory".to_owned())
    } else if data.uid() != 0 {
        Err(format!("it belongs to user {}, not to root", data.uid()))
    } else if data.mode() & 0o022 != 0 {
        Err("users other than root can write to it".to_owned())
    } else {
        Ok(())
    }
}

/// Whether only the administrator can change a directory; the error gives the reason.
#[cfg(not(unix))]
pub fn owned_by_administrator(dir: &Path) -> Result<(), String> {
    if dir.is_dir() { Ok(()) } else { Err("it is not a directory".to_owned()) }
}

/// A hash of a workspace's policies that changes with any file's name or content.
pub fn integrity(dir: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let files = match toml_files(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        other => other?,
    };
    for file in files {
        let name = file.strip_prefix(dir).unwrap_or(&file);
        bytes.extend_from_slice(name.to_string_lossy().replace('\\', "/").as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(read_text(&file)?.as_bytes());
        bytes.push(0);
    }
    Ok(sha256_hex(&bytes))
}

#[cfg(test)]
mod tests;
