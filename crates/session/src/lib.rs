//! Session files: recording, reading, listing, resuming, deleting.
//!
//! Owns: the form of a session file (ours and every one that upstream wrote), its one writer with its lock,
//! the repair of files that were cut, and the way back from a file to a conversation a model accepts.
//! Does not own: where the files are (`config`), when something is recorded (`agent`), screens and exit
//! codes (`cli`).
//! Start at [`Recorder`] for writing, [`load`] and [`history`] for reading, [`list`] for finding.

mod blobs;
mod delete;
mod document;
mod history;
mod import;
mod index;
mod listing;
mod load;
mod lock;
mod message;
mod projects;
mod raw;
mod recorder;
mod salvage;
mod stream;
mod texts;
mod title;
mod transcript;
mod view;

pub use delete::{DeleteError, delete};
pub use history::{RestoredTurn, history};
pub use import::{ImportError, import};
pub use index::{IndexRecord, summarise};
pub use listing::{
    Listing, SelectError, SessionInfo, exists, list, list_projects, list_text, relative_time, select,
    select_anywhere, session_files, subagent_files, subagents,
};
pub use load::{LoadError, RepairNote, SessionKind, StoredSession, load};
pub use message::{
    Compression, Message, MessageId, NoticeMessage, ReplyMessage, StoredCall, StoredStatus, UserMessage,
};
pub use pollux_config::groups::SessionFormat;
pub use projects::{KnownProject, known_projects};
pub use recorder::{CallRecord, CallResult, ForkError, NewSession, RecordError, Recorder, ReplyRecord, ResumeError};
pub use texts::{TextKind, TextVisitor, visit_texts};
pub use transcript::{TranscriptError, TranscriptForm, write_transcript};
