//! Upstream's shadow repository: commits of the work tree in a git directory outside of it.
//!
//! Used only with `general.checkpointing.enabled`. It covers what git covers (no ignored files, no empty
//! folders); the journal restores everything else. Repositories in the work tree are left out: their configuration and
//! attributes would let git run programs of theirs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
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
/// Enough for the paths of a million files.
const OUTPUT_LIMIT: usize = 64 << 20;
/// Git passes these on to processes that it starts for repositories in the work tree.
const SETTINGS: [&str; 4] = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"];

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
        self.update_index(cancel).await?;
        let tree = self.git(&["write-tree"], cancel).await?;
        if tree != self.git(&["rev-parse", "HEAD^{tree}"], cancel).await? {
            let message = format!("Snapshot for {tool}");
            self.git(&["commit", "-q", "--no-verify", "-m", &message], cancel).await?;
        }
        self.git(&["rev-parse", "HEAD"], cancel).await
    }

    /// As `git add .`, which would enter repositories in the work tree, as would `git status`.
    async fn update_index(&self, cancel: &CancellationToken) -> Result<(), ShadowError> {
        let gone = self.run(&["ls-files", "-z", "--modified", "--deleted"], Vec::new(), cancel).await?;
        let gone = selected(&gone, |path| !is_file(&self.setup.root, path));
        self.run(&["update-index", "-z", "--force-remove", "--stdin"], gone, cancel).await?;
        let list = ["ls-files", "-z", "--others", "--modified", "--exclude-standard"];
        let changed = self.run(&list, Vec::new(), cancel).await?;
        let changed = selected(&changed, |path| !path.ends_with(b"/"));
        let update = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
        self.run(&update, changed, cancel).await?;
        Ok(())
    }

    /// Restores the work tree to a commit; untracked files that git does not ignore are deleted.
    pub async fn restore(&self, commit: &str, cancel: &CancellationToken) -> Result<(), ShadowError> {
        let is_hash = !commit.is_empty() && commit.chars().all(|c| c.is_ascii_hexdigit());
        let wanted = format!("{commit}^{{commit}}");
        if !is_hash || self.git(&["rev-parse", "--verify", "-q", &wanted], cancel).await.is_err() {
            return Err(ShadowError::UnknownCommit(commit.to_owned()));
        }
        // With the index, because a file that a later snapshot did not have would count as untracked.
        self.git(&["restore", "--source", commit, "--staged", "--worktree", "."], cancel).await?;
        self.git(&["clean", "-f", "-d"], cancel).await?;
        Ok(())
    }

    /// Runs git on this repository and returns its output as text.
    async fn git(&self, arguments: &[&str], cancel: &CancellationToken) -> Result<String, ShadowError> {
        let output = self.run(arguments, Vec::new(), cancel).await?;
        Ok(String::from_utf8_lossy(&output).trim().to_owned())
    }

    async fn run(
        &self,
        arguments: &[&str],
        input: Vec<u8>,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, ShadowError> {
        let program = Program {
            program: self.setup.git.clone(),
            arguments: SETTINGS.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect(),
            directory: self.setup.root.clone(),
            environment: self.environment(),
            input,
            time_limit: Some(TIME_LIMIT),
            output_limit: OUTPUT_LIMIT,
            sandbox: None,
        };
        let end = program::run(&program, &self.background, cancel).await.map_err(ShadowError::NotRun)?;
        if end.ending == ProgramEnding::Exited(0) {
            return Ok(end.stdout);
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

/// The paths of a list that a condition is true for. Git lists a repository in the work tree with `/` at its end.
fn selected(list: &[u8], condition: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let paths = list.split_inclusive(|byte| *byte == 0);
    paths.filter(|path| condition(path.strip_suffix(b"\0").unwrap_or(path))).flatten().copied().collect()
}

/// Whether a path below the root leads to a file or a link, through no other link.
fn is_file(root: &Path, path: &[u8]) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    let is_folder = |path: PathBuf| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    root.join(path).symlink_metadata().is_ok_and(|meta| !meta.is_dir())
        && path.ancestors().skip(1).all(|parent| is_folder(root.join(parent)))
}
