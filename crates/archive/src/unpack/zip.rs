//! Zip files.

use std::fs::File;
use std::io::Read;

use flate2::read::DeflateDecoder;
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive};

use super::{Attributes, Refusal, UnpackError, Unpacking};

/// A link's target is a path.
const MAX_TARGET: u64 = 4096;

/// The file type bits of a mode, and the types supported here.
const FILE_TYPE: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const UNSAID: u32 = 0;

pub(super) fn unpack(file: File, unpacking: &mut Unpacking<'_>) -> Result<(), UnpackError> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive =
        ZipArchive::from_file(file, &mut buffer).map_err(|error| unpacking.damaged(error.to_string()))?;
    let mut entries = archive.entries(&mut buffer);
    loop {
        let record = match entries.next_entry() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            Err(error) => return Err(unpacking.damaged(error.to_string())),
        };
        let raw = record.file_path();
        let name = raw.as_bytes();
        let Some(path) = unpacking.admit(name)? else { continue };
        let (mode, method) = (record.mode(), record.compression_method());
        if record.flags().is_encrypted() {
            return Err(unpacking.refused(name, Refusal::Encrypted));
        }
        let kind = mode.value() & FILE_TYPE;
        if record.is_dir() || kind == FOLDER {
            unpacking.folder(&path, mode.permissions())?;
            continue;
        }
        if !matches!(kind, REGULAR | LINK | UNSAID) {
            return Err(unpacking.refused(name, Refusal::NotAFile));
        }
        let entry =
            archive.get_entry(record.wayfinder()).map_err(|error| unpacking.damaged(error.to_string()))?;
        let packed = entry.reader();
        let content: Box<dyn Read> = match method {
            CompressionMethod::STORE => Box::new(entry.verifying_reader(packed)),
            CompressionMethod::DEFLATE => Box::new(entry.verifying_reader(DeflateDecoder::new(packed))),
            _ => return Err(unpacking.refused(name, Refusal::Method)),
        };
        if mode.is_symlink() {
            let mut target = Vec::new();
            let read = content.take(MAX_TARGET + 1).read_to_end(&mut target);
            read.map_err(|error| unpacking.damaged(error.to_string()))?;
            if target.len() as u64 > MAX_TARGET {
                return Err(unpacking.refused(name, Refusal::Length));
            }
            let target = String::from_utf8(target).map_err(|_| unpacking.refused(name, Refusal::NotUtf8))?;
            unpacking.link(&path, target)?;
        } else {
            unpacking.file(&path, content, Attributes { mode: mode.permissions(), modified: None })?;
        }
    }
}
