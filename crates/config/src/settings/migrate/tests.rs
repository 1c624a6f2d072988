use serde_json::json;

use super::*;
use crate::scratch::{PROJECT, SYSTEM, Scratch, USER};
use crate::settings::{ProjectTrust, WarningKind};

fn planned(text: &str) -> Option<String> {
    plan(text).map(|plan| plan.text)
}

const FLAT_BEFORE: &str = r#"{
  // colours
  "theme": "GitHub", // chosen in May
  "selectedAuthType": "gemini-api-key",

  /* servers
     of the team */
  "mcpServers": {
    "gh": { "env": { "TOKEN": "$GH_TOKEN" } } // interpolated
  },
  "model": "gemini-2.5-pro",
  "disableAutoUpdate": true,
  "fileFiltering": {
    "respectGitIgnore": false, // we need build output
    "disableFuzzySearch": true
  },
  "checkpointing": true,
  "chatCompression": { "contextPercentageThreshold": 0.6 },
  "mine": { "kept": 1 }
}
"#;

const FLAT_AFTER: &str = r#"{
  /* servers
     of the team */
  "mcpServers": {
    "gh": { "env": { "TOKEN": "$GH_TOKEN" } } // interpolated
  },
  "mine": { "kept": 1 },
  "model": {
    "name": "gemini-2.5-pro",
    "compressionThreshold": 0.6
  },
  "general": {
    "checkpointing": {
      "enabled": true
    },
    "enableAutoUpdate": false
  },
  "context": {
    "fileFiltering": {
      "respectGitIgnore": false, // we need build output
      "enableFuzzySearch": false
    }
  },
  "security": {
    "auth": {
      "selectedType": "gemini-api-key"
    }
  },
  "ui": {
    // colours
    // chosen in May
    "theme": "GitHub"
  }
}
"#;

#[test]
fn the_flat_form_is_rewritten_with_its_comments() {
    assert_eq!(planned(FLAT_BEFORE).unwrap(), FLAT_AFTER);
    assert_eq!(planned(FLAT_AFTER), None, "once is enough");
}

#[test]
fn comments_of_an_old_key_stay_if_its_new_name_exists() {
    let before =
        "{\n  // why dark\n  \"theme\": \"GitHub\",\n  // the rest\n  \"ui\": { \"theme\": \"ANSI\" }\n}\n";
    let after = "{\n  // why dark\n  // the rest\n  \"ui\": { \"theme\": \"ANSI\" }\n}\n";
    assert_eq!(planned(before).unwrap(), after);
    let before = "{\n  \"ui\": { \"theme\": \"ANSI\" },\n  // why dark\n  \"theme\": \"GitHub\"\n}\n";
    let after = "{\n  \"ui\": { \"theme\": \"ANSI\" }\n  // why dark\n}\n";
    assert_eq!(planned(before).unwrap(), after);
}

#[test]
fn later_renames_follow_their_rules() {
    for (before, after) in [
        (json!({"general": {"disableAutoUpdate": false}}), json!({"general": {"enableAutoUpdate": true}})),
        (
            json!({"general": {"disableUpdateNag": true}}),
            json!({"general": {"enableAutoUpdateNotification": false}}),
        ),
        (
            json!({"general": {"disableUpdateNag": true, "enableAutoUpdateNotification": true}}),
            json!({"general": {"enableAutoUpdateNotification": true}}),
        ),
        (
            json!({"ui": {"accessibility": {"disableLoadingPhrases": true}}}),
            json!({"ui": {"accessibility": {"enableLoadingPhrases": false}}}),
        ),
        (
            json!({"tools": {"approvalMode": "plan", "core": []}}),
            json!({"tools": {"core": []}, "general": {"defaultApprovalMode": "plan"}}),
        ),
        (
            json!({"tools": {"approvalMode": "plan"}, "general": {"defaultApprovalMode": "default"}}),
            json!({"tools": {}, "general": {"defaultApprovalMode": "default"}}),
        ),
        (
            json!({"experimental": {"plan": false}}),
            json!({"experimental": {}, "general": {"plan": {"enabled": false}}}),
        ),
        (
            json!({"experimental": {"cliHelpAgentSettings": {"enabled": false}}}),
            json!({"experimental": {}, "agents": {"overrides": {"cli_help": {"enabled": false}}}}),
        ),
        (
            json!({"experimental": {"codebaseInvestigatorSettings": {"enabled": true, "maxNumTurns": 5, "maxTimeMinutes": 3, "thinkingBudget": 9, "model": "m"}}}),
            json!({"experimental": {}, "agents": {"overrides": {"codebase_investigator": {
                "enabled": true, "runConfig": {"maxTurns": 5, "maxTimeMinutes": 3},
                "modelConfig": {"model": "m", "generateContentConfig": {"thinkingConfig": {"thinkingBudget": 9}}}}}}}),
        ),
        (json!({"vimMode": true, "general": {"vimMode": false}}), json!({"general": {"vimMode": false}})),
        (
            json!({"accessibility": {"screenReader": true}, "ui": {"accessibility": {"enableLoadingPhrases": true}}}),
            json!({"ui": {"accessibility": {"enableLoadingPhrases": true, "screenReader": true}}}),
        ),
        (
            json!({"sandbox": {"enabled": true, "type": "docker"}}),
            json!({"tools": {"sandbox": {"enabled": true, "type": "docker"}}}),
        ),
        (json!({"editor": "vim"}), json!({"general": {"preferredEditor": "vim"}})),
        (json!({"theme": "light", "editor": "none"}), json!({"ui": {"theme": "light"}})),
        (json!({"modelName": "m"}), json!({"model": {"name": "m"}})),
        (json!({"apiKey": "$K", "modelName": "m"}), json!({"model": {"name": "m"}, "api": {"key": "$K"}})),
    ] {
        let text = planned(&before.to_string()).unwrap();
        assert_eq!(crate::jsonc::parse(&text).unwrap().value, after, "{before}");
        let pretty = planned(&format!("{before:#}")).unwrap();
        assert_eq!(crate::jsonc::parse(&pretty).unwrap().value, after, "{before:#}");
    }
}

#[test]
fn keys_that_only_look_old_are_left() {
    for text in [
        json!({"model": {"name": "x"}, "telemetry": true, "mcpServers": {}, "extensions": {}}),
        json!({"model": {"disableLoopDetection": true}, "security": {"disableYoloMode": true}}),
        json!({"general": {"disableAutoUpdate": "yes"}}),
        json!({"apiKey": "secret"}),
        json!({"editor": "none"}),
        json!({"vimMode": true, "general": 5}),
    ] {
        assert_eq!(planned(&text.to_string()), None, "{text}");
    }
}

#[test]
fn loading_rewrites_the_users_file_and_keeps_the_old_one() {
    let scratch = Scratch::new();
    scratch.write(USER, FLAT_BEFORE);
    scratch.write("home/.gemini/settings.json.orig", "an older backup");
    scratch.write(PROJECT, "{\"tools\": {\"approvalMode\": \"auto_edit\"}}");
    let settings = scratch.load_with(&[("GH_TOKEN", "t")], ProjectTrust::Trusted, &[]).unwrap();
    assert_eq!(scratch.read(USER), FLAT_AFTER);
    assert_eq!(scratch.read("home/.gemini/settings.json.orig"), "an older backup");
    assert_eq!(scratch.read("home/.gemini/settings.json.orig.1"), FLAT_BEFORE);
    assert_eq!(scratch.names("work/.gemini"), ["settings.json"], "nothing is written there");
    assert_eq!(settings.migrated.len(), 1);
    assert_eq!(settings.migrated[0].backup, scratch.path("home/.gemini/settings.json.orig.1"));
    assert_eq!(settings.groups.model.name, "gemini-2.5-pro");
    assert_eq!(scratch.read(PROJECT), "{\"tools\": {\"approvalMode\": \"auto_edit\"}}");
    let (_, origin) = settings.get("model.name").unwrap();
    assert_eq!(origin.line, Some(9), "lines are those of the new file");
    let [unknown, warning] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
    assert_eq!((&unknown.kind, unknown.key.as_str()), (&WarningKind::Misspelt, "mine"));
    assert_eq!(unknown.message, "unknown setting; it is ignored");
    assert_eq!(warning.kind, WarningKind::NotFromProject, "the mode is the user's to choose");
    assert!(scratch.load().migrated.is_empty());
}

#[test]
fn a_renamed_key_alone_keeps_a_copy_of_the_file_as_well() {
    let scratch = Scratch::new();
    let old = "{\"tools\": {\"approvalMode\": \"auto_edit\"}}";
    scratch.write(USER, old);
    let settings = scratch.load();
    assert!(scratch.read(USER).contains("defaultApprovalMode"), "{}", scratch.read(USER));
    assert_eq!(scratch.read("home/.gemini/settings.json.orig"), old);
    assert_eq!(settings.migrated[0].backup, scratch.path("home/.gemini/settings.json.orig"));
}

#[test]
fn an_untrusted_projects_file_is_not_rewritten() {
    let scratch = Scratch::new();
    scratch.write(PROJECT, "{\"theme\": \"x\"}");
    scratch.load_with(&[], ProjectTrust::Untrusted, &[]).unwrap();
    assert_eq!(scratch.read(PROJECT), "{\"theme\": \"x\"}");
}

#[test]
fn system_files_are_read_by_the_new_names_and_only_warned_about() {
    let scratch = Scratch::new();
    scratch.write(SYSTEM, "{\n  \"theme\": \"x\"\n}");
    let settings = scratch.load();
    assert_eq!(scratch.read(SYSTEM), "{\n  \"theme\": \"x\"\n}");
    assert_eq!(settings.get("ui.theme").unwrap().0, &json!("x"));
    let [warning] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
    assert_eq!(
        (&warning.kind, warning.line, warning.key.as_str()),
        (&WarningKind::Deprecated, Some(2), "theme")
    );
    assert_eq!(warning.message, "deprecated; the new name is `ui.theme`");
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_rewritten_is_read_all_the_same() {
    let scratch = Scratch::new();
    scratch.write(USER, "{\n\"theme\": \"x\",\n\"tools\": {\"core\": [\"a\"]}}");
    // A lock that nobody can take, root included.
    std::os::unix::fs::symlink("settings.json.lock", scratch.path("home/.gemini/settings.json.lock"))
        .unwrap();
    let settings = scratch.load();
    assert_eq!(settings.get("ui.theme").unwrap().0, &json!("x"));
    assert_eq!(settings.get("tools.core").unwrap().1.line, Some(3), "lines are those of the file");
    let [warning] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
    assert_eq!(warning.kind, WarningKind::NotRewritten);
    assert!(warning.message.starts_with("could not rename deprecated keys in the file: could not lock `"));
    assert!(settings.migrated.is_empty());
    assert_eq!(scratch.names("home/.gemini"), ["settings.json", "settings.json.lock"]);
}

#[test]
fn a_run_that_must_not_write_reads_old_names_in_memory() {
    let scratch = Scratch::new();
    scratch.write(USER, "{\"theme\": \"x\"}");
    let settings = crate::settings::load(&crate::settings::LoadRequest {
        offered: &[],
        env: &scratch.env(&[]),
        own_env: &scratch.env(&[]),
        home: &scratch.home(),
        project_root: &scratch.path("work"),
        trust: ProjectTrust::Trusted,
        args: Default::default(),
        migration: crate::settings::Migration::InMemory,
    })
    .unwrap();
    assert_eq!(settings.get("ui.theme").unwrap().0, &json!("x"));
    assert_eq!(scratch.read(USER), "{\"theme\": \"x\"}");
    assert_eq!(scratch.names("home/.gemini"), ["settings.json"]);
}
