//! Each destructive script is fully reverted.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pollux_domain::id::SessionId;
use pollux_rewind::{ChangeScope, Conflicts, Journal, JournalSetup, Target};

use crate::workspace::{Workspace, differences, picture, point};

/// Fewer would not be worth the claim.
const AT_LEAST: usize = 200;
const THREADS: usize = 4;

struct Script {
    name: String,
    text: String,
}

/// Blocks of `### name` and the script that follows.
fn scripts() -> Vec<Script> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/destructive.txt");
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("\n### ").skip(1);
    blocks
        .map(|block| {
            let (name, text) = block.split_once('\n').unwrap();
            Script { name: name.trim().to_owned(), text: text.to_owned() }
        })
        .collect()
}

/// The failure of a script, if any.
fn rewinds(number: usize, script: &Script, store: &Path) -> Result<(), String> {
    let workspace = Workspace::full();
    let before = workspace.picture();
    let session = SessionId::from_file(format!("script-{number}"));
    let setup = JournalSetup { session, store: store.to_owned(), ..workspace.setup() };
    let journal = Journal::open(setup).map_err(|error| error.to_string())?;
    let coverage =
        journal.before(&point("call-1"), ChangeScope::Workspace).map_err(|error| error.to_string())?;
    if !coverage.uncovered.is_empty() {
        return Err(format!("not covered: {:?}", coverage.uncovered));
    }
    workspace.run(&script.text);
    let damaged = workspace.picture();
    if damaged == before {
        return Err("the script changed nothing".to_owned());
    }
    journal.after("call-1").map_err(|error| error.to_string())?;
    let outside = picture(&workspace.outside());
    let plan = journal.plan(&Target::Call("call-1".to_owned())).map_err(|error| error.to_string())?;
    if !plan.lost.is_empty() || !plan.conflicts.is_empty() {
        return Err(format!("lost {:?}, conflicts {:?}", plan.lost, plan.conflicts));
    }
    let applied = journal.apply(&plan, Conflicts::Keep).map_err(|error| error.to_string())?;
    if !applied.failed.is_empty() || !applied.kept.is_empty() {
        return Err(format!("failed {:?}, kept {:?}", applied.failed, applied.kept));
    }
    let wrong = differences(&before, &workspace.picture());
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    if picture(&workspace.outside()) != outside {
        return Err("the rewind touched what is outside the workspace".to_owned());
    }
    let undo = journal.plan(&Target::Call(applied.undo)).map_err(|error| error.to_string())?;
    // The root itself is never removed.
    if undo.lost.is_empty() && damaged.contains_key(b"".as_slice()) {
        journal.apply(&undo, Conflicts::Keep).map_err(|error| error.to_string())?;
        let wrong = differences(&damaged, &workspace.picture());
        if !wrong.is_empty() {
            return Err(format!("undone: {}", wrong.join("\n")));
        }
    }
    Ok(())
}

#[test]
fn a_rewind_restores_every_byte_and_mode_after_each_destructive_script() {
    let scripts = scripts();
    assert!(scripts.len() >= AT_LEAST, "only {} scripts", scripts.len());
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // Sessions of one project share a store.
                let store = tempfile::tempdir().unwrap();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(script) = scripts.get(number) else { return };
                    if let Err(why) = rewinds(number, script, store.path()) {
                        failures.lock().unwrap().push(format!("{}: {why}", script.name));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), scripts.len(), failures.join("\n"));
}

#[test]
fn script_names_are_unique() {
    let mut names: Vec<String> = scripts().into_iter().map(|script| script.name).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}
