//! One command between fork and exec. Everything it needs is prepared before; the child allocates nothing.

use std::ffi::{CString, c_char};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Signal};

use super::answers::HELLO;
use super::fork::fork;
use super::signals;
use crate::new_session::{control_terminal, mark_all_descriptors};

/// The exit code of a child that could not execute its program.
const NOT_STARTED: i32 = 127;

/// A program, ready to be executed. The arrays point into the strings.
pub(super) struct Exec {
    candidates: Vec<CString>,
    directory: CString,
    _texts: Vec<CString>,
    arguments: Vec<*const c_char>,
    variables: Vec<*const c_char>,
}

impl Exec {
    pub(super) fn new(
        candidates: Vec<CString>,
        directory: CString,
        arguments: Vec<CString>,
        variables: Vec<CString>,
    ) -> Self {
        let array = |texts: &[CString]| -> Vec<*const c_char> {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let pointers = (array(&arguments), array(&variables));
        let mut texts = arguments;
        texts.extend(variables);
        Self { candidates, directory, _texts: texts, arguments: pointers.0, variables: pointers.1 }
    }
}

/// Starts it as the leader of its own session; returns when it is running.
pub(super) fn spawn(exec: &Exec, answer: &UnixStream, streams: [&OwnedFd; 3]) -> io::Result<Pid> {
    let hello = hello();
    let (mut reader, writer) = io::pipe()?;
    let own = rustix::process::getpid();
    match fork()? {
        None => {
            let _ = rustix::io::write(answer, &hello);
            let error = become_program(exec, streams, own);
            let _ = rustix::io::write(&writer, &error.to_ne_bytes());
            #[expect(unsafe_code, reason = "leaves without the parent's clean-up")]
            // SAFETY: ends this process at once.
            unsafe {
                libc::_exit(NOT_STARTED)
            }
        }
        Some(child) => {
            drop(writer);
            let mut error = [0; 4];
            match reader.read_exact(&mut error) {
                // If the pipe closes without an error, the program has started.
                Err(_) => Ok(child),
                Ok(()) => {
                    let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
                    Err(io::Error::from_raw_os_error(i32::from_ne_bytes(error)))
                }
            }
        }
    }
}

/// The greeting as one message: its length, then its body.
fn hello() -> [u8; 8] {
    let mut message = [0; 8];
    let (length, body) = message.split_at_mut(4);
    length.copy_from_slice(&4_u32.to_le_bytes());
    body.copy_from_slice(&HELLO.to_le_bytes());
    message
}

/// Returns only on failure, with the `errno`.
fn become_program(exec: &Exec, streams: [&OwnedFd; 3], parent: Pid) -> i32 {
    let prepared = rustix::process::setsid()
        .and_then(|_| rustix::process::set_parent_process_death_signal(Some(Signal::KILL)))
        .and_then(|()| rustix::process::chdir(exec.directory.as_c_str()));
    if let Err(error) = prepared {
        return error.raw_os_error();
    }
    // The holder may have died before the signal was set.
    if rustix::process::getppid() != Some(parent) {
        return libc::ESRCH;
    }
    for (number, stream) in (0..).zip(streams) {
        #[expect(unsafe_code, reason = "the standard streams are known by their numbers")]
        // SAFETY: takes numbers only; the received descriptors have higher ones.
        let status = unsafe { libc::dup2(stream.as_raw_fd(), number) };
        if status < 0 {
            return libc::EBADF;
        }
    }
    // On a kernel without this call, the descriptors' own flags close them.
    mark_all_descriptors();
    signals::reset();
    control_terminal();
    let mut error = libc::ENOENT;
    for candidate in &exec.candidates {
        #[expect(unsafe_code, reason = "the standard library has no exec without allocation")]
        // SAFETY: a terminated text and two arrays that end with a null pointer; all outlive the call.
        unsafe {
            libc::execve(candidate.as_ptr(), exec.arguments.as_ptr(), exec.variables.as_ptr());
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) | None => {}
            Some(libc::EACCES) => error = libc::EACCES,
            Some(other) => return other,
        }
    }
    error
}
