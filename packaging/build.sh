#!/usr/bin/env bash
# Builds the packages of this version below dist/ (or --out DIR).
#
#   packaging/build.sh [--binary FILE] [--target TRIPLE] [--profile NAME] [--out DIR] [--url URL] [--quick] [FORMAT…]
#
# Formats: tarball deb npm wheel homebrew sbom; all of them by default. Without --binary the program is built in the
# release profile, or in that of --profile; the `gemini` and `gemini-cli-a2a-server` launchers are expected next to it.
# For a static program that runs on any Linux, add the musl target once (`rustup target add x86_64-unknown-linux-musl`)
# and give it as --target. The same tree gives the same bytes (checked by packaging/reproducible.sh): times are those of
# the last commit, or SOURCE_DATE_EPOCH. --url is the address where the files will be; install.sh and the Homebrew
# formula name it. --quick compresses weakly, for tests.
set -euo pipefail
cd "$(dirname "$0")/.."

binary="" target="" profile="release" out="dist" url="" level=9 debian=(-Zxz) formats=()
while (($#)); do
    case "$1" in
        --binary) binary=$2; shift 2 ;;
        --target) target=$2; shift 2 ;;
        --profile) profile=$2; shift 2 ;;
        --out) out=$2; shift 2 ;;
        --url) url=$2; shift 2 ;;
        --quick) level=1 debian=(-Zgzip -z1); shift ;;
        -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
        -*) echo "build.sh: unknown option $1" >&2; exit 2 ;;
        *) formats+=("$1"); shift ;;
    esac
done
((${#formats[@]})) || formats=(tarball deb npm wheel homebrew sbom)

host=$(rustc -vV | sed -n 's/^host: //p')
target=${target:-$host}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

if [[ -z $binary ]]; then
    options=(--profile "$profile" --locked -p pollux-cli --bins)
    [[ $target == "$host" ]] || options+=(--target "$target")
    # Paths of this machine are no part of the program.
    cargo=${CARGO_HOME:-$HOME/.cargo}
    export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=/build --remap-path-prefix=$cargo=/cargo"
    export CFLAGS="${CFLAGS:-} -ffile-prefix-map=$PWD=/build -ffile-prefix-map=$cargo=/cargo"
    cargo build "${options[@]}"
    folder=${CARGO_TARGET_DIR:-target}
    [[ $target == "$host" ]] || folder=$folder/$target
    # The folder of the development profile has another name.
    [[ $profile == dev ]] && profile=debug
    binary=$folder/$profile/pollux
fi
programs=$(cd "$(dirname "$binary")" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Where programs, manual pages and completions are in every package: bin, share/man, share/….
make_tree() {
    local tree=$1
    mkdir -p "$tree"/bin "$tree"/share/man/man1 "$tree"/share/bash-completion/completions \
        "$tree"/share/zsh/site-functions "$tree"/share/fish/vendor_completions.d "$tree"/share/doc/pollux
    install -m 755 "$programs/pollux" "$tree/bin/pollux"
    HOME=$work "$tree/bin/pollux" man "$tree/share/man/man1" >/dev/null
    HOME=$work "$tree/bin/pollux" completions bash >"$tree/share/bash-completion/completions/pollux"
    HOME=$work "$tree/bin/pollux" completions zsh >"$tree/share/zsh/site-functions/_pollux"
    HOME=$work "$tree/bin/pollux" completions fish >"$tree/share/fish/vendor_completions.d/pollux.fish"
    HOME=$work "$tree/bin/pollux" licenses >"$tree/share/doc/pollux/third-party-licences.txt"
    install -m 644 LICENSE README.md CHANGELOG.md "$tree/share/doc/pollux/"
}


package_tarball() {
    local name=pollux-$version-$target
    make_tree "$work/tarball/$name"
    install -m 755 "$programs/gemini" "$programs/gemini-cli-a2a-server" "$work/tarball/$name/bin/"
    (cd "$work/tarball" && tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --mode='u+rw,go=rX' -cf - "$name" | gzip -"$level"n >"$out/$name.tar.gz")
    echo "$out/$name.tar.gz"
}

package_deb() {
    local tree=$work/deb arch
    case "$target" in
        x86_64-*) arch=amd64 ;;
        aarch64-*) arch=arm64 ;;
        *) echo "build.sh: no Debian architecture for $target" >&2; return 1 ;;
    esac
    make_tree "$tree/usr"
    # The launchers find `pollux` in their own folder. They are alternatives, so that an installed gemini-cli stays.
    mkdir -p "$tree/usr/lib/pollux" "$tree/DEBIAN"
    install -m 755 "$programs/gemini" "$programs/gemini-cli-a2a-server" "$tree/usr/lib/pollux/"
    ln -s ../../bin/pollux "$tree/usr/lib/pollux/pollux"
    gzip -9n "$tree"/usr/share/man/man1/*.1 "$tree/usr/share/doc/pollux/CHANGELOG.md"
    mv "$tree/usr/share/doc/pollux/LICENSE" "$tree/usr/share/doc/pollux/copyright"
    local depends="" size
    ldd "$programs/pollux" 2>/dev/null | grep -q 'libc.so' && depends="libc6 (>= $(glibc_version)), libgcc-s1"
    size=$(du -sk "$tree/usr" | cut -f1)
    sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$size/" -e "s/@DEPENDS@/$depends/" \
        packaging/debian/control.in | sed '/^Depends: $/d' >"$tree/DEBIAN/control"
    install -m 755 packaging/debian/postinst packaging/debian/prerm "$tree/DEBIAN/"
    find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group "${debian[@]}" --build "$tree" "$out/pollux_${version}_$arch.deb" >/dev/null
    echo "$out/pollux_${version}_$arch.deb"
}

# The newest version of the C library that the program asks for.
glibc_version() {
    objdump -T "$programs/pollux" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 | cut -d_ -f2
}

package_npm() {
    local platform
    case "$target" in
        x86_64-*-linux-*) platform=linux-x64 ;;
        aarch64-*-linux-*) platform=linux-arm64 ;;
        x86_64-apple-*) platform=darwin-x64 ;;
        aarch64-apple-*) platform=darwin-arm64 ;;
        *) echo "build.sh: no npm platform for $target" >&2; return 1 ;;
    esac
    local launcher=$work/npm/launcher native=$work/npm/native
    mkdir -p "$launcher/bin" "$native/bin"
    install -m 755 "$programs/pollux" "$native/bin/pollux"
    install -m 644 LICENSE "$native/"
    sed -e "s/@VERSION@/$version/" -e "s/@OS@/${platform%-*}/" -e "s/@CPU@/${platform#*-}/" \
        packaging/npm/native.json.in >"$native/package.json"
    install -m 755 packaging/npm/pollux.js "$launcher/bin/"
    install -m 644 LICENSE README.md "$launcher/"
    sed -e "s/@VERSION@/$version/g" packaging/npm/launcher.json.in >"$launcher/package.json"
    for folder in "$native" "$launcher"; do
        (cd "$folder" && npm pack --silent --ignore-scripts --pack-destination "$out" >/dev/null)
    done
    ls "$out"/pollux-cli-*.tgz
}

package_wheel() {
    local tag
    case "$target" in
        x86_64-*-linux-musl) tag=manylinux2014_x86_64.musllinux_1_1_x86_64 ;;
        aarch64-*-linux-musl) tag=manylinux2014_aarch64.musllinux_1_1_aarch64 ;;
        x86_64-*-linux-gnu) tag=manylinux_$(glibc_version | tr . _)_x86_64 ;;
        aarch64-*-linux-gnu) tag=manylinux_$(glibc_version | tr . _)_aarch64 ;;
        aarch64-apple-*) tag=macosx_11_0_arm64 ;;
        x86_64-apple-*) tag=macosx_10_12_x86_64 ;;
        *) echo "build.sh: no Python platform for $target" >&2; return 1 ;;
    esac
    python3 packaging/python/wheel.py --level "$level" --version "$version" --tag "py3-none-$tag" --programs "$programs" --out "$out"
}

package_homebrew() {
    local name=pollux-$version-$target sum
    [[ -f $out/$name.tar.gz ]] || package_tarball >/dev/null
    sum=$(sha256sum "$out/$name.tar.gz" | cut -d' ' -f1)
    sed -e "s/@VERSION@/$version/g" -e "s|@URL@|${url:-file://$out}/$name.tar.gz|" -e "s/@SHA256@/$sum/" \
        packaging/homebrew/pollux.rb.in >"$out/pollux.rb"
    echo "$out/pollux.rb"
}

package_sbom() {
    python3 packaging/sbom.py --version "$version" >"$out/pollux-$version.cdx.json"
    echo "$out/pollux-$version.cdx.json"
}

for format in "${formats[@]}"; do
    declare -F "package_$format" >/dev/null || { echo "build.sh: unknown format $format" >&2; exit 2; }
    "package_$format"
done
sed -e "s|^from=@URL@|from=${url:-@URL@}|" packaging/install.sh >"$out/install.sh"
chmod 755 "$out/install.sh"
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort | xargs sha256sum >SHA256SUMS)
echo "$out/SHA256SUMS"
