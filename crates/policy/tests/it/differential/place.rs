//! A workspace whose files are watched with inotify: reads of secrets, any access outside, and changes inside.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use pollux_domain::approval::ApprovalMode;
use pollux_policy::engine::{Engine, Options};
use pollux_policy::load::{Sources, load};
use pollux_policy::request::{Decision, Verdict};
use pollux_test_support::executable;
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};

use crate::everyday::{LIST, decide_in, with_rules_in, write};
use crate::reads::{Hostile, REMOTE, SECRET, hostile_in, remove_odd_names};

/// The workspaces that lines run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Secrets and links that lead outside.
    Secrets,
    /// The same, with file names that are options or fall apart.
    Names,
    /// Not trusted, with a repository that runs programs whatever git is asked.
    Untrusted,
}

/// Under which rules a line may run unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setup {
    Default,
    AutoEdit,
    /// With an allow-list of git, cargo and npm test.
    Listed,
}

/// The strictest first.
pub(super) const SETUPS: [Setup; 3] = [Setup::Default, Setup::AutoEdit, Setup::Listed];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zone {
    /// A secret of the workspace.
    Secret,
    Outside,
    /// A folder outside, some of whose files may be read.
    Around,
    /// A folder of the workspace.
    Inside,
}

/// An access to a watched file.
#[derive(Debug)]
pub(super) struct Access {
    zone: Zone,
    path: PathBuf,
    flags: ReadFlags,
}

pub(super) struct WatchedWorkspace {
    pub(super) files: Hostile,
    layout: Layout,
    /// The folder that the sandbox shows.
    stage: PathBuf,
    shipped: Engine,
    listed: Engine,
    watch: rustix::fd::OwnedFd,
    watched: HashMap<i32, (Zone, PathBuf)>,
}

fn new_watch() -> rustix::fd::OwnedFd {
    inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).unwrap()
}

impl WatchedWorkspace {
    pub(super) fn new(stage: &Path, layout: Layout) -> Self {
        let files = files(stage, layout);
        let options = || Options { trusted: layout != Layout::Untrusted, ..files.options() };
        let shipped = load(&Sources::default(), options());
        let listed = with_rules_in(LIST, options());
        let (watch, stage) = (new_watch(), stage.to_owned());
        let mut place = Self { files, layout, stage, shipped, listed, watch, watched: HashMap::new() };
        place.watch_all();
        place
    }

    /// Makes all files again, at the same paths.
    pub(super) fn restore(&mut self) {
        self.watch = new_watch();
        self.watched.clear();
        fs::remove_dir_all(self.files.project.parent().unwrap()).unwrap();
        self.files = files(&self.stage, self.layout);
        self.watch_all();
    }

    fn watch_all(&mut self) {
        let stage = self.stage.clone();
        let reads =
            WatchFlags::OPEN | WatchFlags::ACCESS | WatchFlags::CLOSE_WRITE | WatchFlags::CLOSE_NOWRITE;
        let changes = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO;
        let project = self.files.project.clone();
        let (secrets, outside): (Vec<_>, Vec<_>) =
            self.files.secrets.clone().into_iter().partition(|path| path.starts_with(&project));
        for secret in secrets {
            self.add(Zone::Secret, &secret, reads);
        }
        for file in outside.into_iter().chain([stage.join("etc/shadow"), stage.join("srv/secret.txt")]) {
            self.add(Zone::Outside, &file, reads | changes);
        }
        let top = project.parent().unwrap().to_owned();
        for folder in [top.join("outside"), self.files.home.clone(), stage.join("srv")] {
            each_folder(&folder, &mut |folder| self.add(Zone::Outside, folder, reads | changes));
        }
        for folder in [top, stage.join("tmp")] {
            self.add(Zone::Around, &folder, WatchFlags::OPEN | WatchFlags::ACCESS | changes);
        }
        // Programs look at files of the system; they change none.
        self.add(Zone::Around, &stage.join("etc"), changes);
        each_folder(&project, &mut |folder| self.add(Zone::Inside, folder, changes));
    }

    fn add(&mut self, zone: Zone, path: &Path, flags: WatchFlags) {
        let number = inotify::add_watch(&self.watch, path, flags).unwrap();
        self.watched.insert(number, (zone, path.to_owned()));
    }

    pub(super) fn decide(&self, setup: Setup, line: &str) -> Verdict {
        let (engine, mode) = match setup {
            Setup::Default => (&self.shipped, ApprovalMode::Default),
            Setup::AutoEdit => (&self.shipped, ApprovalMode::AutoEdit),
            Setup::Listed => (&self.listed, ApprovalMode::Default),
        };
        decide_in(engine, &self.files.project, line, mode, true)
    }

    /// The strictest setup in which a line may run unasked.
    pub(super) fn allowed(&self, line: &str) -> Option<(Setup, Verdict)> {
        let matters = |setup: &Setup| match setup {
            Setup::Default => true,
            Setup::AutoEdit => line.contains(['<', '>']),
            Setup::Listed => ["git", "cargo", "npm"].iter().any(|program| line.contains(program)),
        };
        SETUPS.into_iter().filter(matters).find_map(|setup| {
            let verdict = self.decide(setup, line);
            (verdict.decision == Decision::Allow).then_some((setup, verdict))
        })
    }

    /// The accesses since the last question.
    pub(super) fn accesses(&self) -> Vec<Access> {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(&self.watch, &mut buffer);
        let mut all: Vec<Access> = Vec::new();
        while let Ok(event) = reader.next() {
            assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW), "too many accesses to judge");
            let Some((zone, path)) = self.watched.get(&event.wd()) else { continue };
            let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
            let reads = ReadFlags::OPEN | ReadFlags::ACCESS;
            if *zone == Zone::Around && name.is_some() && event.events().intersects(reads) {
                continue;
            }
            let path = name.map_or_else(|| path.clone(), |name| path.join(name));
            match all.iter_mut().find(|access| access.path == path && access.zone == *zone) {
                Some(access) => access.flags |= event.events(),
                None => all.push(Access { zone: *zone, path, flags: event.events() }),
            }
        }
        all
    }

    /// Whether a line changed files, so that the next one needs other ones.
    pub(super) fn is_changed(accesses: &[Access]) -> bool {
        let changes = ReadFlags::CREATE
            | ReadFlags::DELETE
            | ReadFlags::MODIFY
            | ReadFlags::ATTRIB
            | ReadFlags::MOVED_FROM
            | ReadFlags::MOVED_TO;
        // Git keeps its index current whatever it is asked.
        let is_index = |path: &Path| path.ends_with(".git/index") || path.ends_with(".git/index.lock");
        accesses.iter().any(|access| access.flags.intersects(changes) && !is_index(&access.path))
    }

    /// The accesses that a line must not make that runs unasked.
    pub(super) fn forbidden(&self, setup: Setup, line: &str, accesses: &[Access]) -> Vec<String> {
        let is_git = runs_git(line);
        let may_change = setup == Setup::AutoEdit || setup == Setup::Listed && is_git;
        let git = self.files.project.join(".git");
        let reads = ReadFlags::OPEN | ReadFlags::CLOSE_NOWRITE | ReadFlags::ISDIR;
        let bad = accesses.iter().filter(|access| match access.zone {
            // A folder that was opened as a file tells nothing.
            _ if access.flags.contains(ReadFlags::ISDIR) && reads.contains(access.flags) => false,
            // The transports of git know the user's logins.
            Zone::Outside if setup == Setup::Listed && is_git && access.path.ends_with(".netrc") => false,
            // Text that bash passes on, and what `sort` and `tac` cannot hold.
            Zone::Outside | Zone::Around => !["sh-thd.", "sort", "tac"].iter().any(|start| {
                access.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
            }),
            // Git keeps its index current, and a rule on git is about all files of the workspace and new repositories.
            Zone::Inside
                if access.path.starts_with(&git) || setup == Setup::Listed && is_in_git(&access.path) =>
            {
                let is_sample = access.path.extension().is_some_and(|end| end == "sample");
                !is_git || access.path.components().any(|part| part.as_os_str() == "hooks") && !is_sample
            }
            Zone::Inside => !may_change || is_protected(&access.path),
            Zone::Secret if is_git && (setup == Setup::Listed || access.path.starts_with(&git)) => false,
            // Writing does not tell what was there.
            Zone::Secret => {
                access.flags.intersects(ReadFlags::ACCESS | ReadFlags::CLOSE_NOWRITE)
                    || !access.flags.contains(ReadFlags::CLOSE_WRITE)
            }
        });
        bad.map(|access| format!("{:?} {} {:?}", access.zone, access.path.display(), access.flags)).collect()
    }
}

fn is_in_git(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".git")
}

/// The files of a workspace and around it.
fn files(stage: &Path, layout: Layout) -> Hostile {
    let repository = stage.join("repository");
    let top = stage.join(format!("{layout:?}"));
    fs::create_dir_all(&top).unwrap();
    let mut files = hostile_in(&top);
    let project = &files.project;
    if layout != Layout::Names {
        remove_odd_names(project);
    }
    for (name, text) in [
        ("Makefile", "all:\n\tt1\n"),
        ("package.json", "{\"scripts\": {\"test\": \"t1\"}}\n"),
        (".cargo/config.toml", "[alias]\nx = \"run\"\n"),
        ("conftest.py", "import t1\n"),
        ("x.sh", "t1\n"),
        ("a.json", "{\"a\": 1}\n"),
        ("docs/a.md", "text\n"),
        (".gemini/settings.json", "{}\n"),
    ] {
        write(&project.join(name), text);
    }
    for script in ["x.sh", "t1", "ls", "sub/cat"] {
        executable(project.join(script), "#!/bin/bash\nt1\n");
    }
    copy(&repository.join(".git"), &project.join(".git"));
    let own = fs::read_to_string(project.join(".git/config")).unwrap();
    write(&project.join(".git/config"), &format!("{own}{REMOTE}"));
    if layout == Layout::Untrusted {
        write(&project.join(".git/config"), &format!("{own}{REMOTE}{RUNS_PROGRAMS}"));
        write(&project.join(".gitattributes"), "* diff=x filter=x\n");
    }
    // A repository made of ordinary files, as a clone may bring it.
    copy(&repository.join(".git"), &project.join("vendor/bare"));
    write(
        &project.join("vendor/bare/config"),
        &format!("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n{RUNS_PROGRAMS}"),
    );
    // For programs, `..` leads from here into that repository.
    symlink("vendor/bare/refs", project.join("refs")).unwrap();
    symlink("../vendor/bare/refs", project.join("src/refs")).unwrap();
    write(&project.join("vendor/a"), "changed\n");
    write(&project.join("vendor/.gitattributes"), "* diff=x filter=x\n");
    for name in [".ssh/config", ".gemini/oauth_creds.json", ".netrc", "notes.txt"] {
        write(&files.home.join(name), SECRET);
        files.secrets.push(files.home.join(name));
    }
    symlink(files.home.join(".gemini"), files.project.join("linked-home")).unwrap();
    symlink("/etc/shadow", files.project.join("shadow.txt")).unwrap();
    // Names that look like assignments.
    for (target, name) in [("../outside/passwd", "x=a"), ("../outside/o", "x=o"), ("/", "x=")] {
        symlink(target, files.project.join(name)).unwrap();
    }
    write(&stage.join("srv/secret.txt"), SECRET);
    write(&stage.join("etc/shadow"), SECRET);
    add_folders(&repository, &files.project);
    files
}

/// Folders that lines reach by changing the folder more than once, or by writing files first.
fn add_folders(repository: &Path, project: &Path) {
    copy(&project.join("vendor/bare"), &project.join("v/v"));
    symlink("../../../outside/passwd", project.join("v/v/l")).unwrap();
    copy(&repository.join(".git"), &project.join("half"));
    fs::remove_file(project.join("half/HEAD")).unwrap();
    symlink("../outside/deep", project.join("...")).unwrap();
    symlink("../../outside/passwd", project.join("vendor/nohup.out")).unwrap();
}

/// Settings with which git runs a program for most commands.
const RUNS_PROGRAMS: &str = "[core]\n\tfsmonitor = t1\n\tpager = t1\n\tsshCommand = t1\n\thooksPath = hooks\n\
    [diff]\n\texternal = t1\n[diff \"x\"]\n\ttextconv = t1\n[filter \"x\"]\n\tclean = t1\n\tsmudge = t1\n\
    [alias]\n\tst = !t1\n\tlog = !t1\n[log]\n\tshowSignature = true\n[gpg]\n\tprogram = t1\n";

/// Files that are asked for even where edits are free.
fn is_protected(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folders = [".git", ".gemini", ".cargo"];
    matches!(&*name, "Makefile" | "package.json" | "Cargo.toml" | ".bashrc" | ".gitattributes")
        || path.components().any(|part| folders.iter().any(|folder| part.as_os_str() == *folder))
}

/// Whether git may be among the programs of a line.
pub(super) fn runs_git(line: &str) -> bool {
    let line = line.replace(['"', '\'', '\\', '$'], "");
    let is_part = |c: char| c.is_alphanumeric() || "._/-".contains(c);
    line.split(|c| !is_part(c)).any(|word| word == "git" || word.ends_with("/bin/git"))
}

fn each_folder(folder: &Path, visit: &mut dyn FnMut(&Path)) {
    visit(folder);
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() && entry.file_name() != "objects" {
            each_folder(&entry.path(), visit);
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A repository with two commits and a branch.
pub(super) fn repository(folder: &Path) {
    write(&folder.join("a"), "text a\nb\n");
    write(&folder.join("src/lib.rs"), "fn first() {}\n");
    git(folder, &["init", "-q", "-b", "main"]);
    git(folder, &["add", "."]);
    git(folder, &["commit", "-qm", "first"]);
    write(&folder.join("a"), "changed\n");
    git(folder, &["commit", "-qam", "second"]);
    git(folder, &["branch", "other", "HEAD~1"]);
    let _ = fs::remove_dir_all(folder.join(".git/hooks"));
    write(&folder.join(".git/hooks/none"), "");
}

fn git(folder: &Path, arguments: &[&str]) {
    let done = pollux_test_support::git(folder).args(arguments).stdout(Stdio::null()).status().unwrap();
    assert!(done.success(), "git {arguments:?}");
}
