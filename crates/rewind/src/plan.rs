//! Plans a rewind: the steps and conflicts, without changing anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::coverage::Reason;
use crate::coverage::Uncovered;
use crate::entry::{Content, WorkspaceEntry};
use crate::path::RelPath;
use crate::snapshot::Change;

/// The steps back to a point. Computed by [`crate::Journal::plan`], executed by [`crate::Journal::apply`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RewindPlan {
    /// Steps to execute, sorted by path.
    pub steps: Vec<RewindStep>,
    /// Steps to execute only with overwrite.
    pub conflicts: Vec<RewindStep>,
    /// Paths that cannot be restored, because their content was not saved.
    pub lost: Vec<Uncovered>,
    /// Files below the root that an interrupted rewind left under a temporary name, and that could not be put back.
    pub left: Vec<PathBuf>,
}

/// The step for one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewindStep {
    pub action: Action,
    pub conflict: Option<Conflict>,
    pub(crate) path: RelPath,
    pub(crate) present: Option<WorkspaceEntry>,
    pub(crate) goal: Option<WorkspaceEntry>,
}

/// The action on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It is missing and will be created.
    Create,
    /// Its content, its link target or its kind is restored.
    Overwrite,
    /// It is new and will be deleted.
    Delete,
    /// Only its mode is restored.
    Chmod,
    /// It was moved away and is moved back.
    MoveBack { from: PathBuf },
}

/// Why a step needs confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// Changed by others after the agent changed it, or between two of its calls.
    ChangedByOthers,
    /// The program ended during the call, so the author of the change is unknown.
    Unsure,
    /// It is too large to be saved, and other content is already lost.
    CannotBeSaved,
}

impl RewindStep {
    /// The path below the root.
    pub fn path(&self) -> &Path {
        self.path.as_path()
    }
}

impl RewindPlan {
    /// Whether everything already is as it was.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.conflicts.is_empty() && self.lost.is_empty()
    }
}

/// The changes to one path by the calls since a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fold {
    /// Before the first of them.
    goal: Option<WorkspaceEntry>,
    /// After the last of them.
    last: Option<WorkspaceEntry>,
    /// The state left by one call is not the state found by the next.
    by_others: bool,
    unsure: bool,
}

/// Sums up changes in the order in which they happened.
pub(crate) fn fold<'a>(changes: impl Iterator<Item = (&'a Change, bool)>) -> BTreeMap<RelPath, Fold> {
    let mut folds: BTreeMap<RelPath, Fold> = BTreeMap::new();
    for (change, unsure) in changes {
        match folds.get_mut(&change.path) {
            Some(fold) => {
                fold.by_others |= fold.last != change.was;
                fold.unsure |= unsure;
                fold.last.clone_from(&change.now);
            }
            None => {
                let (goal, last) = (change.was.clone(), change.now.clone());
                folds.insert(change.path.clone(), Fold { goal, last, by_others: false, unsure });
            }
        }
    }
    folds
}

/// Compares the present state with the goal.
pub(crate) fn decide(
    folds: BTreeMap<RelPath, Fold>,
    present: &BTreeMap<RelPath, WorkspaceEntry>,
) -> RewindPlan {
    let mut steps = Vec::new();
    let mut missing = Vec::new();
    for (path, fold) in folds {
        let now = present.get(&path);
        if fold.goal.as_ref() == now {
            continue;
        }
        let conflict = if fold.unsure {
            Some(Conflict::Unsure)
        } else if fold.by_others || fold.last.as_ref() != now {
            Some(Conflict::ChangedByOthers)
        } else {
            None
        };
        let action = action(now, fold.goal.as_ref());
        let step = |action| RewindStep { action, conflict, path, present: now.cloned(), goal: fold.goal };
        match action {
            Some(action) => steps.push(step(action)),
            // The action is settled below.
            None => missing.push(step(Action::Create)),
        }
    }
    let mut lost = Vec::new();
    for step in missing {
        match move_back(&step, &mut steps) {
            Some(step) => steps.push(step),
            None => {
                lost.push(Uncovered { path: step.path.to_path_buf(), reason: reason(step.goal.as_ref()) })
            }
        }
    }
    steps.sort_by(|one, other| one.path.cmp(&other.path));
    for step in &mut steps {
        let would_destroy = matches!(step.action, Action::Delete | Action::Overwrite)
            && step.present.as_ref().is_some_and(|entry| !entry.is_saved());
        if would_destroy && !lost.is_empty() && step.conflict.is_none() {
            step.conflict = Some(Conflict::CannotBeSaved);
        }
    }
    let (conflicts, steps) = steps.into_iter().partition(|step| step.conflict.is_some());
    RewindPlan { steps, conflicts, lost, left: Vec::new() }
}

/// `None` when the goal's content is nowhere.
fn action(present: Option<&WorkspaceEntry>, goal: Option<&WorkspaceEntry>) -> Option<Action> {
    match (present, goal) {
        (_, None) => Some(Action::Delete),
        (Some(WorkspaceEntry::Folder { .. }), Some(WorkspaceEntry::Folder { .. })) => Some(Action::Chmod),
        (
            Some(WorkspaceEntry::File { content, len, .. }),
            Some(WorkspaceEntry::File { content: wanted, len: wanted_len, .. }),
        ) if content == wanted && len == wanted_len => Some(Action::Chmod),
        (_, Some(goal)) if !goal.is_saved() => None,
        (None, Some(_)) => Some(Action::Create),
        (Some(_), Some(_)) => Some(Action::Overwrite),
    }
}

/// A file too large to be saved that was only moved is moved back instead of being given up.
fn move_back(step: &RewindStep, steps: &mut Vec<RewindStep>) -> Option<RewindStep> {
    let Some(WorkspaceEntry::File { len, content: wanted @ Content::Unsaved { .. }, .. }) = &step.goal else {
        return None;
    };
    let is_it = |other: &RewindStep| {
        other.action == Action::Delete
            && other.conflict.is_none()
            && matches!(&other.present, Some(WorkspaceEntry::File { len: other_len, content, .. })
                if content == wanted && other_len == len)
    };
    let found = steps.iter().position(is_it)?;
    let from = steps.remove(found).path.to_path_buf();
    Some(RewindStep { action: Action::MoveBack { from }, ..step.clone() })
}

fn reason(goal: Option<&WorkspaceEntry>) -> Reason {
    match goal {
        Some(WorkspaceEntry::Special { .. }) => Reason::Special,
        Some(WorkspaceEntry::File { .. } | WorkspaceEntry::Folder { .. } | WorkspaceEntry::Link { .. })
        | None => Reason::TooLarge,
    }
}
