//! Text embeddings from Gemini, any OpenAI-compatible server, or a local model.
//!
//! Owns: the providers of [`pollux_domain::embedding::Embedder`], their batching and waiting, reading and
//! installing local models. Does not own: the texts to embed and the storage of vectors (`memory`).
//! Start at [`choose`]; a model gets onto the disk with [`install`].
//!
//! Local models are computed here, without a framework: a static table is a sum of rows, and the small encoder is
//! one kind of matrix product (`local/lanes.rs`). Nothing of it is read before the first text comes.

mod batches;
mod choice;
pub mod install;
mod local;
mod remote;

pub use choice::{Choice, EmbedContext, EmbedSettings, Provider, Skipped, StartError, choose, start};
pub use local::{LocalModel, ModelError};
pub use remote::{Protocol, RemoteError, RemoteModel, RemoteOptions};
