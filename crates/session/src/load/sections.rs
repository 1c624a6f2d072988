//! Reads a file in parallel sections without holding all of it in memory.
//!
//! Only files exactly as our writers leave them are read here. Any deviation, even in a single line, sends the
//! file to the reader for other layouts and repair.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

use pollux_domain::JsonObject;
use pollux_domain::json::parse_wire;
use serde_json::Value;

use super::fold::name_message;
use super::log::LogState;
use super::{Decoded, FileStamp, Layout, decoded};
use crate::blobs::Blobs;
use crate::document::{self, Head, TAIL};
use crate::message::{Message, MessageFields};

/// Bytes read to detect the format.
const HEAD: u64 = 64 * 1024;
/// What is read at once of a section.
const PIECE: usize = 512 * 1024;
/// Minimum section size that is worth a thread.
const SECTION: u64 = 2 << 20;
const MAX_SECTIONS: usize = 8;

/// Reads a document or a record log; `None` if anything is unusual.
pub(super) fn read(file: &File, stamp: FileStamp, blobs: &Blobs) -> Option<Decoded> {
    let head = bytes_at(file, 0..stamp.length.min(HEAD))?;
    if head.starts_with(b"{\n") {
        read_document(file, stamp, &head, blobs)
    } else if head.starts_with(b"{\"") {
        read_log(file, stamp, &head, blobs)
    } else {
        None
    }
}

/// A document that begins and ends as its writer leaves it.
pub(crate) struct Frame {
    pub(crate) meta: JsonObject,
    stamp_at: Option<u64>,
    /// Where the lines of the messages are.
    body: Range<u64>,
}

/// Looks at both ends of a file; `None` if it is not a whole document with messages.
pub(crate) fn frame(file: &File, stamp: FileStamp) -> Option<Frame> {
    frame_after(file, stamp, &bytes_at(file, 0..stamp.length.min(HEAD))?)
}

fn frame_after(file: &File, stamp: FileStamp, head: &[u8]) -> Option<Frame> {
    let Head::Ours { meta, stamp_at, body_at } = document::read_head(head) else { return None };
    let end = stamp.length.checked_sub(TAIL.len() as u64)?;
    let body = body_at as u64 + 1..end;
    let is_whole = meta.get("sessionId").is_some_and(Value::is_string)
        && !body.is_empty()
        && bytes_at(file, end..stamp.length)? == TAIL
        && bytes_at(file, body_at as u64..body.start)? == b"\n";
    is_whole.then_some(Frame { meta, stamp_at, body })
}

impl Frame {
    /// Hands the text of every message over until one is refused, or is not as it should be.
    pub(crate) fn for_each(&self, file: &File, take: impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
        self.for_each_in(file, self.body.clone(), take)
    }

    fn for_each_in(
        &self,
        file: &File,
        section: Range<u64>,
        mut take: impl FnMut(&[u8]) -> Option<()>,
    ) -> Option<()> {
        let is_last = section.end == self.body.end;
        let mut at = section.start;
        let mut is_end = false;
        for_each_line(file, section.clone(), |line| {
            at += line.len() as u64 + 1;
            let line = line.strip_prefix(b"    ")?;
            // A comma stands behind every message but the last.
            is_end = is_last && at > section.end;
            take(if is_end { line } else { line.strip_suffix(b",")? })
        })?;
        (is_end == is_last).then_some(())
    }
}

fn read_document(file: &File, stamp: FileStamp, head: &[u8], blobs: &Blobs) -> Option<Decoded> {
    let frame = frame_after(file, stamp, head)?;
    let read_section = |section: Range<u64>| {
        let is_last = section.end == frame.body.end;
        let mut messages = Vec::new();
        let mut lost_blobs = 0;
        for_each_piece(file, section, |piece, is_end| {
            let mut begin = 0;
            // The line break at the end of a section belongs to none: there is one too many.
            if is_end && piece.ends_with(b"\n") {
                return None;
            }
            while begin < piece.len() {
                let line = line_at(piece, begin);
                begin = line.end + 1;
                let is_last = is_last && is_end && begin > piece.len();
                let line = piece.get_mut(line)?;
                let comma = line.strip_prefix(b"    {")?.last() == Some(&b',');
                // A comma stands behind every message but the last. Without it the lines are a stream of objects.
                if comma == is_last {
                    return None;
                }
                if comma {
                    *line.last_mut()? = b' ';
                }
            }
            for_each_message(piece, |_, fields| {
                fields.all.get("id").filter(|id| id.is_string())?;
                let (message, lost) = decoded(fields, blobs);
                messages.push(message);
                lost_blobs += lost;
                Some(())
            })
        })?;
        Some((messages, lost_blobs))
    };
    let mut messages: Vec<Message> = Vec::new();
    let mut lost_blobs = 0;
    for (read, lost) in in_parallel(file, frame.body.clone(), read_section)? {
        // The first one is not copied.
        if messages.is_empty() {
            messages = read
        } else {
            messages.extend(read)
        }
        lost_blobs += lost;
    }
    let layout = Layout::Document {
        stamp_at: frame.stamp_at,
        end: frame.body.end,
        torn: false,
        holds_data: false,
        salvaged: false,
        follows: true,
    };
    Some(Decoded { meta: frame.meta, messages, layout, repaired: None, lost_blobs })
}

fn read_log(file: &File, stamp: FileStamp, head: &[u8], blobs: &Blobs) -> Option<Decoded> {
    let length = memchr::memchr(b'\n', head)?;
    let mut state: LogState<Item> = LogState::of(object(head.get(..length)?)?)?;
    let ends_with_newline = bytes_at(file, stamp.length - 1..stamp.length)? == b"\n";
    let body = length as u64 + 1..stamp.length - u64::from(ends_with_newline);
    if body.is_empty() {
        return None;
    }
    let read_section = |section: Range<u64>| {
        let mut records = Vec::new();
        for_each_piece(file, section, |piece, _| {
            for_each_message(piece, |line, fields| {
                records.push(Record::of(line, fields, blobs)?);
                Some(())
            })
        })?;
        Some(records)
    };
    for record in in_parallel(file, body, read_section)?.into_iter().flatten() {
        match record {
            Record::Message(message) => state.put(message.id().to_owned(), Item::Read(message)),
            Record::Other(fields) => state.apply(fields),
        }
    }
    let (meta, items) = state.into_parts()?;
    let (messages, lost_blobs) = read_items(items, blobs);
    let layout = Layout::Log { ends_with_newline };
    Some(Decoded { meta, messages, layout, repaired: None, lost_blobs })
}

/// A line of a record log.
enum Record {
    Message(Message),
    /// No message, or one that needs what is stored apart: that is fetched if no later record replaces it.
    Other(JsonObject),
}

impl Record {
    fn of(line: &str, fields: MessageFields, blobs: &Blobs) -> Option<Self> {
        let has_text = |key: &str| fields.all.get(key).is_some_and(Value::is_string);
        if has_text("id") && !has_text("$rewindTo") && !fields.may_have_blobs() {
            return Some(Self::Message(decoded(fields, blobs).0));
        }
        fields.into_json().or_else(|| object(line.as_bytes())).map(Self::Other)
    }
}

/// A message of a record log: read, or as it stood in another record.
enum Item {
    Read(Message),
    Json(Value),
}

impl From<Value> for Item {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

/// The messages, and how much of them could not be found.
fn read_items(items: Vec<Item>, blobs: &Blobs) -> (Vec<Message>, usize) {
    let id = |item: &Item| match item {
        Item::Read(message) => Some(message.id().to_owned()),
        Item::Json(value) => value.get("id")?.as_str().map(str::to_owned),
    };
    let all_read = items.iter().all(|item| matches!(item, Item::Read(_)));
    let mut taken = if all_read { HashSet::new() } else { items.iter().filter_map(id).collect() };
    let mut messages = Vec::with_capacity(items.len());
    let mut lost_blobs = 0;
    for (index, item) in items.into_iter().enumerate() {
        let (message, lost) = match item {
            Item::Read(message) => (message, 0),
            Item::Json(mut value) => {
                name_message(&mut value, index, &mut taken);
                let Value::Object(fields) = value else { continue };
                decoded(fields.into(), blobs)
            }
        };
        messages.push(message);
        lost_blobs += lost;
    }
    (messages, lost_blobs)
}

/// A line that is an object and nothing else.
fn object(line: &[u8]) -> Option<JsonObject> {
    parse_wire(line).ok()
}

fn bytes_at(file: &File, range: Range<u64>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
    file.read_exact_at(&mut bytes, range.start).ok()?;
    Some(bytes)
}

/// Does the same with every section of these lines, at the same time, and returns what came of each in order.
fn in_parallel<T: Send>(
    file: &File,
    body: Range<u64>,
    read: impl Fn(Range<u64>) -> Option<T> + Sync,
) -> Option<Vec<T>> {
    let mut sections = split(file, body)?;
    let last = sections.pop()?;
    let read = &read;
    thread::scope(|scope| {
        let others: io::Result<Vec<_>> = sections
            .into_iter()
            .map(|section| thread::Builder::new().spawn_scoped(scope, move || read(section)))
            .collect();
        // This thread has its share, too.
        let last = read(last);
        let mut results = Vec::new();
        for other in others.ok()? {
            results.push(other.join().ok()??);
        }
        results.push(last?);
        Some(results)
    })
}

/// Sections of about the same size; each ends where a line does, and its line break belongs to none.
fn split(file: &File, body: Range<u64>) -> Option<Vec<Range<u64>>> {
    let length = body.end - body.start;
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(MAX_SECTIONS)) as u64;
    let count = threads.min(length / SECTION).max(1);
    let mut sections = Vec::new();
    let mut start = body.start;
    for index in 1..count {
        let middle = body.start + length / count * index;
        if middle <= start {
            continue;
        }
        let mut reader = section_reader(file, middle..body.end);
        let end = middle + reader.skip_until(b'\n').ok()? as u64;
        if end >= body.end {
            break;
        }
        sections.push(start..end - 1);
        start = end;
    }
    sections.push(start..body.end);
    Some(sections)
}

/// Hands every line over, without its line break, until one is refused.
fn for_each_line(file: &File, section: Range<u64>, mut take: impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
    for_each_piece(file, section, |piece, _| {
        let mut begin = 0;
        while begin < piece.len() {
            let line = line_at(piece, begin);
            begin = line.end + 1;
            take(piece.get(line)?)?;
        }
        Some(())
    })
}

/// Where the line is that begins here.
fn line_at(piece: &[u8], begin: usize) -> Range<usize> {
    let rest = piece.get(begin..).unwrap_or_default();
    begin..begin + memchr::memchr(b'\n', rest).unwrap_or(rest.len())
}

/// Hands over pieces of whole lines, and whether it is the last one, until one is refused. A piece that is not taken is
/// used again.
fn for_each_piece(
    file: &File,
    section: Range<u64>,
    mut take: impl FnMut(&mut Vec<u8>, bool) -> Option<()>,
) -> Option<()> {
    let mut piece: Vec<u8> = Vec::new();
    // What is there already is a line whose end was not read.
    let mut filled = 0;
    let mut at = section.start;
    while at < section.end {
        let more = usize::try_from(section.end - at).map_or(PIECE, |left| left.min(PIECE));
        make_room(&mut piece, filled + more);
        file.read_exact_at(piece.get_mut(filled..filled + more)?, at).ok()?;
        at += more as u64;
        let is_end = at == section.end;
        let begun = filled;
        filled += more;
        let whole = match memchr::memrchr(b'\n', piece.get(begun..filled)?) {
            _ if is_end => filled,
            Some(line_break) => begun + line_break + 1,
            None => continue,
        };
        let rest = piece.get(whole..filled)?.to_vec();
        piece.truncate(whole);
        take(&mut piece, is_end)?;
        filled = rest.len();
        if !is_end {
            make_room(&mut piece, filled + PIECE);
            piece.get_mut(..filled)?.copy_from_slice(&rest);
        }
    }
    Some(())
}

/// Makes a piece at least so long.
fn make_room(piece: &mut Vec<u8>, length: usize) {
    if piece.capacity() == 0 {
        // Zeros that the system gives need not be written.
        *piece = vec![0; length];
    } else if piece.len() < length {
        piece.resize(length, 0);
    }
}

/// Hands every line over with what was read of it, until one is refused.
fn for_each_message(
    piece: &mut Vec<u8>,
    mut take: impl FnMut(&str, MessageFields) -> Option<()>,
) -> Option<()> {
    // Answers stay in the piece, which is theirs from now on.
    let piece = Arc::new(String::from_utf8(std::mem::take(piece)).ok()?);
    let mut begin = 0;
    while begin < piece.len() {
        let line = line_at(piece.as_bytes(), begin);
        begin = line.end + 1;
        let fields = MessageFields::from_line(&piece, line.clone())?;
        take(piece.get(line)?, fields)?;
    }
    Some(())
}

fn section_reader(file: &File, section: Range<u64>) -> BufReader<Section<'_>> {
    BufReader::with_capacity(PIECE, Section { file, left: section })
}

/// A part of a file, read from its own place.
struct Section<'a> {
    file: &'a File,
    left: Range<u64>,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        let read = self.file.read_at(buffer.get_mut(..length).unwrap_or_default(), self.left.start)?;
        self.left.start += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fmt::Write;
    use std::fs;
    use std::path::Path;

    use super::super::{fold, load, stamp_of, stored};
    use super::*;

    const META: &str = "\"sessionId\": \"s\",\n  \"lastUpdated\": \"2026-01-01T00:00:00.000Z\",\n  ";

    fn message(number: usize, length: usize) -> String {
        let words = "wörter\\n".repeat(length);
        format!("{{\"id\":\"m{number}\",\"type\":\"user\",\"content\":\"{words}\"}}")
    }

    fn document(messages: &[String]) -> String {
        format!("{{\n  {META}\"messages\": [\n    {}\n  ]\n}}\n", messages.join(",\n    "))
    }

    fn in_sections(path: &Path) -> Option<Decoded> {
        let file = File::open(path).unwrap();
        read(&file, stamp_of(&file.metadata().unwrap()), &Blobs::of_file(path))
    }

    #[test]
    fn long_files_are_the_same_in_sections_and_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        // Lines of many lengths, some longer than the buffer, in more than two sections.
        let messages: Vec<String> =
            (0..900).map(|n| message(n, if n % 90 == 7 { 60_000 } else { n * 3 % 1000 })).collect();
        let mut log = "{\"sessionId\":\"s\"}\n".to_owned();
        for message in &messages {
            writeln!(log, "{message}").unwrap();
        }
        log.push_str(
            "{\"$set\":{\"summary\":\"sum\"}}\n{\"id\":\"m5\",\"type\":\"info\",\"content\":\"new\"}",
        );
        for (name, text) in [("session-a.json", document(&messages)), ("session-b.jsonl", log)] {
            let path = dir.path().join(name);
            fs::write(&path, &text).unwrap();
            assert!(text.len() > 2 * SECTION as usize, "{}", text.len());
            let stamp = stamp_of(&fs::metadata(&path).unwrap());
            let whole = fold(&path, text.as_bytes()).unwrap().decoded(&Blobs::of_file(&path));
            let whole = stored(&path, whole, stamp);
            assert_eq!(whole.messages.len(), 900);
            assert!(stored(&path, in_sections(&path).unwrap(), stamp) == whole, "{name}");
            assert!(load(&path).unwrap() == whole, "{name}");
        }
    }

    #[test]
    fn whatever_is_unusual_is_left_to_the_reader_that_repairs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session-a.json");
        let messages = [message(1, 1), message(2, 1)];
        let good = document(&messages);
        fs::write(&path, &good).unwrap();
        assert!(in_sections(&path).is_some());
        let odd = [
            good.replace("},\n    {", "}\n    {"),
            good.replace("}\n  ]", "},\n  ]"),
            good.replace("}\n  ]", "},\n\n  ]"),
            good.replace("}\n  ]", "}\n\n  ]"),
            good.replace("    {\"id\":\"m2\"", "    {\"name\":\"m2\""),
            good.replace("    {\"id\":\"m1\"", "  {\"id\":\"m1\""),
            good.replace("wörter", "w\törter"),
            good.replace("\"s\"", "7"),
            good.trim_end().to_owned(),
            format!("\u{feff}{good}"),
            document(&[]),
            format!("{{\"sessionId\":\"s\"}}\n{}\n\n{}\n", messages[0], messages[1]),
            format!("{{\"sessionId\":\"s\"}}\n{}\n[]\n", messages[0]),
            format!("{{\"sessionId\":\"s\"}}\n{}\n{{\"id\":", messages[0]),
            "{\"sessionId\":\"s\"}\n".to_owned(),
            "{\"sessionId\":\"s\"}".to_owned(),
            String::new(),
        ];
        for text in odd {
            fs::write(&path, &text).unwrap();
            assert!(in_sections(&path).is_none(), "{text}");
        }
    }
}
