//! Loads all extensions of a run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::enablement::Enablement;
use super::manifest::{Manifest, stays_in};
use super::metadata::{self, Kind, Metadata};
use super::values::{ValuePlaces, no_secrets};
use super::{Extension, Installed, Origin};

/// More folders than this are not looked into.
const MAX_EXTENSIONS: usize = 1000;

/// The parameters of [`load`].
pub struct LoadRequest<'a> {
    /// `~/.gemini/extensions`
    pub user: &'a Path,
    /// `.gemini/extensions` of the project; `None` if its folder is not trusted.
    pub project: Option<&'a Path>,
    /// The working directory.
    pub workspace: &'a Path,
    pub trusted: bool,
    /// `--extensions`: only these, or `none`; empty for the enabled ones.
    pub only: &'a [String],
    /// `extensions.disabled`
    pub disabled: &'a [String],
    /// Why an extension from this source is not allowed; upstream's text.
    pub refuses: &'a dyn Fn(&Path, Option<&Metadata>) -> Option<String>,
    /// `experimental.extensionConfig`
    pub configurable: bool,
}

/// The loaded extensions.
#[derive(Debug, Default)]
pub struct Loaded {
    /// In order of their names, those that are switched off too.
    pub all: Vec<Installed>,
    pub warnings: Vec<String>,
}

/// Why nothing was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(
        "Extension with name {name} already was loaded: `{}` and `{}`", first.display(), second.display()
    )]
    TwoOfOneName { name: String, first: PathBuf, second: PathBuf },
}

/// Reads only the manifest of every extension. A broken one is reported in the warnings.
pub fn load(request: &LoadRequest<'_>) -> Result<Loaded, LoadError> {
    let mut loaded = Loaded::default();
    let mut folders = folders(request.user, Origin::User, &mut loaded.warnings);
    let of_user = folders.len();
    if let Some(project) = request.project {
        folders.extend(self::folders(project, Origin::Project, &mut loaded.warnings));
    }
    if folders.is_empty() {
        loaded.warnings.extend(unknown(request.only, &[]));
        return Ok(loaded);
    }
    let enablement = if of_user > 0 { Enablement::read(request.user) } else { Enablement::default() };
    loaded.warnings.extend(enablement.problem.clone());
    let mut by_name: BTreeMap<String, Installed> = BTreeMap::new();
    for (folder, origin) in folders {
        let Some(found) = one(&folder, origin, request, &enablement, &mut loaded.warnings) else { continue };
        match by_name.get(&found.extension.name) {
            None => drop(by_name.insert(found.extension.name.clone(), found)),
            Some(first) if origin == Origin::Project && first.origin == Origin::User => {
                loaded.warnings.push(format!(
                    "Ignoring the project's extension \"{}\": you have an extension of the same name.",
                    found.extension.name
                ));
            }
            Some(first) => {
                let (first, second) = (first.folder.clone(), folder);
                return Err(LoadError::TwoOfOneName { name: found.extension.name, first, second });
            }
        }
    }
    loaded.all = by_name.into_values().collect();
    loaded.warnings.extend(unknown(request.only, &loaded.all));
    Ok(loaded)
}

/// Unknown names after `--extensions`.
fn unknown(only: &[String], all: &[Installed]) -> Vec<String> {
    let known = |name: &str| all.iter().any(|one| one.extension.name.eq_ignore_ascii_case(name));
    let given = only.iter().filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("none"));
    given.filter(|name| !known(name)).map(|name| format!("Extension not found: {name}")).collect()
}

/// Every folder in which an extension may be.
fn folders(root: &Path, origin: Origin, warnings: &mut Vec<String>) -> Vec<(PathBuf, Origin)> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let (path, hidden) = (entry.path(), entry.file_name().to_string_lossy().starts_with('.'));
        let Ok(kind) = entry.file_type() else { continue };
        if hidden || !(kind.is_dir() || kind.is_symlink() && path.is_dir()) {
            continue;
        }
        if kind.is_symlink() && !stays_in(&path, root) {
            warnings.push(skipping(
                &path,
                "it is a link to a path outside the extensions folder; use `pollux extensions link` to link an extension",
            ));
            continue;
        }
        found.push((path, origin));
    }
    found.sort();
    if found.len() > MAX_EXTENSIONS {
        warnings.push(format!(
            "Only the first {MAX_EXTENSIONS} of {} extensions in `{}` are used.",
            found.len(),
            root.display()
        ));
        found.truncate(MAX_EXTENSIONS);
    }
    found
}

fn skipping(folder: &Path, why: &str) -> String {
    format!("Warning: Skipping extension in {}: {why}", folder.display())
}

fn one(
    folder: &Path,
    origin: Origin,
    request: &LoadRequest<'_>,
    enablement: &Enablement,
    warnings: &mut Vec<String>,
) -> Option<Installed> {
    // A project's own claim about the source of its extension is not trusted.
    let metadata = (origin == Origin::User).then(|| Metadata::read(folder)).flatten();
    if let Some(why) =
        (origin == Origin::User).then(|| (request.refuses)(folder, metadata.as_ref())).flatten()
    {
        warnings.push(why);
        return None;
    }
    let path = match &metadata {
        Some(metadata) if metadata.kind == Kind::Link => PathBuf::from(&metadata.source),
        _ => folder.to_path_buf(),
    };
    let manifest = match Manifest::read(&path) {
        Ok(manifest) => manifest,
        Err(error) => {
            warnings.push(skipping(&path, &error.to_string()));
            return None;
        }
    };
    let active = is_active(&manifest.name, request, enablement);
    let id = metadata::id(&manifest.name, metadata.as_ref());
    let workspace = request.trusted.then_some(request.workspace);
    let values = ValuePlaces::new(folder, &manifest.name, &id, workspace);
    if active {
        warnings.extend(
            manifest.warnings().iter().map(|text| format!("Extension \"{}\": {text}", manifest.name)),
        );
    }
    let mut variables = variables(&path, request.workspace);
    if active && request.configurable {
        // Secrets stay out of texts that the model reads.
        let known = values.read(&manifest.settings, &no_secrets).into_iter();
        variables.extend(known.filter_map(|known| {
            Some((known.setting.variable, known.value.map(|(value, _)| value.reveal().to_owned())?))
        }));
    }
    let extension =
        Extension { name: manifest.name.clone(), version: manifest.version.clone(), path, variables };
    let configurable = request.configurable;
    Some(Installed {
        extension,
        id,
        folder: folder.to_path_buf(),
        manifest,
        metadata,
        origin,
        active,
        values,
        configurable,
    })
}

fn is_active(name: &str, request: &LoadRequest<'_>, enablement: &Enablement) -> bool {
    let named = |list: &[String]| list.iter().any(|other| other.eq_ignore_ascii_case(name));
    if request.only.iter().any(|name| !name.is_empty()) {
        return named(request.only);
    }
    enablement.is_enabled(name, request.workspace) && !named(request.disabled)
}

/// The variables available to every text of an extension.
pub(super) fn variables(path: &Path, workspace: &Path) -> BTreeMap<String, String> {
    let separator = std::path::MAIN_SEPARATOR_STR.to_owned();
    [
        ("extensionPath", path.display().to_string()),
        ("workspacePath", workspace.display().to_string()),
        ("/", separator.clone()),
        ("pathSeparator", separator),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

#[cfg(test)]
mod tests;
