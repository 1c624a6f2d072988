//! The program as others meet it: the real binary, its streams, its files and its exit codes.
//!
//! `scene.rs` holds what the tests share. Every request that a scripted server saw is checked against the
//! rules of the API when its scene ends, whatever the test was about.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

#[path = "it/agents.rs"]
mod agents;
#[path = "it/approvals.rs"]
mod approvals;
#[path = "it/architecture.rs"]
mod architecture;
#[path = "it/auth.rs"]
mod auth;
#[path = "it/auth_keychain.rs"]
mod auth_keychain;
#[path = "it/budget.rs"]
mod budget;
#[path = "it/bug.rs"]
mod bug;
#[path = "it/canary.rs"]
mod canary;
#[path = "it/circles.rs"]
mod circles;
#[path = "it/command_line.rs"]
mod command_line;
#[path = "it/compression.rs"]
mod compression;
#[path = "it/config.rs"]
mod config;
#[path = "it/conversation.rs"]
mod conversation;
#[path = "it/custom_commands.rs"]
mod custom_commands;
#[path = "it/cuts.rs"]
mod cuts;
#[path = "it/demo.rs"]
mod demo;
#[path = "it/docs.rs"]
mod docs;
#[path = "it/edges.rs"]
mod edges;
#[path = "it/exits.rs"]
mod exits;
#[path = "it/extensions.rs"]
mod extensions;
#[path = "it/failed_calls.rs"]
mod failed_calls;
#[path = "it/failures.rs"]
mod failures;
#[path = "it/home_owner.rs"]
mod home_owner;
#[path = "it/hooks.rs"]
mod hooks;
#[path = "it/hooks_command.rs"]
mod hooks_command;
#[path = "it/hygiene.rs"]
mod hygiene;
#[path = "it/ide.rs"]
mod ide;
#[cfg(target_os = "linux")]
#[path = "it/inherited.rs"]
mod inherited;
#[path = "it/input.rs"]
mod input;
#[path = "peers/installed.rs"]
mod installed;
#[path = "it/local_models.rs"]
mod local_models;
#[path = "it/mcp.rs"]
mod mcp;
#[path = "it/mcp_command.rs"]
mod mcp_command;
#[path = "it/mcp_real.rs"]
mod mcp_real;
#[cfg(target_os = "linux")]
#[path = "it/mcp_serve.rs"]
mod mcp_serve;
#[path = "it/mcp_start.rs"]
mod mcp_start;
#[path = "it/memory.rs"]
mod memory;
#[path = "it/memory_command.rs"]
mod memory_command;
#[path = "it/memory_safety.rs"]
mod memory_safety;
#[path = "it/memory_workspaces.rs"]
mod memory_workspaces;
#[path = "it/mentions.rs"]
mod mentions;
#[path = "it/mistakes.rs"]
mod mistakes;
#[path = "it/otlp.rs"]
mod otlp;
#[path = "it/output.rs"]
mod output;
#[path = "it/policy.rs"]
mod policy;
#[path = "it/policy_checkers.rs"]
mod policy_checkers;
#[path = "it/policy_modes.rs"]
mod policy_modes;
#[path = "it/policy_replay.rs"]
mod policy_replay;
#[path = "it/project_env.rs"]
mod project_env;
#[path = "it/provider_choice.rs"]
mod provider_choice;
#[path = "it/provider_security.rs"]
mod provider_security;
#[path = "it/providers.rs"]
mod providers;
#[path = "it/providers_command.rs"]
mod providers_command;
#[path = "it/receipts.rs"]
mod receipts;
#[path = "it/recipes.rs"]
mod recipes;
#[path = "it/reference.rs"]
mod reference;
#[path = "it/remote_agents.rs"]
mod remote_agents;
#[path = "it/requests.rs"]
mod requests;
#[path = "it/resumed_model.rs"]
mod resumed_model;
#[path = "it/rewind.rs"]
mod rewind;
#[path = "it/routing.rs"]
mod routing;
#[path = "it/sandbox.rs"]
mod sandbox;
#[path = "it/sandbox_attacks.rs"]
mod sandbox_attacks;
#[path = "it/sandbox_modes.rs"]
mod sandbox_modes;
#[path = "it/sandbox_program.rs"]
mod sandbox_program;
#[path = "it/sandbox_questions.rs"]
mod sandbox_questions;
#[path = "it/sandbox_rights.rs"]
mod sandbox_rights;
#[path = "it/scene.rs"]
mod scene;
#[path = "it/screen.rs"]
mod screen;
#[path = "it/scripts.rs"]
mod scripts;
#[path = "it/sessions.rs"]
mod sessions;
#[path = "it/sessions_command.rs"]
mod sessions_command;
#[path = "it/signals.rs"]
mod signals;
#[path = "it/skills.rs"]
mod skills;
#[path = "it/skills_command.rs"]
mod skills_command;
#[path = "it/slash.rs"]
mod slash;
#[path = "it/start.rs"]
mod start;
#[path = "it/telemetry.rs"]
mod telemetry;
#[path = "it/trust.rs"]
mod trust;
#[path = "it/voice.rs"]
mod voice;
#[path = "it/wire_failures.rs"]
mod wire_failures;
#[path = "it/wire_requests.rs"]
mod wire_requests;

/// Serves when a test started this binary as an MCP server; see `pollux_test_support::mcp`.
#[test]
fn fake_mcp_server() {
    pollux_test_support::mcp::serve_if_asked();
}
