#!/usr/bin/env bash
# Writes the list of `pollux licenses`: name, version and licence of every crate that the program is built from, on any
# platform. With --check, compares it instead.
set -euo pipefail
cd "$(dirname "$0")/.."
list=crates/admin/src/licenses/list.txt
new=$(cargo tree -p pollux-cli -e normal --target all --prefix none --format '{p}|{l}' --locked |
    sed -E '/^pollux-/d; s/ \(\*\)$//; s/^([^ ]+) v([^ |]+)[^|]*\|(.*)$/\1 \2 \3/' | LC_ALL=C sort -u)
if [ "${1:-}" = --check ]; then
    if ! diff <(printf '%s\n' "$new") "$list"; then
        echo "$list is out of date; run scripts/licenses.sh" >&2
        exit 1
    fi
else
    printf '%s\n' "$new" >"$list"
fi
