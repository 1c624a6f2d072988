//! The command `gemini`: runs the `pollux` in the same folder, so that scripts which spawn that name keep working.
//! A second copy of the whole program would double what is built and installed. `pollux` sees under which name it was
//! called, and then speaks gemini-cli's dialect unless told otherwise.

#![expect(clippy::print_stderr, reason = "a program that cannot start has no other output")]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(own) => own.with_file_name("pollux"),
        Err(_) => "pollux".into(),
    };
    // Returns only if it failed.
    let error = Command::new(&program).arg0("gemini").args(std::env::args_os().skip(1)).exec();
    eprintln!(
        "Error: could not start `{}`: {error}. The command `gemini` needs the command `pollux` in the same folder.",
        program.display()
    );
    ExitCode::FAILURE
}
