//! Texts for sub-agents and about them.

use crate::subagent::terminate_mode::TerminateMode;

/// Time of the last turn of an agent that did not come to an end.
pub(super) const GRACE_SECONDS: u64 = 60;

const PLANNING: &str =
    "\n- The session is in plan mode: you may read and search; anything that makes changes is refused.";

/// Rules appended to every sub-agent's prompt.
pub(super) fn rules(planning: bool) -> String {
    format!(
        "# Rules for this task
- You work alone. Nobody can answer a question or see what you write: decide, do the work, submit the result.
- Give tools absolute paths.
- A call that is refused stays refused: find another way, or say in your result what was refused.
- When you are done, call `complete_task` with your result. It is the only way to finish; text without it is lost. \
Call nothing else in that turn.{}",
        if planning { PLANNING } else { "" }
    )
}

/// The prompt of the last turn.
pub(super) fn last_chance(why: &str) -> String {
    format!(
        "System: {why} You have one last turn of at most {GRACE_SECONDS} seconds. Call `complete_task` now and submit \
         what you found so far, even if it is incomplete; say what is missing. No other tool is available."
    )
}

/// Why the agent has to finish.
pub(super) fn warning(mode: TerminateMode) -> &'static str {
    match mode {
        TerminateMode::Timeout => "your time is up.",
        TerminateMode::MaxTurns => "you have used up all your turns.",
        TerminateMode::NoCompleteTaskCall => {
            "you stopped calling tools without calling `complete_task`, so no result was submitted."
        }
        TerminateMode::Error => "an error ended your work.",
        TerminateMode::Goal | TerminateMode::Aborted => "the task ends.",
    }
}

/// The report of a finished agent for the caller; upstream's words.
pub(super) fn finished(agent: &str, mode: TerminateMode, result: &str) -> String {
    format!("Subagent '{agent}' finished.\nTermination Reason: {}\nResult:\n{result}", mode.as_str())
}

/// The report of a failed agent for the caller; upstream's words.
pub(super) fn failed(agent: &str, error: &str) -> String {
    format!("Subagent '{agent}' failed. Error: {error}")
}

/// A text with what the agent said until then.
pub(super) fn with_findings(text: &str, findings: &str) -> String {
    if findings.is_empty() { text.to_owned() } else { format!("{text}\n\nPartial findings:\n{findings}") }
}
