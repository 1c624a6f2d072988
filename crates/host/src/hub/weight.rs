//! Estimates the memory of an event, so that logs and queues can be bounded.

use pollux_domain::event::{ActivityKind, CallReport, Event};
use pollux_domain::tool::{Display, FileDiff};

/// Minimum cost of an event.
const LEAST: usize = 128;

/// Approximate size in bytes. Data shared with the conversation is not counted.
pub(super) fn weight(event: &Event) -> usize {
    LEAST
        + match event {
            Event::Text(text) => text.len(),
            Event::Thought(thought) => thought.subject.len() + thought.description.len(),
            Event::CallOutput { text, .. } => text.len(),
            Event::CallScreen { screen, .. } => {
                screen.rows.iter().flatten().map(|run| run.text.len() + 32).sum::<usize>()
            }
            Event::BackgroundChanged(commands) => commands.iter().map(|one| one.command.len() + 32).sum(),
            Event::CallFinished(report) => of_report(report),
            Event::CallRequested(request) => request.title.len() + 64 * request.args.len(),
            Event::ShellEnded(report) => report.output.len(),
            Event::ApprovalWanted(request) => match &request.subject {
                pollux_domain::approval::Subject::Edit { diff: Some(diff), .. } => of_diff(diff),
                pollux_domain::approval::Subject::Plan { text, .. } => text.len(),
                _ => 512,
            },
            Event::RequestEnded(ended) => ended.text.len(),
            Event::Compressed(done) => done.summary.as_ref().map_or(0, String::len),
            Event::HookRan(report) => report.stdout.len() + report.stderr.len(),
            Event::Activity(activity) => match &activity.what {
                ActivityKind::CallEnded(report) => of_report(report),
                ActivityKind::Error { message, .. } => message.len(),
                ActivityKind::CallStarted { .. } | ActivityKind::Thought(_) => 256,
            },
            Event::Notice { message, .. } => message.len(),
            _ => 0,
        }
}

fn of_report(report: &CallReport) -> usize {
    let shown = match &report.display {
        Display::Nothing => 0,
        Display::Text(text) => text.len(),
        Display::Diff(diff) => of_diff(diff),
        Display::List { items, .. } => items.iter().map(String::len).sum(),
        Display::Agent(end) => end.result.len(),
        Display::Todos(todos) => todos.iter().map(|todo| todo.text.len()).sum(),
    };
    // The answer stands for the parts as well: they hold the same text.
    2 * report.answer.len() + shown + 64 * report.args.len()
}

fn of_diff(diff: &FileDiff) -> usize {
    diff.unified.len() + diff.before.as_ref().map_or(0, String::len) + diff.after.len()
}
