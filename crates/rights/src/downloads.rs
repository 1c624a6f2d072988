//! The hosts of package downloads: found when they are first needed, and allowed if the settings say so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pollux_egress::preset::{self, DownloadHost};
use pollux_egress::rules::RuleBook;

use crate::packages::{OwnMachine, PACKAGES_LIMIT, PackageDownloads};

pub(crate) struct Downloads {
    machine: Arc<OwnMachine>,
    rules: Arc<RuleBook>,
    found: OnceLock<PackageDownloads>,
    /// Whether they are to be allowed without a question.
    is_preset: AtomicBool,
    allowed: OnceLock<()>,
    is_told: AtomicBool,
}

impl Downloads {
    pub(crate) fn new(machine: Arc<OwnMachine>, rules: Arc<RuleBook>) -> Self {
        let [is_preset, is_told] = [false; 2].map(AtomicBool::new);
        Self { machine, rules, found: OnceLock::new(), is_preset, allowed: OnceLock::new(), is_told }
    }

    /// Allows commands to use the hosts. Queries nothing yet, because package managers may take seconds and must not
    /// delay the session.
    pub(crate) fn preset(&self) {
        self.is_preset.store(true, Ordering::Release);
    }

    fn is_pending(&self) -> bool {
        self.is_preset.load(Ordering::Acquire) && self.allowed.get().is_none()
    }

    /// Starts the query in the background if the hosts are still to be allowed.
    pub(crate) fn prepare(self: &Arc<Self>) {
        if self.is_pending() {
            let downloads = Arc::clone(self);
            // Without a thread, the first connection asks.
            let _ =
                std::thread::Builder::new().name("downloads".to_owned()).spawn(move || downloads.settle());
        }
    }

    /// Waits until the rules name the hosts, if the settings allow them.
    pub(crate) fn settle(&self) {
        if self.is_pending() {
            self.allowed.get_or_init(|| {
                self.rules.grant_unless_revoked(&preset::rules(self.hosts()));
            });
        }
    }

    /// The same without holding up other connections.
    pub(crate) async fn settle_in_background(self: &Arc<Self>) {
        if self.is_pending() {
            let downloads = Arc::clone(self);
            let settled = tokio::task::spawn_blocking(move || downloads.settle());
            // Programs on a network drive may not even be found in time.
            let _ = tokio::time::timeout(PACKAGES_LIMIT + Duration::from_secs(1), settled).await;
        }
    }

    /// The first call asks the package managers, which takes a while.
    fn hosts(&self) -> &[DownloadHost] {
        &self.found.get_or_init(|| self.machine.package_downloads()).hosts
    }

    /// The same without holding up other connections.
    pub(crate) async fn hosts_in_background(self: &Arc<Self>) -> &[DownloadHost] {
        if self.found.get().is_none() {
            let downloads = Arc::clone(self);
            let asked = tokio::task::spawn_blocking(move || {
                downloads.hosts();
            });
            let _ = asked.await;
        }
        self.found.get().map(|found| found.hosts.as_slice()).unwrap_or_default()
    }

    /// Messages about package managers that timed out; returned only once.
    pub(crate) fn take_problems(&self) -> Vec<String> {
        let (Some(found), Some(())) = (self.found.get(), self.allowed.get()) else { return Vec::new() };
        if self.is_told.swap(true, Ordering::Relaxed) {
            return Vec::new();
        }
        let silent = found.silent.iter();
        silent.map(|program| format!("`{program}` timed out; its download hosts are unknown.")).collect()
    }
}

#[cfg(test)]
mod tests {
    use pollux_config::env::Env;
    use pollux_config::files::{Mode, replace};
    use pollux_egress::host::Host;
    use pollux_egress::rules::{Decision, RuleSet};

    use super::*;

    #[test]
    fn a_host_that_was_revoked_before_the_first_command_stays_so() {
        let dir = tempfile::tempdir().unwrap();
        let names =
            [("npm_config_registry", "https://npm.example"), ("PIP_INDEX_URL", "https://pip.example")];
        let variables = names.into_iter().chain([("PATH", "/nonexistent")]);
        let env = Env::new(variables.map(|(name, value)| (name.to_owned(), value.to_owned())), "/".into());
        let machine = OwnMachine::new(env, dir.path().to_owned(), Vec::new());
        let rules = Arc::new(RuleBook::new(RuleSet::default()));
        let downloads = Arc::new(Downloads::new(Arc::new(machine), Arc::clone(&rules)));
        let decide = |host: &str| rules.snapshot().decide(&Host::parse(host).unwrap(), 443);
        downloads.preset();
        rules.revoke(&Host::parse("npm.example").unwrap(), 443);
        downloads.settle();
        assert_eq!(decide("npm.example"), Decision::Unlisted);
        assert!(matches!(decide("pip.example"), Decision::Allow { .. }));
    }

    #[test]
    fn package_managers_are_asked_in_the_background_and_their_hosts_become_rules() {
        let dir = tempfile::tempdir().unwrap();
        // The program is `sh`: `npm config …` runs the script `config`, which waits until it may answer.
        std::os::unix::fs::symlink("/bin/sh", dir.path().join("npm")).unwrap();
        let script = ": > asked; until [ -e go ]; do :; done; echo https://npm.example/";
        replace(&dir.path().join("config"), script.as_bytes(), Mode::Private).unwrap();
        let env = Env::new([("PATH".to_owned(), dir.path().display().to_string())], "/".into());
        let machine = OwnMachine::new(env, dir.path().to_owned(), Vec::new());
        let rules = Arc::new(RuleBook::new(RuleSet::default()));
        let downloads = Arc::new(Downloads::new(Arc::new(machine), Arc::clone(&rules)));
        let decide = || rules.snapshot().decide(&Host::parse("npm.example").unwrap(), 443);
        downloads.prepare();
        downloads.settle();
        downloads.preset();
        assert!(!dir.path().join("asked").exists(), "the session starts without them");
        downloads.prepare();
        assert_eq!(decide(), Decision::Unlisted);
        replace(&dir.path().join("go"), b"", Mode::Private).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(downloads.settle_in_background());
        assert!(matches!(decide(), Decision::Allow { .. }), "{:?}", downloads.hosts());
        assert_eq!(downloads.take_problems(), [""; 0]);
        // A revoked grant is not restored.
        rules.revoke_grants();
        downloads.preset();
        downloads.settle();
        assert_eq!(decide(), Decision::Unlisted);
    }
}
