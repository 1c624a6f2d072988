//! The durable memory: stores conversations and learnings in files, and searches them.
//!
//! Owns: the state directory, its session store and transcripts, the index (full text and vectors), search,
//! learnings. Does not own: embeddings (`embed`), when to record, output.
//! Start at [`Memory`]: [`Memory::sync`] updates the index, [`Memory::search`] queries it. Nothing is
//! opened, created or watched before the first call.

mod authorship;
mod chunk;
mod dates;
mod excerpt;
mod export;
mod forget;
mod forgotten;
mod index;
mod indexer;
mod learnings;
mod lock;
mod memory;
mod recall;
mod recency;
mod redaction;
mod scripts;
mod search;
mod session_key;
mod settings;
mod setup;
mod source;
mod state;
mod status;
mod store;
mod transcript;
mod vector;
mod workspace;

pub use authorship::{AuthorshipError, ModelNotes};
pub use excerpt::{Excerpt, GetError};
pub use export::ExportError;
pub use forget::{Forget, ForgetError, Forgotten};
pub use index::error::IndexError;
pub use index::sync::{Progress, Scope, Step, Synced};
pub use indexer::{Indexer, Trigger};
pub use learnings::{
    Added, Candidate, Category, Confidence, EXTRACTION_PROMPT, Learning, Learnings, LearningsError, Turn,
    extract, from_model,
};
pub use lock::OwnedLockError;
pub use memory::{Memory, Refreshed};
pub use recall::render;
pub use recency::{MessageKind, recency_split};
pub use search::answer::{Explain, Hit, Request, SearchAnswer};
pub use session_key::SessionKey;
pub use settings::{
    CacheSettings, ChunkMode, Chunking, Provider, QuerySettings, SearchMode, Settings, StoreSettings,
    SyncSettings,
};
pub use setup::Setup;
pub use source::{Provenance, Source};
pub use state::{AgentDir, AgentId, STATE_DIR_VARIABLE, StateDir, StateError};
pub use status::{Finding, Level, Status};
pub use store::{CACHE_TTL_VARIABLE, SessionStore, StoreError, cache_ttl};
pub use transcript::{Transcript, TranscriptError};
pub use workspace::{AdoptError, Space, WorkspaceId, adopt};
