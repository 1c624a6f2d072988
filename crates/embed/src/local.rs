//! Local embedding models, loaded from a folder; no network access.
//!
//! Two kinds: a static table (WordLlama, Model2Vec), where a text is the mean of its tokens' vectors, and a small
//! BERT encoder (all-MiniLM). Files are checked when the model is opened and read when the first text comes.

mod encoder;
pub(crate) mod folder;
mod lanes;
mod run;
mod safetensors;
mod table;
mod tokenizer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pollux_config::paths::sha256_hex;
use pollux_domain::BoxFuture;
use pollux_domain::embedding::{EmbedError, EmbedErrorKind, Embedder, Origin, Purpose};

use encoder::{Encoder, Shape};
use folder::Folder;
use run::Stop;
use safetensors::SafeTensors;
use table::Table;
use tokenizer::Tokenizer;

/// Changes when the same files would give other vectors.
const REVISION: &str = "1";
const QUERY_LIMIT: Duration = Duration::from_secs(300);
const DOCUMENT_LIMIT: Duration = Duration::from_secs(600);

/// Why a model in a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("`{}` is not a folder with a model", path.display())]
    NoFolder { path: PathBuf },
    #[error("the model in `{}` has no `{name}`", folder.display())]
    NoFile { folder: PathBuf, name: String },
    #[error("could not read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be used: {reason}", path.display())]
    Content { path: PathBuf, reason: String },
    #[error(
        "`{}` has changed since it was installed (SHA-256 is {found}, expected {expected}); reinstall the model",
        path.display()
    )]
    Changed { path: PathBuf, expected: String, found: String },
    #[error("the model has neither a static table nor an encoder")]
    NoTensors,
    #[error("a worker thread ended early")]
    Gone,
}

/// A model in a folder.
#[derive(Debug, Clone)]
pub struct LocalModel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: Folder,
    origin: Origin,
    kind: Kind,
    loaded: OnceLock<Loaded>,
    /// Held while files are read, so that two first questions do not read them twice.
    loading: Mutex<()>,
}

/// Read from the file headers only.
#[derive(Debug, Clone)]
enum Kind {
    Table { width: usize },
    Encoder(Shape),
}

#[derive(Debug)]
struct Loaded {
    tokenizer: Tokenizer,
    network: Network,
}

#[derive(Debug)]
enum Network {
    Table(Table),
    Encoder(Box<Encoder>),
}

impl LocalModel {
    /// Checks the files of a model. Slow parts (hashes, the tokenizer) are computed once and stored in `cache`, or in
    /// the model's folder if none is given.
    pub fn open(folder: &Path, cache: Option<&Path>) -> Result<Self, ModelError> {
        let folder = Folder::open(folder, cache)?;
        let file = SafeTensors::open(&folder.weights)?;
        let is_encoder = ["", "bert."]
            .iter()
            .any(|prefix| file.get(&format!("{prefix}embeddings.word_embeddings.weight")).is_some());
        let kind = if is_encoder {
            Kind::Encoder(Shape::read(&folder.config())?)
        } else {
            let table = Table::open(file, None)?.ok_or(ModelError::NoTensors)?;
            Kind::Table { width: table.width() }
        };
        let hashes: Vec<&str> = folder.sealed.iter().map(|seal| seal.sha256.as_str()).collect();
        let key = sha256_hex(format!("{REVISION} {}", hashes.join(" ")).as_bytes());
        let origin = Origin { provider: "local".to_owned(), model: folder.name.clone(), key };
        Ok(Self {
            inner: Arc::new(Inner { folder, origin, kind, loaded: OnceLock::new(), loading: Mutex::new(()) }),
        })
    }

    /// How many numbers a vector has.
    pub fn dimensions(&self) -> usize {
        match &self.inner.kind {
            Kind::Table { width } => *width,
            Kind::Encoder(shape) => shape.width(),
        }
    }

    /// Whether both give the same vectors, file for file.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.inner.origin.key == other.inner.origin.key
    }

    /// Embeds on the calling thread and a few more; blocks.
    pub fn embed_now(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.inner.embed(texts, &Stop::default())
    }
}

impl Inner {
    fn loaded(&self) -> Result<&Loaded, ModelError> {
        let _one = if self.loaded.get().is_none() { self.loading.lock().ok() } else { None };
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let tokenizer = self.folder.load_tokenizer()?;
        let file = SafeTensors::open(&self.folder.weights)?;
        let network = match &self.kind {
            Kind::Table { .. } => {
                Network::Table(Table::open(file, tokenizer.unknown())?.ok_or(ModelError::NoTensors)?)
            }
            Kind::Encoder(shape) => Network::Encoder(Box::new(Encoder::load(shape.clone(), file)?)),
        };
        Ok(self.loaded.get_or_init(|| Loaded { tokenizer, network }))
    }

    fn embed(&self, texts: &[String], stop: &Stop) -> Result<Vec<Vec<f32>>, ModelError> {
        let loaded = self.loaded()?;
        match (&loaded.network, &self.kind) {
            (Network::Encoder(encoder), Kind::Encoder(shape)) => {
                run::encode(encoder, &loaded.tokenizer, shape.window(), texts, stop)
            }
            (Network::Table(table), _) => run::look_up(table, &loaded.tokenizer, texts),
            (Network::Encoder(_), Kind::Table { .. }) => Err(ModelError::NoTensors),
        }
    }
}

impl Embedder for LocalModel {
    fn origin(&self) -> &Origin {
        &self.inner.origin
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        purpose: Purpose,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, EmbedError>> {
        Box::pin(async move {
            let limit = if purpose == Purpose::Query { QUERY_LIMIT } else { DOCUMENT_LIMIT };
            let stop = Stop::default();
            // Dropping this future cancels the work.
            let _guard = stop.guard();
            let (inner, texts) = (Arc::clone(&self.inner), texts.to_vec());
            let work = tokio::task::spawn_blocking(move || inner.embed(&texts, &stop));
            let name = &self.inner.origin.model;
            match tokio::time::timeout(limit, work).await {
                Ok(Ok(Ok(vectors))) => Ok(vectors),
                Ok(Ok(Err(error))) => Err(failed(EmbedErrorKind::Setup, name, &error.to_string())),
                Ok(Err(_)) => Err(failed(EmbedErrorKind::Other, name, "its worker thread ended early")),
                Err(_) => {
                    let reason = format!("it took longer than {} s", limit.as_secs());
                    Err(failed(EmbedErrorKind::Other, name, &reason))
                }
            }
        })
    }
}

fn failed(kind: EmbedErrorKind, model: &str, reason: &str) -> EmbedError {
    EmbedError { kind, message: format!("the local embedding model `{model}` failed: {reason}") }
}

/// Scales a vector to length 1; one without a direction stays as it is.
pub(crate) fn to_unit(vector: &mut [f32]) {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
}
