//! Rewinds a session file: removes messages from its end.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use pollux_domain::sync::Locked as _;
use pollux_domain::time::Timestamp;

use super::document_writer::DocumentWriter;
use super::medium::{SessionFile, replace_file};
use super::open_file::note_name;
use super::recording::{Recording, Target, restore};
use super::{Form, RecordError, Recorder, resume};
use crate::document::{INDENT, TAIL};
use crate::load::{LoadError, stamp_of};
use crate::raw;
use crate::stream::Stream;

pub(super) fn rewind(recorder: &mut Recorder, to: &str, now: Timestamp) -> Result<(), RecordError> {
    let mut recording = recorder.recording.locked();
    recording.last_record = Some(now);
    recording.settle()?;
    restore(recording.syncing.as_ref());
    let path = match &recording.target {
        Target::Open(file) => file.path.clone(),
        Target::Off | Target::Waiting(_) | Target::Unconverted(_) => {
            recorder.path.clone().unwrap_or_default()
        }
    };
    let missing = || RecordError::NoSuchMessage { path: path.clone(), id: to.to_owned() };
    let Recording { target, syncing, .. } = &mut *recording;
    let file = match target {
        Target::Off => return Ok(()),
        Target::Waiting(_) | Target::Unconverted(_) => return Err(missing()),
        Target::Open(file) => file,
    };
    let failed = |source| RecordError::Write { path: path.clone(), source };
    let index = place_of(&path, to).map_err(failed)?.ok_or_else(missing)?;
    match &mut file.form {
        Form::Log(writer) => writer.rewind(to, now).map_err(|failure| failure.on(path)),
        Form::Document(writer) => {
            *writer = cut(&path, index, writer.stamp_at(), now).map_err(failed)?;
            note_name(&path, syncing.as_ref());
            Ok(())
        }
    }
}

/// The number of the message, and where the text before it ends.
struct Place {
    index: usize,
    cut: Option<u64>,
}

fn place_of(path: &Path, to: &str) -> io::Result<Option<Place>> {
    let stream = Stream::open(path).map_err(io::Error::other)?;
    let mut found = None;
    stream
        .for_each::<LoadError>(|index, text| {
            let is_it = found.is_none()
                && text.contains(to)
                && raw::fields(text).and_then(|fields| raw::string(&fields, "id")).as_deref() == Some(to);
            if is_it {
                found = Some(index);
            }
            Ok(())
        })
        .map_err(io::Error::other)?;
    let Some(index) = found else { return Ok(None) };
    let cut = match index.checked_sub(1) {
        Some(before) => stream.span(before).map(|(at, length)| at + length),
        None => stream.span(0).and_then(|(at, _)| at.checked_sub(INDENT.len() as u64)),
    };
    Ok(Some(Place { index, cut }))
}

/// Replaces the document by one that ends before the message.
fn cut(path: &Path, place: Place, stamp_at: u64, now: Timestamp) -> io::Result<DocumentWriter> {
    let Some(cut) = place.cut else {
        return Err(io::Error::other("the file is damaged; resume the session to repair it first"));
    };
    let old = fs::read(path)?;
    let offset = usize::try_from(cut).map_err(io::Error::other)?;
    let (kept, taken) = old.split_at_checked(offset).ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut new = [kept, TAIL].concat();
    let stamp = now.to_iso();
    let from = usize::try_from(stamp_at).map_err(io::Error::other)?;
    if stamp.len() == Timestamp::ISO_LEN
        && let Some(place) = new.get_mut(from..from + Timestamp::ISO_LEN)
    {
        place.copy_from_slice(stamp.as_bytes());
    }
    resume::keep_copy(path, taken, "rewound", stamp_of(&fs::metadata(path)?))?;
    let file = replace_file(path, |file| file.write_all(&new))?;
    Ok(DocumentWriter::continue_at(SessionFile::boxed(file, path), stamp_at, cut, place.index > 0))
}
