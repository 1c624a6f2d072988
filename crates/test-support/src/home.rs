//! A temporary home and project to run the program in.

pub(crate) mod running;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::FakeGemini;
use crate::screen::Screen;
use crate::terminal::Terminal;

/// A home directory and a project directory that vanish with this value.
pub struct TestHome {
    root: TempDir,
    env: BTreeMap<String, String>,
}

/// How a run of the program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// `None` when a signal ended it, or the time limit.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A run being prepared.
pub struct TestRun {
    command: Command,
    stdin: Option<Vec<u8>>,
    limit: Duration,
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

impl TestHome {
    /// An empty home and an empty project.
    pub fn new() -> Self {
        let root = tempfile::Builder::new().prefix("pollux-test-").tempdir().expect("make a scratch folder");
        for folder in ["home", "project"] {
            fs::create_dir(root.path().join(folder)).expect("make a scratch folder");
        }
        Self { root, env: BTreeMap::new() }
    }

    /// The home directory.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The `.gemini` folder in the home.
    pub fn gemini_dir(&self) -> PathBuf {
        self.home().join(".gemini")
    }

    /// The project directory, in which the program runs.
    pub fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// Writes the user's settings.
    #[must_use]
    pub fn settings(self, settings: Value) -> Self {
        self.home_file(".gemini/settings.json", &settings.to_string())
    }

    /// Writes the project's settings.
    #[must_use]
    pub fn project_settings(self, settings: Value) -> Self {
        self.file(".gemini/settings.json", &settings.to_string())
    }

    /// Writes a file in the project.
    #[must_use]
    pub fn file(self, path: &str, text: &str) -> Self {
        write(&self.project().join(path), text.as_bytes());
        self
    }

    /// Writes a file in the home.
    #[must_use]
    pub fn home_file(self, path: &str, text: &str) -> Self {
        write(&self.home().join(path), text.as_bytes());
        self
    }

    /// Sets a variable for every run.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The text of a file in the project; panics if it cannot be read.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project().join(path)).unwrap_or_else(|error| panic!("read {path}: {error}"))
    }

    /// Prepares a run of `binary` with a clean environment.
    pub fn command<A: Into<OsString>>(&self, binary: &Path, args: impl IntoIterator<Item = A>) -> TestRun {
        let mut command = Command::new(binary);
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        command
            .args(args.into_iter().map(Into::into))
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", path)
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("GEMINI_API_KEY", "test-key")
            .envs(&self.env)
            .current_dir(self.project())
            // A separate process group, so that the time limit also kills the children of the program.
            .process_group(0);
        TestRun { command, stdin: None, limit: Duration::from_secs(60) }
    }
}

impl TestRun {
    /// Points the program at a fake server.
    #[must_use]
    pub fn against(mut self, server: &FakeGemini) -> Self {
        self.command.env("GOOGLE_GEMINI_BASE_URL", server.url());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes a variable.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Runs in another directory.
    #[must_use]
    pub fn in_dir(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Pipes a text in; otherwise stdin is empty.
    #[must_use]
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(text.into());
        self
    }

    /// Sets the time limit, after which the program is killed.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Starts it on a terminal that can only show lines.
    pub fn on_terminal(mut self) -> Terminal {
        self.command.env("TERM", "dumb");
        Terminal::start(&self.command)
    }

    /// Starts it on a terminal that can show anything, of this size.
    pub fn on_screen(self, columns: u16, rows: u16) -> Screen {
        Screen::start(&self.command, columns, rows)
    }

    /// Starts it with pipes for its streams; the caller ends it.
    pub fn start(mut self) -> Child {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command.spawn().unwrap_or_else(|error| panic!("start {:?}: {error}", self.command))
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Run {
        let input = if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        self.command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            self.command.spawn().unwrap_or_else(|error| panic!("start {:?}: {error}", self.command));
        let writer = self.stdin.take().zip(child.stdin.take()).map(|(text, mut pipe)| {
            // A program that does not read its stdin closes it; that is its right.
            std::thread::spawn(move || drop(pipe.write_all(&text)))
        });
        let stdout = collect(child.stdout.take().expect("stdout is piped"));
        let stderr = collect(child.stderr.take().expect("stderr is piped"));
        let code = wait(&mut child, self.limit);
        if let Some(writer) = writer {
            let _ = writer.join();
        }
        Run { code, stdout: text(stdout), stderr: text(stderr) }
    }
}

/// The program that long tests run: the one that `POLLUX_TEST_BINARY` names, such as an optimised one, or the one that
/// was built for the test.
pub fn program(built: &str) -> PathBuf {
    std::env::var_os("POLLUX_TEST_BINARY").map_or_else(|| PathBuf::from(built), PathBuf::from)
}

/// Polls, because std has no wait with a limit.
fn wait(child: &mut Child, limit: Duration) -> Option<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("wait for the program") {
            return status.code();
        }
        if started.elapsed() > limit {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Output before an error is still worth comparing.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn text(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

fn write(path: &Path, bytes: &[u8]) {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).expect("make a folder");
    }
    fs::File::create(path).and_then(|mut file| file.write_all(bytes)).expect("write a file");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_program_runs_in_the_project_with_a_clean_environment_and_its_stdin() {
        let home = TestHome::new().settings(json!({"a": 1})).file("src/a.txt", "hello").env("EXTRA", "yes");
        let script = "cat; cat src/a.txt \"$HOME/.gemini/settings.json\"; echo \"$EXTRA $CARGO $GEMINI_API_KEY\" >&2; exit 3";
        let run = home.command(Path::new("/bin/sh"), ["-c", script]).stdin("in ").run();
        let expected =
            Run { code: Some(3), stdout: "in hello{\"a\":1}".into(), stderr: "yes  test-key\n".into() };
        assert_eq!(run, expected);
    }

    #[test]
    fn the_time_limit_kills_the_program_and_its_children() {
        let home = TestHome::new();
        let run = home
            .command(Path::new("/bin/sh"), ["-c", "echo begun; sleep 600 & wait"])
            .limit(Duration::from_millis(300))
            .run();
        assert_eq!(run.code, None);
        assert_eq!(run.stdout, "begun\n");
    }
}
