//! Starts the server, looks after abandoned tasks, and stops without losing any.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pollux_blobs::{Blobs, StoreOptions};
use pollux_config::env::{Env, name};
use pollux_config::paths::Home;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::SystemClock;
use pollux_host::request::Request;
use pollux_host::{cannot_start, load_settings};
use pollux_serve::{Limits, TlsError, TlsIdentity, serve, serve_tls};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::access::{Access, PublicOrigin};
use crate::audit::Audit;
use crate::command::Command;
use crate::options::{Config, ServeOptions, is_loopback};
use crate::service::{Parts, Service};
use crate::settings::{A2aSettings, client_options};
use crate::site::A2aSite;
use crate::store::TaskStore;
use crate::task::Task;
use crate::workspace;

/// The longest request.
const MAX_BODY: usize = 32 * 1024 * 1024;
/// All requests at a time together.
const MAX_BODIES: usize = 512 * 1024 * 1024;
const MAX_CONNECTIONS: usize = 2_048;
/// How long turns may go on when the server stops, and how long ending them may take.
const FINISHING: Duration = Duration::from_secs(15);
const ENDING: Duration = Duration::from_secs(10);
/// How often abandoned tasks are looked for. Twice this and the silence of a lease stay below a minute.
const SWEEP: Duration = Duration::from_secs(15);
/// How often folders are looked for that can be deleted.
const CLEANING: Duration = Duration::from_secs(60);

/// Serves until a signal arrives. `request` has the options of every session; `tell` gets lines for the operator.
pub fn run(
    options: &ServeOptions,
    request: &Request,
    env: &Env,
    tell: Box<dyn Fn(&str)>,
) -> Result<ExitKind, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| cannot_start(&error))?;
    let exit = LocalSet::new().block_on(&runtime, start(options, request, env, tell));
    // Whatever still blocks a thread has nothing left to say.
    runtime.shutdown_background();
    exit
}

async fn start(
    options: &ServeOptions,
    request: &Request,
    env: &Env,
    tell: Box<dyn Fn(&str)>,
) -> Result<ExitKind, Failure> {
    let proxy = options.behind_proxy.then(|| PublicOrigin::of(options.public_url.as_deref()));
    let mut sessions = session_options(request, env, options.allow_network);
    let settings = A2aSettings::new(&load_settings(&sessions, env)?.settings, options);
    let mut access = Access::load(options.token_file.as_deref(), env, proxy)?;
    access.use_issuer(settings.token_verifier(env)?);
    let signing_key = settings.signing_key(env)?;
    let own_token = own_token(options, env, &mut access)?;
    let config = Config::new(options, env, access.owner_count())?;
    let identity = match &config.tls {
        Some((certificate, key)) => Some(Rc::new(load_identity(certificate, key)?)),
        None => None,
    };
    let store = open_store(&config, env, access.sole_owner(), &*tell).await?;
    let listener = bind(&config).await?;
    let address = listener.local_addr().map_err(|error| cannot_start(&error))?;
    let scheme = if identity.is_some() { "https" } else { "http" };
    let url = config.public_url.clone().unwrap_or_else(|| local_url(scheme, &config.host, address));
    let webhooks = settings.webhooks(env, key_file(&config, env)?.as_deref())?;
    let audit = Audit::open(config.audit_log.as_deref())?;
    let scratch = scratch(&config).map_err(|error| cannot_start(&error))?;
    tell(&format!("[CoreAgent] Agent Server started on {url}"));
    tell(&format!("[CoreAgent] Agent Card: {url}/.well-known/agent-card.json"));
    if let Some(file) = own_token {
        tell(&format!("Clients need the token in {}", file.display()));
    } else if !access.needs_token() {
        tell("Warning: no token is required: any program run by this user can give tasks to this server");
    }
    sessions.hidden_places = config.hidden_places();
    sessions.hidden_places.extend(settings.secret_files(env));
    sessions.hidden_places.extend(store.blobs.folder().map(Path::to_path_buf));
    let service = Service::new(Parts {
        request: sessions,
        env: session_env(env),
        config,
        access,
        store,
        audit,
        scratch,
        webhooks,
        signing_key,
        url,
        log: tell,
    });
    let stop = CancellationToken::new();
    let limits = Limits {
        body: MAX_BODY,
        bodies: MAX_BODIES,
        connections: MAX_CONNECTIONS,
        // Behind a proxy everybody comes from its address.
        per_peer: if options.behind_proxy { MAX_CONNECTIONS } else { MAX_CONNECTIONS / 4 },
        draining: Duration::from_secs(2),
    };
    let site = Rc::new(A2aSite(Rc::clone(&service)));
    let serving = match identity.clone() {
        Some(identity) => tokio::task::spawn_local(serve_tls(listener, identity, site, limits, stop.clone())),
        None => tokio::task::spawn_local(serve(listener, site, limits, stop.clone())),
    };
    let sweeping = tokio::task::spawn_local(sweep(Rc::clone(&service), identity));
    let cleaning = tokio::task::spawn_local(clean(Rc::clone(&service)));
    tokio::task::spawn_local(read_issuer_keys(Rc::clone(&service)));
    let exit = wait_for_signal().await.map_err(|error| cannot_start(&error))?;
    sweeping.abort();
    cleaning.abort();
    drain(&service).await;
    service.stopped.cancel();
    stop.cancel();
    let _ = serving.await;
    Ok(exit)
}

/// Uses this user's own token where the operator gives none; gives its file. Beyond this machine that is not enough.
fn own_token(options: &ServeOptions, env: &Env, access: &mut Access) -> Result<Option<PathBuf>, Failure> {
    let is_local = options.host.as_deref().is_none_or(is_loopback);
    if access.needs_token() || options.no_token || !is_local {
        return Ok(None);
    }
    let home = Home::locate(env).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let file = home.a2a_token_file();
    access.use_own_token(&file)?;
    Ok(Some(file))
}

/// Where the key for webhooks is kept; nowhere if tasks end with the process.
fn key_file(config: &Config, env: &Env) -> Result<Option<PathBuf>, Failure> {
    if config.is_in_memory() {
        return Ok(None);
    }
    let home = Home::locate(env).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    Ok(Some(home.a2a_key_file()))
}

fn load_identity(certificate: &Path, key: &Path) -> Result<TlsIdentity, Failure> {
    TlsIdentity::load(certificate, key).map_err(|error| {
        let failure = Failure::from_error(ExitKind::Config, &error);
        match error {
            TlsError::Exposed(path) => failure.hint(format!("run `chmod 600 {}`", path.display())),
            _ => failure,
        }
    })
}

async fn open_store(
    config: &Config,
    env: &Env,
    sole_owner: Option<&str>,
    tell: &dyn Fn(&str),
) -> Result<TaskStore, Failure> {
    let home = PathBuf::from(env.get("HOME").unwrap_or("/"));
    let options = StoreOptions::new(env.clone(), home, client_options(env), Arc::new(SystemClock));
    let blobs: Arc<dyn Blobs> = pollux_blobs::open(&config.store, &options)
        .map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let unusable = |error: pollux_blobs::StoreError| {
        let failure = Failure::from_error(ExitKind::Config, &error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    };
    blobs.ensure_bucket().await.map_err(unusable)?;
    let consistency = blobs.probe().await.map_err(unusable)?;
    if let Some(problem) = consistency.problem() {
        let text = format!("cannot use the store {}: {problem}", blobs.place());
        return Err(Failure::new(ExitKind::Config, text)
            .hint("tasks would be lost or run twice; use a store with conditional writes"));
    }
    if !config.is_in_memory() {
        tell(&format!("Tasks are stored in {}", blobs.place()));
    }
    let sole_owner = sole_owner.map(str::to_owned);
    Ok(TaskStore { blobs, replica: config.replica.clone(), is_shared: !config.is_in_memory(), sole_owner })
}

/// A folder for archives on their way, where no command can see them.
fn scratch(config: &Config) -> io::Result<TempDir> {
    workspace::create(&config.workspace_root)?;
    tempfile::Builder::new().prefix(workspace::SCRATCH).tempdir_in(&config.workspace_root)
}

async fn bind(config: &Config) -> Result<TcpListener, Failure> {
    let host = config.host.trim_start_matches('[').trim_end_matches(']');
    TcpListener::bind((host, config.port)).await.map_err(|error| {
        let text = format!("could not listen on {}:{}", config.host, config.port);
        Failure::new(ExitKind::Failure, text).because(&error)
    })
}

fn local_url(scheme: &str, host: &str, address: SocketAddr) -> String {
    let name = if is_loopback(host) { "localhost".to_owned() } else { address.ip().to_string() };
    let name = if name.contains(':') { format!("[{name}]") } else { name };
    format!("{scheme}://{name}:{}", address.port())
}

/// Options of sessions: nobody sits at this machine, and strangers write the prompts.
fn session_options(request: &Request, env: &Env, allow_network: bool) -> Request {
    let mut options = request.clone();
    if env.is_true("GEMINI_YOLO_MODE") {
        options.approval = Some(ApprovalMode::Yolo);
    }
    if options.sandbox.is_none() && env.non_empty("GEMINI_SANDBOX").is_none() {
        options.sandbox = Some("true".to_owned());
    }
    if !allow_network {
        options.overrides.push(("tools.sandboxNetwork".to_owned(), "none".into()));
    }
    // An approval of a client must not become a rule for other owners.
    options.overrides.push(("security.enablePermanentToolApproval".to_owned(), false.into()));
    // A workspace may come from a client, who must not configure the server with it.
    let is_trusted = options.skip_trust || env.is_true(name::TRUST_WORKSPACE);
    options.ignores_project_settings = !is_trusted;
    options
}

/// The environment of sessions without what belongs to the server.
fn session_env(env: &Env) -> Env {
    let is_own = |name: &str| {
        name.starts_with("POLLUX_A2A_") || ["GCS_BUCKET_NAME", "CODER_AGENT_PORT"].contains(&name)
    };
    env.filtered(|name, _| !is_own(name))
}

async fn wait_for_signal() -> std::io::Result<ExitKind> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(ExitKind::Success)
}

/// Reads the issuer's keys before the first access token arrives.
async fn read_issuer_keys(service: Rc<Service>) {
    if let Some(issuer) = service.access.issuer()
        && let Err(error) = issuer.refresh().await
    {
        (service.log)(&format!(
            "Warning: access tokens are refused until the issuer's keys can be read: {error}"
        ));
    }
}

/// Deletes folders that are not needed any more. That may take long, and tasks of servers that are gone must not wait.
async fn clean(service: Rc<Service>) {
    loop {
        sleep(CLEANING).await;
        service.clean_workspaces().await;
    }
}

/// Takes tasks over whose servers are gone, forgets those that nobody asks about, and reads a new certificate.
async fn sweep(service: Rc<Service>, identity: Option<Rc<TlsIdentity>>) {
    // Servers that were started together should not look at the same moment.
    let offset = u64::from(std::process::id()) % 5_000;
    sleep(Duration::from_millis(offset)).await;
    loop {
        sleep(SWEEP).await;
        service.tidy();
        match identity.as_ref().map(|identity| identity.reload_if_changed()) {
            Some(Ok(true)) => (service.log)("the certificate was read again"),
            Some(Err(error)) => {
                let why = Failure::from_error(ExitKind::Config, &error).message();
                (service.log)(&format!("the certificate was not read again: {why}"));
            }
            Some(Ok(false)) | None => {}
        }
        if service.store.is_shared {
            service.sweep().await;
        }
    }
}

/// Lets turns end, stops those that do not, and gives every task up.
async fn drain(service: &Rc<Service>) {
    service.draining.cancel();
    let is_at_work = |service: &Service| {
        service
            .known()
            .iter()
            .any(|task| task.session().is_some() && task.read(|record| !record.state.is_over()))
    };
    let end = Instant::now() + FINISHING;
    while is_at_work(service) && Instant::now() < end {
        sleep(Duration::from_millis(100)).await;
    }
    for task in service.known() {
        if let (Some(_), Some(holding)) = (task.session(), task.holding()) {
            task.tell(service, &holding, Command::Drain);
        }
    }
    let end = Instant::now() + ENDING;
    let is_busy = |task: &Rc<Task>| {
        let holding = task.holding().filter(|holding| !holding.is_over());
        task.session().is_some() || holding.is_some_and(|holding| service.is_pushing(task, &holding))
    };
    while service.known().iter().any(is_busy) && Instant::now() < end {
        sleep(Duration::from_millis(50)).await;
    }
    for task in service.known() {
        service.give_up_lease(&task).await;
    }
}
