//! A model server that the program starts itself for a GGUF file.
//!
//! Use [`LocalServer::start`] and keep the value: the server and all its children end with it, and also when this
//! program is killed. It listens on a random loopback port and requires a random key, so that no other user of the
//! machine can use it. Only the user can choose the program (`local.serverCommand`).

mod listener;
mod serve;

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::files::{Mode, create_folder};
use pollux_config::groups::{Redaction, Secret};
use pollux_config::search_path::{Lookup, SearchPath};
use pollux_domain::id::SessionId;
use pollux_domain::sync::Locked;
use pollux_domain::terminal_text::plain;
use pollux_exec::background::Background;
use pollux_exec::environment::for_command;
use pollux_exec::piped_child::{self, PipedChild, Pipes};
use pollux_exec::program::Program;
use pollux_exec::shell::Ending;
use pollux_model::gguf::{GgufError, GgufMetadata};
use pollux_net::client::HttpClient;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::time::Instant;

pub use serve::serve;

/// The program to start if the settings name none.
const PROGRAM: &str = "llama-server";
/// How often a starting server is polled, and how long it may take to be ready: a large model may be read from a slow
/// disk.
const PACE: Duration = Duration::from_millis(200);
const START_LIMIT: Duration = Duration::from_secs(900);
/// How much of its output is kept for error messages.
const KEPT_LINES: usize = 8;
const MAX_LINE: usize = 300;

/// How a server is started.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The file of the model.
    pub model: PathBuf,
    /// `local.serverCommand`: a program and its first arguments; empty for `llama-server` from `PATH`.
    pub command: Vec<String>,
    /// Port to listen on; any free one if `None`.
    pub port: Option<u16>,
    /// The context window; if `None`, as large as the model and the memory allow.
    pub context: Option<u64>,
    /// Without variables from the project.
    pub env: Env,
    /// What of it no child gets.
    pub redaction: Redaction,
    /// Where logs of child processes go.
    pub logs: PathBuf,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum LocalServerError {
    #[error(transparent)]
    Model(#[from] GgufError),
    #[error(
        "`{PROGRAM}` not found in `PATH`; install llama.cpp (https://github.com/ggml-org/llama.cpp), or set \
         `local.serverCommand` in your user settings"
    )]
    NotInstalled,
    #[error("refusing to run {0}: other users can write to its folder")]
    Unsafe(String),
    #[error("could not start {program}")]
    Start { program: String, source: io::Error },
    #[error("{program} exited before it was ready ({ending}){output}")]
    Ended { program: String, ending: String, output: String },
    #[error("port {port} is used by another user's program; nothing was sent to it")]
    Taken { port: u16 },
    #[error("{program} was not ready within {limit} s")]
    Late { program: String, limit: u64 },
}

/// A running server.
pub struct LocalServer {
    child: tokio::sync::Mutex<PipedChild>,
    output: Arc<Mutex<VecDeque<String>>>,
    _background: Background,
    program: String,
    pub port: u16,
    pub key: Secret,
    /// The context window it was started with.
    pub context: u64,
    pub metadata: GgufMetadata,
}

impl LocalServer {
    /// Starts it. It is not ready before [`Self::ready`] says so. The calling thread must live as long as the server.
    pub fn start(options: &ServerOptions) -> Result<Self, LocalServerError> {
        let metadata = GgufMetadata::read(&options.model)?;
        let context = options.context.unwrap_or_else(|| metadata.context_for(free_memory()));
        let mut command = options.command.clone();
        let program = match command.first() {
            Some(_) => PathBuf::from(command.remove(0)),
            None => installed(&options.env)?,
        };
        let shown = program.display().to_string();
        let failed = |source| LocalServerError::Start { program: shown.clone(), source };
        let port = options.port.map_or_else(free_port, Ok).map_err(failed)?;
        let key = SessionId::random().as_str().replace('-', "");
        command.extend(["-m".to_owned(), options.model.display().to_string()]);
        command.extend(["--host", "127.0.0.1", "--port"].map(str::to_owned));
        command.extend([port.to_string(), "-c".to_owned(), context.to_string(), "--jinja".to_owned()]);
        let mut environment = for_command(&options.env, &options.redaction, "cat");
        // Not an argument: other users can read the arguments of a process.
        environment.push(("LLAMA_API_KEY".to_owned(), key.clone()));
        // Not the project's folder: the program may load libraries from the one that it is started in.
        let folder = options.logs.clone();
        create_folder(&folder, Mode::Private).map_err(|error| failed(io::Error::other(error)))?;
        let background = Background::guarded(options.logs.clone());
        let program = Program::new(program, command, folder, environment);
        let (child, pipes) = piped_child::start(&program, &background).map_err(failed)?;
        let output = Arc::default();
        keep_output(pipes, &output);
        Ok(Self {
            child: tokio::sync::Mutex::new(child),
            output,
            _background: background,
            program: shown,
            port,
            key: Secret::new(key),
            context,
            metadata,
        })
    }

    /// The address of its Chat Completions.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Waits until it answers; calls `told` from time to time with the elapsed time.
    pub async fn ready(&self, http: &HttpClient, told: impl Fn(Duration)) -> Result<(), LocalServerError> {
        let began = Instant::now();
        let address = format!("http://127.0.0.1:{}/health", self.port);
        loop {
            if let Some(ending) = self.ended().await {
                let lines: Vec<String> = self.output.locked().iter().cloned().collect();
                let output =
                    if lines.is_empty() { String::new() } else { format!(":\n{}", lines.join("\n")) };
                return Err(LocalServerError::Ended { program: self.program.clone(), ending, output });
            }
            let asked = http.get(&address).timeout(Duration::from_secs(5)).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                self.check_port()?;
                // It ends when another program has taken its port.
                if self.ended().await.is_none() {
                    return Ok(());
                }
                continue;
            }
            if began.elapsed() > START_LIMIT {
                let limit = START_LIMIT.as_secs();
                return Err(LocalServerError::Late { program: self.program.clone(), limit });
            }
            told(began.elapsed());
            tokio::time::sleep(PACE).await;
        }
    }

    /// Whether its port is still its own: between the choice of a port and its use another user may take it.
    pub fn check_port(&self) -> Result<(), LocalServerError> {
        match listener::is_own(self.port) {
            Some(false) => Err(LocalServerError::Taken { port: self.port }),
            Some(true) | None => Ok(()),
        }
    }

    /// How it exited, if it has.
    pub async fn ended(&self) -> Option<String> {
        let mut child = self.child.lock().await;
        tokio::select! {
            biased;
            ending = child.ended() => Some(in_words(ending)),
            () = std::future::ready(()) => None,
        }
    }

    /// Waits until it exits.
    pub async fn wait(&self) -> String {
        in_words(self.child.lock().await.ended().await)
    }
}

/// `llama-server` from `PATH`, unless other users could have put it there.
fn installed(env: &Env) -> Result<PathBuf, LocalServerError> {
    match SearchPath::new(env.get("PATH").map(AsRef::as_ref), &[env.cwd().to_path_buf()]).find(PROGRAM) {
        Lookup::Safe(path) => Ok(path),
        Lookup::Unsafe(path) => Err(LocalServerError::Unsafe(path.display().to_string())),
        Lookup::Missing => Err(LocalServerError::NotInstalled),
    }
}

/// A port that is free now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn in_words(ending: Ending) -> String {
    match ending {
        Ending::Exited(code) => format!("exit code {code}"),
        Ending::Signalled(signal) => format!("signal {signal}"),
        Ending::Cancelled | Ending::Inactive => "ended".to_owned(),
    }
}

/// Reads its output, so that it never blocks, and keeps the last lines.
fn keep_output(pipes: Pipes, output: &Arc<Mutex<VecDeque<String>>>) {
    // Some programs exit if their input is closed.
    let input = pipes.input;
    tokio::spawn(keep_lines(pipes.output, Arc::clone(output)));
    let output = Arc::clone(output);
    tokio::spawn(async move {
        keep_lines(pipes.errors, output).await;
        drop(input);
    });
}

async fn keep_lines(pipe: impl AsyncRead + Unpin, output: Arc<Mutex<VecDeque<String>>>) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line).await {
            Ok(count) if count > 0 => {}
            Ok(_) | Err(_) => return,
        }
        let text: String = plain(&String::from_utf8_lossy(&line)).trim_end().chars().take(MAX_LINE).collect();
        if !text.trim().is_empty() {
            let mut kept = output.locked();
            if kept.len() == KEPT_LINES {
                kept.pop_front();
            }
            kept.push_back(text);
        }
    }
}

/// Memory available to a new program, if known.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string(Path::new("/proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

    use super::*;

    fn options(folder: &Path, command: &[&str]) -> ServerOptions {
        let model = folder.join("m.gguf");
        std::fs::write(&model, b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
        ServerOptions {
            model,
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            port: None,
            context: None,
            env: Env::new(
                [("PATH", "/nowhere"), ("MY_ODD", "secret words"), ("GEMINI_CLI_ODD", "secret words")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned())),
                folder.to_path_buf(),
            ),
            redaction: Redaction::default(),
            logs: folder.join("logs"),
        }
    }

    #[tokio::test]
    async fn a_server_that_exits_at_once_reports_why() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path(), &["/bin/sh", "-c", "echo \"no room for $2\" >&2; exit 3", "x"]);
        let server = LocalServer::start(&options).unwrap();
        let http = pollux_net::client::client(&pollux_net::client::ClientOptions::new("test")).unwrap();
        let error = server.ready(&http, |_| {}).await.unwrap_err().to_string();
        assert!(error.starts_with("/bin/sh exited before it was ready (exit code 3)"), "{error}");
        assert!(error.contains("no room for ") && error.contains("m.gguf"), "{error}");
    }

    #[tokio::test]
    async fn it_starts_outside_of_the_project_and_without_keys() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo \"in $PWD with $MY_ODD$GEMINI_CLI_ODD.\" >&2; exit 3";
        let mut options = options(folder.path(), &["/bin/sh", "-c", script, "x"]);
        for name in ["MY_ODD", "GEMINI_CLI_ODD"] {
            options.redaction.provider_keys.add(name);
        }
        let server = LocalServer::start(&options).unwrap();
        let http = pollux_net::client::client(&pollux_net::client::ClientOptions::new("test")).unwrap();
        let error = server.ready(&http, |_| {}).await.unwrap_err().to_string();
        assert!(error.contains("/logs with ."), "{error}");
    }

    #[tokio::test]
    async fn start_errors_name_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        let error = |options: &ServerOptions| LocalServer::start(options).err().unwrap().to_string();
        assert!(error(&options(folder.path(), &[])).contains("`llama-server` not found in `PATH`"));
        assert!(error(&options(folder.path(), &["/no/such"])).contains("could not start /no/such"));
        let mut other = options(folder.path(), &["/bin/true"]);
        other.model = folder.path().join("notes.txt");
        assert!(error(&other).contains("could not read"));
        std::fs::write(&other.model, "hello").unwrap();
        assert!(error(&other).contains("is not a GGUF file"));
    }
}
