//! User shell commands: runs them and adds their output to the conversation.

use std::sync::{Arc, Mutex};

use pollux_domain::content::{Content, Part};
use pollux_domain::event::{Event, FrontId, NoticeCode, Severity, ShellReport};
use pollux_domain::id::CallId;
use pollux_domain::sync::Locked;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::emitter::Emitter;
use crate::history::shell_turn::OPENING;
use crate::session::Session;
use crate::truncate;

/// Upstream's words.
const RESULT: &str = "This produced the following result:";

/// Runs a user command. All output is reported, with backpressure from the reader.
pub(crate) async fn run_shell(session: &mut Session, command: &str, by: FrontId, cancel: &CancellationToken) {
    let Some(terminals) = session.services.terminals.clone() else { return };
    session.conversation.counters.shells += 1;
    let call = CallId::from_file(format!("shell-{}", session.conversation.counters.shells));
    session.emit(Event::ShellStarted { call: call.clone(), command: command.to_owned(), by }).await;
    let printed: Arc<Mutex<String>> = Arc::default();
    let news = Arc::new(Notify::new());
    let live = {
        let (printed, news) = (Arc::clone(&printed), Arc::clone(&news));
        move |text: &str| {
            printed.locked().push_str(text);
            news.notify_one();
        }
    };
    let take = || std::mem::take(&mut *printed.locked());
    let end = {
        let running = terminals.run(command, &live, cancel);
        tokio::pin!(running);
        loop {
            tokio::select! {
                biased;
                end = &mut running => break end,
                () = news.notified() => shell_printed(&session.emitter, &call, take()).await,
            }
        }
    };
    shell_printed(&session.emitter, &call, take()).await;
    let report = ShellReport {
        call,
        command: command.to_owned(),
        output: end.output.clone(),
        ending: end.ending.clone(),
    };
    session.emit(Event::ShellEnded(Arc::new(report))).await;
    shell_ran(session, command, &end.result()).await;
}

async fn shell_printed(emitter: &Emitter, call: &CallId, text: String) {
    if !text.is_empty() {
        emitter.emit(Event::CallOutput { call: call.clone(), text }).await;
    }
}

/// Adds a turn about a user command; long output is truncated like that of tools.
pub(crate) async fn shell_ran(session: &mut Session, command: &str, output: &str) {
    let now = session.now();
    let output = match truncate::exceeded(output, &session.services.tool_settings, session.window_left()) {
        None => output.to_owned(),
        Some(threshold) => {
            let call = CallId::from_file(format!("shell_{}", now.millis()));
            let file = truncate::file_for(&session.services.temp_dir, &session.id, "shell", &call);
            if let Err(error) = truncate::save(&file, output) {
                let text = format!("could not save the whole output to `{}`: {error}", file.display());
                session.notice(Severity::Warning, NoticeCode::ToolOutput, text).await;
            }
            truncate::excerpt(output, threshold, &file)
        }
    };
    let text = format!("{OPENING}\n{}\n\n{RESULT}\n{}", fenced("sh", command), fenced("", &output));
    let parts = vec![Part::text(text)];
    session.note_chosen_model();
    let result = session.recorder.user(&parts, Some(&format!("!{command}")), now);
    let message = session.recorded(result).await;
    session.conversation.history.push(message, Content::user(parts));
}

/// A text in a fence that it cannot close.
fn fenced(word: &str, text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}{word}\n{}\n{fence}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fenced("sh", "ls\n"), "```sh\nls\n```");
        assert_eq!(fenced("", "a\n```\nb"), "````\na\n```\nb\n````");
    }
}
