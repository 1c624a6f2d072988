//! Cleanup after a run: deletes old sessions and records the project's path.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use pollux_config::files::{self, Mode};
use pollux_config::settings::Layer;
use pollux_domain::id::SessionId;
use pollux_domain::time::{Clock, SystemClock, Timestamp};
use pollux_session::{
    IndexRecord, RetentionPolicy, apply, known_projects, plan, session_files, subagent_files, summarise,
};

use super::removals::forget_journals;
use crate::Loaded;

/// Minimum interval between cleanups.
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// A longer time since the last cleanup may be a clock that jumped, so nothing is deleted before the next one.
const MAX_INTERVAL: Duration = Duration::from_secs(14 * 24 * 60 * 60);
const POSTPONED: &str =
    "last cleanup was more than 14 days ago; deletes nothing until tomorrow, in case the clock is wrong";
/// Time limit; the rest is done next time.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Size at which the log is restarted.
const MAX_LOG: u64 = 256 * 1024;

/// Records the project's path, and deletes old sessions if the settings say so. Failures never
/// fail the run.
pub fn tidy_up(loaded: &Loaded, current: &SessionId) {
    note_root(loaded);
    let Ok(Some(policy)) = policy(loaded) else { return };
    let log = loaded.home.gemini_dir().join("pollux").join("retention.log");
    let limits = limits_line(&policy);
    if is_recent(&log, &limits) || files::create_folder(log.parent().unwrap_or(&log), Mode::Private).is_err()
    {
        return;
    }
    let now = SystemClock.now();
    if since_change(&log).is_some_and(|passed| passed > MAX_INTERVAL) && !was_postponed(&log) {
        write_log(&log, &[POSTPONED.to_owned(), limits], now);
        return;
    }
    let (records, is_complete) = old_records(loaded, &policy, now);
    let applied = apply(&plan(&records, &policy, now, Some(current)));
    forget_journals(&applied);
    let mut lines = applied.lines();
    lines.push(format!("deleted {}, checked {} files", applied.deleted.len(), records.len()));
    if !is_complete {
        lines.push("time limit reached; run `pollux sessions prune` for the rest".to_owned());
    }
    lines.push(limits);
    write_log(&log, &lines, now);
}

/// The line about invalid retention settings, which delete nothing.
pub(crate) fn retention_problem(loaded: &Loaded) -> Option<String> {
    policy(loaded).err().map(|why| format!("Warning: {why}"))
}

/// The limits that a cleanup after a run applies, or why the settings are invalid.
fn policy(loaded: &Loaded) -> Result<Option<RetentionPolicy>, String> {
    // Defaults never delete sessions, and project settings never delete those of other projects.
    match loaded.settings.origin("general.sessionRetention").layer {
        Layer::Default | Layer::Project => return Ok(None),
        Layer::SystemDefaults | Layer::User | Layer::System | Layer::Environment | Layer::Arguments => {}
    }
    let retention = &loaded.groups.general.retention;
    let count =
        loaded.settings.get("general.sessionRetention.maxCount").and_then(|(count, _)| count.as_i64());
    match count.filter(|count| *count < 0 && retention.enabled) {
        Some(count) => Err(format!(
            "invalid `general.sessionRetention.maxCount` {count} (expected at least 1); no sessions were deleted"
        )),
        None => RetentionPolicy::from_settings(retention).map_err(|error| error.to_string()),
    }
}

/// The limits of a cleanup, as the last line of its log. Other limits give another line.
fn limits_line(policy: &RetentionPolicy) -> String {
    let span = |millis: i64| match (millis / 3_600_000, millis / 60_000 % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    };
    let age = policy.max_age_ms.map_or("none".to_owned(), span);
    let count = policy.max_count.map_or("none".to_owned(), |count| count.to_string());
    format!("limits: age {age}, count {count}, minimum {}", span(policy.min_age_ms))
}

/// Session files contain only a hash of the project's path; upstream stores the path in a file next to them.
pub fn note_root(loaded: &Loaded) {
    let temp = loaded.project.temp_dir();
    let marker = temp.join(".project_root");
    if temp.join("chats").is_dir() && !marker.exists() {
        let root = loaded.project.root().to_string_lossy();
        let _ = files::replace(&marker, root.as_bytes(), Mode::Private);
    }
}

/// Whether the last cleanup was a short while ago, and had the same limits.
fn is_recent(log: &Path, limits: &str) -> bool {
    if since_change(log).is_none_or(|passed| passed >= INTERVAL) {
        return false;
    }
    let text = files::read_text(log).ok().flatten().unwrap_or_default();
    text.lines().next_back().is_some_and(|line| line.ends_with(limits))
}

/// Whether the last cleanup deleted nothing because of a long time before it; it is put off only once.
fn was_postponed(log: &Path) -> bool {
    let text = files::read_text(log).ok().flatten().unwrap_or_default();
    text.lines().rev().nth(1).is_some_and(|line| line.ends_with(POSTPONED))
}

/// The time since a file was changed; `None` if there is no such file, or its time is in the future.
fn since_change(file: &Path) -> Option<Duration> {
    let changed = fs::metadata(file).and_then(|metadata| metadata.modified()).ok()?;
    SystemTime::now().duration_since(changed).ok()
}

/// The records for a retention plan, and whether they are complete. If only age matters, files that neither their time
/// nor their name says to be old need not be read. A copied or restored file has a new time.
fn old_records(loaded: &Loaded, policy: &RetentionPolicy, now: Timestamp) -> (Vec<IndexRecord>, bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    let mut records = Vec::new();
    for project in known_projects(&loaded.home) {
        let main = session_files(&project.chats_dirs);
        let counts = policy.max_count.is_some_and(|limit| main.len() > limit);
        let is_old = |path: &PathBuf| {
            policy.max_age_ms.is_some_and(|limit| age(path, now) > limit || began(path, now) > limit)
        };
        let others = subagent_files(&project.chats_dirs);
        let files = main.into_iter().chain(others).filter(|path| counts || is_old(path));
        let mut of_project = Vec::new();
        for path in files {
            if Instant::now() > deadline {
                // With partial knowledge of a project, sessions that should stay could be deleted.
                return (records, false);
            }
            of_project.extend(summarise(&path).ok());
        }
        records.extend(of_project);
    }
    (records, true)
}

fn age(path: &Path, now: Timestamp) -> i64 {
    let changed = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since = changed.and_then(|changed| changed.duration_since(SystemTime::UNIX_EPOCH).ok());
    let millis = since.and_then(|since| i64::try_from(since.as_millis()).ok());
    millis.map_or(0, |millis| now.millis().saturating_sub(millis))
}

/// How long ago the session began, by the name of its file; 0 if that does not say.
fn began(path: &Path, now: Timestamp) -> i64 {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("session-"));
    let minute = name.and_then(|name| name.get(..16)).and_then(|minute| minute.split_once('T'));
    let began = minute
        .and_then(|(date, time)| Timestamp::parse(&format!("{date}T{}:00.000Z", time.replace('-', ":"))));
    began.map_or(0, |began| now.millis().saturating_sub(began.millis()))
}

fn write_log(log: &Path, lines: &[String], now: Timestamp) {
    let is_full = fs::metadata(log).is_ok_and(|metadata| metadata.len() > MAX_LOG);
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    if is_full {
        options.write(true).truncate(true);
    } else {
        options.append(true);
    }
    let text: String = lines.iter().map(|line| format!("{} {line}\n", now.to_iso())).collect();
    let _ = options.open(log).and_then(|mut file| file.write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_says_when_its_session_began() {
        let now = Timestamp::parse("2026-01-03T00:00:00.000Z").unwrap();
        let began = |name: &str| began(Path::new(name), now) / 3_600_000;
        assert_eq!(began("/c/session-2026-01-01T12-00-abcdef01.json"), 36);
        assert_eq!(began("/c/session-1767225600000-abcdef01.json"), 0);
        assert_eq!(began("/c/other.json"), 0);
    }

    #[test]
    fn changed_limits_are_applied_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("retention.log");
        let policy = RetentionPolicy { max_age_ms: Some(3_600_000), max_count: None, min_age_ms: 0 };
        assert!(!is_recent(&log, &limits_line(&policy)));
        write_log(&log, &[limits_line(&policy)], SystemClock.now());
        assert!(is_recent(&log, &limits_line(&policy)));
        let other = RetentionPolicy { max_count: Some(3), ..policy };
        assert!(!is_recent(&log, &limits_line(&other)));
        let minutes = RetentionPolicy { max_age_ms: Some(45 * 60_000), max_count: None, min_age_ms: 0 };
        write_log(&log, &[limits_line(&minutes)], SystemClock.now());
        let fewer = RetentionPolicy { max_age_ms: Some(30 * 60_000), ..minutes };
        assert!(!is_recent(&log, &limits_line(&fewer)));
        assert_eq!(limits_line(&fewer), "limits: age 30 min, count none, minimum 0 min");
    }
}
