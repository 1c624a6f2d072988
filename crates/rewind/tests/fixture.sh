# Builds a workspace with a bit of everything: $1 is the workspace, $2 the folder `outside` beside it.
set -eu
mkdir -p "$1" "$2/dir"
echo outside >"$2/target.txt"
echo inner >"$2/dir/file"
chmod 0640 "$2/target.txt"
cd "$1"
git init -q --template= -b main
git config user.name Tester
git config user.email tester@example.com
git config gc.auto 0
printf '*.log\n.env\nbuild/\nignored/\n' >.gitignore
printf '# Project\n\nHello.\n' >README.md
mkdir -p src/deep/a/b docs data scripts locked emptydir private 'odd names'
printf 'fn main() {\n    println!("hi");\n}\n' >src/main.rs
printf 'pub fn one() -> u32 {\n    1\n}\n' >src/lib.rs
echo deep >src/deep/a/b/c.txt
echo spaced >'docs/with space.md'
echo newline >"$(printf 'docs/new\nline.txt')"
echo umlaut >docs/größe.txt
echo dash >./-rf
echo star >'odd names/*'
echo quote >"odd names/it's \"quoted\""
printf 'no newline at end' >docs/bare.txt
printf 'crlf\r\nlines\r\n' >docs/crlf.txt
head -c 70000 /dev/zero | tr '\0' 'x' >data/big.txt
printf '\000\001\377\376binary\000' >data/bin.dat
truncate -s 200000 data/sparse.img
printf 'end' >>data/sparse.img
: >data/empty
printf '#!/bin/sh\necho run\n' >scripts/run.sh
chmod 0755 scripts/run.sh
echo s >scripts/setuid
chmod 4755 scripts/setuid
echo secret >private/key
chmod 0600 private/key
chmod 0700 private
echo ro >readonly.txt
chmod 0444 readonly.txt
echo inside >locked/file
chmod 0555 locked
ln -s README.md link
ln -s src dirlink
ln -s nowhere dangling
ln -s ../outside/target.txt outlink
ln -s ../outside/dir outdirlink
echo twin >hard1
ln hard1 hard2
git add -A
git commit -q -m first
echo second >>README.md
git commit -q -a -m second
git checkout -q -b feature
echo feature >feature.txt
git add feature.txt
git commit -q -m feature
git checkout -q main
git tag v1
echo stashed >>src/lib.rs
git stash -q
echo staged >staged.txt
git add staged.txt
echo changed >>src/main.rs
echo KEY=1 >.env
echo log >debug.log
mkdir -p build ignored/deep untracked/dir
echo object >build/out.o
echo x >ignored/deep/x
echo u >untracked.txt
echo y >untracked/dir/y
chmod 0664 untracked.txt
