//! The journal of a session: which call changed which paths, and how to undo it.
//!
//! Start at [`Journal`]. The file format is in `wire`, the files in `log`; contents are kept in
//! [`crate::store`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};

use pollux_config::files::{self, FileError, Mode};
use pollux_domain::id::SessionId;
use pollux_domain::sync::Locked as _;

mod log;
mod point;
mod retention;
mod state;
mod wire;

pub use log::LogError;
pub use point::{ChangeScope, Point, PointSummary, Target};
pub use retention::{PruneOutcome, forget, has_journal};

use crate::apply::{self, Applied, Applier, Conflicts, KeptPath};
use crate::aside::{self, SetAside};
use crate::beneath;
use crate::coverage::{Coverage, Reason, Uncovered};
use crate::entry::WorkspaceEntry;
use crate::path::RelPath;
use crate::plan::{self, RewindPlan, RewindStep};
use crate::scope::{Limits, Scope};
use crate::snapshot::{Change, Found, Reader};
use crate::store::Store;

use log::Log;
use retention::folder_name;
use state::{Event, Files, JournalState, REWIND, still_open};

/// The parameters of a journal.
#[derive(Debug, Clone)]
pub struct JournalSetup {
    /// The workspace; an existing folder.
    pub root: PathBuf,
    /// Where contents and journals are kept; one folder for all sessions of a project.
    pub store: PathBuf,
    pub session: SessionId,
    pub limits: Limits,
    /// Exclusions, in the syntax of `.gitignore`; see [`crate::default_skips`].
    pub skip: Vec<String>,
    /// The program's own state: absolute paths that are never recorded and never restored.
    pub never: Vec<PathBuf>,
}

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("could not open the workspace `{}`: {source}", path.display())]
    Root { path: PathBuf, source: io::Error },
    #[error("could not read the rewind journal `{}`: {source}", path.display())]
    Journal { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Folder(#[from] FileError),
}

/// Why the state of the workspace was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("could not scan the workspace `{}`: {source}", path.display())]
    Workspace { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] FileError),
}

/// Why a rewind was not started.
#[derive(Debug, thiserror::Error)]
pub enum RewindError {
    #[error("no such point in this session's rewind journal: {0:?}")]
    UnknownTarget(Target),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// Records the changes of calls and reverts them. Blocks; share it with an `Arc`.
pub struct Journal {
    root: PathBuf,
    folder: PathBuf,
    scope: Scope,
    /// Opened when it is first needed.
    store: OnceLock<Store>,
    state: Mutex<JournalState>,
}

impl Journal {
    /// Opens a session's journal and reads the events of earlier runs. Does not walk the workspace yet.
    pub fn open(setup: JournalSetup) -> Result<Self, OpenError> {
        let root_error = |source| OpenError::Root { path: setup.root.clone(), source };
        let root = setup.root.canonicalize().map_err(root_error)?;
        beneath::open_root(&root).map_err(root_error)?;
        files::create_folder(&setup.store, Mode::Private)?;
        let in_use_path = setup.store.join("in-use");
        let lock = || {
            let file = File::options().create(true).append(true).open(&in_use_path)?;
            file.lock_shared()?;
            Ok(file)
        };
        let journal_error = |path: &Path, source| OpenError::Journal { path: path.to_owned(), source };
        let in_use = lock().map_err(|source| journal_error(&in_use_path, source))?;
        let folder = setup.store.join("sessions").join(folder_name(&setup.session));
        let (log, events) = Log::open(folder.clone()).map_err(|source| journal_error(&folder, source))?;
        let own =
            setup.never.iter().chain([&setup.store]).filter_map(|path| {
                RelPath::below(&root, &path.canonicalize().unwrap_or_else(|_| path.clone()))
            });
        let scope = Scope::new(setup.limits, &setup.skip, own.filter(|path| !path.is_root()).collect());
        let state = JournalState {
            open: still_open(&events),
            log,
            events,
            known: None,
            is_indexed: false,
            told: Vec::new(),
            _in_use: in_use,
        };
        Ok(Self { root, folder: setup.store, scope, store: OnceLock::new(), state: Mutex::new(state) })
    }

    /// Starts a prompt of the user; the following calls belong to it. If it cannot be written, it is with the first call,
    /// or that fails.
    pub fn prompt(&self, id: &str) -> Result<(), LogError> {
        let _ = self.lock().push(Event::Prompt(id.to_owned()));
        Ok(())
    }

    /// Saves what the call could change. Must return before the call runs.
    pub fn before(&self, point: &Point, reach: ChangeScope) -> Result<Coverage, SnapshotError> {
        let mut state = self.lock();
        match reach {
            ChangeScope::Nothing => Ok(Coverage::default()),
            ChangeScope::File(path) => self.before_file(&mut state, point, &path),
            ChangeScope::Workspace => self.before_all(&mut state, point),
        }
    }

    /// Records what the call changed, also when it failed; returns the number of paths.
    pub fn after(&self, call: &str) -> Result<usize, SnapshotError> {
        let mut state = self.lock();
        self.close(&mut state, call, false)
    }

    /// The calls that changed something or are still running, in order.
    pub fn points(&self) -> Vec<PointSummary> {
        let state = self.lock();
        let mut points: Vec<PointSummary> = Vec::new();
        for event in &state.events {
            match event {
                Event::Prompt(_) | Event::SetAside(_) => {}
                Event::Opened { point, .. } => {
                    points.push(PointSummary { point: point.clone(), changed: Vec::new() });
                }
                Event::Closed { call, changes, .. } => {
                    let paths = changes.iter().map(|change| change.path.to_path_buf());
                    if let Some(summary) = points.iter_mut().rev().find(|summary| summary.point.call == *call)
                    {
                        summary.changed.extend(paths);
                    }
                }
            }
        }
        points.retain(|summary| {
            !summary.changed.is_empty() || state.open.iter().any(|open| open.call == summary.point.call)
        });
        points
    }

    /// Plans a rewind to the moment before a call or a prompt. Open calls count as ended, so nothing may be
    /// running.
    pub fn plan(&self, target: &Target) -> Result<RewindPlan, RewindError> {
        let mut state = self.lock();
        let store = self.ready(&mut state)?;
        let left = self.put_back_left(&state.events)?;
        // A call that never ended counts as ended now.
        let open: Vec<String> = state.open.iter().map(|open| open.call.clone()).collect();
        for call in open {
            self.close(&mut state, &call, false)?;
        }
        let is_start = |event: &Event| match (event, target) {
            (Event::Opened { point, .. }, Target::Call(call)) => point.call == *call,
            (Event::Prompt(id), Target::Prompt(wanted)) => id == wanted,
            (Event::Opened { point, .. }, Target::Prompt(wanted)) => point.prompt == *wanted,
            (Event::Prompt(_), Target::Call(_)) | (Event::Closed { .. } | Event::SetAside(_), _) => false,
        };
        let Some(start) = state.events.iter().position(is_start) else {
            return Err(RewindError::UnknownTarget(target.clone()));
        };
        let changes = state.events.iter().skip(start).flat_map(|event| match event {
            Event::Closed { changes, unsure, .. } => {
                changes.iter().map(|change| (change, *unsure)).collect::<Vec<_>>()
            }
            Event::Prompt(_) | Event::Opened { .. } | Event::SetAside(_) => Vec::new(),
        });
        let folds = plan::fold(changes);
        let root = self.open_root()?;
        let reader = self.reader(store, root.as_ref());
        let mut present = BTreeMap::new();
        for path in folds.keys() {
            if let Some((node, _)) = self.look(reader, path)? {
                present.insert(path.clone(), node.entry);
            }
        }
        Ok(RewindPlan { left, ..plan::decide(folds, &present) })
    }

    /// Goes back. May be run again after an interruption, with a new plan.
    pub fn apply(&self, plan: &RewindPlan, conflicts: Conflicts) -> Result<Applied, RewindError> {
        let mut state = self.lock();
        let store = self.ready(&mut state)?;
        let mut applied = Applied { undo: state.next_rewind(), ..Applied::default() };
        let insisted = if conflicts == Conflicts::Overwrite { plan.conflicts.as_slice() } else { &[] };
        let mut steps: Vec<RewindStep> = Vec::with_capacity(plan.steps.len() + insisted.len());
        let mut files = Files::new();
        let mut asides = Vec::new();
        let root = self.open_root()?;
        for step in plan.steps.iter().chain(insisted) {
            let found = self.look(self.reader(store, root.as_ref()), &step.path)?;
            let present = found.map(|(node, _)| node.entry);
            if present != step.present && conflicts == Conflicts::Keep {
                applied.kept.push(KeptPath::Changed(step.path.to_path_buf()));
                continue;
            }
            files.insert(step.path.clone(), present.clone());
            if let plan::Action::MoveBack { from } = &step.action
                && let Some(from) = RelPath::below(Path::new(""), from)
            {
                let found = self.look(self.reader(store, root.as_ref()), &from)?;
                files.insert(from.clone(), found.map(|(node, _)| node.entry));
                asides.push(SetAside::new(from, step.path.clone()));
            }
            steps.push(RewindStep { present, ..step.clone() });
        }
        steps.sort_by(|one, other| one.path.cmp(&other.path));
        let point = Point { call: applied.undo.clone(), prompt: String::new(), tool: REWIND.to_owned() };
        state.open_point(point, Some(files)).map_err(SnapshotError::from)?;
        if !asides.is_empty() {
            // Noted first: a rewind that is interrupted must not lose track of them.
            state.push(Event::SetAside(asides.clone())).map_err(SnapshotError::from)?;
        }
        if !steps.is_empty() {
            let root = apply::open_or_make_root(&self.root).map_err(|source| self.unusable(source))?;
            Applier::new(root.as_fd(), store, &asides).run(&steps, &mut applied);
        }
        let call = applied.undo.clone();
        applied.restored = self.close(&mut state, &call, false)?;
        Ok(applied)
    }

    fn before_file(
        &self,
        state: &mut JournalState,
        point: &Point,
        path: &Path,
    ) -> Result<Coverage, SnapshotError> {
        let store = self.ready(state)?;
        let Some(path) = self.below(path).filter(|path| !self.scope.is_ours(path)) else {
            let uncovered = vec![Uncovered { path: path.to_owned(), reason: Reason::Outside }];
            return Ok(state.tell(0, uncovered));
        };
        let root = self.open_root()?;
        let mut files = Files::new();
        let mut uncovered = Vec::new();
        let found = self.look(self.reader(store, root.as_ref()), &path)?;
        if let Some(reason) = found.as_ref().and_then(|(_, reason)| *reason) {
            uncovered.push(Uncovered { path: path.to_path_buf(), reason });
        }
        if found.is_none() {
            // Folders that the tool will have to create.
            for folder in path.ancestors() {
                if self.look(self.reader(store, root.as_ref()), &folder)?.is_some() {
                    break;
                }
                files.insert(folder, None);
            }
        }
        files.insert(path, found.map(|(node, _)| node.entry));
        state.open_point(point.clone(), Some(files))?;
        Ok(state.tell(1, uncovered))
    }

    fn before_all(&self, state: &mut JournalState, point: &Point) -> Result<Coverage, SnapshotError> {
        let store = self.ready(state)?;
        let others = state.open.iter().find(|open| open.files.is_none()).map(|open| open.call.clone());
        match others {
            // Another command is running: the changes until now are attributed to it.
            Some(call) => {
                let changes = self.renew(state, store)?;
                state.record(&call, false, changes)?;
            }
            None => {
                let before = state.known.take().unwrap_or_default();
                let root = self.open_root()?;
                let captured = self.reader(store, root.as_ref()).capture(&before);
                let tree = captured.map_err(|source| self.unusable(source))?;
                state.is_indexed =
                    state.is_indexed && tree.nodes == before.nodes && tree.unlisted == before.unlisted;
                state.known = Some(tree);
            }
        }
        if !state.is_indexed
            && let Some(tree) = &state.known
        {
            state.log.write_index(tree)?;
            state.is_indexed = true;
        }
        state.open_point(point.clone(), None)?;
        let (entries, uncovered) =
            state.known.as_ref().map(|tree| (tree.nodes.len(), tree.uncovered())).unwrap_or_default();
        Ok(state.tell(entries, uncovered))
    }

    /// Ends a call and writes its changes to the log.
    fn close(&self, state: &mut JournalState, call: &str, unsure: bool) -> Result<usize, SnapshotError> {
        let store = self.ready(state)?;
        let Some(at) = state.open.iter().position(|open| open.call == call) else { return Ok(0) };
        let changes = match state.open.get(at).and_then(|open| open.files.clone()) {
            None => self.renew(state, store)?,
            Some(files) => {
                let root = self.open_root()?;
                let mut changes = Vec::new();
                for (path, was) in files {
                    let found = self.look(self.reader(store, root.as_ref()), &path)?;
                    let now = found.as_ref().map(|(node, _)| node.entry.clone());
                    if was != now {
                        state.see(&path, found);
                        changes.push(Change { path, was, now });
                    }
                }
                changes
            }
        };
        state.open.remove(at);
        let count = changes.len();
        state.record(call, unsure, changes)?;
        Ok(count)
    }

    /// Scans the complete workspace again; returns the changes since the last scan.
    fn renew(&self, state: &mut JournalState, store: &Store) -> Result<Vec<Change>, SnapshotError> {
        let before = state.known.take().unwrap_or_default();
        let root = self.open_root()?;
        let reader = self.reader(store, root.as_ref());
        let compared = reader.capture(&before).and_then(|mut after| {
            let changes = reader.changes(&before, &mut after)?;
            Ok((after, changes))
        });
        match compared {
            Ok((after, changes)) => {
                state.is_indexed = false;
                state.known = Some(after);
                Ok(changes)
            }
            Err(source) => {
                state.known = Some(before);
                Err(self.unusable(source))
            }
        }
    }

    /// Opens the store when it is first needed, and ends the calls that an earlier run left open.
    fn ready(&self, state: &mut JournalState) -> Result<&Store, SnapshotError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let opened = Store::open(&self.folder, self.scope.limits.store)?;
        let store = self.store.get_or_init(|| opened);
        let own = state.log.read_index();
        state.is_indexed = own.is_some();
        let mut tree = own.or_else(|| state.log.newest_index()).unwrap_or_default();
        tree.nodes.retain(|_, node| match &node.entry {
            WorkspaceEntry::File { content, .. } => store.has(content),
            WorkspaceEntry::Folder { .. } | WorkspaceEntry::Link { .. } | WorkspaceEntry::Special { .. } => {
                true
            }
        });
        state.known = Some(tree);
        if state.events.iter().any(|event| matches!(event, Event::SetAside(_))) {
            // Before the interrupted rewind counts as ended: it did not change what is put back.
            self.put_back_left(&state.events)?;
        }
        let left: Vec<String> = state.open.iter().map(|open| open.call.clone()).collect();
        for call in left {
            self.close(state, &call, true)?;
        }
        Ok(store)
    }

    /// Puts files back that an interrupted rewind set aside; returns those that keep their temporary names.
    fn put_back_left(&self, events: &[Event]) -> Result<Vec<PathBuf>, SnapshotError> {
        let Some(root) = self.open_root()? else { return Ok(Vec::new()) };
        let left = aside::leftovers(root.as_fd()).map_err(|source| self.unusable(source))?;
        if left.is_empty() {
            return Ok(Vec::new());
        }
        let noted = |name: &[u8]| {
            let mut files = events.iter().rev().filter_map(|event| match event {
                Event::SetAside(files) => files.iter().find(|aside| aside.name == name),
                Event::Prompt(_) | Event::Opened { .. } | Event::Closed { .. } => None,
            });
            files.next().cloned()
        };
        // Earlier versions wrote no note, and a power failure can lose it. The name begins with a hash of the path.
        let changed = |name: &[u8]| {
            let mut paths = events.iter().flat_map(|event| match event {
                Event::Closed { changes, .. } => changes.as_slice(),
                Event::Prompt(_) | Event::Opened { .. } | Event::SetAside(_) => &[],
            });
            let change = paths.find(|change| name.starts_with(&aside::temp_name(&change.path)))?;
            Some(SetAside { from: change.path.clone(), to: change.path.clone(), name: name.to_vec() })
        };
        Ok(aside::put_back(root.as_fd(), left, |name| noted(name).or_else(|| changed(name))))
    }

    /// The path below the root that a tool would write to, links resolved; `None` outside.
    fn below(&self, path: &Path) -> Option<RelPath> {
        let path = self.root.join(path);
        for folder in path.ancestors() {
            if let Ok(real) = folder.canonicalize() {
                return RelPath::below(&self.root, &real.join(path.strip_prefix(folder).ok()?));
            }
        }
        None
    }

    fn look(&self, reader: Reader<'_>, path: &RelPath) -> Result<Option<Found>, SnapshotError> {
        reader
            .look(path)
            .map_err(|source| SnapshotError::Workspace { path: self.root.join(path.as_path()), source })
    }

    fn reader<'a>(&'a self, store: &'a Store, root: Option<&'a OwnedFd>) -> Reader<'a> {
        Reader { root: root.map(|root| root.as_fd()), scope: &self.scope, store }
    }

    /// `None` when the root itself is missing.
    fn open_root(&self) -> Result<Option<OwnedFd>, SnapshotError> {
        match beneath::open_root(&self.root) {
            Ok(root) => Ok(Some(root)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.unusable(source)),
        }
    }

    fn unusable(&self, source: io::Error) -> SnapshotError {
        SnapshotError::Workspace { path: self.root.clone(), source }
    }

    fn lock(&self) -> MutexGuard<'_, JournalState> {
        self.state.locked()
    }
}
