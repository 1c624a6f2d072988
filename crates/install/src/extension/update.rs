//! Checks whether a newer version of an extension is available.

use std::fs;
use std::path::Path;

use pollux_extend::extension::{Installed, Kind, Manifest, Metadata};

use super::{ExtensionPaths, InstallError, InstallServices, local};
use crate::fetch::remote_commit;
use crate::place;
use crate::source::{Source, github_repo};
use pollux_archive::Limits;

/// The available update.
#[derive(Debug)]
pub enum UpdateState {
    /// From there.
    Available(Metadata),
    UpToDate,
    /// It is never updated, for this reason.
    Never(&'static str),
}

/// Looks for a newer version, at its new source first if it has moved.
pub async fn check(
    extension: &Installed,
    places: &ExtensionPaths,
    outside: &InstallServices<'_>,
) -> Result<UpdateState, InstallError> {
    let Some(metadata) = &extension.metadata else {
        return Ok(UpdateState::Never("its installation source is unknown"));
    };
    if let Some(new_place) = extension.manifest.migrated_to.as_ref().filter(|_| metadata.kind.is_remote()) {
        let mut moved = metadata.clone();
        moved.source.clone_from(new_place);
        moved.kind = Kind::Git;
        moved.release_tag = None;
        // Only whether it answers matters: any content is newer.
        if new_place != &metadata.source && newest(&moved, places, outside).await.is_ok() {
            return Ok(UpdateState::Available(moved));
        }
    }
    match metadata.kind {
        // Upstream's words.
        Kind::Link => Ok(UpdateState::Never("Extension is linked so does not need to be updated")),
        Kind::Local => {
            let version = version_of(Path::new(&metadata.source), places)?;
            Ok(if version == extension.extension.version {
                UpdateState::UpToDate
            } else {
                UpdateState::Available(metadata.clone())
            })
        }
        Kind::Git | Kind::GithubRelease => {
            let here = match metadata.kind {
                Kind::GithubRelease => metadata.release_tag.clone(),
                Kind::Git | Kind::Local | Kind::Link => head(&extension.folder),
            };
            let there = newest(metadata, places, outside).await?;
            Ok(if here.as_deref() == Some(there.as_str()) {
                UpdateState::UpToDate
            } else {
                UpdateState::Available(metadata.clone())
            })
        }
    }
}

/// The tag of the newest release, or the commit of a repository.
async fn newest(
    metadata: &Metadata,
    places: &ExtensionPaths,
    outside: &InstallServices<'_>,
) -> Result<String, InstallError> {
    if let (Kind::GithubRelease, Some(repo)) = (metadata.kind, github_repo(&metadata.source)) {
        let early = metadata.allow_pre_release == Some(true);
        let found = outside.releases.find(&repo, metadata.reference.as_deref(), early).await;
        let failed = |source| InstallError::Release { from: metadata.source.clone(), source };
        let found = found.map_err(failed)?;
        return found.map(|release| release.tag).ok_or(InstallError::NotFound);
    }
    let url = match Source::parse(&metadata.source, &places.workspace)? {
        Source::Git(url) => url,
        Source::GitHub(repo) => repo.url(),
        Source::Folder(path) | Source::Archive(path) => path.display().to_string(),
    };
    Ok(remote_commit(&outside.git, &url, metadata.reference.as_deref(), outside.cancel).await?)
}

fn version_of(source: &Path, places: &ExtensionPaths) -> Result<String, InstallError> {
    if source.is_dir() {
        return Ok(Manifest::read(source)?.version);
    }
    let keeper = place::staging(&places.extensions())?;
    Ok(Manifest::read(&local(source, keeper.path(), &Limits::default())?)?.version)
}

/// The commit that a folder is at, read without running git in it.
fn head(folder: &Path) -> Option<String> {
    let text = |path: &Path| fs::read_to_string(path).ok().filter(|text| text.len() < 4096);
    let repository = folder.join(".git");
    let head = text(&repository.join("HEAD"))?;
    match head.trim().strip_prefix("ref: ") {
        None => Some(head.trim().to_owned()),
        Some(name) if name.starts_with("refs/") && !name.contains("..") => {
            text(&repository.join(name)).map(|commit| commit.trim().to_owned())
        }
        Some(_) => None,
    }
}
