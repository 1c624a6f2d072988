//! A tool that stands in for every other one and answers with recorded results.

use std::sync::Arc;

use pollux_capsule::{CallEnd, RecordedStatus};
use pollux_domain::content::Part;
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, RunFailure, Tool, ToolContext, ToolErrorKind, ToolKind,
    ToolOutcome, ToolOutput, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::json;

/// Answers every call, whatever its name. Calls have their numbers as ids.
pub(super) struct RecordedTool {
    spec: Arc<ToolSpec>,
    results: Arc<[CallEnd]>,
}

impl RecordedTool {
    pub(super) fn new(results: Vec<CallEnd>) -> Self {
        let spec = ToolSpec {
            name: "recorded_call".to_owned(),
            display_name: "RecordedCall".to_owned(),
            description: "Answers with a recorded result.".to_owned(),
            kind: ToolKind::Other,
            parameters: json!({"type": "object"}),
            output_is_markdown: false,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), results: results.into() }
    }
}

impl Tool for RecordedTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn answers_to(&self, _: &str) -> bool {
        true
    }

    fn checks_itself(&self) -> bool {
        true
    }

    fn prepare(&self, _: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        Ok(Box::new(RecordedCall(Arc::clone(&self.results))))
    }
}

struct RecordedCall(Arc<[CallEnd]>);

impl Invocation for RecordedCall {
    fn describe(&self) -> String {
        String::new()
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        let number = context.call.as_str().rsplit("__").next().and_then(|id| id.parse::<usize>().ok());
        let result = number.and_then(|number| self.0.get(number.checked_sub(1)?));
        let outcome = match result {
            Some(result) => outcome(result.clone()),
            None => ToolOutcome::failed(ToolErrorKind::Unknown, "No result was recorded."),
        };
        Box::pin(std::future::ready(outcome))
    }
}

fn outcome(result: CallEnd) -> ToolOutcome {
    let done = |text: String, failure| {
        let output = ToolOutput::new(vec![Part::text(text)], Display::Nothing);
        ToolOutcome::Done(ToolOutput { failure, ..output })
    };
    let CallEnd { status, output, error, declined } = result;
    match status {
        RecordedStatus::Success => done(output.unwrap_or_default(), None),
        RecordedStatus::Error => match (error, output) {
            (None, Some(output)) => done(output, Some(RunFailure::ExitCode(1))),
            (error, _) => ToolOutcome::failed(ToolErrorKind::Unknown, error.unwrap_or_default()),
        },
        RecordedStatus::Cancelled | RecordedStatus::Pending => match declined {
            Some(reason) => ToolOutcome::Refused(reason),
            None => ToolOutcome::Cancelled { partial: output },
        },
    }
}
