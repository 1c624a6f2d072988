//! Installs, updates and removes extensions.
//!
//! [`stage`] fetches an extension into a temporary folder without activating it. After the user agrees to
//! [`Staged::consent`], [`Staged::install`] moves it into place atomically, so that an interruption leaves
//! either the old version or the new one.

pub mod consent;
mod permission;
mod releases;
mod update;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, Mode};
use pollux_config::groups::Secret;
use pollux_extend::extension::{
    EnablementError, Installed, Kind, METADATA, Manifest, ManifestError, Metadata, Setting, Switch,
    ValueError, ValuePlaces, ValueScope, id, is_name, switch,
};
use pollux_net::credentials::{CredentialError, CredentialStore, FileReason};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::fetch::{CloneError, CopyError, Git, clone, copy_folder, only_folder};
use crate::integrity::{Integrity, IntegrityError};
use crate::place::{self, PlaceError};
use crate::source::{GitHubRepo, Source, SourceError, github_repo};
use pollux_archive::{Limits, UnpackError, unpack};

pub use permission::{NotAllowed, Sources};
pub use releases::{API, Release, ReleaseError, Releases};
pub use update::{UpdateState, check};

/// Where extensions are kept, and for whom.
#[derive(Debug, Clone)]
pub struct ExtensionPaths {
    pub gemini_dir: PathBuf,
    pub user_home: PathBuf,
    /// The working directory.
    pub workspace: PathBuf,
}

impl ExtensionPaths {
    /// The folder of the extension of this name.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.extensions().join(name)
    }

    pub fn extensions(&self) -> PathBuf {
        self.gemini_dir.join("extensions")
    }
}

/// Access to git and the network.
pub struct InstallServices<'a> {
    pub git: Git<'a>,
    pub releases: Releases<'a>,
    pub cancel: &'a CancellationToken,
}

/// An installation request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallRequest {
    pub source: String,
    pub reference: Option<String>,
    pub auto_update: bool,
    pub pre_release: bool,
}

/// Why nothing was installed, updated or removed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    Source(#[from] SourceError),
    // Upstream's texts, like those below that begin with a capital.
    #[error("--ref and --auto-update are not applicable for local extensions.")]
    NotForLocal,
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error(transparent)]
    Clone(#[from] CloneError),
    #[error("Failed to install extension {from}")]
    Release { from: String, source: ReleaseError },
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("Extension \"{name}\" is already installed. Please uninstall it first.")]
    AlreadyInstalled { name: String },
    #[error("could not install extension \"{name}\": `{}` already exists", path.display())]
    InTheWay { name: String, path: PathBuf },
    #[error("extension \"{old}\" is now named \"{new}\", but an extension of that name is already installed")]
    NameTaken { old: String, new: String },
    #[error("Extension not found.")]
    NotFound,
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("could not prepare `{}`: {source}", path.display())]
    Prepare { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error("could not store a secret")]
    Secret(#[from] CredentialError),
    #[error("could not reach the keychain, so the secret may still be in it: {0}")]
    SecretLeft(FileReason),
    #[error(transparent)]
    Enablement(#[from] EnablementError),
    #[error(transparent)]
    Integrity(#[from] IntegrityError),
}

/// Classifies a source without fetching anything.
pub fn infer(wish: &InstallRequest, cwd: &Path) -> Result<Metadata, InstallError> {
    let source = Source::parse(&wish.source, cwd)?;
    let remote = |text: String| {
        let mut metadata = Metadata::new(text, Kind::Git);
        metadata.reference.clone_from(&wish.reference);
        metadata.auto_update = wish.auto_update.then_some(true);
        metadata.allow_pre_release = wish.pre_release.then_some(true);
        metadata
    };
    match source {
        Source::Folder(_) | Source::Archive(_) if wish.reference.is_some() || wish.auto_update => {
            Err(InstallError::NotForLocal)
        }
        Source::Folder(path) | Source::Archive(path) => {
            Ok(Metadata::new(clean(&path).display().to_string(), Kind::Local))
        }
        // As it was typed, so that others recognise it.
        Source::Git(_) => Ok(remote(wish.source.trim().to_owned())),
        Source::GitHub(GitHubRepo { owner, repo }) => {
            Ok(remote(format!("https://github.com/{owner}/{repo}")))
        }
    }
}

/// A folder that is to be used in place.
pub fn infer_link(path: &str, cwd: &Path) -> Result<Metadata, InstallError> {
    let folder = cwd.join(path);
    match folder.canonicalize() {
        Ok(real) if real.is_dir() => Ok(Metadata::new(real.display().to_string(), Kind::Link)),
        Ok(_) | Err(_) => Err(SourceError::NotFound { path: folder }.into()),
    }
}

/// Without `.` and a slash at the end, links as they are.
fn clean(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}

/// An extension that was fetched and is not installed.
#[derive(Debug)]
pub struct Staged {
    pub manifest: Manifest,
    pub metadata: Metadata,
    /// Its temporary folder.
    pub folder: PathBuf,
    /// Keeps the temporary folder alive; a linked extension needs none.
    _keeper: Option<TempDir>,
}

/// Fetches an extension. `clone_instead` is called when a release cannot be fetched for a temporary reason.
pub async fn stage(
    mut metadata: Metadata,
    places: &ExtensionPaths,
    outside: &InstallServices<'_>,
    clone_instead: &mut dyn FnMut(&str) -> bool,
) -> Result<Staged, InstallError> {
    if metadata.kind == Kind::Link {
        let folder = PathBuf::from(&metadata.source);
        return Ok(Staged { manifest: Manifest::read(&folder)?, metadata, folder, _keeper: None });
    }
    let keeper = place::staging(&places.extensions())?;
    let target = keeper.path().join("new");
    let prepare = |source| InstallError::Prepare { path: target.clone(), source };
    fs::create_dir(&target).map_err(prepare)?;
    let limits = Limits::default();
    let folder = match metadata.kind {
        Kind::Local | Kind::Link => local(Path::new(&metadata.source), &target, &limits)?,
        Kind::Git | Kind::GithubRelease => {
            let archive = keeper.path().join("archive");
            match released(&metadata, outside, &archive, clone_instead).await? {
                Some(release) => {
                    metadata.kind = Kind::GithubRelease;
                    metadata.release_tag = Some(release.tag);
                    unpack(&archive, &target, &limits)?;
                    unpacked(&target)
                }
                None => {
                    metadata.kind = Kind::Git;
                    metadata.release_tag = None;
                    let url = match Source::parse(&metadata.source, &places.workspace)? {
                        Source::Git(url) => url,
                        Source::GitHub(repo) => repo.url(),
                        Source::Folder(path) | Source::Archive(path) => path.display().to_string(),
                    };
                    let reference = metadata.reference.as_deref();
                    clone(&outside.git, &url, reference, &target, &limits, outside.cancel).await?;
                    target
                }
            }
        }
    };
    let manifest = Manifest::read(&folder).map_err(|error| in_source(error, &metadata.source))?;
    Ok(Staged { manifest, metadata, folder, _keeper: Some(keeper) })
}

/// Names the file in the source that the user gave instead of its copy in the staging folder.
fn in_source(error: ManifestError, source: &str) -> ManifestError {
    let renamed = |file: PathBuf| Path::new(source).join(file.file_name().unwrap_or_default());
    match error {
        ManifestError::Missing { file } => ManifestError::Missing { file: renamed(file) },
        ManifestError::Invalid { file, defect } => ManifestError::Invalid { file: renamed(file), defect },
    }
}

fn local(source: &Path, target: &Path, limits: &Limits) -> Result<PathBuf, InstallError> {
    if source.is_dir() {
        copy_folder(source, target, limits)?;
        return Ok(target.to_owned());
    }
    if !source.exists() {
        return Err(SourceError::NotFound { path: source.to_owned() }.into());
    }
    unpack(source, target, limits)?;
    Ok(unpacked(target))
}

/// The extension in an unpacked archive.
fn unpacked(target: &Path) -> PathBuf {
    match Manifest::read(target) {
        Err(ManifestError::Missing { .. }) => only_folder(target),
        Ok(_) | Err(_) => target.to_owned(),
    }
}

/// Fetches the release of a source on GitHub; `None` if it is to be cloned.
async fn released(
    metadata: &Metadata,
    outside: &InstallServices<'_>,
    archive: &Path,
    clone_instead: &mut dyn FnMut(&str) -> bool,
) -> Result<Option<Release>, InstallError> {
    let Some(repo) = github_repo(&metadata.source) else { return Ok(None) };
    let (tag, early) = (metadata.reference.as_deref(), metadata.allow_pre_release == Some(true));
    let fetched = async {
        let Some(release) = outside.releases.find(&repo, tag, early).await? else { return Ok(None) };
        outside.releases.download(&release, archive).await?;
        Ok(Some(release))
    };
    match fetched.await {
        Ok(None) if metadata.kind == Kind::Git => Ok(None),
        Ok(Some(release)) => Ok(Some(release)),
        Ok(None) => Err(InstallError::Release {
            from: metadata.source.clone(),
            source: ReleaseError::Status { url: metadata.source.clone(), status: 404 },
        }),
        Err(source @ ReleaseError::Cancelled) => {
            Err(InstallError::Release { from: metadata.source.clone(), source })
        }
        Err(source) => {
            let question = format!(
                "Could not fetch the release of {}: {source}.\n\nInstall it with `git clone` instead?",
                metadata.source
            );
            match clone_instead(&question) {
                true => Ok(None),
                false => Err(InstallError::Release { from: metadata.source.clone(), source }),
            }
        }
    }
}

/// Whether consent is needed, and the text to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consent {
    /// Everything relevant is unchanged.
    NotNeeded,
    /// The complete text.
    Ask(String),
}

/// The values given for settings.
pub type SettingValues = Vec<(Setting, Secret)>;

impl Staged {
    /// Whether its name is free, or its own.
    pub fn check_name(
        &self,
        all: &[Installed],
        previous: Option<&Installed>,
        places: &ExtensionPaths,
    ) -> Result<(), InstallError> {
        let name = self.manifest.name.clone();
        let taken = all.iter().any(|other| other.extension.name == name);
        let folder = places.folder(&name);
        match previous {
            None if taken => Err(InstallError::AlreadyInstalled { name }),
            None if folder.symlink_metadata().is_ok() => Err(InstallError::InTheWay { name, path: folder }),
            Some(previous) if previous.extension.name != name && taken => {
                Err(InstallError::NameTaken { old: previous.extension.name.clone(), new: name })
            }
            None | Some(_) => Ok(()),
        }
    }

    /// The consent for installing it in place of another version.
    pub fn consent(&self, previous: Option<&Installed>) -> Consent {
        let name = &self.manifest.name;
        let body = consent::body(&self.manifest, &self.folder);
        let Some(previous) = previous else {
            return Consent::Ask(consent::text(&format!("Installing extension \"{name}\"."), &body));
        };
        let old = &previous.extension.name;
        let moved = previous.metadata.as_ref().is_some_and(|before| before.source != self.metadata.source);
        let before = consent::body(&previous.manifest, &previous.extension.path);
        if !moved && old == name && before == body {
            return Consent::NotNeeded;
        }
        let mut heading = match (moved, old == name) {
            (true, true) => {
                format!("Updating extension \"{name}\" from a new source, {}.", self.metadata.source)
            }
            (true, false) => format!(
                "Updating extension \"{old}\" from a new source, {}; it is now named \"{name}\".",
                self.metadata.source
            ),
            (false, true) => format!("Updating extension \"{name}\"."),
            (false, false) => format!("Updating extension \"{old}\", which is now named \"{name}\"."),
        };
        let difference = consent::difference(&before, &body);
        if !difference.is_empty() {
            heading.push_str(&format!("\n\nChanges since the version you approved:\n{difference}"));
        }
        Consent::Ask(consent::text(&heading, &body))
    }

    /// Settings without a value.
    pub fn new_settings(&self, previous: Option<&Installed>) -> Vec<Setting> {
        let known = previous.map(|previous| previous.manifest.settings.as_slice()).unwrap_or_default();
        let same = |one: &Setting, other: &Setting| {
            one.variable == other.variable && one.sensitive == other.sensitive
        };
        let new = |setting: &&Setting| !known.iter().any(|known| same(known, setting));
        self.manifest.settings.iter().filter(new).cloned().collect()
    }

    /// Installs it, replacing another version if there is one; returns its folder.
    pub fn install(
        self,
        previous: Option<&Installed>,
        answers: &SettingValues,
        places: &ExtensionPaths,
        integrity: &Integrity<'_>,
        store: &CredentialStore,
    ) -> Result<PathBuf, InstallError> {
        let name = self.manifest.name.clone();
        debug_assert!(is_name(&name));
        integrity.check()?;
        let target = places.folder(&name);
        let linked = self.metadata.kind == Kind::Link;
        let (holder, folder) = match linked {
            // A linked extension only has its metadata here.
            true => {
                let holder = place::staging(&places.extensions())?;
                let folder = holder.path().join("new");
                fs::create_dir(&folder)
                    .map_err(|source| InstallError::Prepare { path: folder.clone(), source })?;
                (Some(holder), folder)
            }
            false => (None, self.folder.clone()),
        };
        let text = format!("{:#}", Value::Object(self.metadata.to_json()));
        // A file that is replaced is followed if it is a link, and this one would be the extension's own.
        for own in [METADATA, ".env"] {
            if folder.join(own).is_symlink() {
                place::remove(&folder.join(own))?;
            }
        }
        files::replace(&folder.join(METADATA), text.as_bytes(), Mode::Shared)?;
        let identity = id(&name, Some(&self.metadata));
        self.take_over_values(previous, &folder, &identity, store)?;
        give(answers, &folder, &name, &identity, store)?;
        place::put(&folder, &target)?;
        drop(holder);
        if let Some(old) = previous.filter(|previous| previous.folder != target)
            && old.folder.symlink_metadata().is_ok()
        {
            place::remove(&old.folder)?;
        }
        if let Some(old) = previous.filter(|previous| previous.extension.name != name) {
            rename_rules(places, &old.extension.name, &name)?;
            integrity.forget(&old.extension.name)?;
        }
        if previous.is_none() {
            switch(&places.extensions(), &name, Switch::On(&places.user_home))?;
        }
        let content = if linked { Path::new(&self.metadata.source) } else { target.as_path() };
        integrity.record(&name, &self.metadata, content)?;
        Ok(target)
    }

    /// Values of settings that are still the same setting.
    fn take_over_values(
        &self,
        previous: Option<&Installed>,
        folder: &Path,
        identity: &str,
        store: &CredentialStore,
    ) -> Result<(), InstallError> {
        let Some(previous) = previous else { return Ok(()) };
        let new = ValuePlaces::new(folder, &self.manifest.name, identity, None);
        let (old_service, new_service) =
            (previous.values.service(ValueScope::User)?, new.service(ValueScope::User)?);
        let kept = |setting: &Setting| {
            let mut all = self.manifest.settings.iter();
            all.any(|other| other.variable == setting.variable && other.sensitive == setting.sensitive)
        };
        let own = ValuePlaces::new(&previous.folder, &previous.extension.name, &previous.id, None);
        let plain = own.read(&previous.manifest.settings, &pollux_extend::extension::no_secrets);
        for set in plain.into_iter().filter(|set| kept(&set.setting)) {
            if let Some((value, _)) = set.value {
                new.write(ValueScope::User, &set.setting.variable, Some(value.reveal()))?;
            }
        }
        for setting in previous.manifest.settings.iter().filter(|setting| setting.sensitive) {
            if kept(setting) && old_service == new_service {
                continue;
            }
            if kept(setting)
                && let Some(secret) = store.secret(&old_service, &setting.variable)?
            {
                store.set_secret(&new_service, &setting.variable, &secret)?;
            }
            store.delete_secret(&old_service, &setting.variable)?;
        }
        Ok(())
    }
}

/// Stores the given values.
fn give(
    answers: &SettingValues,
    folder: &Path,
    name: &str,
    identity: &str,
    store: &CredentialStore,
) -> Result<(), InstallError> {
    let places = ValuePlaces::new(folder, name, identity, None);
    for (setting, value) in answers.iter().filter(|(_, value)| !value.reveal().is_empty()) {
        set_value(&places, ValueScope::User, setting, Some(value), store)?;
    }
    Ok(())
}

/// Sets or clears one value in the store for its kind.
pub fn set_value(
    places: &ValuePlaces,
    scope: ValueScope,
    setting: &Setting,
    value: Option<&Secret>,
    store: &CredentialStore,
) -> Result<(), InstallError> {
    match (setting.sensitive, value) {
        (true, Some(value)) => store.set_secret(&places.service(scope)?, &setting.variable, value)?,
        (true, None) => {
            let removal = store.delete_secret(&places.service(scope)?, &setting.variable)?;
            removal.unreached.map_or(Ok(()), |reason| Err(InstallError::SecretLeft(reason)))?;
        }
        (false, value) => places.write(scope, &setting.variable, value.map(Secret::reveal))?,
    }
    Ok(())
}

/// Where the old name was switched off, the new one is, too.
fn rename_rules(places: &ExtensionPaths, old: &str, new: &str) -> Result<(), InstallError> {
    let extensions = places.extensions();
    let rules = pollux_extend::extension::Enablement::read(&extensions);
    for folder in [&places.user_home, &places.workspace] {
        let on = rules.is_enabled(old, folder);
        switch(&extensions, new, if on { Switch::On(folder) } else { Switch::Off(folder) })?;
    }
    Ok(switch(&extensions, old, Switch::Forget)?)
}

/// Removes an extension with its rules, its integrity records and its secrets. Returns the reason if secrets
/// may be left in an unreachable keychain.
pub fn uninstall(
    extension: &Installed,
    places: &ExtensionPaths,
    integrity: &Integrity<'_>,
    store: &CredentialStore,
) -> Result<Option<FileReason>, InstallError> {
    let mut unreached = None;
    for setting in extension.manifest.settings.iter().filter(|setting| setting.sensitive) {
        for scope in [ValueScope::User, ValueScope::Workspace] {
            if let Ok(service) = extension.values.service(scope) {
                let removal = store.delete_secret(&service, &setting.variable)?;
                unreached = unreached.or(removal.unreached);
            }
        }
    }
    // A linked one's own files stay where they are.
    place::remove(&extension.folder)?;
    let name = &extension.extension.name;
    switch(&places.extensions(), name, Switch::Forget)?;
    // The extension is removed either way; a tampered register is reported at the next installation.
    let _ = integrity.forget(name);
    Ok(unreached)
}

/// Finds an extension by name or source.
pub fn find<'a>(all: &'a [Installed], given: &str) -> Option<&'a Installed> {
    let by_name = |one: &&Installed| one.extension.name.eq_ignore_ascii_case(given);
    let by_source = |one: &&Installed| {
        one.metadata.as_ref().is_some_and(|metadata| metadata.source.eq_ignore_ascii_case(given))
    };
    all.iter().find(by_name).or_else(|| all.iter().find(by_source))
}

#[cfg(test)]
mod tests;
