//! One agent elsewhere, for as long as a session lasts.

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
use crate::answer::Answer;
use crate::card::{self, Card};
use crate::link::{Link, LinkError, MAX_CARD, Outgoing};
use crate::reply::{Reply, State};

/// How long one call may take in all, whatever the server sends meanwhile.
const LONGEST: Duration = Duration::from_secs(2 * 60 * 60);
/// How long an agent is given to acknowledge that a task is no longer wanted.
const GOODBYE: Duration = Duration::from_secs(5);
/// Between two looks at an answer that grows.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Between two questions about a task: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What calls need from the program.
pub struct Setup {
    pub http: ClientOptions,
    pub env: Env,
    pub user_home: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub oauth: OAuth,
    pub run: RunCommand,
}

/// An agent that has not been asked anything yet.
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
    opened: OnceCell<Opened>,
    talk: Mutex<Talk>,
}

struct Opened {
    http: HttpClient,
    card: Card,
}

/// What the next message has to refer to.
#[derive(Debug, Clone, Default)]
struct Talk {
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
                    self.give_up().await;
                    Err(RemoteError::Cancelled)
                }
                said = self.converse(message, live) => said,
            }
        })
    }
}

impl Agent {
    /// The card, fetched once.
    async fn open(&self) -> Result<&Opened, RemoteError> {
        self.opened.get_or_try_init(|| self.fetch()).await
    }

    async fn fetch(&self) -> Result<Opened, RemoteError> {
        let unusable =
            |why: String| RemoteError::Card(format!("invalid card of the agent '{}': {why}", self.name));
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
                        "could not get the card of the agent '{}': {error}",
                        self.name
                    )),
                    other => other,
                })?
            }
        };
        let card = Card::read(&json, self.own.as_ref()).map_err(|error| unusable(error.to_string()))?;
        Ok(Opened { http, card })
    }

    async fn converse(&self, text: &str, live: &(dyn Fn(&str) + Send + Sync)) -> Result<String, RemoteError> {
        let Opened { http, card } = self.open().await?;
        let link = Link { http, access: &self.access };
        let mut answer = Answer::default();
        let end = Instant::now() + LONGEST;
        let heard = match timeout_at(end, self.listen(&link, card, text, &mut answer, live)).await {
            Ok(heard) => heard,
            Err(_) => {
                self.give_up().await;
                let hours = LONGEST.as_secs() / 3600;
                Err(RemoteError::Failed(format!(
                    "the agent '{}' did not finish within {hours} hours",
                    self.name
                )))
            }
        };
        match heard {
            Ok(()) => self.outcome(&answer),
            // What was said before is not lost.
            Err(RemoteError::Failed(why)) if !answer.text().is_empty() => {
                Err(RemoteError::Failed(format!("{}\n\n{why}", answer.text())))
            }
            Err(error) => Err(error),
        }
    }

    /// Sends the message and takes in what comes back, until the agent is done or waits.
    async fn listen(
        &self,
        link: &Link<'_>,
        card: &Card,
        text: &str,
        answer: &mut Answer,
        live: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), RemoteError> {
        let Talk { context, task } = self.talk().clone();
        let message = Outgoing { text, id: uuid::Uuid::new_v4().to_string(), context, task };
        let mut shown: Option<Instant> = None;
        let mut take = |reply: Reply| {
            let last = reply.is_last();
            self.remember(&reply);
            answer.take(reply);
            // The whole text is shown each time, so not for every word.
            if last || answer.has_text() && shown.is_none_or(|shown| shown.elapsed() >= BETWEEN_LOOKS) {
                shown = Some(Instant::now());
                live(&answer.text());
            }
            last
        };
        let mut done = false;
        if card.streaming {
            let mut stream =
                link.stream(&card.place, &message).await.map_err(|error| self.failure(&error))?;
            while !done {
                match stream.next().await {
                    Ok(Some(reply)) => done = take(reply),
                    Ok(None) => break,
                    // A connection may break while the task goes on.
                    Err(LinkError::Unreachable { .. } | LinkError::Silent(_))
                        if self.talk().task.is_some() =>
                    {
                        break;
                    }
                    Err(error) => return Err(self.failure(&error)),
                }
            }
        } else {
            done = take(link.ask(&card.place, &message).await.map_err(|error| self.failure(&error))?);
        }
        let mut pause = FIRST_PAUSE;
        while !done {
            let Some(task) = self.talk().task.clone() else { break };
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            done = take(link.task(&card.place, &task).await.map_err(|error| self.failure(&error))?);
        }
        Ok(())
    }

    fn outcome(&self, answer: &Answer) -> Result<String, RemoteError> {
        if !answer.is_heard() {
            return Err(RemoteError::Failed("No response from remote agent.".to_owned()));
        }
        let text = answer.text();
        let ended = match answer.state() {
            Some(State::Failed) => "failed",
            Some(State::Rejected) => "rejected",
            Some(State::Canceled) => "canceled",
            _ if text.is_empty() => return Ok("The agent finished without output.".to_owned()),
            _ => return Ok(text),
        };
        let gap = if text.is_empty() { "" } else { ": " };
        Err(RemoteError::Failed(format!(
            "the agent '{}' ended the task with status {ended}{gap}{text}",
            self.name
        )))
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.locked()
    }

    fn remember(&self, reply: &Reply) {
        let mut talk = self.talk();
        let ids = reply.ids();
        if let Some(context) = &ids.context {
            talk.context = Some(context.clone());
        }
        if let Some(task) = &ids.task {
            talk.task = Some(task.clone());
        }
        if reply.state().is_some_and(State::is_final) {
            talk.task = None;
        }
    }

    /// Tells the agent that its task is no longer wanted. It need not listen.
    async fn give_up(&self) {
        let task = self.talk().task.take();
        let (Some(task), Some(Opened { http, card })) = (task, self.opened.get()) else { return };
        let link = Link { http, access: &self.access };
        let _ = timeout(GOODBYE, link.cancel(&card.place, &task)).await;
    }

    fn failure(&self, error: &LinkError) -> RemoteError {
        let text = format!("could not call the agent '{}': {error}", self.name);
        match error {
            LinkError::Credentials { .. } | LinkError::Refused { .. } | LinkError::Access(_) => {
                RemoteError::SignIn(text)
            }
            _ => RemoteError::Failed(text),
        }
    }
}
