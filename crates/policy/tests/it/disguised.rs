//! Files that are not what a command's words say: repositories made of ordinary files, and patterns that match protected
//! files and links.

use std::os::unix::fs::symlink;
use std::path::Path;

use pollux_domain::approval::ApprovalMode;
use pollux_policy::engine::Engine;
use pollux_policy::load::{Sources, load};
use pollux_policy::request::Decision;

use crate::everyday::{decide_in, with_rules_in, write};
use crate::reads::{Hostile, hostile};

const RULES: &str = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"cp\", \"tee\", \"touch\", \
                     \"sed -i\"]\ndecision = \"allow\"\npriority = 100\n";

/// A project without a repository of its own.
fn project() -> Hostile {
    let place = hostile();
    std::fs::remove_dir_all(place.project.join(".git")).unwrap();
    place
}

fn make_repository(folder: &Path) {
    for file in ["HEAD", "config", "objects/x", "refs/x"] {
        write(&folder.join(file), "x\n");
    }
}

fn is_asked(engine: &Engine, folder: &Path, command: &str) -> bool {
    decide_in(engine, folder, command, ApprovalMode::AutoEdit, true).decision == Decision::Ask
}

#[test]
fn git_asks_wherever_it_would_find_a_repository_of_ordinary_files() {
    let place = project();
    let engine = load(&Sources::default(), place.options());
    assert!(!is_asked(&engine, &place.project, "git status"));
    let bare = place.project.join("bare");
    make_repository(&bare);
    let deep = bare.join("a/".repeat(70));
    write(&deep.join("x"), "x\n");
    let is_deep = format!("cd bare/{} && git status", "a/".repeat(70));
    assert!(is_asked(&engine, &place.project, &is_deep));
    // An empty folder of this name hides nothing from git.
    std::fs::create_dir(bare.join(".git")).unwrap();
    assert!(is_asked(&engine, &place.project, "cd bare && git status"));
    make_repository(&place.project);
    assert!(is_asked(&engine, &place.project, "git status"));
    // Nor does a folder with only some of a repository's files.
    write(&place.project.join(".git/HEAD"), "ref: refs/heads/main\n");
    assert!(is_asked(&engine, &place.project, "git status"));
    write(&place.project.join(".git/objects/info/x"), "");
    write(&place.project.join(".git/refs/heads/main"), "");
    assert!(!is_asked(&engine, &place.project, "git status"));
}

#[test]
fn a_rule_covers_no_protected_file_that_a_pattern_matches() {
    let place = hostile();
    write(&place.project.join(".git/hooks/pre-commit"), "x\n");
    write(&place.project.join(".gemini/settings.json"), "{}\n");
    write(&place.project.join("Cargo.toml"), "x\n");
    let engine = with_rules_in(RULES, place.options());
    for command in [
        "cp a .gi[t]/config",
        "cp a .g*/config",
        "cp -t .gi[t] config",
        "tee .gi?/hooks/pre-commit",
        "cp a .gemin?/settings.json",
        "tee Cargo.tom?",
        "sed -i s/a/b/ .gi[t]/config",
    ] {
        assert!(is_asked(&engine, &place.project, command), "{command}");
    }
    for command in ["touch b", "cp a b", "tee src/ma?n.rs", "touch *.txt"] {
        assert!(!is_asked(&engine, &place.project, command), "{command}");
    }
}

#[test]
fn a_rule_covers_no_link_that_a_pattern_matches_and_that_leads_outside() {
    let place = hostile();
    symlink(place.home.join("outside"), place.project.join("link.txt")).unwrap();
    let engine = with_rules_in(RULES, place.options());
    for command in ["touch link.txt", "touch lin?.txt", "tee *.txt"] {
        assert!(is_asked(&engine, &place.project, command), "{command}");
    }
}

#[test]
fn a_folder_that_each_run_of_a_loop_leaves_is_not_known() {
    let place = hostile();
    let engine = load(&Sources::default(), place.options());
    let folder = place.project.join("a1/b/c");
    write(&folder.join("x"), "x\n");
    assert!(is_asked(&engine, &folder, "for i in 1 2 3 4; do cd ..; done; cat outside/passwd"));
    assert!(!is_asked(&engine, &folder, "cd ..; cat x"));
}

#[test]
fn git_needs_approval_in_a_folder_that_is_not_known() {
    let place = hostile();
    let engine = load(&Sources::default(), place.options());
    let cd = |at: usize| format!("cd {}/d{at}; ", place.project.display());
    let many: String = (0..9).map(cd).collect();
    assert!(is_asked(&engine, &place.project, &format!("{many}git status")));
    assert!(!is_asked(&engine, &place.project, &format!("{}git status", cd(1))));
    assert!(is_asked(&engine, &place.project, "pushd sub; popd; git status"));
}

#[test]
fn nohup_needs_approval_where_its_output_follows_a_link() {
    let place = hostile();
    let engine = with_rules_in(&RULES.replace("\"cp\"", "\"seq\""), place.options());
    for command in ["nohup echo x", "nohup seq 3", "nohup touch b"] {
        assert!(!is_asked(&engine, &place.project, command), "{command}");
    }
    symlink("Makefile", place.project.join("nohup.out")).unwrap();
    for command in ["nohup echo x", "nohup seq 3", "nohup touch b"] {
        assert!(is_asked(&engine, &place.project, command), "{command}");
    }
}

#[test]
fn nohup_needs_approval_where_it_would_write_to_the_home_directory() {
    let place = hostile();
    let engine = with_rules_in(&RULES.replace("\"cp\"", "\"seq\""), place.options());
    write(&place.project.join("nohup.out"), "x\n");
    assert!(!is_asked(&engine, &place.project, "nohup seq 3"));
    let file = place.project.join("nohup.out");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
    assert!(is_asked(&engine, &place.project, "nohup seq 3"));
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert!(is_asked(&engine, &place.project, "nohup seq 3"));
}

#[test]
fn a_folder_that_is_not_known_is_reported_as_such() {
    let place = hostile();
    let engine = with_rules_in(RULES, place.options());
    let reason = |line: &str| decide_in(&engine, &place.project, line, ApprovalMode::AutoEdit, true).reason;
    for command in ["cat a", "cat *.md", "touch a", "touch *.md", "nohup ls", "touch b && cat a"] {
        let line = &format!("pushd sub; popd; {command}");
        let why = reason(line);
        assert!(why.contains("not known until the command runs"), "{line}: {why}");
        assert!(!why.contains("outside the workspace"), "{line}: {why}");
    }
    assert!(reason("cat ../x").contains("outside the workspace"));
}
