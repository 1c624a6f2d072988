//! What all sets of rights of a session share: processes, the commands' own network, temporary files, and the process
//! that watches protected files.
//!
//! A set of rights has a holder and a view of the file system of its own. Its holder enters the namespaces of the
//! first one, so that a server that one command starts is there for the next, whatever rights that one has.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::holder::{Holder, SHARED};
use crate::keeper::Keeper;

#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) keeper: Mutex<Option<Arc<Keeper>>>,
    /// The folder that commands see as `/tmp`, once there is one.
    pub(crate) scratch: OnceLock<PathBuf>,
    /// Locked while a holder starts, so that there is one first holder.
    pub(crate) joined: Mutex<Joined>,
}

/// The namespaces of a session.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// Everything in the namespaces ends with it.
    first: Weak<Holder>,
    /// The commands' own network, once there is one.
    network: Option<OwnedFd>,
    /// Ports in that network that lead out.
    open: BTreeSet<u16>,
}

impl Joined {
    /// The namespaces to enter, and those of these ports that are not open yet. Without a first holder there are none
    /// to enter.
    pub(crate) fn plan(&mut self, own_network: bool, ports: &[u16]) -> io::Result<(Vec<OwnedFd>, Vec<u16>)> {
        let Some(first) = self.first.upgrade().filter(|holder| holder.is_alive()) else {
            *self = Self::default();
            return Ok((Vec::new(), ports.to_vec()));
        };
        let shared = first.namespaces.iter().take(SHARED);
        let network = self.network.iter().filter(|_| own_network);
        let join = shared.chain(network).map(OwnedFd::try_clone).collect::<io::Result<Vec<_>>>()?;
        let is_new = |port: &&u16| own_network && !self.open.contains(port);
        Ok((join, ports.iter().filter(is_new).copied().collect()))
    }

    /// Notes a holder that has started.
    pub(crate) fn started(&mut self, holder: &Arc<Holder>, ports: &[u16]) -> io::Result<()> {
        if self.first.strong_count() == 0 {
            self.first = Arc::downgrade(holder);
        }
        if self.network.is_none() {
            self.network = holder.namespaces.get(SHARED).map(OwnedFd::try_clone).transpose()?;
        }
        self.open.extend(ports);
        Ok(())
    }

    /// A way out was closed.
    pub(crate) fn forget(&mut self, port: u16) {
        self.open.remove(&port);
    }
}
