//! The host at the other end: its prompts, its answers, and what waits for it.
//!
//! [`Peer`] is shared by the task that reads lines and by the front end of the conversation. It holds what the protocol
//! needs and no state of the session.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, ApprovalRequest};
use pollux_domain::event::{Op, RequestId, TurnEnd};
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::id::CallId;
use pollux_front::input::{Input, Typed};
use pollux_front::stdio::Driver;
use tokio::sync::{mpsc, oneshot};

use crate::host_tools::{HostAnswer, HostTools, PendingCall};
use crate::incoming::{Unusable, When};
use crate::voice::Voice;

/// Messages that may wait for the running turn.
const MAX_QUEUED: usize = 16;
/// What the model reads about a call that nobody can approve any more.
const NOT_ANSWERED: &str = "The user did not answer in time.";

/// The host, as the rest of this crate sees it.
pub(crate) struct Peer {
    pub(crate) voice: RefCell<Box<dyn Voice>>,
    pub(crate) tools: Arc<HostTools>,
    input: mpsc::UnboundedSender<Input>,
    pub(crate) state: RefCell<PeerState>,
    approval_timeout: Option<Duration>,
}

#[derive(Default)]
pub(crate) struct PeerState {
    /// What the conversation carries out.
    current: Option<Current>,
    queue: VecDeque<Queued>,
    approvals: HashMap<CallId, Arc<ApprovalRequest>>,
    /// Questions of commands, by the id that stands for a call.
    questions: HashMap<String, oneshot::Sender<Vec<String>>>,
    host_calls: HashMap<String, oneshot::Sender<HostAnswer>>,
    /// Operations that wait for their acknowledgement, with the host's id.
    asked: HashMap<RequestId, Option<String>>,
    next_id: u64,
    pub(crate) facts: Facts,
    /// The host sends nothing more.
    input_ended: bool,
    /// The program ends after the current turn, whatever is queued.
    is_leaving: bool,
    /// The exit code of the last turn.
    exit: Option<ExitKind>,
    /// The exit code of a signal, which has the last word.
    signal: Option<ExitKind>,
}

/// What the host may ask for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) session: String,
    pub(crate) mode: ApprovalMode,
    /// The mode that the session started with.
    pub(crate) granted: ApprovalMode,
    pub(crate) model: String,
    pub(crate) yolo_is_off: bool,
    pub(crate) is_trusted: bool,
}

/// A message that waits.
struct Queued {
    id: Option<String>,
    typed: Typed,
}

/// A message that is carried out.
#[derive(Default)]
pub(crate) struct Current {
    pub(crate) id: Option<String>,
    /// It runs a tool and not the model.
    pub(crate) is_call: bool,
    /// The conversation has it.
    is_taken: bool,
    was_interrupted: bool,
    /// How its turn ended, if there was one.
    pub(crate) end: Option<TurnEnd>,
    /// Why there was none.
    pub(crate) failure: Option<String>,
}

impl Current {
    /// How it ended, if the conversation is done with it.
    pub(crate) fn outcome(&self) -> Result<TurnEnd, String> {
        match (&self.end, &self.failure) {
            (Some(end), _) => Ok(end.clone()),
            (None, _) if self.was_interrupted => Ok(TurnEnd::Cancelled),
            (None, Some(failure)) => Err(failure.clone()),
            (None, None) => Ok(TurnEnd::Finished(None)),
        }
    }
}

impl Peer {
    pub(crate) fn new(
        voice: Box<dyn Voice>,
        tools: Arc<HostTools>,
        input: mpsc::UnboundedSender<Input>,
        approval_timeout: Option<Duration>,
    ) -> Rc<Self> {
        let state = RefCell::default();
        Rc::new(Self { voice: RefCell::new(voice), tools, input, state, approval_timeout })
    }

    fn send(&self, input: Input) {
        // A conversation that has ended reads nothing.
        let _ = self.input.send(input);
    }

    /// Reports a message that cannot be used.
    pub(crate) fn refuse(&self, unusable: &Unusable) {
        self.voice.borrow().problem(unusable);
    }

    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        state.current.is_none() && state.queue.is_empty()
    }

    /// Submits the prompts that came before the session could take any.
    pub(crate) fn release(&self) {
        let prompts = self.voice.borrow_mut().released();
        for prompt in prompts {
            let Some(prompt) = prompt else { return self.input_ended() };
            if let Err(unusable) = self.submit(prompt, None, None) {
                self.refuse(&unusable);
            }
        }
    }

    /// Starts a prompt or a command, or queues it.
    pub(crate) fn submit(
        &self,
        typed: Typed,
        id: Option<String>,
        when: Option<When>,
    ) -> Result<(), Unusable> {
        let busy = |message: &str, id| Unusable { code: "BUSY", message: message.to_owned(), id };
        if self.is_idle() {
            self.start(Queued { id, typed });
            return Ok(());
        }
        let mut state = self.state.borrow_mut();
        if when == Some(When::Now) {
            return Err(busy("a turn is running", id));
        }
        if state.queue.len() >= MAX_QUEUED {
            return Err(busy("too many queued messages", id));
        }
        state.queue.push_back(Queued { id: id.clone(), typed });
        let position = state.queue.len();
        drop(state);
        self.voice.borrow().queued(id, position);
        Ok(())
    }

    fn start(&self, queued: Queued) {
        let Queued { id, typed } = queued;
        let is_call = typed.call.is_some();
        self.state.borrow_mut().current = Some(Current { id, is_call, ..Current::default() });
        self.send(Input::Prompt(Box::new(typed)));
    }

    /// Cancels the running turn; nothing if none runs.
    pub(crate) fn interrupt(&self) {
        let mut state = self.state.borrow_mut();
        state.questions.clear();
        let Some(current) = &mut state.current else { return };
        current.was_interrupted = true;
        drop(state);
        self.send(Input::Interrupt);
    }

    /// Sends an operation; a refusal is reported under the host's id.
    pub(crate) fn ask(&self, op: Op, id: Option<String>) -> RequestId {
        let request = RequestId::new(format!("stream-{}", self.next_id()));
        self.state.borrow_mut().asked.insert(request.clone(), id);
        self.send(Input::Ask(request.clone(), op));
        request
    }

    /// A number that was not used before.
    pub(crate) fn next_id(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.next_id += 1;
        state.next_id
    }

    /// Whether an acknowledgement is for the host, and the host's id.
    pub(crate) fn acknowledged(&self, request: &RequestId) -> Option<Option<String>> {
        self.state.borrow_mut().asked.remove(request)
    }

    /// Changes the mode, unless it is forbidden here.
    pub(crate) fn set_mode(&self, mode: ApprovalMode, id: Option<String>) -> Result<RequestId, Unusable> {
        let forbidden = {
            let facts = &self.state.borrow().facts;
            pollux_host::forbidden_mode(mode, facts.granted, facts.yolo_is_off, facts.is_trusted)
        };
        match forbidden {
            Some(why) => Err(Unusable { code: "NOT_ALLOWED", message: why.to_owned(), id }),
            None => Ok(self.ask(Op::SetMode(mode), id)),
        }
    }

    /// A call waits for the host.
    pub(crate) fn approval_wanted(self: &Rc<Self>, request: &Arc<ApprovalRequest>) {
        let at_once = self.voice.borrow_mut().approval(request);
        let call = request.call.clone();
        if let Some(answer) = at_once {
            return self.send(Input::Decide { call, answer });
        }
        if self.state.borrow().input_ended {
            // Nobody will answer.
            self.leave_after_turn();
            return self.send(Input::Decide { call, answer: ApprovalAnswer::Cancel });
        }
        self.state.borrow_mut().approvals.insert(call.clone(), Arc::clone(request));
        let Some(limit) = self.approval_timeout else { return };
        let peer = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(limit).await;
            let Some(peer) = peer.upgrade() else { return };
            if peer.state.borrow_mut().approvals.remove(&call).is_some() {
                peer.send(Input::Decide { call, answer: ApprovalAnswer::Refuse(NOT_ANSWERED.to_owned()) });
            }
        });
    }

    pub(crate) fn approval_settled(&self, call: &CallId) {
        self.state.borrow_mut().approvals.remove(call);
    }

    /// The request that waits under this id.
    pub(crate) fn waiting(&self, call: &str) -> Option<Arc<ApprovalRequest>> {
        let state = self.state.borrow();
        state.approvals.values().find(|request| request.call.as_str() == call).cloned()
    }

    /// The host answers an approval request.
    pub(crate) fn decide(&self, call: &str, answer: ApprovalAnswer) -> Result<(), Unusable> {
        let not = |code, message: &str| Unusable { code, message: message.to_owned(), id: None };
        if let Some(asked) = self.state.borrow_mut().questions.remove(call) {
            let replies = if let ApprovalAnswer::Replies(replies) = answer { replies } else { Vec::new() };
            let _ = asked.send(replies);
            return Ok(());
        }
        let Some(request) = self.waiting(call) else {
            return Err(not("NOT_WAITING", "no pending approval for this call"));
        };
        if !request.offers(&answer) {
            return Err(not("NOT_OFFERED", "answer not among the offered choices"));
        }
        let call = request.call.clone();
        self.state.borrow_mut().approvals.remove(&call);
        self.send(Input::Decide { call, answer });
        Ok(())
    }

    /// Asks a question of a command; `None` if it cannot be asked, or is refused.
    pub(crate) fn question(
        &self,
        question: &pollux_domain::approval::Question,
    ) -> Option<oneshot::Receiver<Vec<String>>> {
        let is_busy = self.is_busy() && !self.state.borrow().input_ended;
        if !is_busy || !self.voice.borrow().has_questions() {
            return None;
        }
        let id = format!("question-{}", self.next_id());
        let (sender, receiver) = oneshot::channel();
        self.voice.borrow().question(&id, question);
        self.state.borrow_mut().questions.insert(id, sender);
        Some(receiver)
    }

    /// A call of a host tool.
    pub(crate) fn host_call(&self, pending: PendingCall) {
        let mut state = self.state.borrow_mut();
        // Without an answer the call fails at once.
        if state.input_ended {
            return;
        }
        self.voice.borrow().host_call(&pending);
        // Calls whose turn was cancelled are forgotten.
        state.host_calls.retain(|_, answer| !answer.is_closed());
        state.host_calls.insert(pending.call, pending.answer);
    }

    /// The host answers a call of its tool.
    pub(crate) fn tool_result(&self, call: &str, answer: HostAnswer) -> Result<(), Unusable> {
        let waiting = self.state.borrow_mut().host_calls.remove(call);
        match waiting.map(|waiting| waiting.send(answer)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(Unusable {
                code: "NOT_WAITING",
                message: "no pending call of a host tool with this id".to_owned(),
                id: None,
            }),
        }
    }

    /// The host sends nothing more: what it sent is finished, and what waits for it is refused.
    pub(crate) fn input_ended(&self) {
        let mut state = self.state.borrow_mut();
        if state.input_ended {
            return;
        }
        state.input_ended = true;
        state.questions.clear();
        state.host_calls.clear();
        let calls: Vec<CallId> = state.approvals.drain().map(|(call, _)| call).collect();
        drop(state);
        if !calls.is_empty() {
            self.leave_after_turn();
        }
        for call in calls {
            self.send(Input::Decide { call, answer: ApprovalAnswer::Cancel });
        }
        if self.is_idle() {
            self.send(Input::Leave);
        }
    }

    /// The host closed its end of our output: nobody will see the rest.
    pub(crate) fn gone(&self) {
        self.leave_after_turn();
        self.send(Input::Gone);
    }

    /// A signal that also reaches the conversation.
    pub(crate) fn signalled(&self, received: Received) {
        self.leave_after_turn();
        let mut state = self.state.borrow_mut();
        state.signal = Some(received.exit());
        state.questions.clear();
    }

    /// Drops what is queued, so that the program ends with the running turn.
    fn leave_after_turn(&self) {
        let mut state = self.state.borrow_mut();
        state.is_leaving = true;
        state.queue.clear();
    }
}

impl Driver for Peer {
    fn is_busy(&self) -> bool {
        self.state.borrow().current.as_ref().is_some_and(|current| current.is_taken)
    }

    fn taken(&self) {
        if let Some(current) = self.state.borrow_mut().current.as_mut() {
            current.is_taken = true;
        }
    }
}

/// For the front end of the conversation.
impl Peer {
    /// Changes what is carried out, if anything is.
    pub(crate) fn with_current(&self, change: impl FnOnce(&mut Current)) {
        if let Some(current) = self.state.borrow_mut().current.as_mut() {
            change(current);
        }
    }

    /// Whether a tool runs that the host called itself.
    pub(crate) fn runs_call(&self) -> bool {
        self.state.borrow().current.as_ref().is_some_and(|current| current.is_call && current.is_taken)
    }

    /// What was carried out, once the conversation is done with it.
    pub(crate) fn finished(&self, is_leaving: bool) -> Option<Current> {
        let mut state = self.state.borrow_mut();
        state.current.take_if(|current| current.is_taken || is_leaving)
    }

    /// The exit code of what was carried out.
    pub(crate) fn note_exit(&self, exit: ExitKind) {
        self.state.borrow_mut().exit = Some(exit);
    }

    pub(crate) fn exit(&self) -> ExitKind {
        let state = self.state.borrow();
        state.signal.or(state.exit).unwrap_or(ExitKind::Success)
    }

    /// Starts what waits, or leaves if nothing will come.
    pub(crate) fn go_on(&self) {
        let mut state = self.state.borrow_mut();
        if state.current.is_some() {
            return;
        }
        let next = state.queue.pop_front();
        let is_over = state.input_ended || state.is_leaving;
        drop(state);
        match next {
            Some(queued) => self.start(queued),
            None if is_over => self.send(Input::Leave),
            None => {}
        }
    }
}
