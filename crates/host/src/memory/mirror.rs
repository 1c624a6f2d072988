//! What the session sees of the memory: a witness that passes on what happens and never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pollux_domain::content::{Body, Content, Role};
use pollux_domain::event::{CallReport, Event};
use pollux_domain::model::ModelClient;
use pollux_domain::witness::Witness;
use pollux_memory::{MessageKind, Scope, recency_split};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::scribe::{Called, Extraction, Line, Scribe};
use super::{Recall, own_setting};
use crate::Prepared;

/// What waits to be written down; a session that says more at once loses it from its transcript, and is told.
const QUEUE: usize = 1024;
/// Requests beside the conversation that wait to be told of.
const EVENTS: usize = 64;
/// How long the end of a session may take for it. What is not done then, the next session does.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long it waits for another process that indexes.
const WAIT: Duration = Duration::from_secs(2);
/// Arguments that name files.
const PATH_ARGUMENTS: [&str; 4] = ["file_path", "absolute_path", "path", "dir_path"];

const LOST: &str = "part of this session is not in its transcript: it came faster than it could be written";

/// What the model is asked about messages that are about to be summarised.
const NOTES_WANTED: &str = "Which facts of the conversation above should last beyond it: decisions and their reasons, \
facts about the project, the user's lasting wishes, dates, open ends? Write them as a list, one line `- …` each, in \
words that stand by themselves. No secrets, nothing that only matters now, at most 20 lines. If there is nothing, \
answer NO_REPLY.";

/// The memory's part of a conversation. Ends with it.
pub(crate) struct Remembrance {
    recall: Arc<Recall>,
    mirror: Arc<Mirror>,
    scribe: JoinHandle<Scribe>,
    events: mpsc::Receiver<Event>,
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl Remembrance {
    /// Begins for a session; `own_words` says what of a prompt the person typed, if it is not all of it.
    pub(crate) fn start(
        recall: &Arc<Recall>,
        turn: &Prepared<'_>,
        model: &Arc<dyn ModelClient>,
        own_words: OwnWords,
    ) -> Self {
        let (lines, inbox) = mpsc::channel(QUEUE);
        let (outbox, events) = mpsc::channel(EVENTS);
        let (tracker, cancel) = (TaskTracker::new(), CancellationToken::new());
        let script = &turn.request.script;
        // Scripted replies are counted by those who wrote them.
        let may_ask = script.replies.is_none() && script.record.is_none();
        let asks = own_setting(turn.loaded, "memory.learnings.extraction").and_then(Value::as_str);
        let scribe = Scribe::new(
            Arc::clone(recall),
            turn,
            match asks {
                Some("off") => Extraction::Off,
                Some("model") if may_ask => Extraction::Model(Arc::clone(model), outbox),
                _ => Extraction::Rules,
            },
            tracker.clone(),
            cancel.clone(),
        );
        let flushes = own_setting(turn.loaded, "memory.flush.enabled") != Some(&Value::Bool(false));
        let recency = own_setting(turn.loaded, "memory.recency.messages").and_then(Value::as_i64);
        let mirror = Arc::new(Mirror {
            lines,
            own_words,
            notes_wanted: flushes && may_ask && turn.loaded.trust.uses_project(),
            recency,
            lost: AtomicBool::new(false),
        });
        let scribe = tokio::task::spawn_blocking(move || scribe.live(inbox));
        Self { recall: Arc::clone(recall), mirror, scribe, events, tracker, cancel }
    }

    pub(crate) fn witness(&self) -> Arc<dyn Witness> {
        Arc::clone(&self.mirror) as Arc<dyn Witness>
    }

    /// The next request made beside the conversation.
    pub(crate) async fn news(&mut self) -> Event {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Requests made beside the conversation since it was last asked.
    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// Writes down and indexes what is left, for a limited time; not at all for somebody in a hurry. Lines for the
    /// person about what went wrong, and the requests that were made meanwhile.
    pub(crate) async fn close(mut self, hurried: bool) -> (Vec<String>, Vec<Event>) {
        let Self { recall, mirror, scribe, tracker, cancel, .. } = &mut self;
        if hurried {
            cancel.cancel();
        }
        let mut notes = Vec::new();
        let ending = async {
            let _ = mirror.lines.send(Line::End).await;
            let Ok(done) = scribe.await else { return };
            notes = done.problems;
            tracker.close();
            tracker.wait().await;
            if let Some(indexer) = done.indexer.filter(|_| !hurried) {
                let synced = recall.memory().sync(Scope::All, WAIT, &|_| {}).await;
                let problem = synced.map_or_else(|error| Some(error.to_string()), |_| indexer.problem());
                notes.extend(problem.map(|problem| format!("the memory is not up to date: {problem}")));
                indexer.stop().await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, ending).await;
        self.cancel.cancel();
        if self.mirror.lost.load(Ordering::Relaxed) {
            notes.push(LOST.to_owned());
        }
        (notes, self.events())
    }
}

/// What of a prompt the person typed. Only that may teach something.
pub(crate) enum OwnWords {
    /// Every prompt as it was typed.
    AllTyped,
    /// This; what was piped in stands beside it. `None` if all of it was piped in.
    Only(Option<String>),
}

/// Passes on what happens.
struct Mirror {
    lines: mpsc::Sender<Line>,
    own_words: OwnWords,
    notes_wanted: bool,
    recency: Option<i64>,
    /// Something could not be passed on.
    lost: AtomicBool,
}

impl Mirror {
    fn pass(&self, line: Line) {
        if self.lines.try_send(line).is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
    }
}

impl Witness for Mirror {
    fn prompt(&self, typed: Option<&str>) {
        let Some(typed) = typed else { return };
        let (said, teaches) = match &self.own_words {
            OwnWords::AllTyped => (typed, true),
            OwnWords::Only(Some(words)) => (words.as_str(), true),
            OwnWords::Only(None) => (typed, false),
        };
        self.pass(Line::Prompt { said: said.to_owned(), teaches });
    }

    fn reply(&self, text: &str, model: &str) {
        self.pass(Line::Reply { text: text.to_owned(), model: model.to_owned() });
    }

    fn call(&self, report: &CallReport) {
        let named = PATH_ARGUMENTS.iter().filter_map(|name| report.args.get(*name).and_then(Value::as_str));
        self.pass(Line::Call(Called {
            id: report.call.as_str().to_owned(),
            tool: report.name.clone(),
            answer: report.answer.clone(),
            failed: !report.outcome.succeeded(),
            files: named.map(str::to_owned).collect(),
        }));
    }

    fn keeps_from(&self, messages: &[Arc<Content>]) -> usize {
        let kinds: Vec<MessageKind> = messages.iter().map(|message| kind(message)).collect();
        recency_split(&kinds, self.recency, None)
    }

    fn before_compression(&self) -> Option<String> {
        self.pass(Line::Flush);
        self.notes_wanted.then(|| NOTES_WANTED.to_owned())
    }

    fn notes(&self, text: &str) {
        self.pass(Line::Notes(text.to_owned()));
    }

    fn compressed(&self, summary: &str, tokens_before: u64) {
        self.pass(Line::Compacted { summary: summary.to_owned(), tokens_before });
    }
}

fn kind(message: &Content) -> MessageKind {
    let answers = message.parts.iter().any(|part| matches!(part.body, Body::Response(_)));
    match message.role {
        Role::User if answers => MessageKind::ToolResult,
        Role::User => MessageKind::User,
        Role::Model if message.calls().next().is_some() => MessageKind::ToolCall,
        Role::Model => MessageKind::Model,
    }
}
