//! The paths of the workspace, listed in the background and cached.
//!
//! The first request starts the walk and is answered repeatedly with the paths known so far until the walk ends. An
//! outdated list is used until a new walk has ended. A list made with other folders or ignore files is dropped at once.
//! That a path is missing is certain only after a walk that began after the request.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use pollux_config::groups::FileFiltering;
use pollux_domain::sync::{Locked as _, SharedLocked as _};
use pollux_host::{Workspace, list_paths, path_list_key};
use tokio_util::sync::CancellationToken;

use super::fuzzy;

/// Cached paths; those nearest to the root are kept.
const MOST_PATHS: usize = 200_000;
/// Paths that a walk adds at once.
const BATCH: usize = 2000;
/// A list is outdated after this time, and after ten times the duration of its walk.
const FRESH: Duration = Duration::from_secs(3);
/// Time to wait for more paths before checking whether the request is still current.
pub(super) const WAIT: Duration = Duration::from_millis(100);
/// Paths to compare before checking whether the request is still current.
const STRIDE: usize = 8192;

/// The paths known so far.
#[derive(Default)]
pub(super) struct ProjectPaths {
    known: RwLock<Known>,
    walk: Mutex<Walk>,
    changed: Condvar,
}

/// All paths in one string, to save memory.
#[derive(Default, Clone, PartialEq)]
struct Known {
    text: String,
    ends: Vec<usize>,
}

#[derive(Default)]
struct Walk {
    is_under_way: bool,
    /// The folders and ignore files of the last walk, or of the one under way.
    key: String,
    /// Beginning and end of the last walk.
    last: Option<(Instant, Instant)>,
    /// It ended before it had visited all paths.
    is_cut: bool,
    /// Incremented with every change.
    version: u64,
}

impl Known {
    fn push(&mut self, path: &str) {
        self.text.push_str(path);
        self.ends.push(self.text.len());
    }

    fn append(&mut self, more: &mut Self) {
        let before = self.text.len();
        self.text.push_str(&more.text);
        self.ends.extend(more.ends.iter().map(|end| before + end));
        *more = Self::default();
    }

    fn get(&self, at: usize) -> Option<&str> {
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.text.get(start..*self.ends.get(at)?)
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).filter_map(|at| self.get(at))
    }
}

impl ProjectPaths {
    /// Starts a walk unless one is running or the list is current; returns the version. A list is not current if its
    /// walk began before `since`.
    pub(super) fn refresh(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        filtering: &FileFiltering,
        since: Option<Instant>,
    ) -> u64 {
        let key = path_list_key(workspace, filtering);
        let mut walk = self.walk();
        if !walk.is_under_way && walk.key != key {
            *self.known.write_locked() = Known::default();
            *walk = Walk { key, version: walk.version + 1, ..Walk::default() };
        }
        let is_fresh = walk.last.is_some_and(|(began, ended)| {
            ended.elapsed() < FRESH.max((ended - began) * 10) && since.is_none_or(|since| began >= since)
        });
        if !walk.is_under_way && !is_fresh {
            let is_first = walk.last.is_none();
            let (paths, workspace, filtering) = (Arc::clone(self), Arc::clone(workspace), filtering.clone());
            let work = move || paths.walk_all(&workspace, &filtering, is_first);
            walk.is_under_way = std::thread::Builder::new().name("paths".to_owned()).spawn(work).is_ok();
        }
        walk.version
    }

    /// Whether the last walk began after this.
    pub(super) fn is_listed_since(&self, time: Instant) -> bool {
        self.walk().last.is_some_and(|(began, _)| began >= time)
    }

    /// Whether there are more paths than are listed.
    pub(super) fn is_cut(&self) -> bool {
        self.walk().is_cut
    }

    /// Waits for a newer version; `None` if the walk has ended. Returns the same version after a while, so that the caller
    /// can check whether the request is still current.
    pub(super) fn more_than(&self, version: u64) -> Option<u64> {
        let walk = self.walk();
        let nothing_new = |walk: &mut Walk| walk.is_under_way && walk.version == version;
        let (walk, _) =
            self.changed.wait_timeout_while(walk, WAIT, nothing_new).unwrap_or_else(PoisonError::into_inner);
        (walk.is_under_way || walk.version != version).then_some(walk.version)
    }

    /// The best matches, unless `is_wanted` returns false. Without `deep`, only direct children of the named folder.
    pub(super) fn find(
        &self,
        sought: &str,
        (loose, deep): (bool, bool),
        most: usize,
        is_wanted: &dyn Fn() -> bool,
    ) -> Vec<String> {
        let known = self.known();
        let folder = sought.rfind('/').map_or("", |slash| sought.get(..=slash).unwrap_or_default());
        let is_near = |path: &str| {
            let below = path.strip_prefix(folder);
            below.is_some_and(|below| !below.is_empty() && !below.trim_end_matches('/').contains('/'))
        };
        let lower = sought.to_lowercase();
        let mut ranked = Vec::new();
        for (at, path) in known.iter().enumerate() {
            if at % STRIDE == 0 && !is_wanted() {
                return Vec::new();
            }
            // Nothing typed yet: the paths nearest to the root.
            let fits = if lower.is_empty() { Some(0) } else { fuzzy::rank(path, &lower, loose) };
            if let Some(rank) = fits.filter(|_| deep || is_near(path)) {
                ranked.push((rank, u32::try_from(at).unwrap_or(u32::MAX)));
            }
        }
        let best = fuzzy::best(ranked, most);
        best.into_iter().filter_map(|at| known.get(at)).map(str::to_owned).collect()
    }

    fn walk_all(&self, workspace: &Workspace, filtering: &FileFiltering, is_first: bool) {
        let began = Instant::now();
        let (mut new, mut count) = (Known::default(), 0);
        list_paths(workspace, filtering, &CancellationToken::new(), &mut |path| {
            new.push(path);
            count += 1;
            if is_first && new.ends.len() >= BATCH {
                self.write(|known| known.append(&mut new));
            }
            if count < MOST_PATHS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if is_first {
            self.write(|known| known.append(&mut new));
        } else if *self.known() != new {
            self.write(|known| *known = new);
        }
        let mut walk = self.walk();
        walk.is_under_way = false;
        walk.last = Some((began, Instant::now()));
        walk.is_cut = count >= MOST_PATHS;
        self.changed.notify_all();
    }

    fn write(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.write_locked());
        self.walk().version += 1;
        self.changed.notify_all();
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read_locked()
    }

    fn walk(&self) -> MutexGuard<'_, Walk> {
        self.walk.locked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_a_hundred_thousand_paths_are_found() {
        let paths = ProjectPaths::default();
        paths.write(|known| {
            for number in 0..100_000 {
                known.push(&format!(
                    "crates/part-{}/src/module_{}/file_{number}.rs",
                    number % 97,
                    number % 1009
                ));
            }
        });
        let found = paths.find("mod7file_99", (true, true), 100, &|| true);
        assert!(found.len() == 100 && found[0].contains("file_99"), "{:?}", found.first());
        assert!(paths.find("file", (true, true), 100, &|| false).is_empty());
    }

    #[test]
    fn without_a_deep_search_only_the_named_folder_counts() {
        let paths = ProjectPaths::default();
        paths.write(|known| {
            ["src/", "a.rs", "src/a.rs", "src/deep/", "src/deep/a.rs"]
                .iter()
                .for_each(|path| known.push(path))
        });
        assert_eq!(paths.find("a", (true, false), 9, &|| true), ["a.rs"]);
        assert_eq!(paths.find("src/", (true, false), 9, &|| true), ["src/a.rs", "src/deep/"]);
        assert_eq!(paths.find("", (true, true), 2, &|| true), ["src/", "a.rs"]);
    }
}
