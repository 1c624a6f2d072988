#!/usr/bin/env bash
# Installs the JavaScript client of the A2A protocol that Gemini CLI uses below target/, for crates/cli/tests/a2a/. The
# Python client is installed by scripts/python-peers.sh. Does nothing when it is there. Where npm is missing or nothing
# can be downloaded it says so and leaves the tests to be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/a2a-peers
[ -e "$folder/installed" ] && exit 0

skip() {
  echo "the A2A client is not installed: $*; its tests are skipped" >&2
  exit 0
}
command -v npm >/dev/null || skip "npm is missing"
mkdir -p "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @a2a-js/sdk@0.3.11 \
  >"$folder/npm.log" 2>&1 || skip "npm failed (see $folder/npm.log)"
touch "$folder/installed"
echo "the A2A client is installed in $folder"
