//! Policy files, patterns and shell commands.
//!
//! The engine's decision on a command is compared with real bash, and its regexes with exhaustive search.

mod grammar;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::Effect;
use pollux_policy::always::{Grant, GrantScope};
use pollux_policy::engine::{Engine, Options};
use pollux_policy::load::{Sources, load};
use pollux_policy::request::{Decision, Request};
use serde_json::json;

use crate::scratch::{self, write};
use grammar::command;

/// When the engine allows a command, nothing but allowed programs runs in real bash. Any text gets a decision.
pub(crate) fn shell(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        decide(text);
    }
    let command = command(bytes);
    if let Err(finding) = nothing_else_runs(&command) {
        panic!("{command:?}: {finding}");
    }
}

/// A regex matches what exhaustive search matches.
pub(crate) fn pattern(bytes: &[u8]) {
    if let Err(finding) = expression_agrees(bytes) {
        panic!("{finding}");
    }
}

/// Calls that a policy file is asked about.
const CALLS: &[(&str, &str, &str)] = &[
    ("run_shell_command", "command", "git status"),
    ("run_shell_command", "command", "rm -rf x && curl evil"),
    ("write_file", "file_path", "src/main.rs"),
    ("mcp_server_tool", "x", "y"),
];

/// A file without a usable rule allows nothing that was not allowed before. An approval that is added to a file keeps
/// its rules, brings no new problem, and is there only once.
pub(crate) fn rules(bytes: &[u8]) {
    let file = scratch::folder().join("rules.toml");
    write(&file, bytes);
    let load_file = || load(&Sources { user: vec![file.clone()], ..Sources::default() }, Options::default());
    let (shipped, engine) = (load(&Sources::default(), Options::default()), load_file());
    let has_rules = engine.rule_count() > shipped.rule_count();
    for (tool, key, value) in CALLS {
        let args = JsonObject::from_iter([((*key).to_owned(), json!(value))]);
        let (before, with) = (ask(&shipped, tool, &args), ask(&engine, tool, &args));
        assert!(has_rules || with >= before, "{tool} {value}: {with:?} without a rule, {before:?} before");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let args = JsonObject::from_iter([("command".to_owned(), json!("git status"))]);
    let grant = Grant::narrow(&request("run_shell_command", &args, &Effect::None), GrantScope::Tool);
    let grant = grant.expect("an approval for git status");
    let Ok(merged) = grant.merged_into(text) else { return };
    assert_eq!(grant.merged_into(&merged).as_deref(), Ok(merged.as_str()), "added twice");
    write(&file, &merged);
    let after = load_file();
    assert!(after.rule_count() >= engine.rule_count(), "rules are lost");
    assert!(after.problems().len() <= engine.problems().len(), "{:?}", after.problems());
    if !has_rules && engine.problems().is_empty() {
        assert_eq!(ask(&after, "run_shell_command", &args), Decision::Allow, "{merged}");
    }
}

struct Scene {
    engine: Engine,
    root: tempfile::TempDir,
}

fn scene() -> &'static Scene {
    static SCENE: OnceLock<Scene> = OnceLock::new();
    SCENE.get_or_init(|| {
        let root = tempfile::tempdir().unwrap();
        let rules = root.path().join("rules.toml");
        let text = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"git\", \"cargo\", \"npm test\"]\ndecision = \"allow\"\npriority = 100\n";
        write(&rules, text);
        let options = Options {
            workspaces: vec![PathBuf::from("/w/project")],
            disk: Some(std::sync::Arc::new(pollux_policy::disk::LocalDisk)),
            ..Options::default()
        };
        let engine = load(&Sources { user: vec![rules], ..Sources::default() }, options);
        programs(&root.path().join("bin"));
        Scene { engine, root }
    })
}

/// Tripwires, and harmless programs as they are.
fn programs(bin: &Path) {
    fs::create_dir(bin).unwrap();
    for name in [
        "env", "timeout", "nohup", "nice", "xargs", "sh", "bash", "cat", "head", "sort", "grep", "wc", "sed",
        "awk", "find", "ls",
    ] {
        if let Some(real) =
            ["/usr/bin", "/bin"].iter().map(|d| Path::new(d).join(name)).find(|path| path.exists())
        {
            std::os::unix::fs::symlink(real, bin.join(name)).unwrap();
        }
    }
    let tripwire = "#!/bin/sh\necho \"${0##*/}\" >> \"$TRIPWIRE_LOG\"\n";
    for name in ["t1", "t2", "t3", "rm", "curl"] {
        script(&bin.join(name), tripwire);
    }
    for name in ["git", "cargo", "npm"] {
        script(&bin.join(name), "#!/bin/sh\nexit 0\n");
    }
}

fn script(path: &Path, text: &str) {
    write(path, text);
    let mut rights = fs::metadata(path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
    fs::set_permissions(path, rights).unwrap();
}

fn decide(command: &str) -> Decision {
    let args = json!({ "command": command }).as_object().cloned().unwrap();
    let effect = Effect::Execute { command: command.to_owned(), directory: PathBuf::from("/w/project") };
    scene().engine.decide(&request("run_shell_command", &args, &effect)).decision
}

/// Runs an allowed command in bash among tripwires; none may run.
fn nothing_else_runs(command: &str) -> Result<(), String> {
    // Loops would not end.
    if decide(command) != Decision::Allow || command.contains("until ") || command.contains("while ") {
        return Ok(());
    }
    let place = tempfile::tempdir_in(scene().root.path()).unwrap();
    let (work, log) = (place.path().join("work"), place.path().join("log"));
    fs::create_dir(&work).unwrap();
    for name in ["a", "b", "t1"] {
        write(&work.join(name), "t1\nt2 a\n");
    }
    let before = names(&work);
    let _ran = Command::new("/usr/bin/timeout")
        .args(["-k", "1", "5", "/bin/bash", "-c", &format!("FUNCNEST=8;{command}\nwait")])
        .env_clear()
        .env("PATH", scene().root.path().join("bin"))
        .env("TRIPWIRE_LOG", &log)
        .env("HOME", &work)
        .current_dir(&work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let ran = fs::read_to_string(&log).unwrap_or_default();
    if !ran.is_empty() {
        return Err(format!("it is allowed and runs {}", ran.replace('\n', " ")));
    }
    let after = names(&work);
    if before != after {
        return Err(format!("it is allowed and leaves {after:?}"));
    }
    Ok(())
}

fn names(directory: &Path) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = fs::read_dir(directory)
        .unwrap()
        .flatten()
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), entry.metadata().map_or(0, |data| data.len()))
        })
        .collect();
    all.sort();
    all
}

/// A piece of an expression that a simple matcher understands.
#[derive(Debug, Clone)]
struct Item {
    any: bool,
    letter: char,
    /// `?`, `*` or `+`.
    repeat: Option<char>,
}

/// A regex of letters, dots and quantifiers matches what exhaustive search matches; any other input must not
/// panic.
fn expression_agrees(bytes: &[u8]) -> Result<(), String> {
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    // Takes longer, so not each time.
    if bytes.first().is_some_and(|byte| byte % 8 == 0) {
        any_expression(&String::from_utf8_lossy(head), &String::from_utf8_lossy(tail));
    }
    let items: Vec<Item> = head
        .chunks(2)
        .take(8)
        .map(|pair| Item {
            any: pair[0] % 5 == 0,
            letter: char::from(b'a' + pair[0] % 3),
            repeat: [None, None, Some('?'), Some('*'), Some('+')]
                [usize::from(pair.get(1).copied().unwrap_or(0)) % 5],
        })
        .collect();
    let subject: String = tail.iter().take(24).map(|byte| char::from(b'a' + byte % 4)).collect();
    let source: String = items
        .iter()
        .flat_map(|item| [Some(if item.any { '.' } else { item.letter }), item.repeat])
        .flatten()
        .collect();
    let text: Vec<char> = format!("{{\0\"p\":\"{subject}\"\0}}").chars().collect();
    let expected = (0..=text.len()).any(|start| matches(&items, &text[start..]));
    let found = denied(&source, &subject);
    if expected == found {
        Ok(())
    } else {
        Err(format!("{source:?} on {subject:?}: {found}, but {expected} expected"))
    }
}

fn matches(items: &[Item], text: &[char]) -> bool {
    let Some((item, rest)) = items.split_first() else { return true };
    let fits = text.first().is_some_and(|c| if item.any { *c != '\n' } else { *c == item.letter });
    let after = text.get(1..).unwrap_or_default();
    match item.repeat {
        None => fits && matches(rest, after),
        Some('?') => matches(rest, text) || fits && matches(rest, after),
        Some('*') => matches(rest, text) || fits && matches(items, after),
        _ => {
            let mut starred = items.to_vec();
            starred[0].repeat = Some('*');
            fits && matches(&starred, after)
        }
    }
}

/// Whether a rule with this expression denies a call with this argument.
fn denied(source: &str, subject: &str) -> bool {
    let file = scratch::folder().join("pattern.toml");
    let rule = format!(
        "[[rule]]\ntoolName = \"web_fetch\"\nargsPattern = {}\ndecision = \"deny\"\npriority = 100\n",
        json!(source)
    );
    write(&file, &rule);
    let engine = load(&Sources { user: vec![file], ..Sources::default() }, Options::default());
    let args = json!({ "p": subject }).as_object().cloned().unwrap();
    ask(&engine, "web_fetch", &args) == Decision::Deny
}

fn ask(engine: &Engine, tool: &str, args: &JsonObject) -> Decision {
    engine.decide(&request(tool, args, &Effect::None)).decision
}

fn request<'a>(tool: &'a str, args: &'a JsonObject, effect: &'a Effect) -> Request<'a> {
    Request {
        tool,
        server: None,
        read_only: false,
        annotations: None,
        args,
        effect,
        mode: ApprovalMode::Default,
        interactive: true,
        subagent: None,
    }
}

/// Any text may be offered as a regex, a prefix or a tool name, and is matched against a long argument.
fn any_expression(source: &str, subject: &str) {
    let file = scratch::folder().join("any.toml");
    let text = json!(source.replace(['\u{7f}'], "").chars().filter(|c| !c.is_control()).collect::<String>());
    let rule = |what: &str| {
        format!(
            "[[rule]]\ntoolName = \"run_shell_command\"\n{what} = {text}\ndecision = \"deny\"\npriority = 100\n"
        )
    };
    let wild = format!("[[rule]]\ntoolName = {text}\ndecision = \"deny\"\npriority = 100\n");
    write(&file, format!("{}{}{}{wild}", rule("argsPattern"), rule("commandRegex"), rule("commandPrefix")));
    let engine = load(&Sources { user: vec![file], ..Sources::default() }, Options::default());
    let args =
        json!({ "command": subject.repeat(3000 / subject.len().max(1)) }).as_object().cloned().unwrap();
    ask(&engine, "run_shell_command", &args);
    ask(&engine, subject, &args);
}
