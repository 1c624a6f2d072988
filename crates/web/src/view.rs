//! A session's events as the page gets them: small, of limited size, and without control sequences.
//!
//! The page shows texts as texts, so nothing is escaped here.

use std::collections::HashMap;

use pollux_domain::event::{CallOutcome, CallReport, Event, OpResult, Severity, TurnEnd};
use pollux_domain::id::CallId;
use pollux_domain::path_display::PathDisplay;
use pollux_domain::terminal_text::{Stripper, one_line, plain};
use pollux_domain::tool::{Display, FileDiff};
use pollux_resident::wire::{Attached, HistoryEntry, SessionSummary};
use serde_json::{Value, json};

use crate::limits::{cut, end_of, line};
use crate::question;

/// Characters of a message and of a result.
const MESSAGE: usize = 100_000;
const RESULT: usize = 20_000;
/// Items of a list that are shown.
const ITEMS: usize = 200;

/// Turns the events of one session into what the page shows.
#[derive(Default)]
pub(crate) struct View {
    paths: PathDisplay,
    /// Sequences may be cut anywhere between pieces.
    answer: Stripper,
    outputs: HashMap<CallId, Stripper>,
}

impl View {
    pub(crate) fn new(attached: &Attached) -> Self {
        let paths = PathDisplay { workspace: vec![attached.report.cwd.clone()], home: None };
        Self { paths, ..Self::default() }
    }

    /// What the page gets of an event; `None` for what it does not show.
    pub(crate) fn event(&mut self, event: &Event) -> Option<Value> {
        Some(match event {
            Event::PromptAccepted { typed, by, .. } | Event::Steered { typed, by, .. } => {
                json!({"kind": "prompt", "text": message(typed), "by": one_line(by.as_str())})
            }
            Event::StepBegan { .. } => {
                self.answer = Stripper::default();
                json!({"kind": "step"})
            }
            Event::Text(text) => json!({"kind": "text", "text": self.answer.push(text)}),
            Event::Thought(thought) => json!({"kind": "thought", "text": line(&thought.subject)}),
            Event::CallProgress { name, .. } => {
                json!({"kind": "thought", "text": format!("Writing {}", line(name))})
            }
            Event::Waiting(wait) => json!({
                "kind": "thought",
                "text": format!("{}; next attempt in {} s", line(&wait.cause), wait.delay.as_secs().max(1)),
            }),
            Event::AttemptDiscarded(discarded) => {
                self.answer = Stripper::default();
                json!({"kind": "discard", "text": line(&discarded.reason)})
            }
            Event::StepCommitted => json!({"kind": "commit"}),
            Event::CallRequested(call) => json!({
                "kind": "call",
                "call": call.call.as_str(),
                "name": line(&call.display_name),
                "title": line(&call.title),
            }),
            Event::CallStarted { call } => json!({"kind": "started", "call": call.as_str()}),
            Event::CallOutput { call, text } => {
                let text = self.outputs.entry(call.clone()).or_default().push(text);
                json!({"kind": "output", "call": call.as_str(), "text": end_of(&text, RESULT)})
            }
            Event::CallScreen { call, screen } => {
                let text = plain(&screen.text()).into_owned();
                json!({"kind": "screen", "call": call.as_str(), "text": end_of(&text, RESULT)})
            }
            Event::CallFinished(report) => {
                self.outputs.remove(&report.call);
                self.finished(report)
            }
            Event::ApprovalWanted(request) => question::view(request, &self.paths),
            Event::ApprovalSettled { call, outcome, by } => json!({
                "kind": "settled",
                "call": call.as_str(),
                "outcome": outcome.as_str(),
                "by": by.as_ref().map(|by| one_line(by.as_str())),
            }),
            Event::ShellStarted { call, command, .. } => {
                json!({"kind": "call", "call": call.as_str(), "name": "!", "title": line(command)})
            }
            Event::ShellEnded(report) => json!({
                "kind": "finished",
                "call": report.call.as_str(),
                "status": if report.ending.is_some() { "error" } else { "success" },
                "message": report.ending.as_deref().map(line),
                "text": result(&report.output),
                "turn": "ended",
            }),
            Event::ModeChanged { mode, .. } => json!({"kind": "mode", "mode": mode.to_string()}),
            Event::ModelChanged(model) => json!({"kind": "model", "model": line(model)}),
            Event::Titled(title) => json!({"kind": "title", "title": line(title)}),
            Event::QueueChanged(prompts) => {
                let queued = prompts
                    .iter()
                    .map(|prompt| json!({"id": prompt.id.as_str(), "text": line(&prompt.typed)}));
                json!({"kind": "queue", "prompts": queued.collect::<Vec<Value>>()})
            }
            Event::Compressing { .. } => json!({"kind": "thought", "text": "Compressing the conversation"}),
            Event::Compressed(_) => notice("info", "The conversation was compressed."),
            Event::ModelFallback(fallback) => {
                let text =
                    format!("{} is used instead of {}: {}", fallback.to, fallback.from, fallback.reason);
                notice("warning", &text)
            }
            Event::Rewound { .. } => notice("info", "The conversation was rewound."),
            Event::HookRan(report) => notice("info", report.message.as_deref()?),
            Event::Notice { severity, message, .. } => notice(word(*severity), message),
            Event::Acknowledged { id, result: OpResult::Refused(refusal), .. } => {
                json!({"kind": "refused", "id": id.as_str(), "text": line(&refusal.message)})
            }
            Event::TurnEnded(end) => {
                self.outputs.clear();
                ended(end)
            }
            Event::SessionReady { .. }
            | Event::Acknowledged { .. }
            | Event::FrontsChanged(_)
            | Event::RequestSent(_)
            | Event::RequestEnded(_)
            | Event::BackgroundChanged(_)
            | Event::Activity(_)
            | Event::EditorChanged(_)
            | Event::Budget(_) => return None,
        })
    }

    fn finished(&self, report: &CallReport) -> Value {
        let said = match &report.outcome {
            CallOutcome::Succeeded => None,
            CallOutcome::Cancelled => Some("cancelled".to_owned()),
            CallOutcome::Failed(failure) => Some(line(&failure.message)),
        };
        let mut view = json!({
            "kind": "finished",
            "call": report.call.as_str(),
            "status": report.outcome.status().as_str(),
            "message": said,
        });
        match &*report.display.listed() {
            Display::Nothing | Display::Todos(_) => {}
            Display::Text(text) => view["text"] = json!(result(text)),
            Display::Diff(change) => view["diff"] = diff(change, &self.paths, RESULT),
            Display::List { summary, items } => {
                let items = items.iter().take(ITEMS).map(|item| line(item));
                let lines: Vec<String> = [line(summary)].into_iter().chain(items).collect();
                view["text"] = json!(lines.join("\n"));
            }
            Display::Agent(end) => view["text"] = json!(result(&end.result)),
        }
        view
    }
}

/// What the page shows of a session before its first event.
pub(crate) fn attached(attached: &Attached, view: &mut View) -> Value {
    let snapshot = attached.snapshot.clone().unwrap_or_default();
    let history: Vec<Value> = snapshot.history.iter().map(history).collect();
    let state = snapshot.state.into_iter().filter_map(|event| Event::from_json(event).ok());
    let state: Vec<Value> = state.filter_map(|event| view.event(&event)).collect();
    json!({
        "kind": "attached",
        "session": attached.session,
        "folder": one_line(&attached.report.cwd.display().to_string()),
        "model": line(&attached.report.model),
        "mode": attached.report.mode,
        "sandbox": line(&attached.report.sandbox),
        "seq": attached.seq,
        "busy": attached.busy,
        // Otherwise the page shows already what comes before.
        "fresh": attached.snapshot.is_some(),
        "above": snapshot.above,
        "history": history,
        "state": state,
    })
}

fn history(entry: &HistoryEntry) -> Value {
    match entry {
        HistoryEntry::Prompt { text } => json!({"kind": "prompt", "text": message(text)}),
        HistoryEntry::Answer { text } => json!({"kind": "answer", "text": message(text)}),
        HistoryEntry::Call { name, about, went_well, .. } => json!({
            "kind": "past",
            "name": line(name),
            "title": line(about),
            "status": if *went_well { "success" } else { "error" },
        }),
        HistoryEntry::Note { severity, text } => notice(severity, text),
    }
}

/// A session in the list.
pub(crate) fn summary(session: &SessionSummary) -> Value {
    json!({
        "session": session.session,
        "title": session.title.as_deref().map(line),
        "folder": one_line(&session.cwd.display().to_string()),
        "state": session.state,
        "model": line(&session.model),
        "mode": session.mode,
        "active": session.active_at,
    })
}

/// A change to a file.
pub(crate) fn diff(change: &FileDiff, paths: &PathDisplay, most: usize) -> Value {
    json!({
        "path": line(&paths.shown(&change.path)),
        "added": change.stat.added_lines,
        "removed": change.stat.removed_lines,
        "text": cut(&plain(&change.unified), most),
    })
}

fn notice(severity: &str, text: &str) -> Value {
    json!({"kind": "notice", "severity": severity, "text": cut(&plain(text), RESULT)})
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn ended(end: &TurnEnd) -> Value {
    let (severity, text) = match end {
        TurnEnd::Finished(_) => ("info", None),
        TurnEnd::Cancelled => ("info", Some("Stopped.".to_owned())),
        TurnEnd::TurnLimit => ("warning", Some("Turn limit reached (`model.maxSessionTurns`).".to_owned())),
        TurnEnd::Loop(what) => ("warning", Some(what.clone())),
        TurnEnd::Overflow { estimated, remaining } => {
            let text =
                format!("The request of about {estimated} tokens exceeds the {remaining} tokens left.");
            ("error", Some(text))
        }
        TurnEnd::InvalidReply { message, .. } | TurnEnd::FatalTool { message, .. } => {
            ("error", Some(message.clone()))
        }
        TurnEnd::Failed(error) => ("error", Some(error.to_string())),
    };
    json!({"kind": "ended", "severity": severity, "text": text.map(|text| cut(&plain(&text), RESULT))})
}

fn message(text: &str) -> String {
    cut(&plain(text), MESSAGE)
}

fn result(text: &str) -> String {
    cut(&plain(text), RESULT)
}

#[cfg(test)]
mod tests;
