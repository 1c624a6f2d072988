//! The command `gemini`: the same program, so that scripts which spawn that name keep working.

use std::process::ExitCode;

fn main() -> ExitCode {
    pollux_cli::main(std::env::args_os().skip(1))
}
