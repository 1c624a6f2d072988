//! The egress proxy of a session, started with the first network that leads to it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pollux_config::files::{Mode, create_folder};
use pollux_domain::sync::Locked as _;
use pollux_domain::time::SystemClock;
use pollux_egress::journal::Journal;
use pollux_egress::proxy::ProxyOptions;
use pollux_egress::question::{Asker, GrantStore};
use pollux_egress::server::{Door, Listen, Server};
use pollux_egress::stored::{FileStore, ProjectKey};
use pollux_egress::upstream::UpstreamProxies;

use crate::connect::PROXY_PORT;
use crate::desk::HostDesk;

/// Leads connections from inside to the proxy and to ports of this machine.
pub(crate) struct Gate {
    desk: Arc<HostDesk>,
    pub(crate) journal: Arc<Journal>,
    upstream: UpstreamProxies,
    stored: PathBuf,
    project: Option<ProjectKey>,
    server: Mutex<Option<Server>>,
    problems: Arc<Mutex<Vec<String>>>,
}

impl Gate {
    pub(crate) fn new(
        desk: Arc<HostDesk>,
        upstream: UpstreamProxies,
        stored: PathBuf,
        project: Option<ProjectKey>,
        log: Option<PathBuf>,
    ) -> Self {
        let clock = Arc::new(SystemClock);
        let journal = match log {
            Some(path) => Journal::with_log(clock, Box::new(LogFile { path, file: None })),
            None => Journal::new(clock),
        };
        Self {
            desk,
            journal: Arc::new(journal),
            upstream,
            stored,
            project,
            server: Mutex::default(),
            problems: Arc::default(),
        }
    }

    /// Takes over the listeners of a holder. If the proxy cannot be started they are closed, and nothing gets out.
    pub(crate) fn open(&self, listeners: Vec<(u16, TcpListener)>) {
        let mut server = self.server.locked();
        if server.is_none() {
            match Server::start(&Listen::Handed, self.options()) {
                Ok(started) => *server = Some(started),
                Err(error) => {
                    self.problems.locked().push(format!("the network of the sandbox is closed: {error}"));
                    return;
                }
            }
        }
        let Some(server) = &*server else { return };
        for (port, listener) in listeners {
            server.hand(match port {
                PROXY_PORT => Door::Proxy(listener),
                port => Door::Port(listener, port),
            });
        }
    }

    /// Closes a way to a port of this machine.
    pub(crate) fn close(&self, port: u16) {
        if let Some(server) = &*self.server.locked() {
            server.close(port);
        }
    }

    fn options(&self) -> ProxyOptions {
        let problems = Arc::clone(&self.problems);
        let report = move |error| {
            problems
                .locked()
                .push(format!("could not save a grant: {error}; it applies to this session only"));
        };
        let store = FileStore::new(self.stored.clone(), self.project.clone(), report);
        let mut options = ProxyOptions::new(Arc::clone(&self.desk.rules), Arc::clone(&self.journal));
        options.asker = Some(Arc::clone(&self.desk) as Arc<dyn Asker>);
        options.identify = Some(Arc::<HostDesk>::clone(&self.desk));
        options.store = Some(Arc::new(store) as Arc<dyn GrantStore>);
        options.upstream = self.upstream.clone();
        options
    }

    /// Problems since the last call.
    pub(crate) fn take_problems(&self) -> Vec<String> {
        std::mem::take(&mut self.problems.locked())
    }
}

/// A file that is created with the first line.
struct LogFile {
    path: PathBuf,
    file: Option<File>,
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let folder = self.path.parent().map(|folder| create_folder(folder, Mode::Private));
                folder.transpose().map_err(io::Error::other)?;
                none.insert(OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?)
            }
        };
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}
