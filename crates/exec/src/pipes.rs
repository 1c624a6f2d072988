//! The three streams of a child as pipes.

use std::io;
use std::os::fd::OwnedFd;

use tokio::net::unix::pipe;

/// The ends of the pipes that its owner has.
pub struct Pipes {
    pub input: pipe::Sender,
    pub output: pipe::Receiver,
    pub errors: pipe::Receiver,
}

/// The child's ends of three pipes, and ours.
pub(crate) fn pipes() -> io::Result<([OwnedFd; 3], Pipes)> {
    let ((input, near_input), (near_output, output), (near_errors, errors)) =
        (io::pipe()?, io::pipe()?, io::pipe()?);
    let pipes = Pipes {
        input: pipe::Sender::from_owned_fd(near_input.into())?,
        output: pipe::Receiver::from_owned_fd(near_output.into())?,
        errors: pipe::Receiver::from_owned_fd(near_errors.into())?,
    };
    Ok(([input.into(), output.into(), errors.into()], pipes))
}
