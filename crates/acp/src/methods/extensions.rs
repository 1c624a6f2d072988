//! Methods of our own. Their names begin with `_pollux/`, as the protocol asks of extensions.

use std::rc::Rc;

use pollux_domain::JsonObject;
use pollux_domain::event::{Op, OpResult, RequestId};
use serde_json::{Value, json};

use super::sessions;
use crate::params::{optional, text};
use crate::prompt;
use crate::server::{Reply, Server};
use crate::session::Session;
use pollux_front::rpc::RpcError;

const ATTACH: &str = "_pollux/attach";
const EXPLAIN: &str = "_pollux/explain";
const QUEUE: &str = "_pollux/queue";
const REWIND: &str = "_pollux/rewind";

/// What clients are told of.
pub(super) const METHODS: [&str; 4] = [ATTACH, EXPLAIN, QUEUE, REWIND];

pub(super) async fn call(server: &Rc<Server>, method: &str, params: &Value) -> Result<Reply, RpcError> {
    match method {
        ATTACH => sessions::attach(server, params).await,
        EXPLAIN => explain(&*server.session(text(params, "sessionId")?)?, params).await,
        QUEUE => queue(&*server.session(text(params, "sessionId")?)?, params).await,
        REWIND => rewind(&*server.session(text(params, "sessionId")?)?, params).await,
        _ => Err(RpcError::no_such_method(method)),
    }
}

/// What the rules would decide about a call.
async fn explain(session: &Session, params: &Value) -> Result<Reply, RpcError> {
    let name = text(params, "tool")?.to_owned();
    let args = match params.get("args") {
        None | Some(Value::Null) => JsonObject::new(),
        Some(Value::Object(args)) => args.clone(),
        Some(_) => return Err(RpcError::invalid_params("args", "`args` must be an object")),
    };
    match session.ask(Op::Explain { name, args }).await? {
        OpResult::Explained(explained) => {
            let parts = explained.why.parts.iter();
            let parts: Vec<Value> = parts
                .map(|part| json!({"text": part.text, "decision": part.decision, "reason": part.reason}))
                .collect();
            Ok(json!({
                "decision": explained.decision,
                "rule": explained.why.rule,
                "reason": explained.why.reason,
                "parts": parts,
            })
            .into())
        }
        OpResult::Refused(refusal) => Err(RpcError::invalid_request(refusal.message)),
        _ => Err(RpcError::internal("The session cannot explain calls")),
    }
}

/// Lists the prompts that wait for the running turn, after one was added or removed.
async fn queue(session: &Session, params: &Value) -> Result<Reply, RpcError> {
    let mut added = None;
    match (params.get("add"), optional(params, "remove")?) {
        (Some(_), Some(_)) => {
            return Err(RpcError::invalid_params("add", "`add` and `remove` cannot be used together"));
        }
        (Some(blocks), None) => {
            let prompt = prompt::read("add", blocks)?;
            let (id, result) = session.queue(prompt.typed).await?;
            if let OpResult::Refused(refusal) = result {
                return Err(RpcError::invalid_request(refusal.message));
            }
            added = Some(id);
        }
        (None, Some(id)) => {
            let op = Op::Withdraw { prompt: RequestId::new(id) };
            if let OpResult::Refused(refusal) = session.ask(op).await? {
                return Err(RpcError::invalid_params("remove", refusal.message));
            }
        }
        (None, None) => {}
    }
    let state = session.state.borrow();
    let waiting = state.queue.iter();
    let waiting: Vec<Value> = waiting
        .map(|prompt| json!({"id": prompt.id.as_str(), "text": prompt.typed, "by": prompt.by.as_str()}))
        .collect();
    Ok(json!({"queue": waiting, "added": added.as_ref().map(RequestId::as_str)}).into())
}

/// Lists the prompts of a session, or removes one and what follows it.
async fn rewind(session: &Session, params: &Value) -> Result<Reply, RpcError> {
    let Some(to) = optional(params, "to")? else {
        return match session.ask(Op::Describe).await? {
            OpResult::Conversation(view) => {
                let prompts = view.prompts.iter();
                let prompts: Vec<Value> =
                    prompts.map(|prompt| json!({"id": prompt.message, "text": prompt.text})).collect();
                Ok(json!({"prompts": prompts}).into())
            }
            _ => Err(RpcError::internal("The session cannot be described")),
        };
    };
    if session.has_prompt() {
        return Err(RpcError::invalid_request("A prompt is already running in this session."));
    }
    match session.ask(Op::Rewind { to: to.to_owned() }).await? {
        OpResult::Refused(refusal) => Err(RpcError::invalid_params("to", refusal.message)),
        _ => Ok(json!({"to": to}).into()),
    }
}
