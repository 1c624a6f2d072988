//! The way back: what calls change is kept, and `/rewind` and `sessions rewind` take it back.

mod checkpoints;
mod keeper;

use std::path::PathBuf;

use pollux_config::groups::Rewind;
use pollux_config::paths::{Home, Project};
use pollux_domain::id::SessionId;
use pollux_rewind::{
    Action, Applied, Conflict, Journal, JournalSetup, Kept, Limits, OpenError, Plan, RewindError, Step,
    Target, default_skips,
};

pub(crate) use checkpoints::{Shadow, open_shadow};
pub(crate) use keeper::Keeper;

/// The folder that the journals of a project's sessions share.
pub fn store(project: &Project) -> PathBuf {
    project.temp_dir().join("rewind")
}

/// The journal of a session: what its calls changed. Creates the store's folder when there is none.
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
        store: store(project),
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

/// As [`open_journal`], but `None` when nothing was ever kept for the project; makes no folder.
pub fn existing_journal(
    home: &Home,
    project: &Project,
    session: &SessionId,
    settings: &Rewind,
) -> Result<Option<Journal>, OpenError> {
    if !store(project).is_dir() {
        return Ok(None);
    }
    open_journal(home, project, session, settings).map(Some)
}

/// The way back to the moment before the first of these prompts, given in their order. Prompts that the journal
/// does not know changed nothing and are passed over; if it knows none of them there is nothing to do.
pub fn plan_from(journal: &Journal, prompts: &[String]) -> Result<Plan, RewindError> {
    for prompt in prompts {
        match journal.plan(&Target::Prompt(prompt.clone())) {
            Err(RewindError::UnknownTarget(_)) => {}
            planned => return planned,
        }
    }
    Ok(Plan::default())
}

/// A plan in lines for people.
pub fn plan_lines(plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter().map(|step| format!("  {}", step_words(step)));
    let conflicts = plan.conflicts.iter().map(|step| {
        let why = match step.conflict {
            Some(Conflict::ChangedByOthers) | None => "changed by somebody else since",
            Some(Conflict::Unsure) => "the program ended in the middle of a call",
            Some(Conflict::CannotBeSaved) => "what is there now cannot be kept",
        };
        format!("  conflict: {} ({why})", step_words(step))
    });
    let lost = plan.lost.iter().map(|lost| format!("  lost: {} ({})", lost.path.display(), lost.reason));
    steps.chain(conflicts).chain(lost).collect()
}

fn step_words(step: &Step) -> String {
    let path = step.path().display();
    match &step.action {
        Action::Create => format!("bring back {path}"),
        Action::Overwrite => format!("restore {path}"),
        Action::Delete => format!("delete {path}"),
        Action::Chmod => format!("restore the mode of {path}"),
        Action::MoveBack { from } => format!("move {} back to {path}", from.display()),
    }
}

/// What a rewind did, in lines for people.
pub fn applied_lines(applied: &Applied) -> Vec<String> {
    let mut lines = vec![match applied.restored {
        0 => "No file was changed.".to_owned(),
        1 => "1 file or folder is as it was.".to_owned(),
        count => format!("{count} files and folders are as they were."),
    }];
    lines.extend(applied.kept.iter().map(|kept| match kept {
        Kept::Changed(path) => format!("kept: {} (changed meanwhile)", path.display()),
        Kept::NotEmpty(path) => format!("kept: {} (holds files of somebody else)", path.display()),
    }));
    lines.extend(applied.failed.iter().map(|(path, error)| format!("failed: {}: {error}", path.display())));
    lines
}
