//! The settings under `memory`, with every value in its range.

use std::time::Duration;

use pollux_domain::JsonObject;
use serde_json::Value;

use crate::source::Source;
use crate::state::AgentId;

const AGENT_NAME: &str = "a name of lower-case letters, digits, `-` and `_`";

/// The embedding provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    Openai,
    Gemini,
    Local,
    Auto,
}

/// How texts are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkMode {
    /// Like gimli: lines up to a size, regardless of structure.
    Seed,
    /// New chunks at headings, items and turns; the trail of headings is part of what is embedded.
    V2,
}

/// How results are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SearchMode {
    /// gimli's formula, for comparison.
    Seed,
    V2,
}

/// The effective settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub enabled: bool,
    /// The agent whose memory is used; the default agent unless set.
    pub agent: AgentId,
    /// Whether workspaces can search each other's memory.
    pub share_across_workspaces: bool,
    pub provider: Provider,
    pub model: Option<String>,
    pub fallback: Option<Provider>,
    pub sources: Vec<Source>,
    /// More files and folders to index.
    pub extra_paths: Vec<String>,
    pub store: StoreSettings,
    pub chunking: Chunking,
    pub cache: CacheSettings,
    pub sync: SyncSettings,
    pub query: QuerySettings,
    /// Token budget for learnings in the context.
    pub learnings_tokens: usize,
    pub citations: bool,
    /// `remote`, passed to the embedding provider.
    pub remote: JsonObject,
    /// `local`, passed to the embedding provider.
    pub local: JsonObject,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// Custom index path; `{agentId}` and `{workspace}` are placeholders.
    pub path: Option<String>,
    pub vector: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    pub mode: ChunkMode,
    pub tokens: usize,
    pub overlap: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    pub enabled: bool,
    pub max_entries: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncSettings {
    pub watch: bool,
    pub watch_debounce: Duration,
    /// `None`: never by time.
    pub interval: Option<Duration>,
    pub on_search: bool,
    pub on_session_start: bool,
    pub delta_bytes: u64,
    pub delta_messages: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuerySettings {
    pub mode: SearchMode,
    pub max_results: usize,
    pub min_score: f64,
    pub hybrid: bool,
    /// Weights of vectors and keywords; `None` for the defaults of the mode.
    pub weights: Option<(f64, f64)>,
    pub candidate_multiplier: f64,
}

impl Provider {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Gemini => "gemini",
            Self::Local => "local",
            Self::Auto => "auto",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Openai, Self::Gemini, Self::Local, Self::Auto].into_iter().find(|known| known.as_str() == text)
    }
}

impl ChunkMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::V2 => "v2",
        }
    }
}

impl SearchMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::V2 => "v2",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Seed, Self::V2].into_iter().find(|known| known.as_str() == text)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: false,
            agent: AgentId::default(),
            share_across_workspaces: false,
            provider: Provider::Auto,
            model: None,
            fallback: None,
            sources: vec![Source::Memory, Source::Sessions],
            extra_paths: Vec::new(),
            store: StoreSettings { path: None, vector: true },
            chunking: Chunking { mode: ChunkMode::Seed, tokens: 400, overlap: 80 },
            cache: CacheSettings { enabled: true, max_entries: 50_000 },
            sync: SyncSettings {
                watch: true,
                watch_debounce: Duration::from_millis(1500),
                interval: None,
                on_search: true,
                on_session_start: true,
                delta_bytes: 100_000,
                delta_messages: 50,
            },
            query: QuerySettings {
                mode: SearchMode::V2,
                max_results: 6,
                min_score: 0.35,
                hybrid: true,
                weights: None,
                candidate_multiplier: 4.0,
            },
            learnings_tokens: 800,
            citations: true,
            remote: JsonObject::new(),
            local: JsonObject::new(),
        }
    }
}

impl Settings {
    /// Reads the map `memory`; invalid values are reported and keep their default.
    pub fn from_json(map: &JsonObject) -> (Self, Vec<String>) {
        let mut settings = Self::default();
        let mut reader = Reader { map, problems: Vec::new() };
        settings.read_provider(&mut reader);
        settings.read_index(&mut reader);
        settings.read_sync(&mut reader);
        settings.read_query(&mut reader);
        (settings, reader.problems)
    }

    /// `remote`, passed to the embedding provider.
    pub fn remote(&self) -> &JsonObject {
        &self.remote
    }

    /// `local`, passed to the embedding provider.
    pub fn local(&self) -> &JsonObject {
        &self.local
    }

    fn read_provider(&mut self, reader: &mut Reader<'_>) {
        reader.flag("enabled", &mut self.enabled);
        reader.flag("shareAcrossWorkspaces", &mut self.share_across_workspaces);
        if let Some(agent) = reader.word("agent", AGENT_NAME, AgentId::parse) {
            self.agent = agent;
        }
        if let Some(provider) =
            reader.word("provider", "`openai`, `gemini`, `local` or `auto`", Provider::parse)
        {
            self.provider = provider;
        }
        let fallback = |text: &str| match text {
            "none" => Some(None),
            other => Provider::parse(other).map(Some),
        };
        if let Some(fallback) = reader.word("fallback", "`openai`, `gemini`, `local` or `none`", fallback) {
            self.fallback = fallback;
        }
        self.model =
            reader.word("model", "a name", |text| Some(text.to_owned())).filter(|name| !name.is_empty());
        for (name, place) in [("remote", &mut self.remote), ("local", &mut self.local)] {
            if let Some(Value::Object(object)) = reader.map.get(name) {
                *place = object.clone();
            }
        }
    }

    fn read_index(&mut self, reader: &mut Reader<'_>) {
        if let Some(names) = reader.texts("sources") {
            let mut sources: Vec<Source> = Vec::new();
            for name in &names {
                match Source::parse(name) {
                    Some(source) if !sources.contains(&source) => sources.push(source),
                    Some(_) => {}
                    None => reader.problem("sources", "`memory` and `sessions`"),
                }
            }
            if !sources.is_empty() {
                self.sources = sources;
            }
        }
        self.extra_paths = reader.texts("extraPaths").unwrap_or_default();
        self.store.path = reader.word("store.path", "a path", |text| Some(text.to_owned()));
        reader.flag("store.vector.enabled", &mut self.store.vector);
        if let Some(tokens) = reader.number("chunking.tokens", 1.0, 100_000.0) {
            self.chunking.tokens = tokens as usize;
        }
        if let Some(overlap) = reader.number("chunking.overlap", 0.0, 100_000.0) {
            self.chunking.overlap = overlap as usize;
        }
        self.chunking.overlap = self.chunking.overlap.min(self.chunking.tokens - 1);
        let mode =
            |text: &str| [ChunkMode::Seed, ChunkMode::V2].into_iter().find(|mode| mode.as_str() == text);
        if let Some(mode) = reader.word("chunking.mode", "`seed` or `v2`", mode) {
            self.chunking.mode = mode;
        }
        reader.flag("cache.enabled", &mut self.cache.enabled);
        if let Some(entries) = reader.number("cache.maxEntries", 1.0, 1e12) {
            self.cache.max_entries = entries as usize;
        }
    }

    fn read_sync(&mut self, reader: &mut Reader<'_>) {
        let sync = &mut self.sync;
        reader.flag("sync.watch", &mut sync.watch);
        reader.flag("sync.onSearch", &mut sync.on_search);
        reader.flag("sync.onSessionStart", &mut sync.on_session_start);
        if let Some(pause) = reader.number("sync.watchDebounceMs", 0.0, 3_600_000.0) {
            sync.watch_debounce = Duration::from_millis(pause as u64);
        }
        if let Some(minutes) = reader.number("sync.intervalMinutes", 0.0, 1e6) {
            sync.interval = (minutes > 0.0).then(|| Duration::from_secs_f64(minutes * 60.0));
        }
        if let Some(bytes) = reader.number("sync.sessions.deltaBytes", 0.0, 1e15) {
            sync.delta_bytes = bytes as u64;
        }
        if let Some(messages) = reader.number("sync.sessions.deltaMessages", 0.0, 1e12) {
            sync.delta_messages = messages as u64;
        }
    }

    fn read_query(&mut self, reader: &mut Reader<'_>) {
        let query = &mut self.query;
        if let Some(mode) = reader.word("search.mode", "`seed` or `v2`", SearchMode::parse) {
            query.mode = mode;
        }
        if let Some(results) = reader.number("query.maxResults", 1.0, 200.0) {
            query.max_results = results as usize;
        }
        if let Some(score) = reader.number("query.minScore", 0.0, 1.0) {
            query.min_score = score;
        }
        reader.flag("query.hybrid.enabled", &mut query.hybrid);
        let vector = reader.number("query.hybrid.vectorWeight", 0.0, 1.0);
        let text = reader.number("query.hybrid.textWeight", 0.0, 1.0);
        if vector.is_some() || text.is_some() {
            let (vector, text) = (vector.unwrap_or(0.7), text.unwrap_or(0.3));
            let sum = vector + text;
            query.weights = (sum > 0.0).then(|| (vector / sum, text / sum));
        }
        if let Some(multiplier) = reader.number("query.hybrid.candidateMultiplier", 1.0, 20.0) {
            query.candidate_multiplier = multiplier;
        }
        if let Some(tokens) = reader.number("learnings.tokens", 0.0, 100_000.0) {
            self.learnings_tokens = tokens as usize;
        }
        let citations = |text: &str| match text {
            "auto" | "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        if let Some(citations) = reader.word("citations", "`auto`, `on` or `off`", citations) {
            self.citations = citations;
        }
    }
}

struct Reader<'a> {
    map: &'a JsonObject,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn get(&self, path: &str) -> Option<&Value> {
        let mut parts = path.split('.');
        let first = self.map.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part)).filter(|value| !value.is_null())
    }

    fn problem(&mut self, path: &str, wanted: &str) {
        self.problems.push(format!("`memory.{path}` must be {wanted}; using the default"));
    }

    fn flag(&mut self, path: &str, place: &mut bool) {
        match self.get(path) {
            None => {}
            Some(Value::Bool(flag)) => *place = *flag,
            Some(_) => self.problem(path, "`true` or `false`"),
        }
    }

    /// Cut to its range; a text with a number in it counts too.
    fn number(&mut self, path: &str, least: f64, most: f64) -> Option<f64> {
        let value = self.get(path)?;
        let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
        match number.filter(|number| number.is_finite()) {
            Some(number) => Some(number.clamp(least, most)),
            None => {
                self.problem(path, "a number");
                None
            }
        }
    }

    fn word<T>(&mut self, path: &str, wanted: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let found = self.get(path)?.as_str().and_then(|text| read(text.trim()));
        if found.is_none() {
            self.problem(path, wanted);
        }
        found
    }

    fn texts(&mut self, path: &str) -> Option<Vec<String>> {
        let texts = self
            .get(path)?
            .as_array()
            .map(|items| items.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<String>>());
        if texts.is_none() {
            self.problem(path, "a list of strings");
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> (Settings, Vec<String>) {
        Settings::from_json(value.as_object().unwrap())
    }

    #[test]
    fn an_empty_map_is_the_default_and_off() {
        let (settings, problems) = read(json!({}));
        assert_eq!((settings, problems), (Settings::default(), Vec::new()));
        assert!(!Settings::default().enabled);
    }

    #[test]
    fn values_are_read_and_kept_in_their_range() {
        let (settings, problems) = read(json!({
            "enabled": true, "provider": "local", "fallback": "none", "sources": ["sessions"],
            "chunking": {"tokens": 10, "overlap": 50, "mode": "v2"},
            "query": {"minScore": 7, "maxResults": "9", "hybrid": {"vectorWeight": 0.5, "textWeight": 1}},
            "sync": {"intervalMinutes": 0.5, "sessions": {"deltaBytes": 0}},
            "search": {"mode": "seed"}, "citations": "off", "remote": {"baseUrl": "x"},
        }));
        assert_eq!(problems, Vec::<String>::new());
        assert!(settings.enabled && !settings.citations);
        assert_eq!(settings.chunking, Chunking { mode: ChunkMode::V2, tokens: 10, overlap: 9 });
        assert_eq!((settings.query.min_score, settings.query.max_results), (1.0, 9));
        assert_eq!(settings.query.weights, Some((0.5 / 1.5, 1.0 / 1.5)));
        assert_eq!((settings.sync.interval, settings.sync.delta_bytes), (Some(Duration::from_secs(30)), 0));
        assert_eq!(
            (settings.sources.as_slice(), settings.query.mode),
            (&[Source::Sessions][..], SearchMode::Seed)
        );
        assert_eq!(settings.remote()["baseUrl"], "x");
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let (settings, problems) =
            read(json!({"provider": "x", "enabled": 1, "query": {"minScore": "much"}}));
        assert_eq!(settings, Settings::default());
        assert_eq!(problems.len(), 3);
        assert!(problems[0].contains("`memory.enabled`"), "{problems:?}");
    }
}
