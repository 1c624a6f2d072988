#!/usr/bin/env bash
# Programs that some tests use if they are installed: a Secret Service on a session bus, the shells that completions are
# written for, man, bubblewrap, and small everyday programs that have to work in the sandbox. Needs Debian's apt and the rights to use it; does nothing, and says so, where either is missing.
# Tests that need them are then skipped.
set -euo pipefail
packages=(dbus gnome-keyring libsecret-tools zsh fish man-db
  bubblewrap ccache direnv expect ninja-build python3-pytest redis-server ruby strace sudo)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ]; then
  echo "not installed: ${missing[*]} (apt-get as root is needed); their tests will be skipped"
  exit 0
fi
if ! DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
  echo "could not install: ${missing[*]}; their tests will be skipped"
fi
