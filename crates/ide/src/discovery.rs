//! Finds the companion of the editor: in the files that companions write, or in environment variables.
//!
//! A file counts if it is a regular one that only its owner, this user, can read, if its process exists, and if its
//! workspace holds the folder of the session. Only ports of this machine are used.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_config::groups::Secret;
use pollux_domain::terminal_text::one_line;
use rustix::fs::{Mode, OFlags, open};
use serde_json::Value;

use crate::detect::{EditorName, detect};
use crate::process::{ancestors, is_alive};

const PORT: &str = "GEMINI_CLI_IDE_SERVER_PORT";
const WORKSPACE: &str = "GEMINI_CLI_IDE_WORKSPACE_PATH";
const TOKEN: &str = "GEMINI_CLI_IDE_AUTH_TOKEN";
const PID: &str = "GEMINI_CLI_IDE_PID";
const COMMAND: &str = "GEMINI_CLI_IDE_SERVER_STDIO_COMMAND";
const ARGUMENTS: &str = "GEMINI_CLI_IDE_SERVER_STDIO_ARGS";

const MAX_FILES: usize = 1_000;
const MAX_BYTES: u64 = 64 * 1024;
/// Folders of another workspace that a message names.
const MAX_NAMED: usize = 5;

/// Where the program runs.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The variables of the process itself: a project must not name a port or a program.
    pub env: Env,
    /// The real path of the session's folder.
    pub folder: PathBuf,
    /// The user whose files count.
    pub uid: u32,
    /// Whether the process that listens on a port may be an editor.
    pub vouches: fn(u16) -> bool,
}

/// A companion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundCompanion {
    pub(crate) editor: EditorName,
    /// To be tried in this order.
    pub(crate) ways: Vec<Way>,
}

/// A way to reach a companion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    Port { port: u16, token: Option<Secret> },
    Program { command: String, arguments: Vec<String> },
}

/// Why no companion is connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    #[error("no companion extension is running; /ide install shows how to install it")]
    NoCompanion,
    #[error("the editor has no folder open; open this folder in the editor")]
    NoFolder,
    #[error(
        "the editor has another folder open ({}); start Pollux there, or open this folder",
        named(folders)
    )]
    OtherFolder { folders: Vec<String> },
    #[error("could not connect to the companion extension of {editor}: {why}")]
    NotConnected { editor: String, why: String },
    #[error("the connection to {editor} was lost; run /ide enable to reconnect")]
    Lost { editor: String },
}

fn named(folders: &[String]) -> String {
    let shown: Vec<String> = folders.iter().take(MAX_NAMED).map(|folder| one_line(folder)).collect();
    shown.join(", ")
}

/// An editor that has the folder of the session open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorChoice {
    /// As people call it.
    pub name: String,
    pub port: u16,
    /// The folders that it has open.
    pub workspace: String,
}

/// The editors that have the folder open, in the order in which they are tried.
pub(crate) fn choices(around: &Surroundings) -> Vec<EditorChoice> {
    let of_files = advertised(around);
    let mut found: Vec<EditorChoice> = Vec::new();
    for file in fitting(&of_files, around) {
        if found.iter().all(|known| known.port != file.port) {
            let name = file.editor.clone().unwrap_or_else(unnamed).name;
            found.push(EditorChoice { name, port: file.port, workspace: file.workspace.clone() });
        }
    }
    found
}

fn fitting<'a>(of_files: &'a [Advertised], around: &Surroundings) -> Vec<&'a Advertised> {
    let holding = of_files.iter().filter(|file| holds(&file.workspace, &around.folder).is_ok());
    // A sandboxed command or another user could pose as the editor.
    holding.filter(|file| (around.vouches)(file.port)).collect()
}

/// Finds a companion: the one with this port if the person chose it and it is still there.
pub(crate) fn discover(around: &Surroundings, wanted: Option<u16>) -> Result<FoundCompanion, Unreachable> {
    let port = around.env.non_empty(PORT).and_then(|port| port.parse().ok()).filter(|port| *port != 0);
    let of_files = advertised(around);
    let by_env = around.env.get(WORKSPACE).map(|paths| holds(paths, &around.folder));
    let fitting = fitting(&of_files, around);
    if let Some(file) = wanted.and_then(|wanted| fitting.iter().find(|file| file.port == wanted)) {
        let ways = vec![Way::Port { port: file.port, token: file.token.clone() }];
        return Ok(FoundCompanion { editor: file.editor.clone().unwrap_or_else(unnamed), ways });
    }
    // The variable belongs to the window of this terminal.
    let chosen = fitting.iter().find(|file| Some(file.port) == port).or(fitting.first());
    let mut ways: Vec<Way> =
        chosen.map(|file| Way::Port { port: file.port, token: file.token.clone() }).into_iter().collect();
    if by_env == Some(Ok(())) {
        let token = around.env.non_empty(TOKEN).map(Secret::new);
        let way = port.filter(|port| (around.vouches)(*port)).map(|port| Way::Port { port, token });
        ways.extend(way.filter(|way| !ways.contains(way)));
        ways.extend(program(&around.env));
    }
    if !ways.is_empty() {
        let named = chosen.and_then(|file| file.editor.clone()).or_else(|| detect(&around.env));
        return Ok(FoundCompanion { editor: named.unwrap_or_else(unnamed), ways });
    }
    let misfit = of_files.first().map(|file| holds(&file.workspace, &around.folder));
    Err(misfit.or(by_env).and_then(Result::err).unwrap_or(Unreachable::NoCompanion))
}

fn unnamed() -> EditorName {
    EditorName { name: "the editor".to_owned(), has_companion: true }
}

/// Whether a list of workspace folders holds a folder.
fn holds(workspace: &str, folder: &Path) -> Result<(), Unreachable> {
    let folders: Vec<String> =
        workspace.split(':').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    if folders.is_empty() {
        return Err(Unreachable::NoFolder);
    }
    let is_above = |path: &String| {
        let path = Path::new(path);
        path.is_absolute() && std::fs::canonicalize(path).is_ok_and(|real| folder.starts_with(real))
    };
    if folders.iter().any(is_above) { Ok(()) } else { Err(Unreachable::OtherFolder { folders }) }
}

fn program(env: &Env) -> Option<Way> {
    let command = env.non_empty(COMMAND)?.to_owned();
    let arguments =
        env.non_empty(ARGUMENTS).map(serde_json::from_str).and_then(Result::ok).unwrap_or_default();
    Some(Way::Program { command, arguments })
}

/// What a companion's file says.
struct Advertised {
    port: u16,
    workspace: String,
    token: Option<Secret>,
    editor: Option<EditorName>,
}

/// The files that count: those of processes above this one first, then the newest.
fn advertised(around: &Surroundings) -> Vec<Advertised> {
    let above = match around.env.non_empty(PID).and_then(|pid| pid.parse::<u32>().ok()) {
        Some(pid) => vec![pid],
        None => ancestors(),
    };
    let parent = temp_dir(&around.env).join("gemini");
    let folder = parent.join("ide");
    // Where others can write, they could rename what an editor left behind.
    if ![&parent, &folder].into_iter().all(|folder| is_private_folder(folder, around.uid)) {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let names = entries.take(MAX_FILES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut files: Vec<(u32, String)> = names
        .filter_map(|name| {
            let (pid, with_port) = process_of(&name)?;
            // The old form without a port counts for the editor above this process only.
            let counts = is_alive(pid) && (with_port || above.contains(&pid));
            counts.then_some((pid, name))
        })
        .collect();
    let distance = |pid: &u32| above.iter().position(|known| known == pid).unwrap_or(usize::MAX);
    files.sort_by_key(|(pid, name)| (distance(pid), std::cmp::Reverse(*pid), name.clone()));
    files.iter().filter_map(|(_, name)| read(&folder.join(name), around.uid)).collect()
}

/// Whether only this user can change what a folder holds.
fn is_private_folder(folder: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(folder)
        .is_ok_and(|about| about.is_dir() && about.uid() == uid && about.mode() & 0o022 == 0)
}

/// As Node.js finds it.
fn temp_dir(env: &Env) -> PathBuf {
    let named = ["TMPDIR", "TMP", "TEMP"].into_iter().find_map(|name| env.non_empty(name));
    PathBuf::from(named.unwrap_or("/tmp"))
}

/// The process in the name of a file, and whether the name has a port.
fn process_of(name: &str) -> Option<(u32, bool)> {
    let numbers = name.strip_prefix("gemini-ide-server-")?.strip_suffix(".json")?;
    match numbers.split_once('-') {
        Some((pid, port)) => port.parse::<u16>().ok().and_then(|_| Some((pid.parse().ok()?, true))),
        None => Some((numbers.parse().ok()?, false)),
    }
}

/// Reads a file that belongs to this user alone.
fn read(path: &Path, uid: u32) -> Option<Advertised> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    let about = file.metadata().ok()?;
    let is_private = about.is_file() && about.uid() == uid && about.mode() & 0o077 == 0;
    if !is_private || about.len() > MAX_BYTES {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let content: Value = serde_json::from_str(&text).ok()?;
    let port = content.get("port")?;
    let port = port.as_u64().or_else(|| port.as_str()?.parse().ok())?;
    let word = |key: &str| content.get(key).and_then(Value::as_str);
    Some(Advertised {
        port: u16::try_from(port).ok().filter(|port| *port != 0)?,
        workspace: word("workspacePath").unwrap_or_default().to_owned(),
        token: word("authToken").filter(|token| !token.is_empty()).map(Secret::new),
        editor: content.pointer("/ideInfo/displayName").and_then(Value::as_str).and_then(EditorName::given),
    })
}

#[cfg(test)]
mod tests;
