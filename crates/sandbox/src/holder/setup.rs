//! The first message to a holder.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use crate::identity::Identity;
use crate::mounts::Placed;
use crate::syscalls::Sockets;
use crate::wire::{Reader, Writer};

/// The namespaces that all sets of rights of a session share; the commands' own network comes after them.
pub(crate) const SHARED: usize = 4;

/// How a holder confines what it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No confinement: it only makes sure that everything ends.
    Guard,
    /// Landlock rules and a system call filter.
    Rules,
    /// Creates namespaces and mounts first.
    Namespaces,
    /// Was started in namespaces that another program created.
    Inside,
}

/// The identity that a path must have where a holder runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
}

/// The setup of a holder.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) kind: Kind,
    /// A network namespace with its own loopback interface.
    pub(crate) own_network: bool,
    pub(crate) sockets: Option<Sockets>,
    pub(crate) mounts: Vec<Placed>,
    /// A Landlock rule set to enter.
    pub(crate) ruleset: Option<OwnedFd>,
    /// Namespaces of another holder to enter instead of creating new ones, the user namespace first.
    pub(crate) join: Vec<OwnedFd>,
    /// Ports on the own loopback to listen on; the listeners are handed over.
    pub(crate) listen: Vec<u16>,
    /// What another program mounted; anything else there is refused.
    pub(crate) expected: Vec<Expected>,
}

impl Setup {
    /// Whether the own network is not one of those to enter.
    pub(crate) fn makes_network(&self) -> bool {
        self.own_network && self.join.len() <= SHARED
    }

    pub(crate) fn write(&self) -> (Vec<u8>, Vec<BorrowedFd<'_>>) {
        use std::os::fd::AsFd as _;
        let mut body = Writer::default();
        body.number(match self.kind {
            Kind::Guard => 0,
            Kind::Rules => 1,
            Kind::Namespaces => 2,
            Kind::Inside => 3,
        });
        body.flag(self.own_network);
        body.flag(self.sockets.is_some());
        let Sockets { unix, internet } = self.sockets.unwrap_or(Sockets { unix: false, internet: false });
        body.flag(unix);
        body.flag(internet);
        body.flag(self.ruleset.is_some());
        body.number(u32::try_from(self.listen.len()).unwrap_or_default());
        self.listen.iter().for_each(|port| body.number(u32::from(*port)));
        write_mounts(&self.mounts, &mut body);
        body.number(u32::try_from(self.expected.len()).unwrap_or_default());
        for Expected { path, identity } in &self.expected {
            body.text(path.as_os_str());
            body.text(identity.to_text().as_ref());
        }
        let descriptors =
            self.ruleset.iter().chain(&self.join).map(|descriptor| descriptor.as_fd()).collect();
        (body.bytes, descriptors)
    }

    pub(crate) fn read(body: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        let mut body = Reader { bytes: body };
        let kind = match body.number()? {
            0 => Kind::Guard,
            1 => Kind::Rules,
            2 => Kind::Namespaces,
            3 => Kind::Inside,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let own_network = body.flag()?;
        let is_filtered = body.flag()?;
        let sockets = Sockets { unix: body.flag()?, internet: body.flag()? };
        let has_ruleset = body.flag()?;
        let port = |number: u32| u16::try_from(number).map_err(|_| io::ErrorKind::InvalidData.into());
        let listen =
            (0..body.number()?).map(|_| body.number().and_then(port)).collect::<io::Result<Vec<u16>>>()?;
        let mounts = read_mounts(&mut body)?;
        let expected = (0..body.number()?).map(|_| Expected::read(&mut body)).collect::<io::Result<_>>()?;
        let mut descriptors = descriptors.into_iter();
        let ruleset = if has_ruleset { descriptors.next() } else { None };
        let sockets = is_filtered.then_some(sockets);
        Ok(Self {
            kind,
            own_network,
            sockets,
            mounts,
            ruleset,
            join: descriptors.collect(),
            listen,
            expected,
        })
    }
}

impl Expected {
    fn read(body: &mut Reader<'_>) -> io::Result<Self> {
        let (path, identity) = (body.path()?, body.text()?);
        let identity = identity.to_str().and_then(Identity::parse).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { path, identity })
    }

    /// Whether the path leads to that very file.
    pub(crate) fn is_met(&self) -> bool {
        Identity::of(&self.path) == Some(self.identity)
    }
}

pub(crate) fn write_mounts(mounts: &[Placed], body: &mut Writer) {
    body.number(u32::try_from(mounts.len()).unwrap_or_default());
    for placed in mounts {
        placed.write(body);
    }
}

pub(crate) fn read_mounts(body: &mut Reader<'_>) -> io::Result<Vec<Placed>> {
    (0..body.number()?).map(|_| Placed::read(body)).collect()
}
