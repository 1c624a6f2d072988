//! The durable memory behind `pollux memory`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::settings;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::sync::Locked as _;
use pollux_embed::Provider;
use pollux_host::memory::{Recall, failed, own_setting, settings as memory_settings};
use pollux_host::progress::Gauge;
use pollux_host::request::Request as RunRequest;
use pollux_host::sessions::pick::{Reach as Pick, SelectedSession, pick};
use pollux_host::sessions::places::SessionPlaces;
use pollux_host::sessions::{Proposal, SessionSource, Which};
use pollux_host::trust::home;
use pollux_host::{Loaded, cannot_start, load_settings};
use pollux_memory::{
    AgentId, ExportError, Finding as Looked, Forget, ForgetError, Forgotten, GetError, Hit as Passage,
    Level as Grade, Refreshed,
};
use pollux_memory::{Request, Scope, SearchMode, Source, Space, Step, Synced};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::{
    Finding, Forgettable, Hit, Installed, Learned, Lines, Model, Passage as Shown, Question, Reach,
    SearchResults, Traces, models,
};
use crate::doctor::Level;
use pollux_domain::plural::counted;

/// How long a command waits for another process that brings the index up to date.
const WAIT: Duration = Duration::from_secs(30);
/// How long a search waits for changes to be indexed.
const REFRESH: Duration = Duration::from_secs(2);

/// Said where a search had no time for everything that is new.
const PARTIAL: &str =
    "Indexing is still under way, so results may be missing; `pollux memory index` waits for it.";

/// How much of an export is written at once, in bytes, and how often that may wait.
const CHUNK: usize = 64 * 1024;
const CHUNKS: usize = 4;

/// Replaces three reasons why no provider is available.
const NOTHING_SET_UP: &str = "no embedding model is configured; run `pollux memory model install wordllama`, or \
                              set GEMINI_API_KEY or OPENAI_API_KEY";

/// The memory that `pollux memory` is about. Opens nothing yet.
pub fn notebook(options: &RunRequest, env: &Env) -> Result<Notebook, Failure> {
    // A name that was typed wrong must not mean another agent.
    let named = options.overrides.iter().filter(|(key, _)| key == "memory.agent");
    for name in named.filter_map(|(_, name)| name.as_str()) {
        if AgentId::parse(name).is_none() {
            return Err(Failure::new(ExitKind::Input, format!("invalid agent name `{name}`"))
                .hint("use lower-case letters, digits, `-` and `_`"));
        }
    }
    let loaded = load_settings(options, env)?;
    let mut notes = loaded.notes.clone();
    notes.extend(memory_settings(&loaded).1);
    let recall = Recall::new(&loaded).ok_or_else(|| {
        Failure::new(ExitKind::Config, "no home directory to store memory in")
            .hint("set HOME or GIMLI_STATE_DIR")
    })?;
    Ok(Notebook { options: options.clone(), env: env.clone(), loaded, recall, notes, runtime: None })
}

/// The durable memory. Files are opened when they are needed.
pub struct Notebook {
    options: RunRequest,
    /// Without what `.env` files added.
    env: Env,
    loaded: Loaded,
    recall: Recall,
    notes: Vec<String>,
    runtime: Option<Runtime>,
}

impl Notebook {
    fn is_on(&self) -> bool {
        is_on(&self.loaded)
    }

    /// Whether anything was ever kept.
    fn exists(&self) -> bool {
        self.recall.agent.root().exists()
    }

    /// Refuses what would keep or read something while it is off.
    fn needs_on(&self) -> Result<(), Failure> {
        if self.is_on() {
            return Ok(());
        }
        Err(Failure::new(ExitKind::Failure, "memory is off").hint("run `pollux memory enable`"))
    }

    /// The folders, with modes that keep others out.
    fn prepare(&self) -> Result<(), Failure> {
        self.recall.agent.prepare().map_err(|error| failed(&error, error.hint()))
    }

    /// Another part of the memory than this workspace's.
    fn look_at(&mut self, reach: Reach) {
        if reach == Reach::Unassigned {
            self.recall.space = Space::Unassigned;
        }
    }

    /// A command while it is off sends nothing anywhere.
    fn keep_to_itself(&mut self) {
        if !self.is_on() {
            self.recall.embed.provider = Provider::Local;
            self.recall.embed.fallback = None;
        }
    }

    fn wait_for<T>(&mut self, work: impl AsyncFnOnce(&Recall) -> T) -> Result<T, Failure> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| cannot_start(&error))?,
        };
        let done = runtime.block_on(work(&self.recall));
        self.runtime = Some(runtime);
        Ok(done)
    }

    /// Why there are no vectors, or others than configured.
    fn fallback(&self) -> Option<Value> {
        let choice = self.recall.choice();
        let is_other = match &choice.embedder {
            None => true,
            Some(embedder) => {
                choice.requested != Provider::Auto && embedder.origin().provider != choice.requested.as_str()
            }
        };
        // The last one is why the search for a provider ended; with `auto`, three mean that nothing is set up.
        let reason = match choice.skipped.as_slice() {
            [_, _, _] if choice.requested == Provider::Auto => NOTHING_SET_UP,
            skipped => skipped.last()?.reason.as_str(),
        };
        is_other.then(|| json!({"from": choice.requested.as_str(), "reason": reason}))
    }
}

fn is_on(loaded: &Loaded) -> bool {
    own_setting(loaded, "memory.enabled") == Some(&Value::Bool(true))
}

impl Notebook {
    /// Switches it on or off in the user's settings; says what was done.
    pub fn switch(&mut self, on: bool) -> Result<String, Failure> {
        let file = self.loaded.home.settings_file();
        if self.is_on() == on {
            return Ok(format!("Durable memory is already {}.\n", if on { "on" } else { "off" }));
        }
        settings::set_value(&file, "memory.enabled", &Value::Bool(on)).map_err(|error| {
            let failure = Failure::from_error(ExitKind::Failure, &error);
            match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })?;
        let after = load_settings(&self.options, &self.env)?;
        if is_on(&after) != on {
            let (_, origin) = after.settings.get("memory.enabled").ok_or_else(|| cannot_read(&file))?;
            let state = if on { "off" } else { "on" };
            return Err(Failure::new(
                ExitKind::Failure,
                format!("durable memory is still {state}: {origin} sets `memory.enabled`"),
            )
            .hint("change it in that file"));
        }
        let place = self.recall.state.root().display();
        if !on {
            return Ok(format!(
                "Durable memory is off (`memory.enabled` in {}). Stored memory stays in {place}; delete it with \
                 `pollux memory forget`.\n",
                file.display()
            ));
        }
        let who = match &self.recall.choice().embedder {
            Some(embedder) => match embedder.origin().provider.as_str() {
                "local" => "Embeddings are computed on this machine.".to_owned(),
                other => format!(
                    "Notes and sessions are sent to {other} ({}) to compute embeddings; recognised secrets are \
                     removed first. To keep them on this machine, set `memory.provider` to `local`.",
                    embedder.origin().model
                ),
            },
            None => {
                "Search matches keywords only: no embedding model is installed. To install one, run `pollux memory model install`."
                    .to_owned()
            }
        };
        Ok(format!(
            "Durable memory is on (`memory.enabled` in {}). New sessions are stored in {place}.\n{who}\n",
            file.display()
        ))
    }

    /// Everything about it, in the documented names; `enabled` is always there.
    pub fn status(&mut self) -> Result<Value, Failure> {
        let state = self.recall.state.root().display().to_string();
        if !self.is_on() {
            return Ok(json!({"enabled": false, "stateDir": self.exists().then_some(state)}));
        }
        let status = self.wait_for(async |recall| recall.memory().status().await)?;
        let mut value = status.map_err(|error| failed(&error, error.hint()))?.to_json();
        if let Some(fields) = value.as_object_mut() {
            fields.shift_insert(0, "enabled".into(), Value::Bool(true));
            fields.shift_insert(1, "stateDir".into(), state.into());
            fields.insert("fallback".into(), self.fallback().unwrap_or_default());
        }
        Ok(value)
    }

    /// Brings the index up to date.
    pub fn index(&mut self, force: bool, watched: bool) -> Result<Synced, Failure> {
        self.needs_on()?;
        self.prepare()?;
        let gauge = Mutex::new(Gauge::new(watched));
        let progress = |step: Step| {
            let mut gauge = gauge.locked();
            gauge.step("Indexing", step.files_done, step.files_total);
        };
        let synced = self.wait_for(async |recall| {
            let memory = recall.memory();
            let done = if force {
                memory.reindex(WAIT, &progress).await
            } else {
                memory.sync(Scope::All, WAIT, &progress).await
            };
            memory.close().await;
            done
        })?;
        drop(gauge);
        let synced = synced.map_err(|error| failed(&error, error.hint()))?;
        self.notes.extend(synced.warnings.iter().chain(&synced.skipped).cloned());
        if let Some(reason) = self.fallback().and_then(|value| value["reason"].as_str().map(str::to_owned)) {
            self.notes.push(format!("Keyword search only: {reason}"));
        }
        Ok(synced)
    }

    pub fn search(&mut self, question: &Question) -> Result<SearchResults, Failure> {
        self.needs_on()?;
        self.prepare()?;
        self.look_at(question.reach);
        let request = Request {
            source: question.source.and_then(Source::parse),
            mode: question.mode.and_then(SearchMode::parse),
            max_results: question.limit,
            ..Request::new(&question.query)
        };
        let answer = self.wait_for(async |recall| {
            let memory = recall.memory();
            let noticed = if recall.settings.sync.on_search {
                memory.refresh(REFRESH).await
            } else {
                Refreshed::default()
            };
            (noticed, memory.search(&request).await)
        })?;
        let (noticed, answer) = answer;
        self.notes.extend(noticed.warnings);
        self.notes.extend(noticed.is_partial.then(|| PARTIAL.to_owned()));
        let answer = answer.map_err(|error| failed(&error, error.hint()))?;
        self.notes.extend(answer.warnings.iter().cloned());
        let reason = || self.fallback().and_then(|value| value["reason"].as_str().map(str::to_owned));
        Ok(SearchResults {
            hits: answer.hits.iter().map(hit).collect(),
            degraded: answer.degraded.as_ref().map(|why| reason().unwrap_or_else(|| why.clone())),
            json: answer.to_json(false),
            explained: answer.to_json(true),
        })
    }

    pub fn get(&mut self, path: &str, lines: Option<Lines>) -> Result<Shown, Failure> {
        self.needs_on()?;
        let from = lines.map(|lines| lines.first);
        let count = lines.map(|lines| lines.last.saturating_sub(lines.first).saturating_add(1));
        let excerpt = self.wait_for(async |recall| recall.memory().get(path, from, count).await)?;
        let excerpt = excerpt.map_err(|error| {
            let exit = match &error {
                GetError::NotANote { .. } | GetError::NotFound { .. } => ExitKind::Input,
                GetError::Unreadable { .. } | GetError::Index(_) => ExitKind::Failure,
            };
            Failure { exit, ..failed(&error, error.hint()) }
        })?;
        Ok(Shown {
            path: excerpt.path,
            text: excerpt.text,
            from: excerpt.from,
            lines: excerpt.lines,
            total: excerpt.total_lines,
            next: excerpt.next,
            provenance: excerpt.provenance.as_str(),
        })
    }

    pub fn learnings(&mut self) -> Result<Vec<Learned>, Failure> {
        let learnings = self.recall.learnings();
        let all = learnings.list().map_err(|error| failed(&error, error.hint()))?;
        let hidden = learnings.hidden().unwrap_or(0);
        if hidden > 0 {
            self.notes.push(format!(
                "{hidden} more in {} belong to other workspaces or to no workspace.",
                self.recall.agent.learnings_file().display()
            ));
        }
        let mut learned: Vec<Learned> = all
            .into_iter()
            .map(|learning| Learned {
                category: learning.category.as_str(),
                heading: learning.category.heading(),
                text: learning.text,
                date: learning.date.unwrap_or_default(),
                confidence: learning.confidence.as_str(),
            })
            .collect();
        // Those of a category together, in the order of the file.
        let order: Vec<&str> = learned.iter().map(|one| one.heading).collect();
        learned.sort_by_key(|one| order.iter().position(|heading| *heading == one.heading));
        Ok(learned)
    }

    /// Plans what to forget, and forgets it.
    pub fn forgetting(
        &mut self,
        what: &Forgettable,
        reach: Reach,
    ) -> Result<Proposal<Traces, Traces>, Failure> {
        let what = match what {
            Forgettable::Path(path) => Forget::Path(path.clone()),
            Forgettable::Session(given) => Forget::Session(self.session_id(given)?),
            Forgettable::Phrase(words) => Forget::Phrase(words.clone()),
        };
        if !self.exists() {
            match what {
                Forget::Path(given) => return Err(not_forgotten(&ForgetError::NoNote { given })),
                Forget::Session(given) => return Err(not_forgotten(&ForgetError::NoSession { given })),
                Forget::Phrase(_) => {}
            }
            let carry_out = Box::new(|| Ok(Traces::default()));
            return Ok(Proposal { plan: Traces::default(), carry_out });
        }
        self.keep_to_itself();
        self.prepare()?;
        self.look_at(reach);
        let everywhere = reach == Reach::AllWorkspaces;
        let planned = self.wait_for(async |recall| {
            let (memory, what) = (recall.memory(), what.clone());
            if everywhere {
                memory.forget_everywhere(what, true).await
            } else {
                memory.forget(what, true).await
            }
        })?;
        let planned = planned.map_err(|error| not_forgotten(&error))?;
        let memory = self.recall.memory().clone();
        let runtime = self.runtime.take();
        let carry_out = Box::new(move || {
            let Some(runtime) = runtime else { return Ok(Traces::default()) };
            let done = runtime.block_on(async {
                if everywhere {
                    memory.forget_everywhere(what, false).await
                } else {
                    memory.forget(what, false).await
                }
            });
            runtime.block_on(memory.close());
            done.map(|done| traces(&done)).map_err(|error| not_forgotten(&error))
        });
        Ok(Proposal { plan: traces(&planned), carry_out })
    }

    /// The id behind `latest` or a number of the session list; anything else is looked for in the memory itself, which also
    /// knows sessions that are not in the list any more.
    fn session_id(&self, given: &str) -> Result<String, Failure> {
        let is_number = given.bytes().all(|byte| byte.is_ascii_digit());
        if given != "latest" && !is_number {
            return Ok(given.to_owned());
        }
        let places = SessionPlaces::new(&self.env, home(&self.env)?, false);
        let source = Some(SessionSource::Gemini);
        match pick(&places, &Which { id: given.to_owned(), all_projects: false, source }, Pick::AsTold) {
            Ok(SelectedSession::Own(own)) => Ok(own.info.id.to_string()),
            // Digits can also begin an id.
            Ok(SelectedSession::Foreign(_)) => Ok(given.to_owned()),
            Err(_) if given.len() >= 4 && is_number => Ok(given.to_owned()),
            Err(failure) => Err(failure),
        }
    }

    pub fn doctor(&mut self) -> Vec<Finding> {
        let what = if self.is_on() { "durable memory is on" } else { "durable memory is off" };
        let mut findings = vec![Finding { level: Level::Ok, what: what.to_owned(), hint: None }];
        if self.exists() {
            let looked = self.wait_for(async |recall| recall.memory().doctor().await);
            findings.extend(looked.unwrap_or_default().into_iter().map(finding));
        }
        findings
    }

    /// Takes over what a folder remembered before it was moved here; says what was done.
    pub fn adopt(&mut self, folder: &str) -> Result<String, Failure> {
        self.prepare()?;
        let former = self.env.cwd().join(folder);
        let count = pollux_memory::adopt(&self.recall.agent, &self.recall.workspace, &former)
            .map_err(|error| failed(&error, error.hint()))?;
        Ok(format!(
            "Adopted {} of {}. To update the index, run `pollux memory index`.\n",
            counted(count, "session"),
            former.display()
        ))
    }

    /// One JSON document.
    pub fn export(&mut self, reach: Reach, out: &mut dyn Write) -> Result<(), Failure> {
        self.look_at(reach);
        if !self.exists() {
            return Err(Failure::new(ExitKind::Failure, "nothing to export: memory is empty"));
        }
        let (sender, chunks) = mpsc::channel(CHUNKS);
        let (written, printed) = self.wait_for(async move |recall| {
            // The writer goes with the result: only then does the other side know that this was all.
            let export = async {
                recall.memory().export(BufWriter::with_capacity(CHUNK, Chunks(sender))).await.map(drop)
            };
            tokio::join!(export, print_chunks(chunks, out))
        })?;
        let written = match printed {
            Ok(()) => written,
            Err(error) => Err(ExportError::Write(error)),
        };
        match written {
            Ok(()) => Ok(()),
            Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(failed(&error, error.hint())),
        }
    }

    pub fn install_model(&mut self, what: &str, watched: bool) -> Result<Installed, Failure> {
        let request = models::ModelInstall {
            what: what.to_owned(),
            watched,
            path: self.env.cwd().join(what),
            models: self.recall.models.clone(),
            environment: self.loaded.sanitised_env(),
            processes: self.loaded.home.tmp_dir().join("background-processes"),
        };
        let installed = self.wait_for(async |_| models::install(request).await)??;
        let note = match (installed.already, self.is_on()) {
            (true, _) => "It was already installed.",
            (false, true) => "To rebuild the index with it, run `pollux memory index`.",
            (false, false) => "To turn memory on, run `pollux memory enable`.",
        };
        let folder = installed.folder.display().to_string();
        Ok(Installed { name: installed.name, folder, note: Some(note.to_owned()) })
    }

    pub fn models(&mut self) -> Vec<Model> {
        models::list(&self.recall.models)
    }

    /// Lines for stderr about what was noticed.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// An export on its way from the thread that makes it.
struct Chunks(mpsc::Sender<Vec<u8>>);

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(bytes.to_vec());
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints lines until the sender is dropped.
async fn print_chunks(mut chunks: mpsc::Receiver<Vec<u8>>, out: &mut dyn Write) -> io::Result<()> {
    while let Some(chunk) = chunks.recv().await {
        out.write_all(&chunk)?;
    }
    out.flush()
}

fn cannot_read(file: &std::path::Path) -> Failure {
    Failure::new(ExitKind::Failure, format!("`{}` does not contain what was written to it", file.display()))
}

fn hit(found: &Passage) -> Hit {
    let explain = &found.explain;
    Hit {
        citation: found.citation(),
        source: found.source.as_str(),
        provenance: found.provenance.as_str(),
        date: found.date.clone(),
        score: found.score,
        snippet: found.snippet.clone(),
        focus: found.focus,
        parts: vec![
            ("vector", explain.vector),
            ("text", explain.text),
            ("recency", explain.recency),
            ("name", explain.name),
            ("superseded", explain.superseded),
        ],
        cosine: explain.cosine,
        keyword: explain.keyword,
    }
}

/// The error for something that cannot be forgotten.
fn not_forgotten(error: &ForgetError) -> Failure {
    let exit = match error {
        ForgetError::Index(_) => ExitKind::Failure,
        ForgetError::NoSession { .. }
        | ForgetError::Ambiguous { .. }
        | ForgetError::NoNote { .. }
        | ForgetError::NoWords { .. } => ExitKind::Input,
    };
    Failure { exit, ..failed(error, error.hint()) }
}

fn traces(forgotten: &Forgotten) -> Traces {
    let shown = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
    Traces {
        files: forgotten.files.clone(),
        chunks: forgotten.chunks,
        cache_entries: forgotten.cache_entries,
        transcripts: shown(&forgotten.transcripts),
        learnings: forgotten.learnings,
        kept: shown(&forgotten.kept),
        elsewhere: forgotten.elsewhere,
    }
}

fn finding(looked: Looked) -> Finding {
    Finding {
        level: match looked.level {
            Grade::Ok => Level::Ok,
            Grade::Warning => Level::Warning,
            Grade::Problem => Level::Problem,
        },
        what: looked.what,
        hint: looked.hint.map(str::to_owned),
    }
}
