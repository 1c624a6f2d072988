//! Host and user name, which older credential files are encrypted with.

use pollux_config::env::Env;

use crate::account;

/// The host name.
pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The login name, from the password database or else the environment.
pub(super) fn user_name(env: &Env) -> String {
    let from_env = || env.non_empty("USER").or_else(|| env.non_empty("LOGNAME")).map(str::to_owned);
    account::name(account::uid()).or_else(from_env).unwrap_or_default()
}
