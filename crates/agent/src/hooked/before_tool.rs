//! Hooks before a tool call.

use std::path::Path;

use futures_util::future::join_all;
use pollux_domain::event::CallDecision;
use pollux_domain::tool::{Tool, ToolErrorKind};
use pollux_hooks::{BeforeTool, BeforeToolOutcome, CallVerdict, Event as Moment, McpContext};
use tokio_util::sync::CancellationToken;

use super::Hooked;
use crate::call::{Marks, Ready, RequestedCall};
use crate::calls::accept;

/// Calls are about to be decided on; what hooks say about each.
pub(crate) async fn before_tools(
    hooked: &Hooked,
    group: &[Ready],
    cancel: &CancellationToken,
) -> Vec<BeforeToolOutcome> {
    if !hooked.listens_to(Moment::BeforeTool) {
        return group.iter().map(|_| BeforeToolOutcome::default()).collect();
    }
    join_all(group.iter().map(|ready| before_tool(hooked, ready, cancel))).await
}

/// What hooks say about a call that could run.
pub(crate) async fn before_tool(
    hooked: &Hooked,
    ready: &Ready,
    cancel: &CancellationToken,
) -> BeforeToolOutcome {
    let Some(call) = Some(ready).filter(|ready| ready.may_run()).and_then(of_ready) else {
        return BeforeToolOutcome::default();
    };
    hooked.fire(|| call, cancel).await.outcome
}

/// Applies the results of hooks to a call before the policy decides. The order is
/// upstream's. `plans` is where plans are written, in plan mode.
pub(crate) fn apply_hook_results(
    plans: Option<&Path>,
    ready: &mut Ready,
    wanted: BeforeToolOutcome,
    cancel: &CancellationToken,
) {
    // A cancelled call does not run; this is not caused by a hook.
    if cancel.is_cancelled() || !ready.may_run() {
        return;
    }
    match wanted.verdict {
        CallVerdict::Stop { reason } => {
            ready.decision = Some(CallDecision::Reject);
            let message = format!("Agent execution stopped by hook: {reason}");
            return ready.refuse(ToolErrorKind::StopExecution, &message);
        }
        CallVerdict::Block { reason } => {
            ready.decision = Some(CallDecision::Reject);
            let message = format!("Tool execution blocked: {reason}");
            return ready.refuse(ToolErrorKind::PolicyViolation, &message);
        }
        CallVerdict::Ask { message } => ready.marks.asks = Some(message.unwrap_or_default()),
        CallVerdict::Proceed => {}
    }
    let (Some(args), Some(tool)) = (wanted.tool_input, ready.tool.clone()) else { return };
    if args == ready.args {
        return;
    }
    let call = RequestedCall { args, ..ready.call.clone() };
    match accept(call, &tool, plans) {
        Ok(mut changed) => {
            changed.marks = Marks { changed: true, ..ready.marks.clone() };
            changed.decision = ready.decision;
            *ready = changed;
        }
        Err(failure) => {
            let message =
                format!("Tool parameter modification by hook failed validation: {}", failure.message);
            ready.refuse(ToolErrorKind::InvalidToolParams, &message);
        }
    }
}

fn of_ready(ready: &Ready) -> Option<BeforeTool> {
    let (spec, tool) = (ready.spec.as_ref()?, ready.tool.as_ref()?);
    Some(BeforeTool {
        tool_name: spec.name.clone(),
        tool_input: ready.args.clone(),
        mcp_context: mcp_context(tool.as_ref()),
        original_request_name: ready.marks.original.clone(),
        call: Some(ready.call.id.as_str().to_owned()),
    })
}

/// What hooks learn about the server behind a tool.
pub(crate) fn mcp_context(tool: &dyn Tool) -> Option<McpContext> {
    let server_name = tool.server()?.to_owned();
    let link = tool.server_link().unwrap_or_default();
    let tool_name = if link.tool.is_empty() { tool.spec().name.clone() } else { link.tool };
    let cwd = link.cwd.map(|folder| folder.display().to_string());
    let (command, args, url) = (link.command, link.args, link.url);
    Some(McpContext { server_name, tool_name, command, args, cwd, url, tcp: None })
}
