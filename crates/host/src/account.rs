//! The user account that the program runs as, from the system's password database.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Entries are far smaller, but a network directory may return large ones.
const MAX_ENTRY: usize = 1024 * 1024;

/// The effective user id.
pub fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The home directory, if the entry has one and it is an absolute path.
pub fn home(uid: u32) -> Option<PathBuf> {
    let home = entry(uid, |entry| entry.pw_dir)?;
    Some(PathBuf::from(OsStr::from_bytes(&home))).filter(|home| home.is_absolute())
}

/// The login name.
pub fn name(uid: u32) -> Option<String> {
    let name = entry(uid, |entry| entry.pw_name)?;
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}

/// One text of a user's entry.
fn entry(uid: u32, field: fn(&libc::passwd) -> *mut libc::c_char) -> Option<Vec<u8>> {
    let mut room = 1024;
    while room <= MAX_ENTRY {
        let mut buffer: Vec<libc::c_char> = vec![0; room];
        let mut found = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut result = std::ptr::null_mut();
        #[expect(unsafe_code, reason = "the standard library does not ask the password database")]
        // SAFETY: all pointers are valid for the call, and the length is the buffer's own. When `result` is not
        // null it points to `found`, which is filled in then, and its texts lie in `buffer`, which lives on.
        let status = unsafe {
            libc::getpwuid_r(uid, found.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut result)
        };
        match status {
            libc::ERANGE => room *= 4,
            0 if !result.is_null() => {
                #[expect(unsafe_code, reason = "the standard library does not ask the password database")]
                // SAFETY: see above; a text that is not null ends with a zero within the buffer.
                return unsafe {
                    let text = field(found.assume_init_ref());
                    (!text.is_null()).then(|| CStr::from_ptr(text).to_bytes().to_vec())
                };
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_a_name_and_a_home_and_others_have_none() {
        assert_eq!(name(0).as_deref(), Some("root"));
        assert!(home(0).is_some_and(|home| home.is_absolute()));
        assert_eq!((name(4_242_424), home(4_242_424)), (None, None));
    }
}
