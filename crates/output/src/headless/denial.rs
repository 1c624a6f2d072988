//! What users are told about a call that was denied.

use pollux_domain::call_summary::{quoted, redacted_call_summary};
use pollux_domain::event::CallReport;
use pollux_domain::path_display::PathDisplay;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;

/// The message of a failed call. If the call was denied, the call itself, the reason and what would allow it follow,
/// without secrets.
pub(super) fn with_denial(report: &CallReport, message: &str) -> String {
    let Some(denial) = report.outcome.failure().and_then(|failure| failure.denial.as_deref()) else {
        return message.to_owned();
    };
    let summary = redacted_call_summary(&report.args, &PathDisplay::default());
    let call = if summary.is_empty() { String::new() } else { format!("Call: {}.", quoted(&summary)) };
    let denial = redacted(&plain(denial)).into_owned();
    let texts = [message.trim_end(), &call, &denial];
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}
