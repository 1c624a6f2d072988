//! The lifecycle of one connection: start, discovery, changes, end and restart.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::{Redaction, Secret};
use pollux_domain::BoxFuture;
use pollux_exec::background::Background;
use pollux_exec::piped_child::{self, PipedChild};
use pollux_exec::program::Program;
use pollux_exec::shell::Ending;
use pollux_net::client::{ClientOptions, client};
use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourcesRequest, ListToolsRequest, PaginatedRequestParams,
};
use rmcp::service::{
    ClientInitializeError, Peer, RoleClient, RunningService, RunningServiceCancellationToken, serve_client,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::client_link::ClientLink;
use crate::config::{Link, child_environment};
use crate::handler::Handler;
use crate::log::Log;
use crate::offer::{self, Offer};
use crate::problem::describe;
use crate::request::{RequestError, of_transport};
use crate::rights::is_about_rights;
use crate::server::Server;
use crate::transport::MAX_MESSAGE;
use crate::transport::erased::AnyTransport;
use crate::transport::http::Http;
use crate::transport::sse::{SseTransport, SseTransportError};
use crate::transport::stdio::StdioTransport;

/// Changes of a server's lists are looked at together; upstream's value.
const COALESCE: Duration = Duration::from_millis(300);
/// Pages of one list.
const MAX_PAGES: usize = 50;
/// Maximum number of restarts in a row.
const MAX_RESTARTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// After this time a server counts as stable.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// How long a server inside the program that drives the session may take to connect.
const CLIENT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);
/// How long the stderr of a process that has ended may stay open: others can hold it.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Shared resources of connections.
pub(crate) struct ConnectionContext {
    pub(crate) env: Env,
    pub(crate) redaction: Redaction,
    pub(crate) directory: PathBuf,
    pub(crate) background: Arc<Background>,
    pub(crate) http: ClientOptions,
}

/// Why a connection failed.
struct Failure {
    text: String,
    /// The challenge of a server that requires sign-in.
    sign_in: Option<String>,
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self { text, sign_in: None }
    }
}

/// An established connection.
struct Connection {
    peer: Peer<RoleClient>,
    /// Done when the connection is; taken then.
    closed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    close: RunningServiceCancellationToken,
    /// Cancelled when it cannot receive notifications; only if there is a listener.
    lost: Option<CancellationToken>,
    process: Option<Process>,
}

struct Process {
    child: PipedChild,
    /// Reads its stderr and writes its stdin.
    tasks: JoinSet<()>,
    /// The one that writes.
    writer: AbortHandle,
}

/// Keeps one server connected until told to stop.
pub(crate) async fn live(server: Arc<Server>, reach: Arc<ConnectionContext>, stop: CancellationToken) {
    let mut crashes = 0;
    loop {
        let connected = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            connected = connect(&server, &reach) => connected,
        };
        let problem = match connected {
            // A server that never connected is not retried.
            Err(failure) if crashes == 0 => return server.gone(failure.text, failure.sign_in),
            Err(failure) => failure.text,
            Ok(up) => {
                let began = Instant::now();
                let how = stay(&server, up, &stop).await;
                if stop.is_cancelled() {
                    return;
                }
                if began.elapsed() >= STABLE_AFTER {
                    crashes = 0;
                }
                how
            }
        };
        crashes += 1;
        server.log.push(&format!("[{problem}]"));
        if crashes > MAX_RESTARTS {
            return server.gone(format!("{problem}; it was restarted {MAX_RESTARTS} times"), None);
        }
        server.connecting();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(FIRST_PAUSE * 2_u32.pow(crashes - 1)) => {}
        }
    }
}

/// Connects, requesting more scopes if that is possible without the user.
async fn connect(server: &Arc<Server>, reach: &ConnectionContext) -> Result<Connection, Failure> {
    match try_connect(server, reach).await {
        Err(Failure { sign_in: Some(challenge), .. }) if is_about_rights(&challenge) => {
            // Do not interrupt the user with a question they did not trigger.
            match server.widen(&challenge, None, &CancellationToken::new()).await {
                Ok(()) => try_connect(server, reach).await,
                Err(error @ RequestError::SignIn { .. }) => {
                    Err(Failure { text: error.to_string(), sign_in: Some(challenge) })
                }
                Err(other) => Err(other.to_string().into()),
            }
        }
        other => other,
    }
}

async fn try_connect(server: &Arc<Server>, reach: &ConnectionContext) -> Result<Connection, Failure> {
    let up = match &server.config.link {
        Link::Stdio { command, args, env, cwd } => {
            let directory =
                cwd.as_ref().map_or_else(|| reach.directory.clone(), |cwd| reach.directory.join(cwd));
            if let Some(file) = server.scripts.changed() {
                let file = file.strip_prefix(&reach.directory).unwrap_or(file).display();
                return Err(
                    format!("`{file}` changed in this session; restart Pollux to review and use it").into()
                );
            }
            let environment = child_environment(&reach.env, &reach.redaction, env);
            let program = Program::new(command, args.clone(), directory, environment);
            stdio(server, reach, program).await?
        }
        Link::Http { url, headers, or_sse } => match streamable(server, reach, url, headers).await {
            Err(failure) if *or_sse && failure.sign_in.is_none() => {
                // The first error says more: most servers speak the newer transport.
                sse(server, reach, url, headers).await.map_err(|second| match second.sign_in {
                    Some(_) => second,
                    None => failure,
                })?
            }
            other => other?,
        },
        Link::Sse { url, headers } => sse(server, reach, url, headers).await?,
        Link::Client(link) => of_client(server, link).await?,
    };
    match discover(server, &up.peer).await {
        // One that sends notifications need not offer anything else.
        Ok(offer) if offer.is_empty() && server.common.listener.is_none() => {
            end(up, true).await;
            Err("No prompts, tools, or resources found on the server.".to_owned().into())
        }
        Ok(offer) => {
            server.connected(&up.peer, offer);
            Ok(up)
        }
        Err(error) => {
            end(up, true).await;
            Err(match error {
                RequestError::SignIn { text, challenge } => {
                    signed_in(server, Failure { text, sign_in: Some(challenge) }).await
                }
                other => other.to_string().into(),
            })
        }
    }
}

/// Why a server's program was not started.
fn unstarted(program: &Program, error: &io::Error) -> String {
    let (command, folder) = (program.program.to_string_lossy(), program.directory.display());
    match error.kind() {
        ErrorKind::NotFound if !program.directory.is_dir() => {
            format!("could not start `{command}`: its folder `{folder}` does not exist")
        }
        ErrorKind::NotFound if !command.contains('/') => {
            format!("`{command}` was not found on PATH; install it, or set `command` to its full path")
        }
        _ => format!("could not start `{command}` in `{folder}`: {error}"),
    }
}

async fn stdio(
    server: &Arc<Server>,
    reach: &ConnectionContext,
    program: Program,
) -> Result<Connection, Failure> {
    let command = program.program.to_string_lossy().into_owned();
    let (mut child, pipes) =
        piped_child::start(&program, &reach.background).map_err(|error| unstarted(&program, &error))?;
    let mut tasks = JoinSet::new();
    tasks.spawn(read_errors(pipes.errors, Arc::clone(&server.log)));
    let (transport, writing) = StdioTransport::new(pipes.output, pipes.input, Arc::clone(&server.log));
    let writer = tasks.spawn(writing);
    let limit = server.config.timeout;
    let begun = tokio::select! {
        biased;
        begun = timeout(limit, begin(server, transport)) => begun,
        ending = child.ended() => {
            // Children that it left behind may hold its streams.
            child.end().await;
            // What it said last may still be on its way.
            last_output(&mut tasks).await;
            return Err(format!("`{command}` {} before it connected", ended(ending)).into());
        }
    };
    let problem = match begun {
        Ok(Ok(running)) => {
            let process = Some(Process { child, tasks, writer });
            return Ok(Connection { process, ..up(running) });
        }
        Ok(Err(error)) => failed(&error).text,
        Err(_) => format!("`{command}` did not respond within {} s", limit.as_secs_f64()),
    };
    // It often ends at the same moment as its pipe, and gets the time to do so.
    let ending = child.end().await;
    last_output(&mut tasks).await;
    let how = if problem.starts_with("connection closed") {
        format!("`{command}` {} before it connected", ended(ending))
    } else {
        problem
    };
    Err(how.into())
}

async fn streamable(
    server: &Arc<Server>,
    reach: &ConnectionContext,
    url: &str,
    headers: &[(String, Secret)],
) -> Result<Connection, Failure> {
    let http = http(server, reach, headers)?;
    let lost = server.common.listener.as_ref().map(|_| http.lost());
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.max_sse_event_size = MAX_MESSAGE;
    let transport = StreamableHttpClientTransport::with_client(http, config);
    let limit = server.config.timeout;
    match timeout(limit, begin(server, transport)).await {
        Ok(Ok(running)) => Ok(Connection { lost, ..up(running) }),
        Ok(Err(error)) => Err(signed_in(server, failed(&error)).await),
        Err(_) => Err(format!("`{url}` did not respond within {} s", limit.as_secs_f64()).into()),
    }
}

async fn sse(
    server: &Arc<Server>,
    reach: &ConnectionContext,
    url: &str,
    headers: &[(String, Secret)],
) -> Result<Connection, Failure> {
    let http = http(server, reach, headers)?;
    let opening = async {
        let transport = SseTransport::open(http, url).await.map_err(|error| match &error {
            SseTransportError::AuthRequired(challenge) => {
                Failure { text: describe(&error), sign_in: Some(challenge.www_authenticate_header.clone()) }
            }
            _ => describe(&error).into(),
        })?;
        begin(server, transport).await.map_err(|error| failed(&error))
    };
    let limit = server.config.timeout;
    match timeout(limit, opening).await {
        Ok(Ok(running)) => Ok(up(running)),
        Ok(Err(failure)) => Err(signed_in(server, failure).await),
        Err(_) => Err(format!("`{url}` did not respond within {} s", limit.as_secs_f64()).into()),
    }
}

async fn of_client(server: &Arc<Server>, link: &ClientLink) -> Result<Connection, Failure> {
    let (output, input) = tokio::io::split(link.open());
    let (transport, writing) = StdioTransport::new(output, input, Arc::clone(&server.log));
    // Ends with the transport.
    tokio::spawn(writing);
    let limit = server.config.timeout.min(CLIENT_CONNECT_TIMEOUT);
    match timeout(limit, begin(server, transport)).await {
        Ok(Ok(running)) => Ok(up(running)),
        Ok(Err(error)) => Err(failed(&error)),
        Err(_) => Err(format!("it did not respond within {} s", limit.as_secs_f64()).into()),
    }
}

fn http(server: &Server, reach: &ConnectionContext, headers: &[(String, Secret)]) -> Result<Http, Failure> {
    let client = client(&reach.http).map_err(|error| describe(&error))?;
    Http::new(client, headers, server.access.clone()).map_err(|error| describe(&error).into())
}

/// Introduces us to a server.
fn begin<T: Transport<RoleClient> + 'static>(
    server: &Arc<Server>,
    transport: T,
) -> BoxFuture<'static, Result<RunningService<RoleClient, Handler>, ClientInitializeError>> {
    Box::pin(serve_client(Handler(Arc::clone(server)), AnyTransport::new(transport)))
}

fn up(running: RunningService<RoleClient, Handler>) -> Connection {
    Connection {
        peer: running.peer().clone(),
        close: running.cancellation_token(),
        closed: Some(Box::pin(async {
            let _ = running.waiting().await;
        })),
        lost: None,
        process: None,
    }
}

fn failed(error: &ClientInitializeError) -> Failure {
    let text = match error {
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        other => describe(other),
    };
    Failure { text, sign_in: error.auth_challenge().map(str::to_owned) }
}

/// Explains how to sign in to a server that requires it.
async fn signed_in(server: &Server, failure: Failure) -> Failure {
    if failure.sign_in.as_deref().is_none_or(is_about_rights) {
        return failure;
    }
    let name = server.name();
    let had_token = match &server.access {
        Some(access) => access.headers().await.is_ok_and(|headers| !headers.is_empty()),
        None => false,
    };
    let text = if had_token {
        format!(
            "MCP server '{name}' rejected stored OAuth token. Please re-authenticate using: pollux mcp auth {name}"
        )
    } else {
        format!("MCP server '{name}' requires authentication using: pollux mcp auth {name}")
    };
    Failure { text, ..failure }
}

/// Serves the connection until it ends; returns how it ended.
async fn stay(server: &Arc<Server>, mut up: Connection, stop: &CancellationToken) -> String {
    let how = loop {
        let exited = async {
            match &mut up.process {
                Some(process) => process.child.ended().await,
                None => std::future::pending().await,
            }
        };
        let closed = async {
            match &mut up.closed {
                Some(closed) => closed.await,
                None => std::future::pending().await,
            }
        };
        let lost = async {
            match &up.lost {
                Some(lost) => lost.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => break "stopped".to_owned(),
            () = lost => break "the server stopped sending events".to_owned(),
            () = closed => {
                up.closed = None;
                break "the connection was closed".to_owned();
            }
            ending = exited => break format!("the server {}", ended(ending)),
            () = server.relist.notified() => tokio::select! {
                biased;
                () = stop.cancelled() => break "stopped".to_owned(),
                () = relist(server, &up.peer) => {}
            },
        }
    };
    // A server that was told to stop has no reason to give.
    match end(up, !stop.is_cancelled()).await {
        Some(ending) if how == "the connection was closed" => format!("the server {}", ended(ending)),
        Some(_) | None => how,
    }
}

/// Reads the lists again after the server said that they changed.
async fn relist(server: &Arc<Server>, peer: &Peer<RoleClient>) {
    sleep(COALESCE).await;
    match discover(server, peer).await {
        Ok(offer) if offer != *server.state().offer => server.connected(peer, offer),
        Ok(_) => {}
        Err(error) => {
            server.log.push(&format!("[could not refresh its tools, prompts and resources: {error}]"))
        }
    }
}

/// Closes a connection, and ends the process behind it. Its ending and its last output are of interest if nobody stopped it.
async fn end(up: Connection, wants_output: bool) -> Option<Ending> {
    up.close.cancel();
    if let Some(closed) = up.closed {
        let _ = timeout(CLOSE_TIMEOUT, closed).await;
    }
    let Process { child, mut tasks, writer } = up.process?;
    // Its input closes with the writer.
    writer.abort();
    if !wants_output {
        child.end_quietly().await;
        return None;
    }
    let ending = child.end().await;
    last_output(&mut tasks).await;
    Some(ending)
}

fn ended(ending: Ending) -> String {
    match ending {
        Ending::Exited(code) => format!("exited with code {code}"),
        Ending::Signalled(signal) => format!("was killed by signal {signal}"),
        Ending::Cancelled | Ending::Inactive => "was stopped".to_owned(),
    }
}

/// Lets what a process printed arrive.
async fn last_output(tasks: &mut JoinSet<()>) {
    let _ = timeout(LAST_OUTPUT_TIMEOUT, async { while tasks.join_next().await.is_some() {} }).await;
}

async fn read_errors(errors: pipe::Receiver, log: Arc<Log>) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line without an end is cut into lines.
        match (&mut errors).take(4096).read_until(b'\n', &mut line).await {
            Ok(count) if count > 0 => log.push(&String::from_utf8_lossy(&line)),
            Ok(_) | Err(_) => return,
        }
    }
}

/// Everything the server says it has.
async fn discover(server: &Server, peer: &Peer<RoleClient>) -> Result<Offer, RequestError> {
    let mut offer = Offer::default();
    let Some(info) = peer.peer_info() else { return Ok(offer) };
    let has = &info.capabilities;
    if has.prompts.is_some() {
        let ask = |params| ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        list(server, peer, ask, "prompts", &mut offer.prompts, offer::prompt).await?;
    }
    if has.tools.is_some() {
        let ask = |params| ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        list(server, peer, ask, "tools", &mut offer.tools, offer::tool).await?;
    }
    if has.resources.is_some() {
        let ask = |params| ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params));
        list(server, peer, ask, "resources", &mut offer.resources, offer::resource).await?;
    }
    Ok(offer)
}

async fn list<T>(
    server: &Server,
    peer: &Peer<RoleClient>,
    ask: impl Fn(PaginatedRequestParams) -> ClientRequest,
    key: &str,
    into: &mut Vec<T>,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<(), RequestError> {
    let never = CancellationToken::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let answer = match server.ask(peer, ask(params), &never, None).await {
            // It announced more than it can do.
            Err(RequestError::Refused { code: -32601, .. }) => return Ok(()),
            other => other?,
        };
        let (items, next) = offer::page(&answer, key);
        if !offer::add(into, items, &read) {
            return Ok(());
        }
        match next {
            Some(next) => cursor = Some(next),
            None => return Ok(()),
        }
    }
    Ok(())
}
