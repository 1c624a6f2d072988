//! One open session: what the server and its front end share.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use pollux_domain::approval::{ApprovalAnswer, ApprovalMode};
use pollux_domain::event::{Op, OpResult, RequestId, TurnEnd, WaitingPrompt};
use pollux_domain::failure::Failure;
use pollux_domain::id::CallId;
use pollux_domain::model::{FinishReason, Usage};
use pollux_front::input::{Input, Typed};
use pollux_front::stdio::Driver;
use pollux_host::RecordedItem;
use pollux_host::model_list::ModelRow;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::files::EditorFiles;
use crate::terminals::EditorTerminals;
use crate::updates::Updates;
use pollux_front::rpc::RpcError;

/// An open session, seen by the server and by its front end.
pub(crate) struct Session {
    pub(crate) updates: Rc<Updates>,
    /// Files as the editor has them.
    pub(crate) files: Arc<EditorFiles>,
    /// Terminals of the editor.
    pub(crate) terminals: Arc<EditorTerminals>,
    input: mpsc::UnboundedSender<Input>,
    pub(crate) state: RefCell<SessionState>,
    /// Cancelled when the conversation has ended and freed everything.
    pub(crate) over: CancellationToken,
}

#[derive(Default)]
pub(crate) struct SessionState {
    /// Told when the session can take prompts, or why it cannot.
    pub(crate) opened: Option<oneshot::Sender<Result<(), Failure>>>,
    pub(crate) facts: Facts,
    /// Whether earlier messages are sent when it opens.
    pub(crate) replay: bool,
    /// Messages of earlier runs, until they are sent.
    pub(crate) history: Vec<RecordedItem>,
    pub(crate) prompt: Option<ActivePrompt>,
    /// A turn runs that is not this client's prompt: one that waited, or another front end's.
    pub(crate) is_joined: bool,
    /// Prompts that wait for the running turn.
    pub(crate) queue: Vec<WaitingPrompt>,
    /// Operations that wait for their result.
    pub(crate) asked: HashMap<RequestId, oneshot::Sender<OpResult>>,
    next_ask: u64,
    /// Tells the operations of this session apart from those of other front ends.
    asks_as: String,
    /// Open permission requests and questions.
    pub(crate) questions: HashMap<CallId, OpenQuestion>,
    /// The commands as last sent.
    pub(crate) commands: Vec<Value>,
}

/// A question that the client has not answered. Dropping what is in `asking` withdraws it.
pub(crate) struct OpenQuestion {
    pub(crate) settled: CancellationToken,
    pub(crate) asking: AskedClient,
}

/// The client's answer to come, until the question is settled.
pub(crate) type AskedClient = Rc<RefCell<Option<AnswerToCome>>>;
type AnswerToCome = Pin<Box<dyn Future<Output = ApprovalAnswer>>>;

/// What the client shows about a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) mode: ApprovalMode,
    /// The mode that the session started with.
    pub(crate) granted: ApprovalMode,
    pub(crate) model: String,
    pub(crate) models: Vec<ModelRow>,
    pub(crate) yolo_is_forbidden: bool,
    pub(crate) is_trusted: bool,
}

/// Answers a `session/prompt`. It does so at once, so that what follows the turn comes after the answer.
pub(crate) type PromptAnswer = Box<dyn FnOnce(Result<Value, RpcError>)>;

/// A `session/prompt` that is not answered yet.
pub(crate) struct ActivePrompt {
    answer: PromptAnswer,
    /// The conversation has it.
    pub(crate) is_taken: bool,
    /// The client cancelled it.
    pub(crate) cancelled: CancellationToken,
    pub(crate) end: Option<TurnEnd>,
    usage: Vec<(String, Usage)>,
}

impl Session {
    pub(crate) fn new(
        updates: Rc<Updates>,
        files: Arc<EditorFiles>,
        terminals: Arc<EditorTerminals>,
        input: mpsc::UnboundedSender<Input>,
        opened: oneshot::Sender<Result<(), Failure>>,
        replay: bool,
    ) -> Rc<Self> {
        let asks_as = RequestId::random().as_str().to_owned();
        let state = SessionState { opened: Some(opened), replay, asks_as, ..SessionState::default() };
        let (state, over) = (RefCell::new(state), CancellationToken::new());
        Rc::new(Self { updates, files, terminals, input, state, over })
    }

    pub(crate) fn id(&self) -> String {
        self.updates.session()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    pub(crate) fn send(&self, input: Input) {
        // A conversation that has ended reads nothing.
        let _ = self.input.send(input);
    }

    /// Starts a prompt, which is answered when it has ended; at once if another runs. Returns whether it starts.
    pub(crate) fn begin(&self, prompt: Typed, answer: PromptAnswer) -> bool {
        let mut state = self.state.borrow_mut();
        if state.prompt.is_some() {
            answer(Err(RpcError::invalid_request("A prompt is already running in this session.")));
            return false;
        }
        state.prompt = Some(ActivePrompt {
            answer,
            is_taken: false,
            cancelled: CancellationToken::new(),
            end: None,
            usage: Vec::new(),
        });
        drop(state);
        self.send(Input::Prompt(Box::new(prompt)));
        true
    }

    /// Cancels what runs, if anything does.
    pub(crate) fn cancel(&self) {
        let (cancelled, is_joined) = {
            let state = self.state.borrow();
            (state.prompt.as_ref().map(|prompt| prompt.cancelled.clone()), state.is_joined)
        };
        if cancelled.is_none() && is_joined {
            self.send(Input::Interrupt);
        }
        if let Some(cancelled) = cancelled
            && !cancelled.is_cancelled()
        {
            cancelled.cancel();
            self.send(Input::Interrupt);
        }
    }

    /// Tells that a link of a prompt came without its content.
    pub(crate) fn tell_unread(&self, address: &str) {
        self.warn(&format!("could not read {address}; the model gets only its URL"));
    }

    pub(crate) fn warn(&self, title: &str) {
        if self.updates.client.can().notices {
            self.updates.send(json!({"sessionUpdate": "notice", "severity": "warning", "title": title}));
        }
    }

    /// Whether a prompt waits or runs.
    pub(crate) fn has_prompt(&self) -> bool {
        self.state.borrow().prompt.is_some()
    }

    /// The token that the client's cancel fires; fired already if nothing runs.
    pub(crate) fn cancelled(&self) -> CancellationToken {
        let state = self.state.borrow();
        match &state.prompt {
            Some(prompt) => prompt.cancelled.clone(),
            None => {
                let none = CancellationToken::new();
                none.cancel();
                none
            }
        }
    }

    /// Counts a request of the running prompt.
    pub(crate) fn count(&self, model: &str, usage: Usage) {
        if let Some(prompt) = self.state.borrow_mut().prompt.as_mut() {
            prompt.usage.push((model.to_owned(), usage));
        }
    }

    /// Answers the running prompt if it was carried out. All its updates are sent before.
    pub(crate) fn settle(&self, is_leaving: bool) {
        let mut state = self.state.borrow_mut();
        let is_done = state.prompt.as_ref().is_some_and(|prompt| prompt.is_taken || is_leaving);
        let Some(prompt) = state.prompt.take_if(|_| is_done) else { return };
        drop(state);
        self.updates.flush();
        let ActivePrompt { answer, cancelled, end, usage, .. } = prompt;
        let reason = match end {
            _ if cancelled.is_cancelled() => Ok("cancelled"),
            Some(end) => stop_reason(&end),
            None if is_leaving => Ok("cancelled"),
            None => Ok("end_turn"),
        };
        let result = reason.map(
            |reason| json!({"stopReason": reason, "usage": total(&usage), "_meta": {"quota": quota(&usage)}}),
        );
        answer(result);
    }

    /// Sends an operation and waits for its result.
    pub(crate) async fn ask(&self, op: Op) -> Result<OpResult, RpcError> {
        let (id, receiver) = self.expect_answer();
        self.send(Input::Ask(id, op));
        receiver.await.map_err(|_| RpcError::internal("The session has ended"))
    }

    /// Puts a prompt behind those that wait for the running turn; its id, and whether it waits or runs.
    pub(crate) async fn queue(&self, prompt: Typed) -> Result<(RequestId, OpResult), RpcError> {
        let (id, receiver) = self.expect_answer();
        self.send(Input::Queue(id.clone(), Box::new(prompt)));
        let result = receiver.await.map_err(|_| RpcError::internal("The session has ended"))?;
        Ok((id, result))
    }

    /// The prompts that wait now; those that were just added are.
    pub(crate) fn queue_changed(&self, waiting: &[WaitingPrompt]) {
        let mut state = self.state.borrow_mut();
        state.queue = waiting.to_vec();
        for prompt in waiting {
            if let Some(asked) = state.asked.remove(&prompt.id) {
                let _ = asked.send(OpResult::Accepted);
            }
        }
    }

    /// Answers the prompt if the client has cancelled it; returns whether it did.
    pub(crate) fn drop_if_cancelled(&self) -> bool {
        let is_cancelled = self.cancelled().is_cancelled() && self.has_prompt();
        if is_cancelled {
            self.settle(true);
        }
        is_cancelled
    }

    /// Notes that a turn began; returns whether it is not this client's prompt.
    pub(crate) fn joins(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let is_own = state.prompt.as_ref().is_some_and(|prompt| prompt.is_taken);
        state.is_joined |= !is_own;
        state.is_joined
    }

    /// The conversation keeps the prompt until the running turn has ended.
    pub(crate) fn is_deferred(&self) {
        if let Some(prompt) = self.state.borrow_mut().prompt.as_mut() {
            prompt.is_taken = false;
        }
    }

    fn expect_answer(&self) -> (RequestId, oneshot::Receiver<OpResult>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.borrow_mut();
        state.next_ask += 1;
        let id = RequestId::new(format!("{}-{}", state.asks_as, state.next_ask));
        state.asked.insert(id.clone(), sender);
        (id, receiver)
    }

    /// Ends the conversation and waits until it has freed everything.
    pub(crate) async fn close(&self) {
        self.cancel();
        self.send(Input::Leave);
        self.over.cancelled().await;
    }

    /// The client is gone: the conversation ends within a deadline.
    pub(crate) fn abandon(&self) {
        self.send(Input::Gone);
    }
}

/// The protocol's word for the end of a turn.
fn stop_reason(end: &TurnEnd) -> Result<&'static str, RpcError> {
    match end {
        TurnEnd::Finished(None) => Ok("end_turn"),
        TurnEnd::Finished(Some(finish)) => Ok(match &finish.reason {
            FinishReason::Safety | FinishReason::ContentFilter | FinishReason::Refusal(_) => "refusal",
            FinishReason::MaxTokens | FinishReason::ContextWindow => "max_tokens",
            FinishReason::Named(word) if word == "PROHIBITED_CONTENT" || word == "SPII" => "refusal",
            _ => "end_turn",
        }),
        TurnEnd::Cancelled => Ok("cancelled"),
        TurnEnd::TurnLimit | TurnEnd::Loop(_) => Ok("max_turn_requests"),
        TurnEnd::Overflow { .. } => Ok("max_tokens"),
        TurnEnd::Failed(error) => Err(RpcError::from(error)),
        TurnEnd::InvalidReply { kind, message } => {
            Err(RpcError::internal(message.clone()).with_data(json!({"kind": kind})))
        }
        TurnEnd::FatalTool { kind, message } => {
            Err(RpcError::internal(message.clone()).with_data(json!({"kind": kind.as_str()})))
        }
    }
}

fn total(usage: &[(String, Usage)]) -> Value {
    let sum = |of: fn(&Usage) -> u64| usage.iter().map(|(_, usage)| of(usage)).sum::<u64>();
    json!({
        "totalTokens": sum(|usage| usage.total),
        "inputTokens": sum(|usage| usage.input),
        "outputTokens": sum(|usage| usage.output),
        "thoughtTokens": sum(|usage| usage.reasoning),
        "cachedReadTokens": sum(|usage| usage.cached),
    })
}

/// Upstream's account of a turn.
fn quota(usage: &[(String, Usage)]) -> Value {
    let tokens = |input: u64, output: u64| json!({"input_tokens": input, "output_tokens": output});
    let mut models: Vec<(&str, u64, u64)> = Vec::new();
    for (model, usage) in usage {
        match models.iter_mut().find(|(known, ..)| known == model) {
            Some((_, input, output)) => {
                *input += usage.input;
                *output += usage.output;
            }
            None => models.push((model, usage.input, usage.output)),
        }
    }
    let (input, output) = models.iter().fold((0, 0), |(i, o), (_, input, output)| (i + input, o + output));
    let models: Vec<Value> = models
        .into_iter()
        .map(|(model, input, output)| json!({"model": model, "token_count": tokens(input, output)}))
        .collect();
    json!({"token_count": tokens(input, output), "model_usage": models})
}

impl Driver for Session {
    fn is_busy(&self) -> bool {
        let state = self.state.borrow();
        state.is_joined || state.prompt.as_ref().is_some_and(|prompt| prompt.is_taken)
    }

    fn taken(&self) {
        if let Some(prompt) = self.state.borrow_mut().prompt.as_mut() {
            prompt.is_taken = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use pollux_domain::model::{Finish, ModelError, ModelErrorKind};

    use super::*;

    #[test]
    fn turns_end_in_the_words_of_the_protocol() {
        let finished = |reason| TurnEnd::Finished(Some(Finish { reason, message: None }));
        let cases = [
            (TurnEnd::Finished(None), "end_turn"),
            (finished(FinishReason::Stop), "end_turn"),
            (finished(FinishReason::Safety), "refusal"),
            (finished(FinishReason::Named("PROHIBITED_CONTENT".into())), "refusal"),
            (finished(FinishReason::MaxTokens), "max_tokens"),
            (TurnEnd::Cancelled, "cancelled"),
            (TurnEnd::TurnLimit, "max_turn_requests"),
            (TurnEnd::Loop("x".into()), "max_turn_requests"),
            (TurnEnd::Overflow { estimated: 2, remaining: 1 }, "max_tokens"),
        ];
        for (end, word) in cases {
            assert_eq!(stop_reason(&end), Ok(word), "{end:?}");
        }
        let failed = |kind, status| {
            let end = TurnEnd::Failed(ModelError::new(kind, Some(status), "no"));
            stop_reason(&end).unwrap_err()
        };
        assert_eq!(failed(ModelErrorKind::Auth, 401).code, -32000);
        let limited = failed(ModelErrorKind::RateLimited, 429);
        let data = limited.data.unwrap();
        assert_eq!(
            (limited.code, &data["status"], &data["kind"]),
            (-32603, &json!(429), &json!("RateLimited"))
        );
    }
}
