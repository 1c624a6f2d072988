//! Writes a session to the memory on a background thread: transcript, store, notes and learnings.

use std::error::Error;
use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::event::Event;
use pollux_domain::model::ModelClient;
use pollux_domain::redact::redacted;
use pollux_domain::time::{Clock, SystemClock};
use pollux_memory::{
    Candidate, Category, EXTRACTION_PROMPT, Indexer, Learnings, ModelNotes, SessionKey, SessionStore,
    Transcript, Trigger, Turn as Spoken, cache_ttl, extract, from_model,
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

pub(super) struct MemoryWriter {
    recall: Arc<Recall>,
    session: String,
    transcript: Option<Transcript>,
    store: SessionStore,
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
        let store = SessionStore::new(recall.agent.store_file(), cache_ttl(&recall.env), clock());
        Self {
            session: turn.session.id.to_string(),
            recall,
            transcript: None,
            store,
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

    /// Writes until the session ends.
    pub(super) fn live(mut self, mut inbox: mpsc::Receiver<MemoryLine>) -> Self {
        while let Some(line) = inbox.blocking_recv() {
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
                let authors = ModelNotes::new(self.recall.agent.clone());
                let written = notes::append(&self.recall.workspace, &authors, &notes);
                if let Err(error) = written {
                    self.problem(&format!("could not save the notes: {error}"));
                } else if !notes.is_empty() {
                    self.enter(json!({"memoryFlushAt": SystemClock.now().millis(),
                        "memoryFlushCompactionCount": self.compactions}));
                }
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
        if self.transcript.is_none() {
            return;
        }
        self.write(|transcript| transcript.sync());
        self.enter(JsonObject::new().into());
        let candidates = std::mem::take(&mut self.candidates);
        let problems = keep(&self.recall.learnings(), candidates);
        problems.iter().for_each(|problem| self.problem(problem));
        self.index();
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
                    let found = tokio::select! {
                        biased;
                        () = cancel.cancelled() => return,
                        found = asking => found,
                    };
                    // A failure is ignored, since learnings are optional.
                    let _ = tokio::task::spawn_blocking(move || keep(&recall.learnings(), found)).await;
                });
                return;
            }
        };
        self.learned += found.len();
        let (now, later): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|candidate| candidate.category == Category::Correction);
        self.candidates.extend(later);
        let problems = keep(&self.recall.learnings(), now);
        problems.iter().for_each(|problem| self.problem(problem));
    }

    /// Appends to the transcript, creating it with the first line.
    fn write<E: Error + 'static>(&mut self, write: impl FnOnce(&mut Transcript) -> Result<(), E>) {
        if self.transcript.is_none() {
            let Recall { agent, workspace, .. } = &*self.recall;
            match Transcript::of_session(agent, &self.session, workspace, clock()) {
                Ok(transcript) => self.transcript = Some(transcript),
                Err(error) => return self.problem(&format!("could not save the session to memory: {error}")),
            }
        }
        let written = self.transcript.as_mut().map(write);
        if let Some(Err(error)) = written {
            self.problem(&format!("could not save the session to memory: {error}"));
        }
    }

    /// Registers the session in the store, under its own key and as the latest one.
    fn enter(&mut self, patch: Value) {
        let Some(transcript) = &self.transcript else { return };
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
        if let Value::Object(patch) = patch {
            entry.extend(patch);
        }
        for key in [SessionKey::session(agent, &self.session), SessionKey::main(agent)] {
            if let Err(error) = self.store.upsert(&key, entry.clone()) {
                return self.problem(&format!("could not update the list of remembered sessions: {error}"));
            }
        }
    }

    fn problem(&mut self, text: &str) {
        if !self.problems.iter().any(|known| known == text) {
            self.problems.push(text.to_owned());
        }
    }
}

/// Saves a learning; returns the problem, if any.
fn keep(learnings: &Learnings, candidates: Vec<Candidate>) -> Vec<String> {
    let mut problems = Vec::new();
    for Candidate { category, text, confidence, .. } in candidates {
        if let Err(error) = learnings.add(category, &text, confidence) {
            problems.push(format!("could not save a learning: {error}"));
        }
    }
    problems
}

/// Asks a model for learnings. It sees only the user's text.
async fn ask(model: &dyn ModelClient, said: &str, events: &mpsc::Sender<Event>) -> Vec<Candidate> {
    let question = format!("{EXTRACTION_PROMPT}\n\n{}", redacted(said));
    let reply = titles::ask(model, "memory-learnings", question, events).await;
    reply.map(|reply| from_model(&reply)).unwrap_or_default()
}
