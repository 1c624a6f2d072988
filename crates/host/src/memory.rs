//! The durable memory of a run. If it is off, nothing is built; if it is on, nothing is opened before
//! the first prompt is sent.

mod notes;
mod recorder;
mod tools;
mod vectors;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pollux_config::env::Env;
use pollux_domain::JsonObject;
use pollux_domain::embedding::Embedder;
use pollux_domain::event::{Event, NoticeCode, Severity};
use pollux_domain::time::{Clock, SystemClock};
use pollux_embed::{Choice, EmbedContext, EmbedSettings};
use pollux_memory::{AgentDir, Learnings, Memory, Settings, Setup, Space, StateDir};
use pollux_model::budget::{Meter, MeteredEmbedder};
use pollux_net::client::ClientOptions;
use serde_json::Value;

use super::{Loaded, Prepared};
use crate::VERSION;

pub(crate) use recorder::{MemoryRecorder, TypedText};
pub(crate) use tools::tools;
pub use vectors::failed;

/// The memory of this workspace, opened on first use.
pub struct Recall {
    pub settings: Settings,
    pub agent: AgentDir,
    pub state: StateDir,
    pub workspace: PathBuf,
    /// The visible part of the agent's memory.
    pub space: Space,
    pub trusted: bool,
    /// Synced although it is outside the workspace, because `save_memory` writes there.
    pub context_file: PathBuf,
    pub env: Env,
    pub embed: EmbedSettings,
    pub models: PathBuf,
    pub choice: OnceLock<Choice>,
    pub memory: OnceLock<Memory>,
    /// Pays for embeddings.
    pub(crate) meter: Option<Arc<Meter>>,
}

impl Recall {
    /// `None` without a home directory.
    pub fn new(loaded: &Loaded) -> Option<Self> {
        let (settings, _) = settings(loaded);
        let state = StateDir::locate(&loaded.env)?;
        let cache_dir = settings.local().get("modelCacheDir").and_then(Value::as_str).map(str::trim);
        let models = match cache_dir.filter(|folder| !folder.is_empty()) {
            Some(folder) => in_home(folder, loaded),
            None => state.root().join("models"),
        };
        Some(Self {
            agent: state.agent(&settings.agent),
            workspace: loaded.project.root().to_path_buf(),
            space: if settings.share_across_workspaces { Space::Shared } else { Space::Workspace },
            trusted: loaded.trust.uses_project(),
            context_file: loaded.home.global_context_file("GEMINI.md"),
            env: vectors::own_env(loaded),
            embed: vectors::settings(&settings, loaded),
            settings,
            state,
            models,
            choice: OnceLock::new(),
            memory: OnceLock::new(),
            meter: None,
        })
    }

    pub fn memory(&self) -> &Memory {
        self.memory.get_or_init(|| {
            let mut settings = self.settings.clone();
            settings.extra_paths.push(self.context_file.to_string_lossy().into_owned());
            Memory::new(Setup {
                agent: self.agent.clone(),
                workspace: self.workspace.clone(),
                space: self.space,
                trusted: self.trusted,
                settings,
                embedder: self.embedder(),
                clock: clock(),
            })
        })
    }

    /// What makes vectors, paid by the session's budget.
    fn embedder(&self) -> Option<Arc<dyn Embedder>> {
        let embedder = self.choice().embedder.clone()?;
        Some(match &self.meter {
            Some(meter) => Arc::new(MeteredEmbedder::new(embedder, Arc::clone(meter))),
            None => embedder,
        })
    }

    /// The embedding provider.
    pub fn choice(&self) -> &Choice {
        self.choice.get_or_init(|| {
            let surroundings = EmbedContext {
                env: &self.env,
                client: ClientOptions::from_env(&self.env, format!("pollux/{VERSION}")),
                models: self.models.clone(),
                cache: None,
            };
            pollux_embed::choose(&self.embed, &surroundings)
        })
    }

    pub fn learnings(&self) -> Learnings {
        Learnings::of(&self.agent, &self.workspace, self.space, clock())
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// The settings and problems in them.
pub fn settings(loaded: &Loaded) -> (Settings, Vec<String>) {
    let nothing = JsonObject::new();
    Settings::from_json(loaded.settings.section("memory").as_object().unwrap_or(&nothing))
}

fn in_home(path: &str, loaded: &Loaded) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => loaded.home.user_home().join(rest),
        None => loaded.env.cwd().join(path),
    }
}

/// A key under `memory` that only Pollux has.
pub fn own_setting<'a>(loaded: &'a Loaded, key: &str) -> Option<&'a Value> {
    loaded.settings.get(key).map(|(value, _)| value)
}

/// The memory of a session; `None` if it is off. Problems are warnings, and the session continues
/// without memory.
pub(crate) fn recall(
    turn: &Prepared<'_>,
    meter: &Arc<Meter>,
    warnings: &mut Vec<String>,
) -> Option<Arc<Recall>> {
    let loaded = turn.loaded;
    if own_setting(loaded, "memory.enabled") != Some(&Value::Bool(true)) {
        return None;
    }
    let (_, problems) = settings(loaded);
    warnings.extend(problems);
    let Some(recall) = Recall::new(loaded) else {
        warnings
            .push("Memory is off: no home directory was found and GIMLI_STATE_DIR is not set.".to_owned());
        return None;
    };
    if let Err(error) = recall.agent.prepare() {
        let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        warnings.push(format!("Memory is off for this session: {error}{hint}"));
        return None;
    }
    Some(Arc::new(Recall { meter: Some(Arc::clone(meter)), ..recall }))
}

/// The learnings that fit into the system prompt.
pub fn learnings(recall: &Recall, warnings: &mut Vec<String>) -> Option<String> {
    match recall.learnings().for_context(recall.settings.learnings_tokens) {
        Ok(text) => text,
        Err(error) => {
            warnings.push(format!("could not load the learnings: {error}"));
            None
        }
    }
}

/// A warning about background work.
pub fn notice(message: String) -> Event {
    Event::Notice { severity: Severity::Warning, code: NoticeCode::Workspace, message }
}
