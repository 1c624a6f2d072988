//! Servers as the agent meets them: real processes and sockets, behaving and misbehaving.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "it/behaviour.rs"]
mod behaviour;
#[path = "it/declarations.rs"]
mod declarations;
#[path = "it/faults.rs"]
mod faults;
#[path = "it/owners.rs"]
mod owners;
#[path = "it/rights.rs"]
mod rights;
#[path = "it/shared.rs"]
mod shared;
#[path = "it/stage.rs"]
mod stage;
#[path = "it/web.rs"]
mod web;

/// Serves when a test started this binary as an MCP server; see `pollux_test_support::mcp`.
#[test]
fn fake_mcp_server() {
    pollux_test_support::mcp::serve_if_asked();
}
