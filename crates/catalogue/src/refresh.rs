//! Updates the rows of sessions: new and changed sessions are read, deleted ones are dropped.

use std::collections::HashMap;
use std::error::Error as _;
use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;

use pollux_foreign::{ReadError, Stamp};
use pollux_session::{IndexRecord, summarise};
use rusqlite::{Connection, Result, Transaction, TransactionBehavior};

use crate::parallel;
use crate::row::{self, Key, PUT, PUT_PROBLEM, path_from, stamp_from};
use crate::scope::{Scope, Scopes};
use crate::source::{self, FoundSession, Origin, SessionStore, Source};
use crate::text_index;

/// Others may write after this many sessions.
const BATCH: usize = 500;

/// How far a refresh is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub stage: Stage,
    pub done: usize,
    pub total: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The listed facts.
    Sessions,
    /// The words in them.
    Texts,
}

/// The result of a refresh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// How many files were read.
    pub read: usize,
    /// The number of deleted sessions.
    pub dropped: usize,
    /// Files that look like sessions but could not be read, with the reason; also from earlier refreshes.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// A session to be read.
struct Job {
    scope: i64,
    found: FoundSession,
}

pub(crate) fn run(
    connection: &mut Connection,
    sources: &[Source],
    progress: &mut dyn FnMut(Progress),
) -> Result<(Scopes, Refreshed)> {
    let scopes = Scopes::of(connection, sources)?;
    let (mut known, found) = known_and_found(connection, sources, &scopes)?;
    let mut unreadable: Vec<(PathBuf, String)> =
        sources.iter().flat_map(Source::unreadable_folders).collect();
    let mut jobs = Vec::new();
    for (scope, found) in scopes.0.iter().zip(found) {
        for found in found {
            let key = (scope.id, found.path.into_os_string(), found.within);
            let current = known.remove(&key).filter(|known| known.stamp == found.stamp);
            let found = FoundSession { path: PathBuf::from(key.1), within: key.2, ..found };
            match current {
                Some(Known { problem: Some(problem), .. }) => unreadable.push((found.path, problem)),
                Some(Known { problem: None, .. }) => {}
                None => jobs.push(Job { scope: scope.id, found }),
            }
        }
    }
    // Sessions that were not found again are deleted.
    let gone: Vec<i64> = known.into_values().map(|known| known.id).collect();
    let missing = scopes.forget_missing(connection)?;
    drop_sessions(connection, &gone, &missing)?;
    // The largest first, so that none of them is left for one core at the end.
    jobs.sort_by_key(|job| std::cmp::Reverse(job.found.stamp.size));
    read(connection, &jobs, &mut unreadable, progress)?;
    unreadable.retain(|(_, problem)| !problem.is_empty());
    unreadable.sort();
    Ok((scopes, Refreshed { read: jobs.len(), dropped: gone.len(), unreadable }))
}

/// A row of the index as it was before.
struct Known {
    id: i64,
    stamp: Stamp,
    problem: Option<String>,
}

/// By scope, path and position within. Paths are bytes here, because comparing them as paths is slower.
type AllKnown = HashMap<(i64, OsString, String), Known>;

/// The indexed sessions and, looked up in parallel, the existing ones of each scope.
fn known_and_found(
    connection: &Connection,
    sources: &[Source],
    scopes: &Scopes,
) -> Result<(AllKnown, Vec<Vec<FoundSession>>)> {
    let find_all = || scopes.0.iter().map(|scope| find(sources, scope)).collect();
    thread::scope(|threads| {
        let finding = thread::Builder::new().spawn_scoped(threads, find_all);
        let known = known(connection, scopes);
        let found = match finding {
            Ok(finding) => finding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => find_all(),
        };
        Ok((known?, found))
    })
}

fn known(connection: &Connection, scopes: &Scopes) -> Result<AllKnown> {
    let query = format!(
        "SELECT id, scope, path, within, size, modified_ns, mark, problem FROM sessions WHERE scope IN ({})",
        scopes.numbers(None)
    );
    let mut statement = connection.prepare(&query)?;
    let rows = statement.query_map([], |row| {
        let path = path_from(row, 2)?.unwrap_or_default().into_os_string();
        let stamp = stamp_from(row, 4)?;
        Ok(((row.get(1)?, path, row.get(3)?), Known { id: row.get(0)?, stamp, problem: row.get(7)? }))
    })?;
    // With its size known, the map is built once and not again as it grows.
    Ok(rows.collect::<Result<Vec<_>>>()?.into_iter().collect())
}

fn find(sources: &[Source], scope: &Scope) -> Vec<FoundSession> {
    match scope.origin {
        Origin::Own => source::own(&scope.path),
        Origin::Foreign(_) => source::store(sources, scope).map(source::foreign).unwrap_or_default(),
    }
}

fn drop_sessions(connection: &mut Connection, gone: &[i64], missing_scopes: &[i64]) -> Result<()> {
    if gone.is_empty() && missing_scopes.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut ids = gone.to_vec();
    {
        let mut of_scope = transaction.prepare("SELECT id FROM sessions WHERE scope = ?1")?;
        for scope in missing_scopes {
            let rows = of_scope.query_map([scope], |row| row.get(0))?;
            ids.extend(rows.collect::<Result<Vec<i64>>>()?);
        }
        let mut delete = transaction.prepare("DELETE FROM sessions WHERE id = ?1")?;
        for id in ids {
            text_index::remove(&transaction, id)?;
            delete.execute([id])?;
        }
        for scope in missing_scopes {
            transaction.execute("DELETE FROM scopes WHERE id = ?1", [scope])?;
        }
    }
    transaction.commit()
}

fn read(
    connection: &mut Connection,
    jobs: &[Job],
    unreadable: &mut Vec<(PathBuf, String)>,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let mut done = 0;
    let mut batch = Vec::new();
    let mut write = |batch: &mut Vec<(&Job, Summary)>| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        write_batch(&transaction, batch)?;
        batch.clear();
        transaction.commit()
    };
    parallel::each(
        jobs,
        |job| summary(&job.found),
        |job, summary| {
            if let Err(problem) = &summary {
                unreadable.push((job.found.path.clone(), problem.clone()));
            }
            batch.push((job, summary));
            done += 1;
            progress(Progress { stage: Stage::Sessions, done, total: jobs.len() });
            if batch.len() == BATCH { write(&mut batch) } else { Ok(()) }
        },
    )?;
    if batch.is_empty() { Ok(()) } else { write(&mut batch) }
}

/// The facts read, or why reading failed.
type Summary = std::result::Result<IndexRecord, String>;

fn write_batch(transaction: &Transaction<'_>, batch: &[(&Job, Summary)]) -> Result<()> {
    let mut put = transaction.prepare(PUT)?;
    let mut put_problem = transaction.prepare(PUT_PROBLEM)?;
    for (job, summary) in batch {
        let FoundSession { path, within, stamp, .. } = &job.found;
        let key = Key { scope: job.scope, path, within, stamp: *stamp };
        match summary {
            Ok(record) => row::put(&mut put, &key, record)?,
            Err(problem) => row::put_problem(&mut put_problem, &key, problem)?,
        }
    }
    Ok(())
}

fn summary(found: &FoundSession) -> Summary {
    match &found.place {
        SessionStore::Own => summarise(&found.path).map_err(|error| match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        }),
        SessionStore::Foreign(store, entry) => match store.read(entry, &mut |_, _, _, _| {}) {
            Ok(session) => Ok(row::from_foreign(session, entry.stamp)),
            // Nothing is wrong with it; there is just nothing in it.
            Err(ReadError::Empty { .. }) => Err(String::new()),
            Err(error) => Err(match error.source() {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            }),
        },
    }
}
