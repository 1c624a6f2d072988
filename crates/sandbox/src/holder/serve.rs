//! The main loop of a holder: starts requested programs and reports how they ended.

use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitOptions};

use super::answers::{REFUSED, STARTED};
use super::signals::Signals;
use super::spawn::{self, Exec};
use crate::wire::{self, Message, Reader, Writer};

/// The search path for programs if the request has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Serves until the program has exited.
pub(super) fn serve(control: &UnixStream) {
    let Ok(signals) = Signals::hold_back() else { return };
    let mut running: HashMap<Pid, UnixStream> = HashMap::new();
    loop {
        let mut polled = [PollFd::new(control, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        if poll(&mut polled, None).is_err_and(|error| error != rustix::io::Errno::INTR) {
            return;
        }
        let [is_asked, has_ended] = polled.map(|polled| !polled.revents().is_empty());
        if has_ended {
            signals.drain();
            collect(&mut running);
        }
        if is_asked {
            let Ok(Some(Message { body, descriptors, .. })) = wire::receive(control) else { return };
            start(&body, descriptors, &mut running);
        }
    }
}

/// Reaps everything that ended, including adopted processes.
fn collect(running: &mut HashMap<Pid, UnixStream>) {
    while let Ok(Some((id, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if let Some(mut waiting) = running.remove(&id) {
            // The waiting side may be gone.
            let _ = waiting.write_all(&status.as_raw().to_le_bytes());
        }
    }
}

fn start(body: &[u8], descriptors: Vec<OwnedFd>, running: &mut HashMap<Pid, UnixStream>) {
    let Ok([answer, input, output, errors]) = <[OwnedFd; 4]>::try_from(descriptors) else { return };
    let answer = UnixStream::from(answer);
    let mut said = Writer::default();
    let started = request(body).and_then(|exec| spawn::spawn(&exec, &answer, [&input, &output, &errors]));
    let id = match started {
        Ok(id) => id,
        Err(error) => {
            said.number(REFUSED);
            said.number(error.raw_os_error().unwrap_or(libc::EIO).cast_unsigned());
            let _ = wire::send(&answer, &said.bytes, &[]);
            return;
        }
    };
    said.number(STARTED);
    said.number(id.as_raw_nonzero().get().cast_unsigned());
    let _ = wire::send(&answer, &said.bytes, &[]);
    running.insert(id, answer);
}

/// Everything that the child needs, prepared before the fork.
fn request(body: &[u8]) -> io::Result<Exec> {
    let mut body = Reader { bytes: body };
    let directory = body.text()?;
    let program = body.text()?;
    let arguments = (0..body.number()?).map(|_| body.text()).collect::<io::Result<Vec<_>>>()?;
    let variables = (0..body.number()?).map(|_| body.text()).collect::<io::Result<Vec<_>>>()?;
    let path = variables.iter().find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
    let path = path.map_or_else(|| OsStr::new(DEFAULT_PATH), OsStr::from_bytes);
    let candidates = if program.as_bytes().contains(&b'/') {
        vec![program.clone()]
    } else {
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(&program).into_os_string()).collect()
    };
    let terminated =
        |text: OsString| CString::new(text.into_vec()).map_err(|_| io::ErrorKind::InvalidInput.into());
    let all = |texts: Vec<OsString>| texts.into_iter().map(terminated).collect::<io::Result<Vec<CString>>>();
    Ok(Exec::new(
        all(candidates)?,
        terminated(directory)?,
        all([program].into_iter().chain(arguments).collect())?,
        all(variables)?,
    ))
}
