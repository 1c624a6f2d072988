//! What is said about calls and ends, in one line each.

use pollux_domain::event::{CallOutcome, CallReport, CompressionStatus, HookReport, TurnEnd};
use pollux_domain::terminal_text::{one_line, plain};
use pollux_domain::tool::Display;

use crate::wire::Said;

/// Most characters of a result's first line.
const SHOWN: usize = 100;

pub(super) fn call(report: &CallReport) -> String {
    let word = match report.outcome {
        CallOutcome::Succeeded => "done",
        CallOutcome::Failed(_) => "failed",
        CallOutcome::Cancelled => "not run",
    };
    let detail = match &report.display {
        Display::Nothing => String::new(),
        Display::Text(text) => one_line(text.lines().next().unwrap_or_default()),
        Display::Diff(diff) => {
            let (added, removed) = (diff.stat.added_lines, diff.stat.removed_lines);
            format!("{} (+{added} -{removed})", one_line(&diff.file_name))
        }
        Display::List { summary, .. } => one_line(summary),
        Display::Agent(end) => format!("{} ended with {}", one_line(&end.agent), one_line(&end.reason)),
    };
    let detail: String = detail.chars().take(SHOWN).collect();
    let name = one_line(&report.name);
    if detail.is_empty() { format!("[{name}: {word}]") } else { format!("[{name}: {word}] {detail}") }
}

/// What a hook has to say, under its name.
pub(super) fn hook(report: &HookReport) -> Option<String> {
    let name: String = one_line(&report.hook).chars().take(SHOWN).collect();
    report.message.as_ref().map(|message| format!("[{name}] {message}"))
}

pub(super) fn compressed(before: u64, after: u64, status: CompressionStatus) -> String {
    match status {
        CompressionStatus::Compressed | CompressionStatus::Truncated => {
            format!("Chat history compressed from {before} to {after} tokens.")
        }
        CompressionStatus::Nothing => "There is nothing to condense.".to_owned(),
        CompressionStatus::Inflated => {
            "A summary would be longer than the conversation; it stays as it is.".to_owned()
        }
        CompressionStatus::Failed | CompressionStatus::EmptySummary => {
            "The conversation could not be condensed; it stays as it is.".to_owned()
        }
    }
}

pub(super) fn end(end: &TurnEnd) -> Option<String> {
    match end {
        TurnEnd::Finished(_) => None,
        TurnEnd::Cancelled => Some("Request cancelled.".to_owned()),
        TurnEnd::TurnLimit => Some("The limit of turns is reached (`model.maxSessionTurns`).".to_owned()),
        TurnEnd::Loop(message) => Some(message.clone()),
        TurnEnd::InvalidReply { message, .. } | TurnEnd::FatalTool { message, .. } => Some(message.clone()),
        TurnEnd::Overflow { estimated, remaining } => {
            Some(format!("The request of about {estimated} tokens does not fit: {remaining} are left."))
        }
        TurnEnd::Failed(error) => Some(format!("The model could not be asked: {error}")),
    }
}

/// What was said before.
pub(in crate::interactive) fn said(said: &Said) -> String {
    let text = match said {
        Said::Prompt(text) => format!("> {text}"),
        Said::Answer(text) | Said::Note(_, text) => text.clone(),
        Said::Call { name, about, went_well } => {
            let how = if *went_well { "" } else { " (did not end well)" };
            format!("[{name} {}{how}]", one_line(about))
        }
    };
    format!("{}\n", plain(text.trim_end()))
}
