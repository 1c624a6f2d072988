//! Finds the session that an id, number or prefix refers to.

use std::path::PathBuf;

use pollux_catalogue::{Filter, Listed, Origin, Source};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::one_line;
use pollux_domain::time::{Clock, SystemClock};
use pollux_foreign::{ForeignAgent, ForeignEntry, ForeignStore};
use pollux_session::{
    SelectError, SessionInfo, list, list_projects, load, select, select_anywhere, subagent_files,
    unreadable_folders,
};

use super::places::{SessionPlaces, origin, source_word};
use crate::sessions::Which;

/// Shorter prefixes are too ambiguous.
const MIN_PREFIX: usize = 4;

/// A session.
pub enum SelectedSession {
    Own(Own),
    Foreign(Box<Foreign>),
}

/// A Pollux session.
pub struct Own {
    pub info: SessionInfo,
    /// Its project's folder, if known.
    pub root: Option<PathBuf>,
    /// All session folders of its project.
    pub dirs: Vec<PathBuf>,
}

/// A session of another agent.
pub struct Foreign {
    pub listed: Listed,
    pub store: ForeignStore,
    pub entry: ForeignEntry,
}

/// The search scope.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// An id not found here may belong to another project or agent.
    Anywhere,
    /// Sessions to change must be in the given place.
    AsTold,
}

pub fn pick(places: &SessionPlaces, which: &Which, reach: Reach) -> Result<SelectedSession, Failure> {
    if let Some(Origin::Foreign(agent)) = which.source.map(origin) {
        return foreign(places, which, Some(agent)).map(SelectedSession::Foreign);
    }
    let wanders = reach == Reach::Anywhere && is_id(&which.id);
    if !which.all_projects {
        match here(places, which) {
            Ok(own) => return Ok(SelectedSession::Own(own)),
            Err(error) if !wanders => return Err(refused(places, which, &error)),
            Err(_) => {}
        }
    }
    match elsewhere(places, which) {
        Ok(own) => Ok(SelectedSession::Own(own)),
        Err(error @ SelectError::Ambiguous { .. }) => Err(refused(places, which, &error)),
        Err(error) => match foreign(places, which, None) {
            Ok(found) if wanders && which.source.is_none() => Ok(SelectedSession::Foreign(found)),
            Err(failure) if wanders && which.source.is_none() && failure.summary.contains("several") => {
                Err(failure)
            }
            _ => Err(refused(places, which, &error)),
        },
    }
}

/// Whether it can only be an id; numbers and `latest` have other meanings.
fn is_id(given: &str) -> bool {
    given.chars().count() >= MIN_PREFIX
        && given != "latest"
        && !given.bytes().all(|byte| byte.is_ascii_digit())
}

fn here(places: &SessionPlaces, which: &Which) -> Result<Own, SelectError> {
    let dirs = places.project.read_chat_dirs();
    let listing = list(dirs, SystemClock.now());
    let root = Some(places.project.root().to_owned());
    match select(&listing, &which.id) {
        Ok(info) => Ok(Own { info: info.clone(), root, dirs: dirs.to_vec() }),
        Err(error) => match subagent(dirs, &which.id) {
            Some(info) => Ok(Own { info, root, dirs: dirs.to_vec() }),
            None => Err(error),
        },
    }
}

fn elsewhere(places: &SessionPlaces, which: &Which) -> Result<Own, SelectError> {
    let listings = list_projects(places.projects(), SystemClock.now());
    match select_anywhere(&listings, &which.id) {
        Ok((project, info)) => {
            let (root, dirs) = (project.root.clone(), project.chats_dirs.clone());
            Ok(Own { info: info.clone(), root, dirs })
        }
        Err(error) => {
            let found = listings.into_iter().find_map(|(project, _)| {
                let info = subagent(&project.chats_dirs, &which.id)?;
                Some(Own { info, root: project.root, dirs: project.chats_dirs })
            });
            found.ok_or(error)
        }
    }
}

/// A sub-agent's session; its file is named after its id.
fn subagent(dirs: &[PathBuf], given: &str) -> Option<SessionInfo> {
    if !is_id(given) {
        return None;
    }
    let name = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let files: Vec<PathBuf> = subagent_files(dirs)
        .into_iter()
        .filter(|path| name(path).is_some_and(|name| name.starts_with(given)))
        .collect();
    match files.as_slice() {
        [only] => load(only).ok().map(|session| SessionInfo::from(&session)),
        _ => None,
    }
}

fn foreign(
    places: &SessionPlaces,
    which: &Which,
    agent: Option<ForeignAgent>,
) -> Result<Box<Foreign>, Failure> {
    let stores: Vec<ForeignStore> =
        places.stores().into_iter().filter(|store| agent.is_none_or(|agent| store.agent == agent)).collect();
    let sources: Vec<Source> = stores.iter().cloned().map(Source::Foreign).collect();
    let mut catalogue = places.open_catalogue();
    places.refresh(&mut catalogue, &sources);
    let given = which.id.as_str();
    let is_latest = given.is_empty() || given == "latest";
    let mut filter = Filter { include_subagents: !is_latest, include_empty: true, ..Filter::default() };
    if is_latest && !which.all_projects {
        filter.projects.push(places.project.root().to_owned());
        filter.projects.extend(places.project.root().canonicalize());
    }
    let listed = catalogue.list(&filter);
    let id = |listed: &Listed| listed.record.session_id.as_str().to_owned();
    let found: Vec<&Listed> = if is_latest {
        listed.iter().take(1).collect()
    } else {
        let exact: Vec<&Listed> = listed.iter().filter(|listed| id(listed) == given).collect();
        let is_prefix = exact.is_empty() && given.chars().count() >= MIN_PREFIX;
        if is_prefix { listed.iter().filter(|listed| id(listed).starts_with(given)).collect() } else { exact }
    };
    let whose = agent.map_or("another agent", ForeignAgent::label);
    match found.as_slice() {
        [] => Err(Failure::new(
            ExitKind::Input,
            format!("no session of {whose} matches `{}`", one_line(given)),
        )
        .hint(
            "run `pollux sessions list --all-projects --source all` to see their ids; they have no numbers",
        )),
        [only] => located(&stores, only),
        several => {
            let ids: Vec<String> = several
                .iter()
                .take(5)
                .map(|listed| format!("{} {}", source_word(listed.origin), one_line(&id(listed))))
                .collect();
            Err(Failure::new(
                ExitKind::Input,
                format!("`{}` matches several sessions: {}", one_line(given), ids.join(", ")),
            )
            .hint("use a longer prefix of the id, or add `--source`"))
        }
    }
}

fn located(stores: &[ForeignStore], listed: &Listed) -> Result<Box<Foreign>, Failure> {
    let store = stores.iter().find(|store| Origin::Foreign(store.agent) == listed.origin);
    let record = &listed.record;
    let found = store.and_then(|store| Some((store, store.entry(&record.file, record.session_id.as_str())?)));
    match found {
        Some((store, entry)) => Ok(Box::new(Foreign { listed: listed.clone(), store: store.clone(), entry })),
        None => Err(Failure::new(ExitKind::Input, format!("`{}` no longer exists", record.file.display()))),
    }
}

/// The error for a session that was not found, with the folders that may hold it.
fn refused(places: &SessionPlaces, which: &Which, error: &SelectError) -> Failure {
    let mut failure = not_found(places, which, error);
    let dirs =
        if which.all_projects { places.chats_dirs() } else { places.project.read_chat_dirs().to_vec() };
    failure.causes.extend(unreadable_folders(&dirs).into_iter().map(|(_, reason)| reason));
    failure
}

fn not_found(places: &SessionPlaces, which: &Which, error: &SelectError) -> Failure {
    let given = one_line(&which.id);
    let failure = |text: String, hint: &str| Failure::new(ExitKind::Input, text).hint(hint);
    match error {
        SelectError::NoSessions if which.all_projects => failure(
            format!("no sessions found in {}", places.home.gemini_dir().display()),
            "use `--source claude`, `codex` or `opencode` for sessions of other agents",
        ),
        SelectError::NoSessions => failure(
            format!("no session matches `{given}`: this project has no sessions"),
            "run `pollux sessions list --all-projects` to list the sessions of all projects",
        ),
        SelectError::NoMatch { .. } if which.all_projects => failure(
            format!("no session of any project matches `{given}`"),
            "run `pollux sessions list --all-projects` to see their ids; numbers work only within a project",
        ),
        SelectError::NoMatch { .. } => failure(
            format!("no session of this project matches `{given}`"),
            "run `pollux sessions list` to see numbers and ids; add `--all-projects` for other projects",
        ),
        SelectError::Ambiguous { .. } => failure(error.to_string(), "use a longer prefix of the id"),
    }
}
