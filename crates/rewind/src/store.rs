//! Content-addressed store of old file contents, shared by the sessions of a project.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pollux_config::files::{self, FileError, Mode};
use pollux_domain::hex;
use pollux_domain::sync::Locked as _;
use rustix::fs::{AtFlags, CWD, linkat};
use sha2::{Digest as _, Sha256};

use crate::entry::{Content, Hash, Stamp};

/// Files up to this are read at once; longer ones in pieces.
const AT_ONCE: u64 = 1 << 20;
const BUFFER: usize = 128 << 10;

/// Contents on disk. Objects are written to a temporary name and renamed, and checked when they are read.
pub(crate) struct Store {
    folder: PathBuf,
    /// The stored objects with their sizes.
    objects: Mutex<HashMap<Hash, u64>>,
    bytes: AtomicU64,
    limit: u64,
    can_clone: AtomicBool,
    temp: AtomicU64,
}

/// Why a content was not stored.
#[derive(Debug)]
pub(crate) enum SaveError {
    Full,
    Io(io::Error),
}

impl From<io::Error> for SaveError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Store {
    /// Opens the store below `folder` and lists its objects.
    pub(crate) fn open(folder: &Path, limit: u64) -> Result<Self, FileError> {
        files::create_folder(&folder.join("links"), Mode::Private)?;
        let objects_folder = folder.join("objects");
        files::create_folder(&objects_folder, Mode::Private)?;
        let objects = list(&objects_folder);
        let bytes = objects.values().sum();
        Ok(Self {
            folder: folder.to_owned(),
            objects: Mutex::new(objects),
            bytes: AtomicU64::new(bytes),
            limit,
            can_clone: AtomicBool::new(true),
            temp: AtomicU64::new(0),
        })
    }

    pub(crate) fn has(&self, content: &Content) -> bool {
        match content {
            Content::Saved(hash) => self.lock().contains_key(hash),
            Content::Linked { key, .. } => self.link_path(key).exists(),
            Content::Unsaved { .. } => true,
        }
    }

    /// Keeps a file's bytes.
    pub(crate) fn save(&self, file: &mut File, len: u64) -> Result<Hash, SaveError> {
        if len > AT_ONCE {
            return self.save_long(file, len);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        file.take(AT_ONCE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > AT_ONCE {
            // It grew meanwhile; the caller sees that by its stamp and tries again.
            return Err(SaveError::Io(io::Error::from(io::ErrorKind::FileTooLarge)));
        }
        let hash: Hash = Sha256::digest(&bytes).into();
        // One that a power failure damaged is replaced.
        if self.lock().contains_key(&hash)
            && fs::read(self.object_path(&hash)).is_ok_and(|known| known == bytes)
        {
            return Ok(hash);
        }
        self.reserve(bytes.len() as u64)?;
        // Next to its destination: renames between folders would block each other.
        let path = self.object_path(&hash);
        let (temp, mut object) = match self.temp_file(path.parent().unwrap_or(&self.folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_parent(&path)?;
                self.temp_file(path.parent().unwrap_or(&self.folder))
            }
            made => made,
        }?;
        if let Err(error) = object.write_all(&bytes) {
            let _ = fs::remove_file(&temp);
            return Err(error.into());
        }
        self.settle(&temp, hash, bytes.len() as u64)?;
        Ok(hash)
    }

    fn save_long(&self, file: &mut File, len: u64) -> Result<Hash, SaveError> {
        self.reserve(len)?;
        let (temp, mut object) = self.temp_file(&self.folder.join("objects"))?;
        let hash = if self.clone_into(file, &object) {
            copy_hashed(&mut File::open(&temp)?, &mut io::sink())
        } else {
            copy_hashed(file, &mut object)
        };
        match hash {
            Ok((hash, copied)) => {
                self.settle(&temp, hash, copied)?;
                Ok(hash)
            }
            Err(error) => {
                let _ = fs::remove_file(&temp);
                Err(error.into())
            }
        }
    }

    /// Keeps a second link of a file that is too large to copy and that programs replace but do not change.
    pub(crate) fn keep_link(&self, folder: impl AsFd, name: &[u8], stamp: &Stamp) -> io::Result<Content> {
        let mut hash = Sha256::new();
        for number in [stamp.device, stamp.inode, stamp.len, stamp.mtime.cast_unsigned()] {
            hash.update(number.to_le_bytes());
        }
        let key: Hash = hash.finalize().into();
        match linkat(folder, name, CWD, self.link_path(&key), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(Content::Linked { key, mtime: stamp.mtime }),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a saved content into `into`; fails if it is damaged.
    pub(crate) fn fetch(&self, content: &Content, len: u64, into: &mut File) -> io::Result<()> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its saved content is damaged");
        match content {
            Content::Saved(hash) => {
                let mut object = File::open(self.object_path(hash))?;
                let copied = if self.clone_into(&object, into) {
                    copy_hashed(&mut object, &mut io::sink())?
                } else {
                    copy_hashed(&mut object, into)?
                };
                if copied == (*hash, len) { Ok(()) } else { Err(damaged()) }
            }
            Content::Linked { key, mtime } => {
                let mut object = File::open(self.link_path(key))?;
                let stamp = crate::beneath::stamp_of_handle(&object)?;
                if stamp.mtime != *mtime || stamp.len != len {
                    return Err(damaged());
                }
                if !self.clone_into(&object, into) {
                    io::copy(&mut object, into)?;
                }
                Ok(())
            }
            Content::Unsaved { .. } => {
                Err(io::Error::new(io::ErrorKind::NotFound, "its content was not saved"))
            }
        }
    }

    fn reserve(&self, len: u64) -> Result<(), SaveError> {
        let fits = self.bytes.load(Ordering::Relaxed).saturating_add(len) <= self.limit;
        if fits { Ok(()) } else { Err(SaveError::Full) }
    }

    fn settle(&self, temp: &Path, hash: Hash, len: u64) -> io::Result<()> {
        let path = self.object_path(&hash);
        let moved = fs::rename(temp, &path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => make_parent(&path).and_then(|()| fs::rename(temp, &path)),
            _ => Err(error),
        });
        if let Err(error) = moved {
            let _ = fs::remove_file(temp);
            return Err(error);
        }
        if self.lock().insert(hash, len).is_none() {
            self.bytes.fetch_add(len, Ordering::Relaxed);
        }
        Ok(())
    }

    fn temp_file(&self, folder: &Path) -> io::Result<(PathBuf, File)> {
        let number = self.temp.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("temp-{}-{number}", std::process::id()));
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok((path, file))
    }

    /// Shares the blocks of a file where the file system can.
    #[cfg(target_os = "linux")]
    fn clone_into(&self, from: &File, into: &File) -> bool {
        if !self.can_clone.load(Ordering::Relaxed) {
            return false;
        }
        let cloned = rustix::fs::ioctl_ficlone(into, from).is_ok();
        self.can_clone.store(cloned, Ordering::Relaxed);
        cloned
    }

    #[cfg(not(target_os = "linux"))]
    fn clone_into(&self, _from: &File, _into: &File) -> bool {
        let _ = &self.can_clone;
        false
    }

    fn object_path(&self, hash: &Hash) -> PathBuf {
        let hex = hex::encode(hash);
        let (shard, rest) = hex.split_at_checked(2).unwrap_or_default();
        self.folder.join("objects").join(shard).join(rest)
    }

    fn link_path(&self, key: &Hash) -> PathBuf {
        self.folder.join("links").join(hex::encode(key))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Hash, u64>> {
        self.objects.locked()
    }
}

fn make_parent(path: &Path) -> io::Result<()> {
    files::create_folder(path.parent().unwrap_or(path), Mode::Private).map_err(io::Error::other)
}

/// Removes contents that no journal references; the caller has exclusive access to the store.
pub(crate) fn sweep(folder: &Path, is_needed: impl Fn(&Hash) -> bool) {
    let objects = folder.join("objects");
    for shard in fs::read_dir(&objects).into_iter().flatten().flatten() {
        if shard.file_name().as_encoded_bytes().starts_with(b"temp-") {
            let _ = fs::remove_file(shard.path());
            continue;
        }
        for object in fs::read_dir(shard.path()).into_iter().flatten().flatten() {
            if !named(&shard.file_name(), &object.file_name()).is_some_and(|hash| is_needed(&hash)) {
                let _ = fs::remove_file(object.path());
            }
        }
    }
    for link in fs::read_dir(folder.join("links")).into_iter().flatten().flatten() {
        if !link.file_name().to_str().and_then(hash_of).is_some_and(|key| is_needed(&key)) {
            let _ = fs::remove_file(link.path());
        }
    }
}

fn list(objects: &Path) -> HashMap<Hash, u64> {
    let mut found = HashMap::new();
    for shard in fs::read_dir(objects).into_iter().flatten().flatten() {
        for object in fs::read_dir(shard.path()).into_iter().flatten().flatten() {
            let len = object.metadata().map_or(0, |meta| meta.len());
            if let Some(hash) = named(&shard.file_name(), &object.file_name()) {
                found.insert(hash, len);
            }
        }
    }
    found
}

fn named(shard: &std::ffi::OsStr, rest: &std::ffi::OsStr) -> Option<Hash> {
    hash_of(&format!("{}{}", shard.to_str()?, rest.to_str()?))
}

fn copy_hashed(from: &mut File, into: &mut impl Write) -> io::Result<(Hash, u64)> {
    let (mut hash, mut total) = (Sha256::new(), 0);
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Ok((hash.finalize().into(), total));
        };
        hash.update(bytes);
        into.write_all(bytes)?;
        total += count as u64;
    }
}

/// Parses a hash from 64 digits.
pub(crate) fn hash_of(text: &str) -> Option<Hash> {
    hex::decode(text)?.try_into().ok()
}
