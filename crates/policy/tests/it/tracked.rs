//! What git shows without naming it: tracked secrets, secrets that the line adds, and addresses with a token.

use std::path::{Path, PathBuf};

use pollux_domain::approval::ApprovalMode;
use pollux_policy::engine::Engine;

use crate::everyday::{decide_in, options_in, shipped_in, with_rules_in, write};
use crate::lines::{TRACKED, rows, unescape};
use crate::reads::{REMOTE, SECRET};

const RULE: &str = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"git\", \"sed\", \"mv\"]\ndecision = \"allow\"\npriority = 100\n";

/// An index of version 2 with these paths.
fn index(paths: &[&str]) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(paths.len()).unwrap().to_be_bytes());
    for path in paths {
        let start = bytes.len();
        bytes.extend([0; 24]);
        bytes.extend(0o100_644_u32.to_be_bytes());
        bytes.extend([0; 34]);
        bytes.extend(path.bytes());
        bytes.push(0);
        bytes.resize(start + (bytes.len() - start).next_multiple_of(8), 0);
    }
    bytes.extend([0; 20]);
    bytes
}

#[expect(clippy::disallowed_methods, reason = "a test file")]
fn repository(root: &Path, name: &str, tracked: &[&str], ignored: &str) -> PathBuf {
    let project = root.canonicalize().unwrap().join(name);
    write(&project.join(".git/HEAD"), "ref: refs/heads/main\n");
    write(&project.join(".git/config"), "[remote \"origin\"]\n\turl = https://h/x.git\n");
    write(&project.join("src/lib.rs"), "x\n");
    write(&project.join("conf/.env"), SECRET);
    write(&project.join(".gitignore"), ignored);
    std::fs::write(project.join(".git/index"), index(tracked)).unwrap();
    project
}

fn decision(engine: &Engine, project: &Path, command: &str) -> String {
    decide_in(engine, project, command, ApprovalMode::Default, true).decision.as_str().to_owned()
}

#[test]
fn what_git_shows_is_judged_by_its_index_and_configuration() {
    let root = tempfile::tempdir().unwrap();
    let places = [
        repository(root.path(), "tracked", &[".gitignore", "conf/.env", "src/lib.rs"], ".env\n"),
        repository(root.path(), "added", &[".gitignore", "src/lib.rs"], "/target\n"),
        repository(root.path(), "ignored", &[".gitignore", "src/lib.rs"], "/target\n.env\n"),
    ];
    write(&places[0].join(".git/config"), REMOTE);
    let engines = places.each_ref().map(|project| with_rules_in(RULE, options_in(project)));
    let mut wrong = Vec::new();
    for (number, fields) in rows(TRACKED) {
        let command = unescape(fields[3]);
        for (at, project) in places.iter().enumerate() {
            let found = decision(&engines[at], project, &command);
            if found != fields[at] {
                let why = decide_in(&engines[at], project, &command, ApprovalMode::Default, true).reason;
                wrong.push(format!("{number}: {command:?} in {}: {found}: {why}", project.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} decisions not as written:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn tracked_secrets_need_approval_without_rules_and_unless_a_rule_names_the_command() {
    let root = tempfile::tempdir().unwrap();
    let project = repository(root.path(), "tracked", &["conf/.env", "src/lib.rs"], "");
    let shipped = shipped_in(options_in(&project));
    assert_eq!(decision(&shipped, &project, "git diff"), "ask");
    assert_eq!(decision(&shipped, &project, "git log -p"), "ask");
    assert_eq!(decision(&shipped, &project, "git diff --stat && git log"), "allow");
    assert_eq!(decision(&shipped, &project, "git diff -- src"), "allow");
    let rule = RULE.replace("\"git\"", "\"git diff\"");
    let named = with_rules_in(&rule, options_in(&project));
    assert_eq!(decision(&named, &project, "git diff"), "allow");
    assert_eq!(decision(&named, &project, "git diff HEAD"), "ask");
}

#[test]
fn ignore_patterns_apply_only_if_they_are_certain_to_match() {
    for (ignored, expected) in [
        (".env", "allow"),
        ("/conf/.env", "allow"),
        ("conf/.env", "allow"),
        ("conf", "allow"),
        ("conf/", "allow"),
        ("**/.env", "allow"),
        (".env*", "allow"),
        (".e??", "allow"),
        ("/.env", "ask"),
        ("env", "ask"),
        ("# .env", "ask"),
        (".[e]nv", "ask"),
        (".env/", "ask"),
        (".env\n!.env", "ask"),
        (".env\n!conf/.e*", "ask"),
        (".env\n!conf/", "allow"),
        (".env\n!README.md", "allow"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let project = repository(root.path(), "x", &["src/lib.rs"], ignored);
        let engine = with_rules_in(RULE, options_in(&project));
        assert_eq!(decision(&engine, &project, "git add . && git diff --cached"), expected, "{ignored:?}");
    }
}
