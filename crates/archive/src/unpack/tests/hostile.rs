//! Archives made to escape from the folder. The folder is inside a tree in which every change is detected, even
//! one that was undone: the time of a folder changes with each name that is added or removed.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};

use proptest::prelude::*;

use super::*;

/// A home with the folder to unpack into as deep in it as extensions are staged.
struct Tripwire {
    dir: TempDir,
    before: BTreeMap<PathBuf, String>,
}

impl Tripwire {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path();
        for folder in
            ["outside/a", "home/.config/autostart", "home/a", "home/.gemini/extensions/.staging/new/"]
        {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        for file in ["outside/a/file", "home/.bashrc", "home/.gemini/extensions/file"] {
            File::create(base.join(file)).unwrap().write_all(b"mine").unwrap();
        }
        let mut tripwire = Self { dir, before: BTreeMap::new() };
        tripwire.before = tripwire.seen();
        tripwire
    }

    fn into(&self) -> PathBuf {
        self.dir.path().join("home/.gemini/extensions/.staging/new")
    }

    /// Everything outside of the folder.
    fn seen(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        let mut left = vec![self.dir.path().to_owned()];
        while let Some(path) = left.pop() {
            let meta = path.symlink_metadata().unwrap();
            let state =
                (meta.mode(), meta.len(), meta.nlink(), meta.mtime(), meta.mtime_nsec(), meta.ctime_nsec());
            if path == self.into() {
                continue;
            }
            if meta.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let content = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            seen.insert(path, format!("{state:?} {content:?}"));
        }
        seen
    }

    /// Unpacks from memory: the archive's own file would be a change.
    fn unpack(&self, bytes: &[u8], limits: &Limits) -> Result<(), UnpackError> {
        let mut archive = tempfile::NamedTempFile::new().unwrap();
        archive.write_all(bytes).unwrap();
        let result = unpack(archive.path(), &self.into(), limits);
        assert_eq!(self.seen(), self.before, "something outside changed: {result:?}");
        self.check_inside(result.is_ok());
        result
    }

    /// Everything unpacked is harmless, even if the archive was refused in the end.
    fn check_inside(&self, complete: bool) {
        let root = self.into().canonicalize().unwrap();
        let mut left = vec![root.clone()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                assert!(!kind.is_fifo() && !kind.is_socket() && !kind.is_char_device(), "{path:?}");
                if kind.is_symlink() {
                    let place = path.canonicalize().unwrap_or_else(|error| panic!("{path:?}: {error}"));
                    assert!(complete && place.starts_with(&root), "{path:?} leads to {place:?}");
                    continue;
                }
                let mode = path.symlink_metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o7000, 0, "{path:?}");
                assert_eq!(mode & 0o600, 0o600, "{path:?} can be removed again");
                if kind.is_dir() {
                    left.push(path);
                }
            }
        }
    }
}

/// Links that lead one folder further up each, and an entry behind them.
fn ladder(last: Item<'static>) -> Vec<Item<'static>> {
    vec![
        Item::File(b"gemini-extension.json", b"{}"),
        Item::File(b"d/file", b"x"),
        Item::Link(b"d/u0", ".."),
        Item::Link(b"d/u1", "u0/.."),
        Item::Link(b"d/u2", "u1/.."),
        Item::Link(b"d/u3", "u2/.."),
        Item::Link(b"d/u4", "u3/.."),
        last,
    ]
}

#[test]
fn a_chain_of_links_does_not_escape() {
    for last in [
        Item::Link(b"d/u4/.config/autostart/evil.desktop", "../../x"),
        Item::File(b"d/u4/.config/autostart/evil.desktop", b"[Desktop Entry]"),
        Item::Other(b"d/u4/.config/evil", EntryType::Directory),
        Item::Other(b"d/u4/.config/evil", EntryType::Link),
        Item::Link(b"last", "d/u4/.bashrc"),
        Item::File(b"last", b"x"),
    ] {
        let items = ladder(last.clone());
        let mut backwards = items.clone();
        backwards.reverse();
        for items in [items, backwards] {
            for bytes in [zip_of(&items), tar_of(&items)] {
                Tripwire::new().unpack(&bytes, &Limits::default()).unwrap_err();
            }
        }
    }
}

#[test]
fn named_attacks_are_refused_and_say_why() {
    let file = |name| Item::File(name, b"x");
    let cases: Vec<(Vec<Item<'_>>, &str)> = vec![
        (
            vec![Item::Link(b"a", "b"), file(b"b/f"), file(b"a/g")],
            "`a/g` is inside `a`, which is not a folder",
        ),
        (vec![Item::Link(b"a", "b"), file(b"b/f"), Item::Link(b"a/l", "f")], "`a/l` is inside `a`"),
        (vec![file(b"a"), file(b"a/b")], "`a/b` is inside `a`"),
        (vec![file(b"b/f"), Item::Link(b"b", "..")], "`b` occurs twice"),
        (vec![Item::Link(b"a", "b"), file(b"b"), file(b"a")], "`a` occurs twice"),
        (vec![file(b"a"), Item::Link(b"a", "a")], "`a` occurs twice"),
        (vec![file(b"b"), Item::Link(b"a", "b"), Item::Link(b"a", "b")], "`a` occurs twice"),
        (vec![file(b"b"), Item::Link(b"Link", "b"), file(b"lINK/x")], "`lINK/x` is inside `lINK`"),
        (vec![file(b"b"), Item::Link(b"Link", "b"), file(b"LINK")], "`LINK` occurs twice"),
        (vec![Item::Link(b"a", "a")], "`a` is a link that points outside the folder or to a missing file"),
        (vec![Item::Link(b"a", "b"), Item::Link(b"b", "a")], "is a link that points outside"),
        (vec![file(b"x"), Item::Link(b"a", "x\n")], "is a link that points outside"),
        (vec![file(b"top/x"), Item::Link(b"top/l", "../top/x")], "is a link that points outside"),
        (vec![file(b"top/x"), Item::Link(b"top/l", "..")], "is a link that points outside"),
        (vec![Item::Link(b".", "/etc")], "has no name"),
        (vec![file(b"./")], "has no name"),
        (vec![file(b"a\nb")], "has control characters"),
        (vec![file(b"a/./../b")], "points outside the folder"),
        (vec![file(b"..")], "points outside the folder"),
        (vec![file(b"//etc/passwd")], "has an absolute path"),
    ];
    for (items, wanted) in cases {
        for bytes in [zip_of(&items), tar_of(&items)] {
            // A name that ends with a slash is a folder in a zip.
            if matches!(items.as_slice(), [Item::File(b"./", _)]) && bytes.starts_with(b"PK") {
                continue;
            }
            let said = Tripwire::new().unpack(&bytes, &Limits::default()).unwrap_err().to_string();
            assert!(said.contains(wanted), "{said} should say {wanted}");
        }
    }
    let deep = "d/".repeat(65) + "f";
    let items = [Item::File(b"a", b""), Item::Link(b"b", "a")];
    let said = Tripwire::new().unpack(&long_named(deep.as_bytes(), &items), &Limits::default());
    assert!(said.unwrap_err().to_string().contains("is nested deeper than 64 folders"));
}

/// A tar.gz whose first entry has its name in an entry before it, as GNU tar writes long ones.
fn long_named(name: &[u8], more: &[Item<'_>]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.as_old_mut().name[..13].copy_from_slice(b"././@LongLink");
    header.set_size(name.len() as u64);
    header.set_cksum();
    archive.append(&header, name).unwrap();
    append_all(&mut archive, &[Item::File(b"short", b"x")]);
    append_all(&mut archive, more);
    archive.into_inner().unwrap().finish().unwrap()
}

/// A tar.gz whose entry is renamed, or redirected, by an extension header.
fn overridden(key: &str, value: &str, item: Item<'_>) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    archive.append_pax_extensions([(key, value.as_bytes())]).unwrap();
    append_all(&mut archive, &[item]);
    archive.into_inner().unwrap().finish().unwrap()
}

#[test]
fn names_in_extension_headers_are_checked_too() {
    for name in ["../../../../.bashrc", "/etc/evil", "a/../../../x"] {
        for bytes in [long_named(name.as_bytes(), &[]), overridden("path", name, Item::File(b"good", b"x"))] {
            Tripwire::new().unpack(&bytes, &Limits::default()).unwrap_err();
        }
    }
    let led_away = overridden("linkpath", "../../../../.bashrc", Item::Link(b"l", "good"));
    Tripwire::new().unpack(&led_away, &Limits::default()).unwrap_err();
    // A declared size is not trusted, too small or too large.
    for size in ["1099511627776", "3"] {
        let bytes = overridden("size", size, Item::File(b"f", &[7; 2048]));
        let _ = Tripwire::new().unpack(&bytes, &Limits::default());
    }
}

#[test]
fn a_zip_cannot_smuggle_special_files_in_by_their_mode() {
    for kind in [0o010_644, 0o020_644, 0o060_644, 0o140_644] {
        let mut bytes = Vec::new();
        let mut archive = ZipArchiveWriter::new(&mut bytes);
        let builder = archive.new_file("special").unix_permissions(kind);
        let (mut entry, config) = builder.start().unwrap();
        let (_, descriptor) = config.wrap(&mut entry).finish().unwrap();
        entry.finish(descriptor).unwrap();
        archive.finish().unwrap();
        let said = Tripwire::new().unpack(&bytes, &Limits::default()).unwrap_err().to_string();
        assert!(said.contains("is not a regular file"), "{said}");
    }
}

#[test]
fn implicit_folders_count_towards_the_limit() {
    let items: Vec<Item<'_>> = vec![Item::File(b"a/b/c/d/e/f", b"x")];
    for bytes in [zip_of(&items), tar_of(&items)] {
        let said = Tripwire::new().unpack(&bytes, &SMALL).unwrap_err().to_string();
        assert!(said.contains("exceeds the limit of 5"), "{said}");
    }
}

fn name() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a", "b", "A", "d", "..", ".", "", "u0", "u1", "u2", "file", ".git", "a\n", "b\\c", "~", "é", "home",
    ]);
    (any::<prop::sample::Index>(), prop::collection::vec(part, 1..6)).prop_map(|(start, parts)| {
        let start = ["", "", "", "", "", "", "/", "./", "../", "//"][start.index(10)];
        start.to_owned() + &parts.join("/")
    })
}

fn item() -> impl Strategy<Value = (u8, String, String)> {
    (0u8..10, name(), name())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_archive_changes_anything_outside(items in prop::collection::vec(item(), 1..12)) {
        let items: Vec<Item<'_>> = items
            .iter()
            .map(|(kind, name, target)| match kind {
                0..=3 => Item::Link(name.as_bytes(), target),
                4..=6 => Item::File(name.as_bytes(), b"evil"),
                7 => Item::Other(name.as_bytes(), EntryType::Directory),
                8 => Item::Other(name.as_bytes(), EntryType::Link),
                _ => Item::Other(name.as_bytes(), EntryType::Fifo),
            })
            .collect();
        for bytes in [zip_of(&items), tar_of(&items)] {
            let _ = Tripwire::new().unpack(&bytes, &Limits::default());
        }
    }

    /// Names that are all sound, so that many archives get as far as their links.
    #[test]
    fn no_web_of_links_leads_outside(
        links in prop::collection::vec(("[abu][0-3]?(/[abu][0-3]?)?", "((\\.\\.|[abu][0-3]?)/){0,4}(\\.\\.|[abu][0-3]?)"), 1..10),
        files in prop::collection::vec("[abc](/[abc]){0,3}", 0..4),
    ) {
        let links = links.iter().map(|(path, target)| Item::Link(path.as_bytes(), target));
        let files = files.iter().map(|path| Item::File(path.as_bytes(), b"x"));
        let items: Vec<Item<'_>> = files.chain(links).collect();
        for bytes in [zip_of(&items), tar_of(&items)] {
            let _ = Tripwire::new().unpack(&bytes, &Limits::default());
        }
    }
}
