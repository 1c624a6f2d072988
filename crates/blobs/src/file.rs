//! A store in a folder, shared by the processes of one machine.
//!
//! An object is the file of its name, so that other programs can read it. Next to it, `<name>+version` has a random
//! text per write, and `<name>+.lock` exists during a write; `+` is in no key. A version is that text with the number of
//! the file's inode. The text is replaced before the file: a reader in between, or after a crash in between, gets a
//! version that no later write accepts by mistake, because both files existed at once and have different inodes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use pollux_domain::BoxFuture;
use tempfile::NamedTempFile;
use uuid::Uuid;

use crate::key::{Key, Prefix};
use crate::memory::MAX_PAGE;
use crate::port::{
    Blob, BlobEntry, Blobs, Condition, Fetched, Page, PutError, StoreError, StoreErrorKind, Version,
};

const SIDE: &str = "+version";
const TEMP: &str = "+tmp-";
/// Version of a file that another program put there.
const FOREIGN: &str = "0";
/// Temporary files of crashed writers are removed after this time.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);
/// Attempts of a reader to see a version that does not change under it.
const ATTEMPTS: usize = 50;

/// Objects below a folder.
#[derive(Debug, Clone)]
pub(crate) struct FileBlobs {
    root: PathBuf,
    max_object: u64,
}

/// Where content comes from.
enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

impl FileBlobs {
    pub(crate) fn new(root: PathBuf, max_object: u64) -> Self {
        Self { root, max_object }
    }

    fn path(&self, key: &Key) -> PathBuf {
        key.as_str().split('/').fold(self.root.clone(), |path, segment| path.join(segment))
    }

    fn failed(&self, action: &str, key: &Key, error: &io::Error) -> StoreError {
        self.error(format!("{action} `{key}`"), error)
    }

    fn error(&self, action: String, error: &io::Error) -> StoreError {
        use io::ErrorKind as Kind;
        let (kind, message) = match error.kind() {
            _ if !self.root.is_dir() => (StoreErrorKind::NoBucket, "the folder does not exist".to_owned()),
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => (StoreErrorKind::Denied, error.to_string()),
            Kind::IsADirectory | Kind::NotADirectory | Kind::AlreadyExists => {
                (StoreErrorKind::Unusable, "one of its segments is both a folder and an object".to_owned())
            }
            Kind::InvalidData | Kind::FileTooLarge => (StoreErrorKind::Unusable, error.to_string()),
            _ => (StoreErrorKind::Unavailable, error.to_string()),
        };
        StoreError { kind, action, place: self.place(), message }
    }

    fn lock(&self, key: &Key) -> Result<FileLock, StoreError> {
        let lost = |message: String| StoreError {
            kind: StoreErrorKind::Unavailable,
            action: format!("lock `{key}`"),
            place: self.place(),
            message,
        };
        FileLock::acquire(&beside(&self.path(key), "+")).map_err(|error| match &error {
            LockError::Unusable { source, .. }
            | LockError::Folder(FileError::CreateFolder { source, .. } | FileError::Write { source, .. }) => {
                self.failed("lock", key, source)
            }
            LockError::TimedOut { .. } | LockError::Folder(_) => lost(error.to_string()),
        })
    }

    /// Opens the object together with its version.
    fn open(&self, key: &Key, action: &str) -> Result<Option<(File, Version)>, StoreError> {
        let path = self.path(key);
        let failed = |error: io::Error| self.failed(action, key, &error);
        for _ in 0..ATTEMPTS {
            let before = side_text(&path).map_err(failed)?;
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.root.is_dir() => {
                    return Ok(None);
                }
                // A folder on the way is a file: there is no such object.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
                Err(error) => return Err(failed(error)),
            };
            let meta = file.metadata().map_err(failed)?;
            if !meta.is_file() {
                return Ok(None);
            }
            if before == side_text(&path).map_err(failed)? {
                let version = Version::new(format!("{before}.{:x}", inode(&meta)));
                return Ok(Some((file, version)));
            }
        }
        Err(failed(io::Error::from(io::ErrorKind::ResourceBusy)))
    }

    fn read(&self, key: &Key, known: Option<&Version>) -> Result<Fetched, StoreError> {
        let Some((file, version)) = self.open(key, "read")? else { return Ok(Fetched::Missing) };
        if known == Some(&version) {
            return Ok(Fetched::Unchanged);
        }
        let mut bytes = Vec::new();
        let read = file.take(self.max_object + 1).read_to_end(&mut bytes);
        read.map_err(|error| self.failed("read", key, &error))?;
        if bytes.len() as u64 > self.max_object {
            return Err(self.failed("read", key, &io::Error::from(io::ErrorKind::FileTooLarge)));
        }
        Ok(Fetched::Changed(Blob { bytes, version }))
    }

    fn read_to(&self, key: &Key, into: &Path) -> Result<Option<Version>, StoreError> {
        let Some((mut file, version)) = self.open(key, "read")? else { return Ok(None) };
        let copied = files::replace_with(into, Mode::Private, |target| io::copy(&mut file, target).map(drop));
        copied.map_err(|error| StoreError {
            kind: StoreErrorKind::Unusable,
            action: format!("read `{key}`"),
            place: self.place(),
            message: error.to_string(),
        })?;
        Ok(Some(version))
    }

    fn holds(&self, key: &Key, condition: &Condition) -> Result<bool, StoreError> {
        let present = || Ok(self.open(key, "check")?.map(|(_, version)| version));
        match condition {
            Condition::Any => Ok(true),
            Condition::Absent => Ok(present()?.is_none()),
            Condition::Version(wanted) => Ok(present()?.as_ref() == Some(wanted)),
        }
    }

    fn write(&self, key: &Key, content: &Content, condition: &Condition) -> Result<Version, PutError> {
        let failed = |error: io::Error| PutError::Store(self.failed("write", key, &error));
        if !self.root.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
        }
        let path = self.path(key);
        let folder = path.parent().unwrap_or(&self.root);
        files::create_folder(folder, Mode::Private).map_err(|error| match error {
            FileError::CreateFolder { source, .. } => failed(source),
            other => failed(io::Error::other(other.to_string())),
        })?;
        // Written before the lock is taken: others wait for a rename only.
        let temp = temp_with(folder, content).map_err(failed)?;
        let number = inode(&temp.as_file().metadata().map_err(failed)?);
        let _lock = self.lock(key)?;
        if path.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if !self.holds(key, condition)? {
            return Err(PutError::Conflict(key.clone()));
        }
        let text = Uuid::new_v4().simple().to_string();
        let side = temp_with(folder, &Content::Bytes(text.clone().into_bytes())).map_err(failed)?;
        side.persist(beside(&path, SIDE)).map_err(|error| failed(error.error))?;
        if *condition == Condition::Absent {
            match temp.persist_noclobber(&path) {
                Ok(_) => {}
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(PutError::Conflict(key.clone()));
                }
                Err(error) => return Err(failed(error.error)),
            }
        } else {
            temp.persist(&path).map_err(|error| failed(error.error))?;
        }
        let _ = files::sync_folder(folder);
        Ok(Version::new(format!("{text}.{number:x}")))
    }

    fn remove(&self, key: &Key, condition: &Condition) -> Result<(), PutError> {
        let failed = |error: io::Error| PutError::Store(self.failed("delete", key, &error));
        let path = self.path(key);
        if !path.parent().is_some_and(Path::is_dir) {
            if !self.root.is_dir() {
                return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
            }
            return match condition {
                Condition::Any | Condition::Absent => Ok(()),
                Condition::Version(_) => Err(PutError::Conflict(key.clone())),
            };
        }
        let _lock = self.lock(key)?;
        if !self.holds(key, condition)? {
            return Err(PutError::Conflict(key.clone()));
        }
        for gone in [path.clone(), beside(&path, SIDE)] {
            match fs::remove_file(&gone) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // A folder of this name holds other objects.
                Err(_) if gone == path && path.is_dir() => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if let Some(folder) = path.parent() {
            let _ = files::sync_folder(folder);
        }
        Ok(())
    }

    fn page(&self, prefix: &Prefix, after: Option<&Key>, limit: usize) -> Result<Page, StoreError> {
        let failed = |error: io::Error| self.error(format!("list `{}`", prefix.as_str()), &error);
        if !self.root.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
        }
        let above = prefix.as_str().rsplit_once('/').map_or("", |(above, _)| above);
        let mut keys = Vec::new();
        collect(&self.root.join(above), above, &mut keys).map_err(failed)?;
        keys.retain(|key| key.as_str().starts_with(prefix.as_str()) && after.is_none_or(|after| key > after));
        keys.sort();
        let more = keys.len() > limit;
        keys.truncate(limit);
        let next = if more { keys.last().cloned() } else { None };
        let mut entries = Vec::with_capacity(keys.len());
        for key in keys {
            // One that was deleted meanwhile is left out.
            if let Some((file, version)) = self.open(&key, "list")? {
                let size = file.metadata().map_err(failed)?.len();
                entries.push(BlobEntry { key, version, size });
            }
        }
        Ok(Page { entries, next })
    }

    fn prepare(&self) -> Result<(), StoreError> {
        files::create_folder(&self.root, Mode::Private).map_err(|error| StoreError {
            kind: if error.is_read_only() { StoreErrorKind::Denied } else { StoreErrorKind::Unusable },
            action: "create the folder".to_owned(),
            place: self.place(),
            message: error.to_string(),
        })?;
        remove_stale(&self.root);
        Ok(())
    }

    /// Runs on a thread where waiting for the disk holds nobody up.
    async fn blocking<T, E>(&self, work: impl FnOnce(&Self) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let this = self.clone();
        let joined = tokio::task::spawn_blocking(move || work(&this)).await;
        joined.unwrap_or_else(|error| {
            Err(self.error("use the folder".to_owned(), &io::Error::other(error.to_string())).into())
        })
    }
}

impl Blobs for FileBlobs {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Blob>, StoreError>> {
        let key = key.clone();
        Box::pin(self.blocking(move |this| match this.read(&key, None)? {
            Fetched::Changed(blob) => Ok(Some(blob)),
            Fetched::Missing | Fetched::Unchanged => Ok(None),
        }))
    }

    fn get_if_changed<'a>(
        &'a self,
        key: &'a Key,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        let (key, version) = (key.clone(), version.clone());
        Box::pin(self.blocking(move |this| this.read(&key, Some(&version))))
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: &'a [u8],
        condition: Condition,
    ) -> BoxFuture<'a, Result<Version, PutError>> {
        let (key, content) = (key.clone(), Content::Bytes(bytes.to_vec()));
        Box::pin(self.blocking(move |this| this.write(&key, &content, &condition)))
    }

    fn put_file<'a>(
        &'a self,
        key: &'a Key,
        from: &'a Path,
        condition: Condition,
    ) -> BoxFuture<'a, Result<Version, PutError>> {
        let (key, content) = (key.clone(), Content::File(from.to_owned()));
        Box::pin(self.blocking(move |this| this.write(&key, &content, &condition)))
    }

    fn get_file<'a>(
        &'a self,
        key: &'a Key,
        into: &'a Path,
    ) -> BoxFuture<'a, Result<Option<Version>, StoreError>> {
        let (key, into) = (key.clone(), into.to_owned());
        Box::pin(self.blocking(move |this| this.read_to(&key, &into)))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a Prefix,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        let (prefix, after) = (prefix.clone(), after.cloned());
        let limit = limit.clamp(1, MAX_PAGE);
        Box::pin(self.blocking(move |this| this.page(&prefix, after.as_ref(), limit)))
    }

    fn delete<'a>(&'a self, key: &'a Key, condition: Condition) -> BoxFuture<'a, Result<(), PutError>> {
        let key = key.clone();
        Box::pin(self.blocking(move |this| this.remove(&key, &condition)))
    }

    fn ensure_bucket(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.blocking(|this| this.prepare()))
    }

    fn place(&self) -> String {
        format!("file:{}", self.root.display())
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.root)
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn side_text(path: &Path) -> io::Result<String> {
    match fs::read_to_string(beside(path, SIDE)) {
        Ok(text) => Ok(text),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(FOREIGN.to_owned())
        }
        Err(error) => Err(error),
    }
}

/// A synced temporary file with this content.
fn temp_with(folder: &Path, content: &Content) -> io::Result<NamedTempFile> {
    let mut temp = tempfile::Builder::new().prefix(TEMP).tempfile_in(folder)?;
    match content {
        Content::Bytes(bytes) => temp.write_all(bytes)?,
        Content::File(path) => drop(io::copy(&mut File::open(path)?, &mut temp)?),
    }
    temp.as_file().sync_all()?;
    Ok(temp)
}

/// Every key below a folder, in no order; links are not followed.
fn collect(folder: &Path, above: &str, keys: &mut Vec<Key>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let text = if above.is_empty() { name } else { format!("{above}/{name}") };
        let Ok(key) = Key::parse(&text) else { continue };
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if kind.is_dir() {
            collect(&entry.path(), key.as_str(), keys)?;
        } else if kind.is_file() {
            keys.push(key);
        }
    }
    Ok(())
}

fn remove_stale(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_dir() {
            remove_stale(&entry.path());
            continue;
        }
        let is_temp = entry.file_name().to_string_lossy().starts_with(TEMP);
        let age = meta.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        if is_temp && age.is_some_and(|age| age > STALE) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(unix)]
fn inode(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

/// Where files have no numbers the time of writing stands in.
#[cfg(not(unix))]
fn inode(meta: &fs::Metadata) -> u64 {
    let time = meta.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
