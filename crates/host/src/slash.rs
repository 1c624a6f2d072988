//! Operations behind slash commands: rewind, checkpoints, skills, background tasks and the memory file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pollux_domain::JsonObject;
use pollux_domain::content::{Content, FunctionCall, Part, Role};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::sync::Locked as _;
use pollux_domain::time::{Clock, SystemClock};
use pollux_domain::tool::{ToolContext, ToolOutcome};
use pollux_exec::background::read_log_tail;
use pollux_exec::shell::Ending;
use pollux_rewind::checkpoint::{self, Checkpoint, RESTORED};
use pollux_rewind::{Conflicts, RewindPlan};
use pollux_session::{Recorder, load, log_prompt};
use pollux_tools::save_memory;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::session_model::check_local;
use super::{Chosen, Conversation, Loaded, Prepared, Services, extensions, rewind, skills, workspace};

/// The plan of a file rewind.
pub struct FilePlan {
    plan: RewindPlan,
    /// Readable lines; empty if there is nothing to do.
    pub lines: Vec<String>,
    pub has_steps: bool,
    pub has_conflicts: bool,
}

/// A background process.
pub struct Task {
    pub pid: u32,
    pub command: String,
    pub state: String,
    /// Its last lines of output.
    pub tail: Vec<String>,
}

/// Number of output lines shown.
const TAIL: usize = 15;

impl Loaded {
    /// A path as the user typed it.
    pub fn place(&self, given: &str) -> PathBuf {
        match given.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                self.home.user_home().join(rest.trim_start_matches('/'))
            }
            _ => self.env.cwd().join(given),
        }
    }
}

/// Adds a fact to the user's context file, like `save_memory`; returns the file.
pub async fn remember(fact: &str, loaded: &Loaded) -> Result<PathBuf, String> {
    let file = loaded.home.global_context_file("GEMINI.md");
    let args = JsonObject::from_iter([("fact".to_owned(), Value::from(fact))]);
    let call = save_memory(file.clone()).prepare(&args).map_err(|error| error.0)?;
    let context = ToolContext {
        call: CallId::from_file("memory-add"),
        cancel: CancellationToken::new(),
        must_ask: false,
        live: Arc::new(|_: &str| ()),
        terminal: None,
    };
    match call.run(&context).await {
        ToolOutcome::Done(_) => Ok(file),
        ToolOutcome::Failed(failure) => Err(failure.message),
        ToolOutcome::Refused(why) => Err(why),
        ToolOutcome::Cancelled { .. } => Err("Nothing was saved.".to_owned()),
    }
}

/// A restored checkpoint.
pub struct Restored {
    /// The conversation at the checkpoint.
    pub turns: Vec<Content>,
    /// The call that was about to run.
    pub proposal: Vec<Part>,
    pub message: &'static str,
}

impl Prepared<'_> {
    /// Switches to a new session; the current one stays unchanged.
    pub fn begin_anew(&mut self) {
        self.session = Chosen::new(SessionId::random());
    }

    /// Checks that a session can be resumed, before the current one is left.
    pub fn check_session(&self, file: &Path) -> Result<(), String> {
        let problem = |error: &dyn std::error::Error| format!("Could not resume the session: {error}");
        let session = load(file).map_err(|error| problem(&error))?;
        check_local(self.loaded, &session).map_err(|text| format!("Could not resume the session: {text}"))?;
        Recorder::resume(&session).map(drop).map_err(|error| problem(&error))
    }

    /// Logs a typed prompt (`logs.json`). Returns the first failure in a project, for the user; the prompt is sent
    /// anyway.
    pub fn log_prompt(&self, typed: &str) -> Option<String> {
        let temp = self.loaded.project.temp_dir();
        let error = log_prompt(temp, &self.session.id, typed, SystemClock.now()).err()?;
        first_failure(temp, &error)
    }
}

/// The message about a failure, once per project: the next prompt would fail as well.
fn first_failure(temp: &Path, error: &dyn std::error::Error) -> Option<String> {
    static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let is_first = TOLD.locked().insert(temp.to_owned());
    is_first.then(|| {
        let text = error.to_string();
        let cause = error.source().map(|cause| format!(": {cause}")).filter(|cause| !text.ends_with(cause));
        format!("prompts are missing from the prompt history: {text}{}", cause.unwrap_or_default())
    })
}

impl Conversation {
    /// Plans the file rewind to the state before the first of these prompts.
    pub async fn plan_rewind(&self, prompts: Vec<String>) -> Result<FilePlan, String> {
        let plan = self.change_recorder.plan(prompts).await?;
        Ok(FilePlan {
            lines: rewind::plan_lines(&plan),
            has_steps: !plan.steps.is_empty(),
            has_conflicts: !plan.conflicts.is_empty(),
            plan,
        })
    }

    /// Restores files, conflicting ones only with `overwrite`; returns a report.
    pub async fn apply_rewind(&self, plan: FilePlan, overwrite: bool) -> Result<Vec<String>, String> {
        let conflicts = if overwrite { Conflicts::Overwrite } else { Conflicts::Keep };
        let applied = self.change_recorder.apply(plan.plan, conflicts).await?;
        Ok(rewind::applied_lines(&applied))
    }

    /// Whether checkpoints are enabled.
    pub fn makes_checkpoints(&self) -> bool {
        self.change_recorder.shadow().is_some()
    }

    /// The checkpoints listed by `/restore`.
    pub fn restorable(&self) -> Result<String, String> {
        let Some(shadow) = self.change_recorder.shadow() else { return Ok(checkpoint::listing(&[])) };
        let names = checkpoint::list(shadow.folder()).map_err(|error| error.to_string())?;
        Ok(checkpoint::listing(&names))
    }

    /// Restores the project to a checkpoint.
    pub async fn restore(&self, name: &str) -> Result<Restored, String> {
        let Some(shadow) = self.change_recorder.shadow() else { return Err(checkpoint::listing(&[])) };
        let found = checkpoint::read(shadow.folder(), name).map_err(|error| error.to_string())?;
        if let Some(commit) = &found.commit {
            shadow.restore(commit).await?;
        }
        let (turns, proposal) = conversation_of(&found);
        Ok(Restored { turns, proposal, message: RESTORED })
    }

    /// All skills, as listed; `None` if skills are disabled.
    pub fn skills(&self) -> Option<Vec<skills::SkillRow>> {
        Some(self.services.skills.as_ref()?.skills().all.iter().map(skills::row).collect())
    }

    /// Reloads skills; returns how many were added and removed.
    pub fn reload_skills(&self, loaded: &Loaded) -> Option<(usize, usize, Vec<String>)> {
        let found = skills::find(loaded);
        let warnings = found.warnings.iter().map(ToString::to_string).collect();
        let change = self.services.skills.as_ref()?.replace(found);
        Some((change.added, change.removed, warnings))
    }

    /// The number of context files, MCP servers and skills.
    pub fn counts(&self, loaded: &Loaded) -> [usize; 3] {
        let files = self.memory(loaded).matches("--- Context from: ").count();
        let servers = self.services.servers.as_deref().map_or(0, |servers| servers.reports().len());
        let own = |row: &skills::SkillRow| row.enabled && row.origin != "built-in";
        [files, servers, self.skills().map_or(0, |rows| rows.iter().filter(|row| own(row)).count())]
    }

    /// The context files for a new conversation.
    pub fn memory(&self, loaded: &Loaded) -> String {
        let mut context = workspace::context_files(loaded, &self.services.workspace);
        let of_extensions = context.extensions(&extensions::context_files(loaded).0);
        let parts = [context.global(), of_extensions, context.project(), context.private()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    /// Background processes, running or finished, oldest first.
    pub fn tasks(&self) -> Vec<Task> {
        self.services.tasks()
    }

    /// Stops one of them; false if it had already ended.
    pub async fn end_task(&self, pid: u32) -> bool {
        self.services.background.end(pid).await
    }

    /// The folders that belong to the workspace.
    pub fn directories(&self) -> &[PathBuf] {
        self.services.workspace.directories()
    }
}

/// The conversation of a checkpoint and the call to propose. The model's text next to the call is
/// part of the proposal.
fn conversation_of(checkpoint: &Checkpoint) -> (Vec<Content>, Vec<Part>) {
    let turns = checkpoint.client_history.as_ref().and_then(Value::as_array).into_iter().flatten();
    let mut turns: Vec<Content> = turns.filter(|turn| turn.is_object()).map(Content::from_json).collect();
    let asks = |turn: &Content| turn.role == Role::Model && turn.calls().next().is_some();
    let mut proposal: Vec<Part> = Vec::new();
    let mut signature = None;
    if turns.last().is_some_and(asks)
        && let Some(last) = turns.pop()
    {
        let same =
            last.parts.iter().find(|part| part.as_call().is_some_and(|call| call.name == checkpoint.tool));
        signature = same.and_then(|part| part.seal.clone());
        proposal.extend(last.parts.into_iter().filter(|part| part.as_call().is_none()));
    }
    let call = FunctionCall::new(None, checkpoint.tool.clone(), checkpoint.args.clone());
    let mut part = Part::call(call);
    part.seal = signature;
    proposal.push(part);
    (turns, proposal)
}

impl Services {
    /// Background processes, running or finished, oldest first.
    pub fn tasks(&self) -> Vec<Task> {
        let state = |ending: Option<Ending>| match ending {
            None => "runs".to_owned(),
            Some(Ending::Exited(code)) => format!("exit code {code}"),
            Some(Ending::Signalled(signal)) => format!("signal {signal}"),
            Some(Ending::Cancelled | Ending::Inactive) => "ended".to_owned(),
        };
        let listed = self.background.list().into_iter();
        listed
            .map(|process| Task {
                pid: process.pid,
                state: state(process.ending),
                tail: read_log_tail(&process.log, TAIL).map(|tail| tail.lines).unwrap_or_default(),
                command: process.command,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_cannot_be_written_is_reported_once_per_project() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        let session = SessionId::random();
        for temp in [&one, &other] {
            std::fs::create_dir_all(temp.join("logs.json")).unwrap();
            let error = log_prompt(temp, &session, "x", SystemClock.now()).unwrap_err();
            let said = first_failure(temp, &error).unwrap();
            assert!(
                said.starts_with("prompts are missing from the prompt history: could not read `"),
                "{said}"
            );
            assert_eq!(said.matches("directory").count(), 1, "{said}");
            assert_eq!(first_failure(temp, &error), None);
        }
    }
}
