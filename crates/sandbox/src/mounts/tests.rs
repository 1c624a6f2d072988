#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

#[test]
fn deeper_paths_come_later_and_absent_ones_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("w");
    for path in [".git/hooks", ".vscode"] {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    let home = folder.path().join("home");
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::write(home.join(".netrc"), "").unwrap();
    let places = SandboxPaths {
        writable: vec![root.clone(), folder.path().join("gone")],
        temp: vec!["/var/tmp".into()],
        hidden: vec![home.join(".ssh"), home.join(".netrc"), home.join(".aws")],
        protected: vec![root.join(".git/hooks"), root.join(".vscode"), root.join(".envrc")],
        pinned: vec![root.join(".git")],
        homes: vec![home.clone()],
        ..SandboxPaths::default()
    };
    let scratch = PathBuf::from("/scratch");
    let mut expected = vec![
        (PathBuf::from("/var/tmp"), Mount::From(scratch.clone())),
        (root.clone(), Mount::Writable),
        (home.join(".ssh"), Mount::Empty),
        (home.join(".netrc"), Mount::Blocked),
        (root.join(".git"), Mount::Writable),
        (root.join(".vscode"), Mount::ReadOnly),
        (root.join(".git/hooks"), Mount::ReadOnly),
    ];
    let planned = mounts(&places, &scratch);
    let is_ours = |placed: &&Placed| !placed.path.starts_with("/run");
    let pairs = planned.iter().filter(is_ours).map(|placed| (placed.path.clone(), placed.mount.clone()));
    expected.sort_by_key(|(path, _)| path.components().count());
    assert_eq!(pairs.collect::<Vec<_>>(), expected);
    let first = planned.first().unwrap();
    assert_eq!((first.path.as_path(), &first.mount), (Path::new("/run"), &Mount::Empty));
    // A file that was replaced needs its mount again, one that only changed does not.
    let hooks = |placed: &Placed| placed.path.ends_with(".git/hooks");
    let before = planned.iter().find(|placed| hooks(placed)).unwrap();
    fs::write(root.join(".git/hooks/x"), "").unwrap();
    assert!(mounts(&places, &scratch).contains(before));
    fs::rename(root.join(".git/hooks"), root.join("old")).unwrap();
    fs::create_dir(root.join(".git/hooks")).unwrap();
    assert!(!mounts(&places, &scratch).contains(before));
}

#[test]
fn a_frame_that_grows_stays_one_and_shows_everything() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let home = fs::canonicalize(folder.path()).unwrap();
    fs::write(home.join("notes"), "").unwrap();
    let places = SandboxPaths {
        hidden: vec![home.join(".netrc")],
        homes: vec![home.clone()],
        ..SandboxPaths::default()
    };
    let planner = Planner::new(&Arc::new(places), Path::new("/scratch"), true);
    let before = planner.plan();
    for number in 0..600 {
        fs::write(home.join(number.to_string()), "").unwrap();
    }
    fs::write(home.join(".netrc"), "").unwrap();
    let plan = planner.plan();
    assert_eq!(appears(&plan, &home), Some(&Mount::Frame));
    assert!(!changes(&before, &plan).iter().any(|placed| placed.mount == Mount::Gone));
    for name in ["notes", "0", "599"] {
        assert_eq!(appears(&plan, &home.join(name)), Some(&Mount::ReadOnly), "{name}");
    }
    assert_ne!(appears(&plan, &home.join(".netrc")), Some(&Mount::ReadOnly));
}

/// A small world of folders, links and files, in which every path has a number.
fn world(base: &Path) -> Vec<PathBuf> {
    let names = ["a", "b", ".x"];
    let mut all = vec![base.join("r")];
    let mut next = 0;
    while next < all.len() && all.len() < 40 {
        let folder = all[next].clone();
        all.extend(names.iter().map(|name| folder.join(name)));
        next += 1;
    }
    for (number, path) in all.iter().enumerate() {
        match number % 7 {
            // Not there, or a link to the top.
            5 => {}
            6 => {
                let _ = symlink(base.join("r"), path);
            }
            _ if number > 12 && number % 3 == 0 && path.parent().is_some_and(Path::is_dir) => {
                let _ = fs::write(path, "");
            }
            _ => {
                let _ = fs::create_dir_all(path);
            }
        }
    }
    all
}

/// A plan without frames.
fn mounts(places: &SandboxPaths, scratch: &Path) -> Vec<Placed> {
    Planner::new(&Arc::new(places.clone()), scratch, false).plan()
}

/// How a path appears: by the last mount over it.
fn appears<'a>(plan: &'a [Placed], path: &Path) -> Option<&'a Mount> {
    plan.iter().rev().find(|placed| path.starts_with(&placed.path)).map(|placed| &placed.mount)
}

fn depth_of(trees: &[PathBuf], path: &Path) -> Option<usize> {
    trees.iter().filter(|tree| path.starts_with(tree)).map(|tree| tree.components().count()).max()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_outside_the_writable_set_is_writable_in_any_plan(
        writable in proptest::collection::vec(0..40_usize, 0..4),
        hidden in proptest::collection::vec(0..40_usize, 0..6),
        protected in proptest::collection::vec(0..40_usize, 0..6),
        temp in proptest::collection::vec(0..40_usize, 0..2),
        homes in proptest::collection::vec(0..40_usize, 0..2),
        private in proptest::collection::vec(0..40_usize, 0..2),
        replaced in proptest::collection::btree_set(0..40_usize, 0..6),
        has_frames in any::<bool>(),
    ) {
        static WORLD: LazyLock<(tempfile::TempDir, Vec<PathBuf>)> = LazyLock::new(|| {
            let folder = tempfile::tempdir().unwrap();
            let all = world(&fs::canonicalize(folder.path()).unwrap());
            (folder, all)
        });
        let all = &WORLD.1;
        let pick = |numbers: &[usize]| numbers.iter().filter_map(|number| all.get(*number).cloned()).collect::<Vec<_>>();
        let not_in = |paths: Vec<PathBuf>, other: &[PathBuf]| {
            paths.into_iter().filter(|path| !other.contains(path)).collect::<Vec<_>>()
        };
        let copy = WORLD.0.path().join("copy");
        fs::write(&copy, "").unwrap();
        // What is explicitly writable is neither hidden nor protected at the same place.
        let writable = pick(&writable);
        let places = SandboxPaths {
            hidden: not_in(pick(&hidden), &writable),
            protected: not_in(pick(&protected), &writable),
            temp: not_in(pick(&temp), &writable),
            homes: pick(&homes),
            private: not_in(pick(&private), &writable),
            replaced: pick(&replaced.into_iter().collect::<Vec<_>>()).into_iter().map(|path| (path, copy.clone())).collect(),
            writable,
            ..SandboxPaths::default()
        };
        let scratch = WORLD.0.path().join("scratch");
        let _ = fs::create_dir(&scratch);
        let plan = Planner::new(&Arc::new(places.clone()), &scratch, has_frames).plan();
        let probes = all.iter().flat_map(|path| [path.clone(), path.join("new/deep")]);
        for path in probes {
            let depth = |paths: &[PathBuf]| {
                paths.iter().filter(|tree| path.starts_with(tree)).map(|tree| tree.components().count()).max()
            };
            let granted = depth(&places.writable);
            if appears(&plan, &path) == Some(&Mount::Writable) {
                prop_assert!(granted.is_some(), "{} is writable: {plan:?}", path.display());
                let is_there = |tree: &&PathBuf| {
                    tree.symlink_metadata().is_ok_and(|meta| !meta.is_symlink())
                };
                let denied: Vec<PathBuf> = places.protected.iter().chain(&places.hidden).filter(is_there).cloned().collect();
                prop_assert!(depth(&denied) < granted, "{} is writable: {plan:?}", path.display());
                prop_assert!(depth(&places.temp) < granted, "{} is the real one: {plan:?}", path.display());
            }
        }
        // What is hidden is not shown, also if it is protected.
        for path in all.iter().filter(|path| fs::canonicalize(path).is_ok_and(|real| real == **path)) {
            let is_shown = matches!(appears(&plan, path), Some(Mount::ReadOnly | Mount::Writable));
            let is_hidden = places.access_to(path).0 == PathAccess::Hidden;
            // Caches of a hidden home are shown, and a home in a folder for temporary files is.
            let mut others = places.private.iter().chain(&places.homes);
            let is_other = others.any(|other| path.starts_with(other) && places.access_to(other).0 == PathAccess::Hidden);
            prop_assert!(!is_shown || !is_hidden || is_other, "{} is shown: {plan:?}", path.display());
        }
        // Only a hidden file is replaced, and nothing lies over its copy.
        for placed in plan.iter().filter(|placed| matches!(placed.mount, Mount::Copy(_))) {
            let path = &placed.path;
            prop_assert!(places.hidden.iter().any(|tree| path.starts_with(tree)), "{} is replaced: {plan:?}", path.display());
            let mut others = plan.iter().filter(|other| other.path == *path && other.mount != placed.mount);
            let is_other = [&places.temp, &places.homes].iter().any(|others| others.contains(path));
            prop_assert!(is_other || others.next().is_none(), "{} is covered: {plan:?}", path.display());
        }
        // A name that is hidden, or appears later next to one, is not shown by a frame.
        if has_frames {
            for hidden in &places.hidden {
                let is_shown = matches!(appears(&plan, hidden), Some(Mount::ReadOnly | Mount::Writable));
                let mut shown = places.writable.iter().chain(&places.visible);
                let is_granted = shown.any(|tree| hidden.starts_with(tree));
                let is_plain = |home: &PathBuf| hidden != home && home.is_dir() && depth_of(&places.temp, home).is_none();
                let in_home = places.homes.iter().any(|home| hidden.starts_with(home) && is_plain(home));
                let is_listed = plan.iter().any(|placed| placed.path == *hidden && placed.mount == Mount::ReadOnly);
                prop_assert!(!is_listed || is_granted || !is_shown || !in_home, "{} is shown: {plan:?}", hidden.display());
            }
        }
        // A parent that is mounted later would uncover what is below.
        for (number, placed) in plan.iter().enumerate() {
            let later = plan.get(number + 1..).unwrap_or_default();
            let is_over = later.iter().any(|other| other.path != placed.path && placed.path.starts_with(&other.path));
            prop_assert!(!is_over, "{} is covered: {plan:?}", placed.path.display());
        }
    }
}
