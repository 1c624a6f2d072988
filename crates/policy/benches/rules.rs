//! Measures loading of 1,000 rules and deciding on calls with them.
//!
//! Run with `cargo bench -p pollux-policy --bench rules`. Prints the best and the median of many rounds;
//! nothing passes or fails. Half of the rules are command prefixes, the rest are regexes over arguments, MCP
//! tools and plain names.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench reports to a person")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::Effect;
use pollux_policy::disk::LocalDisk;
use pollux_policy::engine::{Engine, Options};
use pollux_policy::load::{Sources, load};
use pollux_policy::request::Request;
use serde_json::{Value, json};

const RULES: usize = 1000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    write_rules(folder.path());
    let sources = Sources { user: vec![folder.path().to_owned()], ..Sources::default() };
    let none = Sources::default();
    report("load the shipped rules alone", 200, || load(&none, options()));
    report(&format!("load {RULES} rules from 4 files"), 100, || load(&sources, options()));
    let engine = load(&sources, options());
    assert!(engine.problems().is_empty() && engine.rule_count() >= RULES);
    let pipeline = |parts: usize| -> String {
        let parts: Vec<String> =
            (0..parts / 2).map(|n| format!("tool{n} --all x{n} | grep -v {n}")).collect();
        parts.join(" | ")
    };
    let calls = [
        ("a plain call", "read_file", None, json!({"file_path": "src/main.rs"})),
        ("a command", "run_shell_command", None, json!({"command": "git status --short"})),
        (
            "a command that reads",
            "run_shell_command",
            None,
            json!({"command": "grep -n 'fn main' src/main.rs | head -5"}),
        ),
        ("a pipeline of 10", "run_shell_command", None, json!({"command": pipeline(10)})),
        ("a pipeline of 40", "run_shell_command", None, json!({"command": pipeline(40)})),
        ("an MCP call", "mcp_server7_read", Some("server7"), json!({"id": 7, "text": "x".repeat(200)})),
        ("a call no rule knows", "mcp_other_read", Some("other"), json!({"id": 7})),
    ];
    for (what, tool, server, args) in calls {
        report(&format!("decide on {what}"), 2000, || decide(&engine, tool, server, &args));
    }
}

fn options() -> Options {
    Options { workspaces: vec!["/w".into()], disk: Some(Arc::new(LocalDisk)), ..Options::default() }
}

fn decide(engine: &Engine, tool: &str, server: Option<&str>, args: &Value) -> bool {
    let args = args.as_object().unwrap();
    let verdict = engine.decide(&Request {
        tool,
        server,
        read_only: false,
        annotations: None,
        args,
        effect: &Effect::None,
        mode: ApprovalMode::Default,
        interactive: true,
        subagent: None,
    });
    verdict.rule.is_some()
}

fn write_rules(folder: &Path) {
    for file in 0..4 {
        let mut text = String::new();
        for n in (file * RULES / 4)..((file + 1) * RULES / 4) {
            let about = match n % 8 {
                0..=3 => format!("toolName = \"run_shell_command\"\ncommandPrefix = \"tool{n} sub\""),
                4 => format!(
                    "toolName = \"write_file\"\nargsPattern = '\"file_path\":\"src/part{n}/[^\"]*\\.rs\"'"
                ),
                5 => format!("toolName = \"run_shell_command\"\ncommandRegex = 'make (all|part{n}) .*'"),
                6 => format!("mcpName = \"server{n}\"\ntoolName = \"read\""),
                _ => format!("toolName = \"mcp_server{n}_*\""),
            };
            let decision = ["allow", "deny", "ask_user"][n % 3];
            let _ = write!(text, "[[rule]]\n{about}\ndecision = \"{decision}\"\npriority = {}\n\n", n % 1000);
        }
        std::fs::write(folder.join(format!("{file}.toml")), text).unwrap();
    }
}

fn report<T>(what: &str, rounds: usize, mut run: impl FnMut() -> T) {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed()
        })
        .collect();
    times.sort();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!("{what:32} best {:10.1} us   median {:10.1} us", micros(times[0]), micros(times[rounds / 2]));
}
