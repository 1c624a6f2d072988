//! What is made of a command's output while it runs: lines from a pipe, or the screen of a terminal.

use pollux_domain::terminal_screen::TerminalSize;
use pollux_domain::terminals::CommandInput;
use tokio::time::Instant;

use crate::capture::Captured;
use crate::live::LiveFeed;
use crate::screen_feed::ScreenFeed;

/// The reader of a command's output.
pub(crate) enum View<'a> {
    Pipe { captured: Captured, feed: Box<LiveFeed<'a>> },
    Terminal(Box<ScreenFeed<'a>>),
}

impl View<'_> {
    /// Takes output. Returns what the command gets as an answer, if it asked its terminal.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Pipe { captured, feed } => {
                captured.push(bytes);
                feed.push(bytes);
                Vec::new()
            }
            Self::Terminal(feed) => feed.push(bytes),
        }
    }

    /// Takes output that is not shown live any more.
    pub(crate) fn push_unseen(&mut self, bytes: &[u8]) {
        match self {
            Self::Pipe { captured, .. } => captured.push(bytes),
            Self::Terminal(feed) => feed.push_unseen(bytes),
        }
    }

    pub(crate) fn resize(&mut self, size: TerminalSize) {
        if let Self::Terminal(feed) = self {
            feed.resize(size);
        }
    }

    /// What the person does; never ready without a terminal. Cancel-safe.
    pub(crate) async fn next_input(&self) -> CommandInput {
        match self {
            Self::Pipe { .. } => std::future::pending().await,
            Self::Terminal(feed) => feed.terminal.next_input().await,
        }
    }

    /// When gathered output should be flushed, if there is any.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self {
            Self::Pipe { feed, .. } => feed.due(),
            Self::Terminal(feed) => feed.due(),
        }
    }

    pub(crate) fn flush(&mut self) {
        match self {
            Self::Pipe { feed, .. } => feed.flush(),
            Self::Terminal(feed) => feed.flush(),
        }
    }

    /// Passes on what is left; all of the output.
    pub(crate) fn finish(self) -> Captured {
        match self {
            Self::Pipe { captured, mut feed } => {
                feed.finish();
                captured
            }
            Self::Terminal(feed) => feed.finish(),
        }
    }
}
