//! Identifies the model and chunking an index was built with; a change requires a rebuild.

use pollux_domain::JsonObject;
use pollux_domain::embedding::Origin;
use rusqlite::{Connection, OptionalExtension, Result};
use serde_json::{Value, json};

use crate::redaction;
use crate::settings::{ChunkMode, Chunking};
use crate::setup::Setup;

const KEY: &str = "memory_index_meta_v1";
/// Raise it when texts are cut differently.
const CHUNKING_VERSION: u64 = 5;
const NO_PROVIDER: &str = "none";
const NO_MODEL: &str = "fts-only";

/// Who made the vectors, and how texts were cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) origin: Origin,
    pub(crate) chunking: Chunking,
    pub(crate) dims: Option<usize>,
    pub(crate) chunking_version: u64,
    pub(crate) redaction_version: u64,
}

impl Identity {
    pub(crate) fn new(origin: Origin, chunking: Chunking) -> Self {
        let redaction_version = u64::from(redaction::VERSION);
        Self { origin, chunking, dims: None, chunking_version: CHUNKING_VERSION, redaction_version }
    }

    /// The origin of an index without vectors.
    pub(crate) fn nobody() -> Origin {
        Origin { provider: NO_PROVIDER.to_owned(), model: NO_MODEL.to_owned(), key: String::new() }
    }

    pub(crate) fn has_vectors(&self) -> bool {
        self.origin.provider != NO_PROVIDER
    }

    /// Reads it; `None` when it is missing or cannot be understood.
    pub(crate) fn read(connection: &Connection) -> Result<Option<Self>> {
        let sql = "SELECT value FROM meta WHERE key = ?1";
        let text: Option<String> =
            connection.prepare_cached(sql)?.query_row([KEY], |row| row.get(0)).optional()?;
        Ok(text
            .and_then(|text| serde_json::from_str::<JsonObject>(&text).ok())
            .and_then(|map| Self::parse(&map)))
    }

    fn parse(map: &JsonObject) -> Option<Self> {
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| map.get(name).and_then(Value::as_f64);
        let mode = match text("chunkMode").as_deref() {
            Some("v2") => ChunkMode::V2,
            // Gimli knows one way to cut only.
            _ => ChunkMode::Seed,
        };
        Some(Self {
            origin: Origin {
                provider: text("provider")?,
                model: text("model")?,
                key: text("providerKey").unwrap_or_default(),
            },
            chunking: Chunking {
                mode,
                tokens: number("chunkTokens")? as usize,
                overlap: number("chunkOverlap")? as usize,
            },
            dims: number("vectorDims").map(|dims| dims as usize),
            chunking_version: number("chunkingVersion").unwrap_or(0.0) as u64,
            redaction_version: number("redactionVersion").unwrap_or(0.0) as u64,
        })
    }

    pub(crate) fn write(&self, connection: &Connection) -> Result<()> {
        let mut value = json!({
            "model": self.origin.model, "provider": self.origin.provider, "providerKey": self.origin.key,
            "chunkTokens": self.chunking.tokens, "chunkOverlap": self.chunking.overlap,
            "chunkMode": self.chunking.mode.as_str(), "chunkingVersion": self.chunking_version,
            "redactionVersion": self.redaction_version, "provenanceVersion": 1,
        });
        if let (Some(dims), Some(map)) = (self.dims, value.as_object_mut()) {
            map.insert("vectorDims".to_owned(), dims.into());
        }
        connection
            .execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", [KEY, &value.to_string()])?;
        Ok(())
    }

    /// Why an index with this identity has to be made again for what is set now.
    pub(crate) fn outdated(&self, setup: &Setup) -> Option<String> {
        let mut wanted = Self::new(setup.origin(), setup.settings.chunking);
        if setup.embedder.is_none() && self.has_vectors() {
            // Without a provider for now: the vectors stay for when it is back.
            wanted.origin = self.origin.clone();
        }
        self.differs(&wanted)
    }

    /// Why an index with this identity cannot serve as one with the wanted.
    pub(crate) fn differs(&self, wanted: &Self) -> Option<String> {
        let (is, should) = (&self.origin, &wanted.origin);
        if is.provider != should.provider || is.model != should.model {
            return Some(format!(
                "the model is now {}/{} (was {}/{})",
                should.provider, should.model, is.provider, is.model
            ));
        }
        if is.key != should.key {
            return Some(format!("the connection to {} changed", should.provider));
        }
        if self.chunking != wanted.chunking || self.chunking_version != wanted.chunking_version {
            return Some("the chunking settings changed".to_owned());
        }
        (self.redaction_version != wanted.redaction_version).then(|| "the redaction rules changed".to_owned())
    }
}
