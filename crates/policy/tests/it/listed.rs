//! Lists of files, hidden files that ignore files reveal, and tools that read files.

use std::path::Path;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::Effect;
use pollux_policy::request::{Decision, Request};
use serde_json::json;

use crate::everyday::{decide_in, options_in, shipped_in, write};
use crate::reads::SECRET;

fn project(root: &Path) -> std::path::PathBuf {
    let project = root.canonicalize().unwrap().join("project");
    for file in ["a.md", "src/lib.rs", ".hid/notes", ".ssh/config"] {
        write(&project.join(file), "x\n");
    }
    write(&project.join(".env"), SECRET);
    project
}

#[test]
fn hidden_files_that_ignore_files_reveal_are_searched() {
    let long = format!("{}\n!x\n", "x".repeat(70_000));
    for (name, text, expected) in [
        (".gitignore", "target\n.env\n", Decision::Allow),
        (".gitignore", "!a.md\n", Decision::Allow),
        (".ignore", "!.env\n", Decision::Ask),
        (".ignore", "!\\.env\n", Decision::Ask),
        (".rgignore", "!{.env,x}\n", Decision::Ask),
        (".ignore", "\u{feff}!.e*\n", Decision::Ask),
        (".ignore", "!/src/../.env\n", Decision::Ask),
        (".gitignore", long.as_str(), Decision::Ask),
        ("src/.ignore", "!.env\n", Decision::Allow),
    ] {
        let root = tempfile::tempdir().unwrap();
        let project = project(root.path());
        write(&project.join(name), text);
        let engine = shipped_in(options_in(&project));
        for command in ["rg x", "rg --files | xargs cat", "rg -l x | xargs wc -l", "cat $(fd .)"] {
            let verdict = decide_in(&engine, &project, command, ApprovalMode::Default, true);
            assert_eq!(verdict.decision, expected, "{command} with {name} {text:.30?}: {}", verdict.reason);
        }
    }
}

#[test]
fn hidden_folders_that_a_search_names_are_searched() {
    let root = tempfile::tempdir().unwrap();
    let project = project(root.path());
    let engine = shipped_in(options_in(&project));
    for (command, expected) in [
        ("rg --files .ssh | xargs cat", Decision::Ask),
        ("fdfind . .ssh | xargs cat", Decision::Ask),
        ("fdfind . ./.ssh/ | xargs cat", Decision::Ask),
        ("grep -r x .ssh", Decision::Ask),
        ("rg --files .hid | xargs cat", Decision::Allow),
        ("rg --files src | xargs cat", Decision::Allow),
        ("fdfind . src | xargs cat", Decision::Allow),
        ("rg --files src .hid | xargs cat", Decision::Ask),
    ] {
        let verdict = decide_in(&engine, &project, command, ApprovalMode::Default, true);
        assert_eq!(verdict.decision, expected, "{command}: {}", verdict.reason);
    }
}

#[test]
fn tools_that_read_files_ask_for_the_names_for_which_commands_ask() {
    let root = tempfile::tempdir().unwrap();
    let project = project(root.path());
    for file in [".env.local", ".env.example", "certs/server.pem", ".npmrc"] {
        write(&project.join(file), "x\n");
    }
    std::os::unix::fs::symlink(".npmrc", project.join("plain.txt")).unwrap();
    let engine = shipped_in(options_in(&project));
    let decision = |tool: &str, args: serde_json::Value, path: &str, mode| {
        let effect = Effect::Read(vec![project.join(path)]);
        let args = args.as_object().cloned().unwrap();
        let request = Request {
            tool,
            server: None,
            read_only: true,
            annotations: None,
            args: &args,
            effect: &effect,
            mode,
            interactive: true,
            subagent: None,
        };
        engine.decide(&request).decision
    };
    for (path, expected) in [
        ("a.md", Decision::Allow),
        (".env.example", Decision::Allow),
        (".hid/notes", Decision::Allow),
        (".env.local", Decision::Ask),
        (".npmrc", Decision::Ask),
        ("plain.txt", Decision::Ask),
        (".ssh/config", Decision::Ask),
        ("certs/server.pem", Decision::Ask),
        (".aws/credentials", Decision::Ask),
    ] {
        for tool in ["read_file", "grep_search"] {
            assert_eq!(decision(tool, json!({}), path, ApprovalMode::Default), expected, "{tool} {path}");
        }
        let many = json!({ "include": [path] });
        assert_eq!(decision("read_many_files", many, "", ApprovalMode::Default), expected, "{path}");
        assert_eq!(decision("read_file", json!({}), path, ApprovalMode::Yolo), Decision::Allow, "{path}");
        assert_eq!(decision("replace", json!({}), path, ApprovalMode::AutoEdit), expected, "{path}");
    }
    for (tool, args, expected) in [
        ("read_many_files", json!({"include": ["**/*"]}), Decision::Allow),
        ("read_many_files", json!({"include": ["src/**/*.md"]}), Decision::Allow),
        ("read_many_files", json!({"include": ["src"]}), Decision::Allow),
        ("read_many_files", json!({"include": ["certs/**"]}), Decision::Allow),
        ("read_many_files", json!({"include": ["**/*.pem"]}), Decision::Ask),
        ("read_many_files", json!({"include": ["src/*", ".ssh/*"]}), Decision::Ask),
        ("grep_search", json!({"pattern": "x", "include": "*.rs"}), Decision::Allow),
        ("grep_search", json!({"pattern": "x", "include": "**/*.pem"}), Decision::Ask),
        ("grep_search", json!({"pattern": "x", "include_pattern": "/.npmrc"}), Decision::Ask),
        ("grep_search", json!({"pattern": "x", "include_pattern": "{a/.npmrc/../b,**/*}"}), Decision::Ask),
        (
            "grep_search",
            json!({"pattern": "x", "include_pattern": "src{,/node_modules/}/.npmrc"}),
            Decision::Ask,
        ),
        ("read_many_files", json!({"include": ["{a/.npmrc/../b,**/*}"]}), Decision::Ask),
        ("grep_search", json!({"pattern": "x", "include": ".env.*"}), Decision::Ask),
        // Patterns that name no secret find none: the tools leave them out.
        ("grep_search", json!({"pattern": "x", "include": ".env*"}), Decision::Allow),
        ("grep_search", json!({"pattern": "x"}), Decision::Allow),
    ] {
        assert_eq!(decision(tool, args.clone(), "", ApprovalMode::Default), expected, "{tool} {args}");
    }
}
