//! Files that are not covered are reported and left alone.

use std::fs;
use std::os::unix::fs::symlink;

use pollux_rewind::{
    Action, ChangeScope, Conflict, Conflicts, Coverage, Journal, JournalSetup, Limits, Reason, Target,
};

use crate::workspace::{Workspace, differences, picture, point};

fn journal(workspace: &Workspace, limits: Limits) -> Journal {
    Journal::open(JournalSetup { limits, ..workspace.setup() }).unwrap()
}

fn reasons(coverage: &Coverage) -> Vec<(String, Reason)> {
    let pair = |thing: &pollux_rewind::Uncovered| (thing.path.display().to_string(), thing.reason);
    coverage.uncovered.iter().map(pair).collect()
}

fn target() -> Target {
    Target::Call("1".to_owned())
}

/// Runs one command and rewinds; returns what was lost.
fn rewound(journal: &Journal, workspace: &Workspace, script: &str) -> Vec<String> {
    journal.before(&point("1"), ChangeScope::Workspace).unwrap();
    workspace.run(script);
    journal.after("1").unwrap();
    let plan = journal.plan(&target()).unwrap();
    journal.apply(&plan, Conflicts::Keep).unwrap();
    plan.lost.iter().map(|thing| thing.path.display().to_string()).collect()
}

#[test]
fn files_at_the_size_limit_are_kept_and_larger_ones_reported() {
    let workspace = Workspace::empty();
    workspace.write("fits", &"x".repeat(1000));
    workspace.write("large", &"x".repeat(1001));
    let journal = journal(&workspace, Limits { file: 1000, ..Limits::default() });
    let coverage = journal.before(&point("0"), ChangeScope::Workspace).unwrap();
    assert_eq!(reasons(&coverage), [("large".to_owned(), Reason::TooLarge)]);
    assert!(coverage.notice().unwrap().contains("`large`"));
    let again = journal.before(&point("00"), ChangeScope::Workspace).unwrap();
    assert_eq!(again.notice(), None, "said once");
    assert_eq!(rewound(&journal, &workspace, "rm fits large"), ["large"]);
    assert_eq!(workspace.read("fits").map(|text| text.len()), Some(1000));
}

#[test]
fn a_large_file_that_was_moved_or_got_another_mode_is_put_back() {
    let workspace = Workspace::empty();
    workspace.write("dir/large", &"x".repeat(2000));
    workspace.write("other", &"y".repeat(2000));
    let before = workspace.picture();
    let journal = journal(&workspace, Limits { file: 1000, ..Limits::default() });
    let lost = rewound(&journal, &workspace, "mkdir new; mv dir/large new/moved; rmdir dir; chmod 600 other");
    assert_eq!(lost, [""; 0]);
    assert_eq!(differences(&before, &workspace.picture()), [""; 0]);
}

#[test]
fn after_a_loss_nothing_that_cannot_be_saved_is_deleted() {
    let workspace = Workspace::empty();
    workspace.write("large", &"x".repeat(2000));
    let journal = journal(&workspace, Limits { file: 1000, ..Limits::default() });
    journal.before(&point("1"), ChangeScope::Workspace).unwrap();
    workspace.run("cat large large >copy; rm large");
    journal.after("1").unwrap();
    let plan = journal.plan(&target()).unwrap();
    assert_eq!(plan.conflicts[0].conflict, Some(Conflict::CannotBeSaved));
    assert_eq!(plan.conflicts[0].action, Action::Delete);
    journal.apply(&plan, Conflicts::Keep).unwrap();
    assert!(workspace.read("copy").is_some());
}

#[test]
fn a_full_tree_keeps_what_fits() {
    let workspace = Workspace::empty();
    for name in ["a", "b", "c"] {
        workspace.write(name, &"x".repeat(400));
    }
    workspace.write("d", "small");
    let journal = journal(&workspace, Limits { tree: 1000, ..Limits::default() });
    let coverage = journal.before(&point("0"), ChangeScope::Workspace).unwrap();
    assert_eq!(reasons(&coverage), [("c".to_owned(), Reason::TreeFull)]);
    assert_eq!(rewound(&journal, &workspace, "rm *"), ["c"]);
    assert_eq!(workspace.read("d").as_deref(), Some("small"));
}

#[test]
fn a_full_store_is_reported_and_harmless() {
    let workspace = Workspace::empty();
    workspace.write("a", "first");
    let journal = journal(&workspace, Limits { store: 8, ..Limits::default() });
    journal.before(&point("0"), ChangeScope::Workspace).unwrap();
    workspace.write("b", "does not fit any more");
    let coverage = journal.before(&point("00"), ChangeScope::Workspace).unwrap();
    assert_eq!(reasons(&coverage), [("b".to_owned(), Reason::StoreFull)]);
    assert_eq!(rewound(&journal, &workspace, "rm a b"), ["b"]);
    assert_eq!(workspace.read("a").as_deref(), Some("first"));
}

#[test]
fn beyond_the_entry_limit_nothing_is_deleted_and_scanned_files_are_restored() {
    let workspace = Workspace::empty();
    workspace.write("top", "top");
    for number in 0..20 {
        workspace.write(&format!("many/{number}"), "many");
    }
    let journal = journal(&workspace, Limits { entries: 10, ..Limits::default() });
    let coverage = journal.before(&point("0"), ChangeScope::Workspace).unwrap();
    assert_eq!(reasons(&coverage), [("many".to_owned(), Reason::TooMany)]);
    assert!(rewound(&journal, &workspace, "rm top many/1?; echo n >new").is_empty());
    assert_eq!(workspace.read("top").as_deref(), Some("top"));
    assert_eq!(workspace.read("new"), None);
    assert!(workspace.read("many/3").is_some(), "not seen before, so not taken for new");
}

#[test]
fn too_many_new_files_do_not_hide_a_loss() {
    let workspace = Workspace::empty();
    workspace.write("z/deep/file", "kept");
    let journal = journal(&workspace, Limits { entries: 10, ..Limits::default() });
    rewound(&journal, &workspace, "for i in $(seq 30); do echo $i >n$i; done; echo changed >z/deep/file");
    assert_eq!(workspace.read("z/deep/file").as_deref(), Some("kept"));
}

#[test]
fn caches_are_neither_recorded_nor_touched() {
    let workspace = Workspace::empty();
    workspace.write("node_modules/pkg/index.js", "js");
    workspace.write("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n# cargo");
    workspace.write("target/debug/app", "app");
    workspace.write("target-like/CACHEDIR.TAG", "not the signature");
    let journal = workspace.journal();
    let coverage = journal.before(&point("0"), ChangeScope::Workspace).unwrap();
    let skipped = ["node_modules", "target"].map(|name| (name.to_owned(), Reason::Skipped));
    assert_eq!((reasons(&coverage), coverage.notice()), (skipped.to_vec(), None));
    let script =
        "rm -r node_modules target-like; echo new >target/debug/new; mkdir sub; mkdir sub/node_modules";
    assert!(rewound(&journal, &workspace, script).is_empty());
    assert!(!workspace.root().join("node_modules").exists());
    assert!(workspace.root().join("sub/node_modules").exists());
    assert_eq!(workspace.read("target/debug/new").as_deref(), Some("new\n"));
    assert!(workspace.read("target-like/CACHEDIR.TAG").is_some());
}

#[test]
fn large_packs_survive_the_deletion_of_the_repository() {
    let workspace = Workspace::empty();
    workspace.write(".git/objects/pack/pack-1.pack", &"p".repeat(5000));
    workspace.write(".git/HEAD", "ref: refs/heads/main\n");
    let before = workspace.picture();
    let journal = journal(&workspace, Limits { file: 1000, ..Limits::default() });
    let coverage = journal.before(&point("0"), ChangeScope::Workspace).unwrap();
    assert_eq!(reasons(&coverage), []);
    assert!(rewound(&journal, &workspace, "rm -rf .git").is_empty());
    assert_eq!(differences(&before, &workspace.picture()), [""; 0]);
}

#[test]
fn the_programs_own_state_is_never_recorded_or_restored() {
    let workspace = Workspace::empty();
    let own = workspace.root().join(".gemini/tmp");
    let setup =
        JournalSetup { store: own.join("project/rewind"), never: vec![own.clone()], ..workspace.setup() };
    workspace.write(".gemini/tmp/state", "one");
    workspace.write(".gemini/settings.json", "{}");
    let journal = Journal::open(setup).unwrap();
    rewound(
        &journal,
        &workspace,
        "echo two >.gemini/tmp/state; echo x >.gemini/tmp/new; rm .gemini/settings.json",
    );
    assert_eq!(workspace.read(".gemini/tmp/state").as_deref(), Some("two\n"));
    assert!(workspace.read(".gemini/tmp/new").is_some());
    assert_eq!(workspace.read(".gemini/settings.json").as_deref(), Some("{}"));
}

#[test]
fn a_file_outside_the_root_is_reported_and_not_touched() {
    let workspace = Workspace::empty();
    symlink(workspace.outside(), workspace.root().join("out")).unwrap();
    let journal = workspace.journal();
    for path in [workspace.outside().join("x"), workspace.root().join("out/x"), workspace.root().join("../y")]
    {
        let coverage = journal.before(&point("1"), ChangeScope::File(path.clone())).unwrap();
        assert_eq!(reasons(&coverage), [(path.display().to_string(), Reason::Outside)]);
    }
    fs::write(workspace.outside().join("x"), "x").unwrap();
    journal.after("1").unwrap();
    assert!(journal.points().is_empty());
    assert_eq!(picture(&workspace.outside()).len(), 2);
}
