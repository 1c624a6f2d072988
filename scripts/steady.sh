#!/usr/bin/env bash
# Runs the whole test suite RUNS times, AT_ONCE runs in parallel, and reports every failure: a test that passes 19 times
# out of 20 is broken. If AT_ONCE exceeds the number of cores, the runs put load on each other. Logs are in
# target/steady. Exits with 1 if a run failed.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-20} at_once=${2:-1}
if [[ ! $runs =~ ^[1-9][0-9]*$ || ! $at_once =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: scripts/steady.sh [RUNS] [AT_ONCE], both at least 1" >&2
  exit 2
fi
folder=target/steady
rm -rf "$folder"
mkdir -p "$folder"
cargo test --workspace --locked --no-run --quiet

# once NUMBER: one run, its times and its result
once() {
  local log=$folder/$1.log state=passed
  TIMEFORMAT='%R s, processor %U + %S s'
  { time cargo test --workspace --locked --no-fail-fast >"$log" 2>&1 || state=failed; } 2>"$log.time"
  local counts
  counts=$(awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
    END { printf "%d passed, %d failed, %d ignored", passed, failed, ignored }' "$log")
  echo "run $1: $state; $counts; $(cat "$log.time"); load $(cut -d' ' -f1-2 /proc/loadavg 2>/dev/null || true)"
  [ "$state" = passed ] && return
  touch "$folder/failed"
  sed -n 's/^test \(.*\) \.\.\. FAILED$/  \1/p' "$log"
}

# Worker K runs K, K + AT_ONCE, K + 2 * AT_ONCE and so on.
worker() {
  local run
  for ((run = $1; run <= runs; run += at_once)); do
    once "$run"
  done
}
for ((first = 1; first <= at_once; first++)); do
  worker "$first" &
done
wait
if [ -e "$folder/failed" ]; then
  exit 1
fi
echo "all $runs runs passed"
