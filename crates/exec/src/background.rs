//! Background processes: commands that outlive the call that started them, with their logs.
//!
//! Dropping [`Background`], or calling [`Background::shutdown`], kills every process group that is left.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::sync::Locked as _;
#[cfg(target_os = "linux")]
use pollux_sandbox::Guard;
use pollux_sandbox::Sandbox;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::capture::Captured;
use crate::capture::without_sequences;
use crate::child::Starter;
use crate::ending::{Ending, ending_of};
use crate::group::Group;
use crate::lifeline::Lifeline;
use crate::process::{Output, Running, Step};

/// Logs older than this are removed when a new one is made; upstream's time.
const OLD_LOG: Duration = Duration::from_secs(7 * 24 * 3600);
/// A log that reaches this size is set aside and a new one is begun, so a chatty server cannot fill the disk.
const LOG_BYTES: u64 = 32 << 20;
/// How much of a log is read to show its end; upstream's value.
const TAIL_BYTES: u64 = 64 << 10;
const READ_BYTES: usize = 64 << 10;
/// How many ended processes are remembered.
const REMEMBERED: usize = 100;

/// The processes of this run that are not waited for.
pub struct Background {
    directory: PathBuf,
    shared: Arc<Shared>,
    lifeline: Arc<Lifeline>,
    tasks: TaskTracker,
    stop: CancellationToken,
    #[cfg(target_os = "linux")]
    guard: Option<Mutex<Option<Arc<Guard>>>>,
}

#[derive(Default)]
struct Shared {
    processes: Mutex<Vec<BackgroundProcess>>,
    /// Cancels one of them.
    stops: Mutex<HashMap<u32, CancellationToken>>,
    /// One of them has ended.
    ended: Notify,
    /// Grows when one begins or ends.
    changes: watch::Sender<u64>,
    /// Groups that commands left behind with `&`.
    leftovers: Mutex<Vec<(Group, Registered)>>,
}

/// A background process as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundProcess {
    pub pid: u32,
    pub command: String,
    pub log: PathBuf,
    /// `None` while it runs.
    pub ending: Option<Ending>,
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTail {
    /// Lines, oldest first.
    pub lines: Vec<String>,
    /// The number of lines in the part of the log that was read.
    pub total_lines: usize,
    /// Whether older output exists that is not in `lines`.
    pub is_partial: bool,
}

/// A group that the watcher process knows of; signed off when dropped.
pub(crate) struct Registered {
    lifeline: Arc<Lifeline>,
    /// Nothing if a holder does the same.
    group: Option<i32>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            self.lifeline.remove(group);
        }
    }
}

impl Background {
    /// Logs go to `directory`, which is created when it is first needed.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            shared: Arc::default(),
            lifeline: Arc::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            #[cfg(target_os = "linux")]
            guard: None,
        }
    }

    /// Like [`Background::new`], and starts commands that have no sandbox through a small process that ends everything they leave behind, however
    /// this program ends. Only for programs that call [`pollux_sandbox::holder::run_if_asked`].
    pub fn guarded(directory: PathBuf) -> Self {
        #[cfg(target_os = "linux")]
        {
            let mut background = Self::new(directory);
            background.guard = Some(Mutex::default());
            background
        }
        #[cfg(not(target_os = "linux"))]
        Self::new(directory)
    }

    /// What starts a program with this sandbox.
    pub(crate) fn starter<'a>(&self, sandbox: Option<&'a Sandbox>) -> Starter<'a> {
        if let Some(sandbox) = sandbox {
            return Starter::Sandbox(sandbox);
        }
        #[cfg(target_os = "linux")]
        if let Some(guard) = self.guard() {
            return Starter::Guard(guard);
        }
        Starter::Thread
    }

    /// The guard, which is started for the first command. Without one that works, commands are watched as on other
    /// systems.
    #[cfg(target_os = "linux")]
    fn guard(&self) -> Option<Arc<Guard>> {
        let mut guard = self.guard.as_ref()?.locked();
        if !guard.as_ref().is_some_and(|guard| guard.is_alive()) {
            *guard = Guard::open().ok().map(Arc::new);
        }
        guard.clone()
    }

    /// Every background process of this run, oldest first.
    pub fn list(&self) -> Vec<BackgroundProcess> {
        self.shared.processes.locked().clone()
    }

    /// Changes whenever a background process begins or ends.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// One background process of this run.
    pub fn find(&self, pid: u32) -> Option<BackgroundProcess> {
        self.shared.processes.locked().iter().rev().find(|process| process.pid == pid).cloned()
    }

    /// Kills one background process and waits for its end; false if it had ended already.
    pub async fn end(&self, pid: u32) -> bool {
        let Some(stop) = self.shared.stops.locked().get(&pid).cloned() else { return false };
        stop.cancel();
        loop {
            let ended = self.shared.ended.notified();
            if self.find(pid).is_none_or(|process| process.ending.is_some()) {
                return true;
            }
            ended.await;
        }
    }

    /// Kills all background processes and waits for their end.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.shared.leftovers.locked().clear();
    }

    /// Registers a group with the watcher process.
    pub(crate) fn register(&self, group: &Group) -> Registered {
        if !group.is_held() {
            self.lifeline.add(group.id());
        }
        Registered { lifeline: Arc::clone(&self.lifeline), group: (!group.is_held()).then(|| group.id()) }
    }

    /// Keeps the processes that a finished command left running. Their output is read and dropped: a closed
    /// pipe would kill them as soon as they print.
    pub(crate) fn leave(&self, group: Group, registered: Registered, output: Option<Output>) {
        let is_alive = self.shared.leave(group, registered);
        if let Some(output) = output.filter(|_| is_alive) {
            let stop = self.stop.clone();
            self.tasks.spawn(read_to_end(output, stop, |_| {}));
        }
    }

    /// Takes over a running command, whose output goes to a log from now on. Returns the number that it gets.
    pub(crate) fn adopt(
        &self,
        running: Running,
        registered: Registered,
        command: &str,
        so_far: &Captured,
    ) -> u32 {
        // Commands in sandboxes have small numbers of their own, so several have the same.
        let (own, outside) = (running.group().own_id(), running.group().id());
        let is_taken = self.find(own).is_some_and(|process| process.ending.is_none());
        let pid = if is_taken { u32::try_from(outside).unwrap_or(own) } else { own };
        let path = self.directory.join(format!("background-{outside}.log"));
        forget_old_logs(&self.directory);
        let mut log = Log::create(path.clone(), so_far);
        self.remember(BackgroundProcess { pid, command: command.to_owned(), log: path, ending: None });
        let shared = Arc::clone(&self.shared);
        let stop = self.stop.child_token();
        shared.stops.locked().insert(pid, stop.clone());
        self.tasks.spawn(async move {
            let (ending, running) = follow(running, &mut log, &stop).await;
            let (group, output) = running.into_leftovers();
            let is_alive = shared.leave(group, registered);
            shared.note_end(pid, ending);
            if let Some(output) = output.filter(|_| is_alive) {
                read_to_end(output, stop, |bytes| log.push(bytes)).await;
            }
        });
        pid
    }

    fn remember(&self, process: BackgroundProcess) {
        let mut processes = self.shared.processes.locked();
        if processes.len() >= REMEMBERED
            && let Some(oldest) = processes.iter().position(|entry| entry.ending.is_some())
        {
            processes.remove(oldest);
        }
        processes.push(process);
        drop(processes);
        self.shared.changed();
    }
}

impl Shared {
    /// Keeps a group if it has members, returns whether it does, and drops groups without members.
    fn leave(&self, group: Group, registered: Registered) -> bool {
        let is_alive = group.exists();
        let mut leftovers = self.leftovers.locked();
        leftovers.push((group, registered));
        let (alive, gone): (Vec<_>, Vec<_>) = leftovers.drain(..).partition(|(group, _)| group.exists());
        *leftovers = alive;
        for (group, _) in gone {
            // Its process id may soon be reused.
            group.release();
        }
        is_alive
    }

    fn note_end(&self, pid: u32, ending: Ending) {
        self.stops.locked().remove(&pid);
        let mut processes = self.processes.locked();
        if let Some(entry) = processes.iter_mut().rev().find(|entry| entry.pid == pid) {
            entry.ending = Some(ending);
        }
        drop(processes);
        self.ended.notify_waiters();
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The tasks own their children; they stop at the token, or are dropped with the runtime.
        self.stop.cancel();
        self.shared.leftovers.locked().clear();
    }
}

/// Writes a process's output to its log until it ends or is cancelled.
async fn follow(mut running: Running, log: &mut Log, stop: &CancellationToken) -> (Ending, Running) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let step = tokio::select! {
            biased;
            () = stop.cancelled() => {
                running.end(&mut buffer, |bytes| log.push(bytes)).await;
                return (Ending::Cancelled, running);
            }
            step = running.step(&mut buffer) => step,
        };
        match step {
            Step::Output(count) => log.push(buffer.get(..count).unwrap_or_default()),
            Step::OutputEnded | Step::InputTaken => {}
            Step::Exited(status) => {
                running.drain(&mut buffer, |bytes| log.push(bytes)).await;
                return (ending_of(status), running);
            }
        }
    }
}

/// Reads output until all writers are gone, or until `stop`.
async fn read_to_end(mut output: Output, stop: CancellationToken, mut take: impl FnMut(&[u8])) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let step = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            step = output.step(&mut buffer) => step,
        };
        match step {
            Step::Output(count) => take(buffer.get(..count).unwrap_or_default()),
            Step::InputTaken => {}
            Step::OutputEnded | Step::Exited(_) => return,
        }
    }
}

/// A log file of bounded size. Disk errors must not stop the process, so they only end the log.
struct Log {
    path: PathBuf,
    file: Option<File>,
    written: u64,
}

impl Log {
    fn create(path: PathBuf, so_far: &Captured) -> Self {
        let mut log = Self { file: open_log(&path).ok(), path, written: 0 };
        let text = so_far.text();
        if !text.is_empty() {
            log.push(text.as_bytes());
            log.push(b"\n");
        }
        log
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.written > 0 && self.written + bytes.len() as u64 > LOG_BYTES {
            let _ = std::fs::rename(&self.path, self.path.with_extension("log.old"));
            self.file = open_log(&self.path).ok();
            self.written = 0;
        }
        if let Some(file) = self.file.as_mut()
            && file.write_all(bytes).is_err()
        {
            self.file = None;
        }
        self.written += bytes.len() as u64;
    }
}

/// Removes logs that were not written for a week, and abandoned ones.
fn forget_old_logs(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_log = name.to_str().is_some_and(is_log);
        let age = entry.metadata().ok().and_then(|meta| meta.modified().ok()?.elapsed().ok());
        if is_log && age.is_some_and(|age| age > OLD_LOG) {
            // Another run may have been faster; a remaining log does no harm.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_log(name: &str) -> bool {
    name.starts_with("background-") && (name.ends_with(".log") || name.ends_with(".log.old"))
}

/// Creates a log that only its owner can read; output may contain secrets.
fn open_log(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    // An earlier process with this id may have left a file, or another user a symlink.
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Reads the last lines of a log.
pub fn read_log_tail(path: &Path, max_lines: usize) -> io::Result<LogTail> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = without_sequences(&bytes);
    let mut lines: Vec<&str> = text.lines().collect();
    if start > 0 && !lines.is_empty() {
        // The first line is most likely cut.
        lines.remove(0);
    }
    let first = lines.len().saturating_sub(max_lines);
    let total_lines = lines.len();
    let kept = lines.split_off(first);
    Ok(LogTail {
        total_lines,
        is_partial: start > 0 || first > 0,
        lines: kept.into_iter().map(str::to_owned).collect(),
    })
}
