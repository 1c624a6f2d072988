#!/usr/bin/env bash
# Installs below target/ what the tests of the web page drive it with (crates/cli/tests/core/web.rs): Debian's chromium, unpacked
# without root unless the machine has one, and the Python package playwright. Does nothing when they are there. Where they
# are not available it says so and leaves the tests to be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/chromium

. scripts/python-install.sh
install playwright "the library that drives browsers" playwright==1.65.0

[ -x "$folder/chromium" ] && exit 0

skip() {
  echo "chromium is not installed: $*; the tests of the web page in a browser are skipped" >&2
  exit 0
}
mkdir -p "$folder"
log=$PWD/$folder/install.log
for known in chromium chromium-browser google-chrome; do
  if found=$(command -v "$known"); then
    ln -sf "$found" "$folder/chromium"
    exit 0
  fi
done
command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "this is not a Debian system"

# chromium and whatever of its dependencies the machine lacks.
packages=$(apt-get install --print-uris --yes --no-install-recommends chromium fonts-dejavu-core 2>"$log" |
  sed -n "s/^'[^']*' \([^_]*\)_.*/\1/p")
[ -n "$packages" ] || skip "apt-get does not know it (see $log)"
mkdir -p "$folder/packages" "$folder/root"
# shellcheck disable=SC2086 # one word per package
(cd "$folder/packages" && apt-get download $packages) >>"$log" 2>&1 || skip "the download failed (see $log)"
for package in "$folder"/packages/*.deb; do
  dpkg -x "$package" "$folder/root" >>"$log" 2>&1 || skip "$package cannot be unpacked (see $log)"
done
rm -rf "$folder/packages"
root=$PWD/$folder/root
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
cat >"$folder/chromium" <<END
#!/bin/sh
export LD_LIBRARY_PATH="$libraries"
export XDG_DATA_DIRS="$root/usr/share:\${XDG_DATA_DIRS:-/usr/local/share:/usr/share}"
exec "$root/usr/lib/chromium/chromium" "\$@"
END
chmod +x "$folder/chromium"
"$folder/chromium" --version >>"$log" 2>&1 || {
  rm "$folder/chromium"
  skip "it does not start (see $log)"
}
echo "chromium is installed in $folder"
