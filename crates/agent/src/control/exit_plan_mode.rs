//! `exit_plan_mode`: presents the plan for approval and leaves plan mode.

use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, Outcome, Subject};
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::{Value, json};

use super::dialog::{Planning, question, spec};

const DESCRIPTION: &str = "Presents the finished plan to the user for approval and, once it is approved, leaves plan \
mode. Call it when the plan is written to a file in the plans directory and nothing is left to find out.";

/// Largest plan that is shown, in bytes.
const MAX_PLAN: u64 = 1024 * 1024;

pub(super) struct ExitPlanMode {
    spec: Arc<ToolSpec>,
    planning: Planning,
}

impl ExitPlanMode {
    pub(super) fn new(planning: Planning) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "plan_filename": {
                    "type": "string",
                    "description": "Name of the plan's file in the plans directory, such as `add-login.md`.",
                },
            },
            "required": ["plan_filename"],
        });
        Self {
            spec: spec("exit_plan_mode", "Exit Plan Mode", ToolKind::Plan, DESCRIPTION, parameters),
            planning,
        }
    }
}

struct Call {
    spec: Arc<ToolSpec>,
    planning: Planning,
    path: PathBuf,
}

impl Tool for ExitPlanMode {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let given = args.get("plan_filename").and_then(Value::as_str).unwrap_or_default().trim();
        if given.is_empty() {
            return Err(ArgError("plan_filename is required.".to_owned()));
        }
        let folder = &self.planning.folder;
        let path = folder.join(given);
        let inside = path.strip_prefix(folder).is_ok_and(|rest| {
            rest.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        });
        if !inside {
            return Err(outside(&path, folder));
        }
        // A link in the folder leads out of it.
        if let (Ok(real), Ok(top)) = (path.canonicalize(), folder.canonicalize())
            && !real.starts_with(top)
        {
            return Err(outside(&path, folder));
        }
        Ok(Box::new(Call { spec: Arc::clone(&self.spec), planning: self.planning.clone(), path }))
    }
}

fn outside(path: &Path, folder: &Path) -> ArgError {
    ArgError(format!(
        "Access denied: plan path ({}) must be within the designated plans directory ({}).",
        path.display(),
        folder.display()
    ))
}

impl Invocation for Call {
    fn describe(&self) -> String {
        format!("Requesting plan approval for: {}", self.path.display())
    }

    fn effect(&self) -> Effect {
        Effect::Dialog
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let path = self.path.display();
            let text = match self.plan() {
                Ok(text) => text,
                Err(problem) => return ToolOutcome::text(problem.clone(), Display::Text(problem)),
            };
            let Planning { authority, .. } = &self.planning;
            let mut by = None;
            let mode = if context.must_ask {
                let subject = Subject::Plan { path: self.path.clone(), text };
                let outcomes = [
                    (Outcome::Once, "start the work; edits require approval (default mode)"),
                    (
                        Outcome::Session,
                        "start the work; edits inside the workspace run without approval (auto_edit mode)",
                    ),
                    (Outcome::Refuse, ""),
                ];
                let question = question(&context.call, &self.spec, subject, &outcomes);
                let (answer, answered) = authority.questions.ask_with_author(question, &context.cancel).await;
                by = answered;
                match answer {
                    ApprovalAnswer::Once => ApprovalMode::Default,
                    ApprovalAnswer::Session => ApprovalMode::AutoEdit,
                    ApprovalAnswer::Refuse(feedback) => return rejected(&feedback, &self.path),
                    _ if context.cancel.is_cancelled() => return ToolOutcome::Cancelled { partial: None },
                    _ => {
                        let text = "User cancelled the plan approval dialog. The plan was not approved and you are still in Plan Mode.";
                        return ToolOutcome::text(text, Display::Text("Cancelled".to_owned()));
                    }
                }
            } else {
                // In a headless run, plan mode returns to the previous mode. A run started in plan mode
                // gets no more than the default mode.
                authority.approvals.mode_before_plan()
            };
            let (mode, note) = match authority.enter_mode(mode, by.as_ref()).await {
                Ok(()) => (mode, String::new()),
                // The plan is approved nevertheless, and every session may enter the default mode.
                Err(refused) => {
                    let _ = authority.enter_mode(ApprovalMode::Default, by.as_ref()).await;
                    (ApprovalMode::Default, format!(" {refused}"))
                }
            };
            authority.approvals.approve_plan();
            ToolOutcome::text(
                format!(
                    "Plan approved. Switching to {}.{note}\n\nThe approved implementation plan is stored at: {path}\nRead and follow the plan strictly during implementation.",
                    described(mode)
                ),
                Display::Text(format!("Plan approved: {path}")),
            )
        })
    }
}

impl Call {
    fn plan(&self) -> Result<String, String> {
        let path = self.path.display();
        let missing = format!(
            "Plan file does not exist: {path}. You must create the plan file before requesting approval."
        );
        let is_file = self.path.metadata().is_ok_and(|metadata| metadata.is_file());
        let file = std::fs::File::open(&self.path).ok().filter(|_| is_file).ok_or(missing)?;
        let mut bytes = Vec::new();
        file.take(MAX_PLAN)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("Could not read {path}: {error}"))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.trim().is_empty() {
            return Err(
                "Plan file is empty. You must write content to the plan file before requesting approval."
                    .to_owned(),
            );
        }
        Ok(text)
    }
}

fn rejected(feedback: &str, path: &Path) -> ToolOutcome {
    let path = path.display();
    let (text, shown) = if feedback.trim().is_empty() {
        (
            format!(
                "Plan rejected. No feedback provided.\n\nThe plan is stored at: {path}\nAsk the user for specific feedback on how to improve the plan."
            ),
            "Plan rejected".to_owned(),
        )
    } else {
        (
            format!(
                "Plan rejected. User feedback: {feedback}\n\nThe plan is stored at: {path}\nRevise the plan based on the feedback."
            ),
            format!("Plan rejected: {feedback}"),
        )
    };
    ToolOutcome::text(text, Display::Text(shown))
}

fn described(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Default => "default mode (edits require approval)",
        ApprovalMode::AutoEdit => "auto-edit mode (edits are applied without asking)",
        ApprovalMode::Yolo => "yolo mode (everything that no rule denies runs without asking)",
        ApprovalMode::Plan => "plan mode",
    }
}
