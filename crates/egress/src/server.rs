//! A running proxy: its socket, its thread and its end.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use pollux_domain::sync::Locked as _;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc as tokio_mpsc, watch};
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
    /// Only on listeners that are handed over later, from networks where every process may use the proxy.
    Handed,
}

/// Where a running proxy is found.
#[derive(Clone, PartialEq, Eq)]
pub enum ProxyAddress {
    Unix(PathBuf),
    Loopback {
        port: u16,
        token: String,
    },
    /// On listeners that were handed over.
    Handed,
}

/// A listener in another network, and where its connections lead.
#[derive(Debug)]
pub enum Door {
    /// To the proxy.
    Proxy(std::net::TcpListener),
    /// To this port of this machine.
    Port(std::net::TcpListener, u16),
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
    doors: tokio_mpsc::UnboundedSender<(Door, CancellationToken)>,
    /// Ways to ports of this machine that are open. Networks that are not shared have one each.
    ports: Mutex<HashMap<u16, Vec<CancellationToken>>>,
    thread: Option<JoinHandle<()>>,
}

/// The newest generation that was tested, or the failure that closed the proxy.
type Checked = Result<u64, CanaryError>;

enum Listener {
    Unix(std::os::unix::net::UnixListener),
    Loopback(std::net::TcpListener, Arc<str>),
    Handed,
}

impl Server {
    /// Starts a proxy and tests it once.
    pub fn start(listen: &Listen, options: ProxyOptions) -> Result<Self, ServerError> {
        let (listener, address) = bind(listen)?;
        let rules = Arc::clone(&options.rules);
        let stop = CancellationToken::new();
        let (sender, checked) = watch::channel(Ok(0));
        let (ready, started) = mpsc::sync_channel(1);
        let (doors, handed) = tokio_mpsc::unbounded_channel();
        let run = {
            let stop = stop.clone();
            move || {
                let built = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
                match built {
                    Ok(runtime) => {
                        runtime.block_on(run(
                            (listener, handed),
                            Arc::new(Core::new(options)),
                            &stop,
                            &sender,
                            &ready,
                        ));
                        // Look-ups that hang are left behind.
                        runtime.shutdown_background();
                    }
                    Err(source) => drop(ready.send(Err(ServerError::Thread { source }))),
                }
            }
        };
        let spawned = std::thread::Builder::new().name("pollux-egress".to_owned()).spawn(run);
        let thread = Some(spawned.map_err(|source| ServerError::Thread { source })?);
        let server = Self { address, rules, stop, checked, doors, ports: Mutex::default(), thread };
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

    /// Accepts connections on this listener too, until the proxy ends. If it has ended, the listener is closed.
    pub fn hand(&self, door: Door) {
        let closed = CancellationToken::new();
        if let Door::Port(_, port) = &door {
            self.ports.locked().entry(*port).or_default().push(closed.clone());
        }
        let _ = self.doors.send((door, closed));
    }

    /// Closes every way to a port of this machine, with its connections.
    pub fn close(&self, port: u16) {
        let ways = self.ports.locked().remove(&port).unwrap_or_default();
        ways.iter().for_each(CancellationToken::cancel);
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
        Listen::Handed => Ok((Listener::Handed, ProxyAddress::Handed)),
    }
}

fn bind_unix(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    use std::os::unix::net::{UnixListener, UnixStream};
    let listener = match UnixListener::bind(path) {
        // Left behind by a process that was killed: nobody answers there.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && UnixStream::connect(path).is_err() => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

type Ready = mpsc::SyncSender<Result<(), ServerError>>;

async fn run(
    (listener, doors): (Listener, tokio_mpsc::UnboundedReceiver<(Door, CancellationToken)>),
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
        _ = accept(listener, doors, &core) => {}
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

async fn accept(
    listener: Listener,
    mut doors: tokio_mpsc::UnboundedReceiver<(Door, CancellationToken)>,
    core: &Arc<Core>,
) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(core.limits.connections));
    let mut loops = JoinSet::new();
    match listener {
        Listener::Unix(listener) => {
            let listener = UnixListener::from_std(listener)?;
            loops.spawn(accept_unix(listener, Arc::clone(core), Arc::clone(&slots)));
        }
        Listener::Loopback(listener, token) => {
            let listener = TcpListener::from_std(listener)?;
            loops.spawn(accept_tcp(listener, Some(token), Arc::clone(core), Arc::clone(&slots)));
        }
        Listener::Handed => {}
    }
    // The sender lives as long as the server; until then, this does not end.
    while let Some((door, closed)) = doors.recv().await {
        let opened = match door {
            Door::Proxy(listener) => {
                listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)).map(
                    |listener| loops.spawn(accept_tcp(listener, None, Arc::clone(core), Arc::clone(&slots))),
                )
            }
            Door::Port(listener, port) => listener
                .set_nonblocking(true)
                .and_then(|()| TcpListener::from_std(listener))
                .map(|listener| {
                    let forwarding = forward(listener, port, Arc::clone(core), Arc::clone(&slots));
                    loops.spawn(async move {
                        closed.run_until_cancelled(forwarding).await;
                    })
                }),
        };
        // A listener that cannot be used is closed: nobody gets out.
        drop(opened);
    }
    Ok(())
}

async fn accept_unix(listener: UnixListener, core: Arc<Core>, slots: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        let Some(stream) = or_wait(accepted).await else { continue };
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        admit(&core, &slots, &mut connections, halves_unix(stream), None, (pid, None));
    }
}

async fn accept_tcp(listener: TcpListener, token: Option<Arc<str>>, core: Arc<Core>, slots: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        let Some(stream) = or_wait(accepted).await else { continue };
        let _ = stream.set_nodelay(true);
        let port = stream.peer_addr().ok().map(|peer| peer.port());
        admit(&core, &slots, &mut connections, halves_tcp(stream), token.as_ref(), (None, port));
    }
}

/// Connects each connection of a process that may use it with a port of this machine.
async fn forward(listener: TcpListener, port: u16, core: Arc<Core>, slots: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        let Some((mut inside, client)) = or_wait(listener.accept().await).await else { continue };
        while connections.try_join_next().is_some() {}
        if core.identify.as_ref().is_some_and(|identify| !identify.admits_to(port, Some(client.port()))) {
            continue;
        }
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
        connections.spawn(async move {
            if let Ok(mut outside) = TcpStream::connect(("127.0.0.1", port)).await {
                let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
            }
            drop(slot);
        });
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
    (pid, port): (Option<i32>, Option<u16>),
) {
    while connections.try_join_next().is_some() {}
    if core.identify.as_ref().is_some_and(|identify| !identify.admits(port)) {
        return;
    }
    let Ok(slot) = Arc::clone(slots).try_acquire_owned() else { return };
    let caller = core.identify.as_ref().map_or_else(Caller::default, |identify| identify.caller(pid));
    let caller = Caller { port, ..caller };
    let peer = Peer { caller, is_canary: false };
    let serving = serve(Arc::clone(core), Source::new(reader), writer, token.cloned(), peer);
    connections.spawn(async move {
        serving.await;
        drop(slot);
    });
}
