//! Session files as a whole: written, cut, read, listed, resumed, deleted.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "it/cuts.rs"]
mod cuts;
#[path = "it/foreign_text.rs"]
mod foreign_text;
#[path = "it/forms.rs"]
mod forms;
#[path = "it/growth.rs"]
mod growth;
#[path = "it/large.rs"]
mod large;
#[path = "it/listing.rs"]
mod listing;
#[path = "it/recording.rs"]
mod recording;
#[path = "it/scratch.rs"]
mod scratch;
#[path = "it/store.rs"]
mod store;
#[path = "it/torn.rs"]
mod torn;
#[path = "it/transcript.rs"]
mod transcript;
