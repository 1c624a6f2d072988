//! JSON-RPC: requests to the root of the server.

use std::rc::Rc;

use pollux_a2a::protocol::{Dialect, Method, VERSION_HEADER, Version};
use pollux_serve::{Head, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::access::Caller;
use crate::error::{A2aError, ErrorKind};
use crate::manner::CallManner;
use crate::narrator::EXTENSION;
use crate::operations::{MethodAnswer, call};
use crate::service::Service;
use crate::streams;

/// A request of JSON-RPC that can be served.
struct Call {
    id: Value,
    method: Method,
    params: Value,
    version: Version,
}

/// The version that a request names, if it names one.
pub(crate) fn named_version(head: &Head) -> Result<Option<Version>, A2aError> {
    let given = head.header(VERSION_HEADER).or_else(|| head.query.get(VERSION_HEADER));
    Version::read(given.unwrap_or_default())
        .map_err(|error| A2aError::new(ErrorKind::Version, error.to_string()))
}

/// Whether a client asks for upstream's metadata.
pub(crate) fn wants_extension(head: &Head) -> bool {
    let names = ["a2a-extensions", "x-a2a-extensions"];
    names
        .iter()
        .filter_map(|name| head.header(name))
        .any(|given| given.split(',').any(|uri| uri.trim() == EXTENSION))
}

/// Answers a request.
pub(crate) async fn answer(service: &Rc<Service>, request: Request, caller: &Caller) -> Response {
    let wants = wants_extension(&request.head);
    let Call { id, method, params, version } = match read(&request) {
        Ok(call) => call,
        Err((id, error, version)) => return failed(&id, &error, version),
    };
    // A turn may take long, and the text of the request is not needed any more.
    drop(request);
    let manner =
        CallManner { dialect: Dialect::of_rpc(version), with_metadata: version == Version::Old || wants };
    match call(service, caller, method, &params, manner).await {
        Ok(MethodAnswer::Value(result)) => {
            Response::json(StatusCode::OK, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
        }
        Ok(MethodAnswer::Stream(stream)) => {
            let wrap = move |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
            streams::respond(service, stream, manner, wrap)
        }
        Err(error) => failed(&id, &error, version),
    }
}

fn failed(id: &Value, error: &A2aError, version: Version) -> Response {
    Response::json(StatusCode::OK, &json!({"jsonrpc": "2.0", "id": id, "error": error.to_rpc(version)}))
}

type Refused = (Value, A2aError, Version);

fn read(request: &Request) -> Result<Call, Refused> {
    let version = named_version(&request.head);
    let spoken = version.as_ref().ok().copied().flatten();
    let assumed = spoken.unwrap_or(Version::Old);
    let refuse = |id: &Value, kind, text: &str| (id.clone(), A2aError::new(kind, text), assumed);
    let none = Value::Null;
    let value: Value = serde_json::from_slice(&request.body)
        .map_err(|_| refuse(&none, ErrorKind::Parse, "Invalid JSON payload"))?;
    let Value::Object(mut fields) = value else {
        return Err(refuse(&none, ErrorKind::InvalidRequest, "A request must be a JSON object"));
    };
    let id = match fields.get("id") {
        Some(id @ (Value::String(_) | Value::Number(_) | Value::Null)) => id.clone(),
        None => Value::Null,
        Some(_) => return Err(refuse(&none, ErrorKind::InvalidRequest, "`id` must be a string or a number")),
    };
    if fields.get("jsonrpc") != Some(&json!("2.0")) {
        return Err(refuse(&id, ErrorKind::InvalidRequest, "`jsonrpc` must be \"2.0\""));
    }
    let Some(name) = fields.get("method").and_then(Value::as_str) else {
        return Err(refuse(&id, ErrorKind::InvalidRequest, "`method` must be a string"));
    };
    if let Err(error) = version {
        return Err((id, error, Version::One));
    }
    let Some((method, family)) = Method::named(name) else {
        let name: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
        return Err(refuse(&id, ErrorKind::MethodNotFound, &format!("Method not found: {name}")));
    };
    let params = fields.remove("params").unwrap_or_else(|| json!({}));
    if !params.is_object() {
        return Err(refuse(&id, ErrorKind::InvalidParams, "`params` must be an object"));
    }
    Ok(Call { id, method, params, version: spoken.unwrap_or(family) })
}
