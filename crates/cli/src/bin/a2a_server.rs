//! The command `gemini-cli-a2a-server`: runs `pollux a2a serve`, for scripts and editors that spawn upstream's server. Their
//! requests have no token, so none is created here.

#![expect(clippy::print_stderr, reason = "a program that cannot start has no other output")]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(own) => own.with_file_name("pollux"),
        Err(_) => "pollux".into(),
    };
    // Returns only if it failed.
    let error =
        Command::new(&program).args(["a2a", "serve", "--no-token"]).args(std::env::args_os().skip(1)).exec();
    eprintln!(
        "Error: could not start `{}`: {error}. The command `gemini-cli-a2a-server` needs the command `pollux` in the same folder.",
        program.display()
    );
    ExitCode::FAILURE
}
