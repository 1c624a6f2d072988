//! Runs external safety checkers: the call goes to stdin, the verdict comes from stdout, and failures deny the call.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_exec::background::Background;
use pollux_exec::program::{Program, ProgramEnd, ProgramEnding, run};
use pollux_policy::checker::{CheckAnswer, CheckFailure, CheckRequest, CheckerPort, ExternalCheck};
use tokio_util::sync::CancellationToken;

use super::Loaded;

/// Maximum size of a checker's output in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// Maximum characters of a checker's stderr that are passed on.
const MAX_COMPLAINT: usize = 300;

/// Checkers implemented as programs.
pub struct Programs {
    /// Installed checkers by name.
    folder: PathBuf,
    directory: PathBuf,
    environment: Vec<(String, String)>,
    background: Arc<Background>,
}

/// The checkers installed in this home; they run in `directory`.
pub fn programs(loaded: &Loaded, directory: &Path, background: Arc<Background>) -> Programs {
    Programs {
        folder: loaded.home.gemini_dir().join("checkers"),
        directory: directory.to_path_buf(),
        environment: loaded.command_env(),
        background,
    }
}

impl CheckerPort for Programs {
    fn check<'a>(
        &'a self,
        check: &'a ExternalCheck,
        request: &'a CheckRequest<'a>,
    ) -> BoxFuture<'a, Result<CheckAnswer, CheckFailure>> {
        Box::pin(self.ask(check, request))
    }
}

impl Programs {
    async fn ask(
        &self,
        check: &ExternalCheck,
        request: &CheckRequest<'_>,
    ) -> Result<CheckAnswer, CheckFailure> {
        let (file, arguments) = match check.command.as_deref() {
            Some([program, arguments @ ..]) => (PathBuf::from(program), arguments.to_vec()),
            _ => (self.folder.join(&check.name), Vec::new()),
        };
        if !is_executable(&file) {
            return Err(CheckFailure::NotInstalled { name: check.name.clone(), file });
        }
        let mut input = request.to_json(check).to_string().into_bytes();
        input.push(b'\n');
        let program = Program {
            program: file.into_os_string(),
            arguments,
            directory: self.directory.clone(),
            environment: self.environment.clone(),
            input,
            time_limit: Some(check.limit),
            output_limit: MAX_ANSWER,
            // Checkers are installed by the user and run with the user's environment.
            sandbox: None,
        };
        // The caller drops this future to stop waiting.
        let ended = run(&program, &self.background, &CancellationToken::new()).await;
        let failed = |why: String| CheckFailure::Failed { name: check.name.clone(), why };
        answer(check, &ended.map_err(|error| failed(format!("could not start it: {error}")))?)
    }
}

fn answer(check: &ExternalCheck, end: &ProgramEnd) -> Result<CheckAnswer, CheckFailure> {
    let why = match end.ending {
        ProgramEnding::Exited(0) => {
            return match std::str::from_utf8(&end.stdout) {
                Ok(text) => CheckAnswer::parse(&check.name, text),
                Err(_) => Err(CheckFailure::Malformed {
                    name: check.name.clone(),
                    why: "it is not UTF-8 text".to_owned(),
                }),
            };
        }
        ProgramEnding::TimedOut => {
            return Err(CheckFailure::TimedOut { name: check.name.clone(), limit: check.limit });
        }
        ProgramEnding::Exited(code) => format!("it exited with code {code}{}", complaint(end)),
        ProgramEnding::Signalled(signal) => format!("it was killed by signal {signal}{}", complaint(end)),
        ProgramEnding::TooMuchOutput => format!("it printed more than {MAX_ANSWER} bytes"),
        ProgramEnding::Cancelled => "it was cancelled".to_owned(),
    };
    Err(CheckFailure::Failed { name: check.name.clone(), why })
}

/// The end of its stderr.
fn complaint(end: &ProgramEnd) -> String {
    let text = String::from_utf8_lossy(&end.stderr);
    match text.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!(" ({})", line.trim().chars().take(MAX_COMPLAINT).collect::<String>()),
        None => String::new(),
    }
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}
