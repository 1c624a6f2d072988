#!/usr/bin/env bash
# Installs MCP servers that others wrote, and the conformance suite of the protocol, below target/, for
# crates/cli/tests/it/mcp_real.rs, crates/ide/tests/it/real_sdk.rs and scripts/mcp-conformance.sh. Does nothing when
# they are there. Where node, npm or pip are missing or nothing can be downloaded it says so and leaves the tests to be
# skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/mcp-servers
[ -e "$folder/installed" ] && exit 0

skip() {
  echo "MCP servers are not installed: $*; their tests are skipped" >&2
  exit 0
}
command -v node >/dev/null && command -v npm >/dev/null || skip "node or npm is missing"
command -v python3 >/dev/null || skip "python3 is missing"
mkdir -p "$folder"
# The conformance suite needs a newer node than many machines have; the package `node` brings one along.
npm install --silent --no-audit --no-fund --prefix "$folder" \
  @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 \
  @modelcontextprotocol/conformance@0.1.16 node@22 >"$folder/npm.log" 2>&1 || skip "npm failed (see $folder/npm.log)"
python3 -m venv "$folder/python" >"$folder/pip.log" 2>&1 || skip "python3 has no venv"
"$folder/python/bin/pip" install --quiet mcp-server-git==2026.10.19 mcp-server-time==2026.10.19 >>"$folder/pip.log" 2>&1 ||
  skip "pip failed (see $folder/pip.log)"
touch "$folder/installed"
echo "MCP servers installed in $folder"
