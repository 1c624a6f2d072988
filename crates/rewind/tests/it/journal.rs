//! Journals across calls, prompts and runs of the program.

use std::fs;

use pollux_domain::id::SessionId;
use pollux_domain::tool::Effect;
use pollux_rewind::{
    Action, ChangeScope, Conflict, Conflicts, Journal, JournalSetup, Point, PruneOutcome, RewindError,
    Target, forget,
};

use crate::workspace::{Workspace, differences, point};

fn call(id: &str) -> Target {
    Target::Call(id.to_owned())
}

fn edit(journal: &Journal, workspace: &Workspace, id: &str, path: &str, text: &str) {
    journal.before(&point(id), ChangeScope::File(workspace.root().join(path))).unwrap();
    workspace.write(path, text);
    journal.after(id).unwrap();
}

fn run(journal: &Journal, workspace: &Workspace, id: &str, script: &str) {
    journal.before(&point(id), ChangeScope::Workspace).unwrap();
    workspace.run(script);
    journal.after(id).unwrap();
}

fn rewind(journal: &Journal, target: &Target) -> String {
    let plan = journal.plan(target).unwrap();
    assert!(plan.conflicts.is_empty() && plan.lost.is_empty(), "{plan:?}");
    journal.apply(&plan, Conflicts::Keep).unwrap().undo
}

#[test]
fn an_edit_is_reverted_with_the_folders_created_for_it() {
    let workspace = Workspace::empty();
    workspace.write("a.txt", "old");
    let before = workspace.picture();
    let journal = workspace.journal();
    edit(&journal, &workspace, "1", "a.txt", "new");
    edit(&journal, &workspace, "2", "made/deep/b.txt", "b");
    let changed: Vec<_> = journal.points().into_iter().map(|summary| summary.changed.len()).collect();
    assert_eq!(changed, [1, 3]);
    rewind(&journal, &call("1"));
    assert_eq!(differences(&before, &workspace.picture()), [""; 0]);
}

#[test]
fn edits_and_commands_are_rewound_together_to_any_prompt() {
    let workspace = Workspace::empty();
    workspace.write("a.txt", "zero");
    let journal = workspace.journal();
    let mut pictures = Vec::new();
    for prompt in ["p1", "p2", "p3"] {
        journal.prompt(prompt).unwrap();
        pictures.push((prompt, workspace.picture()));
        edit(&journal, &workspace, &format!("{prompt}-edit"), "a.txt", prompt);
        run(
            &journal,
            &workspace,
            &format!("{prompt}-run"),
            &format!("echo {prompt} >>b.txt; mkdir d-{prompt}"),
        );
    }
    for (prompt, picture) in pictures.into_iter().rev() {
        rewind(&journal, &Target::Prompt(prompt.to_owned()));
        assert_eq!(differences(&picture, &workspace.picture()), [""; 0], "{prompt}");
    }
}

#[test]
fn a_prompt_without_changes_can_be_rewound_to() {
    let workspace = Workspace::empty();
    let journal = workspace.journal();
    journal.prompt("quiet").unwrap();
    journal.prompt("busy").unwrap();
    edit(&journal, &workspace, "1", "a.txt", "a");
    rewind(&journal, &Target::Prompt("quiet".to_owned()));
    assert_eq!(workspace.read("a.txt"), None);
    let missing = journal.plan(&Target::Prompt("never".to_owned())).unwrap_err();
    assert!(matches!(missing, RewindError::UnknownTarget(_)));
}

#[test]
fn a_rewind_can_be_undone_and_redone() {
    let workspace = Workspace::empty();
    workspace.write("a.txt", "old");
    let journal = workspace.journal();
    run(&journal, &workspace, "1", "echo new >a.txt; echo b >b.txt");
    let after = workspace.picture();
    let undo = rewind(&journal, &call("1"));
    assert_eq!(workspace.read("a.txt").as_deref(), Some("old"));
    let redo = rewind(&journal, &call(&undo));
    assert_eq!(differences(&after, &workspace.picture()), [""; 0]);
    rewind(&journal, &call(&redo));
    assert_eq!(workspace.read("b.txt"), None);
    assert!(journal.plan(&call("1")).unwrap().is_empty());
}

#[test]
fn changes_by_others_are_kept_unless_overwritten() {
    let workspace = Workspace::empty();
    for name in ["mine.txt", "both.txt", "later.txt"] {
        workspace.write(name, "old");
    }
    let journal = workspace.journal();
    run(&journal, &workspace, "1", "echo agent >both.txt; echo agent >later.txt");
    workspace.write("mine.txt", "by hand");
    workspace.write("both.txt", "by hand");
    run(&journal, &workspace, "2", "echo agent >both.txt");
    workspace.write("later.txt", "by hand");
    let plan = journal.plan(&call("1")).unwrap();
    let conflicts: Vec<_> =
        plan.conflicts.iter().map(|step| (step.path().to_owned(), step.conflict)).collect();
    let by_others = Some(Conflict::ChangedByOthers);
    assert_eq!(conflicts, [("both.txt".into(), by_others), ("later.txt".into(), by_others)]);
    journal.apply(&plan, Conflicts::Keep).unwrap();
    assert_eq!(workspace.read("later.txt").as_deref(), Some("by hand"));
    let undo = journal.apply(&plan, Conflicts::Overwrite).unwrap().undo;
    assert_eq!(workspace.read("later.txt").as_deref(), Some("old"));
    assert_eq!(workspace.read("mine.txt").as_deref(), Some("by hand"), "the agent never touched it");
    rewind(&journal, &call(&undo));
    assert_eq!(workspace.read("later.txt").as_deref(), Some("by hand"), "what was overwritten was saved");
}

#[test]
fn a_change_between_plan_and_rewind_is_kept() {
    let workspace = Workspace::empty();
    workspace.write("a.txt", "old");
    let journal = workspace.journal();
    edit(&journal, &workspace, "1", "a.txt", "new");
    let plan = journal.plan(&call("1")).unwrap();
    workspace.write("a.txt", "by hand");
    let applied = journal.apply(&plan, Conflicts::Keep).unwrap();
    assert_eq!((applied.restored, applied.kept.len()), (0, 1));
    assert_eq!(workspace.read("a.txt").as_deref(), Some("by hand"));
}

#[test]
fn a_new_folder_with_files_of_others_stays() {
    let workspace = Workspace::empty();
    let journal = workspace.journal();
    run(&journal, &workspace, "1", "mkdir made; echo a >made/agent.txt");
    workspace.write("made/mine.txt", "mine");
    let plan = journal.plan(&call("1")).unwrap();
    let applied = journal.apply(&plan, Conflicts::Keep).unwrap();
    assert_eq!(applied.kept, [pollux_rewind::KeptPath::NotEmpty("made".into())]);
    assert_eq!(workspace.read("made/mine.txt").as_deref(), Some("mine"));
    assert_eq!(workspace.read("made/agent.txt"), None);
}

#[test]
fn a_file_in_a_folder_removed_by_others_is_restored_with_overwrite() {
    let workspace = Workspace::empty();
    workspace.write("dir/deep/a.txt", "old");
    let journal = workspace.journal();
    edit(&journal, &workspace, "1", "dir/deep/a.txt", "new");
    fs::remove_dir_all(workspace.root().join("dir")).unwrap();
    let plan = journal.plan(&call("1")).unwrap();
    assert_eq!((plan.steps.len(), plan.conflicts.len()), (0, 1));
    journal.apply(&plan, Conflicts::Overwrite).unwrap();
    assert_eq!(workspace.read("dir/deep/a.txt").as_deref(), Some("old"));
}

#[test]
fn a_later_run_of_the_program_can_rewind() {
    let workspace = Workspace::empty();
    workspace.write("a.txt", "old");
    let before = workspace.picture();
    run(&workspace.journal(), &workspace, "1", "rm a.txt; mkdir d; ln -s a d/l");
    let journal = workspace.journal();
    rewind(&journal, &call("1"));
    assert_eq!(differences(&before, &workspace.picture()), [""; 0]);
}

#[test]
fn after_a_crash_during_a_command_a_rewind_reports_conflicts() {
    let workspace = Workspace::empty();
    workspace.write("a.txt", "old");
    let journal = workspace.journal();
    journal.before(&point("1"), ChangeScope::Workspace).unwrap();
    workspace.run("rm a.txt; echo b >b.txt");
    drop(journal);
    let journal = workspace.journal();
    let plan = journal.plan(&call("1")).unwrap();
    assert!(plan.steps.is_empty());
    assert!(plan.conflicts.iter().all(|step| step.conflict == Some(Conflict::Unsure)));
    journal.apply(&plan, Conflicts::Overwrite).unwrap();
    assert_eq!((workspace.read("a.txt").as_deref(), workspace.read("b.txt")), (Some("old"), None));
}

#[test]
fn a_torn_last_line_costs_only_itself() {
    let workspace = Workspace::empty();
    workspace.write("a.txt", "old");
    edit(&workspace.journal(), &workspace, "1", "a.txt", "new");
    let log = workspace.store().join("sessions/session-1/events.jsonl");
    let mut text = fs::read_to_string(&log).unwrap();
    text.push_str("{\"close\":{\"call\":\"2\",\"unsu");
    fs::write(&log, text).unwrap();
    let journal = workspace.journal();
    edit(&journal, &workspace, "3", "a.txt", "newer");
    drop(journal);
    rewind(&workspace.journal(), &call("1"));
    assert_eq!(workspace.read("a.txt").as_deref(), Some("old"));
}

#[test]
fn a_broken_line_costs_no_later_point_even_when_another_session_is_deleted() {
    let workspace = Workspace::empty();
    workspace.write("a.txt", "old");
    workspace.write("b.txt", "old");
    let journal = workspace.journal();
    edit(&journal, &workspace, "1", "a.txt", "new");
    edit(&journal, &workspace, "2", "b.txt", "new");
    drop(journal);
    let log = workspace.store().join("sessions/session-1/events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    // The second line is glued to the third, as after a write that found the disk full.
    let lines: Vec<&str> = text.lines().collect();
    let (half, _) = lines[1].split_at(lines[1].len() / 2);
    let glued = format!("{}\n{half}{}\n{}\n", lines[0], lines[2], lines[3]);
    fs::write(&log, &glued).unwrap();
    forget_when_free(&workspace, "session-1");
    assert_eq!(fs::read_to_string(&log).unwrap(), glued);
    let journal = workspace.journal();
    edit(&journal, &workspace, "3", "b.txt", "newer");
    drop(journal);
    rewind(&workspace.journal(), &call("3"));
    assert_eq!(workspace.read("b.txt").as_deref(), Some("new"));
    assert!(fs::read_to_string(&log).unwrap().starts_with(&glued));
}

#[test]
fn concurrent_calls_do_not_conflict_with_each_other() {
    let workspace = Workspace::empty();
    workspace.write("a.txt", "a");
    workspace.write("b.txt", "b");
    let before = workspace.picture();
    let journal = workspace.journal();
    journal.before(&point("command"), ChangeScope::Workspace).unwrap();
    workspace.write("a.txt", "command");
    journal.before(&point("other command"), ChangeScope::Workspace).unwrap();
    journal.before(&point("edit"), ChangeScope::File(workspace.root().join("b.txt"))).unwrap();
    workspace.write("b.txt", "edit");
    workspace.write("c.txt", "command");
    for id in ["edit", "command", "other command"] {
        journal.after(id).unwrap();
    }
    rewind(&journal, &call("command"));
    assert_eq!(differences(&before, &workspace.picture()), [""; 0]);
}

#[test]
fn the_plan_says_what_it_would_do() {
    let workspace = Workspace::empty();
    for name in ["gone", "changed", "chmod"] {
        workspace.write(name, name);
    }
    let journal = workspace.journal();
    run(&journal, &workspace, "1", "rm gone; echo x >changed; chmod 600 chmod; echo n >new");
    let plan = journal.plan(&call("1")).unwrap();
    let steps: Vec<_> = plan.steps.iter().map(|step| (step.path().to_str().unwrap(), &step.action)).collect();
    let wanted = [
        ("changed", &Action::Overwrite),
        ("chmod", &Action::Chmod),
        ("gone", &Action::Create),
        ("new", &Action::Delete),
    ];
    assert_eq!(steps, wanted);
}

#[test]
fn the_change_scope_follows_the_effect() {
    let execute = Effect::Execute { command: "ls".to_owned(), directory: "/p".into() };
    assert_eq!(ChangeScope::of(&execute, true), ChangeScope::Nothing);
    assert_eq!(ChangeScope::of(&execute, false), ChangeScope::Workspace);
    assert_eq!(ChangeScope::of(&Effect::Edit("/p/a".into()), false), ChangeScope::File("/p/a".into()));
    let workspace = Workspace::empty();
    let journal = workspace.journal();
    journal.before(&point("1"), ChangeScope::Nothing).unwrap();
    assert_eq!(journal.after("1").unwrap(), 0);
    assert!(journal.points().is_empty());
}

#[test]
fn pruned_sessions_free_their_contents_and_others_keep_theirs() {
    let workspace = Workspace::empty();
    let open = |name: &str| {
        let session = SessionId::from_file(name);
        Journal::open(JournalSetup { session, ..workspace.setup() }).unwrap()
    };
    workspace.write("a.txt", "old");
    let kept = open("kept");
    edit(&kept, &workspace, "1", "a.txt", "new");
    let gone = open("gone");
    edit(&gone, &workspace, "2", "b.txt", "only in the other session");
    assert_eq!(forget(&workspace.store(), |_| false).unwrap(), PruneOutcome::InUse);
    drop((kept, gone));
    forget_when_free(&workspace, "kept");
    assert!(!workspace.store().join("sessions/gone").exists());
    rewind(&open("kept"), &call("1"));
    assert_eq!(workspace.read("a.txt").as_deref(), Some("old"));
    forget_when_free(&workspace, "none");
    let left = fs::read_dir(workspace.store().join("objects")).unwrap();
    let objects = left.flat_map(|shard| fs::read_dir(shard.unwrap().path()).unwrap()).count();
    assert_eq!(objects, 0);
}

/// A child that another test is just starting has a copy of every handle for a moment.
fn forget_when_free(workspace: &Workspace, kept: &str) {
    for _ in 0..500 {
        if forget(&workspace.store(), |session| session.as_str() == kept).unwrap() == PruneOutcome::Done {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the store is still in use");
}

#[test]
fn points_carry_their_prompt_and_tool() {
    let workspace = Workspace::empty();
    let journal = workspace.journal();
    let point = Point { call: "c".to_owned(), prompt: "p".to_owned(), tool: "write_file".to_owned() };
    journal.before(&point, ChangeScope::File(workspace.root().join("a"))).unwrap();
    assert_eq!(journal.points()[0].point, point);
}
