//! A model's folder: its files, their pinned hashes, and prepared data.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use pollux_config::files::{self, Mode};
use pollux_domain::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ModelError;
use super::tokenizer::{Packed, Tokenizer, Unpacked};

/// Names the model and pins its files; written by the installation.
pub(crate) const MANIFEST: &str = "pollux-model.json";
/// The tokenizer in a form that needs no parsing, and the hashes that were found.
const PREPARED: &str = "pollux-prepared.bin";
const MAGIC: &[u8] = b"pollux tokenizer\n";
const MAX_TOKENIZER: u64 = 64 << 20;
const MAX_PREPARED: u64 = 64 << 20;

/// The content of [`MANIFEST`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    /// SHA-256 by file name.
    pub(crate) files: std::collections::BTreeMap<String, String>,
}

/// A file as it was when its hash was taken. A file with the same size and time is taken for the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    name: String,
    size: u64,
    modified_ns: u64,
    pub(crate) sha256: String,
}

/// The two files that every model has.
pub(crate) struct Files {
    pub(crate) weights: PathBuf,
    pub(crate) tokenizer: PathBuf,
}

impl Files {
    /// Those of the usual names, or the only ones that could be meant.
    pub(crate) fn find(folder: &Path) -> Result<Self, ModelError> {
        let is_tokenizer = |name: &str| name.contains("tokenizer") && name.ends_with(".json");
        Ok(Self {
            weights: pick(folder, "model.safetensors", |name| name.ends_with(".safetensors"))?,
            tokenizer: pick(folder, "tokenizer.json", is_tokenizer)?,
        })
    }
}

/// A model's folder whose files have been checked.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) weights: PathBuf,
    pub(crate) tokenizer: PathBuf,
    /// Of weights, tokenizer and (if there is one) `config.json`.
    pub(crate) sealed: Vec<Sealed>,
    prepared: PathBuf,
}

impl Folder {
    /// Finds the files and makes sure that they are the pinned ones. The first time, and after a change, this reads
    /// all of them; the result is kept in `cache`, or in the folder itself.
    pub(crate) fn open(path: &Path, cache: Option<&Path>) -> Result<Self, ModelError> {
        if !path.is_dir() {
            return Err(ModelError::NoFolder { path: path.to_owned() });
        }
        let Files { weights, tokenizer } = Files::find(path)?;
        let manifest = manifest(path)?;
        let mut folder = Self {
            name: manifest.as_ref().map_or_else(|| last_name(path), |manifest| manifest.name.clone()),
            prepared: prepared_file(path, cache),
            path: path.to_owned(),
            weights,
            tokenizer,
            sealed: Vec::new(),
        };
        let known = folder.read_prepared(true).map(|(sealed, _)| sealed).unwrap_or_default();
        folder.sealed = folder.seal(&known)?;
        if let Some(manifest) = manifest {
            folder.check(&manifest)?;
        }
        if folder.sealed != known {
            folder.prepare()?;
        }
        Ok(folder)
    }

    /// The configuration of an encoder.
    pub(crate) fn config(&self) -> PathBuf {
        self.path.join("config.json")
    }

    /// The tokenizer, from the prepared file if it can be.
    pub(super) fn load_tokenizer(&self) -> Result<Tokenizer, ModelError> {
        if let Some((sealed, Some(tokenizer))) = self.read_prepared(false)
            && sealed == self.sealed
        {
            return Ok(tokenizer);
        }
        self.prepare()
    }

    fn parse_tokenizer(&self) -> Result<Tokenizer, ModelError> {
        let json = read_limited(&self.tokenizer, MAX_TOKENIZER)?;
        Tokenizer::parse(&json).map_err(|reason| ModelError::Content { path: self.tokenizer.clone(), reason })
    }

    /// Reads the tokenizer and writes the prepared file. If it cannot be written, the next start is slower.
    fn prepare(&self) -> Result<Tokenizer, ModelError> {
        let tokenizer = self.parse_tokenizer()?;
        let mut packed = Packed::default();
        packed.bytes(&serde_json::to_vec(&self.sealed).unwrap_or_default());
        tokenizer.pack(&mut packed);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(packed.finish());
        let _ = files::replace(&self.prepared, &bytes, Mode::Private);
        Ok(tokenizer)
    }

    fn read_prepared(&self, only_seals: bool) -> Option<(Vec<Sealed>, Option<Tokenizer>)> {
        let limit = if only_seals { 1 << 16 } else { MAX_PREPARED };
        let mut bytes = Vec::new();
        File::open(&self.prepared).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
        let mut unpacked = Unpacked::new(bytes.strip_prefix(MAGIC)?);
        let sealed = serde_json::from_slice(unpacked.bytes()?).ok()?;
        if only_seals {
            return Some((sealed, None));
        }
        Some((sealed, Tokenizer::unpack(&mut unpacked)))
    }

    /// The hashes of all files; those of unchanged files are known.
    fn seal(&self, known: &[Sealed]) -> Result<Vec<Sealed>, ModelError> {
        let config = Some(self.config()).filter(|path| path.is_file());
        let paths = [Some(self.weights.clone()), Some(self.tokenizer.clone()), config];
        let mut sealed = Vec::new();
        for path in paths.into_iter().flatten() {
            let meta =
                fs::metadata(&path).map_err(|source| ModelError::Read { path: path.clone(), source })?;
            let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let modified_ns =
                modified.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or_default();
            let name = last_name(&path);
            let same = known
                .iter()
                .find(|seal| seal.name == name && seal.size == meta.len() && seal.modified_ns == modified_ns);
            let sha256 = match same {
                Some(seal) => seal.sha256.clone(),
                None => {
                    sha256_file(&path).map_err(|source| ModelError::Read { path: path.clone(), source })?
                }
            };
            sealed.push(Sealed { name, size: meta.len(), modified_ns, sha256 });
        }
        Ok(sealed)
    }

    fn check(&self, manifest: &Manifest) -> Result<(), ModelError> {
        for seal in &self.sealed {
            match manifest.files.get(&seal.name) {
                Some(expected) if *expected == seal.sha256 => {}
                expected => {
                    return Err(ModelError::Changed {
                        path: self.path.join(&seal.name),
                        expected: expected.cloned().unwrap_or_else(|| "no such file".to_owned()),
                        found: seal.sha256.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn pick(folder: &Path, usual: &str, could_be: impl Fn(&str) -> bool) -> Result<PathBuf, ModelError> {
    let exact = folder.join(usual);
    if exact.is_file() {
        return Ok(exact);
    }
    let entries =
        fs::read_dir(folder).map_err(|source| ModelError::Read { path: folder.to_owned(), source })?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| could_be(&last_name(path)) && path.is_file())
        .collect();
    match (found.pop(), found.is_empty()) {
        (Some(path), true) => Ok(path),
        _ => Err(ModelError::NoFile { folder: folder.to_owned(), name: usual.to_owned() }),
    }
}

fn manifest(folder: &Path) -> Result<Option<Manifest>, ModelError> {
    let path = folder.join(MANIFEST);
    let text = match files::read_text(&path) {
        Ok(text) => text,
        Err(error) => return Err(ModelError::Content { path, reason: error.to_string() }),
    };
    text.map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|error| ModelError::Content { path, reason: error.to_string() })
}

fn prepared_file(folder: &Path, cache: Option<&Path>) -> PathBuf {
    let Some(cache) = cache else { return folder.join(PREPARED) };
    let place = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let key = pollux_config::paths::sha256_hex(place.as_os_str().as_encoded_bytes());
    cache.join(format!("{}-{PREPARED}", key.get(..16).unwrap_or_default()))
}

pub(crate) fn last_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, ModelError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
        .map_err(|source| ModelError::Read { path: path.to_owned(), source })?;
    if bytes.len() as u64 > limit {
        let reason = format!("it is larger than {} MiB", limit >> 20);
        return Err(ModelError::Content { path: path.to_owned(), reason });
    }
    Ok(bytes)
}

/// The hash of a file, in hex digits.
pub(crate) fn sha256_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut block)?;
        if count == 0 {
            break;
        }
        hash.update(&block[..count]);
    }
    Ok(hex::encode(&hash.finalize()))
}
