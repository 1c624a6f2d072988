//! A state directory and a workspace to throw away, and vectors that need no model.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::embedding::{EmbedError, EmbedErrorKind, Embedder, Origin, Purpose};
use pollux_domain::time::{Clock, Timestamp};
use pollux_memory::{
    AgentDir, AgentId, Memory, Request, Scope, SearchAnswer, Settings, Setup, Space, StateDir, Synced,
    Transcript, WorkspaceId,
};

pub(crate) const WAIT: Duration = Duration::from_secs(10);
pub(crate) const NOW: &str = "2026-06-15T12:00:00Z";

pub(crate) struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::parse(NOW).unwrap()
    }
}

/// A vector of the words in a text: every word has a direction of its own.
pub(crate) struct Toy {
    pub(crate) origin: Origin,
    pub(crate) dims: AtomicUsize,
    /// Whether every vector is zero.
    pub(crate) is_empty: AtomicBool,
    pub(crate) texts: Mutex<Vec<String>>,
    pub(crate) asked: AtomicUsize,
    pub(crate) fails: AtomicBool,
}

impl Toy {
    pub(crate) fn new(model: &str) -> Arc<Self> {
        let origin = Origin { provider: "local".into(), model: model.into(), key: "k".into() };
        let (texts, asked, fails) = (Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicBool::new(false));
        let (dims, is_empty) = (AtomicUsize::new(64), AtomicBool::new(false));
        Arc::new(Self { origin, dims, is_empty, texts, asked, fails })
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let dims = self.dims.load(Ordering::Relaxed);
        if self.is_empty.load(Ordering::Relaxed) {
            return vec![0.0; dims];
        }
        let mut vector = vec![0.001_f32; dims];
        for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
        {
            let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
            vector[(hash % dims as u64) as usize] += if hash & (1 << 40) == 0 { 1.0 } else { -1.0 };
        }
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        vector.into_iter().map(|value| value / length).collect()
    }
}

impl Embedder for Toy {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        _purpose: Purpose,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, EmbedError>> {
        Box::pin(async move {
            if self.fails.load(Ordering::Relaxed) {
                return Err(EmbedError {
                    kind: EmbedErrorKind::Later { after: None },
                    message: "the toy is broken".into(),
                });
            }
            self.asked.fetch_add(texts.len(), Ordering::Relaxed);
            self.texts.lock().unwrap().extend(texts.iter().cloned());
            Ok(texts.iter().map(|text| self.vector(text)).collect())
        })
    }
}

pub(crate) struct Scratch {
    folder: Arc<tempfile::TempDir>,
    name: &'static str,
    pub(crate) space: Space,
    pub(crate) settings: Settings,
    pub(crate) toy: Option<Arc<Toy>>,
    pub(crate) trusted: bool,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(folder.path().join("workspace/memory")).unwrap();
        let settings = Settings { enabled: true, ..Settings::default() };
        let toy = Some(Toy::new("toy"));
        Self { folder, name: "workspace", space: Space::Workspace, settings, toy, trusted: true }
    }

    /// The same agent in another workspace.
    pub(crate) fn beside(&self, name: &'static str) -> Self {
        std::fs::create_dir_all(self.root().join(name).join("memory")).unwrap();
        Self { name, ..self.with_space(self.space) }
    }

    /// The same workspace, seen in another way.
    pub(crate) fn with_space(&self, space: Space) -> Self {
        let Self { folder, name, settings, toy, trusted, .. } = self;
        Self {
            folder: folder.clone(),
            name,
            space,
            settings: settings.clone(),
            toy: toy.clone(),
            trusted: *trusted,
        }
    }

    /// Words only.
    pub(crate) fn without_vectors() -> Self {
        Self { toy: None, ..Self::new() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    pub(crate) fn agent(&self) -> AgentDir {
        StateDir::at(self.state()).agent(&AgentId::default())
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root().join(self.name)
    }

    pub(crate) fn index_file(&self) -> PathBuf {
        match self.space {
            Space::Workspace => {
                WorkspaceId::of(&self.workspace()).folder(&self.agent()).join("memory-index.db")
            }
            Space::Shared | Space::Unassigned => self.agent().index_file(),
        }
    }

    pub(crate) fn note(&self, path: &str, text: &str) {
        let file = self.workspace().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    pub(crate) fn said(&self, session: &str, lines: &[(&str, &str)]) {
        let file = self.agent().transcript_file(session, None);
        let mut transcript = Transcript::open(file, session, &self.workspace(), Arc::new(Noon)).unwrap();
        for (role, text) in lines {
            match *role {
                "user" => transcript.user(text).unwrap(),
                "tool" => transcript.tool_result("c", "web_fetch", text, false).unwrap(),
                _ => transcript.assistant(text, None).unwrap(),
            }
        }
    }

    pub(crate) fn memory(&self) -> Memory {
        Memory::new(Setup {
            agent: self.agent(),
            workspace: self.workspace(),
            space: self.space,
            trusted: self.trusted,
            settings: self.settings.clone(),
            embedder: self.toy.clone().map(|toy| toy as Arc<dyn Embedder>),
            clock: Arc::new(Noon),
        })
    }

    pub(crate) async fn synced(&self) -> (Memory, Synced) {
        let memory = self.memory();
        let synced = sync(&memory).await;
        (memory, synced)
    }

    pub(crate) fn database(&self) -> rusqlite::Connection {
        let file = self.index_file();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        rusqlite::Connection::open(file).unwrap()
    }

    pub(crate) fn count(&self, sql: &str) -> i64 {
        self.database().query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

pub(crate) async fn sync(memory: &Memory) -> Synced {
    memory.sync(Scope::All, WAIT, &|_| {}).await.unwrap()
}

pub(crate) async fn ask(memory: &Memory, query: &str) -> SearchAnswer {
    memory.search(&Request::new(query)).await.unwrap()
}

pub(crate) fn paths(answer: &SearchAnswer) -> Vec<&str> {
    answer.hits.iter().map(|hit| hit.path.as_str()).collect()
}

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The files below a folder that hold some bytes, in any case of letters.
pub(crate) fn holding(folder: &Path, needle: &str) -> Vec<PathBuf> {
    let needle = needle.to_lowercase();
    let holds = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap().to_ascii_lowercase();
        bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
    };
    files(folder).into_iter().filter(holds).collect()
}
