#!/usr/bin/env bash
# Installs gemini-cli 0.61 below target/, for the test that exchanges sign-ins with it
# (cargo test -p pollux-net gemini_cli). About 100 MB; without it the test has nothing to ask.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/gemini-cli
[ -e "$folder/installed" ] && exit 0
mkdir -p "$folder"
npm install --silent --no-audit --no-fund --prefix "$folder" @google/gemini-cli@0.61.0 >"$folder/npm.log" 2>&1 || {
  echo "gemini-cli is not installed: npm failed (see $folder/npm.log)" >&2
  exit 1
}
touch "$folder/installed"
echo "gemini-cli installed in $folder"
