//! Everyday commands under the shipped rules, with a plain allow-list, and with the same list in settings.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::Effect;
use pollux_policy::disk::LocalDisk;
use pollux_policy::engine::{Engine, Options};
use pollux_policy::load::{Sources, load};
use pollux_policy::request::{Decision, Request, Verdict};
use pollux_policy::settings_rules::Lists;

use crate::lines::{COMMANDS, EVERYDAY, rows, unescape};

/// The rules of a typical user of git, cargo and npm.
pub(crate) const LIST: &str = r#"
[[rule]]
toolName = "run_shell_command"
commandPrefix = ["git", "cargo", "npm test"]
decision = "allow"
priority = 100
"#;

fn options() -> Options {
    options_in(project())
}

pub(crate) fn options_in(project: &Path) -> Options {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    Options {
        workspaces: vec![project.to_owned()],
        resolve: Some(Arc::new(real)),
        disk: Some(Arc::new(LocalDisk)),
        ..Options::default()
    }
}

/// A typical project without any secrets.
pub(crate) fn project() -> &'static Path {
    static PROJECT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PROJECT.get_or_init(|| {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap().join("project");
        for file in [
            ".git/HEAD",
            ".git/config",
            ".gitignore",
            ".github/workflows/ci.yml",
            "Cargo.toml",
            "Cargo.lock",
            "README.md",
            "LICENSE",
            "package.json",
            "tsconfig.json",
            "a",
            "b",
            "a.txt",
            "b.txt",
            "a.rs",
            "src/main.rs",
            "src/lib.rs",
            "src/a.rs",
            "src/a.test.js",
            "tests/a.rs",
            "crates/policy/Cargo.toml",
            "crates/policy/src/lib.rs",
            "docs/a.md",
            "dist/app.js",
            "node_modules/.bin/jest",
            "node_modules/x/index.js",
            "logs/today.log",
            "build.log",
            "dir1/x",
            "dir2/x",
        ] {
            write(&path.join(file), "text\n");
        }
        write(&path.join(".git/config"), "[core]\n\tbare = false\n");
        (root, path)
    });
    path
}

#[expect(clippy::disallowed_methods, reason = "a test file")]
pub(crate) fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) fn shipped() -> Engine {
    shipped_in(options())
}

pub(crate) fn shipped_in(options: Options) -> Engine {
    load(&Sources::default(), options)
}

/// The shipped rules and a user's file with this text.
pub(crate) fn with_rules(text: &str) -> Engine {
    with_rules_in(text, options())
}

/// The same in another workspace.
pub(crate) fn with_rules_in(text: &str, options: Options) -> Engine {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("user.toml");
    #[expect(clippy::disallowed_methods, reason = "a test file")]
    std::fs::write(&file, text).unwrap();
    let engine = load(&Sources { user: vec![file], ..Sources::default() }, options);
    assert_eq!(engine.problems(), &[]);
    engine
}

pub(crate) fn listed() -> Engine {
    with_rules(LIST)
}

fn in_settings() -> Engine {
    let allowed = ["run_shell_command(git)", "run_shell_command(cargo)", "run_shell_command(npm test)"];
    let lists = Lists { allowed: allowed.map(str::to_owned).to_vec(), ..Lists::default() };
    load(&Sources { lists, ..Sources::default() }, options())
}

pub(crate) fn decide(engine: &Engine, command: &str, mode: ApprovalMode, interactive: bool) -> Verdict {
    decide_in(engine, project(), command, mode, interactive)
}

pub(crate) fn decide_in(
    engine: &Engine,
    directory: &Path,
    command: &str,
    mode: ApprovalMode,
    interactive: bool,
) -> Verdict {
    let args = serde_json::json!({ "command": command }).as_object().cloned().unwrap();
    let effect = Effect::Execute { command: command.to_owned(), directory: directory.to_owned() };
    engine.decide(&Request {
        tool: "run_shell_command",
        server: None,
        read_only: false,
        annotations: None,
        args: &args,
        effect: &effect,
        mode,
        interactive,
        subagent: None,
    })
}

fn expected(word: &str) -> Decision {
    match word {
        "allow" => Decision::Allow,
        "ask" => Decision::Ask,
        other => panic!("unknown decision `{other}`"),
    }
}

/// Lines that are not decided as written, and how many of those that should be allowed are not.
fn compare(engine: &Engine, column: usize, softer: Decision) -> (Vec<String>, f64) {
    let (mut wrong, mut wanted, mut needless) = (Vec::new(), 0, 0);
    for (number, fields) in rows(EVERYDAY) {
        let command = unescape(fields[2]);
        let verdict = decide(engine, &command, ApprovalMode::Default, true);
        let expected = match expected(fields[column]) {
            Decision::Allow => Decision::Allow,
            _ => softer,
        };
        wanted += u32::from(expected == Decision::Allow);
        if verdict.decision != expected {
            needless += u32::from(expected == Decision::Allow);
            wrong.push(format!("{number}: {command:?}: {:?}: {}", verdict.decision, verdict.reason));
        }
    }
    (wrong, f64::from(needless) / f64::from(wanted.max(1)))
}

fn assert_as_written(engine: &Engine, column: usize, softer: Decision) {
    let (wrong, share) = compare(engine, column, softer);
    assert!(
        wrong.is_empty() && share <= 0.03,
        "{:.1} % asked needlessly; not as written:\n{}",
        share * 100.0,
        wrong.join("\n")
    );
}

#[test]
fn harmless_commands_run_under_the_shipped_rules() {
    assert!(rows(EVERYDAY).count() >= 300);
    assert_as_written(&shipped(), 0, Decision::Ask);
}

#[test]
fn a_secret_and_a_link_out_of_the_workspace_cause_few_approvals() {
    let root = tempfile::tempdir().unwrap();
    let project = root.path().canonicalize().unwrap().join("project");
    for file in [
        ".git/config",
        ".env",
        "Cargo.toml",
        "README.md",
        "a",
        "b",
        "a.txt",
        "src/main.rs",
        "src/lib.rs",
        "docs/a.md",
    ] {
        write(&project.join(file), "text\n");
    }
    std::os::unix::fs::symlink("/etc", project.join("elsewhere")).unwrap();
    let engine = load(&Sources::default(), options_in(&project));
    let lines: Vec<String> = rows(EVERYDAY)
        .filter(|(_, fields)| fields[0] == "allow")
        .map(|(_, fields)| unescape(fields[2]))
        .collect();
    let decide = |command: &String| decide_in(&engine, &project, command, ApprovalMode::Default, true);
    let asked: Vec<String> = lines
        .iter()
        .filter(|command| decide(command).decision != Decision::Allow)
        .map(|command| format!("{command}: {}", decide(command).reason))
        .collect();
    assert!(asked.len() * 100 <= lines.len() * 3, "{} of {}: {asked:#?}", asked.len(), lines.len());
}

#[test]
fn everyday_work_needs_no_approval_with_a_plain_allow_list() {
    assert_as_written(&listed(), 1, Decision::Ask);
}

#[test]
fn the_same_list_in_settings_allows_the_same_and_denies_the_rest() {
    let engine = in_settings();
    for (number, fields) in rows(EVERYDAY).filter(|(_, fields)| fields[1] == "allow") {
        let command = unescape(fields[2]);
        let verdict = decide(&engine, &command, ApprovalMode::Default, true);
        assert_eq!(verdict.decision, Decision::Allow, "{number}: {command:?}: {}", verdict.reason);
    }
    for command in ["make", "npm install", "rm x", "git status && make"] {
        let verdict = decide(&engine, command, ApprovalMode::Default, true);
        assert_eq!(verdict.decision, Decision::Deny, "{command}");
    }
}

#[test]
fn without_a_terminal_a_filter_may_follow_what_a_rule_allows_and_nothing_runs_alone() {
    for engine in [listed(), in_settings()] {
        for (command, decision) in [
            ("git log --oneline | head -5", Decision::Allow),
            ("cargo test 2>&1 | tail -20", Decision::Allow),
            ("cd src && git status", Decision::Allow),
            ("ls", Decision::Deny),
            ("git log | sh", Decision::Deny),
            ("git log | tee /etc/motd", Decision::Deny),
        ] {
            let verdict = decide(&engine, command, ApprovalMode::Default, false);
            assert_eq!(verdict.decision, decision, "{command}: {}", verdict.reason);
        }
    }
}

/// Programs that a careless user might allow as a whole.
const MANY: &[&str] = &[
    "git", "cargo", "npm", "make", "rm", "tar", "find", "python3", "curl", "wget", "cp", "mv", "ln",
    "install", "tee", "touch", "mkdir", "chmod", "dd", "rsync", "sed", "sort", "echo", "ls",
];

/// A rule for each of many programs.
fn many() -> String {
    let rule = |program: &&str| LIST.replace(r#"["git", "cargo", "npm test"]"#, &format!("{program:?}"));
    MANY.iter().map(rule).collect()
}

#[test]
fn no_allow_list_opens_corpus_commands_that_need_approval() {
    // Among names that look like options, and files that must not be read.
    let place = crate::reads::hostile();
    let [listed, many, shipped] = [LIST, &many(), ""].map(|rules| with_rules_in(rules, place.options()));
    let mut wrong = Vec::new();
    for (number, fields) in rows(COMMANDS) {
        let command = unescape(&fields[2..].join("\t"));
        let engines: &[(&str, &Engine)] = match fields[0] {
            "danger" | "doubt" | "never" => &[("shipped", &shipped), ("listed", &listed), ("many", &many)],
            "asked" => &[("shipped", &shipped), ("listed", &listed)],
            "plain" => &[("shipped", &shipped)],
            _ => &[],
        };
        for (name, engine) in engines {
            for mode in [ApprovalMode::Default, ApprovalMode::Plan] {
                let verdict = decide_in(engine, &place.project, &command, mode, true);
                if verdict.decision == Decision::Allow {
                    wrong.push(format!("{number}: {command:?} with {name} in {mode}: {}", verdict.reason));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} allowed:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_rule_that_names_a_destructive_command_covers_it_inside_the_workspace() {
    let rule = |prefix: &str| LIST.replace(r#"["git", "cargo", "npm test"]"#, &format!("{prefix:?}"));
    for (prefix, command, decision) in [
        ("git reset --hard", "git reset --hard HEAD~1", Decision::Allow),
        ("git reset", "git reset --hard HEAD~1", Decision::Ask),
        ("git push --force", "git push --force origin x", Decision::Allow),
        ("git clean -fdx", "git clean -fdx", Decision::Allow),
        ("rm -rf", "rm -rf build", Decision::Allow),
        ("rm -rf", "rm -rf /", Decision::Ask),
        ("rm -rf", "rm -rf ~", Decision::Ask),
        ("rm -rf", "rm -rf .", Decision::Ask),
        ("rm -rf", "rm -rf ./*", Decision::Ask),
        ("rm -rf", "rm -rf ..", Decision::Ask),
        ("rm -rf", "rm -rf .git", Decision::Ask),
        ("rm -rf", "rm -rf $X", Decision::Ask),
        ("rm -rf", "rm -rf build; rm -rf ../x", Decision::Ask),
        ("rm -rf build", "rm -rf build", Decision::Allow),
        ("cargo publish", "cargo publish --dry-run", Decision::Allow),
    ] {
        let verdict = decide(&with_rules(&rule(prefix)), command, ApprovalMode::Default, true);
        assert_eq!(verdict.decision, decision, "{prefix} / {command}: {}", verdict.reason);
    }
}

#[test]
fn a_deny_rule_applies_in_yolo_whatever_the_spelling() {
    let deny = |prefix: &str| {
        LIST.replace(r#"["git", "cargo", "npm test"]"#, &format!("{prefix:?}"))
            .replace("\"allow\"", "\"deny\"")
    };
    let engine = with_rules(&(deny("rm") + &deny("git push")));
    for command in [
        "rm x",
        "/bin/rm x",
        "\\rm x",
        "'rm' x",
        "r\"\"m x",
        "$'rm' x",
        "command rm x",
        "builtin command rm x",
        "exec rm x",
        "env rm x",
        "env A=1 rm x",
        "sudo rm x",
        "nohup rm x",
        "timeout 5 rm x",
        "busybox rm x",
        "toybox rm x",
        "ls | xargs rm",
        "ls | xargs -I{} rm {}",
        "find . -exec rm {} +",
        "sh -c 'rm x'",
        "bash -lc \"rm x\"",
        "eval rm x",
        "eval 'r''m x'",
        "(rm x)",
        "{ rm x; }",
        "if true; then rm x; fi",
        "f() { rm x; }; f",
        "echo $(rm x)",
        "echo `rm x`",
        "cat <(rm x)",
        "trap 'rm x' EXIT",
        "x=rm; $x y",
        "x='rm y'; $x",
        "for x in rm; do $x y; done",
        "git push",
        "git --no-pager push",
        "git -C . push origin",
        "git --git-dir x push",
        "git -c a.b=c push",
        "/usr/bin/git push",
        "x=push; git $x",
        "RM x",
        "rm.exe x",
        "echo ${xy-$(rm x)}",
        "true\nrm x",
        "true & rm x",
        "true |& rm x",
        "watch rm x",
        "git bisect run rm x",
    ] {
        let verdict = decide(&engine, command, ApprovalMode::Yolo, true);
        assert_eq!(verdict.decision, Decision::Deny, "{command}: {}", verdict.reason);
    }
    // Commands that cannot be analysed might be denied.
    for command in
        ["echo cm0geA== | base64 -d | sh", "eval \"$X\"", "$X y", "git $X", ". ./x", "python3 -c x", "git x"]
    {
        let verdict = decide(&engine, command, ApprovalMode::Yolo, true);
        assert_eq!(verdict.decision, Decision::Ask, "{command}: {}", verdict.reason);
    }
    for command in ["make", "git pull", "ls > /etc/x", "cp a b"] {
        assert_eq!(decide(&engine, command, ApprovalMode::Yolo, true).decision, Decision::Allow, "{command}");
    }
}

#[test]
fn a_long_command_is_decided_quickly() {
    let listed = listed();
    let chain = |part: &str, count: usize, joint: &str| vec![part; count].join(joint);
    for command in [
        chain("git status", 10_000, ";"),
        chain("git status", 10_000, " && ") + "; rm -rf /",
        chain("true", 60, ";") + "; rm -rf /",
        "a".repeat(1_000_000),
        format!("git status {}; rm -rf /", " ".repeat(60_000)),
        format!("x={}; y={}; cat $y", "$z".repeat(10_000), "$x".repeat(10_000)),
        (0..200).map(|i| format!("v{}=$v{i}$v{i};", i + 1)).collect::<String>() + "cat $v200",
        format!(
            "for x in {}; do for y in {}; do cat /etc/$x$y; done; done",
            chain("a", 3000, " "),
            chain("b", 3000, " ")
        ),
        format!("echo {}rm{}", "$(".repeat(5_000), ")".repeat(5_000)),
    ] {
        let verdict = decide(&listed, &command, ApprovalMode::Default, true);
        assert_ne!(verdict.decision, Decision::Allow, "{:.60}", command);
    }
}
