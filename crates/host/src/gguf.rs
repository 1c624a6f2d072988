//! The provider `gguf`: a file as a model, served by a program that is started when it is first asked.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::model::{
    ModelClient, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ReplyChunk, ReplyEvent, ReplyStream,
    Wait,
};
use pollux_domain::sync::Locked;
use pollux_model::gguf::GgufMetadata;
use pollux_model::shared::endpoint::ModelFacts;
use pollux_net::client::HttpClient;
use tokio::sync::mpsc;

use crate::local_server::{LocalServer, ServerOptions};

/// How often people hear that the server still loads.
const PROGRESS: Duration = Duration::from_secs(10);

/// Makes a client of a server at an address, with a key.
pub(crate) type Connect = Arc<dyn Fn(&LocalServer) -> Result<Arc<dyn ModelClient>, ModelError> + Send + Sync>;

/// The context window that the user set for a model.
pub(crate) type UserContext = Arc<dyn Fn(&str) -> Option<u64> + Send + Sync>;

/// What a [`GgufClient`] is made of.
pub(crate) struct GgufSetup {
    /// Everything but the model.
    pub(crate) options: ServerOptions,
    pub(crate) http: HttpClient,
    pub(crate) connect: Connect,
    /// What is known of models of this provider.
    pub(crate) facts: ModelFacts,
    pub(crate) user_context: UserContext,
    pub(crate) user_home: PathBuf,
}

/// A client that starts its server itself.
#[derive(Clone)]
pub(crate) struct GgufClient {
    options: ServerOptions,
    http: HttpClient,
    connect: Connect,
    facts: ModelFacts,
    user_context: UserContext,
    user_home: PathBuf,
    /// The server that runs; another model ends it.
    running: Arc<tokio::sync::Mutex<Option<Running>>>,
    /// The windows of models, by name.
    windows: Arc<Mutex<Vec<(String, u64)>>>,
}

struct Running {
    model: String,
    server: Arc<LocalServer>,
    client: Arc<dyn ModelClient>,
}

impl GgufClient {
    pub(crate) fn new(setup: GgufSetup) -> Self {
        let GgufSetup { options, http, connect, facts, user_context, user_home } = setup;
        let (running, windows) = (Arc::default(), Arc::default());
        Self { options, http, connect, facts, user_context, user_home, running, windows }
    }

    /// The file of a model's name.
    fn file(&self, model: &str) -> PathBuf {
        match model.strip_prefix("~/") {
            Some(rest) => self.user_home.join(rest),
            None => self.options.env.cwd().join(model),
        }
    }

    /// The client of a server that runs this model; `told` gets lines for people.
    async fn client(&self, model: &str, told: impl Fn(String)) -> Result<Arc<dyn ModelClient>, ModelError> {
        let failed =
            |error: &dyn std::error::Error| ModelError::new(ModelErrorKind::NotFound, None, chain(error));
        let mut running = self.running.lock().await;
        if let Some(found) = running.as_ref().filter(|found| found.model == model)
            && found.server.ended().await.is_none()
        {
            found.server.check_port().map_err(|error| failed(&error))?;
            return Ok(Arc::clone(&found.client));
        }
        *running = None;
        let mut options = ServerOptions { model: self.file(model), ..self.options.clone() };
        options.context = (self.user_context)(model);
        let server = LocalServer::start(&options).map_err(|error| failed(&error))?;
        let name = options.model.file_name().unwrap_or_default().to_string_lossy().into_owned();
        told(format!("Starting a server for {name} with a context window of {} tokens.", server.context));
        let said = Mutex::new(Duration::ZERO);
        let progress = |elapsed: Duration| {
            let mut said = said.locked();
            if elapsed >= *said + PROGRESS {
                *said = elapsed;
                told(format!("The server is loading {name} ({} s).", elapsed.as_secs()));
            }
        };
        server.ready(&self.http, progress).await.map_err(|error| failed(&error))?;
        let client = (self.connect)(&server)?;
        self.windows.locked().push((model.to_owned(), server.context));
        let server = Arc::new(server);
        *running = Some(Running { model: model.to_owned(), server, client: Arc::clone(&client) });
        Ok(client)
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}

impl ModelClient for GgufClient {
    fn resolve(&self, name: &str) -> ModelInfo {
        let mut info = (self.facts)(name);
        let mut windows = self.windows.locked();
        let known = windows.iter().rev().find(|(model, _)| model == name).map(|(_, window)| *window);
        let window = known.or_else(|| {
            // As large as the model allows, until the server says what fits.
            let window = GgufMetadata::read(&self.file(name)).ok()?.context_for(None);
            windows.push((name.to_owned(), window));
            Some(window)
        });
        let window = (self.user_context)(name).or(window);
        info.context_window = window.unwrap_or(info.context_window);
        info
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        let (lines, told) = mpsc::unbounded_channel();
        let client = self.clone();
        let starting = Box::pin(async move {
            let said = |line: String| {
                // A reader that is gone needs no progress.
                let _ = lines.send(line);
            };
            let inner = client.client(&request.model, said).await?;
            Ok(inner.stream(request))
        });
        Box::new(Starting { state: State::Starting { starting, told } })
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(async move { self.client(&request.model, drop).await?.generate(request).await })
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move { self.client(&request.model, drop).await?.count_tokens(request).await })
    }
}

/// A reply of a server that may have to be started first.
struct Starting {
    state: State,
}

enum State {
    Starting {
        starting: BoxFuture<'static, Result<Box<dyn ReplyStream>, ModelError>>,
        told: mpsc::UnboundedReceiver<String>,
    },
    Running(Box<dyn ReplyStream>),
    Done,
}

impl ReplyStream for Starting {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(async move {
            loop {
                match &mut self.state {
                    State::Starting { starting, told } => {
                        let started = tokio::select! {
                            biased;
                            Some(line) = told.recv() => return Some(Ok(notice(line))),
                            started = starting => started,
                        };
                        match started {
                            Ok(stream) => self.state = State::Running(stream),
                            Err(error) => {
                                self.state = State::Done;
                                return Some(Err(error));
                            }
                        }
                    }
                    State::Running(stream) => return stream.next().await,
                    State::Done => return None,
                }
            }
        })
    }
}

/// A line for people in the middle of a reply.
fn notice(line: String) -> ReplyEvent {
    ReplyEvent::Waiting(Wait {
        attempt: 1,
        max_attempts: 1,
        delay: Duration::ZERO,
        cause: line,
        status: None,
        kind: None,
    })
}
