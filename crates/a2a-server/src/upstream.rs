//! Addresses that upstream's server has next to the protocol.

use std::rc::Rc;

use pollux_a2a::protocol::Dialect;
use pollux_serve::{Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::access::Caller;
use crate::error::{A2aError, ErrorKind};
use crate::incoming::agent_settings;
use crate::operations::to_the_end;
use crate::service::Service;
use crate::store::ListQuery;
use crate::task::Task;

/// The most tasks that are described at once.
const MAX_DESCRIBED: usize = 1_000;

/// `POST /tasks`: a task without a message.
pub(crate) async fn new_task(service: &Rc<Service>, request: &Request, caller: &Caller) -> Response {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_else(|_| json!({}));
    let settings = agent_settings(body.get("agentSettings").unwrap_or(&Value::Null));
    let context = body.get("contextId").and_then(Value::as_str).map(str::to_owned);
    if context.as_ref().is_some_and(|context| context.len() > 1_000) {
        return plain_error(&A2aError::params("`contextId` is too long"));
    }
    let (creating, owner) = (Rc::clone(service), caller.clone());
    let created = to_the_end(async move { creating.create_empty(&owner, context, settings).await });
    match created.await {
        Ok(task) => {
            service.audit.record(caller, "tasks", Some(&task.id), "ok");
            Response::json(StatusCode::CREATED, &json!(task.id))
        }
        Err(error) => plain_error(&error),
    }
}

/// `GET /tasks/metadata`
pub(crate) async fn all_metadata(service: &Rc<Service>, caller: &Caller) -> Response {
    if service.store.is_shared {
        let text = "Listing all task metadata is only supported when using InMemoryTaskStore.";
        return Response::json(StatusCode::NOT_IMPLEMENTED, &json!({"error": text}));
    }
    let query = ListQuery { size: MAX_DESCRIBED, ..ListQuery::default() };
    match service.list(caller, &query).await {
        Ok((tasks, _)) if tasks.is_empty() => Response::empty(StatusCode::NO_CONTENT),
        Ok((tasks, _)) => {
            let all: Vec<Value> = tasks.iter().map(|task| described(task)).collect();
            Response::json(StatusCode::OK, &Value::Array(all))
        }
        Err(error) => plain_error(&error),
    }
}

/// `GET /tasks/:id/metadata`
pub(crate) async fn metadata(service: &Rc<Service>, caller: &Caller, id: &str) -> Response {
    match service.find(caller, id).await {
        Ok(task) => Response::json(StatusCode::OK, &json!({"metadata": described(&task)})),
        Err(error) if error.kind == ErrorKind::TaskNotFound => {
            Response::json(StatusCode::NOT_FOUND, &json!({"error": "Task not found"}))
        }
        Err(error) => plain_error(&error),
    }
}

fn described(task: &Task) -> Value {
    task.read(|record| {
        json!({
            "id": record.id,
            "contextId": record.context,
            "taskState": record.state.word(Dialect::Tagged),
            "model": record.model,
            "mcpServers": [],
            "availableTools": [],
        })
    })
}

/// `GET /listCommands`
pub(crate) fn list_commands() -> Response {
    let leaf = |name: &str, about: &str| json!({"name": name, "description": about, "arguments": [], "subCommands": []});
    let tree = |name: &str, about: &str, below: Vec<Value>| json!({"name": name, "description": about, "arguments": [], "subCommands": below});
    let commands = [
        tree(
            "extensions",
            "Manage extensions.",
            vec![leaf("extensions list", "Lists all installed extensions.")],
        ),
        tree(
            "memory",
            "Manage memory.",
            vec![
                leaf("memory list", "Lists the paths of the GEMINI.md files in use."),
                leaf("memory show", "Shows the current memory contents."),
            ],
        ),
        tree(
            "restore",
            "Restore to a previous checkpoint.",
            vec![leaf("restore list", "Lists all available checkpoints.")],
        ),
    ];
    Response::json(StatusCode::OK, &json!({"commands": commands}))
}

/// `POST /executeCommand`
pub(crate) fn execute_command(service: &Rc<Service>, request: &Request, caller: &Caller) -> Response {
    let bad = |text: &str| Response::json(StatusCode::BAD_REQUEST, &json!({"error": text}));
    let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    let Some(command) = body.get("command").and_then(Value::as_str).filter(|command| !command.is_empty())
    else {
        return bad("Invalid \"command\" field.");
    };
    if body.get("args").is_some_and(|args| !args.is_array()) {
        return bad("\"args\" field must be an array.");
    }
    let Some(workspace) = &service.config.workspace else {
        return bad("CODER_AGENT_WORKSPACE_PATH is not set; commands need a workspace.");
    };
    service.audit.record(caller, "executeCommand", None, "ok");
    match service.execute(command, workspace) {
        Ok(Some(data)) => Response::json(StatusCode::OK, &json!({"name": command, "data": data})),
        Ok(None) => {
            let text = format!("Command not found: {command}");
            Response::json(StatusCode::NOT_FOUND, &json!({"error": text}))
        }
        Err(failure) => {
            Response::json(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": failure.message()}))
        }
    }
}

fn plain_error(error: &A2aError) -> Response {
    let status = match error.kind {
        ErrorKind::InvalidParams => StatusCode::BAD_REQUEST,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Response::json(status, &json!({"error": error.message}))
}
