//! From the first operation to the last.

use std::collections::VecDeque;
use std::sync::Arc;

use pollux_domain::content::Part;
use pollux_domain::event::{Asked, Event, FrontId, Op, OpResult, RefusalCode, TurnEnd};
use pollux_hooks::{EndReason, Event as Moment};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Session;
use crate::approval::{Approvals, ModeRefused};
use crate::desk::Desk;

/// What takes a turn.
enum Work {
    Prompt { parts: Vec<Part>, typed: String, by: FrontId },
    Propose(Vec<Part>),
    Compress,
    Shell { command: String, by: FrontId },
}

impl Session {
    /// Serves operations until the front end ends the session or is gone.
    pub(super) async fn live(mut self, mut inbox: mpsc::Receiver<Asked>) {
        let (session, model) = (self.id.clone(), self.model_settings.name.clone());
        let roots = std::mem::take(&mut self.roots);
        self.emit(Event::SessionReady { session, model, roots }).await;
        let mut queue: VecDeque<Asked> = VecDeque::new();
        let mut cancelled_early = self.start(&mut inbox, &mut queue).await;
        let mut reason = EndReason::Exit;
        let mut hurried = false;
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
                    self.desk.acknowledge(id, by, OpResult::Accepted).await;
                    break;
                }
                Some(asked) => self.serve(asked).await,
            };
            let Some(work) = work else { continue };
            let is_prompt = matches!(work, Work::Prompt { .. });
            let (desk, approvals) = (Arc::clone(&self.desk), Arc::clone(&self.approvals));
            let cancel = CancellationToken::new();
            if std::mem::take(&mut cancelled_early) {
                cancel.cancel();
            }
            let events = self.events.clone();
            let end = {
                let turn = self.work(work, &cancel);
                tokio::pin!(turn);
                loop {
                    tokio::select! {
                        biased;
                        asked = inbox.recv(), if !cancel.is_cancelled() => match asked {
                            Some(asked) => {
                                let later = serve_beside(asked, &desk, &approvals, &cancel).await;
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
            let Some(end) = end else { continue };
            hurried = matches!(end, TurnEnd::Cancelled);
            if is_prompt {
                self.note_end(&end).await;
            }
            let _ = events.send(Event::TurnEnded(end)).await;
        }
        for Asked { id, by, .. } in queue {
            self.desk.acknowledge(id, by, over()).await;
        }
        self.end(inbox, reason, hurried).await;
    }

    /// Lets hooks see the session begin; what is asked meanwhile waits. True if somebody cancelled, which is
    /// about the turn that was to follow.
    async fn start(&mut self, inbox: &mut mpsc::Receiver<Asked>, queue: &mut VecDeque<Asked>) -> bool {
        if !self.hooked.listens_to(Moment::SessionStart) {
            return false;
        }
        let cancel = CancellationToken::new();
        let desk = Arc::clone(&self.desk);
        let starting = self.start_hooks(&cancel);
        tokio::pin!(starting);
        loop {
            tokio::select! {
                biased;
                asked = inbox.recv(), if !cancel.is_cancelled() => match asked {
                    Some(Asked { id, by, op: Op::Cancel }) => {
                        cancel.cancel();
                        desk.acknowledge(id, by, OpResult::Accepted).await;
                    }
                    None => cancel.cancel(),
                    Some(later) => queue.push_back(later),
                },
                () = &mut starting => return cancel.is_cancelled(),
            }
        }
    }

    /// Lets hooks see the session end. A cancel, or one before it, keeps that short.
    async fn end(&self, mut inbox: mpsc::Receiver<Asked>, reason: EndReason, hurried: bool) {
        let cancel = CancellationToken::new();
        let ending = self.end_hooks(reason, hurried, &cancel);
        tokio::pin!(ending);
        let mut listening = true;
        loop {
            tokio::select! {
                biased;
                asked = inbox.recv(), if listening => match asked {
                    Some(Asked { id, by, op: Op::Cancel }) => {
                        cancel.cancel();
                        self.desk.acknowledge(id, by, OpResult::Accepted).await;
                    }
                    Some(Asked { id, by, .. }) => self.desk.acknowledge(id, by, over()).await,
                    None => listening = false,
                },
                () = &mut ending => break,
            }
        }
        inbox.close();
        while let Ok(Asked { id, by, .. }) = inbox.try_recv() {
            self.desk.acknowledge(id, by, over()).await;
        }
    }

    /// Does what is done at once; what takes a turn is handed back.
    async fn serve(&mut self, asked: Asked) -> Option<Work> {
        let Asked { id, by, op } = asked;
        let (result, work) = match op {
            Op::Prompt { parts, typed } => {
                (OpResult::Accepted, Some(Work::Prompt { parts, typed, by: by.clone() }))
            }
            Op::Compress => (OpResult::Accepted, Some(Work::Compress)),
            Op::Propose { parts } => (OpResult::Accepted, Some(Work::Propose(parts))),
            Op::Shell { command } if self.terminals.is_some() => {
                (OpResult::Accepted, Some(Work::Shell { command, by: by.clone() }))
            }
            Op::Shell { .. } => {
                let text = "this session runs no commands of a person's own";
                (OpResult::refused(RefusalCode::Unsupported, text), None)
            }
            // There is nothing to stop, which is what was wished for.
            Op::Cancel | Op::End { .. } => (OpResult::Accepted, None),
            Op::Decide { .. } => (too_late(), None),
            Op::Withdraw { .. } => (not_queued(), None),
            Op::SetMode(mode) => (entered(self.approvals.enter(mode, &self.desk, Some(&by)).await), None),
            Op::SetModel(name) => (self.set_model(name).await, None),
            Op::ShellRan { command, output } => {
                self.shell_ran(&command, &output).await;
                (OpResult::Accepted, None)
            }
            Op::Describe => {
                self.follow_mode();
                (OpResult::Conversation(Arc::new(self.view())), None)
            }
            Op::Rewind { to } => (self.take_back(to).await, None),
        };
        self.desk.acknowledge(id, by, result).await;
        work
    }

    async fn set_model(&mut self, name: String) -> OpResult {
        self.model_settings.name.clone_from(&name);
        if let Some(host) = &self.host {
            host.set_model(&name);
        }
        self.emit(Event::ModelChanged(name.clone())).await;
        OpResult::Model { resolved: self.client.resolve(&name).id, name }
    }

    async fn take_back(&mut self, to: String) -> OpResult {
        match self.rewind(&to) {
            Ok(()) => {
                self.emit(Event::Rewound { to: to.clone() }).await;
                OpResult::Rewound { to }
            }
            Err(refusal) => OpResult::Refused(refusal),
        }
    }

    /// `None` for what is no turn.
    async fn work(&mut self, work: Work, cancel: &CancellationToken) -> Option<TurnEnd> {
        Some(match work {
            Work::Prompt { parts, typed, by } => self.run_turn(parts, typed, by, cancel).await,
            Work::Propose(parts) => self.propose(parts, cancel).await,
            Work::Compress => self.compress_now(cancel).await,
            Work::Shell { command, by } => {
                self.run_shell(&command, by, cancel).await;
                return None;
            }
        })
    }
}

/// Does what can be done while a turn runs; what has to wait is handed back.
async fn serve_beside(
    asked: Asked,
    desk: &Desk,
    approvals: &Approvals,
    cancel: &CancellationToken,
) -> Option<Asked> {
    let Asked { id, by, op } = asked;
    let result = match op {
        Op::Cancel => {
            cancel.cancel();
            OpResult::Accepted
        }
        Op::Decide { call, answer } => {
            if desk.answer(&call, answer, &by) {
                OpResult::Accepted
            } else {
                too_late()
            }
        }
        Op::Withdraw { .. } => not_queued(),
        Op::SetMode(mode) => entered(approvals.enter(mode, desk, Some(&by)).await),
        Op::End { .. } => {
            cancel.cancel();
            return Some(Asked { id, by, op });
        }
        Op::Prompt { .. }
        | Op::SetModel(_)
        | Op::Describe
        | Op::Rewind { .. }
        | Op::Compress
        | Op::Propose { .. }
        | Op::Shell { .. }
        | Op::ShellRan { .. } => return Some(Asked { id, by, op }),
    };
    desk.acknowledge(id, by, result).await;
    None
}

fn entered(result: Result<(), ModeRefused>) -> OpResult {
    match result {
        Ok(()) => OpResult::Accepted,
        Err(refused) => OpResult::refused(RefusalCode::Untrusted, refused.to_string()),
    }
}

fn too_late() -> OpResult {
    OpResult::refused(RefusalCode::NotWaiting, "no call waits for this answer")
}

/// A session by itself keeps no queue that a prompt could be taken out of.
fn not_queued() -> OpResult {
    OpResult::refused(RefusalCode::NotFound, "no such prompt waits")
}

fn over() -> OpResult {
    OpResult::refused(RefusalCode::Ended, "the session is over")
}
