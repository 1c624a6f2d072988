//! Records a session for the memory. The observer forwards what happens to a background writer and never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pollux_domain::content::{Body, Content, Role};
use pollux_domain::event::{CallReport, Event};
use pollux_domain::model::ModelClient;
use pollux_domain::session_observer::SessionObserver;
use pollux_memory::{MessageKind, Scope, recency_split};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::writer::{Called, Extraction, MemoryLine, MemoryWriter};
use super::{Recall, own_setting};
use crate::Prepared;

/// Capacity of the queue; beyond it, entries are lost from the transcript and a warning is shown.
const QUEUE: usize = 1024;
/// Capacity for events of background model requests.
const EVENTS: usize = 64;
/// Time limit at the end of a session. The next session does the rest.
const TIME_LIMIT: Duration = Duration::from_secs(3);
/// How long to wait for another process that is indexing.
const WAIT: Duration = Duration::from_secs(2);
/// Tool arguments that contain paths.
const PATH_ARGUMENTS: [&str; 4] = ["file_path", "absolute_path", "path", "dir_path"];

const UNFINISHED: &str =
    "the last messages of this session may be missing from memory: writing them took too long";
const LOST: &str =
    "part of this session is missing from its transcript: events arrived faster than they could be written";

/// The prompt that extracts notes before messages are summarised.
const NOTES_WANTED: &str = "Which facts of the conversation above should last beyond it: decisions and their reasons, \
facts about the project, the user's lasting wishes, dates, open ends? Write them as a list, one line `- …` each, in \
words that stand by themselves. No secrets, nothing that only matters now, at most 20 lines. If there is nothing, \
answer NO_REPLY.";

/// Records one conversation for the memory.
pub(crate) struct MemoryRecorder {
    recall: Arc<Recall>,
    mirror: Arc<MemoryObserver>,
    writer: JoinHandle<MemoryWriter>,
    events: mpsc::Receiver<Event>,
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl MemoryRecorder {
    /// Starts recording; `typed_text` tells which part of a prompt the user typed.
    pub(crate) fn start(
        recall: &Arc<Recall>,
        turn: &Prepared<'_>,
        model: &Arc<dyn ModelClient>,
        typed_text: TypedText,
    ) -> Self {
        let (lines, inbox) = mpsc::channel(QUEUE);
        let (outbox, events) = mpsc::channel(EVENTS);
        let (tracker, cancel) = (TaskTracker::new(), CancellationToken::new());
        let script = &turn.request.script;
        // Scripted replies are counted, so an extra request would consume one.
        let may_ask = script.replies.is_none() && script.record.is_none();
        let asks = own_setting(turn.loaded, "memory.learnings.extraction").and_then(Value::as_str);
        let writer = MemoryWriter::new(
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
        let mirror = Arc::new(MemoryObserver {
            lines,
            typed_text,
            notes_wanted: flushes && may_ask && turn.loaded.trust.uses_project(),
            recency,
            lost: AtomicBool::new(false),
        });
        let writer = tokio::task::spawn_blocking(move || writer.live(inbox));
        Self { recall: Arc::clone(recall), mirror, writer, events, tracker, cancel }
    }

    pub(crate) fn observer(&self) -> Arc<dyn SessionObserver> {
        Arc::clone(&self.mirror) as Arc<dyn SessionObserver>
    }

    /// The next event of a background request.
    pub(crate) async fn next_event(&mut self) -> Event {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Events of background requests since the last call.
    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// Writes and indexes the rest within a time limit, or not at all if the user quits at once. Returns warnings for the
    /// user, and the events of requests made in the meantime.
    pub(crate) async fn close(mut self, hurried: bool) -> (Vec<String>, Vec<Event>) {
        let Self { recall, mirror, writer, tracker, cancel, .. } = &mut self;
        if hurried {
            cancel.cancel();
        }
        let mut notes = None;
        let ending = async {
            let _ = mirror.lines.send(MemoryLine::End).await;
            let Ok(done) = writer.await else { return };
            let notes = notes.insert(done.problems);
            tracker.close();
            tracker.wait().await;
            if let Some(indexer) = done.indexer.filter(|_| !hurried) {
                let synced = recall.memory().sync(Scope::All, WAIT, &|_| {}).await;
                let problem = synced.map_or_else(|error| Some(error.to_string()), |_| indexer.problem());
                notes.extend(problem.map(|problem| format!("the memory is not up to date: {problem}")));
                indexer.stop().await;
            }
        };
        let _ = tokio::time::timeout(TIME_LIMIT, ending).await;
        let mut notes = notes.unwrap_or_else(|| vec![UNFINISHED.to_owned()]);
        self.cancel.cancel();
        if self.mirror.lost.load(Ordering::Relaxed) {
            notes.push(LOST.to_owned());
        }
        (notes, self.events())
    }
}

/// The part of a prompt that the user typed. Learnings come only from that.
pub(crate) enum TypedText {
    /// Every prompt as it was typed.
    AllTyped,
    /// This text; the rest was piped in. `None` if everything was piped in.
    Only(Option<String>),
}

/// Forwards events to the writer.
struct MemoryObserver {
    lines: mpsc::Sender<MemoryLine>,
    typed_text: TypedText,
    notes_wanted: bool,
    recency: Option<i64>,
    /// The queue was full.
    lost: AtomicBool,
}

impl MemoryObserver {
    fn pass(&self, line: MemoryLine) {
        if self.lines.try_send(line).is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
    }
}

impl SessionObserver for MemoryObserver {
    fn prompt(&self, typed: Option<&str>) {
        let Some(typed) = typed else { return };
        let (said, teaches) = match &self.typed_text {
            TypedText::AllTyped => (typed, true),
            TypedText::Only(Some(words)) => (words.as_str(), true),
            TypedText::Only(None) => (typed, false),
        };
        self.pass(MemoryLine::Prompt { said: said.to_owned(), teaches });
    }

    fn reply(&self, text: &str, model: &str) {
        self.pass(MemoryLine::Reply { text: text.to_owned(), model: model.to_owned() });
    }

    fn call(&self, report: &CallReport) {
        let named = PATH_ARGUMENTS.iter().filter_map(|name| report.args.get(*name).and_then(Value::as_str));
        self.pass(MemoryLine::Call(Called {
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
        self.pass(MemoryLine::Flush);
        self.notes_wanted.then(|| NOTES_WANTED.to_owned())
    }

    fn notes(&self, text: &str) {
        self.pass(MemoryLine::Notes(text.to_owned()));
    }

    fn compressed(&self, summary: &str, tokens_before: u64) {
        self.pass(MemoryLine::Compacted { summary: summary.to_owned(), tokens_before });
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
