//! The main loop of a session: serves operations from start to end.

use std::collections::VecDeque;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::budget::BudgetChange;
use pollux_domain::content::Part;
use pollux_domain::event::{
    Asked, ConversationView, Event, FrontId, Op, OpResult, Refusal, RefusalCode, TurnEnd,
};
use pollux_domain::session_title;
use pollux_domain::terminals::CommandInput;
use pollux_hooks::{EndReason, Event as Moment};
use pollux_session::TitleWriter;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::approval::ModeRefused;
use crate::authority::Authority;
use crate::consoles::not_running;
use crate::explain::explain;
use crate::hooked::conversation::{end_hooks, start_hooks};
use crate::prompt::Profile;
use crate::room::compress_now;
use crate::services::Services;
use crate::session::Session;
use crate::session::notes::note_end;
use crate::shell_ran::{run_shell, shell_ran};
use crate::spending;
use crate::steering::{self, Steer, Steering};
use crate::toolbox::Toolbox;
use crate::turn::{propose, run_tool, run_turn};

/// The notice with the record of a summary that a rewound conversation begins with.
const REWOUND_TO_SUMMARY: &str = "Rewound. The conversation still begins with the summary.";

/// What takes a turn.
enum Work {
    Prompt { parts: Vec<Part>, typed: String, by: FrontId },
    Propose(Vec<Part>),
    Compress,
    RunTool { name: String, args: JsonObject },
    Shell { command: String, by: FrontId },
}

/// Serves operations until the front end ends the session or disconnects.
pub(super) async fn live(mut session: Session, roots: Vec<PathBuf>, mut inbox: mpsc::Receiver<Asked>) {
    let (id, model) = (session.id.clone(), session.displayed_model());
    let resolved = session.services.client.resolve(session.model()).id;
    let resolved = resolved.strip_prefix("models/").unwrap_or(&resolved).to_owned();
    session.emit(Event::SessionReady { session: id, model, resolved, roots }).await;
    let mut queue: VecDeque<Asked> = VecDeque::new();
    let mut cancelled_early = start(&mut session, &mut inbox, &mut queue).await;
    let mut reason = EndReason::Exit;
    let mut cancelled = false;
    let mut open = true;
    while open {
        let asked = match queue.pop_front() {
            Some(waiting) => Some(waiting),
            None => inbox.recv().await,
        };
        let work = match asked {
            None => break,
            Some(Asked { id, by, op: Op::End { cleared } }) => {
                reason = if cleared { EndReason::Clear } else { EndReason::Exit };
                session.authority.questions.acknowledge(id, by, OpResult::Accepted).await;
                break;
            }
            Some(asked) => serve(&mut session, asked).await,
        };
        let Some(work) = work else { continue };
        let is_prompt = matches!(work, Work::Prompt { .. });
        let (authority, services) = (Arc::clone(&session.authority), Arc::clone(&session.services));
        let cancel = CancellationToken::new();
        if std::mem::take(&mut cancelled_early) {
            cancel.cancel();
        }
        let (events, steering) = (session.emitter.events.clone(), Arc::clone(&session.conversation.steering));
        let (titles, toolbox) = (session.recorder.title_writer(), session.toolbox.clone());
        let plans = session.plans_now().map(Path::to_owned);
        spending::begin_turn(&mut session);
        let end = {
            let turn = run_work(&mut session, work, &cancel);
            tokio::pin!(turn);
            loop {
                tokio::select! {
                    biased;
                    asked = inbox.recv(), if !cancel.is_cancelled() => match asked {
                        Some(asked) => {
                            let by_turn = DuringTurn {
                                authority: &authority,
                                services: &services,
                                events: &events,
                                steering: &steering,
                                titles: &titles,
                                toolbox: &toolbox,
                                plans: plans.as_deref(),
                            };
                            let later = serve_during_turn(asked, &by_turn, &cancel).await;
                            queue.extend(later);
                        }
                        None => {
                            open = false;
                            cancel.cancel();
                        }
                    },
                    end = &mut turn => break end,
                }
            }
        };
        for left in steering.take() {
            session.authority.questions.acknowledge(left.id, left.by, steering::too_late()).await;
        }
        spending::end_turn(&mut session).await;
        let Some(end) = end else { continue };
        cancelled = matches!(end, TurnEnd::Cancelled);
        if is_prompt {
            note_end(&mut session, &end).await;
        }
        let _ = events.send(Event::TurnEnded(end)).await;
    }
    for Asked { id, by, .. } in queue {
        session.authority.questions.acknowledge(id, by, over()).await;
    }
    let recorded = session.recorder.finish();
    session.recorded(recorded).await;
    end(&session, inbox, reason, cancelled).await;
}

/// Runs the SessionStart hooks; operations wait. True if cancelled, which is
/// about the turn that was to follow.
async fn start(
    session: &mut Session,
    inbox: &mut mpsc::Receiver<Asked>,
    queue: &mut VecDeque<Asked>,
) -> bool {
    if !session.services.hooked.listens_to(Moment::SessionStart) {
        return false;
    }
    let cancel = CancellationToken::new();
    let questions = Arc::clone(&session.authority.questions);
    let starting = start_hooks(&session.services.hooked, &mut session.conversation.history, &cancel);
    tokio::pin!(starting);
    loop {
        tokio::select! {
            biased;
            asked = inbox.recv(), if !cancel.is_cancelled() => match asked {
                Some(Asked { id, by, op: Op::Cancel }) => {
                    cancel.cancel();
                    questions.acknowledge(id, by, OpResult::Accepted).await;
                }
                None => cancel.cancel(),
                Some(later) => queue.push_back(later),
            },
            () = &mut starting => return cancel.is_cancelled(),
        }
    }
}

/// Runs the SessionEnd hooks. A cancel, or one before it, keeps that short.
async fn end(session: &Session, mut inbox: mpsc::Receiver<Asked>, reason: EndReason, cancelled: bool) {
    let cancel = CancellationToken::new();
    let ending = end_hooks(&session.services.hooked, reason, cancelled, &cancel);
    tokio::pin!(ending);
    let mut listening = true;
    loop {
        tokio::select! {
            biased;
            asked = inbox.recv(), if listening => match asked {
                Some(Asked { id, by, op: Op::Cancel }) => {
                    cancel.cancel();
                    session.authority.questions.acknowledge(id, by, OpResult::Accepted).await;
                }
                Some(Asked { id, by, .. }) => session.authority.questions.acknowledge(id, by, over()).await,
                None => listening = false,
            },
            () = &mut ending => break,
        }
    }
    inbox.close();
    while let Ok(Asked { id, by, .. }) = inbox.try_recv() {
        session.authority.questions.acknowledge(id, by, over()).await;
    }
}

/// Does what is done at once; what takes a turn is handed back.
async fn serve(session: &mut Session, asked: Asked) -> Option<Work> {
    let Asked { id, by, op } = asked;
    let (result, work) = match op {
        Op::Prompt { parts, typed } => {
            (OpResult::Accepted, Some(Work::Prompt { parts, typed, by: by.clone() }))
        }
        Op::Compress => (OpResult::Accepted, Some(Work::Compress)),
        Op::RunTool { name, args } => (OpResult::Accepted, Some(Work::RunTool { name, args })),
        Op::SetTitle(title) => {
            (set_title(&session.recorder.title_writer(), &session.emitter.events, &title).await, None)
        }
        Op::Explain { name, args } => {
            let (approvals, toolbox) = (&session.authority.approvals, &session.toolbox);
            (explain(approvals, toolbox, session.plans_now(), name, args), None)
        }
        Op::Propose { parts } => (OpResult::Accepted, Some(Work::Propose(parts))),
        Op::Shell { command } if session.services.terminals.is_some() => {
            (OpResult::Accepted, Some(Work::Shell { command, by: by.clone() }))
        }
        Op::Shell { .. } => {
            let text = "shell commands are not available in this session";
            (OpResult::refused(RefusalCode::Unsupported, text), None)
        }
        Op::Steer { .. } => (steering::too_late(), None),
        // Nothing is running, so a cancel succeeds.
        Op::Cancel | Op::End { .. } => (OpResult::Accepted, None),
        Op::Decide { .. } => (too_late(), None),
        Op::Withdraw { .. } => (not_queued(), None),
        Op::SetMode(mode) => (entered(session.authority.enter_mode(mode, Some(&by)).await), None),
        Op::SetModel(name) => (set_model(session, name).await, None),
        Op::Budget(change) => {
            // A summary that could not be paid for may be tried again.
            session.conversation.counters.summary_failed &= change == BudgetChange::Show;
            (spending::change(&session.services, &session.emitter.events, change).await, None)
        }
        Op::ShellRan { command, output } => {
            shell_ran(session, &command, &output).await;
            (OpResult::Accepted, None)
        }
        Op::SetTerminal(size) => (session.services.consoles.set_size(size), None),
        Op::Type { .. } | Op::MoveToBackground { .. } => (not_running(), None),
        Op::Describe => {
            session.follow_mode();
            (OpResult::Conversation(Arc::new(view(session))), None)
        }
        Op::Rewind { to } => (take_back(session, to).await, None),
    };
    session.authority.questions.acknowledge(id, by, result).await;
    work
}

async fn set_model(session: &mut Session, name: String) -> OpResult {
    if let Err(error) = session.choose_model(&name) {
        return OpResult::refused(RefusalCode::NotFound, error.message);
    }
    let name = session.displayed_model();
    session.emit(Event::ModelChanged(name.clone())).await;
    let info = session.services.client.resolve(session.model());
    let profile = Profile::of(&info);
    if profile != session.conversation.prompt.profile {
        session.conversation.prompt.profile = profile;
        session.conversation.instruct(&session.toolbox);
    }
    OpResult::Model { resolved: info.id, name }
}

async fn take_back(session: &mut Session, to: String) -> OpResult {
    match rewind(session, &to) {
        Ok(()) => {
            keep_summary(session).await;
            session.emit(Event::Rewound { to: to.clone() }).await;
            OpResult::Rewound { to }
        }
        Err(refusal) => OpResult::Refused(refusal),
    }
}

fn view(session: &Session) -> ConversationView {
    ConversationView {
        contents: session.conversation.history.contents(),
        prompts: session.conversation.history.prompts(),
        summary: session.conversation.history.summary(),
        tools: session.toolbox.declared().to_vec(),
        model: session.displayed_model(),
        resolved_model: session.services.client.resolve(session.model()).id,
        tokens: session.size(),
        window: session.window(),
    }
}

/// Rewinds to a prompt, in the file first: otherwise a resume would bring the messages back.
fn rewind(session: &mut Session, to: &str) -> Result<(), Refusal> {
    if !session.conversation.history.can_rewind(to) {
        let message = "the conversation no longer has this prompt".to_owned();
        return Err(Refusal { code: RefusalCode::NotFound, message });
    }
    let now = session.now();
    session.recorder.rewind(to, now).map_err(|error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        Refusal { code: RefusalCode::Failed, message: format!("{error}{cause}") }
    })?;
    session.conversation.history.rewind(to);
    session.forget_editor();
    session.conversation.counters.last_request = None;
    Ok(())
}

/// Records the summary again: its record may have been after what was removed from the file, and a resume would bring
/// back the messages that it replaces.
async fn keep_summary(session: &mut Session) {
    let Some(summary) = session.conversation.history.summary() else { return };
    let now = session.now();
    let result = session.recorder.compressed(REWOUND_TO_SUMMARY, summary.next.as_deref(), &summary.text, now);
    session.recorded(result).await;
}

/// `None` for what is no turn.
async fn run_work(session: &mut Session, work: Work, cancel: &CancellationToken) -> Option<TurnEnd> {
    Some(match work {
        Work::Prompt { parts, typed, by } => run_turn(session, parts, typed, by, cancel).await,
        Work::Propose(parts) => propose(session, parts, cancel).await,
        Work::Compress => compress_now(session, cancel).await,
        Work::RunTool { name, args } => run_tool(session, name, args, cancel).await,
        Work::Shell { command, by } => {
            run_shell(session, &command, by, cancel).await;
            return None;
        }
    })
}

/// What operations need while a turn holds the session.
struct DuringTurn<'a> {
    authority: &'a Authority,
    services: &'a Services,
    events: &'a mpsc::Sender<Event>,
    steering: &'a Steering,
    titles: &'a TitleWriter,
    toolbox: &'a Toolbox,
    plans: Option<&'a Path>,
}

/// Does what can be done while a turn runs; what has to wait is handed back.
async fn serve_during_turn(
    asked: Asked,
    session: &DuringTurn<'_>,
    cancel: &CancellationToken,
) -> Option<Asked> {
    let authority = session.authority;
    let Asked { id, by, op } = asked;
    let result = match op {
        Op::Cancel => {
            cancel.cancel();
            OpResult::Accepted
        }
        Op::Decide { call, answer } => {
            if authority.questions.answer(&call, answer, &by) {
                OpResult::Accepted
            } else {
                too_late()
            }
        }
        Op::Steer { parts, typed } => {
            session.steering.add(Steer { id: id.clone(), by: by.clone(), parts, typed })?
        }
        Op::Withdraw { prompt } => match session.steering.withdraw(&prompt, &by) {
            Some(steer) => {
                authority.questions.acknowledge(steer.id, steer.by, steering::withdrawn()).await;
                OpResult::Accepted
            }
            None => not_queued(),
        },
        Op::SetMode(mode) => entered(authority.enter_mode(mode, Some(&by)).await),
        Op::Budget(change) => spending::change(session.services, session.events, change).await,
        Op::SetTitle(title) => set_title(session.titles, session.events, &title).await,
        Op::Explain { name, args } => {
            explain(&authority.approvals, session.toolbox, session.plans, name, args)
        }
        Op::SetTerminal(size) => session.services.consoles.set_size(size),
        Op::Type { call, input } => session.services.consoles.pass(&call, CommandInput::Typed(input)),
        Op::MoveToBackground { call } => {
            session.services.consoles.pass(&call, CommandInput::MoveToBackground)
        }
        Op::End { .. } => {
            cancel.cancel();
            return Some(Asked { id, by, op });
        }
        Op::Prompt { .. }
        | Op::SetModel(_)
        | Op::Describe
        | Op::Rewind { .. }
        | Op::Compress
        | Op::RunTool { .. }
        | Op::Propose { .. }
        | Op::Shell { .. }
        | Op::ShellRan { .. } => return Some(Asked { id, by, op }),
    };
    authority.questions.acknowledge(id, by, result).await;
    None
}

/// Stores a title and tells all front ends.
async fn set_title(titles: &TitleWriter, events: &mpsc::Sender<Event>, title: &str) -> OpResult {
    let title = match session_title::checked(title) {
        Ok(title) => title,
        Err(error) => return OpResult::refused(RefusalCode::Invalid, error.to_string()),
    };
    if let Err(error) = titles.set(title) {
        return OpResult::refused(RefusalCode::Failed, error.to_string());
    }
    let _ = events.send(Event::Titled(title.to_owned())).await;
    OpResult::Accepted
}

fn entered(result: Result<(), ModeRefused>) -> OpResult {
    match result {
        Ok(()) => OpResult::Accepted,
        Err(refused) => OpResult::refused(RefusalCode::Untrusted, refused.to_string()),
    }
}

fn too_late() -> OpResult {
    OpResult::refused(RefusalCode::NotWaiting, "no pending approval for this call")
}

/// A session by itself keeps no queue that a prompt could be taken out of.
fn not_queued() -> OpResult {
    OpResult::refused(RefusalCode::NotFound, "no such prompt in the queue")
}

fn over() -> OpResult {
    OpResult::refused(RefusalCode::Ended, "session has ended")
}
