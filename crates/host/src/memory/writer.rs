//! Writes a session to the memory on a background thread: transcript, store, notes and learnings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::JsonObject;
use pollux_domain::event::Event;
use pollux_domain::model::ModelClient;
use pollux_domain::plural::counted;
use pollux_domain::redact::redacted;
use pollux_domain::time::{Clock, SystemClock};
use pollux_memory::{
    Candidate, Category, EXTRACTION_PROMPT, Indexer, ModelNotes, SessionKey, SessionStore, Transcript,
    TranscriptError, Trigger, Turn as Spoken, cache_ttl, extract, from_model,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::notes::{self, cut};
use super::{Recall, clock};
use crate::{Prepared, titles};

/// Characters of a tool result in a transcript; the session file has the whole result.
const ANSWER: usize = 2000;
/// Characters of a prompt in the store.
const LAST_MESSAGE: usize = 200;
/// Maximum learnings per session.
const MAX_LEARNED: usize = 50;
/// How long the files that sessions share may keep the next lines waiting while other processes hold their locks, and
/// how long the end of the session waits for them.
const BRIEF: Duration = Duration::from_millis(200);
const LAST: Duration = Duration::from_secs(2);

/// An entry to write.
pub(super) enum MemoryLine {
    Prompt {
        said: String,
        /// Typed by the user verbatim.
        teaches: bool,
    },
    Reply {
        text: String,
        model: String,
    },
    Call(Called),
    /// Everything so far must reach the disk.
    Flush,
    Notes(String),
    Compacted {
        summary: String,
        tokens_before: u64,
    },
    End,
}

/// A finished tool call.
pub(super) struct Called {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) answer: String,
    pub(super) failed: bool,
    pub(super) files: Vec<String>,
}

/// How learnings are extracted.
pub(super) enum Extraction {
    Off,
    Rules,
    /// With background model requests, whose events are sent here.
    Model(Arc<dyn ModelClient>, mpsc::Sender<Event>),
}

/// The last turn, which praise may refer to.
#[derive(Default)]
struct Past {
    request: Option<String>,
    tools: Vec<String>,
    files: Vec<String>,
}

/// What goes into files that sessions share. It is kept until their locks are free: the transcript never waits for them.
#[derive(Default)]
struct Pending {
    entry: Option<JsonObject>,
    learnings: Vec<Candidate>,
    notes: Vec<Vec<String>>,
}

pub(super) struct MemoryWriter {
    recall: Arc<Recall>,
    session: String,
    transcript: Option<Transcript>,
    /// The user had the session forgotten while it ran.
    is_forgotten: bool,
    pending: Pending,
    extraction: Extraction,
    past: Past,
    /// Learnings to write at the end.
    candidates: Vec<Candidate>,
    learned: usize,
    compactions: u64,
    model: Option<String>,
    pub(super) indexer: Option<Indexer>,
    tracker: TaskTracker,
    cancel: CancellationToken,
    /// Each problem is reported once.
    pub(super) problems: Vec<String>,
}

impl MemoryWriter {
    pub(super) fn new(
        recall: Arc<Recall>,
        turn: &Prepared<'_>,
        extraction: Extraction,
        tracker: TaskTracker,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            session: turn.session.id.to_string(),
            recall,
            transcript: None,
            is_forgotten: false,
            pending: Pending::default(),
            extraction,
            past: Past::default(),
            candidates: Vec::new(),
            learned: 0,
            compactions: 0,
            model: None,
            indexer: None,
            tracker,
            cancel,
            problems: Vec::new(),
        }
    }

    /// Writes until the session ends. Lines come first; the rest follows when there are none.
    pub(super) fn live(mut self, mut inbox: mpsc::Receiver<MemoryLine>) -> Self {
        loop {
            let line = match inbox.try_recv() {
                Ok(line) => Some(line),
                Err(_) => {
                    // What fails now is tried again, and is a problem only at the end.
                    let _ = self.settle(BRIEF);
                    inbox.blocking_recv()
                }
            };
            let Some(line) = line else { break };
            let is_end = matches!(line, MemoryLine::End);
            self.take(line);
            if is_end {
                break;
            }
        }
        self
    }

    fn take(&mut self, line: MemoryLine) {
        match line {
            MemoryLine::Prompt { said, teaches } => {
                self.write(|transcript| transcript.user(&redacted(&said)));
                self.enter(json!({"lastUserMessage": cut(&redacted(&said), LAST_MESSAGE)}));
                if teaches {
                    self.learn(&said);
                }
                self.past = Past { request: Some(said), ..Past::default() };
            }
            MemoryLine::Reply { text, model } => {
                if !text.trim().is_empty() {
                    self.write(|transcript| transcript.assistant(&redacted(&text), Some(&model)));
                }
                self.model = Some(model);
                self.index();
                self.grew();
            }
            MemoryLine::Call(call) => self.called(call),
            MemoryLine::Flush => {
                self.write(|transcript| transcript.sync());
                self.grew();
            }
            MemoryLine::Notes(text) => {
                let notes = notes::noteworthy(&text);
                self.pending.notes.extend((!notes.is_empty()).then_some(notes));
            }
            MemoryLine::Compacted { summary, tokens_before } => {
                self.write(|transcript| transcript.compaction(&redacted(&summary), tokens_before));
                self.compactions += 1;
                self.enter(json!({"compactionCount": self.compactions, "contextTokens": tokens_before}));
            }
            MemoryLine::End => self.end(),
        }
    }

    fn called(&mut self, call: Called) {
        let answer = cut(&redacted(&call.answer), ANSWER);
        self.write(|transcript| transcript.tool_result(&call.id, &call.tool, &answer, call.failed));
        if call.tool == "save_memory" && !call.failed {
            // Saved facts should be searchable at once.
            self.notify(Trigger::Searched);
        }
        self.past.tools.push(call.tool);
        self.past.files.extend(call.files);
    }

    fn end(&mut self) {
        let has_transcript = self.transcript.is_some();
        if has_transcript {
            self.write(|transcript| transcript.sync());
            self.enter(json!({}));
        }
        self.pending.learnings.append(&mut self.candidates);
        let wait = if self.cancel.is_cancelled() { BRIEF } else { LAST };
        self.settle(wait).iter().for_each(|problem| self.problem(problem));
        if has_transcript {
            self.index();
        }
    }

    /// Starts indexing after the first reply, so that it delays nothing.
    fn index(&mut self) {
        if self.indexer.is_none() && !self.cancel.is_cancelled() {
            let memory = self.recall.memory().clone();
            self.indexer = Some(Indexer::start(memory, &self.cancel));
            self.notify(Trigger::SessionStarted);
        }
    }

    fn grew(&self) {
        if let Some(transcript) = &self.transcript {
            self.notify(Trigger::TranscriptGrew(transcript.path().to_path_buf()));
        }
    }

    fn notify(&self, trigger: Trigger) {
        if let Some(indexer) = &self.indexer {
            indexer.notify(trigger);
        }
    }

    /// Extracts learnings from the user's text. Corrections are saved at once, the rest when the session ends.
    fn learn(&mut self, said: &str) {
        if self.learned >= MAX_LEARNED {
            return;
        }
        let found = match &self.extraction {
            Extraction::Off => return,
            Extraction::Rules => {
                let Past { request, tools, files } = &self.past;
                extract(&Spoken { user: said, previous_request: request.as_deref(), tools, files })
            }
            Extraction::Model(model, events) => {
                self.learned += 1;
                let (model, events) = (Arc::clone(model), events.clone());
                let (said, recall) = (said.to_owned(), Arc::clone(&self.recall));
                let cancel = self.cancel.clone();
                self.tracker.spawn(async move {
                    let asking = ask(&*model, &said, &events);
                    let mut found = tokio::select! {
                        biased;
                        () = cancel.cancelled() => return,
                        found = asking => found,
                    };
                    // A failure is ignored, since learnings are optional.
                    let _ = tokio::task::spawn_blocking(move || keep(&recall, &mut found, LAST)).await;
                });
                return;
            }
        };
        self.learned += found.len();
        let (now, later): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|candidate| candidate.category == Category::Correction);
        self.candidates.extend(later);
        self.pending.learnings.extend(now);
    }

    /// Appends to the transcript, creating it with the first line.
    fn write(&mut self, write: impl FnOnce(&mut Transcript) -> Result<(), TranscriptError>) {
        if self.is_forgotten {
            return;
        }
        if self.transcript.is_none() {
            let Recall { agent, workspace, .. } = &*self.recall;
            match Transcript::of_session(agent, &self.session, workspace, clock()) {
                Ok(transcript) => self.transcript = Some(transcript),
                Err(error) => return self.problem(&format!("could not save the session to memory: {error}")),
            }
        }
        match self.transcript.as_mut().map(write) {
            Some(Err(error @ TranscriptError::Forgotten)) => {
                self.is_forgotten = true;
                self.problem(&format!("the rest of this session is not kept in memory: {error}"));
            }
            Some(Err(error)) => self.problem(&format!("could not save the session to memory: {error}")),
            Some(Ok(())) | None => {}
        }
    }

    /// Registers the session in the store, with the next [`Self::settle`].
    fn enter(&mut self, patch: Value) {
        if let Value::Object(patch) = patch {
            self.pending.entry.get_or_insert_default().extend(patch);
        }
    }

    /// Writes what goes into shared files, waiting so long for their locks. What could not be written stays; returns why.
    fn settle(&mut self, wait: Duration) -> Vec<String> {
        let until = Instant::now() + wait;
        let left = || until.saturating_duration_since(Instant::now());
        let mut problems = Vec::new();
        problems.extend(keep(&self.recall, &mut self.pending.learnings, left()).err());
        while let Some(notes) = self.pending.notes.first() {
            let authors = ModelNotes::new(self.recall.agent.clone());
            if let Err(error) = notes::append(&self.recall.workspace, &authors, notes, left()) {
                problems.push(format!("could not save the notes: {error}"));
                break;
            }
            self.pending.notes.remove(0);
            self.enter(json!({"memoryFlushAt": SystemClock.now().millis(),
                "memoryFlushCompactionCount": self.compactions}));
        }
        problems.extend(self.register(left()).err());
        problems
    }

    /// Writes the entry of the session, under its own key and as the latest one.
    fn register(&mut self, wait: Duration) -> Result<(), String> {
        let Some(transcript) = self.transcript.as_ref().filter(|_| !self.is_forgotten) else { return Ok(()) };
        let Some(patch) = &self.pending.entry else { return Ok(()) };
        let agent = self.recall.agent.id();
        let mut entry = JsonObject::new();
        entry.insert("sessionId".into(), self.session.clone().into());
        entry.insert("agentId".into(), agent.as_str().into());
        entry.insert("chatType".into(), "direct".into());
        entry.insert("channel".into(), "pollux".into());
        entry.insert("sessionFile".into(), transcript.path().to_string_lossy().into());
        if let Some(model) = &self.model {
            entry.insert("model".into(), model.clone().into());
        }
        entry.extend(patch.clone());
        let store = SessionStore::new(self.recall.agent.store_file(), cache_ttl(&self.recall.env), clock());
        let store = store.within(wait);
        for key in [SessionKey::session(agent, &self.session), SessionKey::main(agent)] {
            store.upsert(&key, entry.clone()).map_err(|error| {
                format!("the session is saved to memory, but not in the list of remembered sessions: {error}")
            })?;
        }
        self.pending.entry = None;
        Ok(())
    }

    fn problem(&mut self, text: &str) {
        if !self.problems.iter().any(|known| known == text) {
            self.problems.push(text.to_owned());
        }
    }
}

/// Saves learnings, waiting so long for their lock. Those that could not be saved stay.
fn keep(recall: &Recall, candidates: &mut Vec<Candidate>, wait: Duration) -> Result<(), String> {
    if candidates.is_empty() {
        return Ok(());
    }
    let learnings = recall.learnings().within(wait);
    while let Some(Candidate { category, text, confidence, .. }) = candidates.first() {
        let added = learnings.add(*category, text, *confidence);
        added
            .map_err(|error| format!("could not save {}: {error}", counted(candidates.len(), "learning")))?;
        candidates.remove(0);
    }
    Ok(())
}

/// Asks a model for learnings. It sees only the user's text.
async fn ask(model: &dyn ModelClient, said: &str, events: &mpsc::Sender<Event>) -> Vec<Candidate> {
    let question = format!("{EXTRACTION_PROMPT}\n\n{}", redacted(said));
    let reply = titles::ask(model, "memory-learnings", question, events).await;
    reply.map(|reply| from_model(&reply)).unwrap_or_default()
}
