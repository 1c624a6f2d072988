#!/usr/bin/env bash
# Draws the pictures of the book (docs/src/pictures) from real runs of the program with scripted replies: in a dark
# terminal, a light one and one of 40 columns.
# What takes time shows its own seconds; everything else is the same every time.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet -p pollux-cli
cargo run --quiet -p pollux-test-support --example pictures -- "${CARGO_TARGET_DIR:-target}/debug/pollux" docs/src/pictures
ls -R docs/src/pictures
