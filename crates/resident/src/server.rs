//! The methods that a front end can call.

use std::cell::Cell;
use std::rc::Rc;

use pollux_domain::event::{Op, RequestId};
use pollux_domain::time::Timestamp;
use pollux_front::rpc::RpcError;
use pollux_host::VERSION;
use pollux_host::hub::Scopes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::log::Log;
use crate::open::failed;
use crate::pages::{PageLink, Pages};
use crate::sessions::Sessions;
use crate::wire::{
    AttachParams, Hello, OpParams, OpTaken, OpenParams, PROTOCOL, SessionParams, ShutdownParams, Status,
    Stopped, WebLink, WebParams, Welcome, code,
};

/// The longest name of a front end.
const MAX_NAME: usize = 64;

/// What all connections of the core share.
pub(crate) struct Core {
    pub(crate) sessions: Rc<Sessions>,
    pub(crate) log: Rc<Log>,
    pub(crate) connections: Cell<usize>,
    /// Names this process.
    pub(crate) instance: String,
    pub(crate) started: Timestamp,
    /// Minutes; 0 for never.
    pub(crate) idle_exit: u64,
    /// Ends the accepting of connections, and the process.
    pub(crate) stopping: CancellationToken,
    /// Closes all connections.
    pub(crate) closing: CancellationToken,
    /// Shows sessions in browsers.
    pub(crate) pages: Rc<dyn Pages>,
}

/// Introduces a front end.
pub(crate) fn hello(connection: &Connection, params: Value) -> Result<Value, RpcError> {
    let hello: Hello = read(params)?;
    let [theirs_min, theirs_max] = hello.protocol;
    let [ours_min, ours_max] = PROTOCOL;
    let common = theirs_max.min(ours_max);
    if common < theirs_min.max(ours_min) {
        let text = format!(
            "no common protocol version: pollux {} supports {theirs_min} to {theirs_max}, the core (pollux \
             {VERSION}) supports {ours_min} to {ours_max}",
            clean(&hello.program),
        );
        let data = json!({"program": VERSION, "protocol": PROTOCOL, "hint": "run `pollux core restart`"});
        return Err(RpcError::new(code::PROTOCOL, text, Some(data)));
    }
    let name = hello.front.name.as_deref().unwrap_or(&hello.front.kind);
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
        let why = "invalid front end name: use letters, digits, dots, dashes and underscores";
        return Err(RpcError::invalid_params("front", why));
    }
    let core = &connection.core;
    let pid = hello.front.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    core.log.line(&format!("{name}{pid} connected, pollux {}", clean(&hello.program)));
    connection.name.replace(Some(name.to_owned()));
    write(&Welcome {
        protocol: common,
        program: VERSION.to_owned(),
        scopes: ["watch", "drive", "approve", "admin"].map(str::to_owned).to_vec(),
        instance: core.instance.clone(),
        pid: std::process::id(),
    })
}

/// The version that a front end claims, for messages.
fn clean(version: &str) -> String {
    version.chars().filter(|letter| letter.is_ascii_graphic()).take(40).collect()
}

/// Runs a method.
pub(crate) async fn call(
    connection: &Rc<Connection>,
    method: &str,
    params: Value,
) -> Result<Value, RpcError> {
    let sessions = &connection.core.sessions;
    match method {
        "session/list" => write(&json!({"sessions": sessions.list()})),
        "session/open" => {
            let params: OpenParams = read(params)?;
            write(&sessions.open(params).await?)
        }
        "session/attach" => attach(connection, &read(params)?),
        "session/detach" => {
            let SessionParams { session } = read(params)?;
            let attached = connection.attachments.borrow_mut().remove(&session);
            attached.ok_or_else(|| not_attached(&session))?;
            Ok(json!({}))
        }
        "session/close" => {
            let SessionParams { session } = read(params)?;
            sessions.close(&session, "closed").await?;
            Ok(json!({}))
        }
        "session/fork" => {
            let SessionParams { session } = read(params)?;
            write(&sessions.fork(&session).await?)
        }
        "op" => op(connection, read(params)?).await,
        "web/link" => link(&connection.core, &read(params)?).await,
        "core/status" => write(&status(&connection.core)),
        "core/shutdown" => shutdown(&connection.core, &read(params)?).await,
        "hello" => Err(RpcError::invalid_request("`hello` was already sent")),
        _ => Err(RpcError::no_such_method(method)),
    }
}

fn attach(connection: &Rc<Connection>, params: &AttachParams) -> Result<Value, RpcError> {
    let name = connection.name.borrow().clone().unwrap_or_default();
    // A front end that attaches again, because it lagged, keeps no second place.
    connection.attachments.borrow_mut().remove(&params.session);
    let sessions = &connection.core.sessions;
    let (attachment, attached, events) = sessions.attach(params, &name, Scopes::ALL)?;
    connection.follow(&params.session, attachment, events);
    write(&attached)
}

async fn op(connection: &Rc<Connection>, params: OpParams) -> Result<Value, RpcError> {
    let OpParams { session, id, mut op } = params;
    // A prompt that is nothing but text needs no parts.
    if op["type"] == "Prompt" && op.get("parts").is_none() {
        let typed = op["typed"].as_str().unwrap_or_default();
        op["parts"] = json!([{"body": {"type": "Text", "value": typed}, "extra": {}}]);
    }
    let op = Op::from_json(op).map_err(|error| RpcError::invalid_params("op", error.to_string()))?;
    let attachment = connection.attachments.borrow().get(&session).map(|open| Rc::clone(&open.attachment));
    let attachment = attachment.ok_or_else(|| not_attached(&session))?;
    let id = attachment.ask(id.map(RequestId::new), op).await?;
    write(&OpTaken { id: id.to_string() })
}

/// A link to the page. Browsers end no sessions.
async fn link(core: &Core, params: &WebParams) -> Result<Value, RpcError> {
    let scopes = if params.watch { Scopes::WATCH } else { Scopes { admin: false, ..Scopes::ALL } };
    let made = core.pages.link(&core.sessions, scopes, &core.stopping).await;
    let PageLink { url, seconds } = made.map_err(|failure| failed(&failure))?;
    core.log.line(if params.watch {
        "made a link to watch in a browser"
    } else {
        "made a link for a browser"
    });
    write(&WebLink { url, seconds })
}

fn not_attached(session: &str) -> RpcError {
    RpcError::invalid_params("session", format!("not attached to session {}", clean(session)))
}

fn status(core: &Core) -> Status {
    Status {
        program: VERSION.to_owned(),
        protocol: PROTOCOL,
        pid: std::process::id(),
        instance: core.instance.clone(),
        started_at: core.started.to_iso(),
        sessions: core.sessions.len(),
        busy: core.sessions.busy(),
        connections: core.connections.get() + core.pages.connected(),
        idle_exit: core.idle_exit,
    }
}

async fn shutdown(core: &Rc<Core>, params: &ShutdownParams) -> Result<Value, RpcError> {
    let busy = core.sessions.busy();
    if busy > 0 && !params.force {
        let text = match busy {
            1 => "1 session is running a turn".to_owned(),
            more => format!("{more} sessions are running turns"),
        };
        return Err(RpcError::new(code::BUSY, text, Some(json!({"busy": busy}))));
    }
    core.log.line(if params.restart { "restarting" } else { "stopping" });
    let reason = if params.restart { "restart" } else { "shutdown" };
    let params = core.sessions.close_all(reason).await;
    core.stopping.cancel();
    write(&Stopped { sessions: params })
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_json::from_value(params).map_err(|error| RpcError::invalid_params("params", error.to_string()))
}

fn write(result: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(result).map_err(|error| RpcError::internal(error.to_string()))
}
