//! Lines under rules that allow whole programs, such as `cp`, `tar` and `git`.
//!
//! The rules are about the workspace: what an earlier command of the line brings into it, and files that options name in
//! any spelling, are not covered.

use std::fs;
use std::os::unix::fs::symlink;

use pollux_domain::approval::ApprovalMode;

use crate::everyday::{decide_in, with_rules_in, write};
use crate::lines::{RULED, rows, unescape};
use crate::reads::{Hostile, hostile, remove_odd_names};

/// The programs that a user might allow as a whole.
const ALLOWED: &str = "git cargo npm make rm tar unzip cp mv ln install rsync tee touch mkdir rmdir dd sed sort chmod \
                       patch curl wget gcc go zip gzip split python3 pytest tsc seq yarn pnpm truncate jest xz awk pack \
                       gmake bun g++ cc clang rustc csplit docker ninja just cmake ant gradle mvn rake \
                       tox nox bmake podman psql sqlite3 mysql m4";
/// Programs that send or unpack files.
const SENDS: [&str; 2] = ["scp", "gunzip"];

fn rules() -> String {
    let programs: Vec<String> =
        ALLOWED.split_whitespace().chain(SENDS).map(|name| format!("{name:?}")).collect();
    format!(
        "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [{}]\ndecision = \"allow\"\npriority = 100\n",
        programs.join(", ")
    )
}

fn place() -> Hostile {
    let place = hostile();
    let project = &place.project;
    remove_odd_names(project);
    for file in [
        ".git/HEAD",
        "vendor/bare/HEAD",
        "vendor/bare/config",
        "vendor/bare/objects/x",
        "vendor/bare/refs/x",
        "vendor/plain/a",
        "half/config",
        "half/objects/x",
        "half/refs/x",
        "odd/-x",
        "conf/id_rsa",
        ".ssh/x",
        "web/.git/HEAD",
        "web/a",
        "web/deep/a",
        "links/a",
        "HEADS/x",
        "Makefile",
        "Dockerfile",
        "sub/rules.mk",
        "docs/notes.txt",
        ".git/COMMIT_EDITMSG",
    ] {
        write(&project.join(file), "x\n");
    }
    for file in [
        "Makefile",
        "README.md",
        "package.json",
        "conf/.aws/x",
        "lnk/a",
        "tmpl/Makefile",
        "tmpl/.gemini/settings.json",
        "tmpl2/a",
        "node_modules/x/a",
        "sub/node_modules/x",
        "docs/a.md",
    ] {
        write(&project.join(file), "x\n");
    }
    write(&project.join("docs/x.diff"), "--- Makefile\n+++ Makefile\n@@ -1 +1 @@\n-x\n+y\n");
    write(&project.join("docs/b.diff"), "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1 +1 @@\n-x\n+y\n");
    write(&project.join("docs/c.diff"), "  *** sub/Cargo.toml\n  --- sub/Cargo.toml\n");
    write(&project.join("docs/q.diff"), "diff --git \"a/\\115akefile\" \"b/\\115akefile\"\n");
    write(&project.join("f"), "x\n");
    fs::create_dir_all(project.join("lnk2")).unwrap();
    symlink("../lnk", project.join("lnk2/l")).unwrap();
    symlink("../../outside", project.join("lnk/o")).unwrap();
    symlink("../../outside/passwd", project.join("lnk/f")).unwrap();
    symlink("../../outside/passwd", project.join("links/l")).unwrap();
    place
}

#[test]
fn rules_on_whole_programs_decide_as_the_table_says() {
    let place = place();
    let engine = with_rules_in(&rules(), place.options());
    let mut wrong = Vec::new();
    for (number, fields) in rows(RULED) {
        let command = unescape(fields[2]);
        for (mode, expected) in [(ApprovalMode::Default, fields[0]), (ApprovalMode::AutoEdit, fields[1])] {
            let verdict = decide_in(&engine, &place.project, &command, mode, true);
            if verdict.decision.as_str() != expected {
                let found = verdict.decision.as_str();
                wrong.push(format!("{number}: {command:?} in {mode}: {found}: {}", verdict.reason));
            }
        }
    }
    assert!(wrong.is_empty(), "{} decisions not as written:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_rule_that_names_a_subcommand_covers_it() {
    let place = place();
    let rule = |prefix: &str| {
        format!(
            "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = {prefix:?}\ndecision = \"allow\"\npriority = 9\n"
        )
    };
    for (prefix, command, expected) in [
        ("npm explore", "npm explore x", "allow"),
        ("npm", "npm explore x", "ask"),
        ("npm run", "npm run build", "allow"),
        ("npm run", "npm run env", "ask"),
        ("docker push", "docker push x", "allow"),
        ("docker push", "docker login", "ask"),
        ("make -p", "make -p", "allow"),
        ("make", "make -p", "ask"),
        ("make -f a.txt", "make -f a.txt", "allow"),
    ] {
        let engine = with_rules_in(&rule(prefix), place.options());
        let verdict = decide_in(&engine, &place.project, command, ApprovalMode::Default, true);
        assert_eq!(verdict.decision.as_str(), expected, "{prefix}: {command}: {}", verdict.reason);
    }
}
