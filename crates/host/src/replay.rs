//! Runs a recorded session again, against its recorded replies and results.
//!
//! The agent is the real one. Everything around it is made for the replay: the model says what was recorded, every call
//! is answered with its recorded result, and what there is of files is below a temporary folder. Nothing that a capsule
//! says is run, read, looked up or sent: prompts go to the agent as they are, without mentions and slash commands, and
//! there are no hooks, servers, skills, sub-agents, context files or settings.

mod recorded_model;
mod recorded_tool;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use pollux_agent::prompt::PromptInputs;
use pollux_agent::{GrantReach, Handle, Planning, Ports, SessionOver, SessionSpec, open};
use pollux_capsule::{CallEnd, Concealment, RecordedEvent, ReplayStep, SessionRecord, events_of};
use pollux_config::groups::{Context, Model, SessionFormat, Tools};
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::{Content, Part};
use pollux_domain::event::{Event, Op};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_domain::sync::Locked as _;
use pollux_domain::time::{Clock as _, SystemClock};
use pollux_extend::context::{ContextFiles, ContextFolders};
use pollux_policy::load::{Sources, load as load_policy};
use pollux_session::{NewSession, Recorder, SessionKind, load, session_files};
use tokio::sync::mpsc;

use recorded_model::{RecordedModel, Signal, leading_steers};
use recorded_tool::RecordedTool;

/// Outputs are never masked to make room.
const ENOUGH_TOKENS: u64 = 1 << 60;

/// Runs a session again; the events that it records, counted from `first`.
pub async fn replay(record: &SessionRecord, first: usize) -> Result<Vec<RecordedEvent>, Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ExitKind::Failure, "could not replay the session").because(error)
    };
    let folder =
        tempfile::Builder::new().prefix("pollux-replay-").tempdir().map_err(|error| failed(&error))?;
    let chats = folder.path().join("chats");
    let (signals, wanted) = mpsc::unbounded_channel();
    let steps: Steps = Arc::new(Mutex::new(record.replay.iter().cloned().collect()));
    let model = RecordedModel::new(Arc::clone(&steps), signals);
    let mut handle = start(folder.path(), model, results(record)).map_err(|error| failed(&error))?;
    run(&mut handle, &steps, wanted).await.map_err(|error| failed(&error))?;
    let Handle { ops, mut events, task, .. } = handle;
    drop(ops);
    while events.recv().await.is_some() {}
    task.await.map_err(|error| failed(&error))?;
    // Without a prompt there is no file.
    let Some(file) = session_files(&[chats]).into_iter().next() else { return Ok(Vec::new()) };
    let session = load(&file).map_err(|error| failed(&error))?;
    Ok(events_of(&session, &Concealment::Keep, first))
}

/// The steps that are left.
type Steps = Arc<Mutex<VecDeque<ReplayStep>>>;

/// The recorded results of all calls, in order.
fn results(record: &SessionRecord) -> Vec<CallEnd> {
    let of_step = |step: &ReplayStep| match step {
        ReplayStep::Reply { results, .. } => results.clone(),
        ReplayStep::Prompt(_) | ReplayStep::Steer(_) => Vec::new(),
    };
    record.replay.iter().flat_map(of_step).collect()
}

fn start(
    folder: &Path,
    model: RecordedModel,
    results: Vec<CallEnd>,
) -> Result<Handle, pollux_session::RecordError> {
    let (work, temp) = (folder.join("work"), folder.join("temp"));
    let session = SessionId::random();
    let recorder = Recorder::create(NewSession {
        id: session.clone(),
        project_hash: String::new(),
        chats_dir: folder.join("chats"),
        format: SessionFormat::Json,
        kind: SessionKind::Main,
        now: SystemClock.now(),
    })?;
    let places = ContextFolders {
        gemini_dir: folder.join("home"),
        project_temp: temp.clone(),
        roots: vec![work.clone()],
        trusted: false,
        homes: Vec::new(),
    };
    let policy = pollux_policy::engine::Options { workspaces: vec![work.clone()], ..Default::default() };
    let spec = SessionSpec {
        session,
        interactive: false,
        // The recorded result says whether a call was allowed.
        approval: ApprovalMode::Yolo,
        model: Model {
            name: "replay".to_owned(),
            compression_threshold: 1.0,
            mask_protected_tokens: ENOUGH_TOKENS,
            mask_min_prunable_tokens: ENOUGH_TOKENS,
            ..Model::default()
        },
        tools: Tools::default(),
        policy: Arc::new(load_policy(&Sources::default(), policy)),
        trusted: true,
        grants: GrantReach::default(),
        planning: Planning::Off,
        temp_dir: temp,
        prompt: PromptInputs::default(),
        first_turn: Content::user_text("<session_context>A replay.</session_context>"),
        restored: Vec::new(),
        roots: vec![work],
        alternatives: Vec::new(),
    };
    let ports = Ports {
        model: Arc::new(model),
        budget: None,
        tools: vec![Arc::new(RecordedTool::new(results))],
        late_tools: None,
        session_tools: None,
        terminals: None,
        editor: None,
        clock: Arc::new(SystemClock),
        recorder,
        context: ContextFiles::new(places, &Context::default()),
        checkers: None,
        changes: None,
        hooks: None,
        observer: None,
        agents: None,
    };
    Ok(open(spec, ports))
}

/// Sends every prompt. A turn that has no more recorded replies is cancelled, as it was when it was recorded.
async fn run(
    handle: &mut Handle,
    steps: &Steps,
    mut wanted: mpsc::UnboundedReceiver<Signal>,
) -> Result<(), SessionOver> {
    while let Some((prompt, steers)) = next_prompt(steps) {
        handle.ops.send(Op::Prompt { parts: vec![Part::text(&prompt)], typed: prompt }).await?;
        steer(handle, steers).await?;
        loop {
            tokio::select! {
                biased;
                event = handle.events.recv() => match event {
                    None => return Err(SessionOver),
                    Some(Event::TurnEnded(_)) => break,
                    // The reply was unusable; the next one does not belong to the same request.
                    Some(Event::AttemptDiscarded(_)) => cancel(handle).await?,
                    Some(_) => {}
                },
                Some(signal) = wanted.recv() => match signal {
                    Signal::NoReplyLeft => cancel(handle).await?,
                    Signal::Steer { texts, sent } => {
                        steer(handle, texts).await?;
                        // The model waits for it, unless its request was cancelled.
                        let _ = sent.send(());
                    }
                },
            }
        }
    }
    Ok(())
}

async fn cancel(handle: &Handle) -> Result<(), SessionOver> {
    handle.ops.send(Op::Cancel).await?;
    Ok(())
}

async fn steer(handle: &Handle, texts: Vec<String>) -> Result<(), SessionOver> {
    for text in texts {
        handle.ops.send(Op::Steer { parts: vec![Part::text(&text)], typed: text }).await?;
    }
    Ok(())
}

/// The next prompt and what was said right after it. Replies that the last turn did not use are passed over.
fn next_prompt(steps: &Steps) -> Option<(String, Vec<String>)> {
    let mut steps = steps.locked();
    while let Some(step) = steps.pop_front() {
        match step {
            // What no turn took along begins one.
            ReplayStep::Prompt(prompt) | ReplayStep::Steer(prompt) => {
                return Some((prompt, leading_steers(&mut steps)));
            }
            ReplayStep::Reply { .. } => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
