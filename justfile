# Tasks for contributors; `just` lists them

default:
    @just --list

# Run everything that CI runs
check:
    .ci/run

# For example `just test tools`.
# Test one crate
test crate:
    cargo test -p pollux-{{crate}}

# Run all tests
test-all:
    cargo test --workspace --locked

# `just steady 20` runs them one after another, `just steady 20 3` three at a time (under load). Reports each run; logs in
# target/steady.
# Run all tests repeatedly to find flaky ones
steady *args:
    scripts/steady.sh {{args}}

fmt:
    cargo fmt --all

lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Prints ratios to a trivial process of the same run. `just bench --gemini PATH` adds gemini-cli; `just bench --peers`
# compares with other agents and writes docs/src/benchmarks.md.
# Benchmark against a trivial process, gemini-cli or other agents
bench *args:
    {{ if args =~ '^--peers' { "scripts/bench-peers.sh" } else { "cargo bench -p pollux-cli --bench program --" } }} {{args}}

# 2,000 random sequences of kills, competing processes, full disks and more; `just crash 1 SEED` repeats one.
# Test sessions under `kill -9` and full disks
crash *args:
    scripts/crash.sh {{args}}

# 100 disks after each write of real runs; `just power 100 SEED` repeats a run. Needs strace.
# Test power failures after every write
power failures="100" seed=`date +%s`:
    POLLUX_POWER_FAILURES={{failures}} POLLUX_POWER_SEED={{seed}} nice cargo test -p pollux-cli --test power -- --nocapture

# Runs the lines that the policy allows in bash among tripwires; `just policy-lines 100000 SEED` repeats a run. Needs
# bubblewrap.
# Test the policy with random command lines
policy-lines lines="100000" seed=`date +%s`:
    POLLUX_POLICY_LINES={{lines}} POLLUX_POLICY_SEED={{seed}} nice cargo test -p pollux-policy --test it no_line_that -- --nocapture

# CASES for each wire format and fault, with the client alone and with the whole program; `just chaos all` tries every
# offset, `just chaos 200 SEED` repeats a run.
# Cut, corrupt, duplicate and reorder the model's bytes
chaos *args:
    scripts/chaos.sh {{args}}

# The report is in target/soak; `just soak 20000 SEED` repeats a run.
# Run a working day in fast motion
soak turns="20000" seed=`date +%s`:
    POLLUX_SOAK_TURNS={{turns}} POLLUX_SOAK_SEED={{seed}} nice cargo test -p pollux-cli --test soak -- --nocapture

# Nothing may be left; `just soak-sandbox 1000 SEED` repeats a run.
# Kill sandboxed commands at random times
soak-sandbox commands="5000" seed=`date +%s`:
    POLLUX_SOAK_COMMANDS={{commands}} POLLUX_SOAK_SEED={{seed}} nice cargo test -p pollux-sandbox --test it soak:: -- --nocapture

# For example `just fuzz session 900`. Without a target, lists them.
# Fuzz a parser with coverage
fuzz *args:
    scripts/fuzz.sh {{args}}

# Tarball, Debian, npm, Python, Homebrew and bill of materials.
# Build all packages below dist/
package *args:
    packaging/build.sh {{args}}

# Install and run every package below dist/
try-packages dist="dist":
    packaging/try.sh {{dist}}

# Takes two clean release builds at different paths.
# Check that builds are reproducible
reproducible *args:
    packaging/reproducible.sh {{args}}

# `just spelling --write-changes` corrects it.
# Check the spelling of documents and code
spelling *args:
    scripts/spelling.sh {{args}}

# Build the book
docs:
    scripts/check-tools.sh
    target/tools/bin/mdbook build docs

# Check licences, bans and sources
deny:
    scripts/check-tools.sh
    target/tools/bin/cargo-deny check --hide-inclusion-graph bans licenses sources

# Report build times
timings:
    cargo build --workspace --timings
