//! Packs a workspace into a tar.gz that [`crate::unpack_workspace`] and other agents can restore.
//!
//! Links are kept and never followed. Sockets, devices, unreadable files and names that could not be unpacked again
//! are left out and reported. Owners are not recorded.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use pollux_domain::hex;
use ring::digest::{Context, SHA256};
use tar::{Builder, EntryType, Header};

use crate::confined::{ConfinedFolder, Inspected, InspectedKind};
use crate::tree::MAX_DEPTH;
use crate::unpack::{Limits, Refusal, Skipped, safe_path};

const BUFFER: usize = 256 * 1024;

/// An archive that was written.
#[derive(Debug)]
pub struct Packed {
    /// Bytes of the archive.
    pub size: u64,
    /// Of the archive, in hexadecimal digits.
    pub sha256: String,
    /// Files, folders and links in it.
    pub entries: usize,
    pub skipped: Vec<Skipped>,
}

/// Why a workspace was not packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("could not read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("could not pack the workspace: `{}` {why}", path.display())]
    Refused { path: PathBuf, why: Refusal },
}

/// Packs everything in `folder` into the file `archive`, which must be elsewhere. After an error there is no file.
pub fn pack_workspace(folder: &Path, archive: &Path, limits: &Limits) -> Result<Packed, PackError> {
    let packed = write(folder, archive, limits);
    if packed.is_err() {
        let _ = fs::remove_file(archive);
    }
    packed
}

/// The checksum of a file, as [`Packed::sha256`] has it.
pub fn checksum(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut sum = Summing { inner: io::sink(), context: Context::new(&SHA256), size: 0 };
    io::copy(&mut file, &mut sum)?;
    Ok(hex::encode(sum.context.finish().as_ref()))
}

fn write(folder: &Path, archive: &Path, limits: &Limits) -> Result<Packed, PackError> {
    let unwritten = |source| PackError::Write { path: archive.to_owned(), source };
    let unread = |source| PackError::Read { path: folder.to_owned(), source };
    let confined = ConfinedFolder::open(folder).map_err(unread)?;
    let file = create(archive).map_err(unwritten)?;
    let summing = Summing {
        inner: io::BufWriter::with_capacity(BUFFER, file),
        context: Context::new(&SHA256),
        size: 0,
    };
    let builder = Builder::new(GzEncoder::new(summing, Compression::fast()));
    let mut packing = Packing {
        root: folder,
        archive,
        folder: confined,
        limits,
        builder,
        entries: 0,
        total: 0,
        skipped: Vec::new(),
    };
    packing.contents(Path::new(""))?;
    let Packing { builder, entries, skipped, .. } = packing;
    let finished = builder.into_inner().and_then(GzEncoder::finish);
    let mut summing = finished.map_err(unwritten)?;
    summing.inner.flush().map_err(unwritten)?;
    let sha256 = hex::encode(summing.context.finish().as_ref());
    Ok(Packed { size: summing.size, sha256, entries, skipped })
}

/// For the user alone, whatever the files in it allow.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

type Output = GzEncoder<Summing<io::BufWriter<File>>>;

struct Packing<'a> {
    root: &'a Path,
    archive: &'a Path,
    folder: ConfinedFolder,
    limits: &'a Limits,
    builder: Builder<Output>,
    entries: usize,
    total: u64,
    skipped: Vec<Skipped>,
}

impl Packing<'_> {
    fn contents(&mut self, path: &Path) -> Result<(), PackError> {
        // Everything is looked up from the open folder: commands may put links in the way meanwhile.
        let mut names = match self.folder.list(path) {
            Ok(names) => names,
            Err(source) if path.as_os_str().is_empty() => {
                return Err(PackError::Read { path: self.root.to_owned(), source });
            }
            Err(error) => {
                self.skip(path, Refusal::Unreadable(error.to_string()));
                return Ok(());
            }
        };
        names.sort();
        for name in names {
            self.entry(&path.join(name))?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path) -> Result<(), PackError> {
        if let Err(why) = restorable(path) {
            self.skip(path, why);
            return Ok(());
        }
        let found = match self.folder.inspect(path) {
            Ok(found) => found,
            // Deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                self.skip(path, Refusal::Unreadable(error.to_string()));
                return Ok(());
            }
        };
        match found.kind {
            InspectedKind::Folder => {
                self.count(path)?;
                let mut header = header(found, EntryType::Directory, 0);
                let written = self.builder.append_data(&mut header, slashed(path), io::empty());
                written.map_err(|source| self.unwritten(source))?;
                self.contents(path)
            }
            InspectedKind::Link => self.link(path, found),
            InspectedKind::File => self.file(path, found),
            InspectedKind::Other => {
                self.skip(path, Refusal::NotAFile);
                Ok(())
            }
        }
    }

    fn link(&mut self, path: &Path, found: Inspected) -> Result<(), PackError> {
        let target = self.folder.link_target(path).ok();
        let text =
            target.as_deref().and_then(Path::to_str).filter(|text| !text.chars().any(char::is_control));
        let Some(text) = text else {
            let shown = target.unwrap_or_default().to_string_lossy().into_owned();
            self.skip(path, Refusal::Link(shown));
            return Ok(());
        };
        self.count(path)?;
        let mut header = header(found, EntryType::Symlink, 0);
        let written = self.builder.append_link(&mut header, path, text);
        written.map_err(|source| self.unwritten(source))
    }

    fn file(&mut self, path: &Path, found: Inspected) -> Result<(), PackError> {
        let opened = self.folder.open_file(path).and_then(|file| Ok((file.metadata()?, file)));
        let (meta, file) = match opened {
            Ok((meta, file)) if meta.is_file() => (meta, file),
            Ok(_) => {
                self.skip(path, Refusal::NotAFile);
                return Ok(());
            }
            Err(error) => {
                self.skip(path, Refusal::Unreadable(error.to_string()));
                return Ok(());
            }
        };
        self.count(path)?;
        self.total += meta.len();
        if meta.len() > self.limits.entry {
            return Err(refused(path, Refusal::EntryTooLarge(self.limits.entry)));
        }
        if self.total > self.limits.total {
            return Err(refused(path, Refusal::TotalTooLarge(self.limits.total)));
        }
        let mut header = header(found, EntryType::Regular, meta.len());
        let content = Exact { inner: file, left: meta.len() };
        let written = self.builder.append_data(&mut header, path, content);
        written.map_err(|source| self.unwritten(source))
    }

    fn count(&mut self, path: &Path) -> Result<(), PackError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(refused(path, Refusal::TooMany(self.limits.entries)));
        }
        Ok(())
    }

    fn skip(&mut self, path: &Path, why: Refusal) {
        self.skipped.push(Skipped { path: path.to_owned(), why });
    }

    fn unwritten(&self, source: io::Error) -> PackError {
        PackError::Write { path: self.archive.to_owned(), source }
    }
}

fn refused(path: &Path, why: Refusal) -> PackError {
    PackError::Refused { path: path.to_owned(), why }
}

/// What cannot be unpacked again is not packed.
fn restorable(path: &Path) -> Result<(), Refusal> {
    let text = path.to_str().ok_or(Refusal::NotUtf8)?;
    safe_path(text.as_bytes())?;
    if path.components().count() > MAX_DEPTH {
        return Err(Refusal::TooDeep(MAX_DEPTH));
    }
    Ok(())
}

/// A folder's name in an archive ends with a slash.
fn slashed(path: &Path) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    text.push("/");
    PathBuf::from(text)
}

fn header(found: Inspected, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(found.mode);
    header.set_mtime(found.modified);
    header
}

/// So many bytes, whatever happens to the file meanwhile: more are left out, missing ones are zeros.
struct Exact<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Exact<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(space) = buffer.get_mut(..most).filter(|space| !space.is_empty()) else { return Ok(0) };
        let count = match self.inner.read(space)? {
            0 => {
                space.fill(0);
                space.len()
            }
            count => count,
        };
        self.left -= count as u64;
        Ok(count)
    }
}

/// Passes bytes on and sums them up.
struct Summing<W> {
    inner: W,
    context: Context,
    size: u64,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.context.update(bytes.get(..count).unwrap_or_default());
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
