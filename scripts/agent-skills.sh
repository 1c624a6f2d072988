#!/usr/bin/env bash
# Installs the reference implementation of the Agent Skills specification below target/, for
# crates/cli/tests/it/skills_command.rs. Does nothing when it is there. Where python3 is missing or nothing can be
# downloaded it says so and leaves the tests to be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/agent-skills
[ -e "$folder/installed" ] && exit 0

skip() {
  echo "the validator of agent skills is not installed: $*; its tests are skipped" >&2
  exit 0
}
command -v python3 >/dev/null || skip "python3 is missing"
mkdir -p "$folder"
python3 -m venv "$folder/python" >"$folder/pip.log" 2>&1 || skip "python3 has no venv"
"$folder/python/bin/pip" install --quiet skills-ref==0.1.1 >>"$folder/pip.log" 2>&1 ||
  skip "pip failed (see $folder/pip.log)"
touch "$folder/installed"
echo "the validator of agent skills is installed in $folder"
