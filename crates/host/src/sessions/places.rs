//! Locates sessions of this project, of other projects and of other agents.

use std::path::{Path, PathBuf};

use pollux_catalogue::{Catalogue, Filter, Origin, Refreshed, Source, Stage};
use pollux_config::env::Env;
use pollux_config::paths::{Home, Project};
use pollux_domain::terminal_text::one_line;
use pollux_foreign::{ForeignAgent, ForeignStore};
use pollux_session::{KnownProject, known_projects};

use crate::progress::Gauge;
use crate::sessions::{SessionSource, Wanted};

/// Maximum number of unreadable files to list.
const MAX_NAMED: usize = 5;

/// The session folders as seen from this project.
#[derive(Debug, Clone)]
pub struct SessionPlaces {
    pub env: Env,
    pub home: Home,
    pub project: Project,
    /// Whether to show progress.
    pub watched: bool,
}

impl SessionPlaces {
    pub fn new(env: &Env, home: Home, watched: bool) -> Self {
        let project = Project::locate(&home, env.cwd());
        Self { env: env.clone(), home, project, watched }
    }

    /// All projects in the home; the root of the current one is always known.
    pub fn projects(&self) -> Vec<KnownProject> {
        let mut projects = known_projects(&self.home);
        let is_here = |project: &KnownProject| project.hash.as_deref() == Some(self.project.hash());
        if let Some(here) = projects.iter_mut().find(|project| is_here(project)) {
            here.root.get_or_insert_with(|| self.project.root().to_owned());
        }
        projects
    }

    /// All folders with Pollux sessions.
    pub fn chats_dirs(&self) -> Vec<PathBuf> {
        self.projects().into_iter().flat_map(|project| project.chats_dirs).collect()
    }

    /// The existing session stores of other agents.
    pub fn stores(&self) -> Vec<ForeignStore> {
        let user_home = self.env.non_empty("HOME").map_or(self.home.user_home(), Path::new);
        let named = |variable: &str, usual: &str| match self.env.non_empty(variable) {
            Some(folder) => self.env.cwd().join(folder),
            None => user_home.join(usual),
        };
        let stores = [
            (ForeignAgent::Claude, named("CLAUDE_CONFIG_DIR", ".claude")),
            (ForeignAgent::Codex, named("CODEX_HOME", ".codex")),
            (ForeignAgent::OpenCode, named("XDG_DATA_HOME", ".local/share").join("opencode")),
        ];
        let there = stores.into_iter().filter(|(_, root)| root.is_dir());
        there.map(|(agent, root)| ForeignStore::new(agent, root)).collect()
    }

    pub fn store(&self, agent: ForeignAgent) -> Option<ForeignStore> {
        self.stores().into_iter().find(|store| store.agent == agent)
    }

    /// The filter for a list or a search.
    pub fn sources(&self, wanted: &Wanted) -> Vec<Source> {
        let mut sources = Vec::new();
        if wanted.source.is_none_or(|source| !source.is_foreign()) {
            if wanted.all_projects {
                sources.extend(self.projects().into_iter().map(Source::from));
            } else {
                let root = Some(self.project.root().to_owned());
                sources.push(Source::Own { project: root, dirs: self.project.read_chat_dirs().to_vec() });
            }
        }
        let fits = |store: &ForeignStore| {
            wanted.source.is_none_or(|source| origin(source) == Origin::Foreign(store.agent))
        };
        sources.extend(self.stores().into_iter().filter(fits).map(Source::Foreign));
        sources
    }

    pub fn filter(&self, wanted: &Wanted) -> Filter {
        let mut projects = Vec::new();
        if !wanted.all_projects {
            projects.push(self.project.root().to_owned());
            projects.extend(self.project.root().canonicalize());
        }
        Filter {
            projects,
            origin: wanted.source.map(origin),
            include_subagents: wanted.subagents,
            ..Filter::default()
        }
    }

    pub fn index_file(&self) -> PathBuf {
        self.home.gemini_dir().join("pollux").join("catalogue.db")
    }

    /// Opens the index; in memory without a home, since read operations create no folders.
    pub fn open_catalogue(&self) -> Catalogue {
        if self.home.gemini_dir().is_dir() {
            Catalogue::open(&self.index_file())
        } else {
            Catalogue::in_memory()
        }
    }

    /// Refreshes the index.
    pub fn refresh(&self, catalogue: &mut Catalogue, sources: &[Source]) -> Refreshed {
        let mut gauge = Gauge::new(self.watched);
        catalogue.refresh(sources, &mut |progress| {
            gauge.step("Reading sessions", progress.done, progress.total);
        })
    }

    pub fn refresh_texts(&self, catalogue: &mut Catalogue) {
        let mut gauge = Gauge::new(self.watched);
        catalogue.refresh_texts(&mut |progress| {
            let what = match progress.stage {
                Stage::Sessions => "Reading sessions",
                Stage::Texts => "Indexing words",
            };
            gauge.step(what, progress.done, progress.total);
        });
    }

    /// Whether a file is in a folder of this project.
    pub fn is_here(&self, file: &Path) -> bool {
        let dirs = self.project.read_chat_dirs();
        file.parent().is_some_and(|folder| dirs.iter().any(|dir| dir == folder))
    }
}

pub fn origin(source: SessionSource) -> Origin {
    match source {
        SessionSource::Gemini => Origin::Own,
        SessionSource::Claude => Origin::Foreign(ForeignAgent::Claude),
        SessionSource::Codex => Origin::Foreign(ForeignAgent::Codex),
        SessionSource::OpenCode => Origin::Foreign(ForeignAgent::OpenCode),
    }
}

/// The command-line name of an origin.
pub fn source_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Own => SessionSource::Gemini.as_str(),
        Origin::Foreign(agent) => agent.as_str(),
    }
}

/// Warnings about files that look like sessions but cannot be read.
pub fn unreadable(files: &[(PathBuf, String)]) -> Vec<String> {
    let mut lines: Vec<String> = files
        .iter()
        .take(MAX_NAMED)
        .map(|(path, reason)| {
            let path = path.to_string_lossy();
            let named = if reason.contains(path.as_ref()) { String::new() } else { format!("`{path}`: ") };
            format!("Warning: {}", one_line(&format!("{named}{reason}")))
        })
        .collect();
    if files.len() > MAX_NAMED {
        lines.push(format!("Warning: {} more files could not be read", files.len() - MAX_NAMED));
    }
    lines
}
