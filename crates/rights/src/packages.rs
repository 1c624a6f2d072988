//! Reads where this machine's package managers download from.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use pollux_config::credential_variables::is_credential;
use pollux_config::env::Env;
use pollux_config::search_path::SearchPath;
use pollux_egress::preset::{self, DownloadHost, Machine};

/// A tool that takes longer is not asked.
const LIMIT: Duration = Duration::from_secs(15);
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
    pub(crate) fn package_downloads(&self) -> Vec<DownloadHost> {
        preset::package_downloads(&self.env, &self.home, self)
    }

    /// What a program answers in a folder; `None` if it fails or takes too long.
    pub(crate) fn ask_in(&self, folder: &Path, program: &str, arguments: &[&str]) -> Option<String> {
        let path = self.env.get("PATH").map(OsStr::new);
        let program = SearchPath::new(path, &self.open).find_safe(program)?;
        let mut command = Command::new(program);
        let harmless = self.env.iter().filter(|(name, value)| !is_credential(&name.to_uppercase(), value));
        command.args(arguments).current_dir(folder).env_clear().envs(harmless);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let stdout = child.stdout.take()?;
        let (sender, answer) = mpsc::channel();
        // Read while it runs: it waits if the pipe is full.
        let read = move || {
            let mut text = String::new();
            let whole = stdout.take(MAX_TEXT).read_to_string(&mut text).is_ok();
            let _ = sender.send(whole.then_some(text));
        };
        let reader = std::thread::Builder::new().spawn(read);
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if reader.is_ok() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2))
                }
                Ok(None) | Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return None;
                }
            }
        };
        let text = answer.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()??;
        status.success().then_some(text)
    }

    fn is_open(&self, path: &Path) -> bool {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.open.iter().any(|open| real.starts_with(open) || path.starts_with(open))
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
