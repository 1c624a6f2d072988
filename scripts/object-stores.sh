#!/usr/bin/env bash
# Installs object stores of others below target/ that crates/blobs is tested with: moto, which answers like S3, and
# Google's testbench for Cloud Storage. The testbench is not published as a package: its source comes from the folder
# that STORAGE_TESTBENCH names, or from GitHub where that can be reached. Does nothing about what is there. What cannot
# be had is named, and its test is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/python-install.sh

install s3-server "the S3 server moto" "moto[server]==5.2.5"

testbench=target/storage-testbench
[ -e "$testbench/installed" ] && exit
mkdir -p "$testbench"
if [ ! -d "$testbench/testbench" ]; then
  if [ -n "${STORAGE_TESTBENCH:-}" ]; then
    cp -R "$STORAGE_TESTBENCH/." "$testbench/"
  elif ! GIT_TERMINAL_PROMPT=0 timeout 60 git clone --quiet --depth 1 --branch v0.45.0 \
    https://github.com/googleapis/storage-testbench.git "$testbench/source" 2>"$testbench/git.log"; then
    echo "Google's storage testbench is not installed: git failed (see $testbench/git.log) and STORAGE_TESTBENCH is not set; its test is skipped" >&2
    exit
  else
    cp -R "$testbench/source/." "$testbench/"
    rm -rf "$testbench/source"
  fi
fi
install storage-testbench "Google's storage testbench" flask==3.0.3 grpcio grpcio-status grpcio-tools \
  googleapis-common-protos requests-toolbelt scalpl crc32c gunicorn
