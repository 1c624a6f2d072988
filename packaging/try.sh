#!/usr/bin/env bash
# Installs every package of a folder into an empty place, runs the program from it, and removes it again.
#
#   packaging/try.sh [DIST]
#
# Needs what each kind of package needs (dpkg, npm, python3 with venv); a kind whose tools are missing is skipped aloud.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(cd "${1:-dist}" && pwd)
work=$(mktemp -d) server=""
trap '[[ -z $server ]] || kill "$server"; rm -rf "$work"' EXIT
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
export HOME=$work/home GEMINI_FORCE_FILE_STORAGE=true
mkdir -p "$HOME/.gemini" "$work/project"
echo kept >"$HOME/.gemini/kept"

# The program of a package must run its demo, and its doctor must find no problem.
works() {
    local program=$1
    [[ $("$program" --version) == *"$version"* ]] || { echo "try.sh: $program is another version" >&2; return 1; }
    (cd "$work/project" && "$program" demo >"$work/demo.txt" 2>&1) || { cat "$work/demo.txt" >&2; return 1; }
    (cd "$work/project" && "$program" doctor --offline >"$work/doctor.txt" 2>&1) || { cat "$work/doctor.txt" >&2; return 1; }
}

skip() { echo "skipped: $1"; }

try_tarball() {
    local archive
    archive=$(ls "$dist"/pollux-"$version"-*.tar.gz | head -1)
    mkdir "$work/tarball"
    tar -xzf "$archive" -C "$work/tarball" --strip-components=1
    works "$work/tarball/bin/pollux"
    [[ $("$work/tarball/bin/gemini" --version) == *"$version"* ]]
    [[ -s $work/tarball/share/man/man1/pollux.1 ]]
    bash -n "$work/tarball/share/bash-completion/completions/pollux"
}

try_install_script() {
    local prefix=$work/prefix
    sh "$dist/install.sh" --prefix "$prefix" >/dev/null
    works "$prefix/bin/pollux"
    [[ ! -e $prefix/bin/gemini ]]
    sh "$dist/install.sh" --from "$dist" --prefix "$prefix" --with-gemini >/dev/null
    [[ -x $prefix/bin/gemini ]]
    # An upgrade keeps it.
    sh "$dist/install.sh" --from "$dist" --prefix "$prefix" >/dev/null
    [[ -x $prefix/bin/gemini && -x $prefix/bin/gemini-cli-a2a-server ]]
    sh "$dist/install.sh" --prefix "$prefix" --uninstall >/dev/null
    (cd "$work" && sh "$dist/install.sh" --prefix relative >/dev/null && relative/bin/pollux --version >/dev/null)
    [[ -z $(find "$prefix" -type f) && -f $HOME/.gemini/kept ]]
    # A file that was changed on the way is not unpacked.
    mkdir "$work/changed"
    cp "$dist"/SHA256SUMS "$dist"/pollux-"$version"-*.tar.gz "$work/changed/"
    printf x >>"$(ls "$work"/changed/*.tar.gz | head -1)"
    if sh "$dist/install.sh" --from "$work/changed" --prefix "$work/bad" 2>"$work/refusal"; then return 1; fi
    grep -q "checksum" "$work/refusal" && [[ ! -e $work/bad ]]
    try_redirects
}

# A server whose files are all redirected to an address without encryption.
try_redirects() {
    command -v python3 >/dev/null || { skip "python3 is missing"; return 0; }
    : >"$work/ports"
    python3 -u - "$dist" >"$work/ports" <<'PY' &
import functools, http.server, sys, threading
class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_): pass
files = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=sys.argv[1]))
class Redirects(Files):
    def do_GET(self):
        self.send_response(302)
        self.send_header("Location", f"http://127.0.0.1:{files.server_port}{self.path}")
        self.end_headers()
redirects = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirects)
print(files.server_port, redirects.server_port)
threading.Thread(target=files.serve_forever, daemon=True).start()
redirects.serve_forever()
PY
    server=$!
    local direct redirected tool tools
    until read -r direct redirected <"$work/ports"; do
        kill -0 "$server" || return 1
        sleep 0.1
    done
    for tool in curl wget; do
        command -v "$tool" >/dev/null || { skip "$tool is missing"; continue; }
        # All commands but the other one.
        tools=$work/tools-$tool
        mkdir "$tools"
        ln -s /bin/* /usr/bin/* "$tools/" 2>/dev/null || true
        rm -f "$tools/curl" "$tools/wget"
        ln -s "$(command -v "$tool")" "$tools/$tool"
        PATH=$tools sh "$dist/install.sh" --from "http://127.0.0.1:$direct" --prefix "$work/$tool" >/dev/null
        "$work/$tool/bin/pollux" --version >/dev/null
        if PATH=$tools sh "$dist/install.sh" --from "http://127.0.0.1:$redirected" --prefix "$work/bad" 2>"$work/refusal"; then
            return 1
        fi
        grep -q "could not get" "$work/refusal" && [[ ! -e $work/bad ]]
    done
    kill "$server"
    server=""
}

try_deb() {
    command -v dpkg >/dev/null || { skip "dpkg is missing"; return 0; }
    local package root=$work/root
    package=$(ls "$dist"/pollux_"$version"_*.deb | head -1)
    mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers,alternatives} "$root"/etc/alternatives "$root/var/log" "$root/usr/bin"
    touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
    # The libraries of this machine serve; its files are not touched.
    local dpkg=(dpkg --root="$root" --force-depends --force-not-root --force-script-chrootless)
    "${dpkg[@]}" --install "$package" >"$work/dpkg.txt" 2>&1 || { cat "$work/dpkg.txt" >&2; return 1; }
    works "$root/usr/bin/pollux"
    [[ $("$root/usr/lib/pollux/gemini" --version) == *"$version"* ]]
    [[ $(readlink "$root/etc/alternatives/gemini") == /usr/lib/pollux/gemini ]]
    [[ -s $root/usr/share/man/man1/pollux.1.gz ]]
    "${dpkg[@]}" --purge pollux >"$work/dpkg.txt" 2>&1 || { cat "$work/dpkg.txt" >&2; return 1; }
    [[ ! -e $root/usr/bin/pollux && ! -L $root/usr/bin/gemini && ! -e $root/usr/lib/pollux ]]
    # Another program's command of the name is left alone.
    mkdir -p "$root/usr/bin"
    echo "other" >"$root/usr/bin/gemini"
    "${dpkg[@]}" --install "$package" >"$work/dpkg.txt" 2>&1 || { cat "$work/dpkg.txt" >&2; return 1; }
    [[ $(cat "$root/usr/bin/gemini") == other ]]
}

try_npm() {
    command -v npm >/dev/null || { skip "npm is missing"; return 0; }
    mkdir "$work/npm"
    # The packages of other platforms are in no registry here; npm leaves optional ones out.
    (cd "$work/npm" && npm init -y >/dev/null && npm install --silent --offline --no-audit --no-fund \
        "$dist"/pollux-cli-linux-*.tgz >/dev/null && npm install --silent --offline --no-audit --no-fund \
        --omit=optional "$dist/pollux-cli-$version.tgz" >/dev/null)
    works "$work/npm/node_modules/.bin/pollux"
    local code=0
    (cd "$work/npm" && npx --no-install pollux-cli --no-such-flag >/dev/null 2>&1) || code=$?
    [[ $code == 1 ]]
    (cd "$work/npm" && npm uninstall --silent pollux-cli >/dev/null && [[ ! -e node_modules/.bin/pollux ]])
}

try_wheel() {
    python3 -m venv "$work/venv" 2>/dev/null || { skip "python3 has no venv"; return 0; }
    "$work/venv/bin/pip" install --quiet --no-index --no-deps --disable-pip-version-check "$dist"/pollux_cli-"$version"-*.whl
    works "$work/venv/bin/pollux"
    [[ $("$work/venv/bin/pollux-cli" --version) == *"$version"* ]]
    "$work/venv/bin/pip" uninstall --quiet --yes --disable-pip-version-check pollux-cli
    [[ ! -e $work/venv/bin/pollux ]]
}

try_sbom() {
    python3 - "$dist/pollux-$version.cdx.json" <<'PY'
import json, sys
document = json.load(open(sys.argv[1]))
assert document["bomFormat"] == "CycloneDX" and document["specVersion"] == "1.6"
names = {component["bom-ref"] for component in document["components"]}
assert len(names) == len(document["components"]) > 100
known = names | {document["metadata"]["component"]["bom-ref"]}
for entry in document["dependencies"]:
    assert entry["ref"] in known and set(entry["dependsOn"]) <= known, entry
missing = [one["name"] for one in document["components"] if not one.get("licenses")]
assert not missing, missing
PY
}

try_homebrew() {
    local sum
    sum=$(sha256sum "$dist"/pollux-"$version"-*.tar.gz | head -1 | cut -d' ' -f1)
    grep -q "sha256 \"$sum\"" "$dist/pollux.rb"
    if command -v ruby >/dev/null; then ruby -c "$dist/pollux.rb" >/dev/null; else skip "ruby is missing"; fi
}

try_checksums() { (cd "$dist" && sha256sum --quiet -c SHA256SUMS); }

for kind in checksums tarball install_script deb npm wheel sbom homebrew; do
    printf '%s: ' "$kind"
    "try_$kind"
    [[ $(cat "$HOME/.gemini/kept") == kept ]]
    echo ok
done
