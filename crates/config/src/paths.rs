//! The state folders: the user's `.gemini` and one folder per project.

use std::path::{Path, PathBuf};

use pollux_domain::hex;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::env::{Env, name};
use crate::ownership::{self, Foreign};
use crate::{files, jsonc};

/// The folder's name in a home and in a project.
pub const GEMINI_DIR: &str = ".gemini";

/// What marks a directory as a `.gemini` folder itself, whatever it is called.
const KNOWN_STATE: &[&str] = &[
    "settings.json",
    "tmp",
    "state.json",
    "installation_id",
    "projects.json",
    "trustedFolders.json",
    "google_accounts.json",
    "oauth_creds.json",
    "gemini-credentials.json",
    "mcp-oauth-tokens.json",
    "history",
    "extensions",
    "memory.md",
    "GEMINI.md",
    "policies",
    "skills",
    "agents",
    "commands",
];

/// The user's home and the `.gemini` folder in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    user_home: PathBuf,
    gemini_dir: PathBuf,
}

/// Why no home can be used. The program ends with exit code 52.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    #[error(
        "could not find your home directory: HOME is not an absolute path, and the password database has no entry"
    )]
    NotFound,
    #[error("`{}` belongs to another user (uid {}) and is not used", .0.path.display(), .0.owner)]
    Foreign(Foreign),
}

impl HomeError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotFound => {
                "set HOME to your home directory, or GEMINI_CLI_HOME to a directory of your own"
            }
            Self::Foreign(_) => "change its owner, or set GEMINI_CLI_HOME to a directory of your own",
        }
    }
}

/// A project's identity and its state folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
    hash: String,
    temp_dir: PathBuf,
    state_dirs: Vec<PathBuf>,
    read_chat_dirs: Vec<PathBuf>,
}

/// Files that belong to the machine; Pollux only reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemFiles {
    /// Settings that stand above the user's and the project's.
    pub settings: PathBuf,
    /// Settings that stand below them.
    pub defaults: PathBuf,
}

impl Home {
    /// Finds the home; looks at the disk but creates nothing.
    ///
    /// `GEMINI_CLI_HOME` names a home that has a `.gemini` folder, unless it is such a folder itself. Without it and
    /// without a `HOME` there is none: a folder that everybody can write to is never one.
    pub fn locate(env: &Env) -> Result<Self, HomeError> {
        let home = Self::named(env).ok_or(HomeError::NotFound)?;
        match env.uid().and_then(|uid| ownership::foreign(&home, uid)) {
            Some(foreign) => Err(HomeError::Foreign(foreign)),
            None => Ok(home),
        }
    }

    fn named(env: &Env) -> Option<Self> {
        let absolute =
            |variable: &str| env.get(variable).map(PathBuf::from).filter(|home| home.is_absolute());
        let own_home = absolute(name::HOME).or_else(|| absolute(name::USERPROFILE));
        if let Some(given) = env.non_empty(name::GEMINI_CLI_HOME) {
            let given = without_trailing_slash(&env.cwd().join(given));
            if is_gemini_dir(&given) {
                return Some(Self {
                    user_home: own_home.unwrap_or_else(|| given.clone()),
                    gemini_dir: given,
                });
            }
            return Some(Self::at(given));
        }
        own_home.map(Self::at)
    }

    /// The home at a given directory, with its `.gemini` folder inside.
    pub fn at(user_home: PathBuf) -> Self {
        let gemini_dir = user_home.join(GEMINI_DIR);
        Self { user_home, gemini_dir }
    }

    /// The person's home directory (`GEMINI_CLI_HOME` or `HOME`).
    pub fn user_home(&self) -> &Path {
        &self.user_home
    }

    /// The `.gemini` folder.
    pub fn gemini_dir(&self) -> &Path {
        &self.gemini_dir
    }

    pub fn settings_file(&self) -> PathBuf {
        self.gemini_dir.join("settings.json")
    }

    pub fn state_file(&self) -> PathBuf {
        self.gemini_dir.join("state.json")
    }

    /// What model servers said about their models.
    pub fn model_cache_file(&self) -> PathBuf {
        self.gemini_dir.join("model-cache.json")
    }

    /// What days and projects have spent.
    pub fn budget_file(&self) -> PathBuf {
        self.gemini_dir.join("budget.json")
    }

    pub fn installation_id_file(&self) -> PathBuf {
        self.gemini_dir.join("installation_id")
    }

    /// Upstream's register of projects and their short names.
    pub fn projects_file(&self) -> PathBuf {
        self.gemini_dir.join("projects.json")
    }

    /// The token of the A2A server that this user's programs show.
    pub fn a2a_token_file(&self) -> PathBuf {
        self.gemini_dir.join("a2a-server-token")
    }

    /// The secret that hides what the A2A server stores about webhooks.
    pub fn a2a_key_file(&self) -> PathBuf {
        self.gemini_dir.join("a2a-server-key")
    }

    pub fn env_file(&self) -> PathBuf {
        self.gemini_dir.join(".env")
    }

    /// The user's own files of variables, the stronger first.
    pub fn env_files(&self) -> [PathBuf; 2] {
        [self.env_file(), self.user_home().join(".env")]
    }

    /// The trust register; `GEMINI_CLI_TRUSTED_FOLDERS_PATH` moves it.
    pub fn trusted_folders_file(&self, env: &Env) -> PathBuf {
        match env.non_empty(name::TRUSTED_FOLDERS_PATH) {
            Some(given) => env.cwd().join(given),
            None => self.gemini_dir.join("trustedFolders.json"),
        }
    }

    /// What trusted folders held when they were trusted; a file of ours for each.
    pub fn trusted_content_dir(&self) -> PathBuf {
        self.gemini_dir.join("trusted_content")
    }

    /// Upstream's register of workspace policies that were accepted.
    pub fn policy_integrity_file(&self) -> PathBuf {
        self.gemini_dir.join("policy_integrity.json")
    }

    /// Per-project state lives below this.
    pub fn tmp_dir(&self) -> PathBuf {
        self.gemini_dir.join("tmp")
    }

    pub fn history_dir(&self) -> PathBuf {
        self.gemini_dir.join("history")
    }

    pub fn extensions_dir(&self) -> PathBuf {
        self.gemini_dir.join("extensions")
    }

    pub fn commands_dir(&self) -> PathBuf {
        self.gemini_dir.join("commands")
    }

    pub fn skills_dir(&self) -> PathBuf {
        self.gemini_dir.join("skills")
    }

    pub fn agents_dir(&self) -> PathBuf {
        self.gemini_dir.join("agents")
    }

    pub fn policies_dir(&self) -> PathBuf {
        self.gemini_dir.join("policies")
    }

    /// Context that applies to every project.
    pub fn global_context_file(&self, file_name: &str) -> PathBuf {
        self.gemini_dir.join(file_name)
    }
}

impl SystemFiles {
    /// The machine's files, or those the environment names instead.
    pub fn locate(env: &Env) -> Self {
        let settings = match env.non_empty(name::SYSTEM_SETTINGS_PATH) {
            Some(given) => env.cwd().join(given),
            None => system_dir().join("settings.json"),
        };
        let defaults = match env.non_empty(name::SYSTEM_DEFAULTS_PATH) {
            Some(given) => env.cwd().join(given),
            None => settings.with_file_name("system-defaults.json"),
        };
        Self { settings, defaults }
    }
}

impl Project {
    /// Finds a project's folders; reads the register of short names, creates nothing.
    pub fn locate(home: &Home, root: &Path) -> Self {
        let root = without_trailing_slash(root);
        let hash = sha256_hex(root.to_string_lossy().as_bytes());
        let tmp = home.tmp_dir();
        let by_hash = tmp.join(&hash);
        let names = short_names(home, &root);
        let temp_dir = names.first().map_or_else(|| by_hash.clone(), |name| tmp.join(name));
        let mut state_dirs = Vec::with_capacity(names.len() + 2);
        let seed_form = home.gemini_dir.join("projects").join(&hash);
        let named = names.iter().map(|name| tmp.join(name));
        for dir in named.chain([by_hash, seed_form]) {
            if !state_dirs.contains(&dir) {
                state_dirs.push(dir);
            }
        }
        let read_chat_dirs = state_dirs.iter().map(|dir| dir.join("chats")).collect();
        Self { root, hash, temp_dir, state_dirs, read_chat_dirs }
    }

    /// The project's root as an absolute path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// SHA-256 of the root path in lower-case hex: the name that session files carry.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The project's folder below `tmp/`; created by the first writer.
    pub fn temp_dir(&self) -> &Path {
        &self.temp_dir
    }

    /// Every folder that may hold state of this project, the one we write to first. Its name changes when gemini-cli
    /// registers the project, and when the register is lost.
    pub fn state_dirs(&self) -> &[PathBuf] {
        &self.state_dirs
    }

    /// Where new session files go.
    pub fn chats_dir(&self) -> PathBuf {
        self.temp_dir.join("chats")
    }

    /// Every folder that may hold sessions of this project, the one we write to first.
    pub fn read_chat_dirs(&self) -> &[PathBuf] {
        &self.read_chat_dirs
    }

    /// The project's own `.gemini` folder.
    pub fn gemini_dir(&self) -> PathBuf {
        self.root.join(GEMINI_DIR)
    }

    pub fn settings_file(&self) -> PathBuf {
        project_settings_file(&self.root)
    }
}

/// A project's settings file.
pub fn project_settings_file(root: &Path) -> PathBuf {
    root.join(GEMINI_DIR).join("settings.json")
}

/// Where machine-wide files are.
pub fn system_dir() -> PathBuf {
    PathBuf::from(if cfg!(target_os = "macos") {
        "/Library/Application Support/GeminiCli"
    } else if cfg!(windows) {
        "C:\\ProgramData\\gemini-cli"
    } else {
        "/etc/gemini-cli"
    })
}

/// Lower-case hex of the SHA-256 of some bytes.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes))
}

/// Whether two paths are the same place; false when either does not exist.
pub fn same_place(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        (Err(_), _) | (_, Err(_)) => false,
    }
}

fn is_gemini_dir(dir: &Path) -> bool {
    let has_state = || KNOWN_STATE.iter().any(|entry| dir.join(entry).exists()) || has_projects(dir);
    !dir.join(GEMINI_DIR).is_dir() && has_state()
}

/// Whether there is `projects/<hash>`: many people have a folder `projects` of their own.
fn has_projects(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir.join("projects")).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|name| is_hash(&name))
}

fn without_trailing_slash(path: &Path) -> PathBuf {
    // Not `components()`: the hash is of the text as given, so nothing else may change.
    match path.to_str().map(|text| text.trim_end_matches('/')) {
        Some("") | None => path.to_owned(),
        Some(text) => PathBuf::from(text),
    }
}

/// The file in which upstream notes the project that a folder belongs to.
const PROJECT_MARKER: &str = ".project_root";

/// Maximum size of a marker: a path.
const MAX_MARKER_BYTES: u64 = 64 * 1024;

/// The short names that upstream gave this project in this home: that of its register, or those of the folders that are
/// marked with the project. Upstream rebuilds a lost register from the marks.
fn short_names(home: &Home, root: &Path) -> Vec<String> {
    match registered_name(home, root) {
        Some(name) => vec![name],
        None => marked_names(home, root),
    }
}

/// The short name in the register, if it is one we may use.
fn registered_name(home: &Home, root: &Path) -> Option<String> {
    let text = files::read_text(&home.projects_file()).ok()??;
    let register = jsonc::parse(&text).ok()?.value;
    let slug = register.get("projects")?.get(root.to_str()?).and_then(Value::as_str)?;
    // Upstream drops a mapping whose folder names another project, so its sessions are not ours.
    let is_foreign = marker(&home.tmp_dir().join(slug)).is_some_and(|owner| owner != root);
    (is_short_name(slug) && !is_foreign).then(|| slug.to_owned())
}

/// The short names of folders that are marked with this project, those with state first.
fn marked_names(home: &Home, root: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for base in [home.tmp_dir(), home.history_dir()] {
        let entries = std::fs::read_dir(&base).into_iter().flatten().flatten();
        let candidates = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut marked: Vec<String> = candidates
            // A hash is never a short name, so its folder is not read.
            .filter(|name| is_short_name(name) && !is_hash(name))
            .filter(|name| marker(&base.join(name)).is_some_and(|owner| owner == root))
            // A folder whose own mark names another project is not ours, whatever the history says.
            .filter(|name| marker(&home.tmp_dir().join(name)).is_none_or(|owner| owner == root))
            .collect();
        marked.sort_unstable();
        marked.retain(|name| !names.contains(name));
        names.append(&mut marked);
    }
    names
}

/// The project that a folder is marked with.
fn marker(folder: &Path) -> Option<PathBuf> {
    let text = files::read_text_up_to(&folder.join(PROJECT_MARKER), MAX_MARKER_BYTES).ok()??;
    Some(PathBuf::from(text.trim()))
}

fn is_short_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(fits)
}

fn is_hash(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
