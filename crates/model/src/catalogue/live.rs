//! What servers said about their models, kept in a file between runs.
//!
//! Use [`LiveFile::read`] for one provider and [`LiveFile::record`] after a server was asked. Answers count only for
//! the address they came from. A missing or damaged file means that nobody was asked yet.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use pollux_domain::model::{Effort, MicroUsd, Prices};
use serde::{Deserialize, Serialize};

use super::known::ModelOverride;

/// What a server says of its models, by name.
pub type LiveModels = BTreeMap<String, ModelOverride>;

/// More models of one provider are not kept.
const MAX_MODELS: usize = 5_000;
/// Longer names are not models.
const MAX_NAME: usize = 256;
/// A larger file is not ours.
const MAX_FILE: usize = 16 * 1024 * 1024;

/// The file that keeps the answers of servers.
#[derive(Debug, Clone)]
pub struct LiveFile {
    path: PathBuf,
}

/// Why answers could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum LiveFileError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// The answers of one provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveProvider {
    /// When it was asked, as `2026-11-16T12:00:00.000Z`.
    pub asked: String,
    pub models: LiveModels,
}

impl LiveFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What a provider said at this address.
    pub fn read(&self, provider: &str, origin: &str) -> Option<LiveProvider> {
        let row = self.rows().providers.remove(provider).filter(|row| row.origin == origin)?;
        let models = row.models.iter().filter(|(name, _)| is_name(name));
        let models = models.map(|(name, row)| (name.clone(), row.said())).collect();
        Some(LiveProvider { asked: row.asked, models })
    }

    /// Keeps what a provider said, in place of what it said before.
    pub fn record(&self, provider: &str, origin: &str, said: &LiveProvider) -> Result<(), LiveFileError> {
        let _lock = FileLock::acquire(&self.path)?;
        let mut rows = self.rows();
        let models = said.models.iter().filter(|(name, _)| is_name(name)).take(MAX_MODELS);
        let row = ProviderEntry {
            origin: origin.to_owned(),
            asked: said.asked.clone(),
            models: models.map(|(name, said)| (name.clone(), Entry::of(said))).collect(),
        };
        rows.providers.insert(provider.to_owned(), row);
        let text = serde_json::to_vec(&rows).unwrap_or_default();
        Ok(files::replace(&self.path, &text, Mode::Private)?)
    }

    fn rows(&self) -> Entries {
        let text = files::read_text(&self.path).ok().flatten().filter(|text| text.len() <= MAX_FILE);
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }
}

/// Whether a server's word can be the name of a model.
fn is_name(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control)
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Entries {
    providers: BTreeMap<String, ProviderEntry>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ProviderEntry {
    origin: String,
    asked: String,
    models: BTreeMap<String, Entry>,
}

/// A model in the file; what the server did not say is left out.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    can: BTreeMap<String, bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    efforts: Option<Vec<String>>,
    /// In millionths of a dollar for a million tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<PriceEntry>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PriceEntry {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl Entry {
    fn of(said: &ModelOverride) -> Self {
        let can = [
            ("tools", said.tools),
            ("toolChoice", said.tool_choice),
            ("images", said.images),
            ("pdf", said.pdf),
            ("audio", said.audio),
            ("reasoning", said.reasoning),
            ("structured", said.structured),
            ("sampling", said.sampling),
        ];
        Self {
            context: said.context,
            output: said.output,
            can: can.into_iter().filter_map(|(name, able)| Some((name.to_owned(), able?))).collect(),
            efforts: said
                .efforts
                .as_ref()
                .map(|efforts| efforts.iter().map(|effort| effort.as_str().to_owned()).collect()),
            price: said.prices.as_ref().map(|prices| PriceEntry {
                input: prices.input.0,
                output: prices.output.0,
                cache_read: prices.cached.0,
                cache_write: prices.cache_write.0,
            }),
        }
    }

    fn said(&self) -> ModelOverride {
        let able = |name: &str| self.can.get(name).copied();
        ModelOverride {
            context: self.context.filter(|tokens| *tokens > 0),
            output: self.output.filter(|tokens| *tokens > 0),
            tools: able("tools"),
            tool_choice: able("toolChoice"),
            images: able("images"),
            pdf: able("pdf"),
            audio: able("audio"),
            reasoning: able("reasoning"),
            structured: able("structured"),
            sampling: able("sampling"),
            compact: None,
            efforts: self
                .efforts
                .as_ref()
                .map(|words| words.iter().filter_map(|word| Effort::parse(word)).collect()),
            prices: self.price.map(|price| Prices {
                input: MicroUsd(price.input),
                output: MicroUsd(price.output),
                cached: MicroUsd(price.cache_read),
                cache_write: MicroUsd(price.cache_write),
                above: None,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> LiveProvider {
        let price = Prices {
            input: MicroUsd(2),
            output: MicroUsd(3),
            cached: MicroUsd(1),
            cache_write: MicroUsd(4),
            above: None,
        };
        let full = ModelOverride {
            context: Some(9_000),
            output: Some(100),
            tools: Some(false),
            images: Some(true),
            efforts: Some(vec![Effort::Low, Effort::Max]),
            prices: Some(price),
            ..ModelOverride::default()
        };
        let models = [("a/b".to_owned(), full), ("silent".to_owned(), ModelOverride::default())];
        LiveProvider { asked: "2026-11-16T00:00:00.000Z".into(), models: models.into() }
    }

    #[test]
    fn answers_are_kept_for_their_address_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = LiveFile::new(folder.path().join("models.json"));
        assert_eq!(file.read("lab", "https://lab"), None);
        file.record("lab", "https://lab", &said()).unwrap();
        file.record("other", "https://other", &LiveProvider::default()).unwrap();
        assert_eq!(file.read("lab", "https://lab"), Some(said()));
        assert_eq!(file.read("lab", "https://elsewhere"), None);
    }

    #[test]
    fn odd_names_and_floods_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = LiveFile::new(folder.path().join("models.json"));
        let many = (0..MAX_MODELS + 10).map(|number| format!("m{number}"));
        let odd = ["", " ", "a\u{1b}[31m", &"x".repeat(MAX_NAME + 1)].map(str::to_owned);
        let models = odd.into_iter().chain(many).map(|name| (name, ModelOverride::default()));
        let flood = LiveProvider { asked: String::new(), models: models.collect() };
        file.record("lab", "o", &flood).unwrap();
        let kept = file.read("lab", "o").unwrap().models;
        assert_eq!(kept.len(), MAX_MODELS);
        assert!(kept.keys().all(|name| name.starts_with('m')));
    }

    #[test]
    fn a_damaged_file_counts_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models.json");
        for text in ["", "{", "[]", r#"{"providers": 3}"#, r#"{"providers": {"lab": {"models": [1]}}}"#] {
            files::replace(&path, text.as_bytes(), Mode::Private).unwrap();
            assert_eq!(LiveFile::new(path.clone()).read("lab", ""), None, "{text}");
        }
        LiveFile::new(path.clone()).record("lab", "o", &said()).unwrap();
        assert_eq!(LiveFile::new(path).read("lab", "o"), Some(said()));
    }
}
