//! A home with secrets, a workspace with a repository, and targets outside.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use pollux_sandbox::holder::{Held, Start};
use pollux_sandbox::{Armed, Level, Sandbox, SandboxRequest};
use tempfile::TempDir;

use crate::escapes_files::HIDDEN;

pub(crate) const LEVELS: [Level; 3] = [Level::Namespaces, Level::Bubblewrap, Level::Landlock];

/// Where test folders are made, if not in cargo's folder: another user cannot write there.
pub(crate) const SCRATCH: &str = "POLLUX_TEST_SCRATCH";

pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) sandbox: Sandbox,
    pub(crate) outside: Outside,
    /// In a hidden place, and in the workspace.
    pub(crate) _sockets: Vec<UnixListener>,
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
    /// Whether the process outside ended; a signal takes a moment.
    pub(crate) fn has_ended(&mut self) -> bool {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while std::time::Instant::now() < end {
            if self.process.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        false
    }

    pub(crate) fn new() -> Self {
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
        grants: pollux_sandbox::Grants::default(),
        container: None,
    }
}

impl Scene {
    pub(crate) fn new(level: Level, network: bool) -> Option<Self> {
        let folder = scratch()?;
        let base = folder.path();
        for path in [
            "home/.cache/other",
            "home/.cache/pip",
            "home/.gemini/extensions/e",
            "home/.gemini/tmp/other/chats",
            "home/.gnupg",
            "home/notes",
            "other",
            "w/.gemini",
            "w/.git/hooks",
            "w/.git/modules/lib/hooks",
            "w/.git/worktrees/tree",
            "w/src",
        ] {
            fs::create_dir_all(base.join(path)).unwrap();
        }
        for name in HIDDEN {
            let path = base.join("home").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "SECRET").unwrap();
        }
        for (path, text) in [
            ("home/.bashrc", "# mine\n"),
            ("home/notes/plain", "readable"),
            ("home/.gemini/extensions/e/.env", "SECRET"),
            ("home/.gemini/oauth_creds.json", "SECRET"),
            ("home/.gemini/tmp/other/chats/session.json", "SECRET"),
            ("w/.git/HEAD", "ref: refs/heads/main\n"),
            ("w/.git/config", "[core]\n"),
            ("home/.gemini/trustedFolders.json", "{}"),
            ("other/linked", "mine"),
            ("w/.env", "SECRET"),
            ("w/.gemini/settings.json", "{}"),
            ("w/.git/hooks/pre-push", "mine"),
            ("w/.git/modules/lib/HEAD", "ref: refs/heads/main\n"),
            ("w/.git/modules/lib/config", "[core]\n"),
            ("w/.git/worktrees/tree/HEAD", "ref: refs/heads/tree\n"),
            ("w/.git/worktrees/tree/commondir", "../..\n"),
            ("w/.git/worktrees/tree/gitdir", "/nowhere/.git\n"),
            ("w/own", "mine"),
        ] {
            fs::write(base.join(path), text).unwrap();
        }
        fs::hard_link(base.join("other/linked"), base.join("w/linked")).unwrap();
        let program = std::env::current_exe().unwrap();
        fs::hard_link(&program, base.join("w/attack"))
            .or_else(|_| fs::copy(&program, base.join("w/attack")).map(drop))
            .unwrap();
        let listen = |path: &str| UnixListener::bind(base.join(path)).ok();
        // A path can be too long for a socket.
        let sockets =
            ["home/.gnupg/S.gpg-agent", "w/socket", "home/notes/daemon.sock", "home/notes/first.sock"];
        let sockets = sockets.into_iter().filter_map(listen).collect();
        // As ssh does; the kernel still lists the first name.
        let _ = fs::rename(base.join("home/notes/first.sock"), base.join("home/notes/renamed.sock"));
        match Sandbox::open(&SandboxRequest { network, ..request(base, level) }) {
            Ok(sandbox) => Some(Self { sandbox, outside: Outside::new(), folder, _sockets: sockets }),
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
        self.try_start(program, arguments).unwrap()
    }

    fn try_start(&self, program: &OsStr, arguments: &[&str]) -> io::Result<(Held, Armed, File)> {
        let output = tempfile::tempfile().unwrap();
        let null = File::open("/dev/null").unwrap();
        let variables = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("LD_PRELOAD", ""),
            ("SSH_AUTH_SOCK", "/x"),
            ("BASH_ENV", "/x"),
            ("NVIM", "/x"),
        ];
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
        let (held, armed) = self.sandbox.start(&start)?;
        Ok((held, armed, output))
    }

    pub(crate) fn run(&self, program: &OsStr, arguments: &[&str]) -> (ExitStatus, String) {
        self.try_run(program, arguments).unwrap()
    }

    /// Fails if the program ends its own sandbox at once.
    pub(crate) fn try_run(&self, program: &OsStr, arguments: &[&str]) -> io::Result<(ExitStatus, String)> {
        let (mut held, _armed, mut output) = self.try_start(program, arguments)?;
        let status = held.wait().unwrap();
        let mut said = String::new();
        output.rewind().unwrap();
        output.read_to_string(&mut said).unwrap();
        Ok((status, said))
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
            // Caches can be written.
            for path in entries.into_iter().filter(|path| !path.ends_with(".cache")) {
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

    /// Everything in the workspace that another program would act on. What is undone meanwhile is left out.
    pub(crate) fn active(&self) -> String {
        let mut all = Vec::new();
        let mut folders = vec![self.path("w")];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                let Ok(meta) = path.symlink_metadata() else { continue };
                let number = name.rsplit_once(".sandbox-blocked-").map(|(_, number)| number.parse::<u64>());
                if number.is_some_and(|number| number.is_ok()) {
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap_or_default();
                let parts = || path.strip_prefix(self.path("w")).unwrap().components();
                let is_hook = folder.ends_with("hooks") && !name.ends_with(".sample");
                let is_first = |names: &[&str]| {
                    parts().next().is_some_and(|first| names.iter().any(|name| *name == first.as_os_str()))
                };
                let is_active = is_hook
                    || ["commondir", "config.worktree", "gitdir"].contains(&name.as_str())
                    || (name == ".git" && meta.is_symlink())
                    || name.ends_with(".code-workspace")
                    || is_first(&[".envrc", ".mcp.json", ".gitmodules", ".gemini", ".vscode", ".claude"]);
                if is_active && !meta.is_dir() {
                    all.push(format!("{} {text}", path.display()));
                }
                if name == "config" {
                    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
                    let runs =
                        |line: &&str| ["fsmonitor", "hooks", "!", "x"].iter().any(|word| line.contains(word));
                    all.extend(lines.filter(runs).map(|line| format!("{} {line}", path.display())));
                }
                if meta.is_dir() {
                    folders.push(path);
                }
            }
        }
        all.sort();
        all.join("\n")
    }
}
