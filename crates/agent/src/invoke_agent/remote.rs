//! Calls a remote agent.

use std::sync::Arc;

use pollux_domain::event::{Activity, ActivityError, ActivityKind, Event};
use pollux_domain::remote_agent::RemoteError;
use pollux_domain::tool::{AgentEnd, Display, ToolContext, ToolOutcome};
use pollux_domain::untrusted::{sealed, wrapped};
use pollux_extend::agents::Definition;

use super::executor;
use crate::subagent::terminate_mode::TerminateMode;
use crate::subagent_host::Host;

/// Sends the prompt and waits for the answer.
pub(super) async fn run(
    host: &Host,
    definition: &Definition,
    prompt: &str,
    context: &ToolContext,
) -> ToolOutcome {
    let Some(agent) = host.port.remote.get(&definition.name) else {
        return executor::failed(definition, None, "it is not connected");
    };
    match agent.call(prompt, &*context.live, &context.cancel).await {
        Ok(text) => {
            let display = AgentEnd {
                agent: definition.name.clone(),
                record: None,
                state: "completed".to_owned(),
                reason: TerminateMode::Goal.as_str().to_owned(),
                result: text.clone(),
            };
            ToolOutcome::text(wrapped(&text), Display::Agent(Box::new(display)))
        }
        Err(RemoteError::Cancelled) => ToolOutcome::Cancelled { partial: None },
        Err(_) if context.cancel.is_cancelled() => ToolOutcome::Cancelled { partial: None },
        Err(error) => {
            let message = error.to_string();
            if let Some(events) = host.events.upgrade() {
                let what = ActivityKind::Error {
                    message: message.clone(),
                    call: None,
                    cause: ActivityError::Generic,
                };
                let activity = Activity { call: context.call.clone(), agent: definition.name.clone(), what };
                let _ = events.send(Event::Activity(Arc::new(activity))).await;
            }
            executor::failed(definition, None, &sealed(&message))
        }
    }
}
