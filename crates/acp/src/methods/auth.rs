//! Signing in and out.

use std::rc::Rc;

use pollux_config::env::Env;
use pollux_domain::failure::Failure;
use pollux_host::auth::sign_ins;
use pollux_host::request::{Request, Scope};
use pollux_host::settings::settings;
use pollux_host::{check_credentials, load_settings};
use serde_json::{Value, json};

use crate::client::Capabilities;
use crate::params::text;
use crate::server::{Reply, Server};
use pollux_front::rpc::RpcError;

/// The method that the client carries out by running this program in a terminal.
const TERMINAL: &str = "terminal";
const API_KEY: &str = "gemini-api-key";
const VERTEX: &str = "vertex-ai";

/// The methods that this client can use.
pub(super) fn methods(client: &Capabilities) -> Vec<Value> {
    let mut methods = vec![
        json!({
            "id": API_KEY,
            "name": "Gemini API key",
            "description": "Use the stored key or GEMINI_API_KEY",
            "_meta": {"api-key": {"provider": "google"}},
        }),
        json!({
            "id": VERTEX,
            "name": "Vertex AI",
            "description": "Use Google Cloud credentials and GOOGLE_CLOUD_PROJECT",
        }),
    ];
    if client.terminal_auth {
        methods.push(json!({
            "type": "terminal",
            "id": TERMINAL,
            "name": "Sign in from a terminal",
            "description": "Run `pollux auth login`",
            "args": ["auth", "login"],
            "env": {},
        }));
    }
    methods
}

/// Runs something that reads files and maybe a keychain, without holding up other requests.
async fn blocking<T: Send + 'static>(
    server: &Server,
    work: impl FnOnce(&Request, &Env) -> Result<T, Failure> + Send + 'static,
) -> Result<T, RpcError> {
    let (options, env) = (server.program.options.clone(), server.program.env.clone());
    let done = tokio::task::spawn_blocking(move || work(&options, &env)).await;
    match done {
        Ok(result) => result.map_err(|failure| RpcError::from(&failure)),
        Err(_) => Err(RpcError::internal("The request failed")),
    }
}

pub(super) async fn authenticate(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    let method = text(params, "methodId")?.to_owned();
    match method.as_str() {
        API_KEY | VERTEX => {}
        TERMINAL => {
            let why = "The client performs this method: run `pollux auth login` in a terminal";
            return Err(RpcError::invalid_params("methodId", why));
        }
        other => {
            return Err(RpcError::invalid_params("methodId", format!("Unknown method: {other}")));
        }
    }
    let key = params.pointer("/_meta/api-key").and_then(Value::as_str).map(str::to_owned);
    let outcome = blocking(server, move |options, env| {
        if let (Some(key), API_KEY) = (&key, method.as_str()) {
            sign_ins(options, env)?.keep(key)?;
        }
        settings(options, env)?.set("security.auth.selectedType", &method, Scope::User)?;
        Ok(check_credentials(&load_settings(options, env)?).map(drop))
    });
    match outcome.await? {
        Ok(()) => Ok(json!({}).into()),
        Err(failure) => {
            let hint = failure.hint.as_ref().map(|hint| json!({"hint": hint}));
            Err(RpcError::auth_required(failure.message(), hint))
        }
    }
}

pub(super) async fn logout(server: &Rc<Server>) -> Result<Reply, RpcError> {
    blocking(server, |options, env| sign_ins(options, env)?.forget_key().map(drop)).await?;
    Ok(json!({}).into())
}

pub(super) async fn status(server: &Rc<Server>) -> Result<Reply, RpcError> {
    let status = blocking(server, |options, env| Ok(sign_ins(options, env)?.status())).await?;
    let Some(kind) = status.kind else {
        return Ok(json!({"state": "unauthenticated", "accounts": []}).into());
    };
    let label = match status.source {
        Some(source) => format!("{kind} ({source})"),
        None => kind,
    };
    Ok(json!({"state": "authenticated", "accounts": [{"label": label, "active": true}]}).into())
}
