#!/usr/bin/env bash
# Installs the programs that CI checks with, cargo-deny and mdbook, in fixed versions below target/tools. Needs only
# Rust and the crates registry, and does nothing when they are there. Built without optimisation and without features that no
# check uses (a web server, watching files, search), because building them costs more than running them.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/target/tools

# install PROGRAM VERSION
install() {
  local program=$1 version=$2
  [ -e "$tools/$program-$version" ] && return
  CARGO_TARGET_DIR=$tools/build CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 \
    cargo install --quiet --debug --locked --no-default-features --root "$tools" "$program@$version"
  touch "$tools/$program-$version"
}

install cargo-deny 0.20.2
install mdbook 0.5.4
rm -rf "$tools/build"
