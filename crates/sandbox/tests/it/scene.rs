//! A home with secrets, a workspace with a repository, and targets outside.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use pollux_sandbox::holder::{Held, Start};
use pollux_sandbox::{Armed, Level, Sandbox, SandboxRequest};
use tempfile::TempDir;

pub(crate) const LEVELS: [Level; 3] = [Level::Namespaces, Level::Bubblewrap, Level::Landlock];

/// Where test folders are made, if not in cargo's folder: another user cannot write there.
pub(crate) const SCRATCH: &str = "POLLUX_TEST_SCRATCH";

pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) sandbox: Sandbox,
    pub(crate) outside: Outside,
}

/// The targets that must stay out of reach.
pub(crate) struct Outside {
    pub(crate) process: Child,
    pub(crate) tcp: std::net::TcpListener,
    pub(crate) abstract_name: String,
    _abstract: UnixListener,
    pub(crate) socket: PathBuf,
    _socket: UnixListener,
    _temp: TempDir,
}

impl Outside {
    fn new() -> Self {
        let temp = TempDir::new().unwrap();
        let socket = temp.path().join("daemon.sock");
        let abstract_name = format!("pollux-test-{}-{}", std::process::id(), temp.path().display());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        Self {
            process: Command::new("sleep").arg("600").env("CANARY", "SECRET").spawn().unwrap(),
            tcp: std::net::TcpListener::bind("127.0.0.1:0").unwrap(),
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            _socket: UnixListener::bind(&socket).unwrap(),
            socket,
            _temp: temp,
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder outside the temporary ones, which have their own rules.
pub(crate) fn scratch() -> Option<TempDir> {
    let target = std::env::var_os(SCRATCH).unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let target = fs::canonicalize(target).unwrap();
    if target.starts_with("/tmp") || target.starts_with("/var/tmp") {
        tell(&format!("not tested: cargo's target directory is below {}", target.display()));
        return None;
    }
    Some(TempDir::new_in(target).unwrap())
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests should know")]
pub(crate) fn tell(what: &str) {
    eprintln!("{what}");
}

pub(crate) fn request(base: &Path, level: Level) -> SandboxRequest {
    SandboxRequest {
        roots: vec![base.join("w")],
        allowed: Vec::new(),
        homes: vec![base.join("home")],
        gemini_dir: base.join("home/.gemini"),
        temp: "/tmp".into(),
        search_path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
        network: true,
        level: Some(level),
    }
}

impl Scene {
    pub(crate) fn new(level: Level, network: bool) -> Option<Self> {
        let folder = scratch()?;
        let base = folder.path();
        for path in ["home/.ssh", "home/.gemini", "home/notes", "w/.git/hooks", "w/.gemini", "w/src"] {
            fs::create_dir_all(base.join(path)).unwrap();
        }
        for (path, text) in [
            ("home/.ssh/id", "SECRET"),
            ("home/.bashrc", "# mine\n"),
            ("home/notes/plain", "readable"),
            ("home/.gemini/oauth_creds.json", "SECRET"),
            ("w/.git/HEAD", "ref: refs/heads/main\n"),
            ("w/.git/config", "[core]\n"),
            ("w/.gemini/settings.json", "{}"),
            ("w/own", "mine"),
        ] {
            fs::write(base.join(path), text).unwrap();
        }
        let program = std::env::current_exe().unwrap();
        fs::hard_link(&program, base.join("w/attack"))
            .or_else(|_| fs::copy(&program, base.join("w/attack")).map(drop))
            .unwrap();
        match Sandbox::open(&SandboxRequest { network, ..request(base, level) }) {
            Ok(sandbox) => Some(Self { sandbox, outside: Outside::new(), folder }),
            Err(why) => {
                tell(&format!("not tested: {why}"));
                None
            }
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Starts a program inside, with its output in a file.
    pub(crate) fn start(&self, program: &OsStr, arguments: &[&str]) -> (Held, Armed, File) {
        let output = tempfile::tempfile().unwrap();
        let null = File::open("/dev/null").unwrap();
        let variables =
            [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LD_PRELOAD", ""), ("SSH_AUTH_SOCK", "/x")];
        let mut environment: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        environment.push(("HOME".to_owned(), self.path("home").display().to_string()));
        let directory = self.path("w");
        let start = Start {
            program,
            arguments: arguments.iter().map(OsStr::new).collect(),
            directory: &directory,
            environment: &environment,
            streams: [null.as_fd(), output.as_fd(), output.as_fd()],
        };
        let (held, armed) = self.sandbox.start(&start).unwrap();
        (held, armed, output)
    }

    pub(crate) fn run(&self, program: &OsStr, arguments: &[&str]) -> (ExitStatus, String) {
        let (mut held, _armed, mut output) = self.start(program, arguments);
        let status = held.wait().unwrap();
        let mut said = String::new();
        output.rewind().unwrap();
        output.read_to_string(&mut said).unwrap();
        (status, said)
    }

    pub(crate) fn shell(&self, script: &str) -> (ExitStatus, String) {
        self.run(OsStr::new("/bin/sh"), &["-c", script])
    }

    /// Everything outside that an attack may have changed, except its own traces in the workspace.
    pub(crate) fn canary(&self) -> String {
        let mut all = String::new();
        let mut folders = vec![self.path("home")];
        while let Some(folder) = folders.pop() {
            let mut entries: Vec<PathBuf> =
                fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            entries.sort();
            for path in entries {
                let meta = path.symlink_metadata().unwrap();
                let text = fs::read(&path).unwrap_or_default();
                all += &format!("{} {:o} {} {text:?}\n", path.display(), meta.mode(), meta.uid());
                if meta.is_dir() {
                    folders.push(path);
                }
            }
        }
        all
    }
}
