//! Runs one target of `pollux-fuzz` under libFuzzer. `scripts/fuzz.sh` builds and starts it.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pollux_fuzz::Target;

/// The target that `POLLUX_FUZZ_TARGET` names. libFuzzer owns the command line.
fn target() -> &'static Target {
    static TARGET: OnceLock<&'static Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("POLLUX_FUZZ_TARGET").unwrap_or_default();
        pollux_fuzz::find(&name).unwrap_or_else(|| panic!("no fuzz target is called {name:?}"))
    })
}

fuzz_target!(|bytes: &[u8]| (target().run)(bytes));
