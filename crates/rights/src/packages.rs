//! Reads where this machine's package managers download from.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use pollux_config::credential_variables::is_credential;
use pollux_config::env::Env;
use pollux_config::search_path::SearchPath;
use pollux_domain::sync::Locked as _;
use pollux_egress::preset::{self, DownloadHost, Machine};
use pollux_sandbox::new_session::lead_new_session;
use rustix::process::{Pid, Signal, kill_process_group};

/// A tool that takes longer is not asked.
const LIMIT: Duration = Duration::from_secs(15);
/// Time limit for all package managers together, because connections wait for them. On a busy machine they take
/// seconds.
const PACKAGES_LIMIT: Duration = Duration::from_secs(5);
const MAX_TEXT: u64 = 1 << 20;

/// This machine, without the places that commands can write.
pub(crate) struct OwnMachine {
    pub(crate) env: Env,
    pub(crate) home: PathBuf,
    /// Folders that commands can write.
    pub(crate) open: Vec<PathBuf>,
}

impl OwnMachine {
    /// The hosts of package downloads.
    pub(crate) fn package_downloads(&self) -> PackageDownloads {
        self.package_downloads_within(PACKAGES_LIMIT)
    }

    fn package_downloads_within(&self, limit: Duration) -> PackageDownloads {
        let asked =
            MachineWithDeadline { machine: self, deadline: Instant::now() + limit, silent: Mutex::default() };
        let hosts = preset::package_downloads(&self.env, &self.home, &asked);
        let mut silent = asked.silent.into_inner().unwrap_or_else(PoisonError::into_inner);
        silent.sort();
        PackageDownloads { hosts, silent }
    }

    /// What a program answers in a folder; `None` if it fails or takes too long.
    pub(crate) fn ask_in(&self, folder: &Path, program: &str, arguments: &[&str]) -> Option<String> {
        self.ask_until(Instant::now() + LIMIT, folder, program, arguments).ok().flatten()
    }

    /// The same up to a deadline; `Ok(None)` if the program is missing or fails.
    fn ask_until(
        &self,
        deadline: Instant,
        folder: &Path,
        program: &str,
        arguments: &[&str],
    ) -> Result<Option<String>, TimedOut> {
        let path = self.env.get("PATH").map(OsStr::new);
        let Some(program) = SearchPath::new(path, &self.open).find_safe(program) else { return Ok(None) };
        let mut command = Command::new(program);
        let harmless = self.env.iter().filter(|(name, value)| !is_credential(&name.to_uppercase(), value));
        command.args(arguments).current_dir(folder).env_clear().envs(harmless);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // The session may end before the answer.
        lead_new_session(&mut command);
        let Ok(mut child) = command.spawn() else { return Ok(None) };
        let (sender, answer) = mpsc::channel();
        let stdout = child.stdout.take();
        // Read while it runs: it waits if the pipe is full.
        let read = move || {
            let mut text = String::new();
            let whole = stdout.is_some_and(|stdout| stdout.take(MAX_TEXT).read_to_string(&mut text).is_ok());
            let _ = sender.send(whole.then_some(text));
        };
        let reader = std::thread::Builder::new().spawn(read);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if reader.is_ok() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2))
                }
                Ok(None) | Err(_) => {
                    // A launcher waits for the program that hangs.
                    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                    let _ = child.wait();
                    return if Instant::now() < deadline { Ok(None) } else { Err(TimedOut) };
                }
            }
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let text = answer.recv_timeout(left).map_err(|_| TimedOut)?;
        Ok(text.filter(|_| status.success()))
    }

    fn is_open(&self, path: &Path) -> bool {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.open.iter().any(|open| real.starts_with(open) || path.starts_with(open))
    }
}

/// A program that did not answer in time.
struct TimedOut;

/// The hosts of package downloads, and what is not known of them.
pub(crate) struct PackageDownloads {
    pub(crate) hosts: Vec<DownloadHost>,
    /// Package managers that did not answer.
    pub(crate) silent: Vec<String>,
}

/// The machine while package managers are asked.
struct MachineWithDeadline<'a> {
    machine: &'a OwnMachine,
    deadline: Instant,
    silent: Mutex<Vec<String>>,
}

impl Machine for MachineWithDeadline<'_> {
    fn read(&self, path: &Path) -> Option<String> {
        self.machine.read(path)
    }

    fn list(&self, folder: &Path) -> Vec<PathBuf> {
        self.machine.list(folder)
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let answer = self.machine.ask_until(self.deadline, &self.machine.home, program, arguments);
        answer.unwrap_or_else(|TimedOut| {
            self.silent.locked().push(program.to_owned());
            None
        })
    }
}

impl Machine for OwnMachine {
    fn read(&self, path: &Path) -> Option<String> {
        if self.is_open(path) {
            return None;
        }
        let mut text = String::new();
        fs::File::open(path).ok()?.take(MAX_TEXT).read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn list(&self, folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).take(1000).collect()
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
        self.ask_in(&self.home, program, arguments)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn package_managers_that_hang_share_one_limit_and_are_named() {
        let dir = tempfile::tempdir().unwrap();
        // The programs are `sh`: `go env …` and `npm config …` run the scripts `env` and `config`, which loop forever.
        for name in ["npm", "go", "pip"] {
            symlink("/bin/sh", dir.path().join(name)).unwrap();
        }
        let path = dir.path().display().to_string();
        for script in ["config", "env"] {
            pollux_config::files::replace(&dir.path().join(script), b"while :; do :; done", PRIVATE).unwrap();
        }
        let env = Env::new([("PATH".to_owned(), path)], "/".into());
        let machine = OwnMachine { env, home: dir.path().to_owned(), open: Vec::new() };
        let started = Instant::now();
        let found = machine.package_downloads_within(Duration::from_millis(300));
        assert_eq!(found.silent, ["go", "npm"]);
        assert!(started.elapsed() < LIMIT);
        assert!(!found.hosts.iter().any(|host| matches!(host.tool, "npm" | "go")));
    }

    const PRIVATE: pollux_config::files::Mode = pollux_config::files::Mode::Private;
}
