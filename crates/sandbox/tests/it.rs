//! Attacks on each sandbox that works on this machine.

#![expect(clippy::unwrap_used, reason = "what a test helper needs must be there")]
#![cfg(target_os = "linux")]

#[path = "it/attacks.rs"]
mod attacks;
#[path = "it/containers.rs"]
mod containers;
#[path = "it/escapes.rs"]
mod escapes;
#[path = "it/escapes_files.rs"]
mod escapes_files;
#[path = "it/modes.rs"]
mod modes;
#[path = "it/protected.rs"]
mod protected;
#[path = "it/races.rs"]
mod races;
#[path = "it/renewed.rs"]
mod renewed;
#[path = "it/scene.rs"]
mod scene;
#[path = "it/sessions.rs"]
mod sessions;
#[path = "it/soak.rs"]
mod soak;
#[path = "it/whole_program.rs"]
mod whole_program;

/// A test binary is its own holder and its own attacker: this runs before there are threads.
#[used]
#[expect(unsafe_code, reason = "nothing else runs before the test harness")]
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = act_if_asked;

extern "C" fn act_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if let Some(code) = pollux_sandbox::run_holder_if_asked(&mut arguments) {
        std::process::exit(code.into());
    }
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(escapes::ARGUMENT) => std::process::exit(escapes::run(&arguments.collect::<Vec<_>>())),
        Some(containers::ARGUMENT) => containers::hold(&arguments.collect::<Vec<_>>()),
        Some(sessions::ARGUMENT) => sessions::run(&arguments.collect::<Vec<_>>()),
        Some(whole_program::ARGUMENT) => {
            std::process::exit(whole_program::act(&arguments.collect::<Vec<_>>()))
        }
        Some(soak::ARGUMENT) => soak::run(&arguments.collect::<Vec<_>>()),
        _ => {}
    }
}
