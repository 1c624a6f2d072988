//! Installs, links and removes skills.
//!
//! [`obtain`] fetches a source and finds the skills in it; nothing is installed before the user agrees to
//! [`consent`]. [`install`] then copies all of them next to their destinations first, so that a failed copy
//! leaves everything unchanged.

use std::fs;
use std::path::{Component, Path, PathBuf};

use pollux_extend::skills::{self, Skill};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::fetch::{self, CloneError, CopyError, Git};
use crate::place::{self, PlaceError};
use crate::source::{Source, SourceError};
use pollux_archive::{Limits, UnpackError, unpack};

/// The warning shown before consent.
const WARNING: &str = "The model follows the instructions of a skill and may run the programs it includes. Review the files listed above before you agree, as you would review a script before running it.";

/// Usual folders of several skills.
const USUAL_FOLDERS: &[&str] = &["skills", ".gemini/skills", ".agents/skills", ".claude/skills"];

/// The source of a skill installation.
pub struct SkillRequest<'a> {
    /// As it was typed.
    pub source: &'a str,
    pub cwd: &'a Path,
    /// A folder in it.
    pub path: Option<&'a str>,
    pub git: &'a Git<'a>,
    pub limits: Limits,
}

/// The skills found in a source.
pub struct Obtained {
    pub skills: Vec<Skill>,
    /// Warnings about skipped skills.
    pub warnings: Vec<String>,
    /// Keeps the fetched files alive.
    _temp: Option<TempDir>,
}

/// An installed skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledSkill {
    pub name: String,
    pub location: PathBuf,
}

/// Whether skills are copied or linked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallMethod {
    Install,
    Link,
}

/// Why no skill was installed. Upstream's texts where it has any.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Clone(#[from] CloneError),
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("could not create a temporary folder: {0}")]
    Temporary(#[source] std::io::Error),
    #[error("could not link `{}`: {source}", path.display())]
    Link { path: PathBuf, source: std::io::Error },
    #[error("Invalid path: Directory traversal not allowed.")]
    Traversal,
    #[error(
        "No valid skills found in {source_text}{}. Ensure a SKILL.md file exists with valid frontmatter.",
        at(path)
    )]
    NoneFound { source_text: String, path: Option<String>, warnings: Vec<String>, elsewhere: Option<String> },
    #[error(
        "Duplicate skill name \"{name}\" found at multiple locations:\n  - {}\n  - {}",
        one.display(),
        other.display()
    )]
    Twice { name: String, one: PathBuf, other: PathBuf },
    #[error(
        "the skill \"{name}\" (`{}`) cannot be installed: folders called `node_modules`, or with a dot in front, are not searched for skills",
        location.display()
    )]
    NeverFound { name: String, location: PathBuf },
}

impl SkillError {
    /// A hint for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Source(SourceError::NotFound { path }) => Some(format!(
                "check the path `{}`, or use an archive (.skill, .zip, .tar.gz), a git URL or owner/repo",
                path.display()
            )),
            Self::NoneFound { elsewhere: Some(folder), .. } => {
                Some(format!("`{folder}` contains skills; add `--path {folder}`"))
            }
            Self::NeverFound { .. } => Some("change `name` in its SKILL.md".to_owned()),
            Self::NoneFound { warnings, .. } if !warnings.is_empty() => Some(warnings.join("\n")),
            _ => None,
        }
    }
}

fn at(path: &Option<String>) -> String {
    path.as_ref().map_or_else(String::new, |path| format!(" at path \"{path}\""))
}

/// Fetches a source and finds the skills in it; `say` receives progress messages.
pub async fn obtain(
    request: &SkillRequest<'_>,
    say: &mut dyn FnMut(&str),
    cancel: &CancellationToken,
) -> Result<Obtained, SkillError> {
    let source = Source::parse(request.source, request.cwd)?;
    let temp = || tempfile::Builder::new().prefix("pollux-skill-").tempdir().map_err(SkillError::Temporary);
    let (folder, temp) = match source {
        Source::Folder(folder) => (folder, None),
        Source::Archive(file) => {
            say(&format!("Extracting skill from {}...", request.source));
            let temp = temp()?;
            unpack(&file, temp.path(), &request.limits)?;
            (temp.path().to_owned(), Some(temp))
        }
        Source::Git(_) | Source::GitHub(_) => {
            say(&format!("Cloning skill from {}...", request.source));
            let temp = temp()?;
            let url = match source {
                Source::GitHub(repo) => repo.url(),
                Source::Git(url) => url,
                Source::Folder(_) | Source::Archive(_) => String::new(),
            };
            fetch::clone(request.git, &url, None, temp.path(), &request.limits, cancel).await?;
            (temp.path().to_owned(), Some(temp))
        }
    };
    let folder = match request.path {
        Some(path) => within(&folder, path)?,
        None => folder,
    };
    say(&format!("Searching for skills in {}...", folder.display()));
    let found = find(&folder, request.source, request.path)?;
    Ok(Obtained { _temp: temp, ..found })
}

/// Finds the skills of a folder that is to be linked to.
pub fn obtain_link(folder: &Path, say: &mut dyn FnMut(&str)) -> Result<Obtained, SkillError> {
    say(&format!("Searching for skills in {}...", folder.display()));
    find(folder, &format!("\"{}\"", folder.display()), None)
}

/// A folder in another one, which it does not leave, not by links either.
fn within(folder: &Path, path: &str) -> Result<PathBuf, SkillError> {
    let plain =
        Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let inner = folder.join(path);
    let leaves = match (folder.canonicalize(), inner.canonicalize()) {
        (Ok(folder), Ok(inner)) => !inner.starts_with(folder),
        // A missing file resolves to nothing.
        (Err(_), _) | (_, Err(_)) => false,
    };
    if plain && !leaves { Ok(inner) } else { Err(SkillError::Traversal) }
}

fn find(folder: &Path, source: &str, path: Option<&str>) -> Result<Obtained, SkillError> {
    let found = skills::in_folder(folder);
    let warnings: Vec<String> = found.warnings.iter().map(ToString::to_string).collect();
    if found.all.is_empty() {
        let has_some = |inner: &&&str| !skills::in_folder(&folder.join(**inner)).all.is_empty();
        let elsewhere = USUAL_FOLDERS.iter().find(has_some).map(|inner| match path {
            Some(path) => format!("{}/{inner}", path.trim_end_matches('/')),
            None => (*inner).to_owned(),
        });
        let (source_text, path) = (source.to_owned(), path.map(str::to_owned));
        return Err(SkillError::NoneFound { source_text, path, warnings, elsewhere });
    }
    for (index, skill) in found.all.iter().enumerate() {
        // It would be in a folder of its name.
        if !skills::is_searched(skill.name.as_ref()) {
            let (name, location) = (skill.name.clone(), skill.location.clone());
            return Err(SkillError::NeverFound { name, location });
        }
        if let Some(other) = found.all.iter().skip(index + 1).find(|other| other.name == skill.name) {
            return Err(SkillError::Twice {
                name: skill.name.clone(),
                one: skill.location.clone(),
                other: other.location.clone(),
            });
        }
    }
    Ok(Obtained { skills: found.all, warnings, _temp: None })
}

/// The consent text. Upstream's text.
pub fn consent(found: &Obtained, source: &str, target: &Path, manner: InstallMethod) -> String {
    let (action, kind) = match manner {
        InstallMethod::Install => ("Installing", "Install"),
        InstallMethod::Link => ("Linking", "Link"),
    };
    let lower = action.to_lowercase();
    let mut text = format!(
        "{action} agent skill(s) from \"{source}\".\n\nThe following agent skill(s) will be {lower}:\n\n"
    );
    for skill in &found.skills {
        let items = skill.folder().and_then(|folder| fs::read_dir(folder).ok()).map_or(0, Iterator::count);
        text.push_str(&format!("  * {}: {}\n", skill.name, skill.description));
        text.push_str(&format!(
            "    (Source: {}) ({items} items in directory)\n\n",
            skill.location.display()
        ));
    }
    text.push_str(&format!("{kind} Destination: {}\n\n{WARNING}", target.display()));
    text
}

/// Copies the skills into the folder of installed ones, all or none.
pub fn install(
    found: &Obtained,
    target: &Path,
    limits: &Limits,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<InstalledSkill>, SkillError> {
    let staged = place::staging(target)?;
    for (index, skill) in found.skills.iter().enumerate() {
        if let Some(folder) = skill.folder() {
            fetch::copy_folder(folder, &staged.path().join(index.to_string()), limits)?;
        }
    }
    let mut placed = Vec::with_capacity(found.skills.len());
    for (index, skill) in found.skills.iter().enumerate() {
        let location = target.join(&skill.name);
        if location.symlink_metadata().is_ok() {
            say(&format!("Skill \"{}\" already exists. Overwriting...", skill.name));
        }
        place::put(&staged.path().join(index.to_string()), &location)?;
        placed.push(InstalledSkill { name: skill.name.clone(), location });
    }
    Ok(placed)
}

/// Makes links to the skills in the folder of installed ones.
pub fn link(
    found: &Obtained,
    target: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<InstalledSkill>, SkillError> {
    let staged = place::staging(target)?;
    let mut placed = Vec::with_capacity(found.skills.len());
    for (index, skill) in found.skills.iter().enumerate() {
        let Some(folder) = skill.folder() else { continue };
        let location = target.join(&skill.name);
        if location.symlink_metadata().is_ok() {
            say(&format!("Skill \"{}\" already exists at destination. Overwriting...", skill.name));
        }
        let link = staged.path().join(index.to_string());
        let linked = folder.canonicalize().and_then(|real| pollux_archive::make_link(real, &link));
        linked.map_err(|source| SkillError::Link { path: folder.to_owned(), source })?;
        place::put(&link, &location)?;
        placed.push(InstalledSkill { name: skill.name.clone(), location });
    }
    Ok(placed)
}

/// Removes a skill by its name, or by the name of its folder; returns its path, or `None` if it does not
/// exist.
pub fn uninstall(name: &str, target: &Path) -> Result<Option<PathBuf>, SkillError> {
    let installed = skills::in_folder(target);
    let by_name = installed.all.iter().find(|skill| skill.name == name).and_then(Skill::folder);
    let location = match by_name {
        // The folder of installed skills is not itself a skill, whatever files are in it.
        Some(folder) if folder != target => folder.to_owned(),
        Some(_) => return Ok(None),
        None => {
            let is_name =
                matches!(Path::new(name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
            let folder = target.join(name);
            if !is_name || folder.symlink_metadata().is_err() {
                return Ok(None);
            }
            folder
        }
    };
    place::remove(&location)?;
    Ok(Some(location))
}

#[cfg(test)]
mod tests;
