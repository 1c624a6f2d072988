#!/bin/sh
# Installs Pollux from a release, or from a folder with its files, without root.
#
#   install.sh [--from URL_OR_FOLDER] [--prefix DIR] [--with-gemini] [--uninstall]
#
# Without --from, the files are taken from the release that this script belongs to, or from its own folder. The archive
# is checked against SHA256SUMS before anything is unpacked. Programs go to PREFIX/bin (default ~/.local), manual pages
# and completions to PREFIX/share. --with-gemini also installs the commands `gemini` and `gemini-cli-a2a-server`; later
# upgrades keep them. --uninstall removes what was installed; settings and sessions in ~/.gemini stay.
set -eu

# Set when a release is packed.
from=@URL@ prefix=${HOME:?}/.local with_gemini="" uninstall=""

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case "$1" in
        --from) from=${2:?}; shift 2 ;;
        --prefix) prefix=${2:?}; shift 2 ;;
        --with-gemini) with_gemini=yes; shift ;;
        --uninstall) uninstall=yes; shift ;;
        -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) fail "unknown option $1; see --help" ;;
    esac
done

case "$prefix" in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
list=$prefix/share/doc/pollux/installed-files
if [ -n "$uninstall" ]; then
    [ -f "$list" ] || fail "nothing that this script installed is in $prefix"
    while IFS= read -r file; do
        case "$file" in
            /* | *..*) fail "$list is damaged" ;;
        esac
        rm -f "$prefix/$file"
    done <"$list"
    rm -f "$list"
    rmdir "$prefix/share/doc/pollux" 2>/dev/null || true
    echo "Removed Pollux from $prefix. Settings and sessions in ~/.gemini were kept."
    exit 0
fi

case "$(uname -s)" in
    Linux) system=unknown-linux ;;
    Darwin) system=apple-darwin ;;
    *) fail "unsupported system: $(uname -s)" ;;
esac
case "$(uname -m)" in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "unsupported architecture: $(uname -m)" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# wget can be redirected away from https, so redirects are followed here.
wget_https() {
    address=$1 left=5
    while [ "$left" -gt 0 ]; do
        headers=$(wget -q -S --max-redirect=0 -O "$2" "$address" 2>&1) && return
        address=$(printf '%s\n' "$headers" | grep -i '^ *location:' | tail -1 | sed 's/^[^:]*: *//; s/[[:space:]].*//')
        case "$address" in
            https://*) left=$((left - 1)) ;;
            *) return 1 ;;
        esac
    done
    return 1
}

fetch() {
    case "$from" in
        http://127.0.0.1[:/]* | http://localhost[:/]* | https://*)
            if command -v curl >/dev/null; then
                curl -fsSL --proto "=${from%%:*}" --proto-redir "=https" --retry 3 -o "$work/$1" "$base/$1"
            elif command -v wget >/dev/null; then
                wget_https "$base/$1" "$work/$1"
            else
                fail "curl or wget is needed"
            fi
            ;;
        http://*) fail "$from is not encrypted; use https" ;;
        *) cp "$base/$1" "$work/$1" ;;
    esac
}

case "$from" in
    @*) base=$(cd "$(dirname "$0")" && pwd) ;;
    *) base=${from%/} ;;
esac
fetch SHA256SUMS || fail "could not get $base/SHA256SUMS"

# A static program is preferred, because it runs everywhere.
archive=""
for ending in "$machine-$system-musl" "$machine-$system-gnu" "$machine-$system"; do
    archive=$(sed -n "s/^[0-9a-f]*  \(pollux-[0-9][0-9A-Za-z.-]*-$ending\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -1)
    [ -z "$archive" ] || break
done
[ -n "$archive" ] || fail "$base has no archive for $machine-$system"
fetch "$archive" || fail "could not get $base/$archive"

if command -v sha256sum >/dev/null; then
    sum=$(sha256sum "$work/$archive" | cut -d' ' -f1)
else
    sum=$(shasum -a 256 "$work/$archive" | cut -d' ' -f1)
fi
grep -qxF "$sum  $archive" "$work/SHA256SUMS" || fail "the checksum of $archive is wrong; nothing was installed"

mkdir "$work/tree"
tar -xzf "$work/$archive" -C "$work/tree" --strip-components=1
# An upgrade keeps the commands that were installed before.
if [ -f "$list" ] && grep -qxF bin/gemini "$list"; then with_gemini=yes; fi
[ -n "$with_gemini" ] || rm -f "$work/tree/bin/gemini" "$work/tree/bin/gemini-cli-a2a-server"
"$work/tree/bin/pollux" --version >/dev/null || fail "the program does not run on this machine; nothing was installed"

cd "$work/tree"
find . -type f | sed 's|^\./||' | sort >"$work/files"
while IFS= read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    # A running program is replaced, not overwritten.
    cp -p "$file" "$prefix/$file.new.$$"
    mv -f "$prefix/$file.new.$$" "$prefix/$file"
done <"$work/files"
# Files of an earlier release that this one does not have.
if [ -f "$list" ]; then
    grep -vxF -f "$work/files" "$list" | while IFS= read -r file; do
        case "$file" in
            /* | *..*) ;;
            *) rm -f "$prefix/$file" ;;
        esac
    done
fi
cp "$work/files" "$list"

echo "Installed Pollux $("$prefix/bin/pollux" --version | head -1) in $prefix/bin."
case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "Add it to PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
echo "Next: pollux demo, then pollux doctor."
