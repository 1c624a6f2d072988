//! Names that older credential files are bound to.

use pollux_config::env::Env;

/// The machine's name, as the system calls it.
pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The person's login name: from the password file, else from the environment.
pub(super) fn user_name(env: &Env) -> String {
    let user = rustix::process::getuid().as_raw().to_string();
    let file = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry = file.lines().find(|line| line.split(':').nth(2) == Some(user.as_str()));
    let name = entry.and_then(|line| line.split(':').next()).filter(|name| !name.is_empty());
    let named = name.or_else(|| env.non_empty("USER")).or_else(|| env.non_empty("LOGNAME"));
    named.unwrap_or_default().to_owned()
}
