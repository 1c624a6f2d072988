//! Converts files to our layout.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use pollux_config::files::{self, Mode};
use pollux_domain::JsonObject;
use pollux_domain::json::parse_lenient_str;
use serde_json::{Value, json};

use super::Form;
use super::document_writer::DocumentWriter;
use super::medium::{SessionFile, replace_file};
use super::resume::keep_copy;
use crate::document::{self, Ending, INDENT, TAIL};
use crate::load::{self, Folded, StoredSession};
use crate::stream::Stream;

/// Brings a file of another layout into ours, once; every field of every message stays.
/// `None` if the file would not say the same afterwards.
pub(super) fn whole(
    path: &Path,
    bytes: &[u8],
    folded: Folded,
    session: &StoredSession,
) -> io::Result<Option<Form>> {
    let meta = completed(folded.meta, session);
    let new = document::encode(&meta, session.last_updated, &folded.messages);
    let Some(check) = document::scan(&new) else { return Ok(None) };
    let Some(stamp_at) = check.stamp_at else { return Ok(None) };
    if check.ending != Ending::Whole || check.messages != folded.messages {
        return Ok(None);
    }
    if folded.repaired.is_some() {
        keep_copy(path, bytes, "torn", session.stamp)?;
    }
    let file = replace_file(path, |file| file.write_all(&new))?;
    let has_messages = !check.messages.is_empty();
    let file = SessionFile::boxed(file, path);
    let writer = DocumentWriter::continue_at(file, stamp_at, check.end as u64, has_messages);
    Ok(Some(Form::Document(writer)))
}

/// The same for a large undamaged object, one message at a time: it is never held as a whole.
pub(super) fn streamed(path: &Path, stream: &Stream, session: &StoredSession) -> io::Result<Option<Form>> {
    let meta = completed(stream.meta.clone(), session);
    let (head, stamp_at) = document::encode_head(&meta, session.last_updated);
    let mut done = None;
    let replaced = files::replace_with(path, Mode::Private, |file| {
        let written = write_document(file, &head, stream)?;
        if says_the_same(file, stream)? {
            done = Some((written, file.try_clone()?));
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    });
    let Some((end, file)) = done else {
        // What cannot be copied like this may still be read as a whole; a full disk would be in the way again.
        return match replaced {
            Err(error) if !is_unfit(&error) => Err(io::Error::other(error)),
            Ok(()) | Err(_) => Ok(None),
        };
    };
    replaced.map_err(io::Error::other)?;
    let file = SessionFile::boxed(file, path);
    Ok(Some(Form::Document(DocumentWriter::continue_at(file, stamp_at, end, true))))
}

fn is_unfit(error: &files::FileError) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|source| source.kind() == io::ErrorKind::InvalidData)
}

/// Writes every message on a line of its own; returns where the tail is.
fn write_document(file: &mut File, head: &[u8], stream: &Stream) -> io::Result<u64> {
    let mut out = BufWriter::new(file);
    let mut end = head.len();
    out.write_all(head)?;
    let mut buffer = Vec::new();
    for index in 0..stream.len() {
        let message = message(stream, index, &mut buffer)?;
        let comma: &[u8] = if index > 0 { b"," } else { b"" };
        let line = [comma, INDENT, message.to_string().as_bytes()].concat();
        end += line.len();
        out.write_all(&line)?;
    }
    out.write_all(TAIL)?;
    out.flush()?;
    Ok(end as u64)
}

/// A message that has a name; one without is named by the reader of whole files.
fn message(stream: &Stream, index: usize, buffer: &mut Vec<u8>) -> io::Result<Value> {
    let message: Value = parse_lenient_str(&stream.text(index, buffer)?)?;
    match message.get("id") {
        Some(Value::String(_)) => Ok(message),
        Some(_) | None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Whether what was written reads as what was there.
fn says_the_same(file: &File, stream: &Stream) -> io::Result<bool> {
    let Some(frame) = load::frame(file, load::stamp_of(&file.metadata()?)) else { return Ok(false) };
    let mut buffer = Vec::new();
    let mut seen = 0;
    let compared = frame.for_each(file, |line| {
        let written: Value = serde_json::from_slice(line).ok()?;
        let same = message(stream, seen, &mut buffer).ok()? == written;
        seen += 1;
        same.then_some(())
    });
    let known = |(key, value): (&String, &Value)| key == "lastUpdated" || frame.meta.get(key) == Some(value);
    Ok(compared.is_some() && seen == stream.len() && stream.meta.iter().all(known))
}

fn completed(mut meta: JsonObject, session: &StoredSession) -> JsonObject {
    meta.entry("startTime").or_insert_with(|| json!(session.start.to_iso()));
    meta.entry("kind").or_insert_with(|| json!(session.kind.as_str()));
    meta
}
