#!/usr/bin/env bash
# Random sequences of everything that can happen to sessions: kills, competing processes, rewinds, full disks, clocks that jump.
# A second round runs a tenth as many on a case-insensitive file system, if one can be mounted (needs root, libfuse 2
# and python3).
# Usage: scripts/crash.sh [SEQUENCES] [SEED]
# Runs of 1,000 and more use a release build, unless POLLUX_TEST_BINARY names another one.
set -euo pipefail
cd "$(dirname "$0")/.."

sequences=${1:-2000} seed=${2:-$(date +%s)}
target=${CARGO_TARGET_DIR:-target}

if [ "$sequences" -ge 1000 ] && [ -z "${POLLUX_TEST_BINARY:-}" ]; then
  cargo build --release --locked -p pollux-cli
  POLLUX_TEST_BINARY=$(realpath "$target/release/pollux")
  export POLLUX_TEST_BINARY
fi

run_sequences() {
  POLLUX_CRASH_SEQUENCES=$1 POLLUX_CRASH_SEED=$seed \
    nice cargo test --locked -p pollux-cli --test crash -- --nocapture
}
run_sequences "$sequences"

. scripts/python-install.sh
install folding-fs "the FUSE library" fusepy==3.0.1
place=$(mktemp -d) folder=$(mktemp -d)
end() {
  ! mountpoint -q "$place" || umount -l "$place"
  rm -rf "$folder" && rmdir "$place"
}
trap end EXIT
if [ -e target/folding-fs/installed ]; then
  chmod 755 "$place" "$folder"
  target/folding-fs/python/bin/python scripts/folding_fs.py "$folder" "$place" &
  for _ in $(seq 50); do
    ! mountpoint -q "$place" || break
    sleep 0.1
  done
fi
if ! mountpoint -q "$place"; then
  echo "could not mount a case-insensitive file system; skipping this round" >&2
  exit
fi
touch "$place/Case" && test -e "$place/case"
echo "repeating on a case-insensitive file system:"
TMPDIR=$place run_sequences $(((sequences + 9) / 10))
