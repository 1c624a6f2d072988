//! What git shows without naming it: tracked secrets, secrets that the line adds, and addresses with a token.

use std::path::{Path, PathBuf};

use pollux_domain::approval::ApprovalMode;
use pollux_policy::engine::{Engine, Options};

use crate::everyday::{decide_in, options_in, shipped_in, with_rules_in, write};
use crate::lines::{TRACKED, rows, unescape};
use crate::reads::{REMOTE, SECRET};

const RULE: &str = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"git\", \"sed\", \"mv\"]\ndecision = \"allow\"\npriority = 100\n";

const SUBMODULE: &str = "sub";
const COMMIT: &str = "0123456789012345678901234567890123456789\n";

/// A path that the index has as a link.
const LINK: &str = "out";

/// An index of version 2 with these paths.
fn index(paths: &[&str]) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(paths.len()).unwrap().to_be_bytes());
    for path in paths {
        let start = bytes.len();
        bytes.extend([0; 24]);
        let mode: u32 = match *path {
            SUBMODULE => 0o160_000,
            LINK => 0o120_000,
            _ => 0o100_644,
        };
        bytes.extend(mode.to_be_bytes());
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
    for branch in ["heads/main", "remotes/origin/main", "tags/blob"] {
        write(&project.join(".git/refs").join(branch), COMMIT);
    }
    write(&project.join(".git/refs/heads/sym"), "ref: refs/tags/blob\n");
    write(&project.join(".git/packed-refs"), "# pack-refs\n0123 refs/heads/dev\n0123 refs/tags/v1\n^4567\n");
    write(&project.join(".git/objects/info/x"), "");
    write(&project.join("fake/.git/HEAD"), "ref: refs/heads/main\n");
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
    for command in [
        "git show -s 35752db8",
        "git show --stat 35752db8",
        "git show 35752db8 -- src",
        "git diff 35752db8 src/lib.rs",
        "git diff HEAD -- . ':!CONF'",
        "git show 'HEAD@{10:00:00}'",
        "git cat-file -p src/lib.rs",
        "git -C .git log -p -- src",
        "cd .git && git log -p -- src",
    ] {
        assert_eq!(decision(&shipped, &project, command), "ask", "{command}");
    }
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
        (".env  ", "allow"),
        (".env\r\n", "allow"),
        (".env\r", "allow"),
        (".env \r\nx", "allow"),
        ("\u{feff}.env", "allow"),
        (".env\t", "ask"),
        (".env\u{a0}", "ask"),
        (".env\u{b}", "ask"),
        (".env\r \nx", "ask"),
        (".env\n!.env\r", "ask"),
        ("\u{feff}.env\n!.env ", "ask"),
        ("x\n\u{feff}.env", "ask"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let project = repository(root.path(), "x", &["src/lib.rs"], ignored);
        let engine = with_rules_in(RULE, options_in(&project));
        assert_eq!(decision(&engine, &project, "git add . && git diff --cached"), expected, "{ignored:?}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test file")]
fn files_of_submodules_need_approval() {
    let root = tempfile::tempdir().unwrap();
    let project = repository(root.path(), "nested", &["src/lib.rs", SUBMODULE], "");
    let engine = shipped_in(options_in(&project));
    let shows =
        ["git grep --recurse-submodules x", "git diff --submodule=diff", "git log -p --submodule=diff"];
    let tells = [
        "git diff",
        "git log -p",
        "git diff --submodule=log",
        "git diff --submodule",
        "git grep x",
        "git show",
    ];
    for (commands, expected) in [(&shows[..], "ask"), (&tells[..], "allow")] {
        for command in commands {
            assert_eq!(decision(&engine, &project, command), expected, "{command}");
        }
    }
    for (setting, expected) in
        [("[Diff]\n\tSubmodule = \"diff\"\n", "ask"), ("[diff]\n\tsubmodule = log\n", "allow")]
    {
        std::fs::write(project.join(".git/config"), setting).unwrap();
        assert_eq!(decision(&engine, &project, "git diff"), expected, "{setting}");
        assert_eq!(decision(&engine, &project, "git diff --stat"), "allow", "{setting}");
    }
    let own = root.path().join("xdg-config");
    for (setting, expected) in [
        ("[diff]\n\tsubmodule = diff\n", "ask"),
        ("[submodule]\n\trecurse\n", "ask"),
        ("[submodule]\n\trecurse = off\n", "allow"),
        ("[include]\n\tpath = ~x/y\n", "ask"),
    ] {
        write(&own, setting);
        let options = Options { git_settings: vec![own.clone()], ..options_in(&project) };
        assert_eq!(decision(&shipped_in(options), &project, "git grep x"), expected, "{setting}");
    }
    let plain = repository(root.path(), "plain", &["src/lib.rs"], "");
    let engine = shipped_in(options_in(&plain));
    assert_eq!(decision(&engine, &plain, "git grep --recurse-submodules x"), "allow");
}

#[test]
fn folders_compared_outside_a_repository_need_approval() {
    let root = tempfile::tempdir().unwrap();
    let project = root.path().canonicalize().unwrap();
    for file in ["a", "b", "src/a", "conf/.env"] {
        write(&project.join(file), SECRET);
    }
    let engine = shipped_in(options_in(&project));
    for (command, expected) in [
        ("git diff src conf", "ask"),
        ("git diff src/../conf src", "ask"),
        ("git diff -- src conf", "ask"),
        ("git diff s* c*", "ask"),
        ("git diff --stat src conf", "allow"),
        ("git diff a b", "allow"),
    ] {
        assert_eq!(decision(&engine, &project, command), expected, "{command}");
    }
}

#[test]
fn pipes_in_place_of_gits_files_do_not_block_a_decision() {
    for (name, expected) in
        [(".git", "allow"), (".git/index", "ask"), (".git/HEAD", "ask"), (".git/packed-refs", "ask")]
    {
        let root = tempfile::tempdir().unwrap();
        let project = repository(root.path(), "x", &["conf/.env"], "");
        let place = project.join(name);
        if place.is_dir() {
            std::fs::remove_dir_all(&place).unwrap();
        } else {
            std::fs::remove_file(&place).unwrap();
        }
        assert!(std::process::Command::new("mkfifo").arg(&place).status().unwrap().success());
        let engine = shipped_in(options_in(&project));
        assert_eq!(decision(&engine, &project, "git diff dev"), expected, "{name}");
    }
}

#[test]
fn a_repository_behind_a_link_is_judged_by_its_index() {
    let root = tempfile::tempdir().unwrap();
    let project = repository(root.path(), "x", &["conf/.env"], "");
    std::fs::rename(project.join(".git"), project.join("real")).unwrap();
    std::os::unix::fs::symlink("real", project.join(".git")).unwrap();
    let engine = shipped_in(options_in(&project));
    assert_eq!(decision(&engine, &project, "git diff HEAD"), "ask");
    assert_eq!(decision(&engine, &project, "git diff HEAD -- src"), "allow");
}

#[test]
fn files_that_git_lists_behind_a_link_need_approval() {
    let root = tempfile::tempdir().unwrap();
    write(&root.path().join("outside/lib.rs"), SECRET);
    let lists = [
        "git ls-files | xargs cat",
        "git ls-files '*.rs' | xargs -n1 cat",
        "git ls-files src | xargs wc -l",
        "cat $(git ls-files)",
        "git diff --name-only | xargs cat",
        "git ls-files | while IFS= read -r f; do cat \"$f\"; done",
    ];
    let expect = |project: &Path, commands: &[&str], expected: &str| {
        let engine = shipped_in(options_in(project));
        for command in commands {
            assert_eq!(decision(&engine, project, command), expected, "{command} in {}", project.display());
        }
    };
    let folder = repository(root.path(), "folder", &["src/lib.rs"], "");
    std::fs::remove_dir_all(folder.join("conf")).unwrap();
    expect(&folder, &lists[..5], "allow");
    std::fs::remove_dir_all(folder.join("src")).unwrap();
    std::os::unix::fs::symlink("../outside", folder.join("src")).unwrap();
    expect(&folder, &lists, "ask");
    expect(&folder, &["git ls-files", "git ls-files | wc -l", "git status"], "allow");

    // An earlier commit may have had a folder there.
    let link = repository(root.path(), "link", &[LINK, "src/lib.rs"], "");
    std::fs::remove_dir_all(link.join("conf")).unwrap();
    std::os::unix::fs::symlink("src", link.join(LINK)).unwrap();
    expect(&link, &["git diff --name-only HEAD~1 | xargs cat"], "allow");
    std::fs::remove_file(link.join(LINK)).unwrap();
    std::os::unix::fs::symlink("../outside", link.join(LINK)).unwrap();
    expect(&link, &["git diff --name-only HEAD~1 | xargs cat"], "ask");
}
