//! What must be true of a disk after a power failure.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pollux_session::{Message, Recorder, ReplyMessage, StoredCall, load, logged_prompts};

use crate::disk::{Disk, Image};

/// The whole contents that each file has had, in their order.
#[derive(Debug, Default)]
pub(crate) struct Past(BTreeMap<PathBuf, Vec<Option<Vec<u8>>>>);

impl Past {
    pub(crate) fn of(image: Image) -> Self {
        Self(image.into_iter().map(|(path, bytes)| (path, vec![Some(bytes)])).collect())
    }

    /// Notes what these files hold now.
    pub(crate) fn note(&mut self, disk: &Disk, changed: &[PathBuf]) {
        for path in changed.iter().filter(|path| kind(path) == Kind::Whole) {
            let content = disk.content(path).cloned();
            let known = self.0.entry(path.clone()).or_insert_with(|| vec![None]);
            if known.last() != Some(&content) {
                known.push(content);
            }
        }
    }

    /// Whether a file may hold this: what was synced, or something later.
    fn allows(&self, path: &Path, synced: Option<&Vec<u8>>, found: Option<&Vec<u8>>) -> bool {
        let past = self.0.get(path).map(Vec::as_slice).unwrap_or_default();
        let since = past.iter().position(|content| content.as_ref() == synced).unwrap_or(0);
        found == synced || past[since..].iter().any(|content| content.as_ref() == found)
    }
}

/// How a file is looked at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A session: complete messages.
    Session,
    /// The prompts of a project: complete entries.
    Prompts,
    /// A file that is replaced as a whole.
    Whole,
    /// Looked at by the program itself, or of no interest after a failure.
    Other,
}

pub(crate) fn kind(path: &Path) -> Kind {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_in = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    // What an installation prepares.
    if path.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b".pollux-")) {
        return Kind::Other;
    }
    if name.starts_with('.') && ends(&[".redo", ".new", ".tmp", ".lock"]) || ends(&[".lock"]) {
        return Kind::Other;
    }
    if is_in("chats") && ends(&[".json", ".jsonl"]) && !is_in(".blobs") {
        return Kind::Session;
    }
    if name == "logs.json" {
        return Kind::Prompts;
    }
    match name == "shell_history" || ends(&[".json", ".toml", ".md", ".txt", ".enc"]) || is_in(".blobs") {
        true => Kind::Whole,
        false => Kind::Other,
    }
}

/// The disks that are compared.
#[derive(Debug)]
pub(crate) struct Disks<'a> {
    /// What was synced before the failure.
    pub(crate) synced: &'a Image,
    /// What programs saw before the failure.
    pub(crate) live: &'a Image,
    /// What is there after it.
    pub(crate) found: &'a Image,
}

/// What is wrong with the disk, one line each.
pub(crate) fn check(disks: &Disks<'_>, past: &Past, scratch: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut paths: Vec<&PathBuf> = disks.synced.keys().chain(disks.found.keys()).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        match kind(path) {
            Kind::Other => {}
            Kind::Whole => {
                let found = disks.found.get(path);
                if !past.allows(path, disks.synced.get(path), found) {
                    let length = found.map_or(0, Vec::len);
                    wrong.push(format!("{}: content of {length} bytes that it never had", path.display()));
                }
            }
            Kind::Prompts => wrong.extend(check_prompts(disks, path, scratch).err()),
            // As programs saw it.
            Kind::Session if around(disks.found, path).eq(around(disks.live, path)) => {}
            Kind::Session => wrong.extend(check_session(disks, path, scratch).err()),
        }
    }
    wrong
}

/// Every prompt that was synced is there.
fn check_prompts(disks: &Disks<'_>, path: &Path, scratch: &Path) -> Result<(), String> {
    let [synced, found] = [disks.synced, disks.found].map(|image| {
        let file = scratch.join(path);
        match place(image, path, scratch) {
            true => logged_prompts(file.parent().unwrap_or(scratch)),
            false => Vec::new(),
        }
    });
    match synced.iter().find(|prompt| !found.contains(prompt)) {
        Some(lost) => Err(format!("{}: lost {lost:?}\n{}", path.display(), shown(disks.found.get(path)))),
        None => Ok(()),
    }
}

/// Every message that was synced, and was not taken back since, is there, also after the session was resumed.
fn check_session(disks: &Disks<'_>, path: &Path, scratch: &Path) -> Result<(), String> {
    let [synced, live] = [disks.synced, disks.live]
        .map(|image| place(image, path, scratch).then(|| load(&scratch.join(path)).ok()).flatten());
    let (Some(synced), Some(live)) = (synced, live) else { return Ok(()) };
    let (needed, taken): (Vec<&Message>, Vec<&Message>) =
        synced.messages.iter().partition(|old| live.messages.iter().any(|new| id(new) == id(old)));
    if !place(disks.found, path, scratch) {
        return Err(format!("{}: gone with {} messages", path.display(), needed.len()));
    }
    let file = scratch.join(path);
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        format!("{}: cannot be {what}: {error}\n{}", path.display(), shown(disks.found.get(path)))
    };
    let found = load(&file).map_err(|error| failed("read", &error))?;
    missing(&needed, &found.messages, path)
        .map_err(|why| format!("{why}\n{}", shown(disks.found.get(path))))?;
    let kept = |message: &&Message| is_kept(message, &found.messages, disks.found, path);
    if let Some(lost) = taken.iter().find(|message| !kept(message)) {
        return Err(format!("{}: rewound and in no copy: {}", path.display(), id(lost)));
    }
    let mut recorder = Recorder::resume(&found).map_err(|error| failed("resumed", &error))?;
    let now = pollux_domain::time::Timestamp::from_millis(1_900_000_000_000);
    recorder
        .user(&[pollux_domain::content::Part::text("after the failure")], None, now)
        .map_err(|error| failed("continued", &error))?;
    drop(recorder);
    let again = load(&file).map_err(|error| failed("read again", &error))?;
    if again.repaired.as_ref().is_some_and(|note| note.torn_at.is_some()) {
        return Err(format!("{}: still damaged after it was resumed: {:?}", path.display(), again.repaired));
    }
    missing(&needed, &again.messages, path).map_err(|why| format!("{why} after it was resumed"))
}

/// Whether a message that was rewound is still in the file, as in a record log, or in a copy beside it.
fn is_kept(message: &Message, found: &[Message], image: &Image, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let copy = format!("{name}.rewound-");
    let holds_it = |other: &Path| {
        other == path || other.file_name().is_some_and(|it| it.to_string_lossy().starts_with(&copy))
    };
    let has_it = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(id(message));
    found.iter().any(|known| id(known) == id(message))
        || around(image, path).any(|(other, bytes)| holds_it(other) && has_it(bytes))
}

fn shown(bytes: Option<&Vec<u8>>) -> String {
    let text =
        String::from_utf8_lossy(bytes.map(Vec::as_slice).unwrap_or_default()).replace('\0', "\u{2400}");
    text.lines().map(|line| line.chars().take(300).chain(['\n']).collect::<String>()).collect()
}

fn missing(needed: &[&Message], found: &[Message], path: &Path) -> Result<(), String> {
    for message in needed {
        if !found.iter().any(|known| covers(known, message)) {
            let kept = found.iter().find(|known| id(known) == id(message));
            let [lost, kept] = [Some(*message), kept].map(|message| format!("{message:?}"));
            let same = lost.bytes().zip(kept.bytes()).take_while(|(lost, kept)| lost == kept).count();
            let from = same.saturating_sub(60);
            let near = |text: &str| text.chars().skip(from).take(200).collect::<String>();
            return Err(format!("{}: lost …{}…\nfound …{}…", path.display(), near(&lost), near(&kept)));
        }
    }
    Ok(())
}

/// The files of the folder in which a session is.
fn around<'a>(image: &'a Image, path: &Path) -> impl Iterator<Item = (&'a PathBuf, &'a Vec<u8>)> {
    let folder = path.ancestors().find(|folder| folder.ends_with("chats")).unwrap_or(path).to_path_buf();
    image.range(folder.clone()..).take_while(move |(other, _)| other.starts_with(&folder))
}

/// Writes the folder of a session from an image; false if the image does not have the session.
fn place(image: &Image, path: &Path, scratch: &Path) -> bool {
    let _ = fs::remove_dir_all(scratch);
    let mut has_it = false;
    for (other, bytes) in around(image, path) {
        if other != path && kind(other) == Kind::Session {
            continue;
        }
        has_it |= other == path;
        let target = scratch.join(other);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(&target, bytes).unwrap();
        // A machine that starts takes some time.
        let before = SystemTime::now() - Duration::from_secs(60);
        File::options().write(true).open(target).and_then(|file| file.set_modified(before)).unwrap();
    }
    has_it
}

fn id(message: &Message) -> &str {
    match message {
        Message::User(message) => &message.id,
        Message::Reply(message) => &message.id,
        Message::Notice(message) => &message.id,
        Message::Other { id, .. } => id,
    }
}

/// Whether this is the other message, perhaps with more results.
fn covers(found: &Message, needed: &Message) -> bool {
    match (found, needed) {
        (Message::Reply(found), Message::Reply(needed)) => {
            let is_same = ReplyMessage { calls: Vec::new(), ..found.clone() }
                == ReplyMessage { calls: Vec::new(), ..needed.clone() };
            let has = |call: &StoredCall| found.calls.iter().any(|known| covers_call(known, call));
            is_same && needed.calls.iter().all(has)
        }
        _ => found == needed,
    }
}

fn covers_call(found: &StoredCall, needed: &StoredCall) -> bool {
    let has_result = needed.result.is_empty() || found.result == needed.result;
    found.id == needed.id && found.name == needed.name && found.args == needed.args && has_result
}
