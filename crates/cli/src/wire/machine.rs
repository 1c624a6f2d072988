//! Names that older credential files are bound to.

use pollux_config::env::Env;

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

/// The person's login name: from the password file, else from the environment.
pub(super) fn user_name(env: &Env) -> String {
    #[expect(unsafe_code, reason = "the standard library has no user id")]
    // SAFETY: getuid takes nothing, cannot fail and touches no memory of ours.
    let user = unsafe { libc::getuid() }.to_string();
    let file = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry = file.lines().find(|line| line.split(':').nth(2) == Some(user.as_str()));
    let name = entry.and_then(|line| line.split(':').next()).filter(|name| !name.is_empty());
    let named = name.or_else(|| env.non_empty("USER")).or_else(|| env.non_empty("LOGNAME"));
    named.unwrap_or_default().to_owned()
}
