//! Going back to the moment before a message: the conversation, the files, or both.

mod edits;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use pollux_config::groups::{Durability, Rewind};
use pollux_config::paths::Project;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::one_line;
use pollux_domain::time::{Clock, SystemClock};
use pollux_host::rewind::{LEFT_ASIDE, existing_journal};
use pollux_host::sessions::pick::Own;
use pollux_host::sessions::places::SessionPlaces;
use pollux_rewind::{Action, Conflict, Conflicts, Journal, KeptPath, RewindPlan, RewindStep, Target};
use pollux_session::{Message, Recorder, ResumeError, StoredSession, load};

use super::details::prompts;
use super::{FileSteps, Prompt, Proposal, RewindWhat, Rewound, WayBack};

/// Shorter beginnings of a message's id are too likely to be something else.
const MIN_PREFIX: usize = 4;

/// How files come back.
enum FilesBack {
    Journal { journal: Box<Journal>, plan: RewindPlan, conflicts: Conflicts },
    Edits(edits::Edits),
}

/// What goes back, and how.
pub(super) struct Way<'a> {
    pub(super) places: &'a SessionPlaces,
    pub(super) settings: &'a Rewind,
    pub(super) what: RewindWhat,
    /// Files that others changed since are put back, too.
    pub(super) overwrite: bool,
}

pub(super) fn proposal(way: &Way<'_>, own: &Own, to: &str) -> Result<Proposal<WayBack, Rewound>, Failure> {
    let what = way.what;
    let failed = |error| Failure::from_error(ExitKind::Input, &error);
    let session = load(&own.info.path).map_err(failed)?;
    let prompts = prompts(own).map_err(failed)?;
    let index = target(&session, &prompts, to)?;
    // Held to the end, so that no other process resumes the session meanwhile.
    let mut recorder = Recorder::resume(&session).map_err(|error| in_use(&error))?;
    recorder.set_durability(Durability::Power);
    let message = session.messages.get(index).map(|message| message.id().to_owned()).unwrap_or_default();
    let count = session.messages.len() - index;
    let (steps, files) = if what.files() {
        let (steps, files) = file_steps(way, own, &session, index)?;
        (Some(steps), Some(files))
    } else {
        (None, None)
    };
    let prompt = prompts.iter().find(|prompt| prompt.id == message);
    let plan = WayBack {
        session: own.info.id.to_string(),
        message: message.clone(),
        prompt: prompt.map_or_else(|| "a message".to_owned(), |prompt| short(&prompt.text)),
        messages: what.conversation().then_some(count),
        files: steps,
    };
    Ok(Proposal {
        plan,
        carry_out: Box::new(move || {
            let mut done = match files {
                Some(files) => files.carry_out()?,
                None => Rewound::default(),
            };
            // The conversation stays while files could not be put back, so that it can be tried again.
            if what.conversation() && done.failed.is_empty() {
                recorder
                    .rewind(&message, SystemClock.now())
                    .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
                done.messages = count;
            }
            Ok(done)
        }),
    })
}

fn short(text: &str) -> String {
    let line = one_line(text);
    let cut: String = line.chars().take(80).collect();
    if cut.len() < line.len() { format!("{cut}…") } else { cut }
}

fn in_use(error: &ResumeError) -> Failure {
    match error {
        ResumeError::InUse { holder, .. } => {
            Failure::new(ExitKind::Input, format!("the session is in use by {holder}"))
                .hint("stop that process first")
        }
        other => Failure::from_error(ExitKind::Input, other),
    }
}

/// The place of the message that is meant: the number of a prompt, or an id.
fn target(session: &StoredSession, prompts: &[Prompt], to: &str) -> Result<usize, Failure> {
    let place = |id: &str| session.messages.iter().position(|message| message.id() == id);
    if let Some(index) = place(to) {
        return Ok(index);
    }
    let missing = |text: String| {
        Failure::new(ExitKind::Input, text)
            .hint("run `pollux sessions show` to see the numbers and ids of prompts")
    };
    if let Ok(number) = to.parse::<usize>() {
        let prompt = number.checked_sub(1).and_then(|index| prompts.get(index));
        return prompt
            .and_then(|prompt| place(&prompt.id))
            .ok_or_else(|| missing(format!("no prompt {number}: the session has {}", prompts.len())));
    }
    let fitting: Vec<usize> = session
        .messages
        .iter()
        .enumerate()
        .filter(|(_, message)| to.chars().count() >= MIN_PREFIX && message.id().starts_with(to))
        .map(|(index, _)| index)
        .collect();
    match fitting.as_slice() {
        [only] => Ok(*only),
        [] => Err(missing(format!("the session has no message `{}`", one_line(to)))),
        _ => Err(missing(format!("`{}` matches several messages", one_line(to)))),
    }
}

fn file_steps(
    way: &Way<'_>,
    own: &Own,
    session: &StoredSession,
    index: usize,
) -> Result<(FileSteps, FilesBack), Failure> {
    let Some(root) = own.root.as_deref().filter(|root| root.is_dir()) else {
        return Err(Failure::new(ExitKind::Input, "the project's folder is unknown")
            .hint("run the command in the project's folder"));
    };
    let taken_back = session.messages.get(index..).unwrap_or_default();
    if let Some(journal) = journal(way, own, root)? {
        return from_journal(journal, taken_back, root, way.overwrite);
    }
    let edits = edits::Edits::of(taken_back, root);
    Ok((edits.steps(), FilesBack::Edits(edits)))
}

/// The session's journal, if it holds anything.
fn journal(way: &Way<'_>, own: &Own, root: &Path) -> Result<Option<Journal>, Failure> {
    let (home, project) = (&way.places.home, Project::locate(&way.places.home, root));
    let journal = existing_journal(home, &project, &own.info.id, way.settings)
        .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
    Ok(journal.filter(|journal| !journal.points().is_empty()))
}

fn from_journal(
    journal: Journal,
    taken_back: &[Message],
    root: &Path,
    overwrite: bool,
) -> Result<(FileSteps, FilesBack), Failure> {
    let messages: HashSet<&str> = taken_back.iter().map(Message::id).collect();
    let calls: HashSet<&str> = taken_back
        .iter()
        .filter_map(|message| match message {
            Message::Reply(reply) => Some(&reply.calls),
            Message::User(_) | Message::Notice(_) | Message::Other { .. } => None,
        })
        .flatten()
        .map(|call| call.id.as_str())
        .collect();
    let points = journal.points();
    let first = points
        .iter()
        .map(|summary| &summary.point)
        .find(|point| messages.contains(point.prompt.as_str()) || calls.contains(point.call.as_str()));
    let plan = match first {
        Some(point) => journal
            .plan(&Target::Call(point.call.clone()))
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?,
        None => RewindPlan::default(),
    };
    let step = |step: &RewindStep| (action(&step.action), step.path().to_owned());
    let mut steps: Vec<(&'static str, PathBuf)> = plan.steps.iter().map(step).collect();
    let mut shown = FileSteps { root: root.to_owned(), ..FileSteps::default() };
    let conflicts = if overwrite {
        steps.extend(plan.conflicts.iter().map(step));
        Conflicts::Overwrite
    } else {
        shown.conflicts =
            plan.conflicts.iter().map(|step| (step.path().to_owned(), reason(step.conflict))).collect();
        Conflicts::Keep
    };
    shown.conflicts.extend(plan.left.iter().map(|path| (path.clone(), LEFT_ASIDE.to_owned())));
    shown.steps = steps;
    shown.lost = plan.lost.iter().map(|lost| (lost.path.clone(), lost.reason.to_string())).collect();
    Ok((shown, FilesBack::Journal { journal: Box::new(journal), plan, conflicts }))
}

fn action(action: &Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Overwrite => "overwrite",
        Action::Delete => "delete",
        Action::Chmod => "restore the mode of",
        Action::MoveBack { .. } => "move back",
    }
}

fn reason(conflict: Option<Conflict>) -> String {
    match conflict {
        Some(Conflict::ChangedByOthers) => {
            "changed outside the session; use `--overwrite` to restore it anyway"
        }
        Some(Conflict::Unsure) => "changed by an unknown program; use `--overwrite` to restore it anyway",
        Some(Conflict::CannotBeSaved) => {
            "its current contents are too large to back up; `--overwrite` discards them"
        }
        None => "use `--overwrite` to restore it anyway",
    }
    .to_owned()
}

impl FilesBack {
    fn carry_out(self) -> Result<Rewound, Failure> {
        match self {
            Self::Edits(edits) => Ok(edits.carry_out()),
            Self::Journal { journal, plan, conflicts } => {
                if plan.is_empty() {
                    return Ok(Rewound::default());
                }
                let applied = journal
                    .apply(&plan, conflicts)
                    .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
                let kept = applied.kept.into_iter().map(|kept| match kept {
                    KeptPath::Changed(path) => (path, "changed in the meantime".to_owned()),
                    KeptPath::NotEmpty(path) => (path, "it contains other files".to_owned()),
                });
                let failed = applied.failed.into_iter().map(|(path, error)| (path, error.to_string()));
                Ok(Rewound {
                    restored: applied.restored,
                    kept: kept.collect(),
                    failed: failed.collect(),
                    ..Rewound::default()
                })
            }
        }
    }
}
