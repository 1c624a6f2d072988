//! Deletes one session, or all that the retention settings consider old.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use pollux_config::groups::Retention;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_domain::time::{Clock, SystemClock, Timestamp};
use pollux_rewind::forget;
use pollux_session::{
    Applied, IndexRecord, Plan, Reason, Removal as Going, RetentionPolicy, apply, belongings,
    delete_leftovers, files_of, leftovers, plan, relative_time, session_files, subagent_files, subagents,
    summarise,
};

use super::pick::Own;
use super::places::SessionPlaces;
use crate::sessions::Wanted;
use crate::sessions::{Proposal, Removal, Removals, Removed};

/// Everything is too old for it.
const EVERYTHING: RetentionPolicy =
    RetentionPolicy { max_age_ms: Some(i64::MIN), max_count: None, min_age_ms: i64::MIN };

/// One session with its files.
pub fn of_session(own: &Own) -> Result<Proposal<Removals, Removed>, Failure> {
    let now = SystemClock.now();
    let failed = |error| Failure::from_error(ExitKind::Input, &error);
    let mut files = files_of(&own.dirs, &own.info.id);
    if !files.contains(&own.info.path) {
        files.push(own.info.path.clone());
    }
    let mut records: Vec<IndexRecord> =
        files.iter().map(|path| summarise(path)).collect::<Result<_, _>>().map_err(failed)?;
    // Copies are deleted too, even if they name another project.
    let hash = records.first().and_then(|record| record.project_hash.clone());
    records.iter_mut().for_each(|record| record.project_hash.clone_from(&hash));
    records.extend(subagents(&own.info));
    let plan = plan(&records, &EVERYTHING, now, None);
    let mut removals = shown(&plan, now);
    removals.sessions.iter_mut().for_each(|removal| removal.reason = None);
    Ok(Proposal {
        plan: removals,
        carry_out: Box::new(move || {
            let applied = apply(&plan);
            forget_journals(&applied);
            Ok(removed(&applied, 0))
        }),
    })
}

/// All sessions that the retention settings consider old, in all projects.
pub fn of_old(places: &SessionPlaces, settings: &Retention) -> Result<Proposal<Removals, Removed>, Failure> {
    let policy = RetentionPolicy::from_settings(settings)
        .map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let Some(policy) = policy else {
        return Err(Failure::new(ExitKind::Input, "session retention is off")
            .hint("set `enabled`, `maxAge` or `maxCount` in `general.sessionRetention`"));
    };
    let now = SystemClock.now();
    let plan = plan(&records(places), &policy, now, None);
    let temps: Vec<(PathBuf, Vec<PathBuf>)> = places
        .chats_dirs()
        .iter()
        .filter_map(|chats| chats.parent())
        .map(|temp| (temp.to_owned(), leftovers(temp, &policy, now)))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    let mut removals = shown(&plan, now);
    removals.leftovers = temps.iter().flat_map(|(_, found)| found.clone()).collect();
    removals.rule = Some(rule(settings));
    Ok(Proposal {
        plan: removals,
        carry_out: Box::new(move || {
            let applied = apply(&plan);
            forget_journals(&applied);
            let gone = temps.iter().map(|(temp, found)| delete_leftovers(temp, found).len()).sum();
            Ok(removed(&applied, gone))
        }),
    })
}

/// All session files of all projects. The index knows most of them; of two files with the same session it
/// knows one, so the other is read.
fn records(places: &SessionPlaces) -> Vec<IndexRecord> {
    let wanted = Wanted {
        all_projects: true,
        source: Some(crate::sessions::SessionSource::Gemini),
        subagents: true,
        in_full: false,
    };
    let mut catalogue = places.open_catalogue();
    places.refresh(&mut catalogue, &places.sources(&wanted));
    let mut filter = places.filter(&wanted);
    filter.include_empty = true;
    let mut records: Vec<IndexRecord> =
        catalogue.list(&filter).into_iter().map(|listed| listed.record).collect();
    let known: HashSet<PathBuf> = records.iter().map(|record| record.file.clone()).collect();
    let dirs = places.chats_dirs();
    let others = session_files(&dirs).into_iter().chain(subagent_files(&dirs));
    records.extend(others.filter(|path| !known.contains(path)).filter_map(|path| summarise(&path).ok()));
    records
}

fn rule(settings: &Retention) -> String {
    let mut parts = Vec::new();
    parts.extend(settings.max_age.as_ref().map(|age| format!("maxAge {age}")));
    parts.extend(settings.max_count.map(|count| format!("maxCount {count}")));
    parts.extend(settings.min_retention.as_ref().map(|age| format!("minRetention {age}")));
    format!("general.sessionRetention: {}", parts.join(", "))
}

fn shown(plan: &Plan, now: Timestamp) -> Removals {
    let removal = |going: &Going| Removal {
        id: going.session.to_string(),
        title: going.title.clone(),
        age: relative_time(going.last_updated, now),
        reason: Some(match going.reason {
            Reason::Age => "too old",
            Reason::Count => "too many",
        }),
        paths: belongings(going),
        bytes: going.files.iter().map(|file| file.size).sum(),
    };
    Removals {
        sessions: plan.delete.iter().map(removal).collect(),
        leftovers: Vec::new(),
        kept: plan.keep.len(),
        rule: None,
    }
}

fn removed(applied: &Applied, leftovers: usize) -> Removed {
    Removed {
        sessions: applied.deleted.iter().map(|going| going.session.to_string()).collect(),
        leftovers,
        skipped: applied
            .skipped
            .iter()
            .map(|(going, why)| (going.session.to_string(), why.clone()))
            .collect(),
    }
}

/// A journal without its session is useless.
pub fn forget_journals(applied: &Applied) {
    let gone: HashSet<&SessionId> = applied.deleted.iter().map(|going| &going.session).collect();
    let stores: HashSet<PathBuf> = applied
        .deleted
        .iter()
        .flat_map(|going| &going.files)
        .filter_map(|file| file.path.parent().and_then(Path::parent))
        .map(|temp| temp.join("rewind"))
        .collect();
    for store in stores {
        // A journal in use is cleaned up next time.
        let _ = forget(&store, |id| !gone.contains(id));
    }
}
