#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;
use crate::{Grants, SandboxRequest};

struct Machine {
    folder: tempfile::TempDir,
    base: PathBuf,
    _socket: UnixListener,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        for path in
            ["home/.ssh", "home/.gemini/tmp", "home/w/.git/hooks", "home/w/.vscode", "data/sub", "scratch"]
        {
            fs::create_dir_all(base.join(path)).unwrap();
        }
        for file in ["home/.ssh/id", "home/w/.git/HEAD", "home/w/.git/config", "data/file"] {
            fs::write(base.join(file), "").unwrap();
        }
        symlink(base.join("home/.ssh"), base.join("data/link")).unwrap();
        symlink("/", base.join("data/root")).unwrap();
        let socket = UnixListener::bind(base.join("data/sock")).unwrap();
        Self { folder, base, _socket: socket }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    fn places(&self, allowed: &[&str], grants: Grants) -> SandboxPaths {
        SandboxPaths::survey(&SandboxRequest {
            roots: vec![self.path("home/w")],
            allowed: allowed.iter().map(|name| self.path(name)).collect(),
            homes: vec![self.path("home")],
            gemini_dir: self.path("home/.gemini"),
            temp: "/tmp".into(),
            search_path: String::new(),
            network: false,
            level: None,
            grants,
            container: Some(Default::default()),
        })
        .unwrap()
    }

    fn visible(&self, places: &SandboxPaths) -> Visible {
        let (scratch, home) = (self.path("scratch"), self.path("scratch"));
        visible(places, &[self.path("home/w")], [&scratch, &home], &[])
    }

    fn wished(&self, spec: &str) -> Result<Vec<Bind>, String> {
        let spec = spec.replace('@', &self.base.to_string_lossy());
        let places = self.places(&[], Grants::default());
        let roots = [self.path("home/w")];
        wished(&spec, &places, &roots, &self.path("home/.gemini")).map_err(|error| error.to_string())
    }
}

#[test]
fn the_workspace_is_writable_protected_files_are_not_and_the_home_is_not_there() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.path("home/.cache")).unwrap();
    let Visible { binds, empty } = machine.visible(&machine.places(&[], Grants::default()));
    let shown = |name: &str| {
        let path = machine.path(name);
        binds.iter().find(|bind| bind.target == path).map(|bind| bind.writable)
    };
    assert_eq!(shown("home/w"), Some(true));
    assert_eq!(shown("home/w/.git"), Some(true), "mounted, so that it cannot be renamed");
    for name in ["home/w/.git/hooks", "home/w/.git/config", "home/w/.vscode"] {
        assert_eq!(shown(name), Some(false), "{name}");
    }
    for name in ["home", "home/.ssh", "home/.cache", "home/.gemini", "home/w/.envrc"] {
        assert_eq!(shown(name), None, "{name}");
    }
    assert!(empty.is_empty());
    let targets: Vec<_> = binds.iter().map(|bind| &bind.target).collect();
    for (index, target) in targets.iter().enumerate() {
        assert!(!targets[..index].contains(target), "an engine refuses a target twice");
        assert!(!targets[..index].iter().any(|before| before.starts_with(target)), "parents come first");
    }
}

#[test]
fn rights_change_what_is_there() {
    let machine = Machine::new();
    let shown = |places: &SandboxPaths, name: &str| {
        let path = machine.path(name);
        let found = machine.visible(places).binds.into_iter().find(|bind| bind.target == path);
        found.map(|bind| bind.writable)
    };
    let read_only = machine.places(&[], Grants { read_only: true, ..Grants::default() });
    assert_eq!(shown(&read_only, "home/w"), Some(false));
    assert!(machine.visible(&read_only).binds.iter().all(|bind| {
        !bind.writable || bind.target == Path::new("/tmp") || bind.target == Path::new(HOME)
    }));
    let allowed = machine.places(&["data"], Grants::default());
    assert_eq!(shown(&allowed, "data"), Some(true));
    let key = Grants { visible: vec![machine.path("home/.ssh")], ..Grants::default() };
    assert_eq!(shown(&machine.places(&[], key), "home/.ssh"), Some(false));
    // A hidden place inside something that is shown.
    let mut places = machine.places(&["data"], Grants::default());
    places.hidden.extend([machine.path("data/sub"), machine.path("data/file")]);
    let Visible { binds, empty } = machine.visible(&places);
    assert_eq!(empty, [machine.path("data/sub")]);
    let mask = binds.iter().find(|bind| bind.target == machine.path("data/file")).unwrap();
    assert_eq!(mask.source, Path::new("/dev/null"));
    // The same if it is protected as well.
    places.protected.extend([machine.path("data/sub"), machine.path("data/file")]);
    assert_eq!(machine.visible(&places), Visible { binds, empty });
    drop(machine.folder);
}

#[test]
fn mounts_of_the_user_are_read_and_dangerous_ones_refused() {
    let machine = Machine::new();
    let bind = |source: &str, target: &str, writable| Bind {
        source: machine.path(source),
        target: target.replace('@', &machine.base.to_string_lossy()).into(),
        writable,
    };
    for (spec, expected) in [
        ("", vec![]),
        ("@/data", vec![bind("data", "@/data", false)]),
        ("@/data:/data", vec![bind("data", "/data", false)]),
        (
            " @/data:/data:rw , @/data/file:/f:ro",
            vec![bind("data", "/data", true), bind("data/file", "/f", false)],
        ),
    ] {
        assert_eq!(machine.wished(spec).unwrap(), expected, "{spec}");
    }
    for (spec, reason) in [
        ("data", "not an absolute path"),
        ("@/data/../data", "not an absolute path"),
        ("@/none", "No such file"),
        ("@/data:/x:rx", "unknown option"),
        ("@/data:/x:ro:z", "too many colons"),
        ("/:/host", "home directory"),
        ("@/home", "home directory"),
        ("@", "home directory"),
        ("@/data/root:/host", "home directory"),
        ("@/home/.ssh:/ssh", "may contain secrets"),
        ("@/home/.ssh/id:/id", "may contain secrets"),
        ("@/data/link:/ssh", "may contain secrets"),
        ("@/home/.gemini/tmp:/g", "keys of Pollux"),
        ("@/data/sock:/var/sock", "is a socket"),
        ("/proc:/host", "belongs to the system"),
        ("/sys/kernel:/host", "belongs to the system"),
        ("/run:/host", "belongs to the system"),
        ("/etc:/host", ""),
        ("/dev/null:/n", "is a device"),
        ("@/data:/", "belongs to the container"),
        ("@/data:/run/pollux", "belongs to the container"),
        ("@/data:/proc/x", "belongs to the container"),
        ("@/data:/tmp", "belongs to the container"),
        ("@/data:@/home/w:rw", "cover the workspace"),
        ("@/data:@/home:rw", "cover the workspace"),
        ("@/data:@/home/w/.git/hooks:rw", "is protected"),
        ("@/data:@/home/w/.git:rw", "is protected"),
    ] {
        let error = machine.wished(spec).unwrap_err();
        assert!(error.contains(reason), "{spec}: {error}");
    }
}
