//! Fetches files from a git repository or from another folder.
//!
//! The result is checked before use: git may not prompt, run hooks or filters, or use protocols other than file
//! transfer; a repository is subject to the same limits as an archive, before and after checkout; and a copy
//! never follows a link out of its folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pollux_config::files::{self, FileError, Mode};
use pollux_exec::background::Background;
use pollux_exec::program::{Excess, Program, ProgramEnding, run_with};
use tokio_util::sync::CancellationToken;

use pollux_archive::{Limits, Refusal};

mod copy;

pub use copy::{CopyError, check_folder, copy_folder};

const OUTPUT_LIMIT: usize = 64 * 1024;

/// Bytes that git may need to list one file.
const LINE: usize = 1200;

/// The protocols that git may use; others could start programs.
const PROTOCOLS: &str = "http:https:ssh:git:sso:file";

/// The git variables that are passed on: how the user reaches servers and their configuration. Others could
/// direct it to another repository, to other objects or to a program that prompts.
const KEPT: &[&str] = &[
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_KEY_",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_VALUE_",
    "GIT_CURL_VERBOSE",
    "GIT_EXEC_PATH",
    "GIT_HTTP_",
    "GIT_PROTOCOL",
    "GIT_PROXY_",
    "GIT_SSH",
    "GIT_SSL_",
    "GIT_TRACE",
];

/// Stronger than the attributes in a repository: its files are written as they are, by no filter that the user has
/// configured for other repositories.
const PLAIN_FILES: &str = "* -filter -text -ident -working-tree-encoding\n";

/// How often the size of a running fetch is checked.
const WATCH: Duration = Duration::from_millis(200);

const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "advice.detachedHead=false",
    "gc.auto=0",
];

/// How git is run.
pub struct Git<'a> {
    /// Its file. Never one that a repository supplies.
    pub program: PathBuf,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    pub background: &'a Background,
    /// Sent only to `https://github.com/`.
    pub token: Option<String>,
    /// For each of its commands.
    pub time_limit: Duration,
}

/// Why a repository could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    #[error("`git` not found in `PATH`; install it, or use a folder or an archive instead")]
    GitMissing,
    #[error("could not run git: {0}")]
    NotRun(#[source] io::Error),
    #[error("could not fetch `{url}`: {message}")]
    Failed { url: String, message: String },
    #[error("could not fetch `{url}`: git did not finish within {} seconds", limit.as_secs())]
    TimedOut { url: String, limit: Duration },
    #[error("`{}` is not a branch, tag or commit", .0.escape_debug())]
    BadReference(String),
    #[error("refused `{url}`: it contains more than {} MiB", limit >> 20)]
    TooLarge { url: String, limit: u64 },
    #[error("refused `{url}`: it contains more than {limit} files")]
    TooMany { url: String, limit: usize },
    #[error("refused `{url}`: its entry `{}` {why}", entry.escape_debug())]
    Refused { url: String, entry: String, why: Refusal },
    #[error(transparent)]
    Unsound(#[from] CopyError),
    #[error(transparent)]
    File(#[from] FileError),
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
    limits: &Limits,
    cancel: &CancellationToken,
) -> Result<String, CloneError> {
    let reference = checked(reference)?;
    let call = Call { git, url, into, cancel };
    call.run(&["init", "-q", "--template="]).await?;
    let attributes = into.join(".git/info/attributes");
    files::replace(&attributes, PLAIN_FILES.as_bytes(), Mode::Private)?;
    call.run(&["remote", "add", "--", "origin", url]).await?;
    call.fetch(reference, limits).await?;
    call.judge_listing(limits).await?;
    call.run(&["checkout", "-q", "--detach", "FETCH_HEAD"]).await?;
    check_folder(into, limits)?;
    call.run(&["rev-parse", "HEAD"]).await
}

/// The commit of a reference at the remote, without fetching it.
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
    /// Fetches without checking out; aborts when the limits of an archive are exceeded.
    async fn fetch(&self, reference: &str, limits: &Limits) -> Result<(), CloneError> {
        let enough = self.cancel.child_token();
        let call = Call { cancel: &enough, ..*self };
        let arguments = [
            "fetch",
            "-q",
            "--depth",
            "1",
            "--no-tags",
            "--no-recurse-submodules",
            "--",
            "origin",
            reference,
        ];
        let fetching = call.run(&arguments);
        tokio::pin!(fetching);
        let repository = self.into.join(".git");
        let is_too_large = || size_of(&repository, limits.total) > limits.total;
        loop {
            tokio::select! {
                done = &mut fetching => {
                    if is_too_large() {
                        break;
                    }
                    return done.map(drop);
                }
                () = tokio::time::sleep(WATCH) => {
                    if is_too_large() {
                        enough.cancel();
                        // Until its processes have exited.
                        let _ = fetching.await;
                        break;
                    }
                }
            }
        }
        Err(CloneError::TooLarge { url: self.url.to_owned(), limit: limits.total })
    }

    /// Checks the names, kinds and sizes in the commit: a few objects can represent millions of files, which
    /// git would hold in memory before writing the first.
    async fn judge_listing(&self, limits: &Limits) -> Result<(), CloneError> {
        let room = limits.entries.saturating_add(1).saturating_mul(LINE);
        let too_many = || CloneError::TooMany { url: self.url.to_owned(), limit: limits.entries };
        let listing = ["ls-tree", "-r", "-l", "-z", "FETCH_HEAD"];
        let listed = self.run_for(&listing, room, Excess::Ends).await?.ok_or_else(too_many)?;
        let mut total = 0_u64;
        for (index, line) in listed.split('\0').filter(|line| !line.is_empty()).enumerate() {
            let (facts, name) = line.split_once('\t').unwrap_or((line, ""));
            let size = facts.split_whitespace().nth(3).and_then(|size| size.parse().ok()).unwrap_or(0_u64);
            total = total.saturating_add(size);
            if index >= limits.entries {
                return Err(too_many());
            }
            if size > limits.entry {
                return Err(self.refused(name, Refusal::EntryTooLarge(limits.entry)));
            }
            if total > limits.total {
                return Err(self.refused(name, Refusal::TotalTooLarge(limits.total)));
            }
        }
        Ok(())
    }

    fn refused(&self, entry: &str, why: Refusal) -> CloneError {
        let entry = entry.chars().take(200).collect();
        CloneError::Refused { url: self.url.to_owned(), entry, why }
    }

    async fn run(&self, arguments: &[&str]) -> Result<String, CloneError> {
        Ok(self.run_for(arguments, OUTPUT_LIMIT, Excess::Dropped).await?.unwrap_or_default())
    }

    /// The output of git; empty if it exceeds the limit and git was to be stopped then.
    async fn run_for(
        &self,
        arguments: &[&str],
        room: usize,
        excess: Excess,
    ) -> Result<Option<String>, CloneError> {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", *setting]);
        let program = Program {
            program: self.git.program.clone().into_os_string(),
            arguments: settings.chain(arguments.iter().copied()).map(str::to_owned).collect(),
            directory: self.into.to_owned(),
            environment: self.environment(),
            input: Vec::new(),
            time_limit: Some(self.git.time_limit),
            output_limit: room,
            sandbox: None,
        };
        let end = run_with(&program, excess, self.git.background, self.cancel).await;
        let end = end.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CloneError::GitMissing,
            _ => CloneError::NotRun(error),
        })?;
        match end.ending {
            ProgramEnding::Exited(0) => Ok(Some(String::from_utf8_lossy(&end.stdout).trim().to_owned())),
            ProgramEnding::TooMuchOutput => Ok(None),
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
        let given = self.git.environment.iter().filter(|(name, _)| is_kept(name)).cloned();
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
        // Without the machine's own attributes and without large-file downloads.
        set("GIT_ATTR_NOSYSTEM", "1".to_owned());
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

/// Whether git gets a variable of the user's environment.
fn is_kept(name: &str) -> bool {
    if name == "SSH_ASKPASS" {
        return false;
    }
    !name.starts_with("GIT_") || KEPT.iter().any(|kept| name.starts_with(kept))
}

/// The bytes of all files below a folder, counted no further than just beyond the limit.
fn size_of(folder: &Path, limit: u64) -> u64 {
    let mut total = 0_u64;
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => left.push(entry.path()),
                Ok(meta) => total = total.saturating_add(meta.len()),
                // Gone since it was listed.
                Err(_) => {}
            }
            if total > limit {
                return total;
            }
        }
    }
    total
}

#[cfg(test)]
mod tests;
