#!/usr/bin/env bash
# Installs rootless podman, runc and a static busybox from Debian's packages, for crates/sandbox/tests/it/containers.rs.
# Does nothing where they are there, and leaves the tests to be skipped where they cannot be installed.
set -uo pipefail
packages="podman runc uidmap fuse-overlayfs busybox-static"
skip() {
  echo "podman is not installed: $*; its tests are skipped" >&2
  exit 0
}
command -v podman >/dev/null && [ -x /bin/busybox ] && exit 0
[ "$(id -u)" = 0 ] || skip "only root can install it"
command -v apt-get >/dev/null || skip "apt-get is missing"
log=$(mktemp)
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive timeout 120 apt-get install --yes --no-install-recommends $packages >"$log" 2>&1 ||
  skip "apt-get failed (see $log)"
rm -f "$log"
echo "podman installed"
