//! Changes small files that other programs write too, without losing what those write or what cannot be read.
//!
//! Use [`edit_text`] for a text, and [`change_object`] for an object in a JSON file. Settings files are edited by
//! [`crate::settings`], which keeps their comments.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::files::{self, FileError, FileLock, LockError, Mode};
use crate::jsonc;

/// How often an edit is repeated because another program changed the file meanwhile.
const MAX_EDITS: usize = 10;

/// How often a damaged file is read again, and the pause before: a program that does not write in one step is done soon.
const MAX_READS: usize = 4;
const READ_PAUSE: Duration = Duration::from_millis(50);

/// Why an object was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("`{}` is not a JSON object: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("could not move the unreadable file `{}` aside: {source}", path.display())]
    Move { path: PathBuf, source: io::Error },
}

impl ObjectError {
    /// Whether the file has content that cannot be understood.
    pub fn is_damage(&self) -> bool {
        let is_unreadable =
            |error: &FileError| matches!(error, FileError::NotUtf8 { .. } | FileError::TooLarge { .. });
        match self {
            Self::Damaged { .. } => true,
            Self::File(error) => is_unreadable(error),
            Self::Lock(_) | Self::Move { .. } => false,
        }
    }
}

/// Edits a text file: `edit` gets the content, `None` if there is no file, and returns the new one, or `None` to change
/// nothing. If another program changes the file before it is replaced, `edit` is called again with its content.
pub fn edit_text<E: From<FileError>>(
    path: &Path,
    mode: Mode,
    mut edit: impl FnMut(Option<&str>) -> Result<Option<String>, E>,
) -> Result<(), E> {
    for _ in 0..MAX_EDITS {
        let old = files::read_text(path)?;
        let Some(new) = edit(old.as_deref())? else { return Ok(()) };
        let mut is_changed = false;
        let check = || {
            is_changed = !matches!(files::read_text(path), Ok(now) if now == old);
            if is_changed { Err(io::ErrorKind::ResourceBusy.into()) } else { Ok(()) }
        };
        let replaced = files::replace_if(path, mode, |file| file.write_all(new.as_bytes()), check);
        if !is_changed {
            return Ok(replaced?);
        }
    }
    let source = io::Error::new(io::ErrorKind::ResourceBusy, "another program keeps changing it");
    Err(FileError::Write { path: path.to_owned(), source }.into())
}

/// The object in a JSON file; an empty one if there is no file, or nothing in it. Comments and a byte order mark are
/// allowed.
pub fn read_object(path: &Path) -> Result<Map<String, Value>, ObjectError> {
    object_of(path, &files::read_text(path)?.unwrap_or_default())
}

/// Changes the object in a JSON file under its lock; keys that the change does not touch stay. A file that cannot be
/// understood is moved aside; returns its new path.
pub fn change_object(
    path: &Path,
    mut change: impl FnMut(&mut Map<String, Value>),
) -> Result<Option<PathBuf>, ObjectError> {
    if let Some(folder) = path.parent() {
        files::create_folder(folder, Mode::Private)?;
    }
    let _lock = FileLock::acquire(path)?;
    let mut moved = None;
    let mut reads = 1;
    loop {
        let changed = edit_text(path, Mode::Private, |text| {
            let old = object_of(path, text.unwrap_or_default())?;
            let mut new = old.clone();
            change(&mut new);
            Ok((new != old).then(|| format!("{:#}", Value::Object(new))))
        });
        match changed {
            Ok(()) => return Ok(moved),
            Err(error) if !ObjectError::is_damage(&error) || moved.is_some() => {
                put_back(moved.as_deref(), path);
                return Err(error);
            }
            Err(_) if reads < MAX_READS => {
                reads += 1;
                std::thread::sleep(READ_PAUSE);
            }
            Err(_) => moved = Some(move_aside(path)?),
        }
    }
}

fn object_of(path: &Path, text: &str) -> Result<Map<String, Value>, ObjectError> {
    if jsonc::strip_bom(text).trim().is_empty() {
        return Ok(Map::new());
    }
    let damaged = |reason| ObjectError::Damaged { path: path.to_owned(), reason };
    match jsonc::parse(text) {
        Ok(document) => match document.value {
            Value::Object(object) => Ok(object),
            _ => Err(damaged("its top level is another value".to_owned())),
        },
        Err(defect) => Err(damaged(defect.reason)),
    }
}

/// Gives a file an unused name next to its own, which says why.
fn move_aside(path: &Path) -> Result<PathBuf, ObjectError> {
    let failed = |source| ObjectError::Move { path: path.to_owned(), source };
    let target = files::follow(path)?;
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = (1..1000).map(|number| target.with_file_name(format!("{name}.invalid_json.{number}.bak")));
    let free = numbered.into_iter().find(|aside| fs::symlink_metadata(aside).is_err());
    let aside = free.ok_or_else(|| failed(io::ErrorKind::AlreadyExists.into()))?;
    fs::rename(&target, &aside).map_err(failed)?;
    Ok(aside)
}

/// Gives a file that was moved aside its name back, since no other could be written: the disk may be full.
fn put_back(moved: Option<&Path>, path: &Path) {
    if let (Some(moved), Ok(target)) = (moved, files::follow(path))
        && !target.exists()
    {
        let _ = fs::rename(moved, target);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn an_edit_that_another_program_makes_meanwhile_is_kept() {
        let scratch = Scratch::new();
        let file = scratch.write("notes.md", "one\n");
        let mut rounds = 0;
        let edit = |text: Option<&str>| {
            let text = text.unwrap_or_default();
            rounds += 1;
            if rounds < 3 {
                // The editor saves while the new content is prepared.
                scratch.write("notes.md", &format!("{text}theirs {rounds}\n"));
            }
            Ok::<_, FileError>(Some(format!("{text}ours\n")))
        };
        edit_text(&file, Mode::Private, edit).unwrap();
        assert_eq!(scratch.read("notes.md"), "one\ntheirs 1\ntheirs 2\nours\n");
        assert_eq!(scratch.names("").iter().filter(|name| name.contains("notes")).count(), 1);
        let endless = |text: Option<&str>| {
            scratch.write("notes.md", &format!("{}.", text.unwrap_or_default()));
            Ok::<_, FileError>(Some("ours".to_owned()))
        };
        let error = edit_text(&file, Mode::Private, endless).unwrap_err();
        assert!(error.to_string().contains("another program keeps changing it"), "{error}");
        assert!(scratch.read("notes.md").ends_with("ours\n.........."));
    }

    #[test]
    fn an_object_that_cannot_be_read_is_moved_aside() {
        let scratch = Scratch::new();
        let file = scratch.path("state.json");
        let set = |key: &str| change_object(&file, |object| drop(object.insert(key.to_owned(), json!(1))));
        assert_eq!(set("a").unwrap(), None);
        scratch.write("state.json", "\u{feff}{\"b\": 2} // comment");
        assert_eq!(set("a").unwrap(), None);
        assert_eq!(read_object(&file).unwrap(), *json!({"a": 1, "b": 2}).as_object().unwrap());
        scratch.write("state.json", "");
        assert_eq!(set("a").unwrap(), None);
        for (number, damaged) in ["{\"b\": 2", "[]", "\0\0\0"].into_iter().enumerate() {
            scratch.write("state.json", damaged);
            assert!(read_object(&file).unwrap_err().is_damage(), "{damaged:?}");
            let aside = set("a").unwrap().unwrap();
            assert_eq!(aside, scratch.path(&format!("state.json.invalid_json.{}.bak", number + 1)));
            assert_eq!(fs::read_to_string(aside).unwrap(), damaged);
            assert_eq!(scratch.read("state.json"), "{\n  \"a\": 1\n}");
        }
    }
}
