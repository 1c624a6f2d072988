//! The folders and stores known to the index, with a number for each.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::row::{path_from, path_of};
use crate::source::{Origin, Source};

/// One folder of ours, or one store of another agent.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) id: i64,
    pub(crate) origin: Origin,
    pub(crate) path: PathBuf,
}

/// The listed and searched scopes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scopes(pub(crate) Vec<Scope>);

impl Scopes {
    /// The numbers as a list for `IN (…)`; they are ours, so nothing needs quoting.
    pub(crate) fn numbers(&self, origin: Option<Origin>) -> String {
        let chosen = self.0.iter().filter(|scope| origin.is_none_or(|origin| scope.origin == origin));
        chosen.map(|scope| scope.id.to_string()).collect::<Vec<_>>().join(",")
    }

    /// Finds the numbers of the folders and stores of some sources; new ones get one.
    pub(crate) fn of(connection: &Connection, sources: &[Source]) -> Result<Self> {
        let mut scopes = Vec::new();
        let mut seen = HashSet::new();
        for (origin, path, project) in places(sources) {
            if seen.insert((origin, path)) {
                let id = number(connection, origin, path, project)?;
                scopes.push(Scope { id, origin, path: path.to_owned() });
            }
        }
        Ok(Self(scopes))
    }

    /// Deletes folders and stores that no longer exist.
    pub(crate) fn forget_missing(&self, connection: &Connection) -> Result<Vec<i64>> {
        let mut statement = connection.prepare("SELECT id, path FROM scopes")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, path_from(row, 1)?)))?;
        let mut missing = Vec::new();
        for row in rows {
            let (id, path): (i64, Option<PathBuf>) = row?;
            let is_used = self.0.iter().any(|scope| scope.id == id);
            if !is_used && !path.is_some_and(|path| path.exists()) {
                missing.push(id);
            }
        }
        Ok(missing)
    }
}

fn places(sources: &[Source]) -> Vec<(Origin, &Path, Option<&Path>)> {
    let mut places = Vec::new();
    for source in sources {
        match source {
            Source::Own { project, dirs } => {
                places.extend(dirs.iter().map(|dir| (Origin::Own, dir.as_path(), project.as_deref())));
            }
            Source::Foreign(store) => places.push((Origin::Foreign(store.agent), store.root.as_path(), None)),
        }
    }
    places
}

fn number(connection: &Connection, origin: Origin, path: &Path, project: Option<&Path>) -> Result<i64> {
    let project = project.map(path_of);
    let known = connection
        .query_row(
            "SELECT id, project FROM scopes WHERE origin = ?1 AND path = ?2",
            params![origin.number(), path_of(path)],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<Vec<u8>>>(1)?)),
        )
        .optional()?;
    match known {
        // Nothing is written when nothing changed.
        Some((id, known)) if known.as_deref() == project => Ok(id),
        Some((id, _)) => {
            connection.execute("UPDATE scopes SET project = ?2 WHERE id = ?1", params![id, project])?;
            Ok(id)
        }
        None => {
            let insert = "INSERT INTO scopes (origin, path, project) VALUES (?1, ?2, ?3)
                          ON CONFLICT DO UPDATE SET project = excluded.project RETURNING id";
            connection.query_row(insert, params![origin.number(), path_of(path), project], |row| row.get(0))
        }
    }
}
