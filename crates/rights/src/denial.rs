//! Finds what the sandbox refused in the output of a failed command.
//!
//! A line counts only if it names a path that the sandbox closes and that the user could use without it. Output can be
//! forged, so places with secrets, files that run code and ports of programs that run anything for everyone also have
//! to be named by the command line itself: what a command merely prints never leads to a question about them.

mod credentials;
mod ports;

use std::path::{Path, PathBuf};

use pollux_domain::sandbox::{Denial, DenialKind, Right, RightKind, Strength};
use pollux_sandbox::{PathAccess, Sandbox};
use rustix::fs::Access;

pub(crate) use credentials::agent;

use crate::right::{
    absolute, existing, is_broad, is_socket, is_virtual, real, shown, smallest, write_danger,
};

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
const MISSING: &[&str] = &[
    "no such file",
    "does not appear to be a git repository",
    "does not exist",
    "enoent",
    "cannot connect",
    "could not connect",
    "connection refused",
];

/// What programs say if they wanted to create a folder.
const FOLDERS: &[&str] = &["mkdir", "create directory", "create folder"];
/// What git says when it cannot write the files of a repository, without the reason.
const GIT_REFUSED: &[&str] = &[
    "failed to push some refs to",
    "unable to create temporary object",
    "insufficient permission for adding an object",
    "cannot lock ref",
    "unable to create '",
];
/// Words that only a read-only place explains.
const READ_ONLY: &[&str] = &["read-only file system", "erofs"];
const BUSY: &[&str] = &["device or resource busy", "ebusy"];
/// Words of messages about files that are removed or replaced.
const REPLACES: &[&str] = &["remove", "unlink", "rename", "cannot move", "rmdir", "replace"];
/// What stands at the beginning of messages and is not a program.
const NO_PROGRAMS: &[&str] =
    &["error", "fatal", "warning", "remote", "hint", "note", "panic", "open", "line", "caused", "info"];
/// Parts of a command line that are not the programs they run.
const PREFIXES: &[&str] = &[
    "cd", "pushd", "popd", "export", "set", "env", "time", "nice", "nohup", "exec", "command", "then", "do",
    "else", "if", "while", "!", "{", "timeout",
];

/// Folders that a command line enters and that are looked at.
const MAX_FOLDERS: usize = 6;
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) command: &'a str,
    pub(crate) directory: &'a Path,
    pub(crate) homes: &'a [PathBuf],
    pub(crate) own: &'a Path,
    /// The socket of the user's ssh agent.
    pub(crate) agent: Option<&'a Path>,
}

/// Something that was refused, and the right that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundDenial {
    pub(crate) denial: Denial,
    /// `None` if it cannot be granted or the sign is too weak.
    pub(crate) right: Option<Right>,
    /// Why it should not be granted lightly.
    pub(crate) danger: Option<String>,
    /// The program that was refused, if that is known.
    pub(crate) program: Option<String>,
    /// Why exactly this right is needed.
    pub(crate) note: Option<String>,
}

/// Everything that the output of a command shows as refused, each once. A command that succeeded is believed only
/// about itself: the program that complains, or the path, is on its command line.
pub(crate) fn find(output: &str, failed: bool, scene: &Scene<'_>) -> Vec<FoundDenial> {
    let tail = output.get(output.floor_char_boundary(output.len().saturating_sub(MAX_BYTES))..);
    let mut found: Vec<FoundDenial> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    let folders = folders(scene);
    for line in tail.unwrap_or_default().lines().rev().take(MAX_LINES) {
        let lower = line.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let sign = Sign {
            refused: says(REFUSED)
                || (says(GIT_REFUSED) && programs(scene.command).any(|name| name == "git")),
            busy: says(BUSY),
            replaces: says(REPLACES),
            is_folder: says(FOLDERS),
            program: complainer(line, scene.command),
        };
        let is_believed =
            |path: &Path| failed || (says(READ_ONLY) && (sign.program.is_some() || names(scene, path)));
        if !(sign.refused || (failed && says(MISSING))) {
            continue;
        }
        for text in candidates(line) {
            let home = scene.homes.first().map(PathBuf::as_path);
            let paths = folders.iter().filter_map(|folder| real(&absolute(text, home, folder)));
            for path in paths {
                if seen.len() >= MAX_PATHS || seen.contains(&path) || !is_believed(&path) {
                    continue;
                }
                seen.push(path.clone());
                let program = sign.program.clone().or_else(|| program_with(scene, &path));
                found.extend(judge(&path, &sign, scene).map(|found| FoundDenial { program, ..found }));
            }
        }
    }
    if failed {
        found.extend(ports::find(tail.unwrap_or_default(), scene));
        let known: Vec<Right> = found.iter().filter_map(|found| found.right.clone()).collect();
        let is_new = |found: &FoundDenial| found.right.as_ref().is_none_or(|right| !known.contains(right));
        found.extend(credentials::find(tail.unwrap_or_default(), scene).into_iter().filter(is_new));
    }
    found
}

/// What a line says besides its paths.
struct Sign {
    refused: bool,
    /// A mount point is in the way.
    busy: bool,
    /// A file is removed or replaced, which changes its folder.
    replaces: bool,
    /// A folder was to be created.
    is_folder: bool,
    /// The program that complains.
    program: Option<String>,
}

/// The folder of the command, and those that it enters.
fn folders(scene: &Scene<'_>) -> Vec<PathBuf> {
    let home = scene.homes.first().map(PathBuf::as_path);
    let mut folders = vec![scene.directory.to_owned()];
    let mut words = scene.command.split(|c: char| c.is_whitespace() || ";&|()\"'".contains(c)).peekable();
    while let Some(word) = words.next() {
        // `cd DIR`, `git -C DIR`, `make -C DIR`
        if !matches!(word, "cd" | "pushd" | "-C") || folders.len() >= MAX_FOLDERS {
            continue;
        }
        if let Some(folder) = words.find(|word| !word.is_empty()) {
            let from = if word == "-C" { folders.first() } else { folders.last() };
            let folder = from.and_then(|from| real(&absolute(folder, home, from)));
            folders.extend(folder.filter(|folder| folder.is_dir()));
        }
    }
    folders
}

/// The program at the beginning of a message, as in `touch: cannot touch 'x'`. A shell complains for itself only where
/// it was to write a file, and that is on the command line.
fn complaining(line: &str) -> Option<String> {
    let (program, rest) = line.trim_start().split_once(": ")?;
    let name = program.rsplit('/').next()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
    let is_shell = ["bash", "sh", "dash", "zsh"].contains(&name);
    let is_script = is_shell && rest.starts_with("line ");
    let is_program =
        !name.is_empty() && name.chars().all(is_name) && name.starts_with(|c: char| c.is_ascii_lowercase());
    (is_program && !is_script && !NO_PROGRAMS.contains(&name)).then(|| name.to_owned())
}

/// The same, if the command line runs that program: a name alone can be printed by anything.
fn complainer(line: &str, command: &str) -> Option<String> {
    complaining(line).filter(|name| programs(command).any(|own| own == name))
}

/// The program of the part of a command line that names the path, or the only one that there is.
fn program_with(scene: &Scene<'_>, path: &Path) -> Option<String> {
    let parts = scene.command.split([';', '|', '&', '\n', '(']);
    let mut named = parts.filter_map(|part| {
        let program = programs(part).next()?;
        let part = Scene { command: part, ..*scene };
        names(&part, path).then(|| program.to_owned())
    });
    let named = named.next_back().or_else(|| {
        let all: Vec<&str> = programs(scene.command).collect();
        let [only] = all.as_slice() else { return None };
        Some((*only).to_owned())
    })?;
    named.rsplit('/').next().map(str::to_owned)
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
        let text = ["unix://", "file://"].iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
        let is_path = text.contains('/') && !text.contains("://") && !text.contains('\0');
        if is_path && text.len() < MAX_PATH && !paths.contains(&text) {
            paths.push(text);
        }
    }
    paths
}

fn judge(path: &Path, sign: &Sign, scene: &Scene<'_>) -> Option<FoundDenial> {
    let refused = sign.refused;
    let covered = path.starts_with("/run") && path.exists();
    let access = if covered { PathAccess::Hidden } else { scene.sandbox.access_to(path) };
    match access {
        // A granted file is a mount point: it can be written, but neither removed nor replaced.
        PathAccess::Writable if (sign.busy || (refused && sign.replaces)) && path.is_file() => {
            folder_of(path, scene)
        }
        PathAccess::Writable if !refused => in_real_temp(path, scene),
        PathAccess::Writable => None,
        PathAccess::ReadOnly if refused && sign.replaces && path.is_file() => {
            folder_of(path, scene).or_else(|| outside(path, sign.is_folder, scene))
        }
        PathAccess::ReadOnly if refused => outside(path, sign.is_folder, scene),
        PathAccess::Protected if refused => {
            let named = names(scene, path) || is_git_settings(path, scene);
            let danger = format!("Programs outside the sandbox read or run {}", shown(path));
            Some(found(DenialKind::Write, path, "protected", named.then_some(path), Some(danger)))
        }
        PathAccess::Hidden => hidden(path, scene),
        PathAccess::ReadOnly | PathAccess::Protected | PathAccess::Elsewhere => None,
    }
}

/// A write outside of what can be written.
fn outside(path: &Path, is_folder: bool, scene: &Scene<'_>) -> Option<FoundDenial> {
    if is_virtual(path) || rustix::fs::access(existing(path)?, Access::WRITE_OK).is_err() {
        return None;
    }
    let offered = smallest(path, is_folder, scene.homes);
    let danger = write_danger(path, scene.homes);
    let own = path.starts_with(scene.own);
    let is_clear = danger.is_none() || names(scene, path);
    let grantable = offered.filter(|offered| !own && is_clear && !is_broad(offered, scene.homes));
    Some(found(DenialKind::Write, path, "outside the workspace", grantable.as_deref(), danger))
}

/// The folder of a file that is removed or replaced, unless it is too broad to be granted.
fn folder_of(path: &Path, scene: &Scene<'_>) -> Option<FoundDenial> {
    let folder = path.parent().filter(|folder| !is_broad(folder, scene.homes))?;
    if scene.sandbox.access_to(folder) != PathAccess::ReadOnly {
        return None;
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    let note = format!("to remove or replace {name}, which needs its folder");
    outside(folder, false, scene).map(|found| FoundDenial { note: Some(note), ..found })
}

/// A file in the real `/tmp`, or a repository, that the command line names: commands have a folder of their own there.
fn in_real_temp(path: &Path, scene: &Scene<'_>) -> Option<FoundDenial> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = path.symlink_metadata().ok()?;
    let is_repository = path.join("objects").is_dir() || path.join(".git").exists();
    let is_own = meta.uid() == rustix::process::geteuid().as_raw();
    if !scene.sandbox.is_replaced(path)
        || !is_own
        || !(meta.is_file() || is_repository)
        || !names(scene, path)
    {
        return None;
    }
    let pushes = is_repository && scene.command.contains("push");
    let kind = if pushes { DenialKind::Write } else { DenialKind::Read };
    let found =
        found(kind, path, "commands have a folder of their own for temporary files", Some(path), None);
    Some(FoundDenial { note: Some("in this machine's folder for temporary files".to_owned()), ..found })
}

/// Something that is there and cannot be seen.
fn hidden(path: &Path, scene: &Scene<'_>) -> Option<FoundDenial> {
    let named = names(scene, path) || (is_socket(path) && uses_daemon(scene.command));
    grantable_hidden(path, named, scene)
}

fn grantable_hidden(path: &Path, named: bool, scene: &Scene<'_>) -> Option<FoundDenial> {
    if !path.exists() {
        return None;
    }
    let socket = is_socket(path);
    let grantable = (named && !path.starts_with(scene.own) && !is_broad(path, scene.homes)).then_some(path);
    let (kind, danger) = if socket {
        let text = format!("A program that reaches {} can act outside the sandbox", shown(path));
        (DenialKind::Socket, text)
    } else {
        (DenialKind::Read, format!("{} may contain secrets", shown(path)))
    };
    Some(found(kind, path, "hidden", grantable, Some(danger)))
}

fn found(
    kind: DenialKind,
    path: &Path,
    rule: &str,
    grantable: Option<&Path>,
    danger: Option<String>,
) -> FoundDenial {
    let right_kind = match kind {
        DenialKind::Read => RightKind::Read,
        DenialKind::Socket => RightKind::Socket,
        _ => RightKind::Write,
    };
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let strength = if grantable.is_some() { Strength::Strong } else { Strength::Weak };
    FoundDenial {
        denial: Denial { kind, target: text(path), port: None, strength, rule: rule.to_owned() },
        right: grantable.map(|path| Right { kind: right_kind, target: text(path) }),
        danger,
        program: None,
        note: None,
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

/// The names of the programs of a command line, roughly.
fn programs(command: &str) -> impl Iterator<Item = &str> {
    program_words(command).filter_map(|word| word.rsplit('/').next())
}

/// The programs of a command line as they are written: the first word of each part that is one.
fn program_words(command: &str) -> impl Iterator<Item = &str> {
    let parts = command.split([';', '|', '&', '\n', '(']);
    parts.filter_map(|part| {
        let mut words = part.split_whitespace().filter(|word| !word.contains('='));
        let first = words.next()?;
        // A change of the folder runs nothing.
        if matches!(first, "cd" | "pushd" | "popd" | "export" | "set") {
            return None;
        }
        let is_wrapped = PREFIXES.contains(&first);
        let is_option = |word: &&str| word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit());
        if is_wrapped { words.find(|word| !is_option(word) && !PREFIXES.contains(word)) } else { Some(first) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_name_counts_only_if_the_command_line_runs_it() {
        let line = "git: cannot open '/h/x': Read-only file system";
        assert_eq!(complainer(line, "git status && true").as_deref(), Some("git"));
        assert_eq!(complainer(line, "/usr/bin/git status").as_deref(), Some("git"));
        for command in ["npm test", "./digit", "echo git", "cat git"] {
            assert_eq!(complainer(line, command), None, "{command}");
        }
    }

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
