//! State and helpers that all file tools share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pollux_config::groups::FileFiltering;
use pollux_domain::time::Clock;
use pollux_domain::tool::{ArgError, ToolContext, ToolErrorKind, ToolOutcome};
use tokio_util::sync::CancellationToken;

use crate::SandboxSlot;
use crate::ToolSetup;
use crate::arguments::Arguments;
use crate::ignore_rules::{IgnoreRules, Respect};
use crate::workspace::{Location, SaveError, Workspace};

/// The workspace with its ignore rules.
pub(crate) struct FileScope {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) rules: IgnoreRules,
    pub(crate) respect: Respect,
    pub(crate) clock: Arc<dyn Clock>,
    sandbox: SandboxSlot,
}

impl FileScope {
    pub(crate) fn new(setup: &ToolSetup) -> Self {
        let own = Self::of(Arc::clone(&setup.workspace), &setup.filtering, Arc::clone(&setup.clock));
        Self { sandbox: setup.sandbox.clone(), ..own }
    }

    pub(crate) fn of(workspace: Arc<Workspace>, filtering: &FileFiltering, clock: Arc<dyn Clock>) -> Self {
        let rules = IgnoreRules::new(workspace.directories(), &filtering.custom_ignore_files);
        let respect = Respect { git: filtering.respect_git_ignore, gemini: filtering.respect_gemini_ignore };
        Self { workspace, rules, respect, clock, sandbox: SandboxSlot::default() }
    }

    /// Resolves and tests a path argument.
    pub(crate) fn locate(&self, given: &str) -> Result<Location, ArgError> {
        self.workspace.locate(given).map_err(|refusal| ArgError(refusal.to_string()))
    }

    /// Writes a file. Informs the sandbox, which would otherwise attribute a new `.vscode` to a command.
    pub(crate) fn save(&self, location: &Location, content: &[u8]) -> Result<(), SaveError> {
        if let Some(sandbox) = self.sandbox.get() {
            sandbox.permit(location.path());
        }
        self.workspace.save(location, content)
    }

    /// The settings, unless the call overrides them.
    pub(crate) fn respect_in(&self, options: Option<Arguments<'_>>) -> Result<Respect, ArgError> {
        let Some(options) = options else { return Ok(self.respect) };
        Ok(Respect {
            git: options.flag("respect_git_ignore")?.unwrap_or(self.respect.git),
            gemini: options.flag("respect_gemini_ignore")?.unwrap_or(self.respect.gemini),
        })
    }
}

/// Runs long work on its own thread; it is cancelled when the caller is gone.
pub(crate) async fn on_thread(
    context: &ToolContext,
    work: impl FnOnce(&CancellationToken) -> ToolOutcome + Send + 'static,
) -> ToolOutcome {
    let token = context.cancel.child_token();
    let _guard = token.clone().drop_guard();
    let task = tokio::task::spawn_blocking(move || work(&token));
    task.await.unwrap_or_else(|error| {
        ToolOutcome::failed(
            ToolErrorKind::UnhandledException,
            format!("the tool stopped unexpectedly: {error}"),
        )
    })
}

/// Looks at a file for a preview: at once, or on a thread that may wait if an editor is asked.
pub(crate) async fn looked_at<T: Send + 'static>(
    scope: &Arc<FileScope>,
    location: &Location,
    look: fn(&FileScope, &Location) -> T,
) -> Option<T> {
    if !scope.workspace.has_editor() {
        return Some(look(scope, location));
    }
    let (scope, location) = (Arc::clone(scope), location.clone());
    tokio::task::spawn_blocking(move || look(&scope, &location)).await.ok()
}

/// Runs short work at once. A panic ends the call, not the session.
pub(crate) fn at_once(work: impl FnOnce() -> ToolOutcome) -> ToolOutcome {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        ToolOutcome::failed(ToolErrorKind::UnhandledException, "the tool stopped unexpectedly")
    })
}
