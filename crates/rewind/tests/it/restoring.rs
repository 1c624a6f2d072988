//! Restoring under interruption, damage and hostile changes.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use pollux_rewind::{Action, ChangeScope, Conflicts, Journal, JournalSetup, Limits, Target};

use crate::workspace::{Workspace, differences, picture, point};

fn target() -> Target {
    Target::Call("1".to_owned())
}

#[test]
fn damaged_content_is_detected_and_the_file_is_left_alone() {
    let workspace = Workspace::empty();
    workspace.write("a.txt", "old content");
    workspace.write("b.txt", "other");
    let journal = workspace.journal();
    journal.before(&point("1"), ChangeScope::Workspace).unwrap();
    workspace.run("echo new >a.txt; echo new >b.txt");
    journal.after("1").unwrap();
    for shard in fs::read_dir(workspace.store().join("objects")).unwrap() {
        for object in fs::read_dir(shard.unwrap().path()).unwrap() {
            let path = object.unwrap().path();
            if fs::read(&path).unwrap() == b"old content" {
                fs::write(&path, "bad content").unwrap();
            }
        }
    }
    let plan = journal.plan(&target()).unwrap();
    let applied = journal.apply(&plan, Conflicts::Keep).unwrap();
    let failed: Vec<_> = applied.failed.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    assert_eq!(failed, ["a.txt"]);
    assert_eq!(workspace.read("a.txt").as_deref(), Some("new\n"));
    assert_eq!(workspace.read("b.txt").as_deref(), Some("other"));
    assert_eq!(fs::read_dir(workspace.root()).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn an_interrupted_rewind_is_finished_by_the_next_one() {
    let workspace = Workspace::full();
    let before = workspace.picture();
    let journal = workspace.journal();
    journal.before(&point("1"), ChangeScope::Workspace).unwrap();
    workspace.run("rm -rf src docs data; echo x >README.md");
    journal.after("1").unwrap();
    // Half of it is done, and a temporary file is left.
    workspace.run("mkdir -m 755 src; printf 'partial' >src/.pollux-rewind-0123456789abcdef");
    fs::write(workspace.root().join("README.md"), "# Project\n\nHello.\nsecond\n").unwrap();
    let plan = journal.plan(&target()).unwrap();
    assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
    journal.apply(&plan, Conflicts::Keep).unwrap();
    let wrong = differences(&before, &workspace.picture());
    assert!(wrong.iter().all(|line| line.starts_with("src/.pollux-rewind-")), "{wrong:#?}");
}

/// A file too large to be saved was moved by a call, and a rewind was killed when it had set the file aside.
fn interrupted() -> (Workspace, Journal, String) {
    let workspace = Workspace::empty();
    let large = "x".repeat(2000);
    workspace.write("large", &large);
    let journal = small_limit(&workspace);
    journal.before(&point("1"), ChangeScope::Workspace).unwrap();
    workspace.run("mkdir dir; mv large dir/moved");
    journal.after("1").unwrap();
    drop(journal);
    let events = workspace.store().join("sessions/session-1/events.jsonl");
    let mut log = fs::OpenOptions::new().append(true).open(events).unwrap();
    let open = r#"{"open":{"call":"rewind-1","prompt":"","tool":"rewind","files":[["large",null]]}}"#;
    writeln!(log, "{open}\n{{\"aside\":[[\"dir/moved\",\"large\",\"{NAME}\"]]}}").unwrap();
    fs::rename(workspace.root().join("dir/moved"), workspace.root().join(NAME)).unwrap();
    let journal = small_limit(&workspace);
    (workspace, journal, large)
}

const NAME: &str = ".pollux-rewind-0123456789abcdef-0123456789abcdef-moved";

fn small_limit(workspace: &Workspace) -> Journal {
    let limits = Limits { file: 1000, ..Limits::default() };
    Journal::open(JournalSetup { limits, ..workspace.setup() }).unwrap()
}

#[test]
fn a_file_that_a_killed_rewind_set_aside_is_put_back_and_the_rewind_can_be_repeated() {
    let (workspace, journal, large) = interrupted();
    let plan = journal.plan(&target()).unwrap();
    assert_eq!(workspace.read("dir/moved"), Some(large.clone()));
    assert!(plan.conflicts.is_empty() && plan.lost.is_empty() && plan.left.is_empty(), "{plan:?}");
    assert!(plan.steps.iter().any(|step| matches!(step.action, Action::MoveBack { .. })), "{plan:?}");
    let applied = journal.apply(&plan, Conflicts::Keep).unwrap();
    assert!(applied.failed.is_empty(), "{:?}", applied.failed);
    assert_eq!(workspace.read("large"), Some(large));
    assert_eq!(fs::read_dir(workspace.root()).unwrap().count(), 1);
}

#[test]
fn a_file_that_was_set_aside_is_put_back_before_the_next_call_of_the_session() {
    let (workspace, journal, large) = interrupted();
    journal.before(&point("2"), ChangeScope::Workspace).unwrap();
    assert_eq!(workspace.read("dir/moved"), Some(large));
}

#[test]
fn a_file_whose_folder_is_gone_goes_where_the_rewind_was_taking_it() {
    let (workspace, journal, large) = interrupted();
    fs::remove_dir(workspace.root().join("dir")).unwrap();
    let plan = journal.plan(&target()).unwrap();
    assert_eq!(workspace.read("large"), Some(large));
    assert!(plan.is_empty() && plan.left.is_empty(), "{plan:?}");
}

#[test]
fn a_file_that_cannot_be_put_back_is_reported_and_never_overwritten() {
    let (workspace, journal, large) = interrupted();
    // What versions before this one called it.
    let old = ".pollux-rewind-66c9e837c4b8a1b2-moved";
    fs::write(workspace.root().join(old), "another").unwrap();
    workspace.write("dir/moved", &"y".repeat(3000));
    workspace.write("large", "in the way");
    for _ in 0..2 {
        let plan = journal.plan(&target()).unwrap();
        assert_eq!(plan.left.iter().map(|path| path.to_str().unwrap()).collect::<Vec<_>>(), [NAME, old]);
        journal.apply(&plan, Conflicts::Overwrite).unwrap();
        assert_eq!(workspace.read(NAME).as_ref(), Some(&large));
        assert_eq!(workspace.read(old).as_deref(), Some("another"));
    }
}

#[test]
fn a_file_that_an_earlier_version_set_aside_is_found_by_the_hash_in_its_name() {
    let workspace = Workspace::empty();
    let large = "x".repeat(2000);
    workspace.write("large", &large);
    let journal = small_limit(&workspace);
    journal.before(&point("1"), ChangeScope::Workspace).unwrap();
    workspace.run("mkdir dir; mv large dir/moved");
    journal.after("1").unwrap();
    let hash: String = pollux_config::paths::sha256_hex(b"large").chars().take(16).collect();
    let name = format!(".pollux-rewind-{hash}-moved");
    fs::rename(workspace.root().join("dir/moved"), workspace.root().join(&name)).unwrap();
    let plan = journal.plan(&target()).unwrap();
    assert_eq!(workspace.read("large"), Some(large));
    assert!(plan.left.is_empty() && plan.lost.is_empty(), "{plan:?}");
}

#[test]
fn nothing_is_written_through_a_link_that_appears_after_the_plan() {
    let workspace = Workspace::empty();
    workspace.write("dir/a.txt", "old");
    fs::write(workspace.outside().join("a.txt"), "outside").unwrap();
    let journal = workspace.journal();
    journal.before(&point("1"), ChangeScope::Workspace).unwrap();
    workspace.run("echo new >dir/a.txt; echo new >dir/b.txt");
    journal.after("1").unwrap();
    let plan = journal.plan(&target()).unwrap();
    fs::rename(workspace.root().join("dir"), workspace.root().join("moved")).unwrap();
    symlink(workspace.outside(), workspace.root().join("dir")).unwrap();
    let outside = picture(&workspace.outside());
    for conflicts in [Conflicts::Keep, Conflicts::Overwrite] {
        journal.apply(&plan, conflicts).unwrap();
        assert_eq!(picture(&workspace.outside()), outside);
    }
}

#[test]
fn read_only_folders_are_filled_and_read_only_again() {
    let workspace = Workspace::empty();
    workspace.write("locked/inner/a.txt", "old");
    for folder in ["locked/inner", "locked"] {
        fs::set_permissions(workspace.root().join(folder), fs::Permissions::from_mode(0o555)).unwrap();
    }
    let before = workspace.picture();
    let journal = workspace.journal();
    journal.before(&point("1"), ChangeScope::Workspace).unwrap();
    workspace.run("chmod -R u+w locked; rm -r locked/inner; echo new >locked/new; chmod 500 locked");
    journal.after("1").unwrap();
    let plan = journal.plan(&target()).unwrap();
    let applied = journal.apply(&plan, Conflicts::Keep).unwrap();
    assert!(applied.failed.is_empty(), "{:?}", applied.failed);
    assert_eq!(differences(&before, &workspace.picture()), [""; 0]);
}

#[test]
fn only_the_user_can_read_the_store() {
    let workspace = Workspace::empty();
    workspace.write("secret", "s");
    let journal = workspace.journal();
    journal.before(&point("1"), ChangeScope::Workspace).unwrap();
    let mode = |path: &str| fs::metadata(workspace.store().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("objects"), mode("sessions/session-1")), (0o700, 0o700, 0o700));
    assert_eq!(mode("sessions/session-1/events.jsonl"), 0o600);
}
