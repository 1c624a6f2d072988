//! Reads where this machine's package managers download from.
//!
//! They run outside the sandbox, while commands run inside: nothing that commands can write may decide what is run, so
//! programs, settings and folders of `PATH` in such places do not count.

mod trusted;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use pollux_config::env::Env;
use pollux_config::open_places::OpenPlaces;
use pollux_config::search_path::SearchPath;
use pollux_domain::sync::Locked as _;
use pollux_egress::preset::{self, DownloadHost, Machine};
use pollux_sandbox::new_session::lead_new_session;
use rustix::process::{Pid, Signal, kill_process_group};

/// A tool that takes longer is not asked.
const LIMIT: Duration = Duration::from_secs(15);
/// Time limit for all package managers together, because connections wait for them. On a busy machine they take
/// seconds.
pub(crate) const PACKAGES_LIMIT: Duration = Duration::from_secs(5);
const MAX_TEXT: u64 = 1 << 20;

/// This machine, without the places that commands can write.
pub(crate) struct OwnMachine {
    pub(crate) env: Env,
    pub(crate) home: PathBuf,
    /// Places that commands of this session could write at some time, or of earlier ones.
    open: Mutex<Vec<PathBuf>>,
}

impl OwnMachine {
    pub(crate) fn new(env: Env, home: PathBuf, open: Vec<PathBuf>) -> Self {
        Self { env, home, open: Mutex::new(open) }
    }

    /// Adds places that commands can write from now on. They stay open when the right ends: what was written stays.
    pub(crate) fn open_to_commands(&self, places: Vec<PathBuf>) {
        let mut open = self.open.locked();
        for place in places {
            if !open.contains(&place) {
                open.push(place);
            }
        }
    }

    /// The hosts of package downloads.
    pub(crate) fn package_downloads(&self) -> PackageDownloads {
        self.package_downloads_within(PACKAGES_LIMIT)
    }

    fn package_downloads_within(&self, limit: Duration) -> PackageDownloads {
        let asked =
            MachineWithDeadline { machine: self, deadline: Instant::now() + limit, silent: Mutex::default() };
        let hosts = preset::package_downloads(&self.env, &self.home, &asked);
        let mut silent = asked.silent.into_inner().unwrap_or_else(PoisonError::into_inner);
        silent.sort();
        PackageDownloads { hosts, silent }
    }

    /// What a program answers in a folder; `None` if it fails or takes too long.
    pub(crate) fn ask_in(&self, folder: &Path, program: &str, arguments: &[&str]) -> Option<String> {
        self.ask_until(Instant::now() + LIMIT, folder, program, arguments).ok().flatten()
    }

    /// The same up to a deadline; `Ok(None)` if the program is missing or fails, or if commands can change it.
    fn ask_until(
        &self,
        deadline: Instant,
        folder: &Path,
        program: &str,
        arguments: &[&str],
    ) -> Result<Option<String>, TimedOut> {
        let open = self.open.locked().clone();
        let search = SearchPath::new(self.env.get("PATH").map(OsStr::new), &open);
        let open = OpenPlaces::new(&open);
        let helpers = search.for_helpers();
        let found = search.find_safe(program).filter(|program| self.is_intact(program, &open, &helpers));
        let Some(program) = found else { return Ok(None) };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        command.env_clear().envs(trusted::variables(&self.env, folder, &open));
        command.env("PATH", helpers);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // The session may end before the answer.
        lead_new_session(&mut command);
        let started = loop {
            match command.spawn() {
                // It is being updated.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                started => break started,
            }
        };
        let Ok(mut child) = started else { return Ok(None) };
        let (sender, answer) = mpsc::channel();
        let stdout = child.stdout.take();
        // Read while it runs: it waits if the pipe is full.
        let read = move || {
            let mut text = String::new();
            let whole = stdout.is_some_and(|stdout| stdout.take(MAX_TEXT).read_to_string(&mut text).is_ok());
            let _ = sender.send(whole.then_some(text));
        };
        let reader = std::thread::Builder::new().spawn(read);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if reader.is_ok() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2))
                }
                Ok(None) | Err(_) => {
                    // A launcher waits for the program that hangs.
                    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                    let _ = child.wait();
                    return if Instant::now() < deadline { Ok(None) } else { Err(TimedOut) };
                }
            }
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let text = answer.recv_timeout(left).map_err(|_| TimedOut)?;
        Ok(text.filter(|_| status.success()))
    }

    /// Whether commands can write code in the home that interpreters and shims load, wherever they are installed.
    fn has_open_code(&self) -> bool {
        let open = OpenPlaces::new(&self.open.locked());
        trusted::LOADED_FROM_HOME.iter().map(|name| self.home.join(name)).any(|path| {
            let is_around = open.below(&path).next().is_some();
            is_around || open.touch(&path)
        })
    }

    /// Whether commands can change neither a program nor its interpreter nor what is installed with them.
    fn is_intact(&self, program: &Path, open: &OpenPlaces, helpers: &OsStr) -> bool {
        let Ok(real) = fs::canonicalize(program) else { return false };
        let interpreter = trusted::interpreter(&real, helpers);
        let real_interpreter = interpreter.as_ref().and_then(|file| fs::canonicalize(file).ok());
        let started: Vec<PathBuf> = [Some(program.to_owned()), Some(real), interpreter, real_interpreter]
            .into_iter()
            .flatten()
            .collect();
        let is_changeable = |prefix: &Path| {
            !self.home.starts_with(prefix) && open.below(prefix).any(trusted::is_part_of_installation)
        };
        let is_open = |file: &Path| open.touch(file) || trusted::has_other_names(file, &self.home);
        let is_link = |file: &Path| file.symlink_metadata().is_ok_and(|facts| facts.is_symlink());
        let own = self.home.join(".local");
        let prefixes: BTreeSet<&Path> =
            started.iter().filter_map(|file| file.parent()?.parent()).chain([own.as_path()]).collect();
        // A module that is no link is in an open place only if its whole folder is.
        let is_open_module = |file: PathBuf| match is_link(&file) {
            true => is_open(&file),
            false => trusted::has_other_names(&file, &self.home),
        };
        !started.iter().any(|file| is_open(file))
            && !prefixes.iter().any(|prefix| is_changeable(prefix))
            && !prefixes.into_iter().flat_map(trusted::python_modules).any(is_open_module)
    }
}

/// A program that did not answer in time.
struct TimedOut;

/// The hosts of package downloads, and what is not known of them.
pub(crate) struct PackageDownloads {
    pub(crate) hosts: Vec<DownloadHost>,
    /// Package managers that did not answer.
    pub(crate) silent: Vec<String>,
}

/// The machine while package managers are asked.
struct MachineWithDeadline<'a> {
    machine: &'a OwnMachine,
    deadline: Instant,
    silent: Mutex<Vec<String>>,
}

impl Machine for MachineWithDeadline<'_> {
    fn read(&self, path: &Path) -> Option<String> {
        self.machine.read(path)
    }

    fn is_open(&self, path: &Path) -> bool {
        self.machine.is_open(path)
    }

    fn list(&self, folder: &Path) -> Vec<PathBuf> {
        self.machine.list(folder)
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
        if self.machine.has_open_code() {
            return None;
        }
        let answer = self.machine.ask_until(self.deadline, &self.machine.home, program, arguments);
        answer.unwrap_or_else(|TimedOut| {
            self.silent.locked().push(program.to_owned());
            None
        })
    }
}

impl Machine for OwnMachine {
    fn read(&self, path: &Path) -> Option<String> {
        // Relative ones are seen from the folder in which programs are asked.
        let path = self.home.join(path);
        if self.is_open(&path) {
            return None;
        }
        let mut text = String::new();
        fs::File::open(path).ok()?.take(MAX_TEXT).read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn is_open(&self, path: &Path) -> bool {
        OpenPlaces::new(&self.open.locked()).touch(&self.home.join(path))
    }

    fn list(&self, folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).take(1000).collect()
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
        self.ask_in(&self.home, program, arguments)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use pollux_test_support::executable;

    use super::*;

    #[test]
    fn package_managers_that_hang_share_one_limit_and_are_named() {
        let dir = tempfile::tempdir().unwrap();
        // The programs are `sh`: `go env …` and `npm config …` run the scripts `env` and `config`, which loop forever.
        for name in ["npm", "go", "pip"] {
            symlink("/bin/sh", dir.path().join(name)).unwrap();
        }
        let path = dir.path().display().to_string();
        for script in ["config", "env"] {
            pollux_config::files::replace(&dir.path().join(script), b"while :; do :; done", PRIVATE).unwrap();
        }
        let env = Env::new([("PATH".to_owned(), path)], "/".into());
        let machine = OwnMachine::new(env, dir.path().to_owned(), Vec::new());
        let started = Instant::now();
        let found = machine.package_downloads_within(Duration::from_millis(300));
        // On a busy machine, `pip` does not end in time either.
        assert!(["go", "npm"].iter().all(|name| found.silent.iter().any(|silent| silent == name)));
        assert!(started.elapsed() < LIMIT);
        assert!(!found.hosts.iter().any(|host| matches!(host.tool, "npm" | "go")));
    }

    const PRIVATE: pollux_config::files::Mode = pollux_config::files::Mode::Private;

    /// A home next to a workspace, and a machine on which commands write the workspace.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            for folder in ["ws/bin", "safe/bin", "home"] {
                fs::create_dir_all(place.at(folder)).unwrap();
            }
            place
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        /// A script; `TOUCH` marks that it ran.
        fn program(&self, name: &str, script: &str) {
            let marked = format!(": > '{}'", self.at("ran").display());
            executable(self.at(name), &script.replace("TOUCH", &marked));
        }

        /// Asks npm with this `PATH` and these variables, in which `@/` is the place.
        fn ask(&self, path: &str, variables: &[(&str, &str)]) -> Option<String> {
            self.machine(path, variables).ask("npm", &["config", "get", "registry"])
        }

        fn machine(&self, path: &str, variables: &[(&str, &str)]) -> OwnMachine {
            let text = |value: &str| value.replace("@/", &format!("{}/", self.at("").display()));
            let home = self.at("home").display().to_string();
            let all = [("PATH", path), ("HOME", home.as_str())];
            let all = all.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), text(value)));
            OwnMachine::new(Env::new(all, self.at("ws")), self.at("home"), vec![self.at("ws")])
        }

        fn ran(&self) -> bool {
            self.at("ran").exists()
        }
    }

    #[test]
    fn a_package_manager_finds_no_interpreter_that_commands_wrote() {
        let place = Place::new();
        place.program("safe/bin/npm", "#!/usr/bin/env node\n");
        place.program("ws/bin/node", "#!/bin/sh\nTOUCH\necho https://evil.example\n");
        place.program("safe/bin/node", "#!/bin/sh\necho https://npm.example\n");
        let answer = place.ask("@/ws/bin:bin::@/safe/bin:/usr/bin:/bin", &[]);
        assert_eq!(answer.as_deref(), Some("https://npm.example\n"));
        assert!(!place.ran());
        // Named by a link in a safe folder, or by the script itself.
        fs::create_dir(place.at("links")).unwrap();
        symlink(place.at("ws/bin/node"), place.at("links/node")).unwrap();
        place.ask("@/links:@/safe/bin:/usr/bin:/bin", &[]);
        place.program("own/npm", &format!("#!{}\n", place.at("ws/bin/node").display()));
        place.ask("@/own", &[]);
        assert!(!place.ran());
    }

    #[test]
    fn a_package_manager_gets_no_variable_that_loads_code() {
        let place = Place::new();
        place.program(
            "safe/bin/npm",
            "#!/bin/bash\n/usr/bin/env | while read -r line; do echo \"$line\"; done\n",
        );
        place.program("ws/start", "TOUCH\n");
        let variables = [
            ("BASH_ENV", "@/ws/start"),
            ("ENV", "@/ws/start"),
            ("PYTHONPATH", "@/ws/pp"),
            ("PYTHONSTARTUP", "/x"),
            ("NODE_OPTIONS", "--require=/x"),
            ("LD_PRELOAD", ""),
            ("PERL5OPT", "-x"),
            ("RUBYOPT", "-x"),
            ("GIT_DIR", "/x"),
            ("GOFLAGS", "-x"),
            ("PIP_PYTHON", "/x"),
            ("XDG_CONFIG_HOME", "@/ws/config"),
            ("npm_config_userconfig", "../ws/npmrc"),
            ("LC_ALL", "C"),
            ("PIP_CONFIG_FILE", "/etc/pip.conf"),
        ];
        let answer = place.ask("@/safe/bin", &variables).unwrap();
        assert!(!place.ran());
        let of = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        for (name, _) in &variables[..13] {
            assert_eq!(of(name), None, "{name}: {answer}");
        }
        assert_eq!(of("LC_ALL"), Some("C"));
        assert_eq!(of("PIP_CONFIG_FILE"), Some("/etc/pip.conf"));
        // They would run code of caches and temporary folders.
        assert_eq!(of("GOTOOLCHAIN"), Some("local"));
        assert_eq!(of("NODE_DISABLE_COMPILE_CACHE"), Some("1"));
    }

    #[test]
    fn programs_that_share_their_files_with_a_cache_are_not_asked() {
        let place = Place::new();
        let npm = ("home/env/bin/npm", "#!/usr/bin/env node\n");
        let node = ("home/node/bin/node", "#!/bin/sh\nTOUCH\n");
        let path = "@/home/env/bin:@/home/node/bin";
        for (name, text) in [
            npm,
            node,
            ("home/env/lib/python3.13/site-packages/pip/__init__.py", ""),
            ("home/env/lib/python3.13/site-packages/distutils-precedence.pth", ""),
            ("home/env/lib/python3.13/sitecustomize.py", ""),
            ("home/.local/lib/python3.13/site-packages/usercustomize.py", ""),
            ("home/node/versions/3.13/lib/python3.13/site-packages/a.pth", ""),
        ] {
            for is_linked in [false, true] {
                for (name, text) in [npm, node, (name, text)] {
                    place.program(name, text);
                }
                match is_linked {
                    false => fs::hard_link(place.at(name), place.at("home/cached")).unwrap(),
                    true => {
                        fs::rename(place.at(name), place.at("ws/cached")).unwrap();
                        symlink(place.at("ws/cached"), place.at(name)).unwrap();
                    }
                }
                assert_eq!(place.ask(path, &[]), None, "{name}");
                assert!(!place.ran(), "{name}");
                fs::remove_file(place.at(name)).unwrap();
                fs::remove_file(place.at("home/cached")).unwrap_or_default();
            }
        }
        for (name, text) in [npm, node] {
            place.program(name, text);
        }
        place.ask(path, &[]);
        assert!(place.ran());
    }

    #[test]
    fn python_loads_nothing_of_the_workspace() {
        let place = Place::new();
        place.program("safe/bin/npm", "#!/usr/bin/env python3\nprint('https://npm.example')\n");
        place.program("ws/pp/sitecustomize.py", &format!("open({:?}, 'w')\n", place.at("ran")));
        place.ask("@/safe/bin:/usr/local/bin:/usr/bin:/bin", &[("PYTHONPATH", "@/ws/pp")]);
        assert!(!place.ran());
    }

    #[test]
    fn programs_and_settings_in_places_that_commands_may_write_are_not_used() {
        let place = Place::new();
        place.program("tools/bin/npm", "#!/bin/sh\nTOUCH\n");
        place.program("home/.npmrc", "registry=https://evil.example\n");
        let machine = place.machine("@/tools/bin", &[]);
        machine.open_to_commands(vec![place.at("tools"), place.at("home/.npmrc")]);
        assert_eq!(machine.ask("npm", &[]), None);
        assert_eq!(machine.read(&place.at("home/.npmrc")), None);
        // Through a link that commands can change.
        symlink("/etc/hostname", place.at("ws/link")).unwrap();
        symlink(place.at("ws/link"), place.at("home/conf")).unwrap();
        assert_eq!(machine.read(&place.at("home/conf")), None);
        assert_eq!(
            machine.package_downloads().hosts,
            preset::package_downloads(&machine.env, &machine.home, &Nothing)
        );
        assert!(!place.ran());
        // The program of a user, linked into the workspace.
        place.program("ws/bin/npm", "#!/bin/sh\nTOUCH\n");
        symlink(place.at("ws/bin/npm"), place.at("safe/bin/npm")).unwrap();
        assert_eq!(place.ask("@/safe/bin", &[]), None);
        assert!(!place.ran());
    }

    #[test]
    fn a_program_whose_libraries_commands_may_write_is_not_run() {
        let place = Place::new();
        place.program("venv/bin/npm", "#!/bin/sh\nTOUCH\n");
        let machine = place.machine("@/venv/bin", &[]);
        machine.open_to_commands(vec![place.at("venv/lib/python3/site-packages")]);
        assert_eq!(machine.ask("npm", &[]), None);
        assert!(!place.ran());
        let other = place.machine("@/venv/bin", &[]);
        other.open_to_commands(vec![place.at("venv/src")]);
        other.ask("npm", &[]);
        assert!(place.ran());
        // Every Python and Node.js loads code from there.
        for open in
            [".local/lib/python3/site-packages", ".local", ".node_modules", ".config/mise/config.toml"]
        {
            fs::remove_file(place.at("ran")).unwrap_or_default();
            let machine = place.machine("@/venv/bin", &[]);
            machine.package_downloads();
            assert!(place.ran(), "{open}");
            fs::remove_file(place.at("ran")).unwrap();
            machine.open_to_commands(vec![place.at("home").join(open)]);
            machine.package_downloads();
            assert!(!place.ran(), "{open}");
        }
    }

    /// What the system's own files say, without tools.
    struct Nothing;

    impl Machine for Nothing {
        fn read(&self, path: &Path) -> Option<String> {
            fs::read_to_string(path).ok().filter(|_| path.starts_with("/etc"))
        }

        fn is_open(&self, _: &Path) -> bool {
            false
        }

        fn list(&self, folder: &Path) -> Vec<PathBuf> {
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        }

        fn ask(&self, _: &str, _: &[&str]) -> Option<String> {
            None
        }
    }
}
