//! Addresses of the server and what they lead to.

use std::rc::Rc;

use pollux_a2a::protocol::{Dialect, Method as A2aMethod, Version, with_json_names};
use pollux_serve::{Head, Method, Params, Request, Response, RouteMatch, Routes, Site, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::access::Caller;
use crate::error::{A2aError, ErrorKind};
use crate::manner::CallManner;
use crate::narrator::EXTENSION;
use crate::operations::{MethodAnswer, call};
use crate::service::{KEYS_PATH, Service};
use crate::{card, rpc, streams, upstream};

/// What an address leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Card,
    Keys,
    Rpc,
    /// A method over HTTP+JSON.
    Http(A2aMethod),
    /// The same in the spelling of 0.3.
    OldHttp(A2aMethod),
    Health,
    Ready,
    Metrics,
    NewTask,
    AllMetadata,
    Metadata,
    Commands,
    Execute,
}

use A2aMethod::{
    Cancel, DeletePush, ExtendedCard, Get, GetPush, List, ListPush, Send, SetPush, Stream, Subscribe,
};
use Target::{Http, OldHttp};

const ROUTES: Routes<Target> = Routes(&[
    (Method::GET, "/.well-known/agent-card.json", Target::Card),
    (Method::GET, KEYS_PATH, Target::Keys),
    (Method::POST, "/", Target::Rpc),
    (Method::GET, "/healthz", Target::Health),
    (Method::GET, "/readyz", Target::Ready),
    (Method::GET, "/metrics", Target::Metrics),
    (Method::POST, "/tasks", Target::NewTask),
    (Method::GET, "/tasks/metadata", Target::AllMetadata),
    (Method::GET, "/tasks/{id}/metadata", Target::Metadata),
    (Method::GET, "/listCommands", Target::Commands),
    (Method::POST, "/executeCommand", Target::Execute),
    (Method::POST, "/message:send", Http(Send)),
    (Method::POST, "/message:stream", Http(Stream)),
    (Method::GET, "/tasks", Http(List)),
    (Method::GET, "/tasks/{id}", Http(Get)),
    (Method::POST, "/tasks/{id}:cancel", Http(Cancel)),
    (Method::GET, "/tasks/{id}:subscribe", Http(Subscribe)),
    (Method::POST, "/tasks/{id}:subscribe", Http(Subscribe)),
    (Method::POST, "/tasks/{id}/pushNotificationConfigs", Http(SetPush)),
    (Method::GET, "/tasks/{id}/pushNotificationConfigs", Http(ListPush)),
    (Method::GET, "/tasks/{id}/pushNotificationConfigs/{config}", Http(GetPush)),
    (Method::DELETE, "/tasks/{id}/pushNotificationConfigs/{config}", Http(DeletePush)),
    (Method::GET, "/extendedAgentCard", Http(ExtendedCard)),
    (Method::POST, "/v1/message:send", OldHttp(Send)),
    (Method::POST, "/v1/message:stream", OldHttp(Stream)),
    (Method::GET, "/v1/tasks", OldHttp(List)),
    (Method::GET, "/v1/tasks/{id}", OldHttp(Get)),
    (Method::POST, "/v1/tasks/{id}:cancel", OldHttp(Cancel)),
    (Method::GET, "/v1/tasks/{id}:subscribe", OldHttp(Subscribe)),
    (Method::POST, "/v1/tasks/{id}:subscribe", OldHttp(Subscribe)),
    (Method::POST, "/v1/tasks/{id}/pushNotificationConfigs", OldHttp(SetPush)),
    (Method::GET, "/v1/tasks/{id}/pushNotificationConfigs", OldHttp(ListPush)),
    (Method::GET, "/v1/tasks/{id}/pushNotificationConfigs/{config}", OldHttp(GetPush)),
    (Method::DELETE, "/v1/tasks/{id}/pushNotificationConfigs/{config}", OldHttp(DeletePush)),
    (Method::GET, "/v1/card", OldHttp(ExtendedCard)),
]);

/// The server as its callers reach it.
pub(crate) struct A2aSite(pub(crate) Rc<Service>);

impl Site for A2aSite {
    type Caller = Option<Caller>;

    async fn admit(&self, head: &Head) -> Result<Option<Caller>, Box<Response>> {
        let is_public = matches!(
            ROUTES.find(&head.method, &head.path),
            RouteMatch::Route(Target::Card | Target::Keys | Target::Health | Target::Ready, _)
        );
        if is_public {
            return Ok(None);
        }
        let admitted = self.0.access.admit(head).await;
        if admitted.is_err() {
            self.0.metrics.count("refused", 1);
        }
        admitted.map(Some)
    }

    fn takes_body(&self, caller: &Option<Caller>) -> bool {
        caller.is_some()
    }

    async fn answer(self: Rc<Self>, request: Request, caller: Option<Caller>) -> Response {
        let service = &self.0;
        service.metrics.count("requests", 1);
        let (target, params) = match ROUTES.find(&request.head.method, &request.head.path) {
            RouteMatch::Route(target, params) => (target, params),
            RouteMatch::OtherMethod(methods) => {
                let allowed: Vec<&str> = methods.iter().map(Method::as_str).collect();
                return Response::text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n")
                    .header(header::ALLOW, &allowed.join(", "));
            }
            RouteMatch::Nothing => return Response::text(StatusCode::NOT_FOUND, "not found\n"),
        };
        match (target, caller) {
            (Target::Card, _) => {
                let known = request.head.header("if-none-match");
                card::respond(&service.card(), known)
            }
            (Target::Keys, _) => match service.card_keys() {
                Some(keys) => Response::json(StatusCode::OK, &keys),
                None => Response::text(StatusCode::NOT_FOUND, "not found\n"),
            },
            (Target::Health, _) => Response::text(StatusCode::OK, "ok\n"),
            (Target::Ready, _) => match !service.draining.is_cancelled() && service.store.is_ready().await {
                true => Response::text(StatusCode::OK, "ready\n"),
                false => Response::text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            },
            (_, None) => Response::empty(StatusCode::UNAUTHORIZED),
            (Target::Rpc, Some(caller)) => rpc::answer(service, request, &caller).await,
            (Http(method), Some(caller)) => {
                http(service, &request, &caller, method, &params, Version::One).await
            }
            (OldHttp(method), Some(caller)) => {
                http(service, &request, &caller, method, &params, Version::Old).await
            }
            (Target::Metrics, Some(_)) => Response::text(StatusCode::OK, service.measured()),
            (Target::NewTask, Some(caller)) => upstream::new_task(service, &request, &caller).await,
            (Target::AllMetadata, Some(caller)) => upstream::all_metadata(service, &caller).await,
            (Target::Metadata, Some(caller)) => upstream::metadata(service, &caller, params.get("id")).await,
            (Target::Commands, Some(_)) => upstream::list_commands(),
            (Target::Execute, Some(caller)) => upstream::execute_command(service, &request, &caller),
        }
    }
}

/// A method over HTTP+JSON.
async fn http(
    service: &Rc<Service>,
    request: &Request,
    caller: &Caller,
    method: A2aMethod,
    path: &Params,
    version: Version,
) -> Response {
    let named = match rpc::named_version(&request.head) {
        Ok(named) => named,
        Err(error) => return error.to_http(version),
    };
    let version = if version == Version::Old { version } else { named.unwrap_or(version) };
    let wants = rpc::wants_extension(&request.head);
    let manner =
        CallManner { dialect: Dialect::of_http(version), with_metadata: version == Version::Old || wants };
    let answered = match params(request, path, version) {
        Ok(params) => call(service, caller, method, &params, manner).await,
        Err(error) => Err(error),
    };
    let response = match answered {
        Ok(MethodAnswer::Value(value)) => {
            let accepts = request.head.header("accept").unwrap_or_default();
            let is_own = version == Version::One && accepts.contains("application/a2a+json");
            let kind = if is_own { "application/a2a+json" } else { "application/json" };
            Response::document(StatusCode::OK, kind, value.to_string())
        }
        Ok(MethodAnswer::Stream(stream)) => streams::respond(service, stream, manner, |update| update),
        Err(error) => error.to_http(version),
    };
    if wants {
        response.header(header::HeaderName::from_static("a2a-extensions"), EXTENSION)
    } else {
        response
    }
}

/// The parameters of a request: of its body, its query and its path.
fn params(request: &Request, path: &Params, version: Version) -> Result<Value, A2aError> {
    let body = if request.body.trim_ascii().is_empty() {
        Map::new()
    } else {
        match serde_json::from_slice(&request.body) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(A2aError::new(ErrorKind::InvalidRequest, "the body must be a JSON object")),
            Err(_) => return Err(A2aError::new(ErrorKind::Parse, "the body is not valid JSON")),
        }
    };
    let mut params = if version == Version::Old { with_json_names(body) } else { body };
    for (name, value) in request.head.query.iter() {
        params.entry(name).or_insert_with(|| json!(value));
    }
    for (key, name) in [("id", "id"), ("pushNotificationConfigId", "config")] {
        let value = path.get(name);
        if !value.is_empty() {
            // The id of a configuration in a body is its own.
            if let Some(own) = params.insert(key.to_owned(), json!(value)) {
                params.insert("configId".to_owned(), own);
            }
        }
    }
    Ok(Value::Object(params))
}
