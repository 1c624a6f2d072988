//! `.env` files: which are read, in which order, and what each may set.
//!
//! All that are found count, the nearest first and the home's last; a variable that is already set is
//! never changed. A file that comes with a project can give keys and project names, but cannot move the
//! home, redirect requests or make something else run.

use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::files;
use crate::paths::{GEMINI_DIR, Home};
use crate::settings::ProjectTrust;

mod parse;

pub use parse::{Assignment, parse};

/// All that a folder which is not trusted may give; the names are upstream's.
const UNTRUSTED_NAMES: &[&str] =
    &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"];

/// Names a project's file cannot set.
const GUARDED: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "BROWSER",
    "BUILD_SANDBOX",
    "CDPATH",
    // Keys would go to whatever answers there as the keychain.
    "DBUS_SESSION_BUS_ADDRESS",
    "EDITOR",
    "ENV",
    // Whose tokens the model is asked with.
    "GCE_METADATA_HOST",
    "GEMINI_FORCE_FILE_STORAGE",
    "GEMINI_RESTRICTED_MODE",
    // Any file could be sent to the model as its instructions, or be replaced by them.
    "GEMINI_SYSTEM_MD",
    "GEMINI_WRITE_SYSTEM_MD",
    // Such a file may name a program that is to be run.
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HOME",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "PAGER",
    "PATH",
    "PS4",
    "SANDBOX",
    "SEATBELT_PROFILE",
    "SHELL",
    "SHELLOPTS",
    "USERPROFILE",
    "VISUAL",
    "XDG_RUNTIME_DIR",
    "ZDOTDIR",
];
const GUARDED_PREFIXES: &[&str] = &[
    "CLOUDSDK_",
    "CODE_ASSIST_",
    "DYLD_",
    "GEMINI_CLI_",
    "GEMINI_SANDBOX",
    "GEMINI_TELEMETRY_",
    // What is remembered would go into the project.
    "GIMLI_",
    "GIT_",
    "LD_",
    "NPM_CONFIG_",
    "OTEL_",
    "PERL5",
    "POLLUX_",
    "PYTHON",
    "RUBYLIB",
    "RUBYOPT",
    "SANDBOX_",
    "SSL_CERT",
];
const GUARDED_SUFFIXES: &[&str] = &["_BASE_URL", "_CA_BUNDLE", "_COMMAND", "_PROXY"];

/// What the settings say about `.env` files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DotenvOptions {
    /// `advanced.excludedEnvVars`
    pub excluded: Vec<String>,
    /// `advanced.ignoreLocalEnv` or `--ignore-env`
    pub ignore_local: bool,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DotenvReport {
    pub loaded: Vec<LoadedFile>,
    pub ignored: Vec<IgnoredName>,
    /// Files that exist and could not be read, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// A file and the variables it set, which may be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFile {
    pub file: PathBuf,
    pub names: Vec<String>,
}

/// A variable that a file gave and that was not used. One that was set already is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredName {
    pub file: PathBuf,
    pub line: u32,
    pub name: String,
    pub reason: IgnoreReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreReason {
    /// A project's file cannot set it.
    Guarded,
    /// The folder is not trusted.
    Untrusted,
    /// `advanced.excludedEnvVars` names it.
    Excluded,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Project,
    Home,
}

/// Sets what the `.env` files of a working directory and of the home give.
pub fn load_dotenv(
    env: &mut Env,
    home: &Home,
    cwd: &Path,
    trust: ProjectTrust,
    options: &DotenvOptions,
) -> DotenvReport {
    let mut report = DotenvReport::default();
    for (file, owner) in candidates(home, cwd, trust, options) {
        let text = match files::read_text(&file) {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(error) => {
                report.unreadable.push((file, error.to_string()));
                continue;
            }
        };
        let mut names = Vec::new();
        for assignment in parse(&text) {
            match refusal(&assignment.name, &file, owner, trust, options) {
                Some(reason) => {
                    let Assignment { name, line, .. } = assignment;
                    report.ignored.push(IgnoredName { file: file.clone(), line, name, reason });
                }
                None => {
                    let value = match (owner, trust) {
                        (Owner::Project, ProjectTrust::Untrusted) => sanitised(&assignment.value),
                        (Owner::Project, ProjectTrust::Trusted) | (Owner::Home, _) => assignment.value,
                    };
                    if env.get(&assignment.name).is_none() {
                        names.push(assignment.name.clone());
                        env.set_default(assignment.name, value);
                    }
                }
            }
        }
        report.loaded.push(LoadedFile { file, names });
    }
    report
}

/// The `.env` files that come with a trusted project: its own and those above it.
pub(crate) fn project_files(home: &Home, cwd: &Path) -> Vec<PathBuf> {
    let all = candidates(home, cwd, ProjectTrust::Trusted, &DotenvOptions::default());
    let own = all.into_iter().filter(|(_, owner)| *owner == Owner::Project);
    own.map(|(file, _)| file).collect()
}

/// The files that may exist, the strongest first.
fn candidates(
    home: &Home,
    cwd: &Path,
    trust: ProjectTrust,
    options: &DotenvOptions,
) -> Vec<(PathBuf, Owner)> {
    let mut found = Vec::new();
    let real_home = home.user_home().canonicalize().ok();
    for dir in cwd.ancestors() {
        // Above the home nothing is the user's; its own files come last.
        if dir == home.user_home() || (real_home.is_some() && dir.canonicalize().ok() == real_home) {
            break;
        }
        if trust == ProjectTrust::Trusted {
            found.push(dir.join(GEMINI_DIR).join(".env"));
        }
        if !options.ignore_local {
            found.push(dir.join(".env"));
        }
    }
    let home_files = [home.env_file(), home.user_home().join(".env")];
    // A folder of that name is somebody's Python environment.
    found.retain(|file| !home_files.contains(file) && !file.is_dir() && belongs_to_owner_of(cwd, file));
    let local = found.into_iter().map(|file| (file, Owner::Project));
    local.chain(home_files.map(|file| (file, Owner::Home))).collect()
}

/// Keeps out what another user put into a folder above, such as `/tmp/.env`.
#[cfg(unix)]
fn belongs_to_owner_of(cwd: &Path, file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(found) = file.metadata() else { return false };
    found.uid() == 0 || cwd.metadata().is_ok_and(|cwd| cwd.uid() == found.uid())
}

#[cfg(not(unix))]
fn belongs_to_owner_of(_cwd: &Path, file: &Path) -> bool {
    file.exists()
}

fn refusal(
    name: &str,
    file: &Path,
    owner: Owner,
    trust: ProjectTrust,
    options: &DotenvOptions,
) -> Option<IgnoreReason> {
    if owner == Owner::Project {
        if trust == ProjectTrust::Untrusted && !UNTRUSTED_NAMES.contains(&name) {
            return Some(IgnoreReason::Untrusted);
        }
        if is_guarded(name) {
            return Some(IgnoreReason::Guarded);
        }
    }
    let in_gemini_dir = file.components().any(|part| part.as_os_str() == GEMINI_DIR);
    let excluded = options.excluded.iter().any(|excluded| excluded == name);
    (excluded && !in_gemini_dir).then_some(IgnoreReason::Excluded)
}

/// Whether a project's file is kept from setting a variable.
pub fn is_guarded(name: &str) -> bool {
    // Proxies are written in both cases, and Windows knows no difference.
    let name = name.to_ascii_uppercase();
    GUARDED.contains(&name.as_str())
        || GUARDED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || GUARDED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

fn sanitised(value: &str) -> String {
    value.chars().filter(|char| char.is_ascii_alphanumeric() || "-_./".contains(*char)).collect()
}

#[cfg(test)]
mod tests;
