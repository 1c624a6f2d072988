//! The texts of sessions and the full-text index over them.
//!
//! The number of a text consists of the number of its session's texts and its position among them, so that the
//! texts of a session are adjacent and later ones have higher numbers: a search for a common word finds the
//! latest first and can stop early.

use std::borrow::Cow;

use pollux_domain::time::Timestamp;
use pollux_foreign::{ForeignTextKind, Stamp};
use pollux_session::{TextKind, visit_texts};
use rusqlite::{Connection, OptionalExtension, Result, Transaction, TransactionBehavior, params};

use crate::parallel;
use crate::phrase::spaced;
use crate::refresh::{Progress, Stage};
use crate::row::{path_from, stamp_from};
use crate::scope::Scopes;
use crate::search::HitKind;
use crate::source::{self, FoundSession, SessionStore, Source};

/// Bits of a text's number that are its place in the session.
pub(crate) const PLACE_BITS: u32 = 20;
/// Of a longer text the beginning is indexed.
const MAX_WORDS: usize = 16 * 1024;
const MAX_CALL: usize = 512;
const MAX_ERROR: usize = 1024;
/// Of a longer session the beginning is indexed.
const MAX_SESSION: usize = 8 * 1024 * 1024;
/// Others may write after this much text.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// A session whose texts are to be read.
struct Job {
    id: i64,
    /// Of the row; the file may change while it is read.
    stamp: Stamp,
    summary: Option<String>,
    found: FoundSession,
}

struct Text {
    kind: HitKind,
    message: String,
    time: Option<Timestamp>,
    text: String,
}

pub(crate) fn run(
    connection: &mut Connection,
    sources: &[Source],
    scopes: &Scopes,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let jobs = jobs(connection, sources, scopes)?;
    if jobs.is_empty() {
        return Ok(());
    }
    let mut done = 0;
    let mut batch = Batch { connection, waiting: Vec::new(), bytes: 0 };
    parallel::each(&jobs, texts, |job, texts| {
        done += 1;
        progress(Progress { stage: Stage::Texts, done, total: jobs.len() });
        batch.add(job, texts)
    })?;
    batch.write()
}

/// Sessions with outdated texts, the latest at the end.
fn jobs(connection: &Connection, sources: &[Source], scopes: &Scopes) -> Result<Vec<Job>> {
    let query = format!(
        "SELECT id, scope, path, within, summary, size, modified_ns, mark FROM sessions
         WHERE texts_stale AND problem IS NULL AND scope IN ({}) ORDER BY updated, id",
        scopes.numbers(None)
    );
    let mut statement = connection.prepare(&query)?;
    let mut rows = statement.query([])?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        let (number, path): (i64, _) = (row.get(1)?, path_from(row, 2)?.unwrap_or_default());
        let scope = scopes.0.iter().find(|scope| scope.id == number);
        let within = row.get(3)?;
        if let Some(found) = scope.and_then(|scope| source::found(sources, scope, path, within)) {
            let stamp = stamp_from(row, 5)?;
            jobs.push(Job { id: row.get(0)?, stamp, summary: row.get(4)?, found });
        }
    }
    Ok(jobs)
}

/// Every text of a session worth a search.
fn texts(job: &Job) -> Vec<Text> {
    let mut collected = Collected::default();
    if let Some(summary) = &job.summary {
        collected.add(HitKind::Title, "", None, summary);
    }
    // Files that cannot be read any more are handled by the next refresh.
    match &job.found.place {
        SessionStore::Own => {
            let _ = visit_texts(&job.found.path, &mut |kind, message, time, text| {
                let kind = match kind {
                    TextKind::User => HitKind::User,
                    TextKind::Agent => HitKind::Agent,
                    TextKind::Tool => HitKind::Tool,
                    TextKind::Error => HitKind::Error,
                    TextKind::Output => return,
                };
                collected.add(kind, message, time, text);
            });
        }
        SessionStore::Foreign(store, entry) => {
            let _ = store.visit_texts(entry, &mut |kind, message, time, text| {
                let kind = match kind {
                    ForeignTextKind::User => HitKind::User,
                    ForeignTextKind::Agent => HitKind::Agent,
                    ForeignTextKind::Tool => HitKind::Tool,
                    ForeignTextKind::Error => HitKind::Error,
                };
                collected.add(kind, message, time, text);
            });
        }
    }
    collected.texts
}

#[derive(Default)]
struct Collected {
    texts: Vec<Text>,
    bytes: usize,
}

impl Collected {
    fn add(&mut self, kind: HitKind, message: &str, time: Option<Timestamp>, text: &str) {
        let max = match kind {
            HitKind::Title | HitKind::User | HitKind::Agent => MAX_WORDS,
            HitKind::Tool => MAX_CALL,
            HitKind::Error => MAX_ERROR,
        };
        let text = plain(text.get(..text.floor_char_boundary(max)).unwrap_or_default());
        self.bytes += text.len();
        let is_full = self.bytes > MAX_SESSION || self.texts.len() + 1 >= 1 << PLACE_BITS;
        if !is_full && !text.is_empty() {
            self.texts.push(Text { kind, message: message.to_owned(), time, text: text.into_owned() });
        }
    }
}

/// Without control characters, two of which mark matches.
fn plain(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let is_bad = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(is_bad) { Cow::Owned(text.replace(is_bad, " ")) } else { Cow::Borrowed(text) }
}

/// Sessions that are written together.
struct Batch<'a> {
    connection: &'a mut Connection,
    waiting: Vec<(&'a Job, Vec<Text>)>,
    bytes: usize,
}

impl<'a> Batch<'a> {
    fn add(&mut self, job: &'a Job, texts: Vec<Text>) -> Result<()> {
        self.bytes += texts.iter().map(|text| text.text.len()).sum::<usize>();
        self.waiting.push((job, texts));
        if self.bytes >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Removed first: the index requires ascending numbers within one transaction.
        for (job, _) in &self.waiting {
            remove(&transaction, job.id)?;
        }
        insert(&transaction, &self.waiting)?;
        transaction.commit()?;
        self.waiting.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Removes the texts of a session from the index.
pub(crate) fn remove(transaction: &Transaction<'_>, id: i64) -> Result<()> {
    let query = "SELECT text_id FROM sessions WHERE id = ?1";
    let Some(text_id) =
        transaction.query_row(query, [id], |row| row.get::<_, Option<i64>>(0)).optional()?.flatten()
    else {
        return Ok(());
    };
    let (first, last) = (text_id << PLACE_BITS, ((text_id + 1) << PLACE_BITS) - 1);
    let mut old = transaction.prepare("SELECT id, text FROM texts WHERE id BETWEEN ?1 AND ?2 ORDER BY id")?;
    let mut forget =
        transaction.prepare("INSERT INTO words (words, rowid, text) VALUES ('delete', ?1, ?2)")?;
    let mut rows = old.query([first, last])?;
    while let Some(row) = rows.next()? {
        let text: String = row.get(1)?;
        forget.execute(params![row.get::<_, i64>(0)?, spaced(&text)])?;
    }
    transaction.execute("DELETE FROM texts WHERE id BETWEEN ?1 AND ?2", [first, last])?;
    transaction.execute("UPDATE sessions SET text_id = NULL WHERE id = ?1", [id])?;
    Ok(())
}

fn insert(transaction: &Transaction<'_>, sessions: &[(&Job, Vec<Text>)]) -> Result<()> {
    let highest = "SELECT coalesce(max(text_id), 0) FROM sessions";
    let highest: i64 = transaction.query_row(highest, [], |row| row.get(0))?;
    let mut insert = transaction.prepare("INSERT INTO texts VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut index = transaction.prepare("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?;
    // Another process may have seen the session change since these texts were read.
    let mut update = transaction.prepare(
        "UPDATE sessions SET text_id = ?2, texts_stale = NOT (size = ?3 AND modified_ns = ?4 AND mark = ?5)
         WHERE id = ?1",
    )?;
    for (text_id, (job, texts)) in (highest + 1..).zip(sessions) {
        for (number, text) in ((text_id << PLACE_BITS)..).zip(texts) {
            let time = text.time.map(Timestamp::millis);
            insert.execute(params![number, text.kind.number(), time, text.message, text.text])?;
            index.execute(params![number, spaced(&text.text)])?;
        }
        let Stamp { size, modified_ns, mark } = job.stamp;
        update.execute([job.id, text_id, size.cast_signed(), modified_ns, mark.cast_signed()])?;
    }
    Ok(())
}
