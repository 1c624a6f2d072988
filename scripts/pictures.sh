#!/usr/bin/env bash
# Draws the pictures of the book (docs/src/pictures) from real runs of the program with scripted replies: in a dark
# terminal, a light one and one of 40 columns. session.svg is a recording that moves.
# What takes time shows its own seconds; everything else is the same every time.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet -p pollux-cli
cargo run --quiet -p pollux-test-support --example pictures -- "${CARGO_TARGET_DIR:-target}/debug/pollux" docs/src/pictures
# Those of the web page need a browser.
scripts/chromium.sh
POLLUX_PICTURES=docs/src/pictures cargo test --quiet -p pollux-cli --test core a_browser_prompts
ls -R docs/src/pictures
