//! Tools that the host declares and runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::sync::Locked as _;
use pollux_domain::terminal_text::plain;
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome,
    ToolSource, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::incoming::{ToolDeclaration, Unusable};

/// How long the host may take for a call.
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// The most tools, and the longest name and description.
const MAX_TOOLS: usize = 128;
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 10_000;

/// A call on its way to the host.
#[derive(Debug)]
pub(crate) struct PendingCall {
    pub(crate) call: String,
    pub(crate) name: String,
    pub(crate) args: JsonObject,
    pub(crate) answer: oneshot::Sender<HostAnswer>,
}

/// What the host made of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostAnswer {
    Done(String),
    Failed(String),
}

/// The tools of the host.
pub(crate) struct HostTools {
    tools: Mutex<Vec<Arc<dyn Tool>>>,
    version: AtomicU64,
    calls: mpsc::UnboundedSender<PendingCall>,
    /// The session runs in another process, which cannot call them.
    elsewhere: bool,
}

impl HostTools {
    /// No tools yet; calls arrive at the receiver.
    pub(crate) fn new(elsewhere: bool) -> (Arc<Self>, mpsc::UnboundedReceiver<PendingCall>) {
        let (calls, receiver) = mpsc::unbounded_channel();
        let (tools, version) = (Mutex::default(), AtomicU64::new(1));
        (Arc::new(Self { tools, version, calls, elsewhere }), receiver)
    }

    /// Replaces the tools.
    pub(crate) fn declare(&self, declared: Vec<ToolDeclaration>) -> Result<(), Unusable> {
        if declared.len() > MAX_TOOLS {
            return Err(Unusable::invalid(format!("more than {MAX_TOOLS} tools")));
        }
        if self.elsewhere && !declared.is_empty() {
            return Err(Unusable::invalid(
                "a session in the core cannot use tools of this program".to_owned(),
            ));
        }
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for tool in declared {
            check(&tool)?;
            tools.push(Arc::new(HostTool::new(tool, self.calls.clone())));
        }
        *self.tools.locked() = tools;
        self.version.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn check(tool: &ToolDeclaration) -> Result<(), Unusable> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let starts_well = tool.name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !starts_well || tool.name.len() > MAX_NAME || !tool.name.chars().all(is_letter) {
        let name: String = tool.name.chars().take(MAX_NAME).collect();
        return Err(Unusable::invalid(format!("`{name}` is not a valid tool name")));
    }
    if tool.description.len() > MAX_DESCRIPTION {
        return Err(Unusable::invalid(format!("the description of `{}` is too long", tool.name)));
    }
    Ok(())
}

impl ToolSource for HostTools {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.locked().clone()
    }

    fn context(&self) -> Option<String> {
        None
    }

    fn settled<'a>(&'a self, _cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A tool of the host.
struct HostTool {
    spec: Arc<ToolSpec>,
    calls: mpsc::UnboundedSender<PendingCall>,
}

impl HostTool {
    fn new(tool: ToolDeclaration, calls: mpsc::UnboundedSender<PendingCall>) -> Self {
        let ToolDeclaration { name, description, parameters } = tool;
        let spec = ToolSpec {
            display_name: name.clone(),
            name,
            description,
            kind: ToolKind::Other,
            parameters: parameters.map_or_else(|| json!({"type": "object", "properties": {}}), Value::Object),
            output_is_markdown: false,
            offloads_long_output: true,
        };
        Self { spec: Arc::new(spec), calls }
    }
}

impl Tool for HostTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        Ok(Box::new(HostInvocation {
            name: self.spec.name.clone(),
            args: args.clone(),
            calls: self.calls.clone(),
        }))
    }
}

/// A call that the host will run.
struct HostInvocation {
    name: String,
    args: JsonObject,
    calls: mpsc::UnboundedSender<PendingCall>,
}

impl Invocation for HostInvocation {
    fn describe(&self) -> String {
        Value::Object(self.args.clone()).to_string().chars().take(2_000).collect()
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let (answer, receiver) = oneshot::channel();
            let Self { name, args, calls } = *self;
            let call = context.call.as_str().to_owned();
            let failed = |why: String| ToolOutcome::failed(ToolErrorKind::ExecutionFailed, why);
            let pending = PendingCall { call, name: name.clone(), args, answer };
            if calls.send(pending).is_err() {
                return failed(format!(
                    "`{name}` cannot be called: the program that provides it has disconnected"
                ));
            }
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => ToolOutcome::Cancelled { partial: None },
                answer = receiver => match answer {
                    Ok(HostAnswer::Done(text)) => {
                        let display = Display::Text(plain(&text).into_owned());
                        ToolOutcome::text(text, display)
                    }
                    Ok(HostAnswer::Failed(why)) => failed(why),
                    Err(_) => failed(format!("`{name}` was not answered: the program that provides it has disconnected")),
                },
                () = tokio::time::sleep(LIMIT) => {
                    failed(format!("`{name}` was not answered within {} minutes", LIMIT.as_secs() / 60))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str) -> ToolDeclaration {
        ToolDeclaration { name: name.to_owned(), description: String::new(), parameters: None }
    }

    #[test]
    fn names_that_a_provider_refuses_are_refused() {
        let (tools, _calls) = HostTools::new(false);
        assert_eq!(tools.declare(vec![declared("look_up")]), Ok(()));
        let version = tools.version();
        for name in ["", "a b", "7up", "näme", "a\nb", &"x".repeat(65)] {
            assert!(tools.declare(vec![declared(name)]).is_err(), "{name:?}");
        }
        assert_eq!((tools.tools().len(), tools.version()), (1, version), "nothing changes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_not_answered_fails_after_ten_minutes() {
        let (tools, mut calls) = HostTools::new(false);
        tools.declare(vec![declared("slow")]).unwrap();
        let tool = tools.tools().remove(0);
        let call = tool.prepare(&JsonObject::new()).unwrap();
        let context = ToolContext {
            call: pollux_domain::id::CallId::from_file("c1"),
            cancel: CancellationToken::new(),
            must_ask: false,
            live: Arc::new(|_| {}),
            terminal: None,
        };
        let started = tokio::time::Instant::now();
        let ToolOutcome::Failed(failure) = call.run(&context).await else { panic!() };
        assert_eq!(failure.message, "`slow` was not answered within 10 minutes");
        assert_eq!(started.elapsed(), LIMIT);
        assert_eq!(calls.recv().await.unwrap().call, "c1");
    }
}
