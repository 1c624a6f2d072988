//! Names that older credential files are bound to.

use pollux_config::env::Env;

use crate::account;

/// The machine's name, as the system calls it.
pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The person's login name: from the password database, else from the environment.
pub(super) fn user_name(env: &Env) -> String {
    let from_env = || env.non_empty("USER").or_else(|| env.non_empty("LOGNAME")).map(str::to_owned);
    account::name(account::uid()).or_else(from_env).unwrap_or_default()
}
