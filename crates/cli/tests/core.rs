//! The resident core: the real binary, reached through its socket and from terminals.
//!
//! `core/scene.rs` has the core and a raw client; nothing in them knows more than the wire.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

#[path = "core/life.rs"]
mod life;
#[path = "core/memory.rs"]
mod memory;
#[path = "core/peers.rs"]
mod peers;
#[path = "core/programs.rs"]
mod programs;
#[path = "core/scene.rs"]
mod scene;
#[path = "core/screens.rs"]
mod screens;
#[path = "core/web.rs"]
mod web;
#[path = "core/wire.rs"]
mod wire;

/// Is the MCP server of these tests when it is started as one.
#[test]
fn fake_mcp_server() {
    pollux_test_support::mcp::serve_if_asked();
}
