//! Extracts files from a wheel, which is a zip archive.
//!
//! Only requested entries are read, and they are written under our own names: archive
//! entry names never become paths.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive, ZipArchiveEntryWayfinder};

use super::InstallError;

/// Larger than any model this is for.
const MAX_FILE: u64 = 2 << 30;
const MAX_ENTRIES: u64 = 100_000;
const BLOCK: usize = 1 << 20;

/// A wheel with its list of entries.
pub(super) struct Wheel {
    archive: ZipArchive<rawzip::FileReader>,
    path: PathBuf,
    entries: Vec<WheelEntry>,
}

pub(super) struct WheelEntry {
    pub(super) name: String,
    pub(super) size: u64,
    method: CompressionMethod,
    place: ZipArchiveEntryWayfinder,
}

impl Wheel {
    pub(super) fn open(path: &Path) -> Result<Self, InstallError> {
        let file = File::open(path).map_err(|source| InstallError::Read { path: path.to_owned(), source })?;
        let bad =
            |error: rawzip::Error| InstallError::Archive { path: path.to_owned(), reason: error.to_string() };
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let archive = ZipArchive::from_file(file, &mut buffer).map_err(bad)?;
        let mut entries = Vec::new();
        let mut listed = archive.entries(&mut buffer);
        while let Some(entry) = listed.next_entry().map_err(bad)? {
            if entries.len() as u64 >= MAX_ENTRIES {
                let reason = format!("it has more than {MAX_ENTRIES} entries");
                return Err(InstallError::Archive { path: path.to_owned(), reason });
            }
            entries.push(WheelEntry {
                name: String::from_utf8_lossy(entry.file_path().as_ref()).into_owned(),
                size: entry.uncompressed_size_hint(),
                method: entry.compression_method(),
                place: entry.wayfinder(),
            });
        }
        Ok(Self { archive, path: path.to_owned(), entries })
    }

    pub(super) fn entries(&self) -> &[WheelEntry] {
        &self.entries
    }

    /// Writes one entry to a file and reports the bytes written so far.
    pub(super) fn unpack(
        &self,
        entry: &WheelEntry,
        to: &Path,
        mut written: impl FnMut(u64),
    ) -> Result<(), InstallError> {
        let bad = |reason: String| InstallError::Archive { path: self.path.clone(), reason };
        if entry.size > MAX_FILE {
            return Err(bad(format!("`{}` is larger than {} GiB", entry.name, MAX_FILE >> 30)));
        }
        let found = self.archive.get_entry(entry.place).map_err(|error| bad(error.to_string()))?;
        let packed = found.reader();
        let plain: Box<dyn Read> = match entry.method {
            CompressionMethod::STORE => Box::new(packed),
            CompressionMethod::DEFLATE => Box::new(DeflateDecoder::new(packed)),
            other => return Err(bad(format!("`{}` uses unsupported compression {other:?}", entry.name))),
        };
        // Compares length and checksum at the end.
        let mut reader = found.verifying_reader(plain).take(entry.size + 1);
        let write = |source| InstallError::Write { path: to.to_owned(), source };
        let mut file = File::create(to).map_err(write)?;
        let mut block = vec![0; BLOCK];
        let mut total = 0;
        loop {
            let count = match reader.read(&mut block) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(bad(format!("`{}` is damaged: {error}", entry.name))),
            };
            file.write_all(&block[..count]).map_err(write)?;
            total += count as u64;
            written(total);
        }
        if total != entry.size {
            return Err(bad(format!("`{}` is damaged: {total} of {} bytes", entry.name, entry.size)));
        }
        file.sync_all().map_err(write)
    }
}
