#!/usr/bin/env bash
# Files stay readable: at most 600 lines of code outside tests, 800 lines in all. No exceptions list.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
while IFS= read -r file; do
  case "$file" in */tests/* | */tests.rs | */benches/*) limit_code=800 ;; *) limit_code=600 ;; esac
  total=$(wc -l <"$file")
  code=$(awk '/^#\[cfg\(test\)\]/ { exit } { n++ } END { print n + 0 }' "$file")
  if [ "$code" -gt "$limit_code" ] || [ "$total" -gt 800 ]; then
    echo "$file: $code lines of code, $total in all (limits $limit_code and 800): split it by what it owns" >&2
    status=1
  fi
done < <(git ls-files '*.rs')
if git ls-files | grep -qE '(^|/)mod\.rs$'; then
  echo "mod.rs files are not used here: name the file after its module" >&2
  status=1
fi
exit "$status"
