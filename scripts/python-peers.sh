#!/usr/bin/env bash
# Installs public Python packages below target/ that tests compare us with: a server library for agents elsewhere
# (crates/a2a, crates/cli/tests/it/remote_agents.rs), a client library for our A2A server (crates/cli/tests/a2a/), the
# reference implementation of the Agent Skills specification (crates/cli/tests/it/skills_command.rs), the SDKs of OpenAI
# and Anthropic, whose types check what is sent (crates/model/tests/it/sdk_types.rs), the client library of the Agent
# Client Protocol (crates/cli/tests/acp/), the SDK of Claude Code (crates/cli/tests/claude/) and the messages of
# OpenTelemetry with a gRPC server (crates/cli/tests/it/otlp.rs). Does nothing about those that are there. Where python3
# is missing or nothing can be downloaded it says so and leaves the tests to be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/python-install.sh

install a2a-server "the A2A server library" "a2a-sdk[http-server]==0.3.26" uvicorn==0.54.0
install a2a-client "the A2A client library" a2a-sdk==1.3.0
install agent-skills "the validator of agent skills" skills-ref==0.1.1
install sdk-types "the types of the official model SDKs" openai==3.49.0 anthropic==2.8.0 pydantic==2.14.3
install mcp-client "the MCP client library" mcp==2.3.0
install acp-client "the ACP client library" agent-client-protocol==0.12.1
install otlp-collector "the OpenTelemetry protocol" opentelemetry-proto==1.45.2 grpcio==1.85.1
install claude-sdk "the SDK of Claude Code" claude-agent-sdk==0.2.182
# The program that comes with it is large and never run: the tests name ours.
rm -rf target/claude-sdk/python/lib/python3*/site-packages/claude_agent_sdk/_bundled
