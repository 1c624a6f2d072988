//! `pollux mcp serve`: other agents use Pollux as an MCP server, over standard input and output or over HTTP.
//!
//! Use [`serve`] or [`serve_http`]. Each session is a child of this program that speaks stream-json in both directions, so that it has its
//! own folder and ends on its own; this crate translates between the two protocols. What a session may do is decided by
//! the child, with its policy, sandbox and budget. Not here: servers that Pollux itself uses (`mcp`).
//!
//! Start at `tools.rs` (what clients can call), then `handler.rs` (the protocol), `session.rs` (one child) and `http.rs`
//! (clients that connect).

mod approval;
mod handler;
mod http;
mod program;
mod session;
mod sessions;
mod tool_session;
mod tools;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::exit::ExitKind;
use pollux_front::rpc::{Peer, messages};
use pollux_front::stdio::Outbox;

use crate::handler::Handler;
pub use crate::http::{HttpOptions, serve_http};
pub use crate::program::Program;
use crate::sessions::PromptSlots;
pub use crate::tools::ToolChoice;

/// How long sessions may take to end when the client is gone; longer than each of them takes at most.
const LEAVING: Duration = Duration::from_millis(5_500);
/// A client that reads none of the last lines for so long is not waited for.
const FLUSHING: Duration = Duration::from_secs(2);

/// Serves one client until it leaves.
pub fn serve(program: Program, input: OwnedFd, output: OwnedFd) -> io::Result<ExitKind> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Peer::new(Outbox::start(File::from(output)), "notifications/cancelled");
        let handler = Handler::new(Arc::new(program), client.clone(), PromptSlots::default());
        handler.serve(messages(File::from(input))).await;
        let _ = tokio::time::timeout(LEAVING, handler.close()).await;
        let _ = client.outbox().drain(FLUSHING);
    });
    // Whatever still blocks a thread has nothing left to say.
    runtime.shutdown_background();
    Ok(ExitKind::Success)
}
