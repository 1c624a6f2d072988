#!/usr/bin/env bash
# Installs the public A2A server library below target/, for crates/cli/tests/it/remote_agents.rs. Does nothing when it is
# there. Where python3 is missing or nothing can be downloaded it says so and leaves the tests to be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/a2a-server
[ -e "$folder/installed" ] && exit 0

skip() {
  echo "the A2A server library is not installed: $*; its tests are skipped" >&2
  exit 0
}
command -v python3 >/dev/null || skip "python3 is missing"
mkdir -p "$folder"
python3 -m venv "$folder/python" >"$folder/pip.log" 2>&1 || skip "python3 has no venv"
"$folder/python/bin/pip" install --quiet "a2a-sdk[http-server]==0.3.26" uvicorn==0.54.0 >>"$folder/pip.log" 2>&1 ||
  skip "pip failed (see $folder/pip.log)"
touch "$folder/installed"
echo "the A2A server library is installed in $folder"
