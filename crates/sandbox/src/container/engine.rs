//! The engine's program: where it is, what it answers, and what its complaints mean.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pollux_config::search_path::SearchPath;
use serde_json::Value;

use super::{ContainerError, Engine};

/// How long a question may take; a daemon under load needs seconds.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// How long an image may take to build or to load.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
const MAX_ANSWER: u64 = 4 << 20;

const NOT_RUNNING: &[&str] = &[
    "cannot connect to the docker daemon",
    "is the docker daemon running",
    "cannot connect to podman",
    "connection refused",
    "failed to connect to the docker api",
    "error during connect",
];
const NO_IMAGE: &[&str] = &["no such image", "image not known", "no such object"];

/// An engine that can be asked.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) engine: Engine,
    pub(crate) program: PathBuf,
    pub(crate) environment: Vec<(String, String)>,
}

/// Finds an engine's program where neither commands nor other users can write.
pub(crate) fn find(engine: Engine, search_path: &str, open: &[PathBuf]) -> Result<PathBuf, ContainerError> {
    SearchPath::new(Some(OsStr::new(search_path)), open)
        .find_guarded(engine.as_str())
        .ok_or(ContainerError::NotInstalled(engine))
}

impl Client {
    /// A command with the engine's own environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.in_foreground();
        command.stdin(Stdio::null()).process_group(0);
        command
    }

    /// The same with the streams and the group of this program.
    pub(crate) fn in_foreground(&self) -> Command {
        let mut command = Command::new(&self.program);
        // Some systems have one program for several names.
        command.arg0(self.engine.as_str());
        let variables = self.environment.iter().map(|(name, value)| (name, value));
        command.env_clear().envs(variables).current_dir("/");
        command
    }

    /// The standard output, or standard error if it fails.
    pub(crate) fn run(&self, arguments: &[&OsStr], limit: Duration) -> Result<String, String> {
        let mut command = self.command();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (out, err) = (read_all(child.stdout.take()), read_all(child.stderr.take()));
        let ended = wait(&mut child, limit).map_err(|error| error.to_string())?;
        let text = |reader: std::thread::JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
        };
        let (out, err) = (text(out), text(err));
        if ended { Ok(out) } else { Err(if err.trim().is_empty() { out } else { err }) }
    }

    /// A short question.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        self.run(&arguments, ASK_LIMIT)
    }

    /// The variables that an image sets, if the engine has it.
    pub(crate) fn image_variables(&self, image: &str) -> Result<Vec<(String, String)>, ContainerError> {
        let format = "--format={{json .Config.Env}}";
        let answer = self
            .ask(&["image", "inspect", format, image])
            .map_err(|said| self.classify(&said, Some(image)))?;
        let list: Value = serde_json::from_str(answer.trim()).unwrap_or_default();
        let entries = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(entries
            .filter_map(|entry| entry.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect())
    }

    /// Whether root inside a container is the user outside.
    pub(crate) fn maps_root(&self) -> bool {
        let answer = self.ask(&["info", "--format={{json .SecurityOptions}}"]).unwrap_or_default();
        answer.contains("name=rootless")
    }

    /// What a complaint means.
    pub(crate) fn classify(&self, said: &str, image: Option<&str>) -> ContainerError {
        let engine = self.engine;
        let lower = said.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let is_about_daemon = says(&["docker daemon", "docker api", "docker.sock", "podman.sock"]);
        if is_about_daemon && lower.contains("permission denied") {
            ContainerError::NoPermission(engine)
        } else if says(NOT_RUNNING) {
            ContainerError::NotRunning(engine)
        } else if let Some(image) = image.filter(|_| says(NO_IMAGE)) {
            ContainerError::ImageMissing { engine, image: image.to_owned() }
        } else {
            ContainerError::Start { engine, said: last_line(said) }
        }
    }
}

/// The line that says what went wrong: engines print warnings and progress before it.
pub(crate) fn last_line(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| {
        let lower = line.to_ascii_lowercase();
        lower.starts_with("error") || lower.contains("error response") || lower.contains("level=error")
    };
    let is_help = |line: &str| line.to_ascii_lowercase().contains("--help");
    let line = lines().rfind(is_error).or_else(|| lines().rfind(|line| !is_help(line)));
    let line = line.unwrap_or("it gave no reason");
    let line = line.strip_prefix("Error: ").unwrap_or(line);
    line.chars().filter(|letter| !letter.is_control()).take(400).collect()
}

fn read_all(stream: Option<impl io::Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.by_ref().take(MAX_ANSWER).read_to_end(&mut bytes);
            // What is too long is read anyway, so that the engine is not stopped by it.
            let _ = io::copy(&mut stream, &mut io::sink());
        }
        bytes
    })
}

/// Whether it succeeded.
fn wait(child: &mut Child, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_of_engines_are_told_apart() {
        let client = |engine| Client { engine, program: "/usr/bin/x".into(), environment: Vec::new() };
        let docker = client(Engine::Docker);
        let kind = |client: &Client, said: &str| match client.classify(said, Some("i")) {
            ContainerError::NotRunning(_) => "not running",
            ContainerError::NoPermission(_) => "no permission",
            ContainerError::ImageMissing { .. } => "no image",
            ContainerError::Start { .. } => "start",
            _ => "other",
        };
        for (said, expected) in [
            (
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                "not running",
            ),
            (
                "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
                "no permission",
            ),
            ("permission denied while trying to connect to the docker API at unix:///x", "no permission"),
            ("Error response from daemon: No such image: i:latest", "no image"),
            ("[]\nError: No such image: i", "no image"),
            ("docker: Error response from daemon: failed to create task\n\nRun 'docker run --help'", "start"),
        ] {
            assert_eq!(kind(&docker, said), expected, "{said}");
        }
        let podman = client(Engine::Podman);
        assert_eq!(kind(&podman, "Error: inspecting object: i: image not known"), "no image");
        assert_eq!(kind(&podman, "Error: cannot re-exec process"), "start");
        assert_eq!(kind(&podman, "Error: crun: open /x: Permission denied"), "start");
    }

    #[test]
    fn the_line_with_the_reason_is_found() {
        for (said, expected) in [
            (
                "STEP 1\nError: building at STEP \"RUN x\": exit status 3\n",
                "building at STEP \"RUN x\": exit status 3",
            ),
            (
                "docker: Error response from daemon: no\nSee 'docker run --help'.\n",
                "docker: Error response from daemon: no",
            ),
            ("something\n", "something"),
            ("\n", "it gave no reason"),
            ("Error: a\u{1b}[31mb", "a[31mb"),
        ] {
            assert_eq!(last_line(said), expected);
        }
    }
}
