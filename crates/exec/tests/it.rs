//! Integration tests that run real commands.

#![expect(clippy::unwrap_used, reason = "what a test helper needs must be there")]

/// A test binary is its own holder: this runs before there are threads.
#[cfg(target_os = "linux")]
#[used]
#[expect(unsafe_code, reason = "nothing else runs before the test harness")]
#[unsafe(link_section = ".init_array")]
static HOLDER: extern "C" fn() = hold_if_asked;

#[cfg(target_os = "linux")]
extern "C" fn hold_if_asked() {
    if let Some(code) = pollux_sandbox::holder::run_if_asked(&mut std::env::args_os().skip(1)) {
        std::process::exit(code.into());
    }
}

#[path = "it/background.rs"]
mod background;
#[cfg(target_os = "linux")]
#[path = "it/everyday.rs"]
mod everyday;
#[cfg(target_os = "linux")]
#[path = "it/sandbox.rs"]
mod sandbox;
#[path = "it/shell.rs"]
mod shell;
#[cfg(target_os = "linux")]
#[path = "it/terminal.rs"]
mod terminal;
