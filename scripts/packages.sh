#!/usr/bin/env bash
# Packs the program that the tests built, without debug information, and tries every package.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in dpkg-deb objdump strip npm python3; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is missing"; exit 0; }
done
built=${CARGO_TARGET_DIR:-target}/debug
place=target/packages
rm -rf "$place"
mkdir -p "$place/bin"
for program in pollux gemini gemini-cli-a2a-server; do
    strip -o "$place/bin/$program" "$built/$program"
done
packaging/build.sh --quick --binary "$place/bin/pollux" --out "$place/dist"
packaging/try.sh "$place/dist"
rm -rf "$place"
