//! Services for the composer: completions, external editor, clipboard, earlier prompts.
//!
//! They run on threads of their own, except for the editor, which takes over the terminal.

mod clipboard;
mod editor;
mod fuzzy;
mod project_paths;
mod queued;
mod shell_words;
mod slash;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use pollux_config::env::Env;
use pollux_config::groups::FileFiltering;
use pollux_domain::id::SessionId;
use pollux_domain::sync::Locked as _;
use pollux_domain::terminal_text::one_line;
use pollux_domain::time::{Clock as _, SystemClock};
use pollux_host::Loaded;
use pollux_host::{Offers, Workspace};
use pollux_session::{add_shell_command, log_prompt, logged_prompts_in, shell_history_in};
use pollux_tui::composer::{Item, Kind, Wanted};

use self::project_paths::{ProjectPaths, WAIT};
pub(crate) use self::queued::QueuedPrompts;

/// Suggestions of one kind.
const MOST: usize = 100;
/// Earlier prompts that are kept.
const MOST_PAST: usize = 1000;

/// Said while paths are read and none is found yet.
const READING: &str = "Reading files…";
const NOTHING: &str = "No file matches";
const NOTHING_LISTED: &str = "No match in the first 200,000 paths";

/// Takes completions, and a note to show below them.
type Answer<'a> = dyn FnMut(Vec<Item>, &'static str) + 'a;

/// The clipboard's content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Clip {
    /// The path of a file with the image.
    Picture(String),
    Text(String),
    /// Why there is nothing to paste.
    Nothing(String),
}

/// The services for one project.
pub(crate) struct ComposerServices {
    root: PathBuf,
    home: PathBuf,
    /// The project's temporary folder.
    temp: PathBuf,
    /// All folders that hold state of the project, that one included.
    state: Vec<PathBuf>,
    /// The session that prompts are logged for.
    session: Mutex<SessionId>,
    queued: Arc<QueuedPrompts>,
    env: Env,
    filtering: FileFiltering,
    /// Fuzzy matching of paths.
    loose: bool,
    /// Search all folders.
    deep: bool,
    preferred_editor: Mutex<Option<String>>,
    offers: Mutex<Offers>,
    /// Notified when they change.
    offered: Condvar,
    paths: Arc<ProjectPaths>,
    /// The id of the latest request; older ones are dropped.
    latest: AtomicU64,
}

impl ComposerServices {
    pub(crate) fn new(loaded: &Loaded, session: SessionId, queued: Arc<QueuedPrompts>) -> Self {
        let is_off =
            |key: &str| loaded.settings.get(key).is_some_and(|(value, _)| value.as_bool() == Some(false));
        let preferred = loaded.settings.get("general.preferredEditor").and_then(|(value, _)| value.as_str());
        Self {
            root: loaded.project.root().to_path_buf(),
            home: loaded.home.user_home().to_path_buf(),
            temp: loaded.project.temp_dir().to_path_buf(),
            state: loaded.project.state_dirs().to_vec(),
            session: Mutex::new(session),
            queued,
            env: loaded.env.clone(),
            filtering: loaded.groups.context.filtering.clone(),
            loose: !is_off("context.fileFiltering.enableFuzzySearch"),
            deep: !is_off("context.fileFiltering.enableRecursiveFileSearch"),
            preferred_editor: Mutex::new(preferred.map(str::to_owned)),
            offers: Mutex::default(),
            offered: Condvar::new(),
            paths: Arc::default(),
            latest: AtomicU64::new(0),
        }
    }

    pub(crate) fn set_offers(&self, offers: Offers) {
        *self.offers.locked() = offers;
        self.offered.notify_all();
    }

    pub(crate) fn set_session(&self, session: SessionId) {
        *self.session.locked() = session;
    }

    /// Saves a text that was not sent where the next session finds it; false if that failed.
    pub(crate) fn save_unsent(&self, text: &str, shell: bool) -> bool {
        if shell {
            return add_shell_command(&self.temp, text).is_ok();
        }
        self.has_logged(text) || self.log_prompt(text)
    }

    /// Notes prompts that wait for the end of a turn, for [`ComposerServices::log_queued`].
    pub(crate) fn add_queued(&self, texts: Vec<String>) {
        self.queued.add(texts);
    }

    pub(crate) fn log_queued(&self) {
        self.queued.log(|text| self.log_prompt(text));
    }

    /// Whether a prompt was logged when it was queued. It answers once for each prompt.
    pub(crate) fn has_logged(&self, text: &str) -> bool {
        self.queued.take(text, |text| self.log_prompt(text))
    }

    fn log_prompt(&self, text: &str) -> bool {
        let session = self.session.locked().clone();
        log_prompt(&self.temp, &session, text, SystemClock.now()).is_ok()
    }

    /// Sets the preferred editor.
    pub(crate) fn prefer_editor(&self, id: Option<&str>) {
        *self.preferred_editor.locked() = id.map(str::to_owned);
    }

    /// The offers and the workspace, once the session is open; `None` if the request is no longer current then.
    fn open_workspace(
        &self,
        is_wanted: &dyn Fn() -> bool,
        answer: &mut Answer<'_>,
    ) -> Option<(Offers, Arc<Workspace>)> {
        let opened = |offers: &Offers| Some((offers.clone(), offers.workspace.clone()?));
        if let Some(opened) = opened(&self.offers.locked()) {
            return Some(opened);
        }
        answer(Vec::new(), READING);
        let mut offers = self.offers.locked();
        while is_wanted() {
            if let Some(opened) = opened(&offers) {
                return Some(opened);
            }
            let waited = self.offered.wait_timeout(offers, WAIT);
            offers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    fn references(&self, wanted: &Wanted, answer: &mut Answer<'_>) {
        let asked = Instant::now();
        let is_wanted = || self.latest.load(Ordering::Relaxed) <= wanted.id;
        let Some((offers, workspace)) = self.open_workspace(&is_wanted, answer) else { return };
        let (agents, resources) = (agents(&offers, &wanted.text), resources(&offers, &wanted.text));
        let mut version = self.paths.refresh(&workspace, &self.filtering, None);
        let mut is_certain = false;
        loop {
            let paths = self.paths.find(&wanted.text, (self.loose, self.deep), MOST, &is_wanted);
            let paths =
                paths.into_iter().map(|path| Item { label: path.clone(), insert: path, ..Item::default() });
            let items = mentions(&wanted.text, &agents, paths, &resources);
            // A short walk ends before anybody could read that it is under way.
            let mut has_answered = !items.is_empty();
            if has_answered {
                answer(items.clone(), "");
            }
            loop {
                match self.paths.more_than(version) {
                    Some(more) if is_wanted() && more == version => {
                        if !has_answered {
                            answer(items.clone(), READING);
                            has_answered = true;
                        }
                    }
                    Some(more) if is_wanted() => {
                        version = more;
                        break;
                    }
                    // The list may be older than the path.
                    None if items.is_empty() && is_wanted() && !is_certain => {
                        is_certain = true;
                        if !self.paths.is_listed_since(asked) {
                            version = self.paths.refresh(&workspace, &self.filtering, Some(asked));
                            break;
                        }
                    }
                    None if items.is_empty() && is_wanted() => {
                        return answer(items, if self.paths.is_cut() { NOTHING_LISTED } else { NOTHING });
                    }
                    _ => return,
                }
            }
        }
    }

    /// Reports completions at the cursor, best first; again when more are known.
    pub(crate) fn complete(&self, wanted: &Wanted, answer: &mut Answer<'_>) {
        self.latest.fetch_max(wanted.id, Ordering::Relaxed);
        match wanted.kind {
            Kind::At => self.references(wanted, answer),
            Kind::Slash => {
                let offers = self.offers.locked().clone();
                answer(slash::complete(&wanted.text, &offers, &self.state, &self.root, &self.home), "");
            }
            Kind::Shell { command: true } if !wanted.text.contains('/') => {
                answer(shell_words::programs(&wanted.text, &self.env), "");
            }
            Kind::Shell { .. } => answer(shell_words::paths(&wanted.text, &self.root, &self.home), ""),
        }
    }

    /// Whether a pasted path names a file.
    pub(crate) fn exists(&self, path: &str) -> bool {
        match path.strip_prefix("~/") {
            Some(rest) => self.home.join(rest).exists(),
            None => self.root.join(path).exists(),
        }
    }

    /// Opens a text in the person's editor, which takes over the terminal. `name` sets the file type.
    pub(crate) fn edit(&self, text: &str, name: &str) -> Result<String, String> {
        let preferred = self.preferred_editor.locked().clone();
        editor::edit(text, name, preferred.as_deref(), &self.env, &self.temp)
    }

    /// The clipboard's content; an image is saved to a file.
    pub(crate) fn clipboard(&self) -> Clip {
        clipboard::look(&self.env, &self.temp.join("images"))
    }

    /// Prompts and shell commands of earlier sessions, oldest first.
    pub(crate) fn history(&self) -> (Vec<String>, Vec<String>) {
        // Keep only the last of equal prompts.
        let mut seen = HashSet::new();
        let mut prompts = logged_prompts_in(&self.state);
        prompts.retain(|prompt| !prompt.trim().is_empty() && seen.insert(prompt.clone()));
        prompts.truncate(MOST_PAST);
        prompts.reverse();
        (prompts, shell_history_in(&self.state))
    }
}

/// Everything that fits, best first: a file of exactly this name, sub-agents whose names begin so, other files, and what
/// only contains the letters.
fn mentions(
    sought: &str,
    agents: &[Item],
    paths: impl Iterator<Item = Item>,
    resources: &[Item],
) -> Vec<Item> {
    let is_exact = |path: &Item| !sought.is_empty() && path.insert.rsplit('/').next() == Some(sought);
    let (exact, paths): (Vec<Item>, Vec<Item>) = paths.partition(is_exact);
    let begins = |agent: &&Item| {
        agent.insert.get(..sought.len()).is_some_and(|start| start.eq_ignore_ascii_case(sought))
    };
    let (first, last): (Vec<&Item>, Vec<&Item>) = agents.iter().partition(begins);
    let (first, last) = (first.into_iter().cloned(), last.into_iter().chain(resources).cloned());
    exact.into_iter().chain(first).chain(paths).chain(last).collect()
}

/// Matching sub-agents, in their order.
fn agents(offers: &Offers, sought: &str) -> Vec<Item> {
    let fitting = offers.agents.enabled().filter(|agent| fits(&agent.name, sought));
    let item = |name: &String, about: &str| Item {
        insert: name.clone(),
        label: format!("{name} [Agent]"),
        description: one_line(about.lines().next().unwrap_or_default()),
        ..Item::default()
    };
    fitting.map(|agent| item(&agent.name, &agent.description)).take(MOST).collect()
}

/// Matching resources of MCP servers.
fn resources(offers: &Offers, sought: &str) -> Vec<Item> {
    let all = offers.servers.iter().flat_map(|servers| servers.resources());
    let fitting = all.filter(|(mention, _)| fits(mention, sought));
    let item = |(mention, about): (String, String)| Item {
        label: mention.clone(),
        insert: mention,
        description: one_line(about.lines().next().unwrap_or_default()),
        ..Item::default()
    };
    fitting.map(item).take(MOST).collect()
}

fn fits(name: &str, sought: &str) -> bool {
    fuzzy::rank(name, &sought.to_lowercase(), true).is_some()
}
