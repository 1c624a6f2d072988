//! Exports a session as one self-contained JSON document.

use std::path::Path;

use serde_json::{Value, json};

use crate::blobs::{self, Blobs};
use crate::index::summarise;
use crate::load::{self, LoadError, RepairNote};

/// The complete session in the format of upstream's `/export-session`.
/// Separately stored values are inserted; missing ones stay excerpts. Returns also what is damaged in the file.
pub fn export(path: &Path) -> Result<(Value, Option<RepairNote>), LoadError> {
    let (bytes, _, mut folded) = load::read_folded(path)?;
    drop(bytes);
    let apart = Blobs::of_file(path);
    for message in folded.messages.iter_mut().filter_map(Value::as_object_mut) {
        blobs::resolve(&apart, message);
    }
    let known = summarise(path)?;
    let mut record = folded.meta;
    record.remove("messages");
    record.entry("startTime").or_insert_with(|| json!(known.start.to_iso()));
    record.entry("lastUpdated").or_insert_with(|| json!(known.last_updated.to_iso()));
    record.insert("messageCount".into(), json!(folded.messages.len()));
    record.insert("userMessageCount".into(), json!(known.user_messages));
    record.insert("firstUserMessage".into(), json!(known.first_user));
    record.insert("hasResumableContent".into(), json!(known.resumable));
    record.insert("messages".into(), Value::Array(folded.messages));
    Ok((Value::Object(record), folded.repaired))
}
