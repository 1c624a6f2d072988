//! What slash commands need of the adapters.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::content::{Content, FunctionCall, Part, Role};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::time::{Clock, SystemClock};
use pollux_domain::tool::{ToolContext, ToolOutcome};
use pollux_exec::background::read_log_tail;
use pollux_exec::shell::Ending;
use pollux_rewind::checkpoint::{self, Checkpoint, RESTORED};
use pollux_rewind::{Conflicts, Plan};
use pollux_session::{Recorder, load, log_prompt};
use pollux_tools::save_memory;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Chosen, Conversation, Loaded, Prepared, extensions, rewind, skills, workspace};

/// What a rewind of files would do.
pub struct FilePlan {
    plan: Plan,
    /// For people; empty when there is nothing to do.
    pub lines: Vec<String>,
    pub has_steps: bool,
    pub has_conflicts: bool,
}

/// A process in the background.
pub struct Task {
    pub pid: u32,
    pub command: String,
    pub state: String,
    /// The last lines that it printed.
    pub tail: Vec<String>,
}

/// How many lines of a process are shown.
const TAIL: usize = 15;

impl Loaded {
    /// A path as somebody types it.
    pub fn place(&self, given: &str) -> PathBuf {
        match given.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                self.home.user_home().join(rest.trim_start_matches('/'))
            }
            _ => self.env.cwd().join(given),
        }
    }
}

/// Puts a fact into the user's own context file, as `save_memory` does; says where.
pub async fn remember(fact: &str, loaded: &Loaded) -> Result<PathBuf, String> {
    let file = loaded.home.global_context_file("GEMINI.md");
    let args = JsonObject::from_iter([("fact".to_owned(), Value::from(fact))]);
    let call = save_memory(file.clone()).prepare(&args).map_err(|error| error.0)?;
    let context = ToolContext {
        call: CallId::from_file("memory-add"),
        cancel: CancellationToken::new(),
        must_ask: false,
        live: Arc::new(|_: &str| ()),
    };
    match call.run(&context).await {
        ToolOutcome::Done(_) => Ok(file),
        ToolOutcome::Failed(failure) => Err(failure.message),
        ToolOutcome::Refused(why) => Err(why),
        ToolOutcome::Cancelled { .. } => Err("Nothing was remembered.".to_owned()),
    }
}

/// A checkpoint that was restored.
pub struct Restored {
    /// What the conversation was.
    pub turns: Vec<Content>,
    /// The call that was about to run.
    pub proposal: Vec<Part>,
    pub message: &'static str,
}

impl Prepared<'_> {
    /// Another session from now on; this one stays as it is.
    pub fn begin_anew(&mut self) {
        self.session = Chosen::new(SessionId::random());
    }

    /// Why a session cannot be gone on with; asked before the present one is left.
    pub fn check_session(&self, file: &Path) -> Result<(), String> {
        let problem = |error: &dyn std::error::Error| format!("The session cannot be gone on with: {error}");
        let session = load(file).map_err(|error| problem(&error))?;
        Recorder::resume(&session).map(drop).map_err(|error| problem(&error))
    }

    /// Notes what a person typed (`logs.json`). A log that cannot be written is no reason to stop.
    pub fn log_prompt(&self, typed: &str) {
        let temp = self.loaded.project.temp_dir();
        let _ = log_prompt(temp, &self.session.id, typed, SystemClock.now());
    }
}

impl Conversation {
    /// What it takes to bring the files back to the moment before the first of these prompts.
    pub async fn plan_rewind(&self, prompts: Vec<String>) -> Result<FilePlan, String> {
        let plan = self.keeper.plan(prompts).await?;
        Ok(FilePlan {
            lines: rewind::plan_lines(&plan),
            has_steps: !plan.steps.is_empty(),
            has_conflicts: !plan.conflicts.is_empty(),
            plan,
        })
    }

    /// Brings files back; conflicting ones only with `overwrite`. What was done, in lines.
    pub async fn apply_rewind(&self, plan: FilePlan, overwrite: bool) -> Result<Vec<String>, String> {
        let conflicts = if overwrite { Conflicts::Overwrite } else { Conflicts::Keep };
        let applied = self.keeper.apply(plan.plan, conflicts).await?;
        Ok(rewind::applied_lines(&applied))
    }

    /// Whether checkpoints are made at all.
    pub fn makes_checkpoints(&self) -> bool {
        self.keeper.shadow().is_some()
    }

    /// What `/restore` lists.
    pub fn restorable(&self) -> Result<String, String> {
        let Some(shadow) = self.keeper.shadow() else { return Ok(checkpoint::listing(&[])) };
        let names = checkpoint::list(shadow.folder()).map_err(|error| error.to_string())?;
        Ok(checkpoint::listing(&names))
    }

    /// Puts the project back to a checkpoint.
    pub async fn restore(&self, name: &str) -> Result<Restored, String> {
        let Some(shadow) = self.keeper.shadow() else { return Err(checkpoint::listing(&[])) };
        let found = checkpoint::read(shadow.folder(), name).map_err(|error| error.to_string())?;
        if let Some(commit) = &found.commit {
            shadow.restore(commit).await?;
        }
        let (turns, proposal) = conversation_of(&found);
        Ok(Restored { turns, proposal, message: RESTORED })
    }

    /// Every skill, as a list shows them; `None` where skills are switched off.
    pub fn skills(&self) -> Option<Vec<skills::Row>> {
        Some(self.outside.skills.as_ref()?.skills().all.iter().map(skills::row).collect())
    }

    /// Looks for skills anew; how many came and went.
    pub fn reload_skills(&self, loaded: &Loaded) -> Option<(usize, usize, Vec<String>)> {
        let found = skills::find(loaded);
        let warnings = found.warnings.iter().map(ToString::to_string).collect();
        let change = self.outside.skills.as_ref()?.replace(found);
        Some((change.added, change.removed, warnings))
    }

    /// How many context files, MCP servers and skills there are.
    pub fn counts(&self, loaded: &Loaded) -> [usize; 3] {
        let files = self.memory(loaded).matches("--- Context from: ").count();
        let servers = self.outside.servers.as_deref().map_or(0, |servers| servers.reports().len());
        let own = |row: &skills::Row| row.enabled && row.origin != "built-in";
        [files, servers, self.skills().map_or(0, |rows| rows.iter().filter(|row| own(row)).count())]
    }

    /// The context files as a new conversation would have them.
    pub fn memory(&self, loaded: &Loaded) -> String {
        let mut context = workspace::context_files(loaded, &self.outside.workspace);
        let of_extensions = context.extensions(&extensions::context_files(loaded).0);
        let parts = [context.global(), of_extensions, context.project(), context.private()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    /// What runs in the background, or ran, oldest first.
    pub fn tasks(&self) -> Vec<Task> {
        let state = |ending: Option<Ending>| match ending {
            None => "runs".to_owned(),
            Some(Ending::Exited(code)) => format!("exit code {code}"),
            Some(Ending::Signalled(signal)) => format!("signal {signal}"),
            Some(Ending::Cancelled | Ending::Inactive) => "ended".to_owned(),
        };
        let listed = self.outside.background.list().into_iter();
        listed
            .map(|process| Task {
                pid: process.pid,
                state: state(process.ending),
                tail: read_log_tail(&process.log, TAIL).map(|tail| tail.lines).unwrap_or_default(),
                command: process.command,
            })
            .collect()
    }

    /// Ends one of them; false if it had ended.
    pub async fn end_task(&self, pid: u32) -> bool {
        self.outside.background.end(pid).await
    }

    /// The folders that belong to the workspace.
    pub fn directories(&self) -> &[PathBuf] {
        self.outside.workspace.directories()
    }
}

/// The conversation of a checkpoint and the call to propose. What the model said when it asked for the call is
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
