//! Converts index records to list rows.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

use pollux_catalogue::{Listed, Origin};
use pollux_domain::JsonObject;
use pollux_domain::time::Timestamp;
use pollux_session::{IndexRecord, SessionInfo, SessionKind, relative_time};
use serde_json::json;

use super::places::{SessionPlaces, source_word};
use crate::sessions::SessionRow;

/// A row for an index record; `in_full` adds all details for JSON, which is slow.
pub fn from_record(record: &IndexRecord, origin: Origin, now: Timestamp, in_full: bool) -> SessionRow {
    let project = match (&record.project_path, &record.project_hash) {
        (Some(path), _) => path.to_string_lossy().into_owned(),
        (None, Some(hash)) => format!("project {}", hash.chars().take(12).collect::<String>()),
        (None, None) => "unknown project".to_owned(),
    };
    let title = record.summary.as_ref().unwrap_or(&record.first_user);
    SessionRow {
        number: None,
        source: source_word(origin),
        id: record.session_id.as_str().to_owned(),
        title: if title.is_empty() { "Empty conversation".to_owned() } else { title.clone() },
        project,
        age: relative_time(record.last_updated, now),
        messages: Some(record.messages),
        parent: record.parent.clone(),
        is_subagent: record.kind == SessionKind::Subagent,
        damaged: record.damaged,
        json: if in_full { record.to_json() } else { JsonObject::new() },
    }
}

/// A row from the header of a session file.
pub fn from_info(info: &SessionInfo, root: Option<&Path>, now: Timestamp) -> SessionRow {
    let fields = json!({
        "sessionId": info.id.as_str(),
        "projectPath": root,
        "file": info.path,
        "kind": info.kind.as_str(),
        "startTime": info.start.to_iso(),
        "lastUpdated": info.last_updated.to_iso(),
        "firstUser": info.first_user_message,
        "messages": info.message_count,
    });
    let known = fields.as_object().cloned().unwrap_or_default();
    SessionRow {
        number: None,
        source: source_word(Origin::Own),
        id: info.id.as_str().to_owned(),
        title: info.title.clone(),
        project: root.map(|root| root.to_string_lossy().into_owned()).unwrap_or_default(),
        age: relative_time(info.last_updated, now),
        messages: info.message_count.map(|count| count as u64),
        is_subagent: info.kind == SessionKind::Subagent,
        json: known.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        ..SessionRow::default()
    }
}

/// Rows as they are listed: this project first, then those used last; in a project by start, with the numbers
/// that `--resume` takes; sub-agents behind the session that started them.
pub fn arranged(
    mut listed: Vec<Listed>,
    places: &SessionPlaces,
    now: Timestamp,
    in_full: bool,
) -> Vec<SessionRow> {
    listed.sort_by(|a, b| (a.record.start, &a.record.file).cmp(&(b.record.start, &b.record.file)));
    let is_ours = |listed: &Listed| listed.origin == Origin::Own && places.is_here(&listed.record.file);
    let mut groups: HashMap<String, Group> = HashMap::new();
    let mut number = 0;
    for session in &listed {
        let mut row = from_record(&session.record, session.origin, now, in_full);
        let is_here = is_ours(session);
        if is_here && !row.is_subagent && session.record.resumable {
            number += 1;
            row.number = Some(number);
        }
        let group = groups.entry(row.project.clone()).or_default();
        group.is_here |= is_here || Path::new(&row.project) == places.project.root();
        group.updated = group.updated.max(Some(session.record.last_updated));
        group.rows.push(row);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| (!group.is_here, Reverse(group.updated)));
    groups.into_iter().flat_map(|group| nested(group.rows)).collect()
}

/// The sessions of one project.
#[derive(Default)]
struct Group {
    is_here: bool,
    updated: Option<Timestamp>,
    rows: Vec<SessionRow>,
}

fn nested(rows: Vec<SessionRow>) -> Vec<SessionRow> {
    let (children, parents): (Vec<SessionRow>, Vec<SessionRow>) =
        rows.into_iter().partition(|row| row.is_subagent && row.parent.is_some());
    if children.is_empty() {
        return parents;
    }
    let mut children: Vec<Option<SessionRow>> = children.into_iter().map(Some).collect();
    let mut rows = Vec::new();
    for parent in parents {
        let id = parent.id.clone();
        rows.push(parent);
        let mine = |child: &Option<SessionRow>| {
            child.as_ref().and_then(|row| row.parent.as_deref()).is_some_and(|parent| parent == id)
        };
        rows.extend(children.iter_mut().filter(|child| mine(child)).filter_map(Option::take));
    }
    rows.extend(children.into_iter().flatten());
    rows
}
