//! Session files: recording, reading, listing, resuming, deleting.
//!
//! Owns: the session file formats (ours and all of upstream's), the single writer with its lock,
//! the repair of truncated files, the conversion to a conversation that a model accepts, separately
//! stored values, and the project files for prompts and saved conversations.
//! Does not own: file locations (`config`), when to record (`agent`), display and exit
//! codes (`cli`).
//! Start at [`Recorder`] for writing, [`load`] and [`history`] for resuming, [`summarise`], [`visit_texts`] and
//! [`write_transcript`] for reading files of any size, [`list`] and [`find_project`] for finding.

mod blobs;
mod checkpoint;
mod delete;
mod document;
mod export;
mod find_project;
mod history;
mod import;
mod index;
mod kind;
mod last_model;
mod listing;
mod load;
mod lock;
mod message;
mod projects;
mod prompt_log;
mod raw;
mod record;
mod recorder;
mod redo;
mod reservation;
mod reserved;
mod retention;
mod salvage;
mod session_model;
mod shell_history;
mod spending;
mod stream;
mod summary;
mod texts;
mod title;
mod transcript;
mod verify;
mod view;

pub use checkpoint::{
    Checkpoint, CheckpointError, CheckpointInfo, checkpoint_file, delete_checkpoint, delete_checkpoint_in,
    list_checkpoints, list_checkpoints_in, load_checkpoint, load_checkpoint_in, save_checkpoint,
};
pub use delete::{DeleteError, delete};
pub use export::export;
pub use find_project::{NameMatch, ProjectCandidate, ProjectSearch, Proof, default_bases, find_project};
pub use history::{RestoredTurn, history, into_history, summarised_prompt};
pub use import::{ImportError, import};
pub use index::{IndexRecord, summarise};
pub use kind::SessionKind;
pub use last_model::last_model;
pub use listing::{
    Listing, SelectError, SessionInfo, exists, files_of, list, list_projects, list_text, relative_time,
    select, select_anywhere, session_files, subagent_files, subagents, unreadable_folders,
};
pub use load::{LoadError, RepairNote, StoredSession, load};
pub use lock::{LockHolder, used_by};
pub use message::encode::display as display_json;
pub use message::own::UserSource;
pub use message::{
    Compression, Message, MessageId, NoticeMessage, ReplyMessage, StoredCall, StoredStatus, UserMessage,
};
pub use pollux_config::groups::SessionFormat;
pub use projects::{KnownProject, known_projects};
pub use prompt_log::{PromptLogError, log_prompt, logged_prompts, logged_prompts_in};
pub use record::{CallRecord, CallResult, NewSession, ReplyRecord};
pub use recorder::{
    ForkError, RecordError, Recorder, RecorderEvent, ResumeError, TitleWriter, new_message_id,
};
pub use reservation::IdReservation;
pub use retention::{
    Applied, Plan, PlannedFile, Reason, Removal, RetentionError, RetentionPolicy, apply, belongings,
    delete_leftovers, leftovers, plan,
};
pub use session_model::SessionModel;
pub use shell_history::{ShellHistoryError, add_shell_command, shell_history, shell_history_in};
pub use spending::{Spending, spending};
pub use stream::damage;
pub use summary::{SummaryError, set_summary, set_title};
pub use texts::{TextKind, TextVisitor, visit_texts};
pub use transcript::{Transcript, TranscriptError, TranscriptForm, write_transcript};
pub use verify::{FileReport, Problem, RepairError, Repaired, repair, verify, verify_file};
