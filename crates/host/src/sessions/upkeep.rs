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
/// Time limit; the rest is done next time.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Size at which the log is restarted.
const MAX_LOG: u64 = 256 * 1024;

/// Records the project's path, and deletes old sessions if the settings say so. Failures never
/// fail the run.
pub fn tidy_up(loaded: &Loaded, current: &SessionId) {
    note_root(loaded);
    // Defaults never delete sessions, and project settings never delete those of other projects.
    match loaded.settings.origin("general.sessionRetention").layer {
        Layer::Default | Layer::Project => return,
        Layer::SystemDefaults | Layer::User | Layer::System | Layer::Environment | Layer::Arguments => {}
    }
    let Ok(Some(policy)) = RetentionPolicy::from_settings(&loaded.groups.general.retention) else {
        return;
    };
    let log = loaded.home.gemini_dir().join("pollux").join("retention.log");
    if is_recent(&log) || files::create_folder(log.parent().unwrap_or(&log), Mode::Private).is_err() {
        return;
    }
    let now = SystemClock.now();
    let (records, is_complete) = old_records(loaded, &policy, now);
    let applied = apply(&plan(&records, &policy, now, Some(current)));
    forget_journals(&applied);
    let mut lines = applied.lines();
    lines.push(format!("deleted {}, checked {} files", applied.deleted.len(), records.len()));
    if !is_complete {
        lines.push("time limit reached; run `pollux sessions prune` for the rest".to_owned());
    }
    write_log(&log, &lines, now);
}

/// Session files contain only a hash of the project's path; upstream stores the path in a file next to them.
fn note_root(loaded: &Loaded) {
    let temp = loaded.project.temp_dir();
    let marker = temp.join(".project_root");
    if temp.join("chats").is_dir() && !marker.exists() {
        let root = loaded.project.root().to_string_lossy();
        let _ = files::replace(&marker, root.as_bytes(), Mode::Private);
    }
}

fn is_recent(log: &Path) -> bool {
    let changed = fs::metadata(log).and_then(|metadata| metadata.modified());
    changed
        .is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|passed| passed < INTERVAL))
}

/// The records for a retention plan, and whether they are complete. If only age matters, recently changed files need
/// not be read.
fn old_records(loaded: &Loaded, policy: &RetentionPolicy, now: Timestamp) -> (Vec<IndexRecord>, bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    let mut records = Vec::new();
    for project in known_projects(&loaded.home) {
        let main = session_files(&project.chats_dirs);
        let counts = policy.max_count.is_some_and(|limit| main.len() > limit);
        let is_old = |path: &PathBuf| policy.max_age_ms.is_some_and(|limit| age(path, now) > limit);
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
