#!/usr/bin/env bash
# Runs the client scenarios of the protocol's conformance suite against our client and lists what passes.
# `scripts/mcp-conformance.sh [SUITE]`; the suite is `core` unless another one is named (`all`, `auth`, …).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/mcp-servers.sh
folder=$PWD/target/mcp-servers
[ -e "$folder/installed" ] || exit 0
cargo build --quiet -p pollux-mcp --example conformance
mkdir -p target/mcp-conformance
cd target/mcp-conformance
exec "$folder/node_modules/.bin/node" "$folder/node_modules/@modelcontextprotocol/conformance/dist/index.js" \
  client --command "$folder/../debug/examples/conformance" --suite "${1:-core}"
