#!/usr/bin/env bash
# Cuts, corrupts, delays, doubles and reorders the model's bytes: for the client alone, then for the whole program.
# Usage: scripts/chaos.sh [CASES] [SEED]
# CASES are for each wire format and fault; `all` tries every offset, with a release build unless POLLUX_TEST_BINARY names
# another one.
set -euo pipefail
cd "$(dirname "$0")/.."

export POLLUX_CHAOS_CASES=${1:-200} POLLUX_CHAOS_SEED=${2:-$(date +%s)}
target=${CARGO_TARGET_DIR:-target}

if [ "$POLLUX_CHAOS_CASES" = all ] && [ -z "${POLLUX_TEST_BINARY:-}" ]; then
  cargo build --release --locked -p pollux-cli
  POLLUX_TEST_BINARY=$(realpath "$target/release/pollux")
  export POLLUX_TEST_BINARY
fi
nice cargo test --locked -p pollux-model --test it chaos:: -- --nocapture
nice cargo test --locked -p pollux-cli --test chaos -- --nocapture
