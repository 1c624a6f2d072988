//! Updates of a task as server-sent events.

use std::rc::Rc;
use std::time::Duration;

use pollux_a2a::protocol::{Dialect, Update};
use pollux_serve::{EventSender, Response, events};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::manner::CallManner;
use crate::operations::Stream;
use crate::service::Service;
use crate::task::Task;

/// A stream of 1.0 whose task waits for its client is closed after so long without news.
const WITHOUT_NEWS: Duration = Duration::from_secs(60);
/// How long a client may not read before its stream is closed.
const STALLED: Duration = Duration::from_secs(60);

/// The response that sends the updates; `wrap` puts each into the form of its transport.
pub(crate) fn respond(
    service: &Rc<Service>,
    stream: Stream,
    manner: CallManner,
    wrap: impl Fn(Value) -> Value + 'static,
) -> Response {
    let (sender, receiver) = events();
    let service = Rc::clone(service);
    tokio::task::spawn_local(async move {
        pump(&service, stream, manner, &sender, &wrap).await;
    });
    Response::events(receiver)
}

async fn pump(
    service: &Service,
    stream: Stream,
    manner: CallManner,
    sender: &EventSender,
    wrap: &dyn Fn(Value) -> Value,
) {
    let Stream { task, from, task_first, slot: _slot } = stream;
    let mut news = task.watch();
    service.follow(&task);
    let send = async |update: &Update| {
        let text = wrap(manner.update(update)).to_string();
        timeout(STALLED, sender.send(&text)).await.unwrap_or(false)
    };
    let is_old = manner.dialect != Dialect::One;
    let (mut sent, mut replaced) = (from, task.replaced.get());
    if task_first {
        read_history(service, &task).await;
        (sent, replaced) = (task.last(), task.replaced.get());
        let view = task.read(|record| record.view(None, true));
        let state = view.status.state;
        let rests = state.is_over() && !task.has_commands();
        if !send(&Update::Task(view)).await || state.is_final() || is_old && rests && from == sent {
            return;
        }
    }
    loop {
        news.borrow_and_update();
        let is_replaced = replaced != task.replaced.get();
        let updates = match task.after(sent).filter(|_| !is_replaced) {
            Some(updates) => updates,
            // The client was too slow, or another server told more than is kept here.
            None => {
                read_history(service, &task).await;
                (sent, replaced) = (task.last(), task.replaced.get());
                let view = task.read(|record| record.view(None, true));
                let is_over = view.status.state.is_final() || is_old && view.status.state.is_over();
                if !send(&Update::Task(view)).await || is_over {
                    return;
                }
                continue;
            }
        };
        for numbered in updates {
            sent = numbered.number;
            // The task itself is the first update of a task; this stream began with it.
            if task_first && matches!(&*numbered.update, Update::Task(_)) {
                continue;
            }
            if !send(&numbered.update).await {
                return;
            }
            let is_final = numbered.update.state().is_some_and(|state| state.is_final());
            let is_last = matches!(&*numbered.update, Update::Status(update) if update.last);
            if is_final || is_old && is_last {
                return;
            }
        }
        if task.last() > sent {
            continue;
        }
        let waits = task.read(|record| record.state.is_over()) && !task.has_commands();
        tokio::select! {
            () = sender.gone() => return,
            changed = news.changed() => if changed.is_err() { return },
            () = sleep(WITHOUT_NEWS), if waits => return,
            () = service.stopped.cancelled() => return,
        }
    }
}

/// Reads all of a task's history. Where that fails, a stream shows what the record has.
async fn read_history(service: &Service, task: &Task) {
    if let Err(error) = service.read_history(task, None).await {
        service.debug(&format!("task {}: {error}", task.id));
    }
}
