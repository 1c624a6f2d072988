#!/usr/bin/env bash
# Checks the spelling of documents and code with typos (configured in _typos.toml), which is installed below target/ as a
# Python package. `scripts/spelling.sh --write-changes` corrects what it finds. Where typos is not available it says so
# and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/python-install.sh
install typos "typos, which checks spelling," typos==1.51.1
[ -e target/typos/installed ] || exit 0
target/typos/python/bin/typos "$@" -- README.md ARCHITECTURE.md AGENTS.md BENCHMARKS.md CHANGELOG.md CONTRIBUTING.md \
  SECURITY.md benches crates deploy docs packaging recipes scripts .ci justfile
