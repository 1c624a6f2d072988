#!/usr/bin/env bash
# Fuzzes a target of crates/fuzz with coverage: scripts/fuzz.sh TARGET [SECONDS] [LIBFUZZER OPTIONS]. Without a target, lists
# them. New inputs go to target/fuzz/corpus/TARGET, findings to target/fuzz/findings. Needs a C++ compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
crate=crates/fuzz

if [ $# -eq 0 ]; then
  sed -n 's/^| `\([a-z0-9_-]*\)` | \(.*\) |$/\1: \2/p' "$crate/README.md"
  exit
fi
target=$1 seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
if [ ! -d "$crate/corpus/$target" ]; then
  echo "no fuzz target named \`$target\`; run scripts/fuzz.sh to list the targets" >&2
  exit 1
fi

# The versions of the workspace; cargo adds the fuzzer's own.
[ "$crate/libfuzzer/Cargo.lock" -nt Cargo.lock ] || cp Cargo.lock "$crate/libfuzzer/Cargo.lock"
build=${POLLUX_FUZZ_BUILD:-$PWD/target/fuzz/build}
host=$(rustc -vV | sed -n 's/^host: //p')
# With --target, build scripts and macros are compiled without these flags.
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags="$flags -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS=$flags CARGO_TARGET_DIR=$build \
  cargo build --quiet --release --target "$host" --manifest-path "$crate/libfuzzer/Cargo.toml"

corpus=target/fuzz/corpus/$target findings=target/fuzz/findings scratch=$(mktemp -d "${TMPDIR:-/tmp}/pollux-fuzz.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$corpus" "$findings"
dictionary=()
[ -e "$crate/dictionaries/$target" ] && dictionary=("-dict=$crate/dictionaries/$target")
POLLUX_FUZZ_TARGET=$target TMPDIR=$scratch "$build/$host/release/pollux-libfuzzer" \
  -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -artifact_prefix="$findings/$target-" \
  -print_final_stats=1 "${dictionary[@]}" "$@" "$corpus" "$crate/corpus/$target"
