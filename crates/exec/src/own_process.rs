//! Protects the credentials and open files of this process from the commands it starts.
//!
//! A command has its own environment, but it can inspect its parent: `/proc/<pid>/environ` shows the variables
//! that a process was started with, and `/proc/<pid>/mem` its memory. A child also inherits every file that the
//! program's own parent left open, unless it is closed.

use std::marker::PhantomData;

use pollux_config::credential_variables::{ProviderKeys, is_credential};
use pollux_sandbox::signal_actions::restore_defaults;

/// Proof that the process has only one thread.
#[derive(Debug)]
pub struct OnlyThread(PhantomData<*mut ()>);

impl OnlyThread {
    /// Takes the caller's word for it.
    ///
    /// # Safety
    ///
    /// No other thread may run while the value lives. The first line of `main` can promise that.
    #[expect(unsafe_code, reason = "nobody can check it, so it has to be promised")]
    pub unsafe fn assume() -> Self {
        Self(PhantomData)
    }
}

/// Takes credentials out of the environment block, and the process out of reach of others of the same user.
///
/// `named` are variables that hold credentials although their names do not say so. All variables have to be copied
/// before. A command of the superuser can still read this process's memory,
/// but no longer its variables.
pub fn hide_credentials(alone: OnlyThread, named: &ProviderKeys) {
    // If the kernel refuses, nothing has changed.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    wipe_variables(alone, named);
}

/// Marks every descriptor but the three streams to be closed in children, no matter who starts them.
///
/// For the start of the program: what is opened later is marked where it is opened.
pub fn close_descriptors_on_exec() {
    #[cfg(target_os = "linux")]
    if pollux_sandbox::new_session::mark_all_descriptors() {
        return;
    }
    // Kernels before 5.11, containers that forbid the call, other systems.
    let listing = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let entries = std::fs::read_dir(listing).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // Collected first: the listing itself is an open descriptor.
    for number in numbers.filter(|number| *number > 2).collect::<Vec<_>>() {
        mark_descriptor(number);
    }
}

/// Lets Ctrl+C and a request to terminate end this process again, after the work that handled them.
pub fn end_on_signals() {
    restore_defaults([libc::SIGINT, libc::SIGTERM]);
}

/// The user that this process acts as.
#[cfg(unix)]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[expect(unsafe_code, reason = "the descriptor is only known by its number")]
fn mark_descriptor(number: i32) {
    // SAFETY: takes numbers only. A number that is no longer open is refused.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
}

#[expect(unsafe_code, reason = "the standard library cannot overwrite a variable in place")]
fn wipe_variables(_alone: OnlyThread, named: &ProviderKeys) {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: `environ` is an array of pointers to writable, NUL-terminated texts, itself ended by a null
    // pointer. `OnlyThread` says that no other thread exists that could change it meanwhile, and only
    // bytes before the end of each text are written.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = *entry;
            let length = libc::strlen(text);
            wipe(std::slice::from_raw_parts_mut(text.cast::<u8>(), length), named);
            entry = entry.add(1);
        }
    }
}

/// Overwrites the value of `NAME=value` if it is a credential. Proxies stay: the network library reads them
/// later.
fn wipe(variable: &mut [u8], named: &ProviderKeys) {
    let Some(sign) = variable.iter().position(|byte| *byte == b'=') else { return };
    let (name, value) = variable.split_at_mut(sign + 1);
    let name = String::from_utf8_lossy(name.get(..sign).unwrap_or_default()).to_uppercase();
    let is_proxy = name.ends_with("_PROXY");
    if named.is_named(&name) || (!is_proxy && is_credential(&name, &String::from_utf8_lossy(value))) {
        value.fill(b'*');
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn only_values_of_credentials_are_overwritten() {
        let mut named = ProviderKeys::default();
        named.add("LAB_ACCESS");
        for (given, expected) in [
            ("LAB_ACCESS=abc", "LAB_ACCESS=***"),
            ("GEMINI_API_KEY=abc", "GEMINI_API_KEY=***"),
            ("x_token=", "x_token="),
            ("DB=postgres://u:p@h/", "DB=*****************"),
            ("HTTPS_PROXY=http://u:p@h", "HTTPS_PROXY=http://u:p@h"),
            ("PATH=/bin", "PATH=/bin"),
            ("odd", "odd"),
        ] {
            let mut bytes = given.as_bytes().to_vec();
            wipe(&mut bytes, &named);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
    }

    #[test]
    fn a_descriptor_is_marked_without_the_range_call_too() {
        let file = tempfile::tempfile().unwrap();
        let is_marked = || rustix::io::fcntl_getfd(&file).unwrap().contains(rustix::io::FdFlags::CLOEXEC);
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        assert!(!is_marked());
        mark_descriptor(file.as_raw_fd());
        assert!(is_marked());
    }
}
