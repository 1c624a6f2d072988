//! Reads `.env` files: which ones, in which order, and what each may set.
//!
//! All files found are used, the nearest first and the home's last; a variable that is already set is
//! never changed. In an untrusted folder none is read. A file of a trusted project cannot move
//! the home, redirect requests, choose another account or run programs; keys and the names of cloud
//! projects are only offered ([`DotenvReport::offered`]) to users who have none.

use std::path::{Path, PathBuf};

use pollux_domain::model::BuiltInProvider;

use crate::env::Env;
use crate::files;
use crate::groups::Secret;
use crate::paths::{GEMINI_DIR, Home};
use crate::project_trust::ProjectTrust;

mod parse;

pub use parse::{Assignment, parse};

/// Variables besides the providers' keys that a project can only offer: with them, prompts go to an account chosen by
/// the project.
const OFFERED: &[&str] = &[
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_PROJECT_ID",
];

/// What is known of variables. The approval of a command rests on the same table: a variable that it calls risky in front
/// of a command would be no less so in a file.
const KNOWN: &str = include_str!("../../policy/commands/names.table");

/// Names a project's file cannot set, besides the risky ones of [`KNOWN`].
const GUARDED: &[&str] = &[
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "BASHOPTS",
    "BROWSER",
    "BUILD_SANDBOX",
    "CDPATH",
    "CLOUD_SHELL",
    // Keys would be sent to any program that answers there as the keychain.
    "DBUS_SESSION_BUS_ADDRESS",
    "EDITOR",
    "ENV",
    // Whose tokens the model is asked with.
    "GCE_METADATA_HOST",
    "GEMINI_API_KEY_AUTH_MECHANISM",
    "GEMINI_FORCE_ENCRYPTED_FILE_STORAGE",
    "GEMINI_FORCE_FILE_STORAGE",
    "GEMINI_RESTRICTED_MODE",
    // Any file could be sent to the model as its instructions, or be replaced by them.
    "GEMINI_SYSTEM_MD",
    "GEMINI_WRITE_SYSTEM_MD",
    "GLIBC_TUNABLES",
    "GLOBIGNORE",
    "GNUPGHOME",
    // Such a file may name a program that is to be run.
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GCONV_PATH",
    "HOME",
    "HOSTALIASES",
    "HOSTNAME",
    "IFS",
    "KUBECONFIG",
    "LESSCLOSE",
    "LESSOPEN",
    "LOCPATH",
    "LOGNAME",
    "MANPAGER",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    // Whose bill it is.
    "OPENAI_ORGANIZATION",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT",
    "OPENAI_PROJECT_ID",
    "PAGER",
    "PATH",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS4",
    "RUSTC_WRAPPER",
    "SANDBOX",
    "SEATBELT_PROFILE",
    "SHELL",
    "SHELLOPTS",
    "TEMP",
    "TMP",
    "TMPDIR",
    "USER",
    "USERPROFILE",
    "VISUAL",
    "ZDOTDIR",
];
const GUARDED_PREFIXES: &[&str] = &[
    "BASH_",
    "CLOUDSDK_",
    "CODE_ASSIST_",
    "DYLD_",
    "GEMINI_CLI_",
    "GEMINI_SANDBOX",
    "GEMINI_TELEMETRY_",
    // Memory would be written to the project.
    "GIMLI_",
    "GIT_",
    // Which account and which service the model is asked through.
    "GOOGLE_GENAI_",
    "LD_",
    "NPM_CONFIG_",
    "OTEL_",
    "PERL5",
    "POLLUX_",
    "PYTHON",
    "RUBYLIB",
    "RUBYOPT",
    "SANDBOX_",
    "SSH_",
    "SSL_CERT",
    "XDG_",
];
const GUARDED_SUFFIXES: &[&str] = &[
    "_API_BASE",
    "_API_URL",
    "_ASKPASS",
    "_BASE_URL",
    "_CA_BUNDLE",
    "_COMMAND",
    "_EDITOR",
    "_ENDPOINT",
    "_HEADERS",
    "_HOME",
    "_JAVA_OPTIONS",
    "_PAGER",
    "_PROXY",
    "_TOOL_OPTIONS",
];

/// The settings for `.env` files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DotenvOptions {
    /// `advanced.excludedEnvVars`
    pub excluded: Vec<String>,
    /// `advanced.ignoreLocalEnv` or `--ignore-env`
    pub ignore_local: bool,
    /// A folder above that is never to be trusted: nothing of it is read, nor of those above it.
    pub border: Option<PathBuf>,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DotenvReport {
    pub loaded: Vec<LoadedFile>,
    /// Values that a trusted project offers to users without their own; not set in the environment.
    pub offered: Vec<Offer>,
    pub ignored: Vec<IgnoredName>,
    /// Files that were not opened, because the folder is not trusted.
    pub unread: Vec<PathBuf>,
    /// Files that exist and could not be read, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

impl DotenvReport {
    /// One line for each file that tried to redirect model requests. Other ignored variables are common and harmless.
    pub fn redirections(&self) -> Vec<String> {
        let mut files: Vec<(&Path, Vec<String>)> = Vec::new();
        let guarded = self.ignored.iter().filter(|ignored| ignored.reason == IgnoreReason::Guarded);
        for IgnoredName { file, line, name, .. } in guarded.filter(|ignored| is_address(&ignored.name)) {
            let shown = format!("`{name}` (line {line})");
            match files.last_mut() {
                Some((last, names)) if *last == file => names.push(shown),
                _ => files.push((file, vec![shown])),
            }
        }
        let line = |(file, names): (&Path, Vec<String>)| {
            let names = names.join(", ");
            format!(
                "Warning: `{}`: ignored, because a project cannot redirect model requests: {names}",
                file.display()
            )
        };
        files.into_iter().map(line).collect()
    }
}

/// A file and the variables it set, which may be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFile {
    pub file: PathBuf,
    pub names: Vec<String>,
}

/// A key, or the name of a cloud project, in a project's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub name: String,
    pub value: Secret,
    pub file: PathBuf,
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
    for (file, owner) in candidates(home, cwd, options) {
        if owner == Owner::Project && trust == ProjectTrust::Untrusted {
            report.unread.push(file);
            continue;
        }
        let text = match files::read_text(&file) {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(error) => {
                report.unreadable.push((file, error.to_string()));
                continue;
            }
        };
        let mut names = Vec::new();
        for Assignment { name, line, value } in parse(&text) {
            if let Some(reason) = refusal(&name, &file, owner, options) {
                report.ignored.push(IgnoredName { file: file.clone(), line, name, reason });
            } else if owner == Owner::Project && is_offered(&name) {
                let value = Secret::new(value);
                report.offered.push(Offer { name, value, file: file.clone() });
            } else if env.get(&name).is_none() {
                names.push(name.clone());
                env.set_default(name, value);
            }
        }
        report.loaded.push(LoadedFile { file, names });
    }
    report
}

/// The `.env` files that come with a trusted project: its own and those above it.
pub(crate) fn project_files(home: &Home, cwd: &Path) -> Vec<PathBuf> {
    let all = candidates(home, cwd, &DotenvOptions::default());
    let own = all.into_iter().filter(|(_, owner)| *owner == Owner::Project);
    own.map(|(file, _)| file).collect()
}

/// The files that may exist, the strongest first.
fn candidates(home: &Home, cwd: &Path, options: &DotenvOptions) -> Vec<(PathBuf, Owner)> {
    let mut found = Vec::new();
    let real_home = home.user_home().canonicalize().ok();
    for dir in cwd.ancestors() {
        // Above the home nothing is the user's; its own files come last.
        if dir == home.user_home() || (real_home.is_some() && dir.canonicalize().ok() == real_home) {
            break;
        }
        if options.border.as_deref() == Some(dir) {
            break;
        }
        found.push(dir.join(GEMINI_DIR).join(".env"));
        if !options.ignore_local {
            found.push(dir.join(".env"));
        }
    }
    let home_files = home.env_files();
    // A folder named `.env` is usually a Python environment.
    found.retain(|file| !home_files.contains(file) && !file.is_dir() && belongs_to_owner_of(cwd, file));
    let local = found.into_iter().map(|file| (file, Owner::Project));
    local.chain(home_files.map(|file| (file, Owner::Home))).collect()
}

/// Ignores files of other users in parent folders, such as `/tmp/.env`.
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

fn refusal(name: &str, file: &Path, owner: Owner, options: &DotenvOptions) -> Option<IgnoreReason> {
    if owner == Owner::Project && is_guarded(name) {
        return Some(IgnoreReason::Guarded);
    }
    let in_gemini_dir = file.components().any(|part| part.as_os_str() == GEMINI_DIR);
    let excluded = options.excluded.iter().any(|excluded| excluded == name);
    (excluded && !in_gemini_dir).then_some(IgnoreReason::Excluded)
}

/// Whether a project's file can only offer a variable.
fn is_offered(name: &str) -> bool {
    let mut offered = OFFERED.iter().copied().chain(BuiltInProvider::key_variables());
    offered.any(|offered| name.eq_ignore_ascii_case(offered))
}

/// Whether a project's file is kept from setting a variable.
pub fn is_guarded(name: &str) -> bool {
    // Proxies are written in both cases, and Windows knows no difference.
    let name = name.to_ascii_uppercase();
    GUARDED.contains(&name.as_str())
        || BuiltInProvider::address_variables().any(|address| name == address)
        || GUARDED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || GUARDED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || changes_programs(&name)
}

/// Whether a variable changes what commands run or read that need no approval.
fn changes_programs(name: &str) -> bool {
    let is_listed = |section| known(section).any(|word| word.eq_ignore_ascii_case(name));
    let begins_like =
        |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    (is_listed("variable/risky:") || known("variable/risky-prefix:").any(begins_like))
        && !is_listed("variable/harmless:")
}

/// The words of a section of [`KNOWN`].
fn known(section: &str) -> impl Iterator<Item = &'static str> {
    let after = KNOWN.lines().skip_while(move |line| *line != section).skip(1);
    after.take_while(|line| line.starts_with("  ")).flat_map(str::split_whitespace)
}

/// Whether a variable decides where model requests are sent, or what is sent along.
pub fn is_address(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    BuiltInProvider::address_variables().any(|address| name == address)
        || name.starts_with("POLLUX_") && name.ends_with("_BASE_URL")
        || name.ends_with("_CUSTOM_HEADERS")
}

#[cfg(test)]
mod tests;
