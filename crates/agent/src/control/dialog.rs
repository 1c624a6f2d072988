//! Shared code of the tools that ask the user.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_domain::approval::{ApprovalRequest, Offer, Outcome, Subject, Why};
use pollux_domain::id::CallId;
use pollux_domain::tool::{ToolKind, ToolSpec};
use serde_json::Value;

use crate::authority::Authority;

/// The ports of the plan mode tools.
#[derive(Clone)]
pub(super) struct Planning {
    pub(super) authority: Arc<Authority>,
    pub(super) folder: PathBuf,
}

pub(super) fn spec(
    name: &str,
    display_name: &str,
    kind: ToolKind,
    description: &str,
    parameters: Value,
) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        display_name: display_name.to_owned(),
        description: description.to_owned(),
        kind,
        parameters,
        output_is_markdown: false,
        offloads_long_output: false,
    })
}

/// A question of one of these tools.
pub(super) fn question(
    call: &CallId,
    spec: &ToolSpec,
    subject: Subject,
    outcomes: &[(Outcome, &str)],
) -> ApprovalRequest {
    let offers =
        outcomes.iter().map(|(outcome, covers)| Offer { outcome: *outcome, covers: (*covers).to_owned() });
    ApprovalRequest {
        call: call.clone(),
        tool: spec.name.clone(),
        display_name: spec.display_name.clone(),
        args: pollux_domain::JsonObject::new(),
        subject,
        destroys: None,
        why: Why::default(),
        offers: offers.collect(),
    }
}
