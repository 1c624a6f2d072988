//! Undoing file changes: records what tool calls change, for `/rewind` and `pollux sessions rewind`.

mod change_recorder;
mod checkpoints;

use std::path::PathBuf;

use pollux_config::groups::Rewind;
use pollux_config::paths::{Home, Project};
use pollux_domain::id::SessionId;
use pollux_rewind::{
    Action, Applied, Conflict, Journal, JournalSetup, KeptPath, Limits, OpenError, RewindError, RewindPlan,
    RewindStep, Target, default_skips, has_journal,
};

pub(crate) use change_recorder::ChangeRecorder;
pub(crate) use checkpoints::{CheckpointStore, open_shadow};

/// What a file is that [`RewindPlan::left`] names.
pub const LEFT_ASIDE: &str = "an interrupted rewind gave the file this name; rename it";

/// The folder shared by the journals of a project's sessions. The project's folder can change its name, so a session that
/// has a journal keeps the folder of that journal.
pub fn store(project: &Project, session: &SessionId) -> PathBuf {
    let stores = || project.state_dirs().iter().map(|folder| folder.join("rewind"));
    let existing = stores().find(|store| has_journal(store, session));
    existing.unwrap_or_else(|| project.temp_dir().join("rewind"))
}

/// Opens the journal of a session's file changes, creating the store's folder if needed.
pub fn open_journal(
    home: &Home,
    project: &Project,
    session: &SessionId,
    settings: &Rewind,
) -> Result<Journal, OpenError> {
    let mut skip = default_skips();
    skip.extend(settings.skip.iter().cloned());
    Journal::open(JournalSetup {
        root: project.root().to_path_buf(),
        store: store(project, session),
        session: session.clone(),
        limits: Limits {
            file: settings.max_file,
            tree: settings.max_tree,
            entries: settings.max_entries,
            store: settings.max_store,
        },
        skip,
        never: vec![home.tmp_dir(), home.history_dir()],
    })
}

/// As [`open_journal`], but `None` if nothing was recorded for the project; creates no folder.
pub fn existing_journal(
    home: &Home,
    project: &Project,
    session: &SessionId,
    settings: &Rewind,
) -> Result<Option<Journal>, OpenError> {
    if !store(project, session).is_dir() {
        return Ok(None);
    }
    open_journal(home, project, session, settings).map(Some)
}

/// Plans the rewind to the state before the first of these prompts, given in order. Prompts that the journal
/// does not know changed nothing and are skipped; if it knows none, there is nothing to do.
pub fn plan_from(journal: &Journal, prompts: &[String]) -> Result<RewindPlan, RewindError> {
    for prompt in prompts {
        match journal.plan(&Target::Prompt(prompt.clone())) {
            Err(RewindError::UnknownTarget(_)) => {}
            planned => return planned,
        }
    }
    Ok(RewindPlan::default())
}

/// A rewind plan as readable lines.
pub fn plan_lines(plan: &RewindPlan) -> Vec<String> {
    let steps = plan.steps.iter().map(|step| format!("  {}", step_words(step)));
    let conflicts = plan.conflicts.iter().map(|step| {
        let why = match step.conflict {
            Some(Conflict::ChangedByOthers) | None => "changed since by another program",
            Some(Conflict::Unsure) => "Pollux exited during a call",
            Some(Conflict::CannotBeSaved) => "the current content cannot be saved",
        };
        format!("  conflict: {} ({why})", step_words(step))
    });
    let lost = plan.lost.iter().map(|lost| format!("  lost: {} ({})", lost.path.display(), lost.reason));
    let left = plan.left.iter().map(|path| format!("  not put back: {} ({LEFT_ASIDE})", path.display()));
    steps.chain(conflicts).chain(lost).chain(left).collect()
}

fn step_words(step: &RewindStep) -> String {
    let path = step.path().display();
    match &step.action {
        Action::Create => format!("recreate {path}"),
        Action::Overwrite => format!("restore {path}"),
        Action::Delete => format!("delete {path}"),
        Action::Chmod => format!("restore the mode of {path}"),
        Action::MoveBack { from } => format!("move {} back to {path}", from.display()),
    }
}

/// The result of a rewind as readable lines.
pub fn applied_lines(applied: &Applied) -> Vec<String> {
    let mut lines = vec![match applied.restored {
        0 => "No files were changed.".to_owned(),
        1 => "Restored 1 file or folder.".to_owned(),
        count => format!("Restored {count} files and folders."),
    }];
    lines.extend(applied.kept.iter().map(|kept| match kept {
        KeptPath::Changed(path) => format!("kept: {} (changed in the meantime)", path.display()),
        KeptPath::NotEmpty(path) => format!("kept: {} (contains other files)", path.display()),
    }));
    lines.extend(applied.failed.iter().map(|(path, error)| format!("failed: {}: {error}", path.display())));
    lines
}
