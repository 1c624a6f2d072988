//! Skills: folders with a `SKILL.md` whose instructions the model loads when a task needs them.
//!
//! [`discover`] reads only the front matter of each; a body is read on demand ([`Skill::body`]). Later sources
//! win: built-in, extensions, the user's folders, the workspace's.

mod activate;
mod built_in;
mod prompt;
mod registry;
mod validate;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::paths::same_place;
use serde::Deserialize;

use crate::extension::Extension;
use crate::frontmatter::{self, FrontMatterError};

pub use activate::TOOL;
pub use prompt::section;
pub use registry::{GrantRead, SkillChange, SkillRegistry};
pub use validate::{Validation, validate};

/// The file that makes a folder a skill.
pub const FILE: &str = "SKILL.md";

/// Limit of folders searched per location.
const MAX_FOLDERS: usize = 5_000;
/// Instructions longer than this leave no room for the work.
const MAX_FILE: u64 = 1024 * 1024;
/// Length limit of a name.
const MAX_NAME: usize = 128;
/// Characters that upstream replaces in names.
const REPLACED: &[char] = &[':', '\\', '/', '<', '>', '*', '?', '"', '|'];

/// Whose a skill is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    /// By name.
    Extension(String),
    User,
    Workspace,
}

impl Origin {
    /// The value in machine-readable output.
    pub fn word(&self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Extension(_) => "extension",
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }
}

/// A skill without its instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    /// Its `SKILL.md`; `built-in:NAME` for those that are part of the program.
    pub location: PathBuf,
    pub origin: Origin,
    pub disabled: bool,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    File,
    Embedded(&'static str),
    /// With the values of its variables.
    OfExtension(Arc<Extension>),
}

/// Where skills are looked for.
#[derive(Debug, Clone, Default)]
pub struct SkillFolders<'a> {
    pub extensions: &'a [Extension],
    /// In order of precedence: `~/.gemini/skills`, `~/.agents/skills`.
    pub user: Vec<PathBuf>,
    /// `.gemini/skills` and `.agents/skills` of a trusted project; none of an untrusted one.
    pub workspace: Vec<PathBuf>,
    /// Names that are switched off.
    pub disabled: &'a [String],
}

/// The skills by name, with warnings.
#[derive(Debug, Clone, Default)]
pub struct Skills {
    pub all: Vec<Skill>,
    pub warnings: Vec<Warning>,
}

/// A warning about a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    // Upstream's text.
    #[error(
        "Skill conflict detected: \"{name}\" from \"{}\" is overriding the same skill from \"{}\".",
        new.display(),
        old.display()
    )]
    Conflict { name: String, new: PathBuf, old: PathBuf },
    #[error("Ignoring the skill `{}`: {why}", path.display())]
    LeftOut { path: PathBuf, why: String },
    #[error("`{}` has more than {MAX_FOLDERS} folders; the rest is ignored", path.display())]
    TooMany { path: PathBuf },
}

/// Why a skill's instructions are not available.
#[derive(Debug, thiserror::Error)]
#[error("`{}` {why}", path.display())]
pub struct BodyError {
    path: PathBuf,
    why: FrontMatterError,
}

impl Skill {
    /// Its folder, unless it is part of the program.
    pub fn folder(&self) -> Option<&Path> {
        match self.content {
            Content::Embedded(_) => None,
            Content::File | Content::OfExtension(_) => self.location.parent(),
        }
    }

    pub fn is_built_in(&self) -> bool {
        self.origin == Origin::BuiltIn
    }

    /// Its slash-command name: its name, prefixed by that of its extension if it has one.
    pub fn command(&self) -> String {
        let name = self.name.split_whitespace().collect::<Vec<_>>().join("-");
        match &self.origin {
            Origin::Extension(extension) => format!("{extension}:{name}"),
            Origin::BuiltIn | Origin::User | Origin::Workspace => name,
        }
    }

    /// Its instructions.
    pub fn body(&self) -> Result<String, BodyError> {
        let failed = |why| BodyError { path: self.location.clone(), why };
        let text = match self.content {
            Content::Embedded(text) => text.to_owned(),
            Content::File | Content::OfExtension(_) => {
                frontmatter::read_whole(&self.location, MAX_FILE).map_err(failed)?
            }
        };
        let body = frontmatter::split(&text).map_or(text.as_str(), |(_, body)| body).trim();
        Ok(match &self.content {
            Content::OfExtension(extension) => extension.hydrate(body),
            Content::File | Content::Embedded(_) => body.to_owned(),
        })
    }
}

impl Skills {
    /// The skill of this name; its case does not matter unless two differ by nothing else.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        named(&self.all, name)
    }

    /// Those that are not switched off.
    pub fn enabled(&self) -> impl Iterator<Item = &Skill> {
        self.all.iter().filter(|skill| !skill.disabled)
    }
}

fn named<'a>(skills: &'a [Skill], name: &str) -> Option<&'a Skill> {
    let wanted = name.to_lowercase();
    let exact = skills.iter().find(|skill| skill.name == name);
    exact.or_else(|| skills.iter().find(|skill| skill.name.to_lowercase() == wanted))
}

/// Finds every skill.
pub fn discover(places: &SkillFolders<'_>) -> Skills {
    let mut found = Gathering::default();
    built_in::all().into_iter().for_each(|skill| found.add(skill));
    for extension in places.extensions {
        let shared = Arc::new(extension.clone());
        let origin = Origin::Extension(extension.name.clone());
        found.folder(&extension.part("skills"), &origin, &Content::OfExtension(shared));
    }
    let mut seen: Vec<&PathBuf> = Vec::new();
    let user = places.user.iter().map(|root| (root, Origin::User));
    let workspace = places.workspace.iter().map(|root| (root, Origin::Workspace));
    for (root, origin) in user.chain(workspace) {
        // The home directory may be the workspace.
        if !seen.iter().any(|known| *known == root || same_place(known, root)) {
            found.folder(root, &origin, &Content::File);
            seen.push(root);
        }
    }
    let off: Vec<String> = places.disabled.iter().map(|name| name.to_lowercase()).collect();
    let mut all: Vec<Skill> = found.by_name.into_values().collect();
    for skill in &mut all {
        skill.disabled = off.contains(&skill.name.to_lowercase());
    }
    Skills { all, warnings: found.warnings }
}

/// Whether a folder of this name is looked into for a skill.
pub fn is_searched(folder: &OsStr) -> bool {
    !folder.as_encoded_bytes().starts_with(b".") && folder != "node_modules"
}

/// The skills in one folder: its own `SKILL.md` and those of the folders in it.
pub fn in_folder(root: &Path) -> Skills {
    let mut found = Gathering::default();
    let all = found.read(root, &Origin::User, &Content::File);
    Skills { all, warnings: found.warnings }
}

#[derive(Default)]
struct Gathering {
    by_name: BTreeMap<String, Skill>,
    warnings: Vec<Warning>,
}

impl Gathering {
    fn folder(&mut self, root: &Path, origin: &Origin, content: &Content) {
        for skill in self.read(root, origin, content) {
            self.add(skill);
        }
    }

    fn add(&mut self, skill: Skill) {
        let (name, new) = (skill.name.clone(), skill.location.clone());
        match self.by_name.insert(name.clone(), skill) {
            Some(old) if !old.is_built_in() => {
                self.warnings.push(Warning::Conflict { name, new, old: old.location });
            }
            _ => {}
        }
    }

    fn read(&mut self, root: &Path, origin: &Origin, content: &Content) -> Vec<Skill> {
        let mut files = vec![root.join(FILE)];
        files.extend(self.folders(root).into_iter().map(|folder| folder.join(FILE)));
        files.into_iter().filter_map(|file| self.skill(file, origin, content)).collect()
    }

    /// The folders in a folder, links to folders too, in the order of their names.
    fn folders(&mut self, root: &Path) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
        let mut names = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let may_be_folder = entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
            if !is_searched(&name) || !may_be_folder {
                continue;
            }
            if names.len() == MAX_FOLDERS {
                self.warnings.push(Warning::TooMany { path: root.to_owned() });
                break;
            }
            names.push(name);
        }
        names.sort();
        names.into_iter().map(|name| root.join(name)).collect()
    }

    fn skill(&mut self, location: PathBuf, origin: &Origin, content: &Content) -> Option<Skill> {
        let read = frontmatter::read(&location);
        let why = match read {
            Ok(Some(front)) => match properties(&front) {
                Ok(Properties { name, description }) => {
                    let hydrated = |text: String| match content {
                        Content::OfExtension(extension) => extension.hydrate(&text),
                        Content::File | Content::Embedded(_) => text,
                    };
                    let (origin, content) = (origin.clone(), content.clone());
                    let description = hydrated(description);
                    return Some(Skill {
                        name: hydrated(name),
                        description,
                        location,
                        origin,
                        disabled: false,
                        content,
                    });
                }
                Err(why) => why,
            },
            Ok(None) => "missing front matter (`---`, `name`, `description`, `---`)".to_owned(),
            Err(FrontMatterError::Read(error)) if is_missing(&error) => return None,
            Err(error) => error.to_string(),
        };
        self.warnings.push(Warning::LeftOut { path: location, why });
        None
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

#[derive(Debug, Deserialize)]
struct Properties {
    name: String,
    description: String,
}

/// Name and description of a front matter: YAML, or line by line where it is not valid YAML.
fn properties(front: &str) -> Result<Properties, String> {
    let read: Properties = match frontmatter::parse(front) {
        Ok(read) => read,
        Err(error @ FrontMatterError::Invalid(_)) => {
            let by_line = |key| frontmatter::line_value(front, key);
            let (name, description) =
                by_line("name").zip(by_line("description")).ok_or_else(|| error.to_string())?;
            Properties { name, description }
        }
        Err(error) => return Err(error.to_string()),
    };
    let name = usable_name(read.name.trim())?;
    let description = read.description.trim().to_owned();
    if description.is_empty() {
        return Err("the description is empty".to_owned());
    }
    Ok(Properties { name, description })
}

/// A name as it is used: characters that a path or a markup would read differently are dashes.
fn usable_name(name: &str) -> Result<String, String> {
    if name.is_empty() || matches!(name, "." | "..") {
        return Err("the name is empty".to_owned());
    }
    if name.chars().any(char::is_control) {
        return Err(format!("the name contains control characters (`{}`)", name.escape_debug()));
    }
    if name.chars().count() > MAX_NAME {
        return Err(format!("the name is longer than {MAX_NAME} characters"));
    }
    Ok(name.replace(REPLACED, "-"))
}

#[cfg(test)]
mod tests;
