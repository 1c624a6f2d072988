//! A running proxy: its socket, its thread and its end.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::journal::Caller;
use crate::proxy::{CanaryError, Core, Peer, ProxyOptions, Reader, Source, Writer, serve};
use crate::rules::{RuleBook, RuleSet};

/// Where a proxy listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// On a socket that is mounted into a namespace without network. Its folder must be the user's alone.
    Unix(PathBuf),
    /// On a port of this machine, where every request must carry a token.
    Loopback,
}

/// Where a running proxy is found.
#[derive(Clone, PartialEq, Eq)]
pub enum ProxyAddress {
    Unix(PathBuf),
    Loopback { port: u16, token: String },
}

/// Why a proxy could not be started or changed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("could not listen on `{}`", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error("could not listen on 127.0.0.1")]
    Loopback { source: io::Error },
    #[error("could not start the thread of the egress proxy")]
    Thread { source: io::Error },
    #[error(transparent)]
    Canary(#[from] CanaryError),
    #[error("the egress proxy has ended")]
    Ended,
}

/// A proxy that runs on a thread of its own until this value is dropped.
pub struct Server {
    address: ProxyAddress,
    rules: Arc<RuleBook>,
    stop: CancellationToken,
    checked: watch::Receiver<Checked>,
    thread: Option<JoinHandle<()>>,
}

/// The newest generation that was tested, or the failure that closed the proxy.
type Checked = Result<u64, CanaryError>;

enum Listener {
    Unix(std::os::unix::net::UnixListener),
    Loopback(std::net::TcpListener, Arc<str>),
}

impl Server {
    /// Starts a proxy and tests it once.
    pub fn start(listen: &Listen, options: ProxyOptions) -> Result<Self, ServerError> {
        let (listener, address) = bind(listen)?;
        let rules = Arc::clone(&options.rules);
        let stop = CancellationToken::new();
        let (sender, checked) = watch::channel(Ok(0));
        let (ready, started) = mpsc::sync_channel(1);
        let run = {
            let stop = stop.clone();
            move || {
                let built = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
                match built {
                    Ok(runtime) => {
                        runtime.block_on(run(listener, Arc::new(Core::new(options)), &stop, &sender, &ready));
                        // Look-ups that hang are left behind.
                        runtime.shutdown_background();
                    }
                    Err(source) => drop(ready.send(Err(ServerError::Thread { source }))),
                }
            }
        };
        let spawned = std::thread::Builder::new().name("pollux-egress".to_owned()).spawn(run);
        let thread = Some(spawned.map_err(|source| ServerError::Thread { source })?);
        let server = Self { address, rules, stop, checked, thread };
        started.recv().unwrap_or(Err(ServerError::Ended))?;
        Ok(server)
    }

    /// Where programs reach it.
    pub fn address(&self) -> &ProxyAddress {
        &self.address
    }

    /// Replaces the rules of files and settings, and waits for the test that follows. A proxy that fails it is
    /// closed. Returns the new generation.
    pub async fn replace_rules(&self, rules: RuleSet) -> Result<u64, ServerError> {
        let generation = self.rules.replace(rules);
        let mut checked = self.checked.clone();
        let reached = |checked: &Checked| checked.as_ref().map_or(true, |seen| *seen >= generation);
        match checked.wait_for(reached).await {
            Ok(seen) => Ok((*seen)?),
            Err(_) => Err(ServerError::Ended),
        }
    }

    /// Whether it still accepts connections.
    pub fn is_running(&self) -> bool {
        !self.stop.is_cancelled()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let ProxyAddress::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind(listen: &Listen) -> Result<(Listener, ProxyAddress), ServerError> {
    match listen {
        Listen::Unix(path) => {
            let listener =
                bind_unix(path).map_err(|source| ServerError::Socket { path: path.clone(), source })?;
            Ok((Listener::Unix(listener), ProxyAddress::Unix(path.clone())))
        }
        Listen::Loopback => {
            let bound = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| {
                listener.set_nonblocking(true)?;
                let port = listener.local_addr()?.port();
                Ok((listener, port))
            });
            let (listener, port) = bound.map_err(|source| ServerError::Loopback { source })?;
            let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
            let shared: Arc<str> = Arc::from(token.as_str());
            Ok((Listener::Loopback(listener, shared), ProxyAddress::Loopback { port, token }))
        }
    }
}

fn bind_unix(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

type Ready = mpsc::SyncSender<Result<(), ServerError>>;

async fn run(
    listener: Listener,
    core: Arc<Core>,
    stop: &CancellationToken,
    checked: &watch::Sender<Checked>,
    ready: &Ready,
) {
    let mut snapshots = core.rules.subscribe();
    let first = check(&core, &mut snapshots, checked).await;
    let failed = first.is_err();
    let _ = ready.send(first.map_err(ServerError::from));
    if failed {
        stop.cancel();
        return;
    }
    let guard = async {
        while snapshots.changed().await.is_ok() {
            if check(&core, &mut snapshots, checked).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = guard => {}
        _ = accept(listener, &core) => {}
    }
    // Closed for good: the sockets are gone with `accept`, and so are all connections.
    stop.cancel();
}

/// Tests the newest snapshot and reports its generation.
async fn check(
    core: &Arc<Core>,
    snapshots: &mut watch::Receiver<Arc<crate::rules::Snapshot>>,
    checked: &watch::Sender<Checked>,
) -> Result<(), CanaryError> {
    let generation = snapshots.borrow_and_update().generation();
    let result = core.check_canary().await;
    let _ = checked.send_replace(result.map(|()| generation));
    result
}

async fn accept(listener: Listener, core: &Arc<Core>) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(core.limits.connections));
    let mut connections = JoinSet::new();
    match listener {
        Listener::Unix(listener) => {
            let listener = UnixListener::from_std(listener)?;
            loop {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                let Some(stream) = or_wait(accepted).await else { continue };
                let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
                admit(core, &slots, &mut connections, halves_unix(stream), None, pid);
            }
        }
        Listener::Loopback(listener, token) => {
            let listener = TcpListener::from_std(listener)?;
            loop {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                let Some(stream) = or_wait(accepted).await else { continue };
                let _ = stream.set_nodelay(true);
                admit(core, &slots, &mut connections, halves_tcp(stream), Some(&token), None);
            }
        }
    }
}

/// An accepted connection. Without free descriptors, accepting fails again and again: wait for some to close.
async fn or_wait<T>(accepted: io::Result<T>) -> Option<T> {
    if accepted.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    accepted.ok()
}

fn halves_unix(stream: UnixStream) -> (Reader, Writer) {
    let (reader, writer) = stream.into_split();
    (Box::new(reader), Box::new(writer))
}

fn halves_tcp(stream: TcpStream) -> (Reader, Writer) {
    let (reader, writer) = stream.into_split();
    (Box::new(reader), Box::new(writer))
}

/// Serves a connection, or closes it if there are too many.
fn admit(
    core: &Arc<Core>,
    slots: &Arc<Semaphore>,
    connections: &mut JoinSet<()>,
    (reader, writer): (Reader, Writer),
    token: Option<&Arc<str>>,
    pid: Option<i32>,
) {
    while connections.try_join_next().is_some() {}
    let Ok(slot) = Arc::clone(slots).try_acquire_owned() else { return };
    let caller = core.identify.as_ref().map_or_else(Caller::default, |identify| identify.caller(pid));
    let peer = Peer { caller, is_canary: false };
    let serving = serve(Arc::clone(core), Source::new(reader), writer, token.cloned(), peer);
    connections.spawn(async move {
        serving.await;
        drop(slot);
    });
}
