//! Upstream's shadow repository: commits of the work tree in a git directory outside of it.
//!
//! Used only with `general.checkpointing.enabled`. It covers what git covers (no ignored files, no empty
//! folders); the journal restores everything else.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pollux_config::files::{self, FileError, Mode};
use pollux_exec::background::Background;
use pollux_exec::program::{self, Program, ProgramEnding};
use tokio_util::sync::CancellationToken;

// Identity of the commits; equal to upstream's.
const CONFIG: &str =
    "[user]\n  name = Gemini CLI\n  email = gemini-cli@google.com\n[commit]\n  gpgsign = false\n";
const AUTHOR: (&str, &str) = ("Gemini CLI", "gemini-cli@google.com");
const BRANCH: &str = "main";
const FIRST_COMMIT: &str = "Initial commit";

const TIME_LIMIT: Duration = Duration::from_secs(120);
const OUTPUT_LIMIT: usize = 4 << 20;

/// Where things are.
#[derive(Debug, Clone)]
pub struct ShadowSetup {
    /// `history/<project>` in the user's folder.
    pub folder: PathBuf,
    pub root: PathBuf,
    /// The environment of git; variables about repositories are set here.
    pub environment: Vec<(String, String)>,
    /// The program, normally `git`.
    pub git: OsString,
}

/// The repository of one project.
pub struct ShadowRepository {
    setup: ShadowSetup,
    background: Arc<Background>,
}

/// Why the shadow repository could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ShadowError {
    #[error(
        "Checkpointing is enabled, but Git is not installed. Please install Git or disable checkpointing to continue."
    )]
    GitMissing,
    #[error("could not run git: {0}")]
    NotRun(#[source] io::Error),
    #[error("`git {command}` failed in the checkpoint repository: {message}")]
    Failed { command: String, message: String },
    #[error(
        "no commit `{0}` in the checkpoint repository, which has since been recreated or cleaned up; nothing was changed"
    )]
    UnknownCommit(String),
    #[error(transparent)]
    File(#[from] FileError),
}

impl ShadowRepository {
    /// Finds or makes the repository.
    pub async fn open(
        setup: ShadowSetup,
        background: Arc<Background>,
        cancel: &CancellationToken,
    ) -> Result<Self, ShadowError> {
        let repository = Self { setup, background };
        match repository.git(&["--version"], cancel).await {
            Err(ShadowError::NotRun(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ShadowError::GitMissing);
            }
            other => other?,
        };
        let folder = &repository.setup.folder;
        files::create_folder(folder, Mode::Shared)?;
        files::replace(&folder.join(".gitconfig"), CONFIG.as_bytes(), Mode::Shared)?;
        files::replace(&folder.join(".gitconfig_system_empty"), b"", Mode::Shared)?;
        let ignored = files::read_text(&repository.setup.root.join(".gitignore")).ok().flatten();
        files::replace(&folder.join(".gitignore"), ignored.unwrap_or_default().as_bytes(), Mode::Shared)?;
        if repository.git(&["rev-parse", "--verify", "-q", "HEAD"], cancel).await.is_err() {
            repository.git(&["init", "-q", "--template=", "--initial-branch", BRANCH], cancel).await?;
            let commit = ["commit", "-q", "--no-verify", "--allow-empty", "-m", FIRST_COMMIT];
            repository.git(&commit, cancel).await?;
        }
        Ok(repository)
    }

    /// Commits the work tree as it is before a tool changes it; the commit that has it.
    pub async fn snapshot(&self, tool: &str, cancel: &CancellationToken) -> Result<String, ShadowError> {
        self.git(&["add", "."], cancel).await?;
        if !self.git(&["status", "--porcelain"], cancel).await?.is_empty() {
            let message = format!("Snapshot for {tool}");
            self.git(&["commit", "-q", "--no-verify", "-m", &message], cancel).await?;
        }
        self.git(&["rev-parse", "HEAD"], cancel).await
    }

    /// Restores the work tree to a commit; untracked files that git does not ignore are deleted.
    pub async fn restore(&self, commit: &str, cancel: &CancellationToken) -> Result<(), ShadowError> {
        let is_hash = !commit.is_empty() && commit.chars().all(|c| c.is_ascii_hexdigit());
        let wanted = format!("{commit}^{{commit}}");
        if !is_hash || self.git(&["rev-parse", "--verify", "-q", &wanted], cancel).await.is_err() {
            return Err(ShadowError::UnknownCommit(commit.to_owned()));
        }
        self.git(&["restore", "--source", commit, "."], cancel).await?;
        self.git(&["clean", "-f", "-d"], cancel).await?;
        Ok(())
    }

    /// Runs git on this repository and returns its output.
    async fn git(&self, arguments: &[&str], cancel: &CancellationToken) -> Result<String, ShadowError> {
        let program = Program {
            program: self.setup.git.clone(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            directory: self.setup.root.clone(),
            environment: self.environment(),
            input: Vec::new(),
            time_limit: Some(TIME_LIMIT),
            output_limit: OUTPUT_LIMIT,
            sandbox: None,
        };
        let end = program::run(&program, &self.background, cancel).await.map_err(ShadowError::NotRun)?;
        if end.ending == ProgramEnding::Exited(0) {
            return Ok(String::from_utf8_lossy(&end.stdout).trim().to_owned());
        }
        let said = String::from_utf8_lossy(&end.stderr).trim().to_owned();
        let message = if said.is_empty() { format!("{:?}", end.ending) } else { said };
        Err(ShadowError::Failed {
            command: arguments.first().copied().unwrap_or_default().to_owned(),
            message,
        })
    }

    fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let folder = &self.setup.folder;
        let inherited = self.setup.environment.iter().filter(|(name, _)| !name.starts_with("GIT_"));
        let own = [
            ("GIT_DIR", text(&folder.join(".git"))),
            ("GIT_WORK_TREE", text(&self.setup.root)),
            ("GIT_CONFIG_GLOBAL", text(&folder.join(".gitconfig"))),
            ("GIT_CONFIG_SYSTEM", text(&folder.join(".gitconfig_system_empty"))),
            ("GIT_AUTHOR_NAME", AUTHOR.0.to_owned()),
            ("GIT_AUTHOR_EMAIL", AUTHOR.1.to_owned()),
            ("GIT_COMMITTER_NAME", AUTHOR.0.to_owned()),
            ("GIT_COMMITTER_EMAIL", AUTHOR.1.to_owned()),
            ("GIT_TERMINAL_PROMPT", "0".to_owned()),
        ];
        inherited.cloned().chain(own.map(|(name, value)| (name.to_owned(), value))).collect()
    }
}
