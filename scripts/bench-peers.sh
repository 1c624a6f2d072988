#!/usr/bin/env bash
# `just bench --peers`: measures Pollux and the agents of scripts/peers.sh at the same scripted work, and writes the
# results into docs/src/benchmarks.json, docs/src/benchmarks.md and docs/src/pictures/bench-*.svg.
#
#   scripts/bench-peers.sh [--pollux FILE] [--peers DIR] [--rounds N] [--only SCENARIO] [--draw]
#
# Builds Pollux in the release profile unless --pollux names a program. --draw measures nothing and draws the results of
# the last run. Where the system allows it, everything runs in a network namespace that has nothing but loopback.
set -euo pipefail
cd "$(dirname "$0")/.."

bench=(cargo bench --quiet --locked -p pollux-test-support --bench peers)
case " $* " in
  *" --draw "*) exec "${bench[@]}" -- "$@" ;;
esac
scripts/peers.sh
case " $* " in
  *" --pollux "*) ;;
  *)
    cargo build --release --locked -p pollux-cli --bin pollux
    set -- "$@" --pollux "${CARGO_TARGET_DIR:-target}/release/pollux"
    ;;
esac
"${bench[@]}" --no-run
if unshare --map-root-user --net ip link set lo up 2>/dev/null; then
  exec unshare --map-root-user --net sh -c 'ip link set lo up && exec "$@"' sh "${bench[@]}" --offline -- "$@"
fi
echo "no network namespaces here: the programs could reach the network, although they are told not to" >&2
exec "${bench[@]}" -- "$@"
