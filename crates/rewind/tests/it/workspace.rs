//! A workspace to destroy, and a picture of it that is independent of the code under test.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use pollux_domain::id::SessionId;
use pollux_rewind::{Journal, JournalSetup, Limits, Point, default_skips};
use tempfile::TempDir;

/// A workspace, a folder next to it that must stay unchanged, and a store.
pub(crate) struct Workspace {
    pub(crate) folder: TempDir,
}

impl Workspace {
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("ws")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        Self { folder }
    }

    /// A copy of the workspace that `fixture.sh` builds.
    pub(crate) fn full() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let template = template();
        let status = Command::new("cp").arg("-a").arg(template.join(".")).arg(folder.path()).status();
        assert!(status.unwrap().success());
        Self { folder }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn setup(&self) -> JournalSetup {
        JournalSetup {
            root: self.root(),
            store: self.store(),
            session: SessionId::parse("session-1").unwrap(),
            limits: Limits::default(),
            skip: default_skips(),
            never: Vec::new(),
        }
    }

    pub(crate) fn journal(&self) -> Journal {
        Journal::open(self.setup()).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root().join(path)).ok()
    }

    /// Runs a script in the workspace.
    pub(crate) fn run(&self, script: &str) {
        let _ = command("bash", &self.root()).arg("-c").arg(script).env("OUTSIDE", self.outside()).output();
    }

    pub(crate) fn picture(&self) -> Picture {
        picture(&self.root())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // A folder without rights cannot be emptied.
        if fs::remove_dir_all(self.folder.path()).is_err() {
            let _ = Command::new("chmod").args(["-R", "u+rwx"]).arg(self.folder.path()).output();
        }
    }
}

pub(crate) fn point(call: &str) -> Point {
    Point { call: call.to_owned(), prompt: "prompt-1".to_owned(), tool: "run_shell_command".to_owned() }
}

/// A program with an environment that is the same everywhere.
pub(crate) fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .env("HOME", folder.parent().unwrap())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
        .env("LC_ALL", "C.UTF-8");
    command
}

/// Built once for each version of its script, and shared by every run of the tests.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture.sh");
        let version = pollux_config::paths::sha256_hex(&fs::read(&script).unwrap());
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let finished = shared.join(format!("rewind-{version}"));
        if !finished.exists() {
            let folder = tempfile::tempdir_in(shared).unwrap().keep();
            let mut build = command("bash", &folder);
            build.env("HOME", &folder).arg(script).arg(folder.join("ws")).arg(folder.join("outside"));
            let output = build.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            // Another run may have been faster; then its copy is as good.
            let _ = fs::rename(folder, &finished);
        }
        finished
    })
}

/// Every path below a folder with its kind, mode and content.
pub(crate) type Picture = BTreeMap<Vec<u8>, Thing>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Thing {
    Folder(u32),
    File(u32, Vec<u8>),
    Link(PathBuf),
    Other(u32),
}

pub(crate) fn picture(root: &Path) -> Picture {
    let mut picture = Picture::new();
    add(root, root, &mut picture);
    picture
}

fn add(root: &Path, path: &Path, picture: &mut Picture) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    let mode = meta.mode() & 0o7777;
    let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
    let kind = meta.file_type();
    let thing = if kind.is_dir() {
        Thing::Folder(mode)
    } else if kind.is_symlink() {
        Thing::Link(fs::read_link(path).unwrap())
    } else if kind.is_file() {
        Thing::File(mode, fs::read(path).unwrap_or_else(|_| b"<unreadable>".to_vec()))
    } else {
        Thing::Other(mode)
    };
    picture.insert(name, thing);
    if kind.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            add(root, &entry.path(), picture);
        }
    }
}

/// The differences in a readable length.
pub(crate) fn differences(wanted: &Picture, found: &Picture) -> Vec<String> {
    let short = |thing: Option<&Thing>| match thing {
        Some(Thing::File(mode, bytes)) => {
            let start: Vec<u8> = bytes.iter().copied().take(40).collect();
            format!("file {mode:o} {} bytes {:?}", bytes.len(), String::from_utf8_lossy(&start))
        }
        other => format!("{other:?}"),
    };
    let paths: std::collections::BTreeSet<_> = wanted.keys().chain(found.keys()).collect();
    paths
        .into_iter()
        .filter(|path| wanted.get(*path) != found.get(*path))
        .map(|path| {
            let name = String::from_utf8_lossy(path);
            format!("{name}: wanted {}, found {}", short(wanted.get(path)), short(found.get(path)))
        })
        .collect()
}
