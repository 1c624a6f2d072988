//! One remote agent for the duration of a session.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pollux_config::env::Env;
use pollux_domain::BoxFuture;
use pollux_domain::remote_agent::{CardSource, RemoteAgent, RemoteError, RemoteTarget};
use pollux_domain::sync::Locked as _;
use pollux_domain::time::Clock;
use pollux_net::client::{ClientOptions, HttpClient, client};
use pollux_net::oauth::OAuth;
use reqwest::Url;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::access::{Access, RunCommand};
use crate::answer::AnswerText;
use crate::card::{self, Card};
use crate::link::{Link, LinkError, MAX_CARD, OutgoingMessage};
use crate::protocol::{TaskState, Update};

/// Time limit of one call, whatever the server sends meanwhile.
const MAX_CALL: Duration = Duration::from_secs(2 * 60 * 60);
/// How long to wait for the acknowledgement of a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between updates of a growing answer.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);
/// Between two questions about a task: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Services that calls need.
pub struct Setup {
    pub http: ClientOptions,
    pub env: Env,
    pub user_home: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub oauth: OAuth,
    pub run: RunCommand,
}

/// Creates an agent without contacting it.
pub fn remote_agent(target: RemoteTarget, setup: Arc<Setup>) -> Arc<dyn RemoteAgent> {
    let own = match &target.card {
        CardSource::Url(url) => card::address(url),
        CardSource::Json(_) => None,
    };
    let access = Access::new(&target.name, target.auth, own.clone(), Arc::clone(&setup));
    let agent = Agent {
        name: target.name,
        source: target.card,
        own,
        setup,
        access,
        opened: OnceCell::new(),
        talk: Mutex::default(),
    };
    Arc::new(agent)
}

struct Agent {
    name: String,
    source: CardSource,
    /// Where its card is.
    own: Option<Url>,
    setup: Arc<Setup>,
    access: Access,
    opened: OnceCell<OpenAgent>,
    talk: Mutex<ConversationIds>,
}

struct OpenAgent {
    http: HttpClient,
    card: Card,
}

/// The ids that the next message refers to.
#[derive(Debug, Clone, Default)]
struct ConversationIds {
    context: Option<String>,
    task: Option<String>,
}

impl RemoteAgent for Agent {
    fn about(&self) -> BoxFuture<'_, Result<String, RemoteError>> {
        Box::pin(async { Ok(self.open().await?.card.about.clone()) })
    }

    fn call<'a>(
        &'a self,
        message: &'a str,
        live: &'a (dyn Fn(&str) + Send + Sync),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, RemoteError>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    self.cancel_task().await;
                    Err(RemoteError::Cancelled)
                }
                said = self.converse(message, live) => said,
            }
        })
    }
}

impl Agent {
    /// The card, fetched once.
    async fn open(&self) -> Result<&OpenAgent, RemoteError> {
        self.opened.get_or_try_init(|| self.fetch()).await
    }

    async fn fetch(&self) -> Result<OpenAgent, RemoteError> {
        let unusable =
            |why: String| RemoteError::Card(format!("invalid card of agent '{}': {why}", self.name));
        let http = client(&self.setup.http).map_err(|error| RemoteError::Failed(error.to_string()))?;
        let json = match (&self.source, &self.own) {
            (CardSource::Json(json), _) if json.len() > MAX_CARD => {
                return Err(unusable("it is too large".to_owned()));
            }
            (CardSource::Json(json), _) => json.clone().into_bytes(),
            (CardSource::Url(url), None) => return Err(unusable(format!("`{url}` is not a valid URL"))),
            (CardSource::Url(_), Some(url)) => {
                let link = Link { http: &http, access: &self.access };
                link.card(url).await.map_err(|error| match self.failure(&error) {
                    RemoteError::Failed(_) => RemoteError::Card(format!(
                        "could not fetch the card of agent '{}': {error}",
                        self.name
                    )),
                    other => other,
                })?
            }
        };
        let card = Card::read(&json, self.own.as_ref()).map_err(|error| unusable(error.to_string()))?;
        Ok(OpenAgent { http, card })
    }

    async fn converse(&self, text: &str, live: &(dyn Fn(&str) + Send + Sync)) -> Result<String, RemoteError> {
        let OpenAgent { http, card } = self.open().await?;
        let link = Link { http, access: &self.access };
        let mut answer = AnswerText::default();
        let end = Instant::now() + MAX_CALL;
        let heard = match timeout_at(end, self.listen(&link, card, text, &mut answer, live)).await {
            Ok(heard) => heard,
            Err(_) => {
                self.cancel_task().await;
                let hours = MAX_CALL.as_secs() / 3600;
                Err(RemoteError::Failed(format!(
                    "the agent '{}' did not finish within {hours} hours",
                    self.name
                )))
            }
        };
        match heard {
            Ok(()) => self.outcome(&answer),
            // Earlier output is kept.
            Err(RemoteError::Failed(why)) if !answer.text().is_empty() => {
                Err(RemoteError::Failed(format!("{}\n\n{why}", answer.text())))
            }
            Err(error) => Err(error),
        }
    }

    /// Sends the message and processes events until the agent is done or waits.
    async fn listen(
        &self,
        link: &Link<'_>,
        card: &Card,
        text: &str,
        answer: &mut AnswerText,
        live: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), RemoteError> {
        let ConversationIds { context, task } = self.talk().clone();
        let message = OutgoingMessage { text, id: uuid::Uuid::new_v4().to_string(), context, task };
        let mut shown: Option<Instant> = None;
        let mut take = |reply: Update| {
            let last = reply.is_last();
            self.remember(&reply);
            answer.take(reply);
            // Each update shows the complete text, so updates are limited.
            if last || answer.has_text() && shown.is_none_or(|shown| shown.elapsed() >= UPDATE_INTERVAL) {
                shown = Some(Instant::now());
                live(&answer.text());
            }
            last
        };
        let mut done = false;
        if card.streaming {
            let mut stream =
                link.stream(&card.endpoint, &message).await.map_err(|error| self.failure(&error))?;
            while !done {
                match stream.next().await {
                    Ok(Some(reply)) => done = take(reply),
                    Ok(None) => break,
                    // A connection may break while the task continues.
                    Err(LinkError::Unreachable { .. } | LinkError::Silent(_))
                        if self.talk().task.is_some() =>
                    {
                        break;
                    }
                    Err(error) => return Err(self.failure(&error)),
                }
            }
        } else {
            done = take(link.ask(&card.endpoint, &message).await.map_err(|error| self.failure(&error))?);
        }
        let mut pause = FIRST_PAUSE;
        while !done {
            let Some(task) = self.talk().task.clone() else { break };
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
            done = take(link.task(&card.endpoint, &task).await.map_err(|error| self.failure(&error))?);
        }
        Ok(())
    }

    fn outcome(&self, answer: &AnswerText) -> Result<String, RemoteError> {
        if !answer.is_heard() {
            return Err(RemoteError::Failed("No response from remote agent.".to_owned()));
        }
        let text = answer.text();
        let ended = match answer.state() {
            Some(TaskState::Failed) => "failed",
            Some(TaskState::Rejected) => "rejected",
            Some(TaskState::Canceled) => "canceled",
            _ if text.is_empty() => return Ok("The agent finished without output.".to_owned()),
            _ => return Ok(text),
        };
        let gap = if text.is_empty() { "" } else { ": " };
        Err(RemoteError::Failed(format!(
            "the agent '{}' ended the task with status {ended}{gap}{text}",
            self.name
        )))
    }

    fn talk(&self) -> MutexGuard<'_, ConversationIds> {
        self.talk.locked()
    }

    fn remember(&self, reply: &Update) {
        let mut talk = self.talk();
        let ids = reply.ids();
        if let Some(context) = &ids.context {
            talk.context = Some(context.clone());
        }
        if let Some(task) = &ids.task {
            talk.task = Some(task.clone());
        }
        if reply.state().is_some_and(TaskState::is_final) {
            talk.task = None;
        }
    }

    /// Cancels the task at the agent, without waiting for success.
    async fn cancel_task(&self) {
        let task = self.talk().task.take();
        let (Some(task), Some(OpenAgent { http, card })) = (task, self.opened.get()) else { return };
        let link = Link { http, access: &self.access };
        let _ = timeout(CANCEL_TIMEOUT, link.cancel(&card.endpoint, &task)).await;
    }

    fn failure(&self, error: &LinkError) -> RemoteError {
        let text = format!("could not call agent '{}': {error}", self.name);
        match error {
            LinkError::Credentials { .. } | LinkError::Refused { .. } | LinkError::Access(_) => {
                RemoteError::SignIn(text)
            }
            _ => RemoteError::Failed(text),
        }
    }
}
