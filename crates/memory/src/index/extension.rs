//! The vector extension of SQLite, linked into the program.

use std::ffi::{c_char, c_int};

use rusqlite::{Connection, Result, ffi};

type Init =
    unsafe extern "C" fn(*mut ffi::sqlite3, *mut *mut c_char, *const ffi::sqlite3_api_routines) -> c_int;

/// Makes `vec0` known to one connection; others in the process do not change.
#[expect(unsafe_code, reason = "the extension's entry point is a C function")]
pub(super) fn load(connection: &Connection) -> Result<()> {
    let entry: unsafe extern "C" fn() = sqlite_vec::sqlite3_vec_init;
    // SAFETY: the crate declares the function without its parameters; sqlite-vec.c defines it as
    // `int sqlite3_vec_init(sqlite3 *db, char **pzErrMsg, const sqlite3_api_routines *pApi)`.
    let init: Init = unsafe { std::mem::transmute(entry) };
    let mut message: *mut c_char = std::ptr::null_mut();
    // SAFETY: the handle is open for as long as `connection` is borrowed. Compiled with SQLITE_CORE, the
    // function takes no routines; it stores at most one message, which is freed below.
    let code = unsafe { init(connection.handle(), &raw mut message, std::ptr::null()) };
    if !message.is_null() {
        // SAFETY: SQLite allocated the message and gave it away.
        unsafe { ffi::sqlite3_free(message.cast()) };
    }
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }
}
