//! The user's stored rules, `~/.gemini/policies/sandbox.toml`.
//!
//! ```toml
//! [network]
//! allow = ["registry.example.com", "*.example.org:443"]
//! deny = ["tracker.example.org"]
//! private = ["npm.corp.example"]        # allowed, also on a private network
//!
//! [network.projects."/home/me/app"]
//! trust = "…"                           # digest of the project when the grant was given
//! allow = ["api.example.net:443"]
//!
//! [files]
//! write = ["/home/me/.config/tool"]     # also `read` and `socket`, and `[files.projects."…"]`
//!
//! [commands.terraform]
//! allow_network = true                  # gemini-cli: open for this command
//! ```
//!
//! Unknown keys and comments survive a change.

mod edit;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use toml::{Table, Value};

use crate::host::Host;
use crate::pattern::HostPattern;
use crate::question::{GrantStore, HostAnswer};
use crate::rules::{Allow, Deny, Origin, Reach, RuleSet};

/// The rules of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredRules {
    pub rules: RuleSet,
    /// Commands for which the network is open, by program name.
    pub open_commands: Vec<String>,
    /// Entries that were skipped, as sentences for the user.
    pub problems: Vec<String>,
}

/// A project and the state in which it was trusted.
#[derive(Debug, Clone)]
pub struct ProjectKey {
    root: PathBuf,
    trust: Arc<Digest>,
}

type Digest = LazyLock<String, Box<dyn FnOnce() -> String + Send>>;

impl ProjectKey {
    /// `trust` computes the digest of what was trusted; a grant ends when it changes. It is called once, when the
    /// digest is needed.
    pub fn new(root: PathBuf, trust: impl FnOnce() -> String + Send + 'static) -> Self {
        Self { root, trust: Arc::new(LazyLock::new(Box::new(trust))) }
    }

    /// The digest, which stays the same from now on.
    pub fn trust(&self) -> &str {
        &self.trust
    }
}

/// The file is not TOML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid TOML: {0}")]
pub struct InvalidRules(String);

/// Why a grant could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("could not change `{}`: {source}", path.display())]
    Invalid { path: PathBuf, source: InvalidRules },
    #[error("could not change `{}`: its `network` table is written in a form that cannot be extended", path.display())]
    Form { path: PathBuf },
}

impl StoredRules {
    /// Reads the user's rules. Grants for a project count only with the trust they were given under.
    pub fn parse(text: &str, project: Option<&ProjectKey>) -> Result<Self, InvalidRules> {
        let table = parsed(text)?;
        let mut stored = Self::default();
        if let Some(network) = stored.table(&table, "network") {
            stored.read_network(network, project);
        }
        let commands = table.get("commands").and_then(Value::as_table);
        for (name, command) in commands.into_iter().flatten() {
            let open = command.get("allow_network").and_then(Value::as_bool);
            if open == Some(true) {
                stored.open_commands.push(name.clone());
            }
        }
        Ok(stored)
    }

    /// Reads the rules of a project's file, of which only `deny` has an effect.
    pub fn parse_project(text: &str) -> Result<Self, InvalidRules> {
        let table = parsed(text)?;
        let mut stored = Self::default();
        if let Some(network) = stored.table(&table, "network") {
            for pattern in stored.patterns(network, "deny") {
                stored.rules.deny(Deny { pattern, origin: Origin::Project });
            }
            let widening =
                ["allow", "private", "projects"].into_iter().find(|key| network.contains_key(*key));
            if let Some(key) = widening {
                stored
                    .problems
                    .push(format!("`network.{key}` of a project file is ignored: a project can only deny"));
            }
        }
        if table.contains_key("commands") {
            stored
                .problems
                .push("`commands` of a project file is ignored: a project can only deny".to_owned());
        }
        Ok(stored)
    }

    fn read_network(&mut self, network: &Table, project: Option<&ProjectKey>) {
        for pattern in self.patterns(network, "allow") {
            self.rules.allow(Allow { pattern, reach: Reach::Public, origin: Origin::Stored });
        }
        for pattern in self.patterns(network, "private") {
            if pattern.single_host().is_none_or(|host| host.name().is_none()) {
                self.problems
                    .push(format!("`network.private` needs single host names; `{pattern}` is ignored"));
                continue;
            }
            self.rules.allow(Allow { pattern, reach: Reach::Private, origin: Origin::Stored });
        }
        for pattern in self.patterns(network, "deny") {
            self.rules.deny(Deny { pattern, origin: Origin::Stored });
        }
        let projects = network.get("projects").and_then(Value::as_table);
        let (Some(projects), Some(project)) = (projects, project) else { return };
        let granted = projects.get(&*project.root.to_string_lossy()).and_then(Value::as_table);
        let trusted =
            |granted: &&Table| granted.get("trust").and_then(Value::as_str) == Some(project.trust());
        if let Some(granted) = granted.filter(trusted) {
            for pattern in self.patterns(granted, "allow") {
                self.rules.allow(Allow { pattern, reach: Reach::Public, origin: Origin::StoredForProject });
            }
        }
    }

    fn table<'a>(&mut self, table: &'a Table, key: &str) -> Option<&'a Table> {
        let value = table.get(key)?;
        if !value.is_table() {
            self.problems.push(format!("`{key}` must be a table"));
        }
        value.as_table()
    }

    /// The patterns of a list; entries that are none are reported and skipped.
    fn patterns(&mut self, table: &Table, key: &str) -> Vec<HostPattern> {
        let Some(value) = table.get(key) else { return Vec::new() };
        let Some(entries) = value.as_array() else {
            self.problems.push(format!("`network.{key}` must be a list of host patterns"));
            return Vec::new();
        };
        let mut patterns = Vec::new();
        for entry in entries {
            match entry.as_str().map(HostPattern::parse) {
                Some(Ok(pattern)) => patterns.push(pattern),
                Some(Err(error)) => {
                    self.problems.push(format!("`network.{key}`: {error}"));
                }
                None => self.problems.push(format!("`network.{key}` must be a list of host patterns")),
            }
        }
        patterns
    }
}

fn parsed(text: &str) -> Result<Table, InvalidRules> {
    text.parse::<Table>().map_err(|error| InvalidRules(error.message().to_owned()))
}

/// Paths that were granted for good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredPaths {
    pub write: Vec<PathBuf>,
    pub read: Vec<PathBuf>,
    pub socket: Vec<PathBuf>,
}

impl StoredPaths {
    /// Reads the user's grants. Those for a project count only with the trust they were given under.
    pub fn parse(text: &str, project: Option<&ProjectKey>) -> Result<Self, InvalidRules> {
        let table = parsed(text)?;
        let mut stored = Self::default();
        let Some(files) = table.get("files").and_then(Value::as_table) else { return Ok(stored) };
        stored.read_from(files);
        let granted = project.and_then(|project| {
            let granted = edit::lookup(files, &["projects", &project.root.to_string_lossy()])?;
            (granted.get("trust").and_then(Value::as_str) == Some(project.trust())).then_some(granted)
        });
        granted.into_iter().for_each(|granted| stored.read_from(granted));
        Ok(stored)
    }

    fn read_from(&mut self, table: &Table) {
        for (key, list) in
            [("write", &mut self.write), ("read", &mut self.read), ("socket", &mut self.socket)]
        {
            let entries = table.get(key).and_then(Value::as_array).into_iter().flatten();
            // A relative path would depend on where the program is started.
            list.extend(
                entries.filter_map(Value::as_str).map(PathBuf::from).filter(|path| path.is_absolute()),
            );
        }
    }
}

/// Adds an allow rule to a file, for every project or for one, under the file's lock.
pub fn save_allow(file: &Path, pattern: &HostPattern, project: Option<&ProjectKey>) -> Result<(), SaveError> {
    save(file, &Place { section: "network", key: "allow", project }, &pattern.to_string())
}

/// Adds a path to one of the lists `write`, `read` and `socket` of a file, in the same way.
pub fn save_path(
    file: &Path,
    key: &'static str,
    path: &Path,
    project: Option<&ProjectKey>,
) -> Result<(), SaveError> {
    save(file, &Place { section: "files", key, project }, &path.to_string_lossy())
}

/// The list that an entry belongs to.
struct Place<'a> {
    section: &'static str,
    key: &'static str,
    project: Option<&'a ProjectKey>,
}

fn save(file: &Path, place: &Place<'_>, entry: &str) -> Result<(), SaveError> {
    if let Some(folder) = file.parent() {
        files::create_folder(folder, Mode::Private)?;
    }
    let _lock = FileLock::acquire(file)?;
    let old = files::read_text(file)?.unwrap_or_default();
    let new = with_entry(&old, place, entry).map_err(|error| match error {
        EditError::Invalid(source) => SaveError::Invalid { path: file.to_owned(), source },
        EditError::Form => SaveError::Form { path: file.to_owned() },
    })?;
    if new != old {
        files::replace(file, new.as_bytes(), Mode::Private)?;
    }
    Ok(())
}

/// Why a text could not be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EditError {
    Invalid(InvalidRules),
    Form,
}

/// A file's text with one more allow rule; everything else stays as it is.
#[cfg(test)]
pub(crate) fn with_allow(
    text: &str,
    pattern: &HostPattern,
    project: Option<&ProjectKey>,
) -> Result<String, EditError> {
    with_entry(text, &Place { section: "network", key: "allow", project }, &pattern.to_string())
}

fn with_entry(text: &str, place: &Place<'_>, entry: &str) -> Result<String, EditError> {
    let invalid = EditError::Invalid;
    let Place { section, key, project } = place;
    let Some(project) = project else {
        return edit::add_to_list(text, &[section], key, entry);
    };
    let root = project.root.to_string_lossy();
    let path = [section, "projects", &*root];
    let trust = edit::lookup(&parsed(text).map_err(invalid)?, &path)
        .map(|granted| granted.get("trust").and_then(Value::as_str).map(str::to_owned));
    match trust {
        Some(Some(trust)) if trust == project.trust() => edit::add_to_list(text, &path, key, entry),
        // Grants of an earlier state are void; they must not come back to life with the new digest.
        Some(_) => {
            let emptied = edit::remove_table(text, &path)?;
            edit::append_project(&emptied, &path, project.trust(), (key, entry))
        }
        None => edit::append_project(text, &path, project.trust(), (key, entry)),
    }
}

/// Saves answers to a file.
pub struct FileStore {
    file: PathBuf,
    project: Option<ProjectKey>,
    report: Box<dyn Fn(SaveError) + Send + Sync>,
}

impl FileStore {
    /// A store for the file; without a trusted project, grants for a project last for the session. `report` gets
    /// what could not be saved.
    pub fn new(
        file: PathBuf,
        project: Option<ProjectKey>,
        report: impl Fn(SaveError) + Send + Sync + 'static,
    ) -> Self {
        Self { file, project, report: Box::new(report) }
    }
}

impl GrantStore for FileStore {
    fn save(&self, host: &Host, port: u16, answer: HostAnswer) {
        let pattern = HostPattern::exact(host.clone(), port);
        let project = match (answer, &self.project) {
            (HostAnswer::Always, _) => None,
            (HostAnswer::Project, Some(project)) => Some(project),
            (HostAnswer::Project | HostAnswer::Once | HostAnswer::Session | HostAnswer::No, _) => return,
        };
        if let Err(error) = save_allow(&self.file, &pattern, project) {
            (self.report)(error);
        }
    }
}

#[cfg(test)]
mod tests;
