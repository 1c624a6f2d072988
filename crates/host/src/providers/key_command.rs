//! Keys printed by a program of the user's choice (`keyCommand`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::Secret;
use pollux_domain::BoxFuture;
use pollux_domain::terminal_text::plain;
use pollux_exec::background::Background;
use pollux_exec::program::{Program, ProgramEnd, ProgramEnding, run};
use pollux_model::shared::endpoint::KeySource;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::helpers::{helper, with_safe_path};

const TIME_LIMIT: Duration = Duration::from_secs(10);
/// More output than this is not a key.
const MAX_OUTPUT: usize = 16 * 1024;
/// Maximum characters of the program's stderr in an error.
const MAX_COMPLAINT: usize = 200;

/// Runs the program when the first request needs the key, and again when the server rejects it.
pub(crate) struct KeyCommand {
    provider: String,
    program: Program,
    background: Background,
    key: Mutex<Option<Secret>>,
}

impl KeyCommand {
    /// Finds the program; the error is shown to the user. It runs in the home directory, so that a project cannot
    /// supply a file that it reads.
    pub(crate) fn new(
        provider: &str,
        command: &[String],
        env: &Env,
        home: &Path,
        background: PathBuf,
    ) -> Result<Self, String> {
        let invalid = |reason: String| format!("invalid `providers.{provider}.keyCommand`: {reason}");
        let Some((name, arguments)) = command.split_first() else {
            return Err(invalid("it is empty".to_owned()));
        };
        let file = match Path::new(name) {
            path if path.is_absolute() => Some(path.to_path_buf()),
            _ if name.contains('/') => {
                return Err(invalid(format!("`{name}` is neither an absolute path nor a name on PATH")));
            }
            _ => helper(name, env),
        };
        let file = file.ok_or_else(|| invalid(format!("`{name}` was not found on PATH")))?;
        let mut program = Program::new(file, arguments.to_vec(), home, with_safe_path(env.iter(), env));
        program.time_limit = Some(TIME_LIMIT);
        program.output_limit = MAX_OUTPUT;
        let background = Background::guarded(background);
        Ok(Self { provider: provider.to_owned(), program, background, key: Mutex::default() })
    }

    async fn run(&self) -> Result<Secret, String> {
        let failed =
            |reason: String| format!("no API key from `keyCommand` of `{}`: {reason}", self.provider);
        let end = run(&self.program, &self.background, &CancellationToken::new()).await;
        let end = end.map_err(|error| failed(format!("it could not be started: {error}")))?;
        read(&end).map_err(failed)
    }
}

impl KeySource for KeyCommand {
    fn key(&self) -> BoxFuture<'_, Result<Secret, String>> {
        Box::pin(async {
            let mut kept = self.key.lock().await;
            if let Some(key) = &*kept {
                return Ok(key.clone());
            }
            let key = self.run().await?;
            *kept = Some(key.clone());
            Ok(key)
        })
    }

    fn refused<'a>(&'a self, key: &'a Secret) -> BoxFuture<'a, ()> {
        Box::pin(async {
            let mut kept = self.key.lock().await;
            if kept.as_ref() == Some(key) {
                *kept = None;
            }
        })
    }
}

/// The key in the program's output; errors never contain it.
fn read(end: &ProgramEnd) -> Result<Secret, String> {
    match end.ending {
        ProgramEnding::Exited(0) => {}
        ProgramEnding::Exited(code) => {
            let said = String::from_utf8_lossy(&end.stderr);
            let said = said.trim().lines().next().map(|line| plain(line).into_owned()).unwrap_or_default();
            let said: String = said.chars().take(MAX_COMPLAINT).collect();
            let said = if said.is_empty() { said } else { format!(": {said}") };
            return Err(format!("it exited with code {code}{said}"));
        }
        ProgramEnding::Signalled(signal) => return Err(format!("it was ended by signal {signal}")),
        ProgramEnding::Cancelled => return Err("it was cancelled".to_owned()),
        ProgramEnding::TimedOut => {
            return Err(format!("it did not finish within {} s", TIME_LIMIT.as_secs()));
        }
        ProgramEnding::TooMuchOutput => return Err("it printed more than a key".to_owned()),
    }
    let key = String::from_utf8_lossy(&end.stdout).trim().to_owned();
    if key.is_empty() {
        return Err("it printed nothing".to_owned());
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("it printed more than a key".to_owned());
    }
    Ok(Secret::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str], folder: &Path) -> Result<KeyCommand, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let env = Env::new([("PATH".to_owned(), "/usr/bin:/bin".to_owned())], folder.join("project"));
        KeyCommand::new("lab", &words, &env, folder, folder.join("background"))
    }

    async fn key(script: &str, folder: &Path) -> Result<String, String> {
        let command = command(&["sh", "-c", script], folder)?;
        command.key().await.map(|key| key.reveal().to_owned())
    }

    #[tokio::test]
    async fn the_key_is_the_trimmed_output() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(key("printf ' sk-1\\r\\n\\n'", folder.path()).await.as_deref(), Ok("sk-1"));
        assert_eq!(
            key("pwd", folder.path()).await,
            Ok(folder.path().canonicalize().unwrap().display().to_string())
        );
    }

    #[tokio::test]
    async fn invalid_keys_are_rejected_without_being_shown() {
        let folder = tempfile::tempdir().unwrap();
        for (script, expected) in [
            ("true", "it printed nothing"),
            ("echo sk-canary; echo more", "it printed more than a key"),
            ("echo 'sk-canary more'", "it printed more than a key"),
            ("yes sk-canary", "it printed more than a key"),
            ("echo locked >&2; echo sk-canary; exit 3", "it exited with code 3: locked"),
            ("kill -9 $$", "it was ended by signal 9"),
        ] {
            let said = key(script, folder.path()).await.unwrap_err();
            assert!(said.ends_with(expected) && !said.contains("canary"), "{script}: {said}");
        }
    }

    #[tokio::test]
    async fn a_slow_command_times_out() {
        let folder = tempfile::tempdir().unwrap();
        let mut slow = command(&["sh", "-c", "sleep 60; echo sk-1"], folder.path()).unwrap();
        slow.program.time_limit = Some(Duration::from_millis(100));
        assert!(slow.key().await.unwrap_err().contains("did not finish within"));
    }

    #[tokio::test]
    async fn it_runs_again_only_for_a_rejected_key() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo x >> count; echo sk-$(wc -l < count)";
        let command = command(&["sh", "-c", script], folder.path()).unwrap();
        let first = command.key().await.unwrap();
        assert_eq!((first.reveal(), command.key().await.unwrap().reveal()), ("sk-1", "sk-1"));
        command.refused(&first).await;
        assert_eq!(command.key().await.unwrap().reveal(), "sk-2");
        // A late refusal of the old key does not discard the new one.
        command.refused(&first).await;
        assert_eq!(command.key().await.unwrap().reveal(), "sk-2");
    }

    #[test]
    fn a_program_of_the_project_is_never_run() {
        let folder = tempfile::tempdir().unwrap();
        for words in [&[][..], &["./key.sh"], &["bin/key"], &["no-such-program-anywhere"]] {
            assert!(command(words, folder.path()).is_err(), "{words:?}");
        }
    }
}
