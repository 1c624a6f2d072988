//! Upstream's checkpoints (`general.checkpointing.enabled`): a commit and a file before an edit is approved.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::changes::ImpendingCall;
use pollux_domain::content::{Content, Part, Role};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock};
use pollux_domain::tool::Effect;
use pollux_exec::background::Background;
use pollux_rewind::checkpoint::{self, Checkpoint};
use pollux_rewind::shadow::{ShadowError, ShadowRepository, ShadowSetup};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::Loaded;
use crate::helpers::{git, helper, with_safe_path};

/// The tools whose calls get a checkpoint; upstream's.
const EDITORS: [&str; 2] = ["write_file", "replace"];

/// The shadow repository of a project and its checkpoint files.
pub(crate) struct CheckpointStore {
    repository: ShadowRepository,
    folder: PathBuf,
}

/// Opens the shadow repository if the setting is on; requires git (exit code 1). Checkpoints belong to approvals, so
/// headless runs do not create one.
pub(crate) async fn open_shadow(
    loaded: &Loaded,
    background: &Arc<Background>,
    interactive: bool,
) -> Result<Option<CheckpointStore>, Failure> {
    let failed = |error: &ShadowError| Failure::from_error(ExitKind::Failure, error);
    if !loaded.groups.general.checkpointing {
        return Ok(None);
    }
    if !interactive {
        return if helper("git", &loaded.env).is_some() {
            Ok(None)
        } else {
            Err(failed(&ShadowError::GitMissing))
        };
    }
    let project = &loaded.project;
    let name = project.temp_dir().file_name().unwrap_or_default();
    let setup = ShadowSetup {
        folder: loaded.home.history_dir().join(name),
        root: project.root().to_path_buf(),
        environment: with_safe_path(loaded.command_env(), &loaded.env),
        git: git(&loaded.env).into_os_string(),
    };
    let repository = ShadowRepository::open(setup, Arc::clone(background), &CancellationToken::new()).await;
    let repository = repository.map_err(|error| failed(&error))?;
    Ok(Some(CheckpointStore { repository, folder: project.temp_dir().join("checkpoints") }))
}

impl CheckpointStore {
    /// The folder of the checkpoint files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Saves the project's state and the call that is about to be approved.
    pub(super) async fn checkpoint(
        &self,
        call: &ImpendingCall<'_>,
        history: &[Arc<Content>],
    ) -> Result<(), String> {
        let Effect::Edit(path) = call.effect else { return Ok(()) };
        if !EDITORS.contains(&call.tool) {
            return Ok(());
        }
        let failed = |error: &dyn std::fmt::Display| format!("could not create a checkpoint: {error}");
        let commit = self.repository.snapshot(call.tool, &CancellationToken::new()).await;
        let checkpoint = Checkpoint {
            history: Some(shown(history)),
            client_history: Some(history.iter().map(|turn| turn.to_json()).collect()),
            tool: call.tool.to_owned(),
            args: call.args.clone(),
            commit: Some(commit.map_err(|error| failed(&error))?),
            message_id: Some(call.prompt_id.to_owned()),
        };
        let name = checkpoint::file_name(SystemClock.now(), path, call.tool);
        checkpoint::write(&self.folder, &name, &checkpoint).map(|_| ()).map_err(|error| failed(&error))
    }

    /// Restores the work tree to a commit.
    pub(crate) async fn restore(&self, commit: &str) -> Result<(), String> {
        self.repository.restore(commit, &CancellationToken::new()).await.map_err(|error| error.to_string())
    }
}

/// The conversation in upstream's display format.
fn shown(history: &[Arc<Content>]) -> Value {
    let spoken = history.iter().skip(1).filter_map(|turn| {
        let text: String = turn.parts.iter().filter_map(Part::spoken_text).collect();
        let kind = if turn.role == Role::User { "user" } else { "gemini" };
        (!text.is_empty()).then_some((kind, text))
    });
    spoken.enumerate().map(|(id, (kind, text))| json!({"id": id + 1, "type": kind, "text": text})).collect()
}
