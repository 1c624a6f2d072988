//! `pollux import`: converts the settings of Claude Code and Codex.
//!
//! Use it once, when you change programs. It collects items from the other program's files (`claude`, `codex`),
//! compares them with the existing ones and writes what is missing (`write`); it never replaces anything. It does not
//! copy sessions, which `pollux sessions` reads where they are, and it grants a project nothing: permissions, models
//! and providers come only from the user's home, and the folder's trust is not renewed.

mod arguments;
mod claude;
mod codex;
#[cfg(test)]
mod documents;
mod hooks;
mod page;
mod places;
mod plan;
mod prompts;
mod rules;
mod servers;
mod shared;
mod write;

use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_config::paths::{Home, Project, same_place};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{self, plain};
use pollux_host::sessions::places::SessionPlaces;

pub use arguments::{ImportAgent, ImportArgs, ImportCommand};

use crate::context::Context;
use places::SourceFolder;
use plan::{ImportItem, ImportState};
use write::{Destinations, ScopeFiles};

/// The items found for one program.
struct Import {
    agent: ImportAgent,
    user: Option<SourceFolder>,
    project: Option<SourceFolder>,
    items: Vec<ImportItem>,
    sessions: usize,
}

/// Runs the command.
pub fn run(command: &ImportCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let home = Home::locate(context.env)
        .map_err(|error| Failure::from_error(ExitKind::Config, &error).hint(error.hint()))?;
    let project = Project::locate(&home, context.env.cwd());
    // Ignores `.env` files: a project must not choose the folder that is read as the user's.
    let places = SessionPlaces::new(context.env, home.clone(), false);
    let agents = match command.agent {
        Some(agent) => vec![agent],
        None => vec![ImportAgent::ClaudeCode, ImportAgent::Codex],
    };
    let mut imports: Vec<Import> = Vec::new();
    for agent in agents {
        let destinations = destinations(agent, &home, &project);
        let Some(mut import) = collect(agent, &places, &project) else { continue };
        destinations.compare(&mut import.items);
        if command.agent.is_some() && !command.dry_run {
            destinations.write(&mut import.items);
        }
        imports.push(import);
    }
    if let (Some(agent), []) = (command.agent, imports.as_slice()) {
        let text = format!("no {} files found", agent.label());
        return Err(Failure::new(ExitKind::Input, text).hint(whereabouts(agent)));
    }
    let dry_run = command.dry_run || command.agent.is_none();
    if command.json {
        let mut value = page::json(&imports, dry_run);
        redact_value(&mut value);
        print_result(context.out, &terminal_text::json(format!("{value:#}\n")))?;
    } else {
        let text = match (command.agent, imports.first()) {
            (Some(_), Some(import)) => page::text(import, dry_run),
            _ => page::overview(&imports),
        };
        print_result(context.out, &redacted(&plain(&text)))?;
    }
    let is_failed = |item: &&ImportItem| matches!(item.state, ImportState::Failed(_));
    match imports.iter().flat_map(|import| &import.items).filter(is_failed).count() {
        0 => Ok(()),
        1 => Err(Failure::new(ExitKind::Failure, "1 item could not be written")),
        count => Err(Failure::new(ExitKind::Failure, format!("{count} items could not be written"))),
    }
}

/// Collects the items of a program; `None` if it has no files.
fn collect(agent: ImportAgent, places: &SessionPlaces, project: &Project) -> Option<Import> {
    let store = places.store(agent.store());
    let user = store.as_ref().map(|store| SourceFolder::of_user(store.root.clone()));
    let root = project.root();
    let (folder, others) = match agent {
        ImportAgent::ClaudeCode => (".claude", [".mcp.json", "CLAUDE.md"]),
        ImportAgent::Codex => (".codex", [".codex", "AGENTS.md"]),
    };
    let at_home = same_place(root, places.home.user_home())
        || user.as_ref().is_some_and(|user| same_place(&user.root, &root.join(folder)));
    let is_there = std::iter::once(folder).chain(others).any(|name| root.join(name).exists());
    let of_project = (is_there && !at_home).then(|| SourceFolder::of_project(root.join(folder), root));
    let mut items = Vec::new();
    match (agent, &user) {
        (ImportAgent::ClaudeCode, Some(user)) => {
            claude::user(user, &claude_state(&places.env, &user.root), &mut items);
        }
        (ImportAgent::Codex, Some(user)) => codex::user(user, &mut items),
        (_, None) => {}
    }
    match (agent, &of_project) {
        (ImportAgent::ClaudeCode, Some(source)) => claude::project(source, root, &mut items),
        (ImportAgent::Codex, Some(source)) => codex::project(source, root, &mut items),
        (_, None) => {}
    }
    let sessions = store.map_or(0, |store| store.entries().len());
    (user.is_some() || of_project.is_some()).then_some(Import {
        agent,
        user,
        project: of_project,
        items,
        sessions,
    })
}

/// `.claude.json` is next to the default folder, and inside one that `CLAUDE_CONFIG_DIR` names.
fn claude_state(env: &Env, root: &Path) -> PathBuf {
    match env.non_empty("CLAUDE_CONFIG_DIR") {
        Some(_) => root.join(".claude.json"),
        None => root.with_file_name(".claude.json"),
    }
}

fn destinations(agent: ImportAgent, home: &Home, project: &Project) -> Destinations {
    let rules = format!("imported-{}.toml", agent.word());
    Destinations {
        user: ScopeFiles {
            folder: home.gemini_dir().to_path_buf(),
            settings: home.settings_file(),
            skills: home.skills_dir(),
            rules: home.policies_dir().join(&rules),
            bound: None,
        },
        project: ScopeFiles {
            folder: project.gemini_dir(),
            settings: project.settings_file(),
            skills: project.gemini_dir().join("skills"),
            rules: project.gemini_dir().join("policies").join(&rules),
            bound: Some(project.root().to_path_buf()),
        },
    }
}

fn whereabouts(agent: ImportAgent) -> &'static str {
    match agent {
        ImportAgent::ClaudeCode => "looked in ~/.claude (or CLAUDE_CONFIG_DIR) and in this project",
        ImportAgent::Codex => "looked in ~/.codex (or CODEX_HOME) and in this project",
    }
}

impl Import {
    /// The folders that were read.
    fn folders(&self) -> String {
        let folders = [&self.user, &self.project].into_iter().flatten();
        folders.map(|source| source.root.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests;
