//! Finds the sessions of a project.
//!
//! Read-only and lock-free. For files in our layout, only the beginning is read.

mod peek;
mod select;
mod text;

pub(crate) use select::position;
pub use select::{SelectError, select, select_anywhere};
pub use text::{list_text, relative_time};

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_domain::content::Part;
use pollux_domain::id::SessionId;
use pollux_domain::time::Timestamp;

use crate::index::{IndexRecord, glimpse, summarise};
use crate::kind::SessionKind;
use crate::load::StoredSession;
use crate::message::{Message, UserMessage, UserText, user_text_kind};
use crate::projects::KnownProject;
use crate::recorder::sanitised;
use crate::title::clean;
use peek::Peek;

/// The sessions of a project, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    pub sessions: Vec<SessionInfo>,
    /// Files named like sessions that could not be read, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// What a list shows of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    pub id: SessionId,
    pub path: PathBuf,
    pub start: Timestamp,
    pub last_updated: Timestamp,
    /// The summary, or else the first message.
    pub title: String,
    pub first_user_message: String,
    /// Known only if the whole file was read.
    pub message_count: Option<usize>,
    pub kind: SessionKind,
}

/// Lists the sessions in these folders. Sub-agents' sessions and those without anything to resume are not
/// listed; of two files with the same id the one updated later is.
pub fn list(dirs: &[PathBuf], now: Timestamp) -> Listing {
    let mut listing = Listing { unreadable: unreadable_folders(dirs), ..Listing::default() };
    let mut places: HashMap<String, usize> = HashMap::new();
    for path in session_files(dirs) {
        match describe(&path, now) {
            Ok(Some(info)) => match places.get(info.id.as_str()).and_then(|at| listing.sessions.get_mut(*at))
            {
                // On a tie, prefer the record log, which upstream created from the other file.
                Some(known)
                    if (known.last_updated, is_log(&known.path))
                        < (info.last_updated, is_log(&info.path)) =>
                {
                    *known = info;
                }
                Some(_) => {}
                None => {
                    places.insert(info.id.as_str().to_owned(), listing.sessions.len());
                    listing.sessions.push(info);
                }
            },
            Ok(None) => {}
            Err(reason) => listing.unreadable.push((path, reason)),
        }
    }
    listing.sessions.sort_by(|a, b| (a.start, &a.path).cmp(&(b.start, &b.path)));
    listing
}

/// Whether a session with this exact id exists in these folders.
pub fn exists(dirs: &[PathBuf], id: &SessionId) -> bool {
    !files_of(dirs, id).is_empty()
}

/// All files in these folders with this exact id.
pub fn files_of(dirs: &[PathBuf], id: &SessionId) -> Vec<PathBuf> {
    let is_it = |path: &PathBuf| peek::session_id(path).is_some_and(|found| found == *id);
    session_files(dirs).into_iter().filter(is_it).collect()
}

/// Whether another session in these folders has the same names for what is stored apart: `a/b` and `a_b` do, and nothing
/// tells whose it is.
pub(crate) fn shares_names(dirs: &[PathBuf], id: &SessionId) -> bool {
    let name = sanitised(id.as_str());
    // Only a replaced character makes two names one.
    name.contains('_')
        && session_files(dirs)
            .iter()
            .filter_map(|path| peek::session_id(path))
            .any(|other| other != *id && sanitised(other.as_str()) == name)
}

/// The sessions of all these projects, each with its project.
pub fn list_projects(projects: Vec<KnownProject>, now: Timestamp) -> Vec<(KnownProject, Listing)> {
    projects
        .into_iter()
        .map(|project| {
            let listing = list(&project.chats_dirs, now);
            (project, listing)
        })
        .collect()
}

/// The sub-agent sessions of a session, oldest first. Unreadable
/// ones are omitted.
pub fn subagents(session: &SessionInfo) -> Vec<IndexRecord> {
    let Some(chats) = session.path.parent() else { return Vec::new() };
    let folder = chats.join(sanitised(session.id.as_str()));
    let mut found: Vec<IndexRecord> =
        files_below(&folder).iter().filter_map(|path| summarise(path).ok()).collect();
    found.sort_by(|a, b| (a.start, &a.file).cmp(&(b.start, &b.file)));
    found
}

/// Every file in the folders of sub-agents below these folders, in a stable order.
pub fn subagent_files(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for dir in dirs {
        let mut folders: Vec<PathBuf> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.') && is_folder(entry))
            .map(|entry| entry.path())
            .collect();
        folders.sort();
        files.extend(folders.iter().flat_map(|folder| files_below(folder)));
    }
    files
}

/// Whether an entry is a folder or a link to one; needs no system call for regular files.
fn is_folder(entry: &fs::DirEntry) -> bool {
    entry.file_type().map_or(true, |kind| kind.is_symlink() || kind.is_dir()) && entry.path().is_dir()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl"))
        .collect();
    files.sort();
    files
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// Those of these folders that exist but cannot be listed, with the reason.
pub fn unreadable_folders(dirs: &[PathBuf]) -> Vec<(PathBuf, String)> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let problem = |dir: &PathBuf| match fs::read_dir(dir) {
        Err(error) if !matches!(error.kind(), NotFound | NotADirectory) => {
            Some((dir.clone(), format!("could not list the sessions in `{}`: {error}", dir.display())))
        }
        Ok(_) | Err(_) => None,
    };
    dirs.iter().filter_map(problem).collect()
}

/// All files in these folders that are named like sessions, in a stable order.
pub fn session_files(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (index, dir) in dirs.iter().enumerate() {
        if dirs.iter().take(index).any(|earlier| earlier == dir) {
            continue;
        }
        let Ok(entries) = fs::read_dir(dir) else { continue };
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| is_session_name(path))
            .collect();
        // Within one folder, comparing bytes equals comparing path components, but is faster.
        found.sort_unstable_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
        files.extend(found);
    }
    files
}

pub(crate) fn is_session_name(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.starts_with("session-") && (name.ends_with(".json") || name.ends_with(".jsonl"))
}

pub(crate) use peek::{project_hash, session_id};

/// What to list of a file; `Ok(None)` if it is not to be listed.
fn describe(path: &Path, now: Timestamp) -> Result<Option<SessionInfo>, String> {
    match peek::peek(path, now) {
        Peek::Found(info) => return Ok(Some(info)),
        Peek::NotListed => return Ok(None),
        Peek::ReadWhole => {}
    }
    let record = glimpse(path).map_err(|error| match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    })?;
    Ok((record.kind == SessionKind::Main && record.resumable).then(|| SessionInfo::from(record)))
}

impl From<IndexRecord> for SessionInfo {
    fn from(record: IndexRecord) -> Self {
        let empty = || "Empty conversation".to_owned();
        let first_user_message =
            Some(record.first_user).filter(|text| !text.is_empty()).unwrap_or_else(empty);
        Self {
            id: record.session_id,
            path: record.file,
            start: record.start,
            last_updated: record.last_updated,
            title: title(record.summary.as_deref(), &first_user_message),
            first_user_message,
            message_count: usize::try_from(record.messages).ok(),
            kind: record.kind,
        }
    }
}

impl From<&StoredSession> for SessionInfo {
    fn from(session: &StoredSession) -> Self {
        let first_user_message = first_user_message(&session.messages);
        Self {
            id: session.id.clone(),
            path: session.path.clone(),
            start: session.start,
            last_updated: session.last_updated,
            title: title(session.summary.as_deref(), &first_user_message),
            first_user_message,
            message_count: Some(session.messages.len()),
            kind: session.kind,
        }
    }
}

fn title(summary: Option<&str>, first_user_message: &str) -> String {
    let summary = summary.map(clean).filter(|summary| !summary.is_empty());
    summary.unwrap_or_else(|| first_user_message.to_owned())
}

/// The first prompt, otherwise the first text that is not a command, otherwise any text.
fn first_user_message(messages: &[Message]) -> String {
    let texts: Vec<(UserText, String)> = messages
        .iter()
        .filter_map(|message| match message {
            Message::User(user) => Some((user_text_kind(&user.parts), said(user))),
            _ => None,
        })
        .filter(|(_, text)| !text.is_empty())
        .collect();
    let first = |wanted: &[UserText]| texts.iter().find(|(kind, _)| wanted.contains(kind));
    first(&[UserText::Prompt])
        .or_else(|| first(&[UserText::Context, UserText::Blank]))
        .or_else(|| first(&[UserText::Command]))
        .map_or_else(|| "Empty conversation".to_owned(), |(_, text)| text.clone())
}

/// The typed text; the parts may also contain whole files.
fn said(user: &UserMessage) -> String {
    match &user.typed {
        Some(typed) => clean(typed),
        None => clean(&user.parts.iter().filter_map(Part::spoken_text).collect::<String>()),
    }
}
