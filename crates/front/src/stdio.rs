//! Standard input and output for front ends that are programs.
//!
//! Use it to speak a protocol of lines: the streams are taken away from everything else in the process, lines are read up
//! to a limit, and a client that does not read delays nothing. What the lines mean is not decided here.

mod inbox;
mod lines;
mod outbox;
mod serve;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};

pub use inbox::{Driver, Inbox};
pub use lines::{InputLine, PartialLine, read_line};
pub use outbox::Outbox;
pub use serve::serve;

/// The client's streams under numbers that no child inherits. From now on, whatever reads standard input reads
/// nothing, and whatever writes to standard output writes to standard error.
pub fn private_streams() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = fcntl_dupfd_cloexec(stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(stdout(), 3)?;
    dup2_stdout(stderr())?;
    dup2_stdin(File::open("/dev/null")?)?;
    Ok((input, output))
}
