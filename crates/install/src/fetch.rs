//! Bringing files here: from a git repository, from another folder.
//!
//! What comes is looked at before it is used: git may ask nobody, run nobody's hooks and speak only protocols that
//! carry files, and a copy never follows a link out of its folder.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pollux_exec::background::Background;
use pollux_exec::program::{Excess, Program, ProgramEnding, run_with};
use tokio_util::sync::CancellationToken;

mod copy;

pub use copy::{CopyError, copy_folder};

const OUTPUT_LIMIT: usize = 64 * 1024;

/// What git may be reached through; everything else could start programs.
const PROTOCOLS: &str = "http:https:ssh:git:sso:file";

/// Variables that would lead git to another repository or to somebody who asks.
const UNSET: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_TEMPLATE_DIR",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
];

const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "advice.detachedHead=false",
    "gc.auto=0",
];

/// How git is run.
pub struct Git<'a> {
    /// What it sees.
    pub environment: Vec<(String, String)>,
    pub background: &'a Background,
    /// Sent to `https://github.com/` and nobody else.
    pub token: Option<String>,
    /// For each of its commands.
    pub time_limit: Duration,
}

/// Why a repository could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    #[error("git is not installed; install it, or give a folder or an archive instead")]
    GitMissing,
    #[error("could not run git: {0}")]
    NotRun(#[source] io::Error),
    #[error("could not fetch `{url}`: {message}")]
    Failed { url: String, message: String },
    #[error("could not fetch `{url}`: git did not end within {} seconds", limit.as_secs())]
    TimedOut { url: String, limit: Duration },
    #[error("`{}` is no branch, tag or commit", .0.escape_debug())]
    BadReference(String),
    #[error("cancelled")]
    Cancelled,
}

/// Fetches one commit into an empty folder, which becomes a repository with the remote `origin`.
///
/// `reference` is a branch, a tag or a commit; without it, whatever the remote calls `HEAD`. Gives the commit.
pub async fn clone(
    git: &Git<'_>,
    url: &str,
    reference: Option<&str>,
    into: &Path,
    cancel: &CancellationToken,
) -> Result<String, CloneError> {
    let reference = checked(reference)?;
    let call = Call { git, url, into, cancel };
    call.run(&["init", "-q", "--template="]).await?;
    call.run(&["remote", "add", "--", "origin", url]).await?;
    call.run(&[
        "fetch",
        "-q",
        "--depth",
        "1",
        "--no-tags",
        "--no-recurse-submodules",
        "--",
        "origin",
        reference,
    ])
    .await?;
    call.run(&["checkout", "-q", "--detach", "FETCH_HEAD"]).await?;
    call.run(&["rev-parse", "HEAD"]).await
}

/// The commit that a reference stands for at the remote, without fetching it.
pub async fn remote_commit(
    git: &Git<'_>,
    url: &str,
    reference: Option<&str>,
    cancel: &CancellationToken,
) -> Result<String, CloneError> {
    let reference = checked(reference)?;
    let call = Call { git, url, into: Path::new("/"), cancel };
    let listed = call.run(&["ls-remote", "--", url, reference]).await?;
    let commit = listed.split_whitespace().next().map(str::to_owned);
    commit.ok_or_else(|| CloneError::BadReference(reference.to_owned()))
}

fn checked(reference: Option<&str>) -> Result<&str, CloneError> {
    let Some(reference) = reference else { return Ok("HEAD") };
    let odd = |c: char| {
        c.is_control() || c.is_whitespace() || matches!(c, ':' | '~' | '^' | '?' | '*' | '[' | '\\')
    };
    if reference.is_empty() || reference.starts_with(['-', '+']) || reference.contains(odd) {
        return Err(CloneError::BadReference(reference.to_owned()));
    }
    Ok(reference)
}

/// The single folder in a folder, as archives often have one at the top; else the folder itself.
pub fn only_folder(folder: &Path) -> PathBuf {
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten(),
        Err(_) => return folder.to_owned(),
    };
    match (entries.next(), entries.next()) {
        (Some(only), None) if only.file_type().is_ok_and(|kind| kind.is_dir()) => only.path(),
        _ => folder.to_owned(),
    }
}

/// Runs git for one address in one folder.
struct Call<'a> {
    git: &'a Git<'a>,
    url: &'a str,
    into: &'a Path,
    cancel: &'a CancellationToken,
}

impl Call<'_> {
    async fn run(&self, arguments: &[&str]) -> Result<String, CloneError> {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", *setting]);
        let program = Program {
            program: OsString::from("git"),
            arguments: settings.chain(arguments.iter().copied()).map(str::to_owned).collect(),
            directory: self.into.to_owned(),
            environment: self.environment(),
            input: Vec::new(),
            time_limit: Some(self.git.time_limit),
            output_limit: OUTPUT_LIMIT,
            sandbox: None,
        };
        let end = run_with(&program, Excess::Dropped, self.git.background, self.cancel).await;
        let end = end.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CloneError::GitMissing,
            _ => CloneError::NotRun(error),
        })?;
        match end.ending {
            ProgramEnding::Exited(0) => Ok(String::from_utf8_lossy(&end.stdout).trim().to_owned()),
            ProgramEnding::Cancelled => Err(CloneError::Cancelled),
            ProgramEnding::TimedOut => {
                Err(CloneError::TimedOut { url: self.url.to_owned(), limit: self.git.time_limit })
            }
            other => {
                let said = String::from_utf8_lossy(&end.stderr).trim().to_owned();
                let message = if said.is_empty() { format!("git ended with {other:?}") } else { said };
                Err(CloneError::Failed { url: self.url.to_owned(), message })
            }
        }
    }

    fn environment(&self) -> Vec<(String, String)> {
        let given = self.git.environment.iter().filter(|(name, _)| !UNSET.contains(&name.as_str())).cloned();
        let mut environment: Vec<(String, String)> = given.collect();
        let value_of = |wanted: &str| {
            let found = self.git.environment.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str())
        };
        let mut set = |name: &str, value: String| {
            environment.retain(|(other, _)| other != name);
            environment.push((name.to_owned(), value));
        };
        set("GIT_TERMINAL_PROMPT", "0".to_owned());
        set("GIT_ALLOW_PROTOCOL", PROTOCOLS.to_owned());
        // Large files are not what a skill or an extension is made of, and its filter is another program.
        set("GIT_LFS_SKIP_SMUDGE", "1".to_owned());
        if value_of("GIT_SSH_COMMAND").is_none() {
            set("GIT_SSH_COMMAND", "ssh -oBatchMode=yes".to_owned());
        }
        if let Some(token) = self.git.token.as_ref().filter(|_| self.url.starts_with("https://github.com/")) {
            // Not as an argument, which everybody on the machine can read.
            let count = value_of("GIT_CONFIG_COUNT").and_then(|count| count.parse().ok()).unwrap_or(0_usize);
            let word = STANDARD.encode(format!("x-access-token:{token}"));
            set("GIT_CONFIG_COUNT", (count + 1).to_string());
            set(&format!("GIT_CONFIG_KEY_{count}"), "http.https://github.com/.extraHeader".to_owned());
            set(&format!("GIT_CONFIG_VALUE_{count}"), format!("Authorization: Basic {word}"));
        }
        environment
    }
}

#[cfg(test)]
mod tests;
