//! Finds what the sandbox refused in the output of a failed command.
//!
//! A line counts only if it names a path that the sandbox closes and that the user could use without it. Output can be
//! forged, so places with secrets and files that run code also have to be named by the command line itself: what a
//! command merely prints never leads to a question about them.

use std::path::{Path, PathBuf};

use pollux_domain::sandbox::{Denial, DenialKind, Right, RightKind, Strength};
use pollux_sandbox::{PathAccess, Sandbox};
use rustix::fs::Access;

use crate::right::{absolute, existing, is_broad, is_socket, is_virtual, real, write_danger};

const REFUSED: &[&str] = &[
    "read-only file system",
    "permission denied",
    "operation not permitted",
    "device or resource busy",
    "erofs",
    "eacces",
    "eperm",
    "ebusy",
];
/// What programs say about something that is hidden.
const MISSING: &[&str] =
    &["no such file", "enoent", "cannot connect", "could not connect", "connection refused"];

/// Errors stand near the end of an output.
const MAX_BYTES: usize = 64 << 10;
const MAX_LINES: usize = 200;
/// Different paths that are looked at.
const MAX_PATHS: usize = 32;

/// The longest path that Linux takes.
const MAX_PATH: usize = 4096;

/// Programs that use a daemon's socket without naming it.
const CONTAINER_TOOLS: &[&str] = &["docker", "docker-compose", "podman", "nerdctl"];

/// What a command was, and where.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) command: &'a str,
    pub(crate) directory: &'a Path,
    pub(crate) homes: &'a [PathBuf],
    pub(crate) own: &'a Path,
}

/// Something that was refused, and the right that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) denial: Denial,
    /// `None` if it cannot be granted or the sign is too weak.
    pub(crate) right: Option<Right>,
    /// Why it should not be granted lightly.
    pub(crate) danger: Option<String>,
}

/// Everything that the output of a failed command shows as refused, each once.
pub(crate) fn find(output: &str, scene: &Scene<'_>) -> Vec<Found> {
    let tail = output.get(output.floor_char_boundary(output.len().saturating_sub(MAX_BYTES))..);
    let mut found: Vec<Found> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for line in tail.unwrap_or_default().lines().rev().take(MAX_LINES) {
        let lower = line.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let (refused, missing) = (says(REFUSED), says(MISSING));
        if !refused && !missing {
            continue;
        }
        for text in candidates(line) {
            let home = scene.homes.first().map(PathBuf::as_path);
            let Some(path) = real(&absolute(text, home, scene.directory)) else { continue };
            if seen.len() >= MAX_PATHS || seen.contains(&path) {
                continue;
            }
            seen.push(path.clone());
            found.extend(judge(&path, refused, scene));
        }
    }
    found
}

/// Texts of a line that may be paths.
fn candidates(line: &str) -> Vec<&str> {
    let mut texts: Vec<&str> = Vec::new();
    // The program that complains, such as `/bin/bash: line 1: `.
    let line = match line.split_once(": ") {
        Some((program, rest)) if !program.contains(char::is_whitespace) && rest.contains('/') => rest,
        _ => line,
    };
    for (open, close) in [('\'', '\''), ('"', '"'), ('`', '`'), ('‘', '’')] {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(open) {
            let Some((inner, beyond)) = after.split_once(close) else { break };
            texts.push(inner);
            rest = beyond;
        }
    }
    texts.extend(line.split(": ").map(str::trim));
    texts.extend(line.split_whitespace());
    let mut paths = Vec::new();
    for text in texts {
        let text = text.trim_end_matches([':', '.']).trim_matches(|c: char| "()[]<>,;\"'`‘’".contains(c));
        let text = text.trim_end_matches([':', '.']);
        let text = text.strip_prefix("unix://").unwrap_or(text);
        let is_path = text.contains('/') && !text.contains("://") && !text.contains('\0');
        if is_path && text.len() < MAX_PATH && !paths.contains(&text) {
            paths.push(text);
        }
    }
    paths
}

fn judge(path: &Path, refused: bool, scene: &Scene<'_>) -> Option<Found> {
    let covered = path.starts_with("/run") && path.exists();
    let access = if covered { PathAccess::Hidden } else { scene.sandbox.access_to(path) };
    match access {
        PathAccess::Writable => None,
        PathAccess::ReadOnly if refused => outside(path, scene),
        PathAccess::Protected if refused => {
            let named = names(scene, path) || is_git_settings(path, scene);
            let danger = format!("Programs outside the sandbox read or run {}", path.display());
            Some(found(DenialKind::Write, path, "protected", named.then_some(path), Some(danger)))
        }
        PathAccess::Hidden => hidden(path, scene),
        PathAccess::ReadOnly | PathAccess::Protected => None,
    }
}

/// A write outside of what can be written.
fn outside(path: &Path, scene: &Scene<'_>) -> Option<Found> {
    let target = existing(path)?;
    if is_virtual(path) || rustix::fs::access(target, Access::WRITE_OK).is_err() {
        return None;
    }
    let danger = write_danger(path, scene.homes);
    let own = path.starts_with(scene.own);
    let is_clear = danger.is_none() || names(scene, path);
    let grantable = (!own && is_clear && !is_broad(target, scene.homes)).then_some(target);
    Some(found(DenialKind::Write, path, "outside the workspace", grantable, danger))
}

/// Something that is there and cannot be seen.
fn hidden(path: &Path, scene: &Scene<'_>) -> Option<Found> {
    if !path.exists() {
        return None;
    }
    let socket = is_socket(path);
    let named = names(scene, path) || (socket && uses_daemon(scene.command));
    let grantable = (named && !path.starts_with(scene.own) && !is_broad(path, scene.homes)).then_some(path);
    let (kind, danger) = if socket {
        let text = format!("A program that reaches {} can act outside the sandbox", path.display());
        (DenialKind::Socket, text)
    } else {
        (DenialKind::Read, format!("{} may contain secrets", path.display()))
    };
    Some(found(kind, path, "hidden", grantable, Some(danger)))
}

fn found(
    kind: DenialKind,
    path: &Path,
    rule: &str,
    grantable: Option<&Path>,
    danger: Option<String>,
) -> Found {
    let right_kind = match kind {
        DenialKind::Read => RightKind::Read,
        DenialKind::Socket => RightKind::Socket,
        _ => RightKind::Write,
    };
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let strength = if grantable.is_some() { Strength::Strong } else { Strength::Weak };
    Found {
        denial: Denial { kind, target: text(path), port: None, strength, rule: rule.to_owned() },
        right: grantable.map(|path| Right { kind: right_kind, target: text(path) }),
        danger,
    }
}

/// Whether the command line itself names the path or a folder that it is in.
fn names(scene: &Scene<'_>, path: &Path) -> bool {
    let home = scene.homes.first().map(PathBuf::as_path);
    let words = scene.command.split(|c: char| c.is_whitespace() || "\"'`;|&()<>=".contains(c));
    words.filter(|word| word.contains('/')).any(|word| {
        let Some(named) = real(&absolute(word, home, scene.directory)) else { return false };
        path.starts_with(&named) && !is_broad(&named, scene.homes)
    })
}

/// Whether git was asked to change the settings of the repository.
fn is_git_settings(path: &Path, scene: &Scene<'_>) -> bool {
    path.file_name().is_some_and(|name| name == "config") && programs(scene.command).any(|name| name == "git")
}

fn uses_daemon(command: &str) -> bool {
    programs(command).any(|name| CONTAINER_TOOLS.contains(&name))
}

/// The names of the programs of a command line, roughly: the first word of each part.
fn programs(command: &str) -> impl Iterator<Item = &str> {
    let parts = command.split([';', '|', '&', '\n', '(']);
    parts.filter_map(|part| part.split_whitespace().find(|word| !word.contains('=')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_the_messages_of_common_programs() {
        let table = [
            ("touch: cannot touch '/h/a b': Read-only file system", "/h/a b"),
            ("bash: line 1: /h/x: Read-only file system", "/h/x"),
            ("mkdir: cannot create directory ‘/h/y’: Read-only file system", "/h/y"),
            ("OSError: [Errno 30] Read-only file system: '/h/z'", "/h/z"),
            ("Error: EROFS: read-only file system, open '/h/q'", "/h/q"),
            ("open /h/go/x: read-only file system", "/h/go/x"),
            ("error: could not lock config file .git/config: Read-only file system", ".git/config"),
            (
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it",
                "/var/run/docker.sock",
            ),
        ];
        for (line, path) in table {
            assert!(candidates(line).contains(&path), "{line}: {:?}", candidates(line));
            let has_quote = |text: &&str| text.starts_with('/') && text.ends_with(['\'', '’', '"', '`']);
            assert!(!candidates(line).iter().any(has_quote), "{line}: {:?}", candidates(line));
        }
        assert_eq!(candidates("/bin/bash: line 1: /h/x: Read-only file system"), ["/h/x"]);
        assert_eq!(candidates("/h/x: Permission denied"), ["/h/x"]);
        assert_eq!(candidates("see https://a.example/x: Permission denied"), Vec::<&str>::new());
    }
}
