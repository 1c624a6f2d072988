//! Random mutations of random trees are reverted.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use pollux_rewind::{ChangeScope, Conflicts, Target};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::workspace::{Workspace, differences, picture, point};

/// Few names, so that mutations meet each other; some are odd.
const NAMES: &[&[u8]] = &[b"a", b"b", b"c d", "\u{fc}".as_bytes(), b"not\xffutf8", b"new\nline", b"*", b"-x"];

/// A path of one to three names.
type Place = Vec<usize>;

#[derive(Debug, Clone)]
enum Mutation {
    Write(Place, Vec<u8>),
    OverwriteKeepingTime(Place, u8),
    Append(Place, Vec<u8>),
    Truncate(Place, u64),
    MakeFolder(Place),
    Link(Place, Place),
    LinkOutside(Place),
    HardLink(Place, Place),
    Remove(Place),
    Rename(Place, Place),
    Swap(Place, Place),
    Chmod(Place, u32),
}

fn place() -> impl Strategy<Value = Place> {
    prop::collection::vec(0..NAMES.len(), 1..4)
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => (place(), bytes()).prop_map(|(place, bytes)| Mutation::Write(place, bytes)),
        2 => (place(), any::<u8>()).prop_map(|(place, byte)| Mutation::OverwriteKeepingTime(place, byte)),
        1 => (place(), bytes()).prop_map(|(place, bytes)| Mutation::Append(place, bytes)),
        1 => (place(), 0..60_u64).prop_map(|(place, len)| Mutation::Truncate(place, len)),
        3 => place().prop_map(Mutation::MakeFolder),
        1 => (place(), place()).prop_map(|(one, other)| Mutation::Link(one, other)),
        1 => place().prop_map(Mutation::LinkOutside),
        1 => (place(), place()).prop_map(|(one, other)| Mutation::HardLink(one, other)),
        2 => place().prop_map(Mutation::Remove),
        2 => (place(), place()).prop_map(|(one, other)| Mutation::Rename(one, other)),
        1 => (place(), place()).prop_map(|(one, other)| Mutation::Swap(one, other)),
        2 => (place(), 0..0o10000_u32).prop_map(|(place, mode)| Mutation::Chmod(place, mode)),
    ]
}

fn path_of(root: &Path, place: &Place) -> PathBuf {
    place.iter().fold(root.to_owned(), |path, name| path.join(std::ffi::OsStr::from_bytes(NAMES[*name])))
}

/// Whether a link on the way leads to another folder: a mutation must not leave the workspace.
fn is_plain(root: &Path, path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.canonicalize().is_ok_and(|real| real.starts_with(root)))
}

/// Applies a mutation, if possible; failures are ignored.
fn mutate(root: &Path, outside: &Path, mutation: &Mutation) -> std::io::Result<()> {
    let at = |place: &Place| path_of(root, place);
    let plain_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    match mutation {
        Mutation::Write(place, bytes) => {
            let path = at(place);
            if is_plain(root, &path) && !path.is_symlink() {
                fs::write(&path, bytes)?;
            }
        }
        Mutation::OverwriteKeepingTime(place, byte) if plain_file(&at(place)) => {
            let file = OpenOptions::new().write(true).open(at(place))?;
            let meta = file.metadata()?;
            if meta.len() > 0 && is_plain(root, &at(place)) {
                file.write_all_at(&[*byte], meta.len() - 1)?;
                file.set_times(FileTimes::new().set_modified(meta.modified()?))?;
            }
        }
        Mutation::Append(place, bytes) if plain_file(&at(place)) && is_plain(root, &at(place)) => {
            OpenOptions::new().append(true).open(at(place))?.write_all(bytes)?;
        }
        Mutation::Truncate(place, len) if plain_file(&at(place)) && is_plain(root, &at(place)) => {
            File::options().write(true).open(at(place))?.set_len(*len)?;
        }
        Mutation::MakeFolder(place) if is_plain(root, &at(place)) => fs::create_dir(at(place))?,
        Mutation::Link(place, to) if is_plain(root, &at(place)) => symlink(at(to), at(place))?,
        Mutation::LinkOutside(place) if is_plain(root, &at(place)) => symlink(outside, at(place))?,
        Mutation::HardLink(place, to) if is_plain(root, &at(place)) && is_plain(root, &at(to)) => {
            fs::hard_link(at(to), at(place))?;
        }
        Mutation::Remove(place) if is_plain(root, &at(place)) => {
            let path = at(place);
            if fs::symlink_metadata(&path)?.is_dir() {
                fs::remove_dir_all(path)?
            } else {
                fs::remove_file(path)?
            }
        }
        Mutation::Rename(from, to) if is_plain(root, &at(from)) && is_plain(root, &at(to)) => {
            fs::rename(at(from), at(to))?;
        }
        Mutation::Swap(one, other) if is_plain(root, &at(one)) && is_plain(root, &at(other)) => {
            let aside = root.join("aside");
            fs::rename(at(one), &aside)?;
            let _ = fs::rename(at(other), at(one));
            fs::rename(aside, at(other))?;
        }
        Mutation::Chmod(place, mode) if !at(place).is_symlink() && is_plain(root, &at(place)) => {
            // Files that their owner cannot read cannot be saved; the scripts cover that case.
            fs::set_permissions(at(place), Permissions::from_mode(mode | 0o400))?;
        }
        _ => {}
    }
    Ok(())
}

#[test]
fn any_mutation_of_any_tree_is_reverted() {
    let config = Config { cases: 96, failure_persistence: None, ..Config::default() };
    let several = |most| prop::collection::vec(mutation(), 0..most);
    let input = (several(25), several(12), several(12));
    TestRunner::new(config)
        .run(&input, |(build, first, second)| {
            let workspace = Workspace::empty();
            let (root, outside) = (workspace.root().canonicalize().unwrap(), workspace.outside());
            fs::write(outside.join("a"), "outside").unwrap();
            let run = |mutations: &[Mutation]| {
                for mutation in mutations {
                    let _ = mutate(&root, &outside, mutation);
                }
            };
            run(&build);
            let journal = workspace.journal();
            let mut pictures = Vec::new();
            for (call, mutations) in [("one", &first), ("two", &second)] {
                pictures.push(workspace.picture());
                journal.before(&point(call), ChangeScope::Workspace).unwrap();
                run(mutations);
                journal.after(call).unwrap();
            }
            for (call, wanted) in [("two", &pictures[1]), ("one", &pictures[0])] {
                let plan = journal.plan(&Target::Call(call.to_owned())).unwrap();
                let applied = journal.apply(&plan, Conflicts::Keep).unwrap();
                let wrong = differences(wanted, &workspace.picture());
                prop_assert!(wrong.is_empty(), "{call}: {wrong:#?}\n{plan:#?}\n{applied:#?}");
            }
            prop_assert_eq!(picture(&outside).len(), 2);
            Ok(())
        })
        .unwrap();
}
