//! The process of the core: listens, watches its idle time, and ends in order.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock as _, SystemClock};
use pollux_front::signals::Signals;
use pollux_host::account::uid;
use pollux_host::request::Request;
use pollux_host::{VERSION, cannot_start, confinement, load_settings};
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use crate::commands::RunOptions;
use crate::connection::serve;
use crate::log::Log;
use crate::pages::Pages;
use crate::place::CorePlace;
use crate::server::Core;
use crate::sessions::Sessions;

/// Connections that may be open at the same time.
const CONNECTIONS: usize = 256;
/// How often idle sessions are looked for.
const LOOK: Duration = Duration::from_secs(5);
const MINUTE: u64 = 60;
/// How long the last answers may take to be written.
const FLUSHING: Duration = Duration::from_millis(200);

/// How long things stay without anyone who uses them.
#[derive(Debug, Clone, Copy)]
struct Idle {
    /// `None` for never.
    exit: Option<Duration>,
    unload: Option<Duration>,
}

/// Runs the core until it is stopped. `pages` shows its sessions in browsers.
pub fn run_core(options: &RunOptions, env: &Env, pages: Rc<dyn Pages>) -> Result<ExitKind, Failure> {
    if options.detached {
        // Fails only for the leader of a process group, which has no terminal to lose.
        let _ = rustix::process::setsid();
    }
    let place = CorePlace::of(env)?;
    let idle = idle(options, env)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| cannot_start(&error))?;
    let done = LocalSet::new().block_on(&runtime, listen(&place, idle, pages));
    runtime.shutdown_background();
    done
}

fn idle(options: &RunOptions, env: &Env) -> Result<Idle, Failure> {
    // The core has no project: only the user's settings and the machine's count.
    let request = Request { ignores_project_settings: true, ..Request::default() };
    let loaded = load_settings(&request, env)?;
    let minutes = |key: &str, default: u64| match loaded.settings.get(key) {
        Some((Value::Number(number), _)) => number.as_u64().unwrap_or(default),
        _ => default,
    };
    let some = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
    Ok(Idle {
        exit: some(options.idle_exit.unwrap_or_else(|| minutes("core.idleExit", 30).saturating_mul(MINUTE))),
        unload: some(options.unload.unwrap_or_else(|| minutes("core.unload", 10).saturating_mul(MINUTE))),
    })
}

async fn listen(place: &CorePlace, idle: Idle, pages: Rc<dyn Pages>) -> Result<ExitKind, Failure> {
    let mut signals = Signals::listen().map_err(|error| cannot_start(&error))?;
    let Some(listener) = place.bind()? else {
        return Err(
            Failure::new(ExitKind::Failure, "the core is already running").hint("run `pollux core status`")
        );
    };
    let log = Rc::new(Log::open(place.log_file()));
    log.line(&format!(
        "pollux {VERSION} is listening on {}, pid {}",
        place.socket().display(),
        std::process::id()
    ));
    let core = Rc::new(Core {
        sessions: Sessions::new(Rc::clone(&log)),
        log,
        connections: Cell::new(0),
        instance: uuid::Uuid::new_v4().to_string(),
        started: SystemClock.now(),
        idle_exit: idle.exit.map_or(0, |exit| exit.as_secs() / MINUTE),
        stopping: CancellationToken::new(),
        closing: CancellationToken::new(),
        pages,
    });
    let why = tokio::select! {
        () = accept(&core, &listener) => "could not accept connections",
        () = core.stopping.cancelled() => "stopped",
        () = grow_idle(&core, idle) => "idle",
        _ = terminated(&mut signals) => "signal",
    };
    // Nobody new finds it, and the next core can listen at once.
    drop(listener);
    let _ = std::fs::remove_file(place.socket());
    core.stopping.cancel();
    core.sessions.close_all("shutdown").await;
    // The answers on their way, among them the one to `core/shutdown`.
    tokio::time::sleep(FLUSHING).await;
    core.closing.cancel();
    tokio::task::yield_now().await;
    core.log.line(&format!("ended: {why}"));
    Ok(ExitKind::Success)
}

/// Waits for a signal that ends the core. A terminal that closes does not.
async fn terminated(signals: &mut Signals) {
    use pollux_domain::exit::Received;
    while signals.next().await == Received::HangUp {}
}

async fn accept(core: &Rc<Core>, listener: &UnixListener) {
    let mut failures = 0;
    while failures < 100 {
        match listener.accept().await {
            Ok((stream, _)) => {
                failures = 0;
                admit(core, stream);
            }
            // Such as too many open files: others may close theirs.
            Err(error) => {
                failures += 1;
                core.log.line(&format!("could not accept a connection: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Lets a process of the same user in that is not in a sandbox, and nobody else, root included.
fn admit(core: &Rc<Core>, stream: UnixStream) {
    let peer = stream.peer_cred().ok();
    let refused = match &peer {
        None => Some("an unknown user".to_owned()),
        Some(peer) if peer.uid() != uid() => Some(format!("uid {}", peer.uid())),
        Some(peer) => confinement::objection(peer.pid()).map(str::to_owned),
    };
    if let Some(who) = refused {
        return core.log.line(&format!("refused a connection from {who}"));
    }
    if core.connections.get() >= CONNECTIONS {
        return core.log.line("refused a connection: too many are open");
    }
    core.connections.set(core.connections.get() + 1);
    let core = Rc::clone(core);
    tokio::task::spawn_local(async move {
        serve(Rc::clone(&core), stream).await;
        core.connections.set(core.connections.get() - 1);
    });
}

/// Unloads sessions that nobody uses; completes when nobody has used the core for long enough.
async fn grow_idle(core: &Rc<Core>, idle: Idle) {
    let shortest = [idle.exit, idle.unload].into_iter().flatten().min().unwrap_or(LOOK);
    let look = (shortest / 4).clamp(Duration::from_millis(50), LOOK);
    let mut used = Instant::now();
    loop {
        tokio::time::sleep(look).await;
        if let Some(unload) = idle.unload {
            core.sessions.unload(unload).await;
        }
        if core.connections.get() > 0 || core.pages.connected() > 0 || core.sessions.busy() > 0 {
            used = Instant::now();
        }
        if idle.exit.is_some_and(|exit| used.elapsed() >= exit) {
            return;
        }
    }
}
