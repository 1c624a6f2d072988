//! The methods of the protocol, independent of how they arrive.

use std::rc::Rc;
use std::time::Duration;

use pollux_a2a::protocol::{Dialect, Method, TaskState, Version};
use pollux_domain::time::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::access::Caller;
use crate::error::{A2aError, ErrorKind};
use crate::manner::CallManner;
use crate::open_streams::Slot;
use crate::service::{Sent, Service};
use crate::store::{ListQuery, is_page_token, is_task_id};
use crate::task::Task;

/// How long a request waits for a task that works.
const WAITING: Duration = Duration::from_secs(30 * 60);
/// Tasks of a page, and the most of them.
const PAGE: usize = 50;
const MAX_PAGE: usize = 100;

/// The answer to a call.
pub(crate) enum MethodAnswer {
    Value(Value),
    Stream(Stream),
}

/// Updates of a task, from a point on.
pub(crate) struct Stream {
    pub(crate) task: Rc<Task>,
    /// Everything after this update is sent.
    pub(crate) from: u64,
    /// The task is sent first.
    pub(crate) task_first: bool,
    pub(crate) slot: Slot,
}

/// Carries out a method.
pub(crate) async fn call(
    service: &Rc<Service>,
    caller: &Caller,
    method: Method,
    params: &Value,
    manner: CallManner,
) -> Result<MethodAnswer, A2aError> {
    let answered = carry_out(service, caller, method, params, manner).await;
    let result = answered
        .as_ref()
        .err()
        .map_or("ok", |error| if error.kind == ErrorKind::TaskNotFound { "not found" } else { "refused" });
    let named = params.pointer("/message/taskId").or_else(|| params.get("taskId"));
    let task = named.or_else(|| params.get("id")).and_then(Value::as_str).filter(|id| is_task_id(id));
    let began = match &answered {
        Ok(MethodAnswer::Stream(stream)) => Some(stream.task.id.clone()),
        _ => None,
    };
    service.audit.record(caller, method.name(manner.dialect.version()), began.as_deref().or(task), result);
    answered
}

async fn carry_out(
    service: &Rc<Service>,
    caller: &Caller,
    method: Method,
    params: &Value,
    manner: CallManner,
) -> Result<MethodAnswer, A2aError> {
    match method {
        Method::Send => send(service, caller, params, manner).await,
        Method::Stream => {
            // Before the message is taken: one whose stream is refused must not be carried out.
            let slot = service.streams.take(&caller.owner)?;
            let sent = send_message(service, caller, params, manner.dialect.version()).await?;
            Ok(MethodAnswer::Stream(begun(sent, slot, manner)))
        }
        Method::Get => {
            let history = history_length(params)?;
            let task = service.find(caller, id(params)?).await?;
            service.follow_silent(&task);
            Ok(MethodAnswer::Value(view(service, &task, history, true, manner).await?))
        }
        Method::List => list(service, caller, params, manner).await,
        Method::Cancel => {
            let (cancelling, caller, id) = (Rc::clone(service), caller.clone(), id(params)?.to_owned());
            let task = to_the_end(async move { cancelling.cancel(&caller, &id).await }).await?;
            Ok(MethodAnswer::Value(view(service, &task, None, true, manner).await?))
        }
        Method::Subscribe => {
            let task = service.find(caller, id(params)?).await?;
            let state = task.read(|record| record.state);
            if state.is_final() {
                let text = format!("the task is {} and sends no updates", state.word(Dialect::Tagged));
                return Err(A2aError::new(ErrorKind::Unsupported, text));
            }
            let slot = service.streams.take(&caller.owner)?;
            service.follow(&task);
            let from = task.last();
            Ok(MethodAnswer::Stream(Stream { task, from, task_first: true, slot }))
        }
        Method::SetPush => service.set_webhook(caller, params, manner.dialect).await.map(MethodAnswer::Value),
        Method::GetPush => service.get_webhook(caller, params, manner.dialect).await.map(MethodAnswer::Value),
        Method::ListPush => {
            service.list_webhooks(caller, params, manner.dialect).await.map(MethodAnswer::Value)
        }
        Method::DeletePush => {
            service.delete_webhook(caller, params, manner.dialect).await.map(MethodAnswer::Value)
        }
        Method::ExtendedCard => Ok(MethodAnswer::Value(service.card())),
    }
}

/// The updates of a message that was taken.
fn begun(sent: Sent, slot: Slot, manner: CallManner) -> Stream {
    let Sent { task, from, is_duplicate, is_new, .. } = sent;
    // The first update of a new task is the task. In 1.0 every stream begins with it.
    let is_old = manner.dialect != Dialect::One;
    let task_first = is_duplicate || !is_old && !is_new;
    Stream { from: if is_duplicate { task.last() } else { from }, task, task_first, slot }
}

/// Takes a message, also if its client goes away meanwhile.
async fn send_message(
    service: &Rc<Service>,
    caller: &Caller,
    params: &Value,
    version: Version,
) -> Result<Sent, A2aError> {
    let (service, caller, params) = (Rc::clone(service), caller.clone(), params.clone());
    to_the_end(async move { service.send(&caller, &params, version).await }).await
}

/// Runs in a task of its own: a request whose client goes away is dropped, and a change must not stop half-way.
pub(crate) async fn to_the_end<T: 'static>(
    change: impl Future<Output = Result<T, A2aError>> + 'static,
) -> Result<T, A2aError> {
    let done = tokio::task::spawn_local(change).await;
    done.unwrap_or_else(|_| Err(A2aError::new(ErrorKind::Internal, "the request failed")))
}

async fn send(
    service: &Rc<Service>,
    caller: &Caller,
    params: &Value,
    manner: CallManner,
) -> Result<MethodAnswer, A2aError> {
    let configuration = params.get("configuration").unwrap_or(&Value::Null);
    let is_set = |key: &str| configuration.get(key).and_then(Value::as_bool);
    let history = history_length(configuration)?;
    let sent = send_message(service, caller, params, manner.dialect.version()).await?;
    let waits = match manner.dialect {
        // Buffers leave out what is false.
        Dialect::OldBuffers => configuration.is_null() || is_set("blocking") == Some(true),
        Dialect::Tagged | Dialect::One => {
            is_set("blocking") != Some(false) && is_set("returnImmediately") != Some(true)
        }
    };
    if waits {
        rested(service, &sent).await;
    }
    let task = view(service, &sent.task, history, true, manner).await?;
    Ok(MethodAnswer::Value(match manner.dialect {
        Dialect::Tagged => task,
        Dialect::OldBuffers | Dialect::One => json!({"task": task}),
    }))
}

/// Waits until the task that a message was sent to waits for its client, or is over.
async fn rested(service: &Service, sent: &Sent) {
    let end = Instant::now() + WAITING;
    let task = &sent.task;
    service.follow(task);
    let mut news = task.watch();
    // A record forgets old messages.
    let mut is_seen = sent.is_seen;
    loop {
        // A task that waited before does so until its server, here or elsewhere, has acted on the message.
        is_seen |= task.read(|record| record.history.has_seen(&sent.digest));
        let state = task.read(|record| record.state);
        if state.is_final() || (state.is_over() && is_seen && !task.has_commands()) {
            return;
        }
        if !matches!(timeout_at(end, news.changed()).await, Ok(Ok(()))) {
            return;
        }
    }
}

async fn view(
    service: &Service,
    task: &Task,
    history: Option<usize>,
    artifacts: bool,
    manner: CallManner,
) -> Result<Value, A2aError> {
    Ok(service.view(task, history, artifacts).await?.to_json(manner.dialect))
}

fn id(params: &Value) -> Result<&str, A2aError> {
    let id = params.get("id").or_else(|| params.get("taskId")).or_else(|| params.get("name"));
    let id = id.and_then(Value::as_str).map(|id| id.strip_prefix("tasks/").unwrap_or(id));
    id.filter(|id| !id.is_empty()).ok_or_else(|| A2aError::params("`id` is missing"))
}

fn history_length(params: &Value) -> Result<Option<usize>, A2aError> {
    number(params, "historyLength")
}

/// A number that JSON or a query may hold.
fn number(params: &Value, key: &str) -> Result<Option<usize>, A2aError> {
    let number = match params.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64().and_then(|number| usize::try_from(number).ok()),
    };
    number.map(Some).ok_or_else(|| A2aError::params(format!("`{key}` must be a non-negative whole number")))
}

async fn list(
    service: &Rc<Service>,
    caller: &Caller,
    params: &Value,
    manner: CallManner,
) -> Result<MethodAnswer, A2aError> {
    let text = |key: &str| params.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let size = number(params, "pageSize")?.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&size) {
        return Err(A2aError::params(format!("`pageSize` must be between 1 and {MAX_PAGE}")));
    }
    let state = match text("status").filter(|word| *word != "TASK_STATE_UNSPECIFIED") {
        Some(word) => {
            Some(TaskState::named(word).ok_or_else(|| A2aError::params("unknown task state in `status`"))?)
        }
        None => None,
    };
    let after = match text("statusTimestampAfter").or_else(|| text("lastUpdatedAfter")) {
        Some(time) => Some(
            Timestamp::parse(time)
                .ok_or_else(|| A2aError::params("`statusTimestampAfter` must be a timestamp"))?,
        ),
        None => None,
    };
    let token = text("pageToken").map(str::to_owned);
    if token.as_ref().is_some_and(|token| !is_page_token(token)) {
        return Err(A2aError::params("invalid `pageToken`"));
    }
    let query = ListQuery { context: text("contextId").map(str::to_owned), state, after, size, token };
    let artifacts = match params.get("includeArtifacts") {
        Some(Value::String(word)) => word == "true",
        Some(value) => value == true,
        None => false,
    };
    // Histories are long; a list has none unless it asks for them.
    let history = Some(history_length(params)?.unwrap_or(0));
    let (tasks, listed) = service.list(caller, &query).await?;
    let mut views = Vec::new();
    for task in &tasks {
        views.push(view(service, task, history, artifacts, manner).await?);
    }
    Ok(MethodAnswer::Value(json!({
        "tasks": views,
        "nextPageToken": listed.token.unwrap_or_default(),
        "pageSize": size,
        "totalSize": listed.total,
    })))
}
