//! Keeps the credentials of this process from the commands that it starts.
//!
//! A command gets an environment of its own, but it can also look at its parent: `/proc/<pid>/environ` shows
//! the variables that a process was started with, and `/proc/<pid>/mem` its memory.

/// Takes credentials out of the environment block, and the process out of reach of others of the same user.
///
/// The variables have to be copied before, and no other thread may run yet. A command of the superuser can
/// still read this process's memory, but no longer its variables.
pub fn hide_credentials() {
    #[cfg(target_os = "linux")]
    forbid_reading();
    #[cfg(unix)]
    wipe_variables();
}

/// The user that this process acts as.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library does not tell it")]
pub fn user() -> u32 {
    // SAFETY: geteuid takes nothing, cannot fail and touches no memory of ours.
    unsafe { libc::geteuid() }
}

/// After this neither memory nor variables can be read without special rights, and no core is dumped.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library has no call for it")]
fn forbid_reading() {
    // SAFETY: the call takes numbers only. If the kernel refuses, nothing has changed.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library cannot overwrite a variable in place")]
fn wipe_variables() {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: `environ` is an array of pointers to writable, NUL-terminated texts, itself ended by a null
    // pointer. The caller promises that no other thread exists that could change it meanwhile, and only
    // bytes before the end of each text are written.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = *entry;
            let length = libc::strlen(text);
            wipe(std::slice::from_raw_parts_mut(text.cast::<u8>(), length));
            entry = entry.add(1);
        }
    }
}

/// Overwrites the value of `NAME=value` if it is a credential. Proxies stay: the network library reads them
/// later.
fn wipe(variable: &mut [u8]) {
    let Some(sign) = variable.iter().position(|byte| *byte == b'=') else { return };
    let (name, value) = variable.split_at_mut(sign + 1);
    let name = String::from_utf8_lossy(name.get(..sign).unwrap_or_default()).to_uppercase();
    let is_proxy = name.ends_with("_PROXY");
    if !is_proxy && crate::environment::is_credential(&name, &String::from_utf8_lossy(value)) {
        value.fill(b'*');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_of_credentials_are_overwritten() {
        for (given, expected) in [
            ("GEMINI_API_KEY=abc", "GEMINI_API_KEY=***"),
            ("x_token=", "x_token="),
            ("DB=postgres://u:p@h/", "DB=*****************"),
            ("HTTPS_PROXY=http://u:p@h", "HTTPS_PROXY=http://u:p@h"),
            ("PATH=/bin", "PATH=/bin"),
            ("odd", "odd"),
        ] {
            let mut bytes = given.as_bytes().to_vec();
            wipe(&mut bytes);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
    }
}
