//! A temporary home and project to run the program in.

pub(crate) mod running;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
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
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut child, writer) = spawn_with_input(&mut self.command, self.stdin.take());
        let stdout = collect(child.stdout.take().expect("stdout is piped"));
        let stderr = collect(child.stderr.take().expect("stderr is piped"));
        let code = wait(&mut child, self.limit);
        if let Some(writer) = writer {
            let _ = writer.join();
        }
        Run { code, stdout: text(stdout), stderr: text(stderr) }
    }
}

/// How much every pipe holds, whatever the limits of its user are.
const PIPE_SIZE: usize = 4096;

/// Starts a program with this text as its stdin, or with an empty stdin. A thread writes what the pipe cannot hold.
fn spawn_with_input(command: &mut Command, text: Option<Vec<u8>>) -> (Child, Option<JoinHandle<()>>) {
    let Some(mut text) = text else {
        return (spawn(command.stdin(Stdio::null())), None);
    };
    let rest = text.split_off(text.len().min(PIPE_SIZE));
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    // The program takes a pipe that is silent for a while for an empty one, so the text is there before it starts.
    writer.write_all(&text).expect("fill the pipe");
    let child = spawn(command.stdin(reader));
    // Only the program may hold the other end, or the thread would not notice that it was closed.
    command.stdin(Stdio::null());
    if rest.is_empty() {
        return (child, None);
    }
    // A program that does not read its stdin closes it; that is its right.
    (child, Some(std::thread::spawn(move || drop(writer.write_all(&rest)))))
}

fn spawn(command: &mut Command) -> Child {
    command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"))
}

/// The program that tests run: the build of the checkout, or the one that `POLLUX_TEST_BINARY` names.
pub fn program(built: &'static str) -> &'static Path {
    static NAMED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let named = NAMED.get_or_init(|| std::env::var_os("POLLUX_TEST_BINARY").map(PathBuf::from));
    named.as_deref().unwrap_or(Path::new(built))
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
    fn a_long_stdin_arrives_whole_and_a_program_may_ignore_it() {
        let home = TestHome::new();
        let text = "0123456789".repeat(100_000);
        let run = home.command(Path::new("/bin/cat"), [""; 0]).stdin(text.clone()).run();
        assert!(run.stdout == text, "{} bytes", run.stdout.len());
        assert_eq!(home.command(Path::new("/bin/true"), [""; 0]).stdin(text).run().code, Some(0));
    }

    #[test]
    fn the_time_limit_kills_the_program_and_its_children() {
        let home = TestHome::new();
        let run = home
            .command(Path::new("/bin/sh"), ["-c", "echo begun; sleep 600 & wait"])
            .limit(Duration::from_secs(5))
            .run();
        assert_eq!(run.code, None);
        assert_eq!(run.stdout, "begun\n");
    }
}
