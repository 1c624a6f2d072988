#!/usr/bin/env bash
# Runs the client scenarios of the protocol's conformance suite against our client, lists them, and fails if one does
# not pass. `scripts/mcp-conformance.sh [SUITE]`; the suite is `all` unless another one is named (`core`, `auth`, …).
# The suite runs its scenarios side by side, and one of them measures times: what does not pass is tried again alone.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/mcp-servers.sh
folder=$PWD/target/mcp-servers
[ -e "$folder/installed" ] || exit 0
driver=${CARGO_TARGET_DIR:-$PWD/target}/debug/examples/conformance
cargo build --quiet --locked -p pollux-mcp --example conformance
mkdir -p target/mcp-conformance
cd target/mcp-conformance

suite() {
  "$folder/node_modules/.bin/node" "$folder/node_modules/@modelcontextprotocol/conformance/dist/index.js" \
    client --command "$driver" "$@" >log 2>&1 || true
}

suite --suite "${1:-all}"
if ! sed -n '/SUITE SUMMARY/,$p' log | grep '^[✓✗] ' >summary; then
  cat log >&2
  exit 1
fi
cat summary
status=0
while read -r scenario; do
  for _ in 1 2 3; do
    suite --scenario "$scenario"
    if grep -q 'OVERALL: PASSED' log; then
      echo "✓ $scenario: passed alone"
      continue 2
    fi
  done
  echo "✗ $scenario does not pass:" >&2
  cat log >&2
  status=1
done < <(sed -n 's/^✗ \([^:]*\):.*/\1/p' summary)
echo "$(wc -l <summary) scenarios"
exit "$status"
