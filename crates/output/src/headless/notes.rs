//! Lines on stderr about an event: warnings, retries, failed calls, and details for `--debug`.
//!
//! The same in every output format. How a run ended is told by `ending.rs` instead.

use pollux_config::groups::Dialect;
use pollux_domain::event::{ActivityKind, CallReport, Event, HookReport, NoticeCode, Severity};
use pollux_domain::model::Wait;
use pollux_domain::terminal_text::one_line;
use pollux_domain::tool::Display;

use super::denial::with_denial;

/// The line for an event, without its newline.
pub(crate) fn line(event: &Event, dialect: Dialect) -> Option<String> {
    match event {
        Event::Waiting(wait) => waiting(wait),
        Event::AttemptDiscarded(discarded) => Some(discarded.sentence()),
        Event::ModelFallback(fallback) => Some(format!("Warning: {}", fallback.sentence())),
        Event::CallFinished(report) => failed_call(report, dialect),
        Event::HookRan(report) => hook_message(report),
        Event::Activity(activity) => match activity.what {
            ActivityKind::CallStarted { .. } | ActivityKind::Error { .. } => {
                activity.line().as_deref().map(one_line)
            }
            ActivityKind::CallEnded(_) | ActivityKind::Thought(_) => None,
        },
        Event::Notice { severity, code, message } => {
            let message = one_line(message);
            Some(match severity {
                Severity::Info => message,
                // Upstream's form, which scripts look for.
                Severity::Warning if matches!(code, NoticeCode::Hook | NoticeCode::Halted) => {
                    format!("[WARNING] {message}")
                }
                // Sentences of upstream's bring their own.
                Severity::Warning if message.starts_with("[WARN]") => message,
                Severity::Warning => format!("Warning: {message}"),
                Severity::Error => format!("Error: {message}"),
            })
        }
        _ => None,
    }
}

/// Upstream says nothing about what sub-agents do, nor about commands that fail.
pub(crate) fn is_silent_upstream(event: &Event) -> bool {
    match event {
        Event::Activity(_) => true,
        Event::CallFinished(report) => report.outcome.run_failure().is_some(),
        _ => false,
    }
}

/// The line for `--debug`: sizes and times, never contents.
pub(crate) fn debug_line(event: &Event) -> Option<String> {
    let text = match event {
        Event::SessionReady { session, model, .. } => format!("session {session}, model {model}"),
        Event::RequestSent(sent) => {
            format!("request to {} ({}), {} turns", sent.model, sent.role.as_str(), sent.contents.len())
        }
        Event::RequestEnded(ended) => {
            let how = match (&ended.error, &ended.invalid, &ended.finish) {
                (Some(error), _, _) => format!("failed: {}", one_line(&error.message)),
                (None, Some(kind), _) => format!("no usable reply: {kind}"),
                (None, None, finish) => {
                    finish.as_ref().map_or("no finish reason", |f| f.reason.as_str()).to_owned()
                }
            };
            let (sent, got) = (ended.usage.input, ended.usage.output);
            format!("reply after {} ms: {how}; {sent} tokens in, {got} out", ended.duration.as_millis())
        }
        Event::CallFinished(report) => {
            let (name, status) = (one_line(&report.name), report.outcome.status().as_str());
            format!("{name} took {} ms: {status}", report.duration.as_millis())
        }
        Event::Compressed(done) => {
            format!("compression {:?}: {} to {} tokens", done.status, done.tokens_before, done.tokens_after)
        }
        Event::HookRan(report) => {
            let how = report.error.as_deref().map_or_else(|| "fine".to_owned(), one_line);
            format!("hook {} took {} ms: {how}", report.event, report.duration.as_millis())
        }
        _ => return None,
    };
    Some(format!("[DEBUG] {text}"))
}

fn waiting(wait: &Wait) -> Option<String> {
    wait.is_worth_a_line().then(|| wait.sentence())
}

fn failed_call(report: &CallReport, dialect: Dialect) -> Option<String> {
    let failure = report.outcome.failure()?;
    let text = match &report.display {
        Display::Text(text) if !text.is_empty() && failure.run.is_none() => text.as_str(),
        _ => failure.message.as_str(),
    };
    let text = match dialect {
        Dialect::Pollux => with_denial(report, text),
        Dialect::GeminiCli => text.to_owned(),
    };
    Some(format!("Error executing tool {}: {}", one_line(&report.name), one_line(&text)))
}

/// What a hook wants to be known; upstream's words.
fn hook_message(report: &HookReport) -> Option<String> {
    let message = report.message.as_deref().filter(|_| !report.suppressed)?;
    Some(format!("Hook system message: {}", one_line(message)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn wait(status: Option<u16>, millis: u64) -> Event {
        Event::Waiting(Wait {
            attempt: 2,
            max_attempts: 10,
            delay: Duration::from_millis(millis),
            cause: "over\nloaded".into(),
            status,
            kind: None,
        })
    }

    fn said(event: &Event) -> Option<String> {
        line(event, Dialect::Pollux)
    }

    #[test]
    fn long_waits_and_rate_limits_are_told_and_short_waits_are_not() {
        assert_eq!(
            said(&wait(Some(503), 5300)).unwrap(),
            "Attempt 2/10 failed with status 503: over loaded. Retrying in 5.3 s."
        );
        assert_eq!(said(&wait(None, 3000)), None);
        assert_eq!(
            said(&wait(Some(429), 100)).unwrap(),
            "Attempt 2/10 failed with status 429: over loaded. Retrying in 0.1 s."
        );
        assert_eq!(said(&wait(None, 30_400)).unwrap(), "Attempt 2/10 failed: over loaded. Retrying in 30 s.");
    }
}
