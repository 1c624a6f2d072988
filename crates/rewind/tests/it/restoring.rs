//! Restoring under interruption, damage and hostile changes.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use pollux_rewind::{ChangeScope, Conflicts, Target};

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
