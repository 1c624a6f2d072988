//! Records what the tool calls of one session change. Nothing is opened or scanned before a call needs it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pollux_config::groups::Rewind;
use pollux_config::paths::{Home, Project};
use pollux_domain::BoxFuture;
use pollux_domain::changes::{Changes, ImpendingCall};
use pollux_domain::content::Content;
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::sync::Locked as _;
use pollux_domain::tool::Effect;
use pollux_rewind::{Applied, ChangeScope, Conflicts, Journal, Point, RewindPlan};
use tokio::task::spawn_blocking;

use super::CheckpointStore;

/// The change recorder of one session.
pub(crate) struct ChangeRecorder {
    journal: Arc<LateJournal>,
    /// Whether to snapshot the whole workspace around shell commands.
    shell_commands: bool,
    /// Calls in progress that are recorded.
    begun: Mutex<HashSet<String>>,
    /// A failure is reported once.
    told: AtomicBool,
    shadow: Option<CheckpointStore>,
}

/// A journal that is opened on first use.
struct LateJournal {
    home: Home,
    project: Project,
    session: SessionId,
    settings: Rewind,
    opened: Mutex<Option<Arc<Journal>>>,
    /// Prompts not in the journal yet.
    prompts: Mutex<Vec<String>>,
}

impl ChangeRecorder {
    /// Creates a recorder; if disabled by settings, it only makes checkpoints.
    pub(crate) fn new(
        home: &Home,
        project: &Project,
        session: &SessionId,
        settings: &Rewind,
        shadow: Option<CheckpointStore>,
    ) -> Self {
        let journal = LateJournal {
            home: home.clone(),
            project: project.clone(),
            session: session.clone(),
            settings: settings.clone(),
            opened: Mutex::default(),
            prompts: Mutex::default(),
        };
        Self {
            journal: Arc::new(journal),
            shell_commands: settings.shell_commands,
            begun: Mutex::default(),
            told: AtomicBool::new(false),
            shadow,
        }
    }

    pub(crate) fn shadow(&self) -> Option<&CheckpointStore> {
        self.shadow.as_ref()
    }

    /// Plans the rewind to the state before the first of these prompts.
    pub(crate) async fn plan(&self, prompts: Vec<String>) -> Result<RewindPlan, String> {
        let late = Arc::clone(&self.journal);
        blocking(move || match late.existing()? {
            None => Ok(RewindPlan::default()),
            Some(journal) => super::plan_from(&journal, &prompts).map_err(|error| error.to_string()),
        })
        .await
    }

    pub(crate) async fn apply(&self, plan: RewindPlan, conflicts: Conflicts) -> Result<Applied, String> {
        let late = Arc::clone(&self.journal);
        blocking(move || {
            let journal = late.journal()?;
            journal.apply(&plan, conflicts).map_err(|error| error.to_string())
        })
        .await
    }

    fn reach(&self, call: &ImpendingCall<'_>) -> ChangeScope {
        if !self.journal.settings.enabled {
            return ChangeScope::Nothing;
        }
        let (own, root) = (self.journal.home.gemini_dir(), self.journal.project.root());
        match call.effect {
            // Notes and plans in Pollux's own folder are no files of the workspace that a rewind is about.
            Effect::Edit(path) if path.starts_with(own) && !path.starts_with(root) => ChangeScope::Nothing,
            Effect::Edit(path) => ChangeScope::File(path.clone()),
            _ if call.reads_only || !self.shell_commands => ChangeScope::Nothing,
            Effect::Execute { .. } | Effect::Read(_) | Effect::Fetch(_) | Effect::Dialog | Effect::None => {
                ChangeScope::Workspace
            }
        }
    }

    /// The message for the first failure.
    fn failure(&self, error: &str) -> Vec<String> {
        if self.told.swap(true, Ordering::Relaxed) {
            return Vec::new();
        }
        vec![format!("changes made by tool calls cannot be undone: {error}")]
    }
}

impl Changes for ChangeRecorder {
    fn prompt(&self, message: &str) {
        self.journal.prompts.locked().push(message.to_owned());
    }

    fn asked<'a>(
        &'a self,
        call: &'a ImpendingCall<'a>,
        history: &'a [Arc<Content>],
    ) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            match &self.shadow {
                Some(shadow) => shadow.checkpoint(call, history).await.err().into_iter().collect(),
                None => Vec::new(),
            }
        })
    }

    fn before<'a>(&'a self, call: &'a ImpendingCall<'a>) -> BoxFuture<'a, Vec<String>> {
        let reach = self.reach(call);
        if reach == ChangeScope::Nothing {
            return Box::pin(std::future::ready(Vec::new()));
        }
        let point = Point {
            call: call.call.as_str().to_owned(),
            prompt: call.message.to_owned(),
            tool: call.tool.to_owned(),
        };
        let late = Arc::clone(&self.journal);
        Box::pin(async move {
            let waiter = Waiter::default();
            let gone = Arc::clone(&waiter.gone);
            let call = point.call.clone();
            let kept = blocking(move || {
                let journal = late.journal()?;
                let coverage = journal.before(&point, reach).map_err(|error| error.to_string())?;
                // The call was abandoned and does not run, so later changes are not its own.
                if gone.load(Ordering::SeqCst) {
                    let _ = journal.after(&point.call);
                }
                Ok(coverage)
            })
            .await;
            drop(waiter);
            match kept {
                Ok(coverage) => {
                    self.begun.locked().insert(call);
                    coverage.notice().into_iter().collect()
                }
                Err(error) => self.failure(&error),
            }
        })
    }

    fn after<'a>(&'a self, call: &'a CallId) -> BoxFuture<'a, Vec<String>> {
        if !self.begun.locked().remove(call.as_str()) {
            return Box::pin(std::future::ready(Vec::new()));
        }
        let late = Arc::clone(&self.journal);
        let call = call.as_str().to_owned();
        Box::pin(async move {
            let ended =
                blocking(move || late.journal()?.after(&call).map(|_| ()).map_err(|error| error.to_string()));
            ended.await.err().map(|error| self.failure(&error)).unwrap_or_default()
        })
    }
}

impl LateJournal {
    /// The journal, including all prompts so far.
    fn journal(&self) -> Result<Arc<Journal>, String> {
        let mut opened = self.opened.locked();
        let journal = match &*opened {
            Some(journal) => Arc::clone(journal),
            None => {
                let journal = super::open_journal(&self.home, &self.project, &self.session, &self.settings);
                Arc::clone(opened.insert(Arc::new(journal.map_err(|error| error.to_string())?)))
            }
        };
        let prompts = std::mem::take(&mut *self.prompts.locked());
        for prompt in &prompts {
            journal.prompt(prompt).map_err(|error| error.to_string())?;
        }
        Ok(journal)
    }

    /// The journal, unless nothing was recorded for this project.
    fn existing(&self) -> Result<Option<Arc<Journal>>, String> {
        let is_there = self.opened.locked().is_some() || super::store(&self.project, &self.session).is_dir();
        if is_there { self.journal().map(Some) } else { Ok(None) }
    }
}

/// Detects that the waiting future was dropped.
#[derive(Default)]
struct Waiter {
    gone: Arc<AtomicBool>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::SeqCst);
    }
}

/// Runs blocking work on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}
