//! What hooks bring about. Each place of the loop makes one call here, and nothing is built when nobody listens.
//!
//! A sub-agent that shares the [`Hooked`] of its session fires the same hooks for its requests and calls.

pub(crate) mod before_tool;
pub(crate) mod conversation;
pub(crate) mod notification;
pub(crate) mod request;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::event::{Event, HookReport, NoticeCode, Severity};
use pollux_domain::sync::Locked;
use pollux_hooks::{Event as Moment, Fired, Hooks, Payload, Run, Scene, StartSource, Verdict};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A wait longer than this is explained.
const SILENCE: Duration = Duration::from_secs(2);

/// The hooks of a session.
pub struct HookPort {
    pub hooks: Hooks,
    /// Where they run.
    pub cwd: PathBuf,
    /// How the session begins.
    pub source: StartSource,
    /// Whether a person is told when they take their time.
    pub tells_waits: bool,
}

/// The hooks of a session, and the way to the front ends.
pub(crate) struct Hooked {
    port: Option<HookPort>,
    scene: Scene,
    events: mpsc::WeakSender<Event>,
    /// Said since the last request: a reply has many pieces, and a hook may say the same about each.
    said: Mutex<HashSet<String>>,
}

/// What hooks answered, once everything else about them is told.
#[derive(Default)]
pub(crate) struct Heard<O> {
    pub(crate) outcome: O,
    /// What they had to say to the person.
    pub(crate) message: Option<String>,
}

impl Hooked {
    pub(crate) fn new(port: Option<HookPort>, scene: Scene, events: mpsc::WeakSender<Event>) -> Self {
        let cwd = port.as_ref().map(|port| port.cwd.clone()).unwrap_or_default();
        Self { port, scene: Scene { cwd, ..scene }, events, said: Mutex::default() }
    }

    pub(crate) fn listens_to(&self, moment: Moment) -> bool {
        self.port.as_ref().is_some_and(|port| port.hooks.listens_to(moment))
    }

    /// Runs the hooks of a moment and tells what they said. The payload is made only if somebody listens.
    pub(crate) async fn fire<P>(
        &self,
        payload: impl FnOnce() -> P + Send,
        cancel: &CancellationToken,
    ) -> Heard<P::Outcome>
    where
        P: Payload + Send,
        P::Outcome: Send,
    {
        let Some(port) = self.port.as_ref().filter(|port| port.hooks.listens_to(P::EVENT)) else {
            return Heard { outcome: P::Outcome::default(), message: None };
        };
        let firing = port.hooks.fire(&self.scene, payload(), cancel);
        tokio::pin!(firing);
        let mut explained = !port.tells_waits;
        let fired = loop {
            tokio::select! {
                biased;
                fired = &mut firing => break fired,
                () = tokio::time::sleep(SILENCE), if !explained => {
                    explained = true;
                    let text = format!("Waiting for the {} hooks...", P::EVENT);
                    self.notice(Severity::Info, NoticeCode::Hook, text).await;
                }
            }
        };
        self.tell(P::EVENT, fired).await
    }

    async fn tell<O>(&self, moment: Moment, fired: Fired<O>) -> Heard<O> {
        let Fired { outcome, system_message, suppress_output, warnings, runs } = fired;
        let mut once = HashSet::new();
        if moment == Moment::BeforeModel {
            self.with_said(HashSet::clear);
        }
        let mut is_new = |text: &str| match moment {
            Moment::AfterModel => self.with_said(|said| said.insert(text.to_owned())),
            // A hook that is asked twice says the same twice.
            _ => once.insert(text.to_owned()),
        };
        let mut news: Vec<Event> = Vec::with_capacity(runs.len() + warnings.len());
        for run in runs {
            let message = run.answer.system_message.clone().filter(|text| is_new(text));
            news.push(Event::HookRan(Arc::new(report(moment, run, message, suppress_output))));
        }
        for message in warnings {
            if is_new(&message) {
                let (severity, code) = (Severity::Warning, NoticeCode::Hook);
                news.push(Event::Notice { severity, code, message });
            }
        }
        for event in news {
            self.emit(event).await;
        }
        Heard { outcome, message: system_message }
    }

    fn with_said<T>(&self, act: impl FnOnce(&mut HashSet<String>) -> T) -> T {
        act(&mut self.said.locked())
    }

    pub(crate) async fn notice(&self, severity: Severity, code: NoticeCode, message: String) {
        self.emit(Event::Notice { severity, code, message }).await;
    }

    async fn emit(&self, event: Event) {
        if let Some(events) = self.events.upgrade() {
            let _ = events.send(event).await;
        }
    }

    /// Tells that hooks keep the agent from going on; whether they do. The words are upstream's.
    pub(crate) async fn halts(&self, verdict: &Verdict, message: Option<&str>) -> bool {
        let (severity, word, reason) = match verdict {
            Verdict::Proceed => return false,
            Verdict::Block { reason } => (Severity::Warning, "blocked", reason),
            Verdict::Stop { reason } => (Severity::Info, "stopped", reason),
        };
        let text = format!("Agent execution {word}: {}", message.unwrap_or(reason));
        self.notice(severity, NoticeCode::Halted, text).await;
        true
    }
}

fn report(moment: Moment, run: Run, message: Option<String>, suppressed: bool) -> HookReport {
    let error = (!run.success()).then(|| run.warning.clone().unwrap_or_else(|| run.ending.to_string()));
    HookReport {
        event: moment.name().to_owned(),
        hook: run.hook.title().to_owned(),
        duration: run.duration,
        exit_code: run.exit_code(),
        error,
        output: run.answer.to_json(),
        input: run.input,
        stdout: run.stdout,
        stderr: run.stderr,
        message,
        suppressed,
    }
}
