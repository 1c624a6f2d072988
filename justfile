# The front door for contributors. `just` lists what there is.

default:
    @just --list

# What CI runs.
check:
    .ci/run

# One crate while you work on it: `just test tools`.
test crate:
    cargo test -p pollux-{{crate}}

# All tests.
test-all:
    cargo test --workspace --locked

fmt:
    cargo fmt --all

lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Ratios against a trivial process in the same run; `just bench --gemini PATH` adds gemini-cli. `just bench --peers` compares
# with other agents and writes docs/src/benchmarks.md.
bench *args:
    {{ if args =~ '^--peers' { "scripts/bench-peers.sh" } else { "cargo bench -p pollux-cli --bench program --" } }} {{args}}

# Sessions under `kill -9`, rivals, full disks and more: 2,000 random sequences. `just crash 1 SEED` repeats one.
crash *args:
    scripts/crash.sh {{args}}

# Power failures after every write of real runs: 100 disks each. Needs strace. `just power 100 SEED` repeats a run.
power failures="100" seed=`date +%s`:
    POLLUX_POWER_FAILURES={{failures}} POLLUX_POWER_SEED={{seed}} nice cargo test -p pollux-cli --test power -- --nocapture

# `just policy-lines 100000 SEED` repeats a run. Needs bubblewrap.
# Random command lines; those that the policy allows run in bash among tripwires.
policy-lines lines="100000" seed=`date +%s`:
    POLLUX_POLICY_LINES={{lines}} POLLUX_POLICY_SEED={{seed}} nice cargo test -p pollux-policy --test it no_line_that -- --nocapture

# CASES for each wire format and fault, with the client alone and with the whole program. `just chaos all` tries every offset
# with the client; `just chaos 200 SEED` repeats a run.
# A connection to the model that cuts, corrupts, duplicates and reorders bytes.
chaos cases="200" seed=`date +%s`:
    POLLUX_CHAOS_CASES={{cases}} POLLUX_CHAOS_SEED={{seed}} nice cargo test -p pollux-model --test it chaos:: -- --nocapture
    POLLUX_CHAOS_CASES={{ if cases == "all" { "200" } else { cases } }} POLLUX_CHAOS_SEED={{seed}} nice cargo test -p pollux-cli --test chaos -- --nocapture

# A working day in fast motion in one process; the report is in target/soak. `just soak 20000 SEED` repeats a run.
soak turns="20000" seed=`date +%s`:
    POLLUX_SOAK_TURNS={{turns}} POLLUX_SOAK_SEED={{seed}} nice cargo test -p pollux-cli --test soak -- --nocapture

# Sandboxed commands under `kill -9` at random times: nothing may be left. `just soak-sandbox 1000 SEED` repeats a run.
soak-sandbox commands="5000" seed=`date +%s`:
    POLLUX_SOAK_COMMANDS={{commands}} POLLUX_SOAK_SEED={{seed}} nice cargo test -p pollux-sandbox --test it soak:: -- --nocapture

# Hostile input for one reader, guided by coverage: `just fuzz session 900`. Without a target, lists them.
fuzz *args:
    scripts/fuzz.sh {{args}}

# Packages of this version below dist/: tarball, Debian, npm, Python, Homebrew, bill of materials.
package *args:
    packaging/build.sh {{args}}

# Installs every package below dist/ into an empty place and runs the program from it.
try-packages dist="dist":
    packaging/try.sh {{dist}}

# Whether two builds at different paths give the same bytes. Takes two clean release builds.
reproducible *args:
    packaging/reproducible.sh {{args}}

# Spelling of documents and code; `just spelling --write-changes` corrects it.
spelling *args:
    scripts/spelling.sh {{args}}

# The book.
docs:
    scripts/check-tools.sh
    target/tools/bin/mdbook build docs

# Licences, bans and sources.
deny:
    scripts/check-tools.sh
    target/tools/bin/cargo-deny check --hide-inclusion-graph bans licenses sources

# Where build time goes.
timings:
    cargo build --workspace --timings
