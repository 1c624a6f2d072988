//! Remembers that a level worked, so that a run that starts no command need not try it again.
//!
//! Only successes are remembered, and they only postpone the trial: the first command opens the real sandbox and fails
//! if that is impossible. So a wrong or forged entry cannot make anything weaker.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, Mode};

use crate::{Level, SandboxRequest};

/// Older entries are forgotten.
const MAX_ENTRIES: usize = 32;

/// What decides whether namespaces can be created; a file that does not exist counts too.
const CONDITIONS: &[&str] = &[
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_mnt_namespaces",
    "/proc/sys/user/max_net_namespaces",
    "/proc/sys/user/max_pid_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/self/attr/current",
    "/proc/self/uid_map",
];
/// The namespaces that this program runs in: in a container they differ.
const NAMESPACES: &[&str] = &["/proc/self/ns/user", "/proc/self/ns/mnt", "/proc/self/ns/net"];
/// Lines of `/proc/self/status` about its own confinement.
const OWN_LIMITS: &[&str] = &["Uid:", "CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:"];

/// A trial under the conditions of this moment.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    file: PathBuf,
    entry: String,
}

impl Remembered {
    pub(crate) fn new(level: Level, program: Option<&Path>, request: &SandboxRequest) -> Self {
        let mut key = DefaultHasher::new();
        request.network.hash(&mut key);
        request.roots.hash(&mut key);
        request.temp.hash(&mut key);
        for path in [Some(Path::new("/proc/self/exe")), program].into_iter().flatten() {
            let identity = fs::metadata(path)
                .ok()
                .map(|meta| (meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()));
            (program, identity).hash(&mut key);
        }
        for condition in CONDITIONS {
            fs::read(condition).ok().hash(&mut key);
        }
        for namespace in NAMESPACES {
            fs::read_link(namespace).ok().hash(&mut key);
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let is_limit = |line: &&str| OWN_LIMITS.iter().any(|limit| line.starts_with(limit));
        status.lines().filter(is_limit).for_each(|line| line.hash(&mut key));
        let file = request.gemini_dir.join("sandbox-trials");
        Self { file, entry: format!("{} {:016x}", level.as_str(), key.finish()) }
    }

    /// Whether it succeeded before.
    pub(crate) fn is_known(&self) -> bool {
        self.entries().contains(&self.entry)
    }

    pub(crate) fn remember(&self) {
        self.replace(true);
    }

    pub(crate) fn forget(&self) {
        if self.is_known() {
            self.replace(false);
        }
    }

    fn entries(&self) -> Vec<String> {
        let text = files::read_text(&self.file).ok().flatten().unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Without success, the next run tries the level again, which does no harm.
    fn replace(&self, is_kept: bool) {
        let mut entries = self.entries();
        entries.retain(|known| *known != self.entry);
        if is_kept {
            entries.push(self.entry.clone());
        }
        let newest = entries.get(entries.len().saturating_sub(MAX_ENTRIES)..).unwrap_or_default();
        let text = newest.iter().map(|entry| format!("{entry}\n")).collect::<String>();
        let _ = files::replace(&self.file, text.as_bytes(), Mode::Private);
    }
}
