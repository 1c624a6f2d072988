//! Names that older credential files are bound to.

use pollux_config::env::Env;

use crate::account;

/// The machine's name, as the system calls it.
pub(super) fn host_name() -> String {
    let mut buffer = [0u8; 256];
    #[expect(unsafe_code, reason = "the standard library has no host name")]
    // SAFETY: the buffer is valid for its length, and gethostname writes at most that many bytes.
    let status = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len()) };
    if status != 0 {
        return String::new();
    }
    let name = buffer.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// The person's login name: from the password database, else from the environment.
pub(super) fn user_name(env: &Env) -> String {
    let from_env = || env.non_empty("USER").or_else(|| env.non_empty("LOGNAME")).map(str::to_owned);
    account::name(account::uid()).or_else(from_env).unwrap_or_default()
}
