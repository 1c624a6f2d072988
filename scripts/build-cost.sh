#!/usr/bin/env bash
# What a build costs: time and processor time from clean, size and sections of the program, a check after a change.
#
#   scripts/build-cost.sh [release|demo|check|size PROGRAM]...     (without words: release, demo and check)
#
# Builds go below target/build-cost and are removed afterwards, so nothing that is there already counts. On a busy
# machine read the processor time: divided by the number of cores it is what an idle machine needs at least.
set -euo pipefail
cd "$(dirname "$0")/.."
target="$PWD/target/build-cost"
changed="$PWD/crates/agent/src/lib.rs"

# Whatever happens, the file that `check` changes comes back.
clean_up() {
  if [ -f "$target/lib.rs" ]; then cp -p "$target/lib.rs" "$changed"; fi
  rm -rf "$target" "$target.log"
}
trap clean_up EXIT

# Runs a command quietly and says what it took.
took() {
  local label="$1"
  shift
  TIMEFORMAT="$label: %R s, processor %U s + %S s (system), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown)"
  if ! time "$@" >"$target.log" 2>&1; then
    cat "$target.log" >&2
    exit 1
  fi
  rm -f "$target.log"
}

size_of() {
  local program="$1"
  printf '%s: %s bytes\n' "$program" "$(wc -c <"$program" | tr -d ' ')"
  if command -v size >/dev/null 2>&1; then
    size -A "$program" | awk '$2 ~ /^[0-9]+$/ && $2 > 100000 && $1 != "Total" { printf "  %-20s %6.2f MB\n", $1, $2 / 1e6 }'
  fi
}

# With symbols: which crates the machine code comes from. Code of a generic function counts for the crate that defines it.
crates_of() {
  command -v nm >/dev/null 2>&1 || return 0
  nm -t d --size-sort -S --demangle "$1" | awk '
    $3 ~ /^[tTwW]$/ {
      size = $2; name = $4
      sub(/^<+/, "", name); sub(/^(dyn|&mut|&|\*const|\*mut|\[)+/, "", name)
      if (!match(name, /^[a-z_][a-z0-9_]*::/)) name = "other::"
      crate = substr(name, 1, index(name, "::") - 1); sum[crate] += size; total += size
    }
    END {
      for (crate in sum) printf "%9.1f kB  %s\n", sum[crate] / 1e3, crate
      printf "%9.1f kB  (all)\n", total / 1e3
    }' | sort -rn | head -30
}

release() {
  took "release build from clean" env CARGO_TARGET_DIR="$target" cargo build --release --locked
  size_of "$target/release/pollux"
}

demo() {
  took "cargo run -- demo from clean" env CARGO_TARGET_DIR="$target" cargo run --locked -- demo
}

check() {
  took "check of pollux-cli from clean" env CARGO_TARGET_DIR="$target" cargo check -p pollux-cli --locked
  cp -p "$changed" "$target/lib.rs"
  printf '\n#[doc(hidden)]\npub fn measured_by_build_cost() {}\n' >>"$changed"
  took "check of pollux-cli after a change in agent" env CARGO_TARGET_DIR="$target" cargo check -p pollux-cli --locked
  cp -p "$target/lib.rs" "$changed"
  rm "$target/lib.rs"
}

mkdir -p "$target"
if [ $# -eq 0 ]; then set -- release demo check; fi
while [ $# -gt 0 ]; do
  case "$1" in
    release | demo | check) "$1" ;;
    size)
      shift
      size_of "${1:?size needs the path of a program}"
      crates_of "$1"
      ;;
    *)
      sed -n '2,7p' "$0" >&2
      exit 2
      ;;
  esac
  shift
done
