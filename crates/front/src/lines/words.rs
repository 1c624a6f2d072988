//! One-line texts about calls, hooks, compression and ended turns.

use pollux_domain::call_summary::call_summary;
use pollux_domain::event::{CallFailure, CallOutcome, CallReport, CompressionStatus, HookReport, TurnEnd};
use pollux_domain::model::ModelErrorKind;
use pollux_domain::path_display::PathDisplay;
use pollux_domain::terminal_text::{one_line, plain};
use pollux_domain::tool::Display;
use pollux_host::HistoryItem;

/// Characters of a result's first line that are shown.
const SHOWN: usize = 100;

/// Tools and the verb for a finished call.
const DONE: &[(&str, &str)] = &[
    ("read_file", "Read"),
    ("read_many_files", "Read"),
    ("write_file", "Wrote"),
    ("replace", "Edited"),
    ("list_directory", "Listed"),
    ("glob", "Found files"),
    ("grep_search", "Searched for"),
    ("run_shell_command", "Ran"),
    ("web_fetch", "Fetched"),
    ("google_web_search", "Searched the web for"),
    ("save_memory", "Remembered"),
    ("write_todos", "Updated the to-do list"),
    ("invoke_agent", "Asked the agent"),
    ("activate_skill", "Activated the skill"),
];

/// A finished call: the verb, its main argument, and the result.
pub(super) fn call(report: &CallReport, paths: &PathDisplay) -> String {
    let known = DONE.iter().find(|(tool, _)| *tool == report.name).map(|(_, done)| *done);
    let done = known.map_or_else(|| one_line(&report.name), str::to_owned);
    let about = call_summary(&report.args, paths);
    let what = if about.is_empty() { done } else { format!("{done} {about}") };
    let how = match &report.outcome {
        CallOutcome::Succeeded => detail(&report.display).map(|detail| format!(": {detail}")),
        CallOutcome::Cancelled => Some(": cancelled".to_owned()),
        CallOutcome::Failed(CallFailure { run: Some(run), .. }) => {
            let said = detail(&report.display).map(|detail| format!(": {detail}")).unwrap_or_default();
            Some(format!(": failed ({}){said}", one_line(&run.label())))
        }
        CallOutcome::Failed(failure) => {
            let reason = short(failure.message.lines().next().unwrap_or_default());
            Some(format!(": failed: {reason}"))
        }
    };
    format!("{what}{}", how.unwrap_or_default())
}

fn detail(display: &Display) -> Option<String> {
    let detail = match &*display.listed() {
        Display::Nothing | Display::Todos(_) => String::new(),
        Display::Text(text) => short(text.lines().next().unwrap_or_default()),
        Display::Diff(diff) => format!("+{} -{}", diff.stat.added_lines, diff.stat.removed_lines),
        Display::List { summary, .. } => short(summary),
        Display::Agent(end) => format!("{} ended with {}", one_line(&end.agent), one_line(&end.reason)),
    };
    (!detail.is_empty()).then_some(detail)
}

fn short(text: &str) -> String {
    one_line(text).chars().take(SHOWN).collect()
}

/// The message of a hook, with its name.
pub(super) fn hook(report: &HookReport) -> Option<String> {
    let name: String = one_line(&report.hook).chars().take(SHOWN).collect();
    report.message.as_ref().map(|message| format!("[{name}] {message}"))
}

pub(super) fn compressed(before: u64, after: u64, status: CompressionStatus) -> String {
    match status {
        CompressionStatus::Compressed | CompressionStatus::Truncated => {
            format!("Chat history compressed from {before} to {after} tokens.")
        }
        CompressionStatus::Nothing => "Nothing to compress.".to_owned(),
        CompressionStatus::Inflated => "The summary would not be shorter; conversation unchanged.".to_owned(),
        CompressionStatus::Failed | CompressionStatus::EmptySummary => {
            "Compression failed; conversation unchanged.".to_owned()
        }
    }
}

pub(super) fn end(end: &TurnEnd) -> Option<String> {
    match end {
        TurnEnd::Finished(_) => None,
        TurnEnd::Cancelled => Some("Request cancelled.".to_owned()),
        TurnEnd::TurnLimit => Some("Turn limit reached (`model.maxSessionTurns`).".to_owned()),
        TurnEnd::Loop(message) => Some(message.clone()),
        TurnEnd::InvalidReply { message, .. } | TurnEnd::FatalTool { message, .. } => Some(message.clone()),
        TurnEnd::Overflow { estimated, remaining } => Some(format!(
            "The request of about {estimated} tokens exceeds the {remaining} tokens left. /compress makes room."
        )),
        TurnEnd::Failed(error) if error.kind == ModelErrorKind::BudgetExceeded => Some(error.to_string()),
        TurnEnd::Failed(error) => Some(match error.advice() {
            Some(advice) => format!("Request failed: {error}\nhint: {advice}"),
            None => format!("Request failed: {error}"),
        }),
    }
}

/// An earlier message.
pub(crate) fn said(said: &HistoryItem) -> String {
    let text = match said {
        HistoryItem::Prompt(text) => format!("User: {text}"),
        HistoryItem::Answer(text) => format!("Model: {text}"),
        HistoryItem::Note(_, text) => text.clone(),
        HistoryItem::Call { name, about, went_well } => {
            let how = if *went_well { "" } else { " (failed)" };
            format!("[{name} {}{how}]", one_line(about))
        }
    };
    format!("{}\n", plain(text.trim_end()))
}
