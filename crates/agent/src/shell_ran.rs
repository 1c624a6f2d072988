//! User shell commands: runs them and adds their output to the conversation.

use std::sync::{Arc, Mutex};

use pollux_domain::content::{Content, Part};
use pollux_domain::event::{Event, FrontId, NoticeCode, Severity, ShellReport};
use pollux_domain::id::CallId;
use pollux_domain::sync::Locked;
use pollux_domain::terminal_screen::TerminalScreen;
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
    let shown: Arc<Mutex<Shown>> = Arc::default();
    let news = Arc::new(Notify::new());
    let live = {
        let (shown, news) = (Arc::clone(&shown), Arc::clone(&news));
        move |text: &str| {
            shown.locked().printed.push_str(text);
            news.notify_one();
        }
    };
    let console = {
        let (shown, news) = (Arc::clone(&shown), Arc::clone(&news));
        session.services.consoles.open(&call, move |screen| {
            shown.locked().screen = Some(screen);
            news.notify_one();
            true
        })
    };
    let take = || std::mem::take(&mut *shown.locked());
    let end = {
        let terminal = console.as_ref().map(|console| &console.terminal);
        let running = terminals.run(command, &live, terminal, cancel);
        tokio::pin!(running);
        loop {
            tokio::select! {
                biased;
                end = &mut running => break end,
                () = news.notified() => show(&session.emitter, &call, take()).await,
            }
        }
    };
    show(&session.emitter, &call, take()).await;
    drop(console);
    let report = ShellReport {
        call,
        command: command.to_owned(),
        output: end.output.clone(),
        ending: end.ending.clone(),
    };
    session.emit(Event::ShellEnded(Arc::new(report))).await;
    shell_ran(session, command, &end.result()).await;
}

/// What a command showed since the last time.
#[derive(Default)]
struct Shown {
    printed: String,
    screen: Option<TerminalScreen>,
}

async fn show(emitter: &Emitter, call: &CallId, shown: Shown) {
    let Shown { printed, screen } = shown;
    if !printed.is_empty() {
        emitter.emit(Event::CallOutput { call: call.clone(), text: printed }).await;
    }
    if let Some(screen) = screen {
        emitter.emit(Event::CallScreen { call: call.clone(), screen: Arc::new(screen) }).await;
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
