//! Runs hooks. Each point of the agent loop makes one call here; payloads are built only if a hook is registered.
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

use pollux_domain::budget::SessionBudget;
use pollux_domain::event::{Event, HookReport, NoticeCode, Severity};
use pollux_domain::sync::Locked;
use pollux_hooks::{Event as Moment, Fired, HookRun, HookScene, Hooks, Payload, StartSource, Verdict};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Longer waits are announced.
const SILENCE: Duration = Duration::from_secs(2);

/// The hooks of a session.
pub struct HookPort {
    pub hooks: Hooks,
    /// Where they run.
    pub cwd: PathBuf,
    /// How the session starts.
    pub source: StartSource,
    /// Whether long waits are announced.
    pub tells_waits: bool,
}

/// The hooks of a session with their event sender.
pub(crate) struct Hooked {
    port: Option<HookPort>,
    scene: HookScene,
    events: mpsc::WeakSender<Event>,
    /// What hooks are told about spending.
    budget: Option<Arc<dyn SessionBudget>>,
    /// Messages since the last request, to drop duplicates: a reply has many pieces, and a hook runs for each.
    said: Mutex<HashSet<String>>,
}

/// The outcome of hooks after their side effects were reported.
#[derive(Default)]
pub(crate) struct HookOutcome<O> {
    pub(crate) outcome: O,
    /// Their message for the user.
    pub(crate) message: Option<String>,
}

impl Hooked {
    pub(crate) fn new(
        port: Option<HookPort>,
        scene: HookScene,
        events: mpsc::WeakSender<Event>,
        budget: Option<Arc<dyn SessionBudget>>,
    ) -> Self {
        let cwd = port.as_ref().map(|port| port.cwd.clone()).unwrap_or_default();
        Self { port, scene: HookScene { cwd, ..scene }, events, budget, said: Mutex::default() }
    }

    pub(crate) fn listens_to(&self, moment: Moment) -> bool {
        self.port.as_ref().is_some_and(|port| port.hooks.listens_to(moment))
    }

    /// Runs the hooks of an event and reports their messages. The payload is built only if needed.
    pub(crate) async fn fire<P>(
        &self,
        payload: impl FnOnce() -> P + Send,
        cancel: &CancellationToken,
    ) -> HookOutcome<P::Outcome>
    where
        P: Payload + Send,
        P::Outcome: Send,
    {
        let Some(port) = self.port.as_ref().filter(|port| port.hooks.listens_to(P::EVENT)) else {
            return HookOutcome { outcome: P::Outcome::default(), message: None };
        };
        let budget = self.budget.as_ref().filter(|budget| budget.is_limited());
        let scene =
            HookScene { budget: budget.map(|budget| budget.status().to_json()), ..self.scene.clone() };
        let firing = port.hooks.fire(&scene, payload(), cancel);
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

    async fn tell<O>(&self, moment: Moment, fired: Fired<O>) -> HookOutcome<O> {
        let Fired { outcome, system_message, suppress_output, warnings, runs } = fired;
        let mut once = HashSet::new();
        if moment == Moment::BeforeModel {
            self.with_said(HashSet::clear);
        }
        let mut is_new = |text: &str| match moment {
            Moment::AfterModel => self.with_said(|said| said.insert(text.to_owned())),
            // The hook was already reported.
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
        HookOutcome { outcome, message: system_message }
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

    /// Reports that hooks stop the agent; returns whether they do.
    pub(crate) async fn halts(&self, verdict: &Verdict, message: Option<&str>) -> bool {
        let Some(notice) = halt_notice(verdict, message) else { return false };
        self.emit(notice).await;
        true
    }
}

/// The notice that hooks stop the agent, in upstream's words, if they do.
pub(crate) fn halt_notice(verdict: &Verdict, message: Option<&str>) -> Option<Event> {
    let (severity, word, reason) = match verdict {
        Verdict::Proceed => return None,
        Verdict::Block { reason } => (Severity::Warning, "blocked", reason),
        Verdict::Stop { reason } => (Severity::Info, "stopped", reason),
    };
    let message = format!("Agent execution {word}: {}", message.unwrap_or(reason));
    Some(Event::Notice { severity, code: NoticeCode::Halted, message })
}

fn report(moment: Moment, run: HookRun, message: Option<String>, suppressed: bool) -> HookReport {
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
