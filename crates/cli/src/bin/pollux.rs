//! The command `pollux`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: this program is also the small process that holds a session's commands.
    if let Some(code) = pollux_cli::run_holder_if_asked(&mut std::env::args_os().skip(1)) {
        return ExitCode::from(code);
    }
    #[expect(unsafe_code, reason = "only the start of the program can promise it")]
    // SAFETY: nothing has run before this line that could have started a thread.
    let alone = unsafe { pollux_cli::OnlyThread::assume() };
    let mut args = std::env::args_os();
    let name = args.next();
    pollux_cli::main(alone, name.as_deref(), args)
}
