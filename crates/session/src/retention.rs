//! Decides which old sessions to delete, and deletes them.
//!
//! Planning changes nothing, so that a plan can be shown first. Applying it deletes the planned files if they are
//! unchanged; unreadable files are never planned, and files in use are skipped.

mod apply;
mod leftovers;

pub use apply::{Applied, apply, belongings};
pub use leftovers::{delete_leftovers, leftovers};

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use pollux_config::groups::Retention;
use pollux_domain::id::SessionId;
use pollux_domain::time::Timestamp;

use crate::delete::artefacts;
use crate::index::IndexRecord;
use crate::kind::SessionKind;
use crate::recorder::sanitised;

const HOUR: i64 = 3_600_000;

/// How long sessions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Maximum age.
    pub max_age_ms: Option<i64>,
    /// Maximum number of sessions per project.
    pub max_count: Option<usize>,
    /// Minimum age before deletion, regardless of the other limits.
    pub min_age_ms: i64,
}

/// Why the retention settings are invalid; nothing is deleted then.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RetentionError {
    #[error(
        "invalid `general.sessionRetention.{key}` `{given}` (expected a number above 0 followed by h, d, w or m); \
         no sessions were deleted"
    )]
    BadPeriod { key: &'static str, given: String },
    #[error("invalid `general.sessionRetention.maxCount` 0 (expected at least 1); no sessions were deleted")]
    NoCount,
    #[error(
        "`general.sessionRetention.minRetention` `{min}` is longer than `maxAge` `{max}`; no sessions were deleted"
    )]
    Contradictory { min: String, max: String },
}

impl RetentionPolicy {
    /// Reads the settings; `None` if they delete nothing.
    pub fn from_settings(settings: &Retention) -> Result<Option<Self>, RetentionError> {
        if !settings.enabled {
            return Ok(None);
        }
        let period_of = |key: &'static str, text: &Option<String>| match text {
            None => Ok(None),
            Some(given) => match period(given) {
                Some(millis) => Ok(Some(millis)),
                None => Err(RetentionError::BadPeriod { key, given: given.clone() }),
            },
        };
        let max_age_ms = period_of("maxAge", &settings.max_age)?;
        let min_age_ms = period_of("minRetention", &settings.min_retention)?.unwrap_or(0);
        if settings.max_count == Some(0) {
            return Err(RetentionError::NoCount);
        }
        let max_count = settings.max_count.and_then(|count| usize::try_from(count).ok());
        // As upstream. Deleting anything would break one of the two promises.
        if let (Some(min), Some(max)) = (&settings.min_retention, &settings.max_age)
            && max_age_ms.is_some_and(|limit| limit < min_age_ms)
        {
            return Err(RetentionError::Contradictory { min: min.clone(), max: max.clone() });
        }
        if max_age_ms.is_none() && max_count.is_none() {
            return Ok(None);
        }
        Ok(Some(Self { max_age_ms, max_count, min_age_ms }))
    }
}

/// `36h`, `30d`, `2w`, `6m` (of 30 days) in milliseconds.
fn period(text: &str) -> Option<i64> {
    let unit = text.chars().last()?;
    let hours = match unit {
        'h' => 1,
        'd' => 24,
        'w' => 7 * 24,
        'm' => 30 * 24,
        _ => return None,
    };
    let digits = text.strip_suffix(unit)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: i64 = digits.parse().ok().filter(|count| *count > 0)?;
    count.checked_mul(hours * HOUR)
}

/// Why a session is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Not updated for longer than allowed.
    Age,
    /// Its project has enough newer sessions.
    Count,
}

/// A file and its state at planning time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    pub path: PathBuf,
    pub size: u64,
    pub modified_ms: i64,
}

/// A session to delete, with its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    pub session: SessionId,
    /// A session may be in two files, since some releases copied instead of renaming.
    pub files: Vec<PlannedFile>,
    pub reason: Reason,
    pub last_updated: Timestamp,
    pub title: String,
    /// Logs, stored outputs, plans and sub-agents' sessions, where there are such.
    pub artefacts: Vec<PathBuf>,
}

/// The planned deletions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Oldest first.
    pub delete: Vec<Removal>,
    pub keep: Vec<SessionId>,
}

/// Decides which of these sessions to delete. The records may be of many projects and may include sub-agents'
/// sessions; the limit on the number holds for each project.
pub fn plan(
    records: &[IndexRecord],
    policy: &RetentionPolicy,
    now: Timestamp,
    current: Option<&SessionId>,
) -> Plan {
    let sessions = grouped(records);
    let mut plan = Plan::default();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for session in sessions {
        let age = now.millis().saturating_sub(session.last_updated.millis());
        let rank = counts.entry(session.project).or_default();
        if session.counts {
            *rank += 1;
        }
        let is_old = policy.max_age_ms.is_some_and(|limit| age > limit);
        let is_surplus = session.counts && policy.max_count.is_some_and(|limit| *rank > limit);
        let is_spared = current == Some(&session.newest.session_id) || age < policy.min_age_ms;
        let reason = match (is_old, is_surplus) {
            _ if is_spared => None,
            (true, _) => Some(Reason::Age),
            (false, true) => Some(Reason::Count),
            (false, false) => None,
        };
        match reason {
            Some(reason) => plan.delete.push(session.removal(reason, records)),
            None => plan.keep.push(session.newest.session_id.clone()),
        }
    }
    plan.delete.sort_by_key(|removal| removal.last_updated);
    plan
}

/// The files of one session.
struct Group<'a> {
    project: &'a str,
    newest: &'a IndexRecord,
    records: Vec<&'a IndexRecord>,
    last_updated: Timestamp,
    /// Whether it counts towards the number of sessions.
    counts: bool,
}

/// The sessions, newest first. Sub-agent sessions are deleted with their parents; only orphans
/// are listed separately.
fn grouped(records: &[IndexRecord]) -> Vec<Group<'_>> {
    let parents: HashSet<String> = records
        .iter()
        .filter(|record| record.parent.is_none())
        .map(|record| sanitised(record.session_id.as_str()))
        .collect();
    let mut groups: BTreeMap<(&str, &str), Group<'_>> = BTreeMap::new();
    for record in records {
        if record.parent.as_ref().is_some_and(|parent| parents.contains(parent)) {
            continue;
        }
        let folder = record.file.parent().and_then(Path::to_str).unwrap_or_default();
        let project = record.project_hash.as_deref().unwrap_or(folder);
        let group = groups.entry((project, record.session_id.as_str())).or_insert_with(|| Group {
            project,
            newest: record,
            records: Vec::new(),
            last_updated: record.last_updated,
            counts: record.kind == SessionKind::Main && record.parent.is_none(),
        });
        if record.last_updated > group.last_updated {
            group.last_updated = record.last_updated;
            group.newest = record;
        }
        group.records.push(record);
    }
    let mut groups: Vec<Group<'_>> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.last_updated));
    groups
}

impl Group<'_> {
    fn removal(&self, reason: Reason, all: &[IndexRecord]) -> Removal {
        let id = &self.newest.session_id;
        let folder = sanitised(id.as_str());
        let children: Vec<String> = all
            .iter()
            .filter(|record| record.parent.as_ref() == Some(&folder))
            .filter_map(|record| Some(record.file.file_stem()?.to_string_lossy().into_owned()))
            .collect();
        let mut belongings = Vec::new();
        for record in &self.records {
            // A sub-agent's session lies one folder deeper.
            let chats = match &record.parent {
                None => record.file.parent(),
                Some(_) => record.file.parent().and_then(Path::parent),
            };
            for path in chats.map(|chats| artefacts(chats, id.as_str(), &children)).unwrap_or_default() {
                if !belongings.contains(&path) {
                    belongings.push(path);
                }
            }
        }
        let file = |record: &&IndexRecord| PlannedFile {
            path: record.file.clone(),
            size: record.size,
            modified_ms: record.modified_ms,
        };
        let newest = self.newest;
        Removal {
            session: id.clone(),
            files: self.records.iter().map(file).collect(),
            reason,
            last_updated: self.last_updated,
            title: newest.summary.clone().unwrap_or_else(|| newest.first_user.clone()),
            artefacts: belongings,
        }
    }
}

#[cfg(test)]
mod tests;
