//! Looks at a repository that a command created: it may be there, but must not run programs when someone enters it.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::repositories::Kind;
use super::{aside, kept};
use crate::pointer::read_pointer;
use crate::tripped::{TripAction, Tripped};

const MAX_CONFIG_BYTES: u64 = 256 << 10;
const CONFIGS: &[&str] = &["config", "config.worktree"];

/// Sections, and the keys in them that a new repository may set. Everything else could name a program.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "compression",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "precomposeunicode",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sparsecheckout",
            "sparsecheckoutcone",
            "symlinks",
        ],
    ),
    (
        "branch",
        &["autosetupmerge", "autosetuprebase", "description", "merge", "pushremote", "rebase", "remote"],
    ),
    ("commit", &["gpgsign"]),
    ("extensions", &["objectformat", "partialclone", "refstorage", "relativeworktrees", "worktreeconfig"]),
    ("fetch", &["parallel", "prune", "prunetags"]),
    ("gc", &["auto", "autodetach"]),
    ("index", &["version"]),
    ("init", &["defaultbranch"]),
    ("lfs", &["repositoryformatversion"]),
    ("maintenance", &["auto", "strategy"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default", "followtags"]),
    (
        "remote",
        &["fetch", "mirror", "partialclonefilter", "promisor", "prune", "push", "pushurl", "tagopt", "url"],
    ),
    ("rerere", &["enabled"]),
    ("submodule", &["active", "branch", "fetchrecursesubmodules", "ignore", "shallow", "url"]),
    ("tag", &["gpgsign"]),
    ("user", &["email", "name", "signingkey"]),
];

/// Makes a new repository, or a part of one, harmless.
pub(super) fn disarm(folder: &OwnedFd, path: &Path, kind: Kind, tripped: &mut Vec<Tripped>) {
    let remove = |folder: &OwnedFd, name: &OsStr, path: PathBuf| {
        let action = aside::move_aside(folder, name, &path).map_or(TripAction::Failed, TripAction::Renamed);
        Tripped { path, action }
    };
    let kind_of = |name: &str| {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    };
    match kind_of("hooks") {
        Some(FileType::Directory) => {
            if let Ok(hooks) = aside::open_inner(folder, OsStr::new("hooks")) {
                for name in kept::names(&hooks).into_iter().filter(|name| !kept::is_sample(name)) {
                    tripped.push(remove(&hooks, &name, path.join("hooks").join(&name)));
                }
            }
        }
        Some(_) => tripped.push(remove(folder, OsStr::new("hooks"), path.join("hooks"))),
        None => {}
    }
    if kind != Kind::WorkTree && kind_of("commondir").is_some() {
        tripped.push(remove(folder, OsStr::new("commondir"), path.join("commondir")));
    }
    for name in CONFIGS {
        let (path, name) = (path.join(name), OsStr::new(name));
        match kind_of(name.to_str().unwrap_or_default()) {
            None => {}
            Some(FileType::RegularFile) => match read(folder, name).map(|text| harmless(&text, kind)) {
                Some(None) => {}
                Some(Some(text)) if replace(folder, name, &text) => {
                    tripped.push(Tripped { path, action: TripAction::Disarmed });
                }
                Some(Some(_)) | None => tripped.push(remove(folder, name, path)),
            },
            Some(_) => tripped.push(remove(folder, name, path)),
        }
    }
}

fn read(folder: &OwnedFd, name: &OsStr) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
    let mut text = String::new();
    std::fs::File::from(file).take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= MAX_CONFIG_BYTES && !text.contains('\0')).then_some(text)
}

fn replace(folder: &OwnedFd, name: &OsStr, text: &str) -> bool {
    let temporary = OsString::from(format!(".pollux-disarm-{}", std::process::id()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(folder, &*temporary, flags, Mode::from_raw_mode(0o644)) else {
        return false;
    };
    let written = std::io::Write::write_all(&mut std::fs::File::from(file), text.as_bytes()).is_ok();
    let done = written && rustix::fs::renameat(folder, &*temporary, folder, name).is_ok();
    if !done {
        let _ = rustix::fs::unlinkat(folder, &*temporary, AtFlags::empty());
    }
    done
}

/// Whether a configuration can run no program.
pub(super) fn is_harmless_text(text: &str, kind: Kind) -> bool {
    !text.contains('\0') && harmless(text, kind).is_none()
}

/// The text with every line that is not known to be harmless turned into a comment; nothing if all are.
fn harmless(text: &str, kind: Kind) -> Option<String> {
    let (mut section, mut result, mut is_changed) = (String::new(), String::new(), false);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let trimmed = line.trim();
        let (header, rest) = match trimmed.starts_with('[').then(|| header(trimmed)) {
            Some(Some((name, header, rest))) => {
                section = name;
                (header, rest.trim())
            }
            Some(None) => {
                // Nothing after a broken header can be attributed.
                section = String::new();
                ("", trimmed)
            }
            None => ("", trimmed),
        };
        if rest.is_empty() || rest.starts_with(['#', ';']) || is_harmless(&section, rest, kind) {
            result.push_str(line);
        } else {
            is_changed = true;
            result.push_str(header);
            result.push_str("# disabled by the sandbox: ");
            result.push_str(rest);
        }
        result.push('\n');
    }
    is_changed.then_some(result)
}

/// The name of a section, its header, and what follows on the same line.
fn header(line: &str) -> Option<(String, &str, &str)> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = line.char_indices().find_map(|(at, character)| {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => return Some(at),
            _ => {}
        }
        None
    })?;
    let inner = line.get(1..end)?;
    let name = inner.split(['.', '"', ' ', '\t']).next()?.to_ascii_lowercase();
    Some((name, line.get(..=end)?, line.get(end + 1..)?))
}

fn is_harmless(section: &str, setting: &str, kind: Kind) -> bool {
    // A value that goes on in the next line could hide another setting in it.
    if setting.ends_with('\\') {
        return false;
    }
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
    if section == "submodule" && key == "update" {
        return ["checkout", "rebase", "merge", "none"].contains(&value);
    }
    if section == "core" && key == "worktree" {
        // Submodules have one, next to the repository.
        return kind == Kind::Module && value.starts_with("../");
    }
    if key.ends_with("url") && value.contains("::") {
        return false;
    }
    HARMLESS.iter().any(|(name, keys)| *name == section && keys.contains(&key.as_str()))
}

/// Whether the folder of a work tree belongs to the repository that it is in, and a pointer to that folder.
pub(super) fn is_own_work_tree(folder: &Path) -> bool {
    let common = read_pointer(&folder.join("commondir")).unwrap_or_default();
    common.trim() == "../.." || folder.ancestors().nth(2) == Some(Path::new(common.trim()))
}

/// Where a `.git` file leads.
pub(super) fn target(pointer: &Path) -> Option<PathBuf> {
    target_of(pointer, &read_pointer(pointer)?)
}

/// Where one with this text leads.
pub(super) fn target_of(pointer: &Path, text: &str) -> Option<PathBuf> {
    let named = pointer.parent()?.join(text.strip_prefix("gitdir:")?.trim());
    std::fs::canonicalize(named).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_itself_writes_is_left_alone() {
        let cloned = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
                      [remote \"origin\"]\n\turl = https://example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                      [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[submodule]\n\tactive = .\n# note\n";
        assert_eq!(harmless(cloned, Kind::Repository), None);
        let module = "[core]\n\tworktree = ../../../lib\n[submodule \"x\"]\n\tupdate = checkout\n";
        assert_eq!(harmless(module, Kind::Module), None);
    }

    #[test]
    fn lines_that_could_run_a_program_become_comments() {
        for (given, rest) in [
            ("[core]\n\tfsmonitor = ./evil\n", "[core]\n"),
            ("[CORE]\n\tHooksPath=x\n", "[CORE]\n"),
            ("[core] sshCommand = x\n", "[core]"),
            ("[alias]\n\tst = !evil\n", "[alias]\n"),
            ("[credential \"a]b\"]\n\thelper = !evil\n", "[credential \"a]b\"]\n"),
            ("[filter \"x\"]\n\tsmudge = evil\n", "[filter \"x\"]\n"),
            ("[include]\n\tpath = ../evil\n", "[include]\n"),
            ("[core]\n\tfilemode = true # \\\n\tfsmonitor = x\n", "[core]\n"),
            ("[core]\n\tbare = \\\n\tfsmonitor = x\n", "[core]\n"),
            ("[submodule \"x\"]\n\tupdate = !evil\n", "[submodule \"x\"]\n"),
            ("[remote \"o\"]\n\turl = ext::sh -c evil\n", "[remote \"o\"]\n"),
            ("[core]\n\tworktree = /home/me\n", "[core]\n"),
            ("\tfsmonitor = x\n", ""),
            ("[broken\n\tbare = x\n", ""),
            ("\u{feff}[core]\n\teditor = x\n", "[core]\n"),
        ] {
            let result = harmless(given, Kind::Repository).unwrap();
            let active: String = result
                .lines()
                .map(|line| line.split('#').next().unwrap())
                .filter(|line| !line.trim().is_empty())
                .fold(String::new(), |all, line| all + line + "\n");
            assert_eq!(active.trim_end(), rest.trim_end(), "{given}: {result}");
            assert_eq!(harmless(&result, Kind::Repository), None, "nothing is left: {result}");
        }
    }
}
