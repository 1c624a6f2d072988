#!/usr/bin/env bash
# Builds this commit twice, from two clones at different paths, and compares every package byte by byte.
#
#   packaging/reproducible.sh [--profile NAME] [--target TRIPLE] [--keep] [FORMAT…]
#
# --profile, --target and formats are those of packaging/build.sh; by default all formats but npm, which needs npm.
# Takes two clean builds and 10 GB below TMPDIR. Uncommitted changes are not built. --keep keeps the clones for
# inspection.
set -euo pipefail
cd "$(dirname "$0")/.."

keep="" arguments=() formats=()
while (($#)); do
    case "$1" in
        --profile | --target) arguments+=("$1" "$2"); shift 2 ;;
        --keep) keep=yes; shift ;;
        -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
        -*) echo "reproducible.sh: unknown option $1" >&2; exit 2 ;;
        *) formats+=("$1"); shift ;;
    esac
done
((${#formats[@]})) || formats=(tarball deb wheel homebrew sbom)

work=$(mktemp -d)
[[ -n $keep ]] || trap 'rm -rf "$work"' EXIT
commit=$(git rev-parse HEAD)
# Names of different lengths: a path in the program would move everything after it.
clones=("$work/first" "$work/another-place/second")

for clone in "${clones[@]}"; do
    git clone --quiet --no-checkout . "$clone"
    git -C "$clone" checkout --quiet "$commit"
    echo "building $commit in $clone"
    # The address would otherwise name the folder. Caches of compilers and other flags are no part of the comparison.
    (cd "$clone" && env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS -u CFLAGS -u CARGO_TARGET_DIR -u RUSTC_WRAPPER -u SOURCE_DATE_EPOCH CARGO_INCREMENTAL=0 \
        packaging/build.sh --quick --url https://packages.invalid/pollux "${arguments[@]}" "${formats[@]}")
done

status=0
while read -r sum name; do
    other=$(sha256sum <"${clones[1]}/dist/$name" | cut -d' ' -f1)
    if [[ $sum == "$other" ]]; then
        echo "same       $name  $sum"
    else
        echo "DIFFERENT  $name  $sum  $other" >&2
        status=1
    fi
done <"${clones[0]}/dist/SHA256SUMS"
((status)) || echo "reproducible: both builds of $commit are the same"
exit "$status"
