//! From the first operation to the last.

use std::collections::VecDeque;
use std::sync::Arc;

use pollux_domain::content::Part;
use pollux_domain::event::{Event, Op, TurnEnd};
use pollux_hooks::{EndReason, Event as Moment};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Session;

/// What takes a turn.
enum Work {
    Prompt(Vec<Part>, String),
    Propose(Vec<Part>),
    Compress,
}

impl Session {
    /// Serves operations until the front end ends the session or is gone.
    pub(super) async fn live(mut self, mut inbox: mpsc::Receiver<Op>) {
        let (session, model) = (self.id.clone(), self.model_settings.name.clone());
        self.emit(Event::SessionReady { session, model }).await;
        let mut queue: VecDeque<Op> = VecDeque::new();
        let mut cancelled_early = self.start(&mut inbox, &mut queue).await;
        let mut reason = EndReason::Exit;
        let mut hurried = false;
        let mut open = true;
        while open {
            let op = match queue.pop_front() {
                Some(waiting) => Some(waiting),
                None => inbox.recv().await,
            };
            let work = match op {
                None => break,
                Some(Op::End { cleared }) => {
                    reason = if cleared { EndReason::Clear } else { EndReason::Exit };
                    break;
                }
                Some(op) => self.serve(op).await,
            };
            let Some(work) = work else { continue };
            let is_prompt = matches!(work, Work::Prompt(..));
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
                        op = inbox.recv(), if !cancel.is_cancelled() => match op {
                            Some(Op::Cancel) => cancel.cancel(),
                            Some(Op::Decide { call, answer }) => desk.answer(&call, answer),
                            Some(Op::SetMode(mode)) => approvals.enter(mode, &desk).await,
                            Some(op @ Op::End { .. }) => {
                                queue.push_back(op);
                                cancel.cancel();
                            }
                            Some(later) => queue.push_back(later),
                            None => {
                                open = false;
                                cancel.cancel();
                            }
                        },
                        end = &mut turn => break end,
                    }
                }
            };
            hurried = matches!(end, TurnEnd::Cancelled);
            if is_prompt {
                self.note_end(&end).await;
            }
            let _ = events.send(Event::TurnEnded(end)).await;
        }
        self.end(inbox, reason, hurried).await;
    }

    /// Lets hooks see the session begin; what is asked meanwhile waits. True if somebody cancelled, which is
    /// about the turn that was to follow.
    async fn start(&mut self, inbox: &mut mpsc::Receiver<Op>, queue: &mut VecDeque<Op>) -> bool {
        if !self.hooked.listens_to(Moment::SessionStart) {
            return false;
        }
        let cancel = CancellationToken::new();
        let starting = self.start_hooks(&cancel);
        tokio::pin!(starting);
        loop {
            tokio::select! {
                biased;
                op = inbox.recv(), if !cancel.is_cancelled() => match op {
                    Some(Op::Cancel) | None => cancel.cancel(),
                    Some(later) => queue.push_back(later),
                },
                () = &mut starting => return cancel.is_cancelled(),
            }
        }
    }

    /// Lets hooks see the session end. A cancel, or one before it, keeps that short.
    async fn end(&self, mut inbox: mpsc::Receiver<Op>, reason: EndReason, hurried: bool) {
        let cancel = CancellationToken::new();
        let ending = self.end_hooks(reason, hurried, &cancel);
        tokio::pin!(ending);
        let mut listening = true;
        loop {
            tokio::select! {
                biased;
                op = inbox.recv(), if listening => match op {
                    Some(Op::Cancel) => cancel.cancel(),
                    Some(_) => {}
                    None => listening = false,
                },
                () = &mut ending => return,
            }
        }
    }

    /// Does what is done at once; what takes a turn is handed back.
    async fn serve(&mut self, op: Op) -> Option<Work> {
        match op {
            Op::Prompt { parts, typed } => return Some(Work::Prompt(parts, typed)),
            Op::Compress => return Some(Work::Compress),
            Op::Propose { parts } => return Some(Work::Propose(parts)),
            // An answer that comes too late has nobody to go to.
            Op::Cancel | Op::Decide { .. } | Op::End { .. } => {}
            Op::SetMode(mode) => self.approvals.enter(mode, &self.desk).await,
            Op::SetModel(name) => {
                self.model_settings.name.clone_from(&name);
                if let Some(host) = &self.host {
                    host.set_model(&name);
                }
                self.emit(Event::ModelChanged(name)).await;
            }
            Op::ShellRan { command, output } => self.shell_ran(&command, &output).await,
            Op::Describe => {
                self.follow_mode();
                self.emit(Event::Conversation(Arc::new(self.view()))).await;
            }
            Op::Rewind { to } => {
                let problem = self.rewind(&to).err();
                self.emit(Event::Rewound { to, problem }).await;
            }
        }
        None
    }

    async fn work(&mut self, work: Work, cancel: &CancellationToken) -> TurnEnd {
        match work {
            Work::Prompt(parts, typed) => self.run_turn(parts, typed, cancel).await,
            Work::Propose(parts) => self.propose(parts, cancel).await,
            Work::Compress => self.compress_now(cancel).await,
        }
    }
}
