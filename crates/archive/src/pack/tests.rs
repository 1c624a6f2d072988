use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;
use crate::unpack::{UnpackError, unpack_workspace};

struct Scene {
    dir: TempDir,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["from", "into", "outside"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn file(&self, path: &str, bytes: &[u8], mode: u32) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(&path).unwrap().write_all(bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn pack(&self, limits: &Limits) -> Result<Packed, PackError> {
        pack_workspace(&self.path("from"), &self.path("archive"), limits)
    }

    fn unpack(&self) -> Result<Vec<Skipped>, UnpackError> {
        unpack_workspace(&self.path("archive"), &self.path("into"), &Limits::workspace())
    }

    /// Unpacks a tar of these entries: name, kind, target of a link, content.
    fn unpack_items(&self, items: &[(&str, EntryType, &str, &[u8])]) -> Result<Vec<Skipped>, UnpackError> {
        let file = File::create(self.path("archive")).unwrap();
        let mut builder = Builder::new(GzEncoder::new(file, Compression::fast()));
        for (name, kind, target, content) in items {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o7777);
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_link_name_literal(target).unwrap();
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap();
        self.unpack()
    }
}

/// Everything in a folder: kind and permissions, content or target, time of files.
fn seen(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let meta = path.symlink_metadata().unwrap();
        let about = if meta.is_symlink() {
            format!("link {:?}", fs::read_link(&path).unwrap())
        } else if meta.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            format!("folder {:o}", meta.mode() & 0o7777)
        } else {
            format!("file {:o} {} {:?}", meta.mode() & 0o7777, meta.mtime(), fs::read(&path).unwrap())
        };
        let relative = path.strip_prefix(root).unwrap().to_owned();
        if !relative.as_os_str().is_empty() {
            seen.insert(relative, about);
        }
    }
    seen
}

#[test]
fn a_workspace_comes_back_with_modes_times_links_and_its_repository() {
    let scene = Scene::new();
    scene.file("from/a.txt", b"text", 0o640);
    scene.file("from/bin/run", b"#!/bin/sh", 0o755);
    scene.file("from/.git/HEAD", b"ref: x", 0o644);
    scene.file("from/.env", b"", 0o600);
    scene.file("from/read-only/file", b"x", 0o444);
    scene.file("from/Same", b"1", 0o644);
    scene.file("from/same", b"2", 0o644);
    let long = format!("from/{}/{}", "long-name-".repeat(20), "n".repeat(200));
    scene.file(&long, b"deep", 0o644);
    fs::create_dir_all(scene.path("from/empty/inside")).unwrap();
    symlink("a.txt", scene.path("from/link")).unwrap();
    symlink("../a.txt", scene.path("from/bin/up")).unwrap();
    symlink("not/there", scene.path("from/dangling")).unwrap();
    symlink(format!("{}/a", "t".repeat(150)), scene.path("from/far")).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    File::options().write(true).open(scene.path("from/a.txt")).unwrap().set_modified(old).unwrap();
    fs::set_permissions(scene.path("from/read-only"), fs::Permissions::from_mode(0o500)).unwrap();
    let packed = scene.pack(&Limits::workspace()).unwrap();
    assert!(packed.skipped.is_empty(), "{:?}", packed.skipped);
    assert_eq!(packed.size, fs::metadata(scene.path("archive")).unwrap().len());
    assert_eq!(packed.sha256, checksum(&scene.path("archive")).unwrap());
    assert_eq!(fs::metadata(scene.path("archive")).unwrap().mode() & 0o777, 0o600);
    assert!(scene.unpack().unwrap().is_empty());
    let before = seen(&scene.path("from"));
    let mut after = seen(&scene.path("into"));
    // Its owner can always enter a restored folder.
    after.insert(PathBuf::from("read-only"), "folder 500".to_owned());
    assert_eq!(before, after);
    assert_eq!(packed.entries, before.len());
    fs::set_permissions(scene.path("from/read-only"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn the_same_workspace_gives_the_same_archive() {
    let scene = Scene::new();
    for name in ["b", "a", "c/d"] {
        scene.file(&format!("from/{name}"), b"x", 0o644);
    }
    let first = scene.pack(&Limits::workspace()).unwrap().sha256;
    assert_eq!(scene.pack(&Limits::workspace()).unwrap().sha256, first);
}

#[test]
fn sockets_pipes_and_names_that_cannot_be_restored_are_left_out_and_named() {
    let scene = Scene::new();
    scene.file("from/kept", b"x", 0o644);
    scene.file("from/back\\slash", b"x", 0o644);
    scene.file("from/bell\x07", b"x", 0o644);
    let _socket = UnixListener::bind(scene.path("from/socket")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("from/pipe"), rustix::fs::Mode::RUSR).unwrap();
    let packed = scene.pack(&Limits::workspace()).unwrap();
    let mut names: Vec<String> =
        packed.skipped.iter().map(|skipped| format!("{} {}", skipped.path.display(), skipped.why)).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "back\\slash has a backslash in its name",
            "bell\x07 has control characters in its name",
            "pipe is not a regular file, a folder or a link",
            "socket is not a regular file, a folder or a link",
        ]
    );
    assert_eq!(packed.entries, 1);
    scene.unpack().unwrap();
    assert_eq!(seen(&scene.path("into")).len(), 1);
}

#[test]
fn links_that_lead_outside_are_packed_but_never_followed_nor_restored() {
    let scene = Scene::new();
    scene.file("outside/secret", b"hunter2", 0o600);
    scene.file("from/sub/file", b"x", 0o644);
    symlink(scene.path("outside"), scene.path("from/absolute")).unwrap();
    symlink("../outside/secret", scene.path("from/relative")).unwrap();
    symlink("..", scene.path("from/sub/up")).unwrap();
    symlink("sub/up/../../outside", scene.path("from/through")).unwrap();
    symlink("missing/../../outside", scene.path("from/lexical")).unwrap();
    symlink("loop", scene.path("from/loop")).unwrap();
    let packed = scene.pack(&Limits::workspace()).unwrap();
    assert!(packed.skipped.is_empty());
    let skipped = scene.unpack().unwrap();
    let names: Vec<String> = skipped.iter().map(|skipped| skipped.path.display().to_string()).collect();
    assert_eq!(names, ["absolute", "lexical", "loop", "relative", "through"]);
    let restored: Vec<PathBuf> = seen(&scene.path("into")).into_keys().collect();
    assert_eq!(restored, ["sub", "sub/file", "sub/up"].map(PathBuf::from));
    assert!(!String::from_utf8_lossy(&fs::read(scene.path("archive")).unwrap()).contains("hunter2"));
}

#[test]
fn a_workspace_past_a_limit_is_not_packed() {
    let scene = Scene::new();
    scene.file("from/a", &[7; 600], 0o644);
    scene.file("from/b", &[7; 600], 0o644);
    let all = Limits::workspace();
    for (limits, wanted) in [
        (Limits { total: 1000, ..all }, "`b` exceeds the total size limit"),
        (Limits { entry: 500, ..all }, "`a` is larger than"),
        (Limits { entries: 1, ..all }, "`b` exceeds the limit of 1"),
    ] {
        let said = scene.pack(&limits).unwrap_err().to_string();
        assert!(said.contains(wanted), "{said}");
        assert!(!scene.path("archive").exists());
    }
}

#[test]
fn hard_links_of_other_packers_become_files_if_they_stay_inside() {
    use EntryType::{Link, Regular};
    let scene = Scene::new();
    scene.unpack_items(&[("a/b", Regular, "", b"text"), ("c", Link, "a/b", b"")]).unwrap();
    assert_eq!(fs::read(scene.path("into/c")).unwrap(), b"text");
    assert_eq!(
        fs::metadata(scene.path("into/a/b")).unwrap().mode() & 0o7777,
        0o777,
        "no bits that lend rights"
    );
    assert_eq!(fs::metadata(scene.path("into/c")).unwrap().nlink(), 1);
}

#[test]
fn what_could_escape_is_refused() {
    use EntryType::{Block, Char, Directory, Fifo, Link, Regular, Symlink};
    for items in [
        &[("../outside/x", Regular, "", &b"x"[..])][..],
        &[("/tmp/x", Regular, "", b"x")],
        &[("x", Link, "../outside/secret", b"")],
        &[("x", Link, "/etc/passwd", b"")],
        &[("x", Link, "missing", b"")],
        &[("l", Symlink, "../outside/secret", b""), ("x", Link, "l", b"")],
        &[("l", Symlink, "../outside", b""), ("l/x", Regular, "", b"x")],
        &[("l", Symlink, "../outside", b""), ("x", Link, "l/secret", b"")],
        &[("l", Symlink, "sub", b""), ("l/x", Directory, "", b"")],
        &[("a", Regular, "", b"1"), ("a", Symlink, "../outside", b"")],
        &[("d", Char, "", b"")],
        &[("d", Block, "", b"")],
        &[("d", Fifo, "", b"")],
    ] {
        let scene = Scene::new();
        scene.file("outside/secret", b"hunter2", 0o600);
        let before = seen(&scene.path("outside"));
        assert!(matches!(scene.unpack_items(items), Err(UnpackError::Refused { .. })), "{items:?}");
        assert_eq!(seen(&scene.path("outside")), before);
    }
}

#[test]
fn a_bomb_is_stopped_at_the_limit_of_a_workspace() {
    let scene = Scene::new();
    let zeros = vec![0; 4 << 20];
    let limits = Limits { total: 3 << 20, ..Limits::workspace() };
    let items = [("zeros", EntryType::Regular, "", zeros.as_slice())];
    scene.unpack_items(&items).unwrap();
    fs::remove_dir_all(scene.path("into")).unwrap();
    fs::create_dir(scene.path("into")).unwrap();
    let error = unpack_workspace(&scene.path("archive"), &scene.path("into"), &limits).unwrap_err();
    assert!(error.to_string().contains("total size limit of 3 MiB"), "{error}");
    let linked: Vec<_> = std::iter::once(("a", EntryType::Regular, "", &zeros[..1 << 20]))
        .chain(["b", "c", "d"].map(|name| (name, EntryType::Link, "a", &b""[..])))
        .collect();
    fs::remove_dir_all(scene.path("into")).unwrap();
    fs::create_dir(scene.path("into")).unwrap();
    scene.unpack_items(&linked).unwrap();
    fs::remove_dir_all(scene.path("into")).unwrap();
    fs::create_dir(scene.path("into")).unwrap();
    unpack_workspace(&scene.path("archive"), &scene.path("into"), &limits).unwrap_err();
}

#[test]
fn the_archives_of_tar_are_restored_and_tar_restores_ours() {
    let scene = Scene::new();
    scene.file("from/a", b"text", 0o640);
    fs::hard_link(scene.path("from/a"), scene.path("from/same")).unwrap();
    symlink("a", scene.path("from/link")).unwrap();
    let tar = |arguments: &[&str]| {
        let run = std::process::Command::new("tar").args(arguments).current_dir(scene.dir.path()).status();
        run.is_ok_and(|status| status.success())
    };
    if !tar(&["-czf", "archive", "-C", "from", "."]) {
        let _ = writeln!(io::stderr(), "skipped: tar is missing");
        return;
    }
    scene.unpack().unwrap();
    assert_eq!(seen(&scene.path("into")), seen(&scene.path("from")));
    scene.pack(&Limits::workspace()).unwrap();
    fs::create_dir(scene.path("theirs")).unwrap();
    assert!(tar(&["-xzf", "archive", "-C", "theirs"]));
    assert_eq!(seen(&scene.path("theirs")), seen(&scene.path("from")));
}

#[test]
fn nothing_is_looked_up_through_a_folder_that_became_a_link() {
    let scene = Scene::new();
    scene.file("outside/secret.txt", b"secret", 0o600);
    symlink("target", scene.path("outside/inner")).unwrap();
    symlink(scene.path("outside"), scene.path("from/swapped")).unwrap();
    let folder = ConfinedFolder::open(&scene.path("from")).unwrap();
    assert!(folder.list(Path::new("swapped")).is_err());
    assert!(folder.inspect(Path::new("swapped/secret.txt")).is_err());
    assert!(folder.link_target(Path::new("swapped/inner")).is_err());
    assert_eq!(folder.inspect(Path::new("swapped")).unwrap().kind, InspectedKind::Link);
}
