//! Messages between the program and its holders: a length, a body, and descriptors that travel with it.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

/// Descriptors in one message.
const MAX_DESCRIPTORS: usize = 8;
/// The longest body: arguments and variables that the kernel would refuse anyway are longer.
const MAX_BODY: usize = 64 << 20;

/// A message that arrived.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) body: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// The sender's process ID, as seen from here, if the socket passes credentials.
    pub(crate) sender: Option<i32>,
}

/// Sends a message.
pub(crate) fn send(socket: &UnixStream, body: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?.to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = loop {
        match rustix::net::sendmsg(socket, &[IoSlice::new(&length)], &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result?,
        }
    };
    let mut socket = socket;
    socket.write_all(length.get(sent..).unwrap_or_default())?;
    socket.write_all(body)
}

/// Receives a message; `None` if the other side has closed.
pub(crate) fn receive(socket: &UnixStream) -> io::Result<Option<Message>> {
    let mut length = [0; 4];
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut length)];
        match rustix::net::recvmsg(socket.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    let mut sender = None;
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(received) => descriptors.extend(received),
            RecvAncillaryMessage::ScmCredentials(of) => sender = Some(of.pid.as_raw_nonzero().get()),
            _ => {}
        }
    }
    let mut socket = socket;
    socket.read_exact(length.get_mut(received.bytes..).unwrap_or_default())?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_BODY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body)?;
    Ok(Some(Message { body, descriptors, sender }))
}

/// Builds a body.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn number(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.number(u32::from(flag));
    }

    pub(crate) fn text(&mut self, text: &OsStr) {
        self.number(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

/// Reads a body; after one error, every read fails.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) bytes: &'a [u8],
}

impl Reader<'_> {
    pub(crate) fn number(&mut self) -> io::Result<u32> {
        let (number, rest) = self.bytes.split_first_chunk::<4>().ok_or(io::ErrorKind::InvalidData)?;
        self.bytes = rest;
        Ok(u32::from_le_bytes(*number))
    }

    pub(crate) fn flag(&mut self) -> io::Result<bool> {
        Ok(self.number()? != 0)
    }

    pub(crate) fn text(&mut self) -> io::Result<OsString> {
        let length = self.number()? as usize;
        let (text, rest) = self.bytes.split_at_checked(length).ok_or(io::ErrorKind::InvalidData)?;
        self.bytes = rest;
        Ok(OsString::from_vec(text.to_vec()))
    }

    pub(crate) fn path(&mut self) -> io::Result<PathBuf> {
        Ok(self.text()?.into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let mut body = Writer::default();
        body.number(7);
        body.text(OsStr::from_bytes(b"not \xff text"));
        rustix::net::sockopt::set_socket_passcred(&far, true).unwrap();
        send(&near, &body.bytes, &[writer.as_fd()]).unwrap();
        drop(writer);
        let Message { body: received, descriptors, sender } = receive(&far).unwrap().unwrap();
        assert_eq!(sender, Some(std::process::id().cast_signed()));
        let mut fields = Reader { bytes: &received };
        assert_eq!(fields.number().unwrap(), 7);
        assert_eq!(fields.text().unwrap().as_bytes(), b"not \xff text");
        assert!(fields.number().is_err(), "nothing is left");
        for descriptor in descriptors {
            assert!(rustix::io::fcntl_getfd(&descriptor).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
            io::PipeWriter::from(descriptor).write_all(b"x").unwrap();
        }
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        drop(near);
        assert!(receive(&far).unwrap().is_none());
    }
}
