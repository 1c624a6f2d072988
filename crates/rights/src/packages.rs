//! Reads where this machine's package managers download from.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pollux_config::credential_variables::is_credential;
use pollux_config::env::Env;
use pollux_config::search_path::SearchPath;
use pollux_egress::preset::{self, DownloadHost, Machine};

/// A tool that takes longer is not asked.
const LIMIT: Duration = Duration::from_secs(3);
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
        let path = self.env.get("PATH").map(OsStr::new);
        let program = SearchPath::new(path, &self.open).find_safe(program)?;
        let mut command = Command::new(program);
        let harmless = self.env.iter().filter(|(name, value)| !is_credential(&name.to_uppercase(), value));
        command.args(arguments).current_dir(&self.home).env_clear().envs(harmless);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) | Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return None;
                }
            }
        };
        let mut text = String::new();
        child.stdout.take()?.take(MAX_TEXT).read_to_string(&mut text).ok()?;
        status.success().then_some(text)
    }
}
