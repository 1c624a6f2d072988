#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::test_home::TestHome;

/// A home in which everything is well.
fn healthy() -> TestHome {
    let home = TestHome::new();
    let bin = home.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    symlink(std::env::current_exe().unwrap(), bin.join("pollux")).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    set_mode(&home.home().join(".gemini"), 0o700);
    let temporary = home.home().join("temporary");
    fs::create_dir_all(&temporary).unwrap();
    home.env("PATH", &path)
        .env("TERM", "xterm-256color")
        .env("LANG", "C.UTF-8")
        .env("GEMINI_FORCE_FILE_STORAGE", "true")
        .env("GEMINI_API_KEY", "AIzaSyA-key-of-a-test-000000000000000000")
        .env("TMPDIR", &temporary.display().to_string())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn rights(home: TestHome, path: &str, mode: u32) -> TestHome {
    set_mode(&home.home().join(path), mode);
    home
}

fn command(fix: bool, json: bool) -> DoctorCommand {
    // Long, because a test machine may be busy.
    DoctorCommand { fix, offline: true, timeout: Duration::from_secs(60), json }
}

fn examined(home: &TestHome, fix: bool) -> Value {
    let done = home.run(command(fix, true), "");
    serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.out))
}

/// Findings that are not well, as `area: what`.
fn complaints(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap();
    let ill = findings.iter().filter(|finding| finding["level"] != "ok");
    ill.map(|finding| format!("{}: {}", finding["area"].as_str().unwrap(), finding["what"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_healthy_home_has_no_complaints() {
    let home = healthy();
    let report = examined(&home, false);
    let sandboxed = |line: &String| !line.starts_with("Sandbox:");
    assert_eq!(complaints(&report).into_iter().filter(sandboxed).collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(report["ok"], json!(true));
    let text = home.run(command(false, false), "").out;
    for (area, _) in CHECKS {
        assert!(text.contains(area), "{area} is missing:\n{text}");
    }
    assert!(!text.contains("AIza"), "{text}");
}

#[test]
fn a_new_user_has_warnings_but_no_problems() {
    let home = TestHome::new().env("PATH", "/usr/bin:/bin").env("GEMINI_FORCE_FILE_STORAGE", "true");
    let report = examined(&home, false);
    assert_eq!(report["ok"], json!(true), "{report:#}");
    assert!(complaints(&report).iter().any(|line| line.contains("no model provider has a key")));
}

/// A `.env` that is a link to a readable file outside of the home; start-up leaves such files alone.
fn linked_keys(home: TestHome) -> TestHome {
    let home = home.file("elsewhere.env", "A=1");
    set_mode(&home.project().join("elsewhere.env"), 0o644);
    symlink(home.project().join("elsewhere.env"), home.home().join(".gemini/.env")).unwrap();
    home
}

type Plant = fn(TestHome) -> TestHome;

fn user(text: &'static str) -> impl Fn(TestHome) -> TestHome {
    move |home| home.user_settings(text)
}

/// A fault, how it is planted, the area that reports it, and words of the report.
type Fault = (&'static str, Box<dyn Fn(TestHome) -> TestHome>, &'static str, &'static str);

#[expect(clippy::too_many_lines, reason = "a table")]
fn faults() -> Vec<Fault> {
    fn plant(how: Plant) -> Box<dyn Fn(TestHome) -> TestHome> {
        Box::new(how)
    }
    vec![
        ("no terminal type", plant(|home| home.env("TERM", "")), "Terminal", "TERM is not set"),
        ("dumb terminal", plant(|home| home.env("TERM", "dumb")), "Terminal", "`dumb`"),
        ("locale without UTF-8", plant(|home| home.env("LANG", "C")), "Terminal", "not UTF-8"),
        ("not on PATH", plant(|home| home.env("PATH", "/usr/bin:/bin")), "Program", "not on PATH"),
        (
            "no shell and no git",
            plant(|home| home.env("PATH", "/nonexistent")),
            "Program",
            "cannot run commands",
        ),
        ("no git", plant(|home| home.env("PATH", "/nonexistent")), "Program", "git was not found"),
        (
            "no folder for temporary files",
            plant(|home| home.env("TMPDIR", "/nonexistent")),
            "Disk space",
            "does not exist",
        ),
        ("home open to all", plant(|home| rights(home, ".gemini", 0o777)), "Home", "other users can write"),
        (
            "policies open to the group",
            plant(|home| rights(home.home_file(".gemini/policies/a.toml", ""), ".gemini/policies", 0o770)),
            "Home",
            "policies` (mode 770)",
        ),
        ("keys outside of the home, readable", plant(linked_keys), "Home", ".env` (mode 644)"),
        (
            "broken projects.json",
            plant(|home| home.home_file(".gemini/projects.json", "{")),
            "Home",
            "projects.json",
        ),
        ("broken state.json", plant(|home| home.home_file(".gemini/state.json", "[]")), "Home", "state.json"),
        (
            "broken keybindings",
            plant(|home| home.home_file(".gemini/keybindings.json", "nope")),
            "Home",
            "keybindings.json",
        ),
        ("settings that are not JSON", Box::new(user("{\"a\": ")), "Settings", "settings.json"),
        ("settings of another type", Box::new(user("[1]")), "Settings", "settings.json"),
        ("misspelt setting", Box::new(user(r#"{"general": {"vimmode": true}}"#)), "Settings", "vimmode"),
        (
            "setting of another type",
            Box::new(user(r#"{"general": {"vimMode": "yes"}}"#)),
            "Settings",
            "vimMode",
        ),
        ("unknown section", Box::new(user(r#"{"bogus": 1}"#)), "Settings", "bogus"),
        (
            "editor that is missing",
            Box::new(user(r#"{"general": {"preferredEditor": "zed"}}"#)),
            "Settings",
            "preferredEditor",
        ),
        (
            "folder that is missing",
            Box::new(user(r#"{"context": {"includeDirectories": ["/nonexistent/docs"]}}"#)),
            "Settings",
            "/nonexistent/docs",
        ),
        (
            "broken settings of the project",
            plant(|home| home.file(".gemini/settings.json", "{oops")),
            "Settings",
            "settings.json",
        ),
        (
            "folder that is not trusted",
            plant(|home| home.untrusted().file(".gemini/settings.json", "{}")),
            "Folder",
            "not trusted",
        ),
        (
            "broken trusted folders",
            plant(|home| home.untrusted().home_file(".gemini/trustedFolders.json", "{")),
            "Settings",
            "trustedFolders.json",
        ),
        (
            "key with a line end",
            plant(|home| home.env("GEMINI_API_KEY", "AIza\n")),
            "Credentials",
            "GEMINI_API_KEY contains spaces",
        ),
        (
            "key in quotes",
            plant(|home| home.env("OPENAI_API_KEY", "\"sk-1\"")),
            "Credentials",
            "OPENAI_API_KEY contains spaces",
        ),
        (
            "credentials file that is missing",
            plant(|home| home.env("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json")),
            "Credentials",
            "it does not exist",
        ),
        (
            "credentials file without credentials",
            plant(|home| {
                let file = home.home().join("key.json").display().to_string();
                home.home_file("key.json", "{}").env("GOOGLE_APPLICATION_CREDENTIALS", &file)
            }),
            "Credentials",
            "not a credentials file",
        ),
        (
            "sign-in that cannot be used",
            Box::new(user(r#"{"security": {"auth": {"selectedType": "vertex-ai"}}}"#)),
            "Credentials",
            "",
        ),
        (
            "no key at all",
            plant(|home| home.env("GEMINI_API_KEY", "")),
            "Providers",
            "no model provider has a key",
        ),
        (
            "provider without an address",
            Box::new(user(r#"{"providers": {"mine": {"dialect": "chat"}}}"#)),
            "Providers",
            "mine",
        ),
        (
            "provider with an unknown key",
            Box::new(user(r#"{"providers": {"mine": {"baseUrl": 7}}}"#)),
            "",
            "mine",
        ),
        (
            "proxy that is no address",
            plant(|home| home.env("HTTPS_PROXY", "http://[bad")),
            "Network",
            "invalid proxy URL",
        ),
        (
            "certificates that are missing",
            plant(|home| home.env("NODE_EXTRA_CA_CERTS", "/nonexistent/ca.pem")),
            "Network",
            "NODE_EXTRA_CA_CERTS",
        ),
        (
            "certificates that are none",
            plant(|home| {
                let file = home.home().join("ca.pem").display().to_string();
                home.home_file("ca.pem", "hello").env("SSL_CERT_FILE", &file)
            }),
            "Network",
            "contains no certificate",
        ),
        ("unknown sandbox", Box::new(user(r#"{"tools": {"sandbox": "fortress"}}"#)), "Sandbox", "fortress"),
        ("sandbox turned off", Box::new(user(r#"{"tools": {"sandbox": false}}"#)), "Sandbox", "turned off"),
        (
            "server that is not installed",
            Box::new(user(r#"{"mcpServers": {"gone": {"command": "no-such-server-anywhere"}}}"#)),
            "MCP servers",
            "gone",
        ),
        (
            "server that ends at once",
            Box::new(user(r#"{"mcpServers": {"brief": {"command": "false"}}}"#)),
            "MCP servers",
            "brief",
        ),
        (
            "server that never answers",
            Box::new(user(
                r#"{"mcpServers": {"mute": {"command": "sleep", "args": ["60"], "timeout": 300}}}"#,
            )),
            "MCP servers",
            ": mute",
        ),
        (
            "server that refuses connections",
            Box::new(user(r#"{"mcpServers": {"far": {"httpUrl": "http://127.0.0.1:9/mcp"}}}"#)),
            "MCP servers",
            "far",
        ),
        (
            "server with a wrong entry",
            Box::new(user(r#"{"mcpServers": {"odd": {"command": 5}}}"#)),
            "",
            "odd",
        ),
        (
            "hook of an unknown event",
            Box::new(user(
                r#"{"hooks": {"BeforeLunch": [{"hooks": [{"type": "command", "command": "true"}]}]}}"#,
            )),
            "Hooks",
            "BeforeLunch",
        ),
        (
            "hook whose program is missing",
            Box::new(user(
                r#"{"hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "no-such-hook -x"}]}]}}"#,
            )),
            "Hooks",
            "no-such-hook",
        ),
        (
            "hook that is not executable",
            plant(|home| {
                let home = home.home_file("guard.sh", "#!/bin/sh\n");
                let hook = json!({"type": "command", "command": home.home().join("guard.sh")});
                let settings = json!({"hooks": {"BeforeTool": [{"hooks": [hook]}]}});
                home.home_file(".gemini/settings.json", &settings.to_string())
            }),
            "Hooks",
            "not executable",
        ),
        (
            "policy that is not TOML",
            plant(|home| home.home_file(".gemini/policies/mine.toml", "[[rule")),
            "Policies",
            "mine.toml",
        ),
        (
            "rule without a decision",
            plant(|home| home.home_file(".gemini/policies/mine.toml", "[[rule]]\ntoolName = \"glob\"\n")),
            "Policies",
            "mine.toml",
        ),
        (
            "skill without a description",
            plant(|home| home.home_file(".gemini/skills/bad/SKILL.md", "---\nname: bad\n---\nText\n")),
            "Skills",
            "bad",
        ),
        (
            "agent without a description",
            plant(|home| home.home_file(".gemini/agents/bad.md", "---\nname: bad\n---\nText\n")),
            "Sub-agents",
            "bad",
        ),
        (
            "command that is not TOML",
            plant(|home| home.home_file(".gemini/commands/bad.toml", "prompt = ")),
            "Commands",
            "bad.toml",
        ),
        (
            "extension without a manifest",
            plant(|home| home.home_file(".gemini/extensions/bad/README.md", "")),
            "Extensions",
            "bad",
        ),
        (
            "index that is damaged",
            plant(|home| home.home_file(".gemini/pollux/catalogue.db", "not an index at all")),
            "Sessions",
            "is damaged",
        ),
    ]
}

#[test]
fn planted_faults_are_found_and_come_with_a_fix() {
    let faults = faults();
    assert!(faults.len() >= 40, "{}", faults.len());
    let mut missed = Vec::new();
    for (name, plant, area, words) in faults {
        let home = plant(healthy());
        let report = examined(&home, false);
        let found = report["findings"].as_array().unwrap().iter().find(|finding| {
            finding["level"] != "ok"
                && (area.is_empty() || finding["area"] == *area)
                && finding["what"].as_str().unwrap().contains(words)
        });
        match found {
            None => missed.push(format!("{name}: {:?}", complaints(&report))),
            Some(finding) if finding["hint"].is_null() => {
                missed.push(format!("{name} has no fix: {finding}"))
            }
            Some(_) => {}
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn what_is_safe_to_repair_is_repaired() {
    let home = healthy().home_file(".gemini/pollux/catalogue.db", "not an index at all");
    let home = rights(home, ".gemini", 0o770);
    let text = home.run(command(false, false), "").out;
    assert!(text.contains("`pollux doctor --fix` repairs 2 of them"), "{text}");
    let report = examined(&home, true);
    assert_eq!(report["repaired"].as_array().map(Vec::len), Some(2), "{report:#}");
    assert_eq!(report["ok"], json!(true), "{report:#}");
    let mode = |path: &str| fs::metadata(home.home().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(".gemini"), 0o750);
    assert!(!home.home().join(".gemini/pollux/catalogue.db").exists());
}

#[test]
fn rights_of_what_a_link_leads_to_are_left_alone() {
    let home = linked_keys(healthy());
    let report = examined(&home, true);
    assert!(report["repaired"][0].as_str().unwrap().contains("symbolic link"), "{report:#}");
    let mode = fs::metadata(home.project().join("elsewhere.env")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o644);
}
