//! The command `pollux`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pollux_cli::main(std::env::args_os().skip(1))
}
