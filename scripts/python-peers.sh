#!/usr/bin/env bash
# Installs public Python packages below target/ that tests compare us with: a server library for agents elsewhere
# (crates/a2a, crates/cli/tests/it/remote_agents.rs), the reference implementation of the Agent Skills
# specification (crates/cli/tests/it/skills_command.rs), and the SDKs of OpenAI and Anthropic, whose types check what is
# sent (crates/model/tests/it/sdk_types.rs), and the client library of the Agent Client Protocol
# (crates/cli/tests/it/acp/). Does nothing about those that are there. Where python3 is
# missing or nothing can be downloaded it says so and leaves the tests to be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

# install FOLDER WHAT PACKAGE…
install() {
  local folder=target/$1 what=$2
  shift 2
  [ -e "$folder/installed" ] && return
  local log=$folder/pip.log why=
  mkdir -p "$folder"
  if ! command -v python3 >/dev/null; then
    why="python3 is missing"
  elif ! python3 -m venv "$folder/python" >"$log" 2>&1; then
    why="python3 has no venv"
  elif ! "$folder/python/bin/pip" install --quiet "$@" >>"$log" 2>&1; then
    why="pip failed (see $log)"
  fi
  if [ -n "$why" ]; then
    echo "$what is not installed: $why; its tests are skipped" >&2
    return
  fi
  touch "$folder/installed"
  echo "$what is installed in $folder"
}

install a2a-server "the A2A server library" "a2a-sdk[http-server]==0.3.26" uvicorn==0.54.0
install agent-skills "the validator of agent skills" skills-ref==0.1.1
install sdk-types "the types of the official model SDKs" openai==3.49.0 anthropic==2.8.0 pydantic==2.14.3
install acp-client "the ACP client library" agent-client-protocol==0.12.1
