//! The files of a folder that commands of hooks and servers run, and whether they changed since.
//!
//! Trust covers what they contained when the session started. Tools and sandboxed commands can write them later, and a
//! hook or a server runs outside the sandbox: look before each start.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::settings::Settings;

/// Words of a command that are looked at.
const MAX_WORDS: usize = 200;
/// Of a larger file, only the beginning is compared.
const MAX_BYTES: u64 = 8 << 20;
/// They run the file that they are given.
const INTERPRETERS: &[&str] = &[
    ".",
    "Rscript",
    "bash",
    "bun",
    "dash",
    "deno",
    "fish",
    "ksh",
    "lua",
    "node",
    "nodejs",
    "osascript",
    "perl",
    "php",
    "poetry",
    "pwsh",
    "pypy",
    "ruby",
    "sh",
    "source",
    "ts-node",
    "tsx",
    "uv",
    "zsh",
];
/// They run the program that follows.
const WRAPPERS: &[&str] = &[
    "!", "command", "do", "else", "env", "exec", "if", "nice", "nohup", "npx", "sudo", "then", "time",
    "timeout", "until", "while", "{",
];
/// What interpreters add to a name.
const SUFFIXES: &[&str] = &["", ".js", ".mjs", ".cjs"];

/// Files that a command runs, as they were.
#[derive(Debug, Clone, Default)]
pub struct NamedScripts(Vec<(PathBuf, Stamp)>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stamp {
    /// It may be created later.
    Absent,
    File {
        facts: Facts,
        /// `None` if it can be run but not read.
        hash: Option<[u8; 32]>,
    },
}

/// What changes with every write.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts(Vec<i128>);

impl NamedScripts {
    /// Those of a shell command that runs in a folder.
    pub fn of_command(command: &str, root: &Path) -> Self {
        Self::stamped(files_of_command(command, root), root)
    }

    /// Those of a program with its arguments.
    pub fn of_program<'a>(words: impl IntoIterator<Item = &'a str>, folder: &Path, root: &Path) -> Self {
        Self::stamped(files_of(words, &[folder.to_owned()]), root)
    }

    fn stamped(files: Vec<PathBuf>, root: &Path) -> Self {
        let inside = files.into_iter().filter(|file| is_inside(file, root));
        Self(inside.map(|file| (file.clone(), stamp(&file))).collect())
    }

    /// A file that is not what it was.
    pub fn changed(&self) -> Option<&Path> {
        let is_same = |file: &Path, then: &Stamp| match (then, facts(file)) {
            (Stamp::Absent, None) => true,
            (Stamp::File { facts, .. }, Some(now)) if *facts == now => true,
            // The same was written again, or its mode changed.
            (Stamp::File { hash, .. }, Some(_)) => hash.is_some() && hash_of(file) == *hash,
            (Stamp::Absent, Some(_)) | (Stamp::File { .. }, None) => false,
        };
        self.0.iter().find(|(file, then)| !is_same(file, then)).map(|(file, _)| file.as_path())
    }
}

/// The files of a folder that its hooks and servers run, relative to it.
pub fn named_by_settings(settings: &Settings, root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (_, events) in settings.hooks_by_layer() {
        commands_in(events, &mut |command| files.extend(files_of_command(command, root)));
    }
    let servers = settings.get("mcpServers").and_then(|(servers, _)| servers.as_object());
    for server in servers.into_iter().flat_map(|servers| servers.values()) {
        let Some(command) = server.get("command").and_then(Value::as_str) else { continue };
        let arguments = server.get("args").and_then(Value::as_array).into_iter().flatten();
        let folder = root.join(server.get("cwd").and_then(Value::as_str).unwrap_or_default());
        files.extend(files_of([command].into_iter().chain(arguments.filter_map(Value::as_str)), &[folder]));
    }
    let mut inside: Vec<PathBuf> =
        files.iter().filter_map(|file| Some(file.strip_prefix(root).ok()?.to_owned())).collect();
    inside.sort();
    inside.dedup();
    inside
}

/// Every command in a tree of hook definitions.
fn commands_in(value: &Value, take: &mut impl FnMut(&str)) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(command)) = map.get("command") {
                take(command);
            }
            map.values().for_each(|inner| commands_in(inner, take));
        }
        Value::Array(list) => list.iter().for_each(|inner| commands_in(inner, take)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn files_of_command(command: &str, root: &Path) -> Vec<PathBuf> {
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    for part in command.split([';', '&', '|', '(', ')', '`', '\n']) {
        let words: Vec<&str> =
            part.split_whitespace().map(unquoted).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            ["cd" | "pushd", folder, ..] => folders.push(normal(&root.join(in_project(folder)))),
            words => files.extend(files_of(words.iter().copied(), &folders)),
        }
    }
    files
}

/// The file that a simple command runs, wherever it runs.
fn files_of<'a>(words: impl IntoIterator<Item = &'a str>, folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut is_interpreted = false;
    for (index, word) in words.into_iter().take(MAX_WORDS).enumerate() {
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        if word.starts_with('-') || is_assignment || index > 0 && is_number {
            continue;
        }
        let name = word.rsplit('/').next().unwrap_or(word);
        if INTERPRETERS.contains(&name)
            || name.starts_with("python") && !name.ends_with(".py")
            || name == "run"
        {
            is_interpreted = true;
        } else if is_interpreted || word.contains('/') {
            let all = folders.iter().flat_map(|folder| {
                SUFFIXES
                    .iter()
                    .map(move |suffix| normal(&folder.join(format!("{}{suffix}", in_project(word)))))
            });
            return all.collect();
        } else if !WRAPPERS.contains(&name) {
            return Vec::new();
        }
    }
    Vec::new()
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['\'', '"'])
}

/// A path of the project, without the variable that names it.
fn in_project(word: &str) -> &str {
    let names = ["GEMINI_PROJECT_DIR", "GEMINI_CWD", "CLAUDE_PROJECT_DIR", "PWD"];
    let rests = names.iter().filter_map(|name| {
        let rest = word.strip_prefix('$')?;
        rest.strip_prefix(name).or_else(|| rest.strip_prefix('{')?.strip_prefix(name)?.strip_prefix('}'))
    });
    let inner =
        rests.map(|rest| rest.trim_start_matches(['"', '\''])).find_map(|rest| rest.strip_prefix('/'));
    inner.unwrap_or(word)
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

fn is_inside(file: &Path, root: &Path) -> bool {
    let leads_inside = || {
        let (file, root) = (fs::canonicalize(file), fs::canonicalize(root));
        file.is_ok_and(|file| root.is_ok_and(|root| file.starts_with(root)))
    };
    file.starts_with(root) || leads_inside()
}

fn stamp(file: &Path) -> Stamp {
    // Only regular files are opened: a pipe would wait for a writer.
    match facts(file) {
        Some(facts) => Stamp::File { facts, hash: hash_of(file) },
        None => Stamp::Absent,
    }
}

/// `None` if it is no regular file.
fn facts(file: &Path) -> Option<Facts> {
    let meta = fs::metadata(file).ok().filter(|meta| meta.is_file())?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let changed = [i128::from(meta.ctime()), i128::from(meta.ctime_nsec())];
        let [device, inode, size] = [meta.dev(), meta.ino(), meta.len()].map(i128::from);
        Some(Facts([device, inode, size].into_iter().chain(changed).collect()))
    }
    #[cfg(not(unix))]
    {
        let since = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Facts(vec![i128::from(meta.len()), i128::try_from(since.as_nanos()).ok()?]))
    }
}

fn hash_of(file: &Path) -> Option<[u8; 32]> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(Sha256::digest(&bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(command: &str) -> Vec<String> {
        let files = files_of_command(command, Path::new("/w"));
        let own = files.iter().filter(|file| file.extension().is_none_or(|end| end != "mjs" && end != "cjs"));
        own.map(|file| file.display().to_string()).filter(|file| !file.ends_with("guard.js")).collect()
    }

    #[test]
    fn the_file_that_a_command_runs_is_found() {
        for (command, file) in [
            ("./guard", "/w/guard"),
            ("bash guard", "/w/guard"),
            ("python3 -u 'tools/../guard'", "/w/guard"),
            ("A=b timeout 5 ./guard src/x.rs", "/w/guard"),
            ("uv run guard --check", "/w/guard"),
            ("\"$GEMINI_PROJECT_DIR\"/guard", "/w/guard"),
            ("${CLAUDE_PROJECT_DIR}/guard x", "/w/guard"),
            ("test -e x && sh guard", "/w/guard"),
            ("/opt/guard", "/opt/guard"),
        ] {
            assert_eq!(names(command), [file], "{command}");
        }
        assert_eq!(names("cd tools && ./guard"), ["/w/guard", "/w/tools/guard"]);
        for command in ["cat notes.txt", "prettier --check src/x.ts", "jq . package.json", "", "echo ok"] {
            assert_eq!(names(command), [""; 0], "{command}");
        }
    }

    #[test]
    fn a_changed_replaced_removed_or_created_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |name: &str, text: &str| {
            crate::files::replace(&root.join(name), text.as_bytes(), crate::files::Mode::Private).unwrap();
        };
        write("guard", "one");
        let scripts = NamedScripts::of_command("sh guard && sh later", root);
        assert_eq!(scripts.changed(), None);
        write("guard", "one");
        assert_eq!(scripts.changed(), None, "the same again");
        write("guard", "two");
        assert_eq!(scripts.changed(), Some(root.join("guard").as_path()));
        write("guard", "one");
        write("later", "x");
        assert_eq!(scripts.changed(), Some(root.join("later").as_path()));
        fs::remove_file(root.join("later")).unwrap();
        fs::remove_file(root.join("guard")).unwrap();
        assert_eq!(scripts.changed(), Some(root.join("guard").as_path()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("guard");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(NamedScripts::of_command("sh guard", folder.path()).changed(), None);
    }
}
