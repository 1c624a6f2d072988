//! The program as editors meet it: the real binary, driven over pipes with the Agent Client Protocol.
//!
//! `acp/peer.rs` is the client of these tests. Every message that it receives is checked against the published schema,
//! if `scripts/acp-peers.sh` has installed it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

#[path = "acp/answers.rs"]
mod answers;
#[path = "acp/clients.rs"]
mod clients;
#[path = "acp/editor.rs"]
mod editor;
#[path = "acp/extensions.rs"]
mod extensions;
#[path = "acp/framing.rs"]
mod framing;
#[path = "peers/installed.rs"]
mod installed;
#[path = "acp/leaving.rs"]
mod leaving;
#[path = "acp/peer.rs"]
mod peer;
#[path = "acp/schema.rs"]
mod schema;
#[path = "peers/script.rs"]
mod script;
#[path = "acp/sessions.rs"]
mod sessions;
#[path = "acp/turns.rs"]
mod turns;

/// Is the MCP server of these tests when it is started as one.
#[test]
fn fake_mcp_server() {
    pollux_test_support::mcp::serve_if_asked();
}
