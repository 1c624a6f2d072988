//! Exports the whole memory as one JSON document.

use std::collections::HashSet;
use std::io::{self, Write};

use pollux_config::files;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::index::database;
use crate::index::error::IndexError;
use crate::memory::Memory;
use crate::setup::Setup;
use crate::source::{Listed, Source};
use crate::workspace::Space;

/// Why the export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("could not write the export: {0}")]
    Write(#[source] io::Error),
}

impl ExportError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Index(error) => error.hint(),
            Self::Write(_) => None,
        }
    }
}

impl Memory {
    /// Writes sessions, learnings, files and chunks; embeddings are omitted, since they can be recomputed.
    pub async fn export<W: Write + Send + 'static>(&self, mut out: W) -> Result<W, ExportError> {
        self.read(move |reader, setup| {
            let mut write = || -> Result<(), ExportError> {
                head(&mut out, setup).map_err(ExportError::Write)?;
                let mut failed = None;
                reader.with(|connection| rows(connection, setup, &mut out, &mut failed))?;
                if let Some(error) = failed {
                    return Err(ExportError::Write(error));
                }
                out.write_all(b"}\n").and_then(|()| out.flush()).map_err(ExportError::Write)
            };
            let written = write();
            Ok(written.map(|()| out))
        })
        .await?
    }
}

fn head(out: &mut dyn Write, setup: &Setup) -> io::Result<()> {
    let store = files::read_text(&setup.agent.store_file()).ok().flatten().unwrap_or_default();
    let mut store: Value = serde_json::from_str(&store).unwrap_or_else(|_| json!({}));
    if setup.space != Space::Shared
        && let Some(entries) = store.as_object_mut()
    {
        let here: HashSet<String> = setup.transcripts().here.iter().map(Listed::session).collect();
        let id = |entry: &Value| entry.get("sessionId").and_then(Value::as_str).map(str::to_owned);
        entries.retain(|_, entry| id(entry).is_some_and(|id| here.contains(&id)));
    }
    let learnings = files::read_text(&setup.agent.learnings_file()).ok().flatten();
    let learnings = learnings.map(|text| setup.learnings().visible(&text));
    let part = |value: Value| value.to_string();
    write!(
        out,
        "{{\"version\":1,\"agentId\":{},\"workspaceDir\":{},\"exportedAt\":{},\"sessions\":{},\"learnings\":{}",
        part(json!(setup.agent.id().as_str())),
        part(json!(setup.workspace)),
        part(json!(setup.clock.now().to_iso())),
        part(store),
        part(json!(learnings)),
    )
}

fn rows(
    connection: &Connection,
    setup: &Setup,
    out: &mut dyn Write,
    failed: &mut Option<io::Error>,
) -> rusqlite::Result<()> {
    if !database::has_table(connection, "chunks")? {
        return Ok(());
    }
    let side = if database::is_complete(connection)? {
        "SELECT c.path, c.source, c.start_line, c.end_line, c.hash, c.text, p.provenance, p.date
         FROM chunks c JOIN pollux_chunks p ON p.id = c.id ORDER BY c.path, c.start_line"
    } else {
        "SELECT path, source, start_line, end_line, hash, text, NULL, NULL FROM chunks ORDER BY path, start_line"
    };
    let lists = [
        (
            "files",
            "SELECT path, source, hash, mtime, size FROM files ORDER BY path",
            &["path", "source", "hash", "mtime", "size"][..],
        ),
        (
            "chunks",
            side,
            &["path", "source", "startLine", "endLine", "hash", "text", "provenance", "date"][..],
        ),
    ];
    for (name, sql, columns) in lists {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut before = format!(",\"{name}\":[\n");
        let mut write = |text: &str| out.write_all(text.as_bytes());
        while let Some(row) = rows.next()? {
            // Both lists begin with the path and the source.
            let source = Source::parse(row.get_ref(1)?.as_str()?).unwrap_or(Source::Memory);
            if !setup.admits(row.get_ref(0)?.as_str()?, source) {
                continue;
            }
            let mut object = pollux_domain::JsonObject::new();
            for (index, column) in columns.iter().enumerate() {
                object.insert((*column).to_owned(), value(row.get_ref(index)?));
            }
            if let Err(error) = write(&before).and_then(|()| write(&Value::Object(object).to_string())) {
                *failed = Some(error);
                return Ok(());
            }
            ",\n".clone_into(&mut before);
        }
        let empty = if before.starts_with(",\"") { before.as_str() } else { "" };
        if let Err(error) = write(empty).and_then(|()| write("\n]")) {
            *failed = Some(error);
            return Ok(());
        }
    }
    Ok(())
}

fn value(found: rusqlite::types::ValueRef<'_>) -> Value {
    use rusqlite::types::ValueRef;
    match found {
        ValueRef::Null | ValueRef::Blob(_) => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
    }
}
