//! The state directory: where everything is, and that nobody else can read it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_config::env::{Env, name};
use pollux_config::files::{self, FileError, Mode};
use pollux_domain::percent;

/// Another place for the state directory.
pub const STATE_DIR_VARIABLE: &str = "GIMLI_STATE_DIR";

const DEFAULT_AGENT: &str = "main";
const MAX_AGENT: usize = 64;
/// The file name of every index.
pub(crate) const INDEX: &str = "memory-index.db";

/// `~/.gimli`, which holds one folder for each agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
    /// What `~` means in a path.
    home: Option<PathBuf>,
}

impl StateDir {
    /// Where the environment says it is; `None` without a home directory.
    pub fn locate(env: &Env) -> Option<Self> {
        let home = env.non_empty(name::HOME).or_else(|| env.non_empty(name::USERPROFILE)).map(PathBuf::from);
        let given = env.non_empty(STATE_DIR_VARIABLE).map(str::trim).filter(|value| !value.is_empty());
        let root = match (given, home.as_deref()) {
            (None, home) => home?.join(".gimli"),
            (Some("~"), home) => home?.to_owned(),
            (Some(given), home) => match given.strip_prefix("~/") {
                Some(rest) => home?.join(rest),
                None => env.cwd().join(given),
            },
        };
        Some(Self { root, home })
    }

    pub fn at(root: PathBuf) -> Self {
        Self { root, home: None }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What one agent keeps; no other agent reads it.
    pub fn agent(&self, id: &AgentId) -> AgentDir {
        let root = self.root.join("agents").join(id.as_str());
        AgentDir { root, home: self.home.clone(), id: id.clone() }
    }
}

/// A name that cannot lead out of its folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentId(String);

impl AgentId {
    /// A name as it was typed; `None` for one that is not a valid id, so that a typing error names no other agent.
    pub fn parse(name: &str) -> Option<Self> {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        let is_valid = name.len() <= MAX_AGENT
            && name.chars().all(is_part)
            && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        is_valid.then(|| Self(name.to_owned()))
    }

    /// Any text as an id: other characters become `-`, nothing at all becomes `main`.
    pub fn new(raw: &str) -> Self {
        let mut id = String::new();
        for character in raw.trim().to_lowercase().chars() {
            if character.is_ascii_alphanumeric() || character == '_' || character == '-' {
                id.push(character);
            } else if !id.ends_with('-') {
                id.push('-');
            }
        }
        let cut: String = id.trim_matches('-').trim_start_matches('_').chars().take(MAX_AGENT).collect();
        let id = cut.trim_matches('-');
        Self(if id.is_empty() { DEFAULT_AGENT.to_owned() } else { id.to_owned() })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for AgentId {
    fn default() -> Self {
        Self(DEFAULT_AGENT.to_owned())
    }
}

/// The folder of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDir {
    root: PathBuf,
    home: Option<PathBuf>,
    id: AgentId,
}

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error(transparent)]
    Folder(#[from] FileError),
    #[error("could not make `{}` private: {source}", path.display())]
    Permissions { path: PathBuf, source: io::Error },
}

impl StateError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Folder(_) | Self::Permissions { .. } => {
                Some("set GIMLI_STATE_DIR to use another state directory")
            }
        }
    }
}

impl AgentDir {
    pub fn id(&self) -> &AgentId {
        &self.id
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path of the settings: below the home directory with `~/`, otherwise below `folder`.
    pub(crate) fn expanded(&self, path: &str, folder: &Path) -> PathBuf {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_) | None, _) => folder.join(path),
        }
    }

    pub fn sessions_dir(&self) -> PathBuf {
        self.root.join("sessions")
    }

    pub fn store_file(&self) -> PathBuf {
        self.sessions_dir().join("sessions.json")
    }

    pub fn learnings_file(&self) -> PathBuf {
        self.agent_dir().join("LEARNINGS.md")
    }

    /// The index of everything the agent remembers, from every workspace; see [`crate::Space`].
    pub fn index_file(&self) -> PathBuf {
        self.agent_dir().join(INDEX)
    }

    pub fn agent_dir(&self) -> PathBuf {
        self.root.join("agent")
    }

    /// One folder for each workspace.
    pub fn workspaces_dir(&self) -> PathBuf {
        self.agent_dir().join("workspaces")
    }

    /// The transcript of a session or of a topic in it. Neither id can lead elsewhere.
    pub fn transcript_file(&self, session_id: &str, topic: Option<&str>) -> PathBuf {
        let id = percent::encode(session_id.as_bytes(), percent::COMPONENT);
        let name = match topic {
            None => format!("{id}.jsonl"),
            Some(topic) => {
                format!("{id}-topic-{}.jsonl", percent::encode(topic.as_bytes(), percent::COMPONENT))
            }
        };
        self.sessions_dir().join(name)
    }

    /// Creates what is missing and closes what others could read.
    pub fn prepare(&self) -> Result<(), StateError> {
        for folder in [self.sessions_dir(), self.agent_dir()] {
            files::create_folder(&folder, Mode::Private)?;
        }
        for path in self.loose()? {
            let mode = if path.is_dir() { 0o700 } else { 0o600 };
            set_mode(&path, mode).map_err(|source| StateError::Permissions { path, source })?;
        }
        Ok(())
    }

    /// What others could read, in every folder that there is.
    pub(crate) fn loose(&self) -> Result<Vec<PathBuf>, StateError> {
        let mut loose = Vec::new();
        let workspaces = fs::read_dir(self.workspaces_dir()).into_iter().flatten().filter_map(Result::ok);
        let workspaces = workspaces.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let own = [self.root.clone(), self.sessions_dir(), self.agent_dir(), self.workspaces_dir()];
        for folder in own.into_iter().chain(workspaces.map(|entry| entry.path())) {
            if is_loose(&folder) {
                loose.push(folder.clone());
            }
            let unreadable = |source| StateError::Folder(FileError::Read { path: folder.clone(), source });
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(error)),
            };
            let files = entries
                .filter_map(Result::ok)
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
            loose.extend(files.map(|entry| entry.path()).filter(|path| is_loose(path)));
        }
        Ok(loose)
    }
}

#[cfg(unix)]
fn is_loose(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_symlink() && meta.permissions().mode() & 0o077 != 0)
}

#[cfg(unix)]
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn is_loose(_path: &Path) -> bool {
    false
}

#[cfg(not(unix))]
pub(crate) fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// An agent's folder that goes away again.
#[cfg(test)]
pub(crate) fn scratch() -> (tempfile::TempDir, AgentDir) {
    let folder = tempfile::tempdir().unwrap();
    let agent = StateDir::at(folder.path().join("state")).agent(&AgentId::default());
    (folder, agent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_id_cannot_leave_its_folder() {
        for (raw, expected) in [
            (" Main ", "main"),
            ("../../etc", "etc"),
            ("a b//c", "a-b-c"),
            ("", "main"),
            ("---", "main"),
            ("Größe", "gr-e"),
            ("_x", "x"),
        ] {
            assert_eq!(AgentId::new(raw).as_str(), expected, "{raw}");
        }
        assert_eq!(AgentId::new(&"x".repeat(99)).as_str().len(), 64);
    }

    #[test]
    fn only_a_plain_name_names_an_agent() {
        for name in ["main", "work-2", "a_b", "0"] {
            assert_eq!(AgentId::parse(name).map(|id| id.0).as_deref(), Some(name));
        }
        let long = "x".repeat(65);
        for name in
            ["", "..", "../x", "a/b", "/etc", "a\\b", "Main", "a b", "-x", "_x", "ä", "a\0", ".", "~", &long]
        {
            assert_eq!(AgentId::parse(name), None, "{name}");
        }
    }

    #[test]
    fn the_environment_names_the_place() {
        let env = |vars: &[(&str, &str)]| {
            Env::new(vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())), PathBuf::from("/w"))
        };
        let root = |vars: &[(&str, &str)]| StateDir::locate(&env(vars)).map(|dir| dir.root);
        assert_eq!(root(&[("HOME", "/h")]), Some(PathBuf::from("/h/.gimli")));
        assert_eq!(root(&[("HOME", "/h"), ("GIMLI_STATE_DIR", "  ")]), Some(PathBuf::from("/h/.gimli")));
        assert_eq!(root(&[("HOME", "/h"), ("GIMLI_STATE_DIR", "~/m")]), Some(PathBuf::from("/h/m")));
        assert_eq!(root(&[("HOME", "/h"), ("GIMLI_STATE_DIR", "m")]), Some(PathBuf::from("/w/m")));
    }

    #[test]
    fn ids_of_sessions_and_topics_are_file_names() {
        let agent = StateDir::at(PathBuf::from("/s")).agent(&AgentId::default());
        let name = |id, topic| {
            agent.transcript_file(id, topic).strip_prefix("/s/agents/main/sessions").unwrap().to_owned()
        };
        assert_eq!(name("a-1", None), PathBuf::from("a-1.jsonl"));
        assert_eq!(name("a", Some("7 ä/b")), PathBuf::from("a-topic-7%20%C3%A4%2Fb.jsonl"));
        assert_eq!(name("../x", None), PathBuf::from("..%2Fx.jsonl"));
    }

    #[cfg(unix)]
    #[test]
    fn what_others_could_read_is_closed() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let agent = StateDir::at(folder.path().join("s")).agent(&AgentId::default());
        agent.prepare().unwrap();
        let file = agent.store_file();
        files::replace(&file, b"{}", Mode::Private).unwrap();
        set_mode(&file, 0o644).unwrap();
        set_mode(&agent.sessions_dir(), 0o755).unwrap();
        agent.prepare().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(&agent.sessions_dir()), mode(agent.root())), (0o600, 0o700, 0o700));
    }
}
