//! The methods that a client can call.

mod auth;
mod extensions;
mod sessions;

use std::rc::Rc;

use pollux_domain::event::{Op, OpResult};
use pollux_host::VERSION;
use serde_json::{Value, json};

use crate::client::Capabilities;
use crate::options;
use crate::params::text;
use crate::server::{Reply, Server};
use crate::session::Session;
use pollux_front::rpc::RpcError;

/// The version of the protocol that is spoken.
const PROTOCOL: u64 = 1;

/// Runs a method.
pub(crate) async fn call(server: &Rc<Server>, method: &str, params: &Value) -> Result<Reply, RpcError> {
    match method {
        "authenticate" => auth::authenticate(server, params).await,
        "logout" => auth::logout(server).await,
        "auth/status" => auth::status(server).await,
        "session/new" => sessions::new(server, params).await,
        "session/load" => sessions::load(server, params).await,
        "session/resume" => sessions::resume(server, params).await,
        "session/fork" => sessions::fork(server, params).await,
        "session/list" => sessions::list(server, params),
        "session/delete" => sessions::delete(server, params).await,
        "session/close" => sessions::close(server, params).await,
        "session/status" => sessions::status(server, params),
        "session/set_title" => sessions::set_title(server, params).await,
        "session/set_mode" => {
            let session = server.session(text(params, "sessionId")?)?;
            set_mode(&session, text(params, "modeId")?, "modeId").await?;
            Ok(json!({}).into())
        }
        "session/set_model" => {
            let session = server.session(text(params, "sessionId")?)?;
            set_model(&session, text(params, "modelId")?, "modelId").await?;
            Ok(json!({}).into())
        }
        "session/set_config_option" => set_config_option(server, params).await,
        _ => extensions::call(server, method, params).await,
    }
}

/// Answers before settings, trust, keychain or servers are touched.
pub(crate) fn initialize(server: &Server, params: &Value) -> Result<Value, RpcError> {
    if params.get("protocolVersion").and_then(Value::as_u64).is_none() {
        let why = "`protocolVersion` must be a number";
        return Err(RpcError::invalid_params("protocolVersion", why));
    }
    let none = Value::Null;
    let capabilities = Capabilities::read(params.get("clientCapabilities").unwrap_or(&none));
    let methods = auth::methods(&capabilities);
    if !server.client.introduce(capabilities) {
        return Err(RpcError::invalid_request("The connection is initialized already"));
    }
    Ok(json!({
        "protocolVersion": PROTOCOL,
        "agentInfo": {"name": "pollux", "title": "Pollux", "version": VERSION},
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": true, "audio": true, "embeddedContext": true},
            "mcpCapabilities": {"http": true, "sse": true, "acp": true},
            "sessionCapabilities": {
                "list": {},
                "delete": {},
                "resume": {},
                "close": {},
                "additionalDirectories": {},
                "fork": {},
                "status": {},
                "title": {},
                "systemPrompt": {},
            },
            "auth": {"logout": {}, "status": {}},
            "_meta": {"pollux": {"methods": extensions::METHODS}},
        },
        "authMethods": methods,
    }))
}

async fn set_mode(session: &Session, id: &str, field: &str) -> Result<(), RpcError> {
    let Some(mode) = options::mode(id) else {
        return Err(RpcError::invalid_params(field, format!("Unknown mode: {id}")));
    };
    let facts = session.state.borrow().facts.clone();
    if let Some(why) = options::forbidden(mode, &facts) {
        return Err(RpcError::invalid_params(field, why));
    }
    if mode == facts.mode {
        return Ok(());
    }
    change(session, Op::SetMode(mode), field).await
}

async fn set_model(session: &Session, name: &str, field: &str) -> Result<(), RpcError> {
    if session.state.borrow().facts.model == name {
        return Ok(());
    }
    change(session, Op::SetModel(name.to_owned()), field).await
}

async fn change(session: &Session, op: Op, field: &str) -> Result<(), RpcError> {
    match session.ask(op).await? {
        OpResult::Refused(refusal) => Err(RpcError::invalid_params(field, refusal.message)),
        _ => Ok(()),
    }
}

async fn set_config_option(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    let session = server.session(text(params, "sessionId")?)?;
    match text(params, "configId")? {
        "mode" => set_mode(&session, text(params, "value")?, "value").await?,
        "model" => set_model(&session, text(params, "value")?, "value").await?,
        other => return Err(RpcError::invalid_params("configId", format!("Unknown option: {other}"))),
    }
    let facts = session.state.borrow().facts.clone();
    Ok(json!({"configOptions": options::config_options(&facts)}).into())
}
