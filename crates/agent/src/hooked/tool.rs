//! Hooks around calls, and around the question whether they may run.

use futures_util::future::join_all;
use pollux_domain::approval::{ApprovalRequest, Subject};
use pollux_domain::content::Part;
use pollux_domain::event::{CallDecision, NoticeCode, Severity};
use pollux_domain::tool::{self, Display, Tool, ToolErrorKind, ToolOutcome};
use pollux_hooks::{
    AfterTool, AfterToolOutcome, BeforeTool, BeforeToolOutcome, CallVerdict, Event as Moment, MAX_TAIL_CALLS,
    McpContext, Notification, PermissionDetails, TailCall, ToolFailure, ToolResponse, Verdict, hook_context,
};
use pollux_session::display_json;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Hooked;
use crate::call::{Call, Finished, Marks, Ready};
use crate::calls::{self, Starts, accept};
use crate::session::Session;

impl Session {
    /// Calls are about to be decided on; what hooks say about each.
    pub(crate) async fn before_tools(
        &self,
        group: &[Ready],
        cancel: &CancellationToken,
    ) -> Vec<BeforeToolOutcome> {
        if !self.hooked.listens_to(Moment::BeforeTool) {
            return group.iter().map(|_| BeforeToolOutcome::default()).collect();
        }
        join_all(group.iter().map(|ready| self.before_tool(ready, cancel))).await
    }

    /// What hooks say about a call that could run.
    pub(crate) async fn before_tool(&self, ready: &Ready, cancel: &CancellationToken) -> BeforeToolOutcome {
        let Some(call) = Some(ready).filter(|ready| ready.may_run()).and_then(of_ready) else {
            return BeforeToolOutcome::default();
        };
        self.hooked.fire(|| call, cancel).await.outcome
    }

    /// Does to a call what hooks want, before anybody else decides on it. The order is upstream's.
    pub(crate) fn heed(&self, ready: &mut Ready, wanted: BeforeToolOutcome, cancel: &CancellationToken) {
        // A cancelled call is not run; that is not a hook's doing.
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
        let call = Call { args, ..ready.call.clone() };
        match accept(call, &tool, self.plans_now()) {
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

    /// Calls were made: hooks may add to their results, replace them, or ask for other calls.
    pub(crate) async fn after_tools(
        &mut self,
        finished: Vec<Finished>,
        cancel: &CancellationToken,
    ) -> Vec<Finished> {
        if !self.hooked.listens_to(Moment::AfterTool) {
            return finished;
        }
        let looks = join_all(finished.iter().map(|done| self.after_tool(done, cancel))).await;
        let mut all = Vec::with_capacity(finished.len());
        for (mut done, look) in finished.into_iter().zip(looks) {
            let mut tail = heed_result(&mut done, look);
            for _ in 0..MAX_TAIL_CALLS {
                let Some(wanted) = tail.take().filter(|_| !cancel.is_cancelled()) else { break };
                done = self.tail_call(done, wanted, cancel).await;
                let look = self.after_tool(&done, cancel).await;
                tail = heed_result(&mut done, look);
            }
            if tail.is_some() && !cancel.is_cancelled() {
                let text = format!(
                    "A hook asked for more than {MAX_TAIL_CALLS} calls in a row; the last result stays."
                );
                self.notice(Severity::Warning, NoticeCode::Hook, text).await;
            }
            all.push(done);
        }
        all
    }

    async fn after_tool(&self, done: &Finished, cancel: &CancellationToken) -> AfterToolOutcome {
        let Some(call) = of_finished(done) else { return AfterToolOutcome::default() };
        let heard = self.hooked.fire(|| AfterTool { call, tool_response: response(done) }, cancel).await;
        // What is done is done; a cancel ends the turn by itself.
        if cancel.is_cancelled() { AfterToolOutcome::default() } else { heard.outcome }
    }

    /// Makes the call that a hook wants; it is decided on like any other, and its result takes the place of
    /// the one before.
    async fn tail_call(&mut self, done: Finished, wanted: TailCall, cancel: &CancellationToken) -> Finished {
        let text = format!("A hook runs {} after {}.", wanted.name, done.call.name);
        self.notice(Severity::Info, NoticeCode::Hook, text).await;
        let call = Call { id: done.call.id.clone(), name: wanted.name, args: wanted.args };
        let mut ready = calls::prepare(call, &self.toolbox, self.plans_now());
        ready.marks.original = Some(done.call.name.clone());
        let mut group = vec![ready];
        self.permit(&mut group, cancel).await;
        self.keep_before(&group, cancel).await;
        let mut results = calls::run_group(group, Starts::Silent, &self.events, cancel).await;
        self.keep_after(&results).await;
        let Some(next) = results.pop() else { return done };
        Finished {
            duration: done.duration + next.duration,
            // What was to be known of the first result is still to be known.
            appended: done.appended + &next.appended,
            call: done.call,
            ..next
        }
    }
}

/// Does to a result what hooks want; the call they want instead. The order is upstream's.
fn heed_result(done: &mut Finished, wanted: AfterToolOutcome) -> Option<TailCall> {
    let failed =
        |kind, message: String, display| ToolOutcome::Failed(tool::ToolFailure { kind, message, display });
    match wanted.verdict {
        Verdict::Stop { reason } => {
            done.outcome = failed(ToolErrorKind::StopExecution, reason, None);
            return None;
        }
        Verdict::Block { reason } => {
            let display = Some(format!("Tool result blocked: {reason}"));
            done.outcome = failed(ToolErrorKind::ExecutionFailed, reason, display);
            return None;
        }
        Verdict::Proceed => {}
    }
    if let Some(context) = wanted.context {
        done.appended.push_str(&format!("\n\n{}", hook_context(&context)));
    }
    wanted.tail_call
}

fn of_ready(ready: &Ready) -> Option<BeforeTool> {
    let (spec, tool) = (ready.spec.as_ref()?, ready.tool.as_ref()?);
    Some(BeforeTool {
        tool_name: spec.name.clone(),
        tool_input: ready.args.clone(),
        mcp_context: mcp_context(tool.as_ref()),
        original_request_name: ready.marks.original.clone(),
    })
}

/// A call that was made; `None` for one that never ran, or ended without a word.
fn of_finished(done: &Finished) -> Option<BeforeTool> {
    let spec = done.spec.as_ref().filter(|_| done.ran)?;
    Some(BeforeTool {
        tool_name: spec.name.clone(),
        tool_input: done.args.clone(),
        mcp_context: done.tool.as_deref().and_then(mcp_context),
        original_request_name: done.is_tail.then(|| done.call.name.clone()),
    })
}

/// What hooks learn about the server behind a tool.
fn mcp_context(tool: &dyn Tool) -> Option<McpContext> {
    let server_name = tool.server()?.to_owned();
    let link = tool.server_link().unwrap_or_default();
    let tool_name = if link.tool.is_empty() { tool.spec().name.clone() } else { link.tool };
    let cwd = link.cwd.map(|folder| folder.display().to_string());
    let (command, args, url) = (link.command, link.args, link.url);
    Some(McpContext { server_name, tool_name, command, args, cwd, url, tcp: None })
}

fn response(done: &Finished) -> ToolResponse {
    match &done.outcome {
        ToolOutcome::Done(output) => {
            let texts: Option<Vec<&str>> = output.parts.iter().map(Part::spoken_text).collect();
            let llm_content = match texts {
                Some(texts) => Value::from(texts.join("\n") + &done.appended),
                None => output.parts.iter().map(Part::to_json).collect(),
            };
            ToolResponse { llm_content, return_display: display_json(&output.display), error: None }
        }
        ToolOutcome::Failed(failure) => ToolResponse {
            llm_content: failure.message.as_str().into(),
            return_display: failure.display.as_deref().unwrap_or(&failure.message).into(),
            error: Some(ToolFailure {
                message: failure.message.clone(),
                kind: failure.kind.as_str().to_owned(),
            }),
        },
        ToolOutcome::Cancelled { .. } | ToolOutcome::Refused(_) => {
            ToolResponse { return_display: display_json(&Display::Nothing), ..ToolResponse::default() }
        }
    }
}

impl Hooked {
    /// Somebody is about to be asked.
    pub(crate) async fn notify(&self, request: &ApprovalRequest, cancel: &CancellationToken) {
        self.fire(|| notification(request), cancel).await;
    }
}

/// The titles are upstream's.
fn notification(request: &ApprovalRequest) -> Notification {
    let (title, details) = match &request.subject {
        Subject::Edit { path, diff } => {
            let word = if request.tool == "write_file" { "Write" } else { "Edit" };
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let (unified, before, after) = diff.as_ref().map_or_else(Default::default, |diff| {
                (diff.unified.clone(), diff.before.clone(), diff.after.clone())
            });
            let details = PermissionDetails::Edit {
                file_name: name.clone(),
                file_path: path.display().to_string(),
                file_diff: unified,
                original_content: before,
                new_content: after,
                is_modifying: false,
            };
            (format!("Confirm {word}: {name}"), details)
        }
        Subject::Command { command, .. } => {
            let parts = request.why.parts.iter().map(|part| part.text.as_str());
            let texts: Vec<&str> = if request.why.parts.is_empty() { vec![command] } else { parts.collect() };
            let mut roots: Vec<&str> =
                texts.iter().filter_map(|text| text.split_whitespace().next()).collect();
            roots.dedup();
            let root_command = roots.join(", ");
            let details = PermissionDetails::Exec { command: command.clone(), root_command };
            ("Confirm Shell Command".to_owned(), details)
        }
        Subject::Fetch(urls) => {
            let prompt = request.args.get("prompt").and_then(Value::as_str).unwrap_or_default().to_owned();
            let details = PermissionDetails::Info { prompt, urls: urls.clone() };
            ("Confirm Web Fetch".to_owned(), details)
        }
        Subject::Server { server, tool } => {
            let own = tool.strip_prefix("mcp_").and_then(|rest| rest.strip_prefix(server)?.strip_prefix('_'));
            let details = PermissionDetails::Mcp {
                server_name: server.clone(),
                tool_name: own.unwrap_or(tool).to_owned(),
                tool_display_name: request.display_name.clone(),
            };
            ("Confirm MCP Tool Execution".to_owned(), details)
        }
        Subject::Other(text) => {
            let details = PermissionDetails::Info { prompt: text.clone(), urls: Vec::new() };
            (format!("Confirm: {}", request.display_name), details)
        }
        Subject::EnterPlan { .. } | Subject::Plan { .. } | Subject::Questions(_) => {
            (request.display_name.clone(), PermissionDetails::Other(request.tool.clone()))
        }
    };
    Notification::tool_permission(&title, details)
}
