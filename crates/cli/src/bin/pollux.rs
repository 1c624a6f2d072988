//! The command `pollux`.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[expect(unsafe_code, reason = "only the start of the program can promise it")]
    // SAFETY: nothing has run before this line that could have started a thread.
    let alone = unsafe { pollux_cli::OnlyThread::assume() };
    pollux_cli::main(alone, std::env::args_os().skip(1))
}
