//! One-line texts about calls, hooks, compression and ended turns.

use pollux_domain::call_summary::call_summary;
use pollux_domain::event::{
    CallDecision, CallFailure, CallOutcome, CallReport, CompressionStatus, HookReport, TurnEnd,
};
use pollux_domain::model::ModelErrorKind;
use pollux_domain::path_display::PathDisplay;
use pollux_domain::terminal_text::{one_line, plain};
use pollux_domain::tool::Display;
use pollux_host::HistoryItem;

/// Characters of a result's first line that are shown.
const SHOWN: usize = 100;

/// Tools, the verb for a finished call, and the one for a call that did nothing.
const DONE: &[(&str, &str, &str)] = &[
    ("read_file", "Read", "read"),
    ("read_many_files", "Read", "read"),
    ("write_file", "Wrote", "write"),
    ("replace", "Edited", "edit"),
    ("list_directory", "Listed", "list"),
    ("glob", "Found files", "find files"),
    ("grep_search", "Searched for", "search for"),
    ("run_shell_command", "Ran", "run"),
    ("web_fetch", "Fetched", "fetch"),
    ("google_web_search", "Searched the web for", "search the web for"),
    ("save_memory", "Remembered", "remember"),
    ("write_todos", "Updated the to-do list", "update the to-do list"),
    ("invoke_agent", "Asked the agent", "ask the agent"),
    ("activate_skill", "Activated the skill", "activate the skill"),
];

/// A finished call: the verb, its main argument, and the result.
pub(super) fn call(report: &CallReport, paths: &PathDisplay) -> String {
    let known = DONE.iter().find(|(tool, ..)| *tool == report.name);
    let about = call_summary(&report.args, paths);
    let with = |verb: &str| if about.is_empty() { verb.to_owned() } else { format!("{verb} {about}") };
    let what = known.map_or_else(|| with(&one_line(&report.name)), |(_, done, _)| with(done));
    // A command may have done something before it was cancelled; a change was not made.
    let may_have_run = report.permit.is_some() && report.name == "run_shell_command";
    match (&report.outcome, known) {
        (CallOutcome::Cancelled, Some((.., verb))) if !may_have_run => {
            let is_refused = report.decision == Some(CallDecision::Reject);
            return format!("Did not {}: {}", with(verb), if is_refused { "refused" } else { "cancelled" });
        }
        (CallOutcome::Failed(failure), Some((.., verb)))
            if report.permit.is_none() && failure.run.is_none() =>
        {
            let reason = short(failure.message.lines().next().unwrap_or_default());
            return format!("Did not {}: {reason}", with(verb));
        }
        _ => {}
    }
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
            Some(advice) => format!("Request failed: {}\nhint: {advice}", error.described()),
            None => format!("Request failed: {}", error.described()),
        }),
    }
}

/// An earlier message.
pub(crate) fn said(said: &HistoryItem) -> String {
    let text = match said {
        HistoryItem::Prompt(text) => format!("User: {text}"),
        HistoryItem::Answer(text) => format!("Model: {text}"),
        HistoryItem::Note(_, text) => text.clone(),
        HistoryItem::Call { name, about, went_well, interrupted } => {
            let how = match (went_well, interrupted) {
                (_, true) => " (interrupted)",
                (true, _) => "",
                (false, _) => " (failed)",
            };
            format!("[{name} {}{how}]", one_line(about))
        }
    };
    format!("{}\n", plain(text.trim_end()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pollux_domain::JsonObject;
    use pollux_domain::event::Permit;
    use pollux_domain::id::CallId;
    use pollux_domain::tool::{LineDelta, ToolErrorKind, ToolKind};

    use super::*;

    fn report(name: &str, key: &str, value: &str) -> CallReport {
        let mut args = JsonObject::new();
        args.insert(key.to_owned(), value.into());
        CallReport {
            call: CallId::from_file("1"),
            name: name.to_owned(),
            kind: ToolKind::Edit,
            args,
            outcome: CallOutcome::Cancelled,
            display: Display::Nothing,
            lines: LineDelta::default(),
            duration: Duration::ZERO,
            decision: None,
            answer: String::new(),
            prompt_id: String::new(),
            paths: Vec::new(),
            parts: Vec::new(),
            sandbox: None,
            permit: None,
        }
    }

    #[test]
    fn a_cancelled_change_is_not_told_as_done() {
        let mut report = report("write_file", "file_path", "n.txt");
        assert_eq!(call(&report, &PathDisplay::default()), "Did not write n.txt: cancelled");
        report.outcome = CallOutcome::Succeeded;
        assert_eq!(call(&report, &PathDisplay::default()), "Wrote n.txt");
    }

    #[test]
    fn only_a_command_that_was_allowed_is_told_as_run() {
        let mut report = report("run_shell_command", "command", "make");
        let told = |report: &CallReport| call(report, &PathDisplay::default());
        report.decision = Some(CallDecision::Reject);
        assert_eq!(told(&report), "Did not run make: refused");
        let message = "Tool execution denied by policy.".to_owned();
        report.outcome = CallOutcome::Failed(CallFailure {
            kind: ToolErrorKind::PolicyViolation,
            message,
            run: None,
            denial: None,
        });
        assert_eq!(told(&report), "Did not run make: Tool execution denied by policy.");
        report.permit = Some(Permit::User(None));
        report.outcome = CallOutcome::Cancelled;
        assert_eq!(told(&report), "Ran make: cancelled");
    }
}
