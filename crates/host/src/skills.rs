//! The skills of a run: discovery, listing and activation by name.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::paths::GEMINI_DIR;
use pollux_domain::content::Part;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_extend::skills::{self, GrantRead, Skill, SkillFolders, SkillRegistry, Skills};
use pollux_tools::Workspace;
use serde_json::Value;

use super::prompt::Expanded;
use super::{Loaded, extensions};

/// One skill.
#[derive(Debug, Clone)]
pub struct SkillRow {
    pub name: String,
    pub description: String,
    pub location: String,
    /// `built-in`, `extension`, `user` or `workspace`.
    pub origin: &'static str,
    pub extension: Option<String>,
    pub enabled: bool,
}

impl SkillRow {
    pub fn is_built_in(&self) -> bool {
        self.origin == "built-in"
    }
}

/// The folder for skills shared by all agents, in a project or home.
const AGENTS_DIR: &str = ".agents";
const FOLDER: &str = "skills";

/// All skills, including disabled ones.
pub fn find(loaded: &Loaded) -> Skills {
    let (home, root) = (&loaded.home, loaded.project.root());
    let of_project = [root.join(GEMINI_DIR).join(FOLDER), root.join(AGENTS_DIR).join(FOLDER)];
    skills::discover(&SkillFolders {
        extensions: &extensions::readable(loaded),
        user: vec![home.skills_dir(), home.user_home().join(AGENTS_DIR).join(FOLDER)],
        workspace: if loaded.trust.uses_project() { of_project.into() } else { Vec::new() },
        disabled: &off(loaded.settings.get("skills.disabled").map(|(value, _)| value)),
    })
}

/// The names in a list of disabled skills.
pub fn off(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Whether skills are enabled.
pub fn are_on(loaded: &Loaded) -> bool {
    let is_off = |key: &str| matches!(loaded.settings.get(key), Some((Value::Bool(false), _)));
    !is_off("skills.enabled") && !is_off("admin.skills.enabled")
}

/// The skills of a conversation, and warnings about invalid ones.
pub fn shelf(loaded: &Loaded, workspace: &Arc<Workspace>) -> (Option<Arc<SkillRegistry>>, Vec<String>) {
    if !are_on(loaded) {
        return (None, Vec::new());
    }
    let found = find(loaded);
    let warnings = found.warnings.iter().map(ToString::to_string).collect();
    let workspace = Arc::clone(workspace);
    let admit: GrantRead = Arc::new(move |folder| workspace.open_for_reading(folder));
    (Some(Arc::new(SkillRegistry::new(found, admit))), warnings)
}

/// The skill that a line activates, and the text after its name.
pub fn called(shelf: Option<&SkillRegistry>, typed: &str) -> Option<(Skill, String)> {
    let line = typed.trim().strip_prefix('/')?;
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    Some((shelf?.called(word)?, rest.trim().to_owned()))
}

/// The instruction that activates a skill, followed by the user's text.
pub fn activated(shelf: &SkillRegistry, skill: &Skill, words: String) -> Result<(Part, String), Failure> {
    let text = shelf.activate(skill).map_err(|error| Failure::from_error(ExitKind::Input, &error))?;
    // Upstream's words.
    let words = if words.is_empty() { format!("Use the skill {}", skill.name) } else { words };
    Ok((Part::text(text), words))
}

/// Inserts a part before an expanded prompt.
pub fn before(part: Part, expanded: Result<Expanded, Failure>) -> Result<Expanded, Failure> {
    expanded.map(|(mut parts, passed_over)| {
        parts.insert(0, part);
        (parts, passed_over)
    })
}

pub fn row(skill: &Skill) -> SkillRow {
    let extension = match &skill.origin {
        skills::Origin::Extension(name) => Some(name.clone()),
        skills::Origin::BuiltIn | skills::Origin::User | skills::Origin::Workspace => None,
    };
    SkillRow {
        name: skill.name.clone(),
        description: skill.description.clone(),
        location: skill.location.display().to_string(),
        origin: skill.origin.word(),
        extension,
        enabled: !skill.disabled,
    }
}

/// The install folder of a scope.
pub fn folder(loaded: &Loaded, of_workspace: bool) -> PathBuf {
    match of_workspace {
        true => loaded.project.gemini_dir().join(FOLDER),
        false => loaded.home.skills_dir(),
    }
}

/// The skill list, in upstream's words.
pub fn list(rows: &[SkillRow], all: bool, descriptions: bool) -> String {
    let built_in: Vec<&str> =
        rows.iter().filter(|row| row.is_built_in()).map(|row| row.name.as_str()).collect();
    let rows = shown(rows, all);
    if rows.is_empty() {
        return match built_in.as_slice() {
            [] => "No skills discovered.\n".to_owned(),
            names => format!("No skills discovered besides the built-in ones: {}.\n", names.join(", ")),
        };
    }
    let blocks =
        rows.into_iter().map(|row| if descriptions { block(row) } else { format!("{}\n", title(row)) });
    format!("Discovered Agent Skills:\n\n{}", blocks.collect::<String>())
}

/// Sorted by name; built-in skills last, and only if requested.
pub fn shown(rows: &[SkillRow], all: bool) -> Vec<&SkillRow> {
    let mut rows: Vec<&SkillRow> = rows.iter().filter(|row| all || !row.is_built_in()).collect();
    rows.sort_by_key(|row| (row.is_built_in(), row.name.to_lowercase()));
    rows
}

fn title(row: &SkillRow) -> String {
    let state = if row.enabled { "[Enabled]" } else { "[Disabled]" };
    let built_in = if row.is_built_in() { " [Built-in]" } else { "" };
    format!("{} {state}{built_in}", row.name)
}

/// One skill in detail.
pub fn block(row: &SkillRow) -> String {
    format!("{}\n  Description: {}\n  Location:    {}\n\n", title(row), row.description, row.location)
}

/// The result of a reload, in upstream's words.
pub fn change(added: usize, removed: usize) -> String {
    let skills = |count: usize| if count == 1 { "skill" } else { "skills" };
    let mut details = Vec::new();
    if added > 0 {
        details.push(format!("{added} newly available {}", skills(added)));
    }
    if removed > 0 {
        details.push(format!("{removed} {} no longer available", skills(removed)));
    }
    let details = if details.is_empty() { String::new() } else { format!(" {}.", details.join(" and ")) };
    format!("Agent skills reloaded successfully.{details}\n")
}
