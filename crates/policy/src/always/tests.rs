use std::path::Path;

use pollux_domain::JsonObject;
use pollux_domain::tool::Effect;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::engine::Options;
use crate::load::{Sources, load};
use crate::request::Decision;

fn object(value: Value) -> JsonObject {
    value.as_object().cloned().unwrap_or_default()
}

fn request<'a>(tool: &'a str, server: Option<&'a str>, args: &'a JsonObject) -> Request<'a> {
    Request {
        tool,
        server,
        read_only: false,
        annotations: None,
        args,
        effect: &Effect::None,
        mode: ApprovalMode::Default,
        interactive: true,
        subagent: None,
    }
}

pub(super) fn grant_for_command(command: &str) -> Grant {
    let args = object(json!({"command": command}));
    Grant::narrow(&request(SHELL, None, &args), GrantScope::Tool).unwrap()
}

/// An engine that has read the grant back from a file.
#[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
fn reloaded(grant: &Grant) -> Engine {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auto-saved.toml");
    std::fs::write(&file, grant.to_toml()).unwrap();
    let engine = load(&Sources { user: vec![file], ..Sources::default() }, options());
    assert_eq!(engine.problems(), &[]);
    engine
}

fn options() -> Options {
    Options { workspaces: vec![Path::new("/w").to_owned()], protect_build_files: false, ..Options::default() }
}

#[test]
fn a_file_grant_covers_that_file_only() {
    let args = object(json!({"file_path": "/w/a (1)+.rs", "content": "x"}));
    let grant = Grant::narrow(&request("write_file", None, &args), GrantScope::Tool).unwrap();
    assert_eq!(
        grant.to_toml(),
        "[[rule]]\ntoolName = \"write_file\"\ndecision = \"allow\"\npriority = 950\nargsPattern = '''\\x00\"file_path\":\"/w/a \\(1\\)\\+\\.rs\"\\x00'''\nmodes = [\"default\", \"autoEdit\", \"yolo\"]\n"
            .replace("'''", "'")
    );
    let engine = reloaded(&grant);
    assert_eq!(engine.decide(&request("write_file", None, &args)).decision, Decision::Allow);
    let other = object(json!({"file_path": "/w/a (1)++.rs", "content": "x"}));
    assert_eq!(engine.decide(&request("write_file", None, &other)).decision, Decision::Ask);
    let posing = object(json!({"file_path": "/x", "content": "\0\"file_path\":\"/w/a (1)+.rs\"\0"}));
    assert_eq!(engine.decide(&request("write_file", None, &posing)).decision, Decision::Ask);
}

#[test]
fn a_server_grant_covers_its_tool_or_the_server() {
    let args = JsonObject::new();
    let grant = Grant::narrow(&request("mcp_git_push", Some("git"), &args), GrantScope::Tool).unwrap();
    assert_eq!((grant.tool.as_deref(), grant.server.as_deref()), (Some("push"), Some("git")));
    let engine = reloaded(&grant);
    assert_eq!(engine.decide(&request("mcp_git_push", Some("git"), &args)).decision, Decision::Allow);
    assert_eq!(engine.decide(&request("mcp_git_pull", Some("git"), &args)).decision, Decision::Ask);
    let all = Grant::narrow(&request("mcp_git_push", Some("git"), &args), GrantScope::Server).unwrap();
    let engine = reloaded(&all);
    assert_eq!(engine.decide(&request("mcp_git_pull", Some("git"), &args)).decision, Decision::Allow);
    assert_eq!(engine.decide(&request("mcp_x_pull", Some("x"), &args)).decision, Decision::Ask);
}

#[test]
fn no_grant_is_given_to_a_server_whose_name_stands_for_others() {
    let args = JsonObject::new();
    for server in ["*", "g*t"] {
        for reach in [GrantScope::Tool, GrantScope::Server] {
            assert_eq!(Grant::narrow(&request("mcp___push", Some(server), &args), reach), None, "{server}");
        }
    }
}

#[test]
fn a_command_grant_covers_program_and_subcommand() {
    let table = [
        ("git push origin", Some(vec!["git push"])),
        ("make", Some(vec!["make"])),
        ("cargo test && terser x", Some(vec!["cargo test", "terser"])),
        ("cargo test 2>&1 | tail -5", Some(vec!["cargo test"])),
        ("make; git status && cat a", Some(vec!["make"])),
        ("make | tee log > copy", Some(vec!["make", "tee"])),
        ("python3 a.py", Some(vec!["python3 a.py"])),
        ("git -C /x push", None),
        ("rm -rf build", None),
        ("sudo make", None),
        ("eval $X", None),
    ];
    for (command, prefixes) in table {
        let args = object(json!({"command": command}));
        let grant = Grant::narrow(&request("run_shell_command", None, &args), GrantScope::Tool);
        let found =
            grant.as_ref().map(|grant| grant.command_prefixes.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found, prefixes, "{command}");
        if let Some(grant) = grant {
            let decision = reloaded(&grant).decide(&request("run_shell_command", None, &args)).decision;
            assert_eq!(decision, Decision::Allow, "{command}");
        }
    }
}

#[test]
fn a_grant_for_several_commands_covers_no_reading() {
    let grant = grant_for_command("tar xf a.tar && cat d/x");
    assert_eq!(grant.command_prefixes, ["tar"]);
    let engine = reloaded(&grant);
    for command in ["cat .env", "cat ../x", "tar xf a.tar && cat d/x"] {
        let args = object(json!({"command": command}));
        let decision = engine.decide(&request("run_shell_command", None, &args)).decision;
        assert_eq!(decision, Decision::Ask, "{command}");
    }
    assert_eq!(grant_for_command("cat ../x").command_prefixes, ["cat"]);
}

#[test]
fn a_session_grant_yields_to_the_users_deny_and_overrides_the_project() {
    let args = object(json!({"command": "make all"}));
    let asked = request("run_shell_command", None, &args);
    let grant = Grant::narrow(&asked, GrantScope::Tool).unwrap();
    let mut engine = load(&Sources::default(), options());
    assert_eq!(engine.decide(&asked).decision, Decision::Ask);
    engine.allow_for_session(&grant);
    let verdict = engine.decide(&asked);
    assert_eq!(verdict.decision, Decision::Allow);
    assert!((verdict.rule.unwrap().priority - 3.95).abs() < 1e-9);
    let lists = crate::settings_rules::Lists {
        exclude: vec!["run_shell_command(make)".to_owned()],
        ..Default::default()
    };
    let mut engine = load(&Sources { lists, ..Sources::default() }, options());
    engine.allow_for_session(&grant);
    assert_eq!(engine.decide(&asked).decision, Decision::Deny);
}

#[test]
fn saving_keeps_existing_rules_and_updates_matching_ones() {
    let args = object(json!({"command": "make all"}));
    let mut asked = request("run_shell_command", None, &args);
    asked.mode = ApprovalMode::AutoEdit;
    let narrow = Grant::narrow(&asked, GrantScope::Tool).unwrap();
    asked.mode = ApprovalMode::Default;
    let wide = Grant::narrow(&asked, GrantScope::Tool).unwrap();
    let other = "# mine\n[[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 1\n";
    let one = narrow.merged_into(other).unwrap();
    assert_eq!(one, format!("{other}\n{}", narrow.to_toml()));
    let two = wide.merged_into(&one).unwrap();
    assert_eq!(two, format!("{other}\n{}", wide.to_toml()));
    assert_eq!(narrow.merged_into(&two).unwrap(), two);
    assert_eq!(narrow.merged_into("").unwrap(), narrow.to_toml());
    assert!(narrow.merged_into("[[rule").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_saved_file_grant_matches_again_and_nothing_else(path in "\\PC{1,30}|[a-z./\\\\\"'\n\u{1}(){}*+?-]{1,30}", other in "\\PC{0,30}") {
        let args = object(json!({"file_path": path, "content": other}));
        let grant = Grant::narrow(&request("write_file", None, &args), GrantScope::Tool).unwrap();
        let engine = reloaded(&grant);
        prop_assert_eq!(engine.decide(&request("write_file", None, &args)).decision, Decision::Allow);
        for wrong in [format!("{path}x"), format!("x{path}"), other.clone()] {
            if wrong != path {
                let args = object(json!({"file_path": wrong, "content": path}));
                prop_assert_eq!(engine.decide(&request("write_file", None, &args)).decision, Decision::Ask);
            }
        }
    }
}

#[test]
fn a_destructive_command_is_described_with_its_targets() {
    let told = |command: &str| {
        let args = object(json!({"command": command}));
        destruction(&request(SHELL, None, &args)).unwrap_or_default()
    };
    let expected = [
        (
            "rm -rf build && git reset --hard HEAD~1",
            "Deletes build and everything in it; discards uncommitted changes and later commits (git reset --hard HEAD~1)",
        ),
        ("rm -rf a b/ 'c d'", "Deletes a, b/ and c d and everything in them"),
        ("rm a.txt", "Deletes a.txt"),
        ("rm -f a b c d e", "Deletes a, b, c and 2 more"),
        ("rm *.o", "Deletes every file that matches *.o"),
        ("rm -f $FILES", "Deletes files only known at run time"),
        ("sudo rm -rf /var/lib/x", "Deletes /var/lib/x and everything in it"),
        ("find . -name x | xargs rm -rf", "Deletes ./**/x and everything in them"),
        ("find src -name '*.o' -delete", "Acts on every file it finds (find src -name '*.o' -delete)"),
        ("git clean -fdx", "Deletes untracked files (git clean -fdx)"),
        ("git branch -D old", "Deletes or moves the branch old"),
        (
            "git push --force origin main",
            "Rewrites or deletes published commits (git push --force origin main)",
        ),
        ("git checkout -- .", "Discards uncommitted changes (git checkout -- .)"),
        ("dd if=a of=/dev/sda", "Overwrites /dev/sda"),
        ("chmod -R 777 src", "Changes owners or permissions of everything in src"),
        ("mkfs.ext4 /dev/sdb1", "Formats /dev/sdb1; everything on it is lost"),
        ("bash -c 'rm -rf x'", "Deletes x and everything in it"),
        ("kubectl delete pod web", "Deletes cluster resources: pod and web"),
        ("ls && cat a", ""),
        ("cargo test", ""),
    ];
    for (command, sentence) in expected {
        assert_eq!(told(command), sentence, "{command}");
    }
    let many: Vec<String> = (0..9).map(|number| format!("rm f{number}")).collect();
    assert!(told(&many.join("; ")).ends_with("deletes f4; and 4 more destructive commands"));
    // A name cannot imitate our own text on another line.
    assert!(!told("rm -rf $'a\\nb'").is_empty());
}

#[test]
fn a_destructive_hint_of_an_mcp_tool_is_reported() {
    let args = object(json!({}));
    let hints = object(json!({"destructiveHint": true}));
    let plain = request("mcp_db_drop", Some("db"), &args);
    assert_eq!(destruction(&plain), None);
    let marked = Request { annotations: Some(&hints), ..plain };
    assert_eq!(destruction(&marked).as_deref(), Some("The server db marks this tool as destructive."));
}
