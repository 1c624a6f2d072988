//! Questions about hosts that no rule names.
//!
//! The connection waits for the answer. All connections to the same host and port share one question.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::address::{self, AddressKind};
use pollux_domain::sync::Locked;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::host::Host;
use crate::journal::Caller;
use crate::rules::RuleBook;

/// Questions that one command may raise.
const MAX_PER_COMMAND: usize = 3;
/// Questions that may be open at once; a person cannot answer more.
const MAX_OPEN: usize = 8;

/// A question about one host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub host: Host,
    pub port: u16,
    pub caller: Caller,
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostAnswer {
    /// For the waiting connections.
    Once,
    /// Until the session ends.
    Session,
    /// In this project from now on.
    Project,
    /// Everywhere from now on.
    Always,
    /// Refused, and not asked again in this session.
    No,
}

impl Question {
    /// Whether the target is this machine or its network rather than the internet.
    pub fn is_dangerous(&self) -> bool {
        match &self.host {
            Host::Name(_) => false,
            Host::Address(ip) => address::kind(*ip) != AddressKind::Public,
        }
    }

    /// The answers that can be given: a dangerous target is never allowed beyond the session.
    pub fn answers(&self) -> &'static [HostAnswer] {
        if self.is_dangerous() {
            &[HostAnswer::Once, HostAnswer::Session, HostAnswer::No]
        } else {
            &[HostAnswer::Once, HostAnswer::Session, HostAnswer::Project, HostAnswer::Always, HostAnswer::No]
        }
    }
}

/// Asks the user. Without one, unlisted hosts are refused at once.
pub trait Asker: Send + Sync {
    /// Whether a person can be asked now; otherwise unlisted hosts are refused at once.
    fn is_present(&self) -> bool {
        true
    }

    /// Waits until pending rules are complete.
    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Asks one question; waiting longer than the limit counts as a refusal.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, HostAnswer>;
}

/// Keeps grants beyond the session.
pub trait GrantStore: Send + Sync {
    /// Saves a grant for [`HostAnswer::Project`] or [`HostAnswer::Always`]. Failures are reported by the implementation;
    /// the grant then holds for the session.
    fn save(&self, host: &Host, port: u16, answer: HostAnswer);
}

/// The outcome of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// For this connection only.
    Once,
    /// A rule was added.
    Granted,
    Refused(&'static str),
}

/// Merges questions and remembers refusals.
pub(crate) struct Questions {
    asker: Option<Arc<dyn Asker>>,
    store: Option<Arc<dyn GrantStore>>,
    book: Arc<RuleBook>,
    limit: Duration,
    state: Mutex<State>,
}

type Key = (Host, u16);

#[derive(Default)]
struct State {
    open: HashMap<Key, watch::Receiver<Option<Verdict>>>,
    refused: HashSet<Key>,
    per_command: HashMap<String, usize>,
    tasks: JoinSet<()>,
}

impl Questions {
    pub(crate) fn new(
        asker: Option<Arc<dyn Asker>>,
        store: Option<Arc<dyn GrantStore>>,
        book: Arc<RuleBook>,
        limit: Duration,
    ) -> Self {
        Self { asker, store, book, limit, state: Mutex::default() }
    }

    /// Waits until pending rules are complete.
    pub(crate) async fn settle(&self) {
        if let Some(asker) = &self.asker {
            asker.settle().await;
        }
    }

    /// Waits for the answer about a host; one question for all who wait.
    pub(crate) async fn ask(self: &Arc<Self>, question: Question) -> Verdict {
        let asker = self.asker.as_ref().filter(|asker| asker.is_present());
        let Some(asker) = asker else { return Verdict::Refused("no rule") };
        let mut answered = match self.join(asker, question) {
            Ok(receiver) => receiver,
            Err(verdict) => return verdict,
        };
        match answered.wait_for(Option::is_some).await {
            Ok(verdict) => verdict.unwrap_or(Verdict::Refused("no answer")),
            Err(_) => Verdict::Refused("no answer"),
        }
    }

    /// Joins the open question about this host, or opens one.
    fn join(
        self: &Arc<Self>,
        asker: &Arc<dyn Asker>,
        question: Question,
    ) -> Result<watch::Receiver<Option<Verdict>>, Verdict> {
        let key = (question.host.clone(), question.port);
        let mut state = self.state.locked();
        if state.refused.contains(&key) {
            return Err(Verdict::Refused("refused in this session"));
        }
        if let Some(open) = state.open.get(&key) {
            return Ok(open.clone());
        }
        if state.open.len() >= MAX_OPEN {
            return Err(Verdict::Refused("no rule; too many open questions"));
        }
        if let Some(command) = &question.caller.command {
            let asked = state.per_command.entry(command.clone()).or_default();
            if *asked >= MAX_PER_COMMAND {
                return Err(Verdict::Refused("no rule; too many questions by one command"));
            }
            *asked += 1;
        }
        let (sender, receiver) = watch::channel(None);
        state.open.insert(key.clone(), receiver.clone());
        while state.tasks.try_join_next().is_some() {}
        let (this, asker) = (Arc::clone(self), Arc::clone(asker));
        // A task of its own: the connection that asked first may go away while others wait.
        state.tasks.spawn(async move {
            let answer = tokio::time::timeout(this.limit, asker.ask(&question)).await.ok();
            let verdict = this.apply(&question, answer).await;
            this.state.locked().open.remove(&key);
            sender.send_replace(Some(verdict));
        });
        Ok(receiver)
    }

    async fn apply(&self, question: &Question, answer: Option<HostAnswer>) -> Verdict {
        let (host, port) = (&question.host, question.port);
        let answer = match answer {
            Some(given) if question.answers().contains(&given) => given,
            // What was not offered is granted for as long as could be offered.
            Some(_) => HostAnswer::Session,
            None => return Verdict::Refused("no answer"),
        };
        match answer {
            HostAnswer::Once => Verdict::Once,
            HostAnswer::No => {
                let mut state = self.state.locked();
                state.refused.insert((host.clone(), port));
                Verdict::Refused("refused by the user")
            }
            HostAnswer::Session | HostAnswer::Project | HostAnswer::Always => {
                self.book.grant(host, port);
                if let Some(store) = self.store.clone().filter(|_| answer != HostAnswer::Session) {
                    let host = host.clone();
                    let _ = tokio::task::spawn_blocking(move || store.save(&host, port, answer)).await;
                }
                Verdict::Granted
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;
    use crate::rules::{Decision, RuleSet};

    struct Scripted {
        answer: HostAnswer,
        asked: AtomicUsize,
        gate: Semaphore,
    }

    impl Scripted {
        fn new(answer: HostAnswer, open: usize) -> Arc<Self> {
            Arc::new(Self { answer, asked: AtomicUsize::new(0), gate: Semaphore::new(open) })
        }
    }

    impl Asker for Scripted {
        fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, HostAnswer> {
            Box::pin(async {
                self.asked.fetch_add(1, Ordering::SeqCst);
                self.gate.acquire().await.unwrap().forget();
                self.answer
            })
        }
    }

    #[derive(Default)]
    struct Kept(Mutex<Vec<String>>);

    impl GrantStore for Kept {
        fn save(&self, host: &Host, port: u16, answer: HostAnswer) {
            self.0.lock().unwrap().push(format!("{host}:{port} {answer:?}"));
        }
    }

    fn questions(asker: &Arc<Scripted>) -> (Arc<Questions>, Arc<Kept>) {
        let kept = Arc::new(Kept::default());
        let asker: Arc<dyn Asker> = Arc::<Scripted>::clone(asker);
        let store: Arc<dyn GrantStore> = Arc::<Kept>::clone(&kept);
        let book = Arc::new(RuleBook::new(RuleSet::default()));
        (Arc::new(Questions::new(Some(asker), Some(store), book, Duration::from_secs(60))), kept)
    }

    fn about(host: &str) -> Question {
        Question { host: Host::parse(host).unwrap(), port: 443, caller: Caller::default() }
    }

    #[tokio::test]
    async fn waiting_connections_share_one_question() {
        let asker = Scripted::new(HostAnswer::Once, 0);
        let (questions, _) = questions(&asker);
        let mut waiting = JoinSet::new();
        for _ in 0..20 {
            let questions = Arc::clone(&questions);
            waiting.spawn(async move { questions.ask(about("a.example")).await });
        }
        while asker.asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        asker.gate.add_permits(1);
        assert!(waiting.join_all().await.iter().all(|verdict| *verdict == Verdict::Once));
        assert_eq!(asker.asked.load(Ordering::SeqCst), 1);
        asker.gate.add_permits(1);
        assert_eq!(questions.ask(about("a.example")).await, Verdict::Once);
        assert_eq!(asker.asked.load(Ordering::SeqCst), 2, "once is once");
    }

    #[tokio::test]
    async fn a_refusal_holds_for_the_session() {
        let asker = Scripted::new(HostAnswer::No, 9);
        let (questions, _) = questions(&asker);
        assert_eq!(questions.ask(about("a.example")).await, Verdict::Refused("refused by the user"));
        assert_eq!(questions.ask(about("a.example")).await, Verdict::Refused("refused in this session"));
        assert_eq!(asker.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_within_the_limit_is_a_refusal() {
        let (questions, _) = questions(&Scripted::new(HostAnswer::Always, 0));
        assert_eq!(questions.ask(about("a.example")).await, Verdict::Refused("no answer"));
    }

    #[tokio::test]
    async fn always_is_stored_and_never_for_private_addresses() {
        let (questions, kept) = questions(&Scripted::new(HostAnswer::Always, 9));
        assert_eq!(questions.ask(about("a.example")).await, Verdict::Granted);
        assert_eq!(questions.ask(about("127.0.0.1")).await, Verdict::Granted);
        assert_eq!(*kept.0.lock().unwrap(), ["a.example:443 Always"]);
        let allowed = questions.book.snapshot().decide(&Host::parse("127.0.0.1").unwrap(), 443);
        assert!(matches!(allowed, Decision::Allow { .. }));
    }

    #[tokio::test]
    async fn a_command_raises_three_questions_at_most() {
        let asker = Scripted::new(HostAnswer::Once, 9);
        let (questions, _) = questions(&asker);
        let caller = Caller { command: Some("c".to_owned()), program: None, port: None };
        for number in 0..5 {
            let question = Question { caller: caller.clone(), ..about(&format!("h{number}.example")) };
            let verdict = questions.ask(question).await;
            assert_eq!(verdict == Verdict::Once, number < 3, "{number}: {verdict:?}");
        }
    }
}
