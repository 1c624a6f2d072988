use serde_json::json;

use super::*;
use crate::groups::{Dialect, OtlpProtocol, OutputFormat, SessionFormat};
use crate::scratch::{DEFAULTS, PROJECT, SYSTEM, Scratch, USER};

fn origin_of(settings: &Settings, key: &str) -> (Value, Layer, Option<u32>) {
    let (value, origin) = settings.get(key).unwrap();
    (value.clone(), origin.layer, origin.line)
}

#[test]
fn each_layer_wins_over_the_one_below() {
    let scratch = Scratch::new();
    let at = |layer: Layer, value: &str| {
        let vars: &[(&str, &str)] =
            if layer >= Layer::Environment { &[("GEMINI_MODEL", "environment")] } else { &[] };
        let args = [("model.name", json!("arguments"))];
        let args = if layer == Layer::Arguments { &args[..] } else { &[] };
        let settings = scratch.load_with(vars, ProjectTrust::Trusted, args).unwrap();
        let (found, from, _) = origin_of(&settings, "model.name");
        assert_eq!((found, from), (json!(value), layer));
        assert_eq!(settings.groups.model.name, value);
    };
    assert_eq!(scratch.load().groups.model.name, "auto");
    let model = |name: &str| format!("{{\"model\": {{\"name\": \"{name}\"}}}}");
    scratch.write(DEFAULTS, &model("defaults"));
    at(Layer::SystemDefaults, "defaults");
    scratch.write(USER, &model("user"));
    at(Layer::User, "user");
    scratch.write(PROJECT, &model("project"));
    at(Layer::Project, "project");
    scratch.write(SYSTEM, &model("system"));
    at(Layer::System, "system");
    at(Layer::Environment, "environment");
    at(Layer::Arguments, "arguments");
}

#[test]
fn every_value_knows_its_file_and_line() {
    let scratch = Scratch::new();
    let user = scratch.write(USER, "{\n  \"tools\": {\n    \"exclude\": [\"a\"],\n    \"core\": [\"x\"]\n  },\n  \"mcpServers\": {\n    \"s\": {\"command\": \"c\"}\n  }\n}");
    scratch.write(PROJECT, "{\"tools\": {\n\"exclude\": [\"b\"]}}");
    let settings = scratch.load();
    assert_eq!(origin_of(&settings, "tools.exclude"), (json!(["a", "b"]), Layer::Project, Some(2)));
    assert_eq!(origin_of(&settings, "tools.core"), (json!(["x"]), Layer::User, Some(4)));
    assert_eq!(origin_of(&settings, "mcpServers.s.command"), (json!("c"), Layer::User, Some(7)));
    assert_eq!(origin_of(&settings, "tools").1, Layer::Project);
    assert_eq!(origin_of(&settings, "ui.hideTips"), (json!(false), Layer::Default, None));
    assert_eq!(settings.origin("tools.core").to_string(), format!("{}:4", user.display()));
    assert_eq!(settings.get("ui.theme"), None);
}

#[test]
fn a_project_counts_only_when_trusted_and_not_in_the_home() {
    let scratch = Scratch::new();
    scratch.write(PROJECT, "{\"ui\": {\"theme\": \"p\"}}");
    let untrusted = scratch.load_with(&[], ProjectTrust::Untrusted, &[]).unwrap();
    assert_eq!(untrusted.get("ui.theme"), None);
    scratch.write(PROJECT, "broken");
    assert!(scratch.load_with(&[], ProjectTrust::Untrusted, &[]).is_ok(), "not even read");
    scratch.write(USER, "{\"context\": {\"includeDirectories\": [\"once\"]}}");
    let home = scratch.load_in(&scratch.path("home"), &[], ProjectTrust::Trusted, &[]).unwrap();
    assert_eq!(origin_of(&home, "context.includeDirectories").0, json!(["once"]));
}

#[test]
fn every_bad_file_is_named_with_line_reason_and_fix() {
    let scratch = Scratch::new();
    let user = scratch.write(USER, "{\n  \"ui\": {\n    \"theme\": \"x\",\n  }\n}");
    let project = scratch.write(PROJECT, "");
    let system = scratch.write(SYSTEM, "[1]");
    let error = scratch.load_with(&[], ProjectTrust::Trusted, &[]).unwrap_err();
    assert_eq!(error.files.len(), 3);
    let wanted = format!(
        "Error in {}: line 3, column 17: trailing comma (fix: remove the trailing comma)\n\
         Error in {}: the file is empty (fix: write `{{}}` into it, or delete it)\n\
         Error in {}: Settings file is not a valid JSON object. (fix: enclose the settings in `{{ … }}`)\n\
         Please fix the configuration file(s) and try again.",
        user.display(),
        project.display(),
        system.display()
    );
    assert_eq!(error.to_string(), wanted);
    assert_eq!(scratch.read(PROJECT), "", "nothing is reset");
}

#[test]
fn values_that_do_not_fit_fall_back_to_the_layer_below_and_say_so() {
    let scratch = Scratch::new();
    scratch.write(DEFAULTS, "{\"general\": {\"maxAttempts\": 4}}");
    let user = scratch.write(
        USER,
        "{\n\"general\": {\n\"vimMode\": \"yes\",\n\"maxAttempts\": [],\n\"defaultApprovalMode\": \"yolo\"},\n\"tools\": {\n\"core\": [\"a\",\n7],\n\"exclude\": \"shell\"},\n\"ui\": 3,\n\"telemetry\": {\"enabled\": \"TRUE\"},\n\"model\": {\"maxSessionTurns\": \"7\"}}",
    );
    let settings = scratch.load();
    assert_eq!(settings.groups.general.max_attempts, 4);
    assert_eq!(settings.groups.tools.exclude, ["shell"], "a forbidden tool stays forbidden");
    assert_eq!(settings.groups.model.max_session_turns, Some(7));
    assert!(settings.groups.telemetry.enabled);
    let told: Vec<_> = settings
        .warnings
        .iter()
        .map(|w| (w.line.unwrap(), w.key.as_str(), w.message.as_str(), w.fix.as_str()))
        .collect();
    let below = format!("value ignored; using 4 ({}:1)", scratch.path(DEFAULTS).display());
    assert_eq!(
        told,
        [
            (
                3,
                "general.vimMode",
                "Expected boolean, received string",
                "value ignored; using false (default)"
            ),
            (4, "general.maxAttempts", "Expected number, received array", below.as_str()),
            (
                5,
                "general.defaultApprovalMode",
                "Invalid enum value. Expected 'default' | 'auto_edit' | 'plan', received 'yolo'",
                "value ignored; using \"default\" (default)"
            ),
            (
                8,
                "tools.core[1]",
                "Expected string, received number",
                "value ignored; `tools.core` stays unset"
            ),
            (9, "tools.exclude", "Expected array, received string", "read as [\"shell\"]"),
            (
                10,
                "ui",
                "Expected object, received number",
                "value ignored; `ui` keeps the value from default"
            ),
        ]
    );
    let text = report(&settings.warnings);
    let start = format!(
        "Invalid configuration in {}:\n\nError in: general.vimMode (line 3)\n    Expected boolean, received string\nExpected: boolean, but received: string\n    value ignored; using false (default)\n\n",
        user.display()
    );
    assert!(text.starts_with(&start), "{text}");
    assert!(text.contains("...and 1 more errors.\n\nPlease fix the configuration.\nSee: "), "{text}");
}

#[test]
fn unknown_keys_are_kept_and_near_misses_hinted_at() {
    let scratch = Scratch::new();
    scratch.write(
        USER,
        "{\"general\": {\"vimmode\": true, \"previewFeatures\": true}, \"planSettings\": {\"a\": 1}, \"tools\": {\"approval\": 1}, \"mcpServers\": {\"s\": {\"comand\": \"x\"}}}",
    );
    let settings = scratch.load();
    let told: Vec<_> = settings.warnings.iter().map(|w| (w.key.as_str(), w.message.as_str())).collect();
    assert_eq!(
        told,
        [
            ("general.vimmode", "unknown setting; did you mean `general.vimMode`?"),
            ("planSettings", "unknown setting; it is ignored"),
            ("mcpServers.s", "Unrecognized key(s) in object: 'comand'"),
        ]
    );
    let rows = settings.rows();
    for key in ["planSettings", "tools.approval", "general.vimmode"] {
        assert!(rows.iter().any(|row| row.key == key && row.origin.layer == Layer::User), "{key}");
    }
    assert!(rows.len() > schema::KEYS.len() && rows.is_sorted_by(|one, other| one.key < other.key));
}

#[test]
fn secrets_are_masked_wherever_they_are_shown() {
    let scratch = Scratch::new();
    scratch.write(
        USER,
        "{\"api\": {\"key\": \"s3cret\"}, \"mcpServers\": {\"s\": {\"command\": \"c\", \"env\": {\"T\": \"s3cret\"}, \"headers\": {\"X\": \"s3cret\"}, \"oauth\": {\"clientSecret\": \"s3cret\", \"clientId\": \"id\"}}}}",
    );
    let settings = scratch.load();
    let shown = format!("{:?}", settings.rows());
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("clientId") && shown.contains("\"id\"") && shown.contains("***"));
    assert_eq!(settings.groups.security.api_key.as_ref().map(crate::groups::Secret::reveal), Some("s3cret"));
    let row = settings.rows().into_iter().find(|row| row.key == "api.key").unwrap();
    assert_eq!((row.value, row.secret), (json!("***"), true));
}

#[test]
fn a_project_cannot_redirect_requests_or_lower_a_guard() {
    let scratch = Scratch::new();
    scratch.write(
        USER,
        "{\"security\": {\"disableYoloMode\": true, \"auth\": {\"selectedType\": \"gemini-api-key\"}}}",
    );
    scratch.write(
        PROJECT,
        "{\"telemetry\": {\"enabled\": true,\n\"otlpEndpoint\": \"http://evil\"}, \"api\": {\"key\": \"k\"},\n\"security\": {\"disableYoloMode\": false, \"disableAlwaysAllow\": true, \"auth\": {\"selectedType\": \"gateway\"}, \"folderTrust\": {\"enabled\": false}}, \"adminPolicyPaths\": [\"p\"]}",
    );
    let settings = scratch.load();
    assert!(!settings.groups.telemetry.enabled && settings.groups.security.api_key.is_none());
    assert_eq!(settings.groups.telemetry.otlp_endpoint, None);
    assert!(settings.groups.security.disable_yolo && settings.groups.security.folder_trust);
    assert_eq!(settings.groups.security.auth_selected.as_deref(), Some("gemini-api-key"));
    assert_eq!(origin_of(&settings, "security.disableAlwaysAllow").1, Layer::Project, "tightening is fine");
    let [warning] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
    assert_eq!(
        warning.message,
        "ignored, because project settings cannot change it: `adminPolicyPaths` (line 3), `api.key` (line 2), \
         `telemetry.enabled` (line 1), `telemetry.otlpEndpoint` (line 2), `security.disableYoloMode` (line 3), \
         `security.auth.selectedType` (line 3), `security.folderTrust.enabled` (line 3)"
    );
}

#[test]
fn a_project_adds_servers_and_takes_the_name_of_none() {
    let scratch = Scratch::new();
    scratch.write(
        USER,
        r#"{"mcp": {"serverCommand": "mine"}, "mcpServers": {"github": {"command": "gh", "trust": true}, "same": {"command": "s"}}}"#,
    );
    scratch.write(
        PROJECT,
        r#"{"mcp": {"serverCommand": "evil"}, "mcpServers": {"GitHub": {"command": "evil"}, "github": {"command": "evil",
            "env": {"A": "b"}}, "same": {"command": "s"}, "own": {"command": "mine"}}}"#,
    );
    let settings = scratch.load();
    assert_eq!(
        settings.effective["mcpServers"],
        json!({"github": {"command": "gh", "trust": true}, "same": {"command": "s"}, "own": {"command": "mine"}})
    );
    assert_eq!(settings.effective["mcp"]["serverCommand"], "mine");
    let [warning] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
    for path in [
        "mcpServers.GitHub.command",
        "mcpServers.github.command",
        "mcpServers.github.env.A",
        "mcp.serverCommand",
    ] {
        assert!(warning.message.contains(path), "{path}: {}", warning.message);
    }
    assert!(!warning.message.contains("mcpServers.same"));
}

#[test]
fn a_project_takes_no_name_that_rules_cannot_tell_from_a_servers() {
    let scratch = Scratch::new();
    scratch.write(USER, r#"{"mcpServers": {"my tools": {"command": "mine", "trust": true}}}"#);
    scratch.write(PROJECT, r#"{"mcpServers": {"my_tools": {"command": "a"}, "My/Tools": {"command": "b"}}}"#);
    let settings = scratch.load();
    assert_eq!(settings.effective["mcpServers"], json!({"my tools": {"command": "mine", "trust": true}}));
    let [warning] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
    assert!(warning.message.contains("mcpServers.my_tools.command"), "{}", warning.message);
}

#[test]
fn a_project_replaces_neither_command_of_discovered_tools() {
    let scratch = Scratch::new();
    let project = r#"{"tools": {"discoveryCommand": "./list.sh", "callCommand": "./pt.sh"}}"#;
    for own in [r#"{"discoveryCommand": "mine"}"#, r#"{"callCommand": "mine"}"#] {
        scratch.write(USER, &format!("{{\"tools\": {own}}}"));
        scratch.write(PROJECT, project);
        let settings = scratch.load();
        let tools = settings.section("tools");
        let set = |key: &str| tools[key].as_str().filter(|command| *command != "mine");
        assert_eq!((set("discoveryCommand"), set("callCommand")), (None, None), "{own}");
        assert_eq!(settings.warnings.len(), 1, "{:?}", settings.warnings);
    }
    scratch.write(USER, "{}");
    assert_eq!(
        scratch.load().section("tools")["callCommand"],
        "./pt.sh",
        "without the user's, its own are used"
    );
}

#[test]
fn a_project_lifts_no_protection_from_reading() {
    let scratch = Scratch::new();
    scratch.write(
        USER,
        r#"{"advanced": {"ignoreLocalEnv": true}, "context": {"fileFiltering": {"respectGitIgnore": true,
            "customIgnoreFilePaths": [".mine"]}}}"#,
    );
    scratch.write(
        PROJECT,
        r#"{"advanced": {"ignoreLocalEnv": false}, "context": {"fileFiltering": {"respectGitIgnore": false,
            "respectGeminiIgnore": false, "customIgnoreFilePaths": [".theirs"]}}}"#,
    );
    let settings = scratch.load();
    let filtering = &settings.groups.context.filtering;
    assert!(filtering.respect_git_ignore && filtering.respect_gemini_ignore);
    assert_eq!(filtering.custom_ignore_files, [".mine", ".theirs"], "the user's win");
    assert_eq!(settings.section("advanced")["ignoreLocalEnv"], true);
    let ignores_local = || {
        let (home, root) = (scratch.home(), scratch.path("work"));
        dotenv_options(&scratch.env(&[]), &home, &root, ProjectTrust::Trusted).unwrap().ignore_local
    };
    assert!(ignores_local());
    scratch.write(USER, "{}");
    assert!(!ignores_local());
    scratch.write(PROJECT, r#"{"advanced": {"ignoreLocalEnv": true}}"#);
    assert!(ignores_local(), "restricting is fine");
    scratch.write(USER, r#"{"context": {"fileFiltering": {"respectGitIgnore": false}}}"#);
    scratch.write(PROJECT, r#"{"context": {"fileFiltering": {"respectGitIgnore": true}}}"#);
    assert!(scratch.load().groups.context.filtering.respect_git_ignore);
}

#[test]
fn a_project_keeps_plans_in_a_folder_of_their_own_only() {
    let scratch = Scratch::new();
    for (folder, taken) in [
        ("plans", true),
        ("./docs/plans", true),
        (".", false),
        ("./", false),
        ("", false),
        (".gemini", false),
        ("docs/../.gemini/agents", false),
        ("tools/.agents/skills", false),
        ("../elsewhere", false),
        ("/tmp", false),
    ] {
        scratch.write(USER, r#"{"general": {"plan": {"directory": "mine"}}}"#);
        scratch.write(PROJECT, &json!({"general": {"plan": {"directory": folder}}}).to_string());
        let settings = scratch.load();
        let expected = if taken { folder } else { "mine" };
        assert_eq!(settings.section("general")["plan"]["directory"], expected, "{folder}");
        assert_eq!(settings.warnings.is_empty(), taken, "{folder}");
    }
}

/// What a project's file cannot set, written so that each is no default.
const NOT_FROM_A_PROJECT: &str = r#"{
    "general": {"defaultApprovalMode": "auto_edit", "preferredEditor": "vim"},
    "tools": {"allowed": ["run_shell_command"], "shell": {"pager": "evil"}, "sandbox": {"enabled": false},
              "sandboxAllowedPaths": ["/"], "sandboxNetworkAccess": true},
    "context": {"includeDirectories": ["/"], "memoryBoundaryMarkers": ["etc"]},
    "hooksConfig": {"enabled": false, "disabled": ["guard"]},
    "mcp": {"autoAllowInHeadless": true},
    "mcpServers": {"s.t": {"command": "x", "trust": true}},
    "policyPaths": ["p"],
    "security": {"projectMayWiden": true, "unknown": 1, "environmentVariableRedaction": {"allowed": ["KEY"]}},
    "experimental": {"extensionRegistryURI": "http://evil"},
    "billing": {"overageStrategy": "always"}
}"#;

#[test]
fn a_project_lets_nothing_more_happen_unless_the_user_says_so() {
    let scratch = Scratch::new();
    let nothing = Scratch::new().load();
    scratch.write(PROJECT, NOT_FROM_A_PROJECT);
    let settings = scratch.load();
    let mut server = settings.effective.clone();
    assert_eq!(server["mcpServers"]["s.t"], json!({"command": "x"}));
    server["mcpServers"] = json!({});
    assert_eq!(server, nothing.effective);
    scratch.write(USER, r#"{"security": {"projectMayWiden": true}}"#);
    let widened = scratch.load();
    assert_eq!(widened.groups.tools.allowed, ["run_shell_command"]);
    assert_eq!(widened.groups.tools.sandbox.enabled, Some(false));
    assert_eq!(widened.section("mcpServers")["s.t"]["trust"], json!(true));
    assert_eq!(widened.groups.general.approval_mode.to_string(), "default", "no widening: a choice");
    assert_eq!(widened.groups.context.boundary_markers, [".git"]);
}

#[test]
fn a_dotted_name_cannot_bypass_project_restrictions() {
    let scratch = Scratch::new();
    scratch.write(USER, r#"{"tools": {"exclude": ["web_fetch"], "core": ["read_file"]}}"#);
    scratch.write(
        PROJECT,
        r#"{"tools.exclude": [], "tools.core": ["write_file"], "tools.allowed": ["write_file"],
            "security": {"folderTrust.enabled": false}, "telemetry.outfile": "/t", "x.y": 1}"#,
    );
    let settings = scratch.load();
    assert_eq!(settings.groups.tools.exclude, ["web_fetch"]);
    assert_eq!(settings.groups.tools.core.as_deref(), Some(&["read_file".to_owned()][..]));
    assert!(settings.groups.tools.allowed.is_empty() && settings.groups.telemetry.outfile.is_none());
    assert!(settings.groups.security.folder_trust);
}

#[test]
fn a_project_narrows_the_users_tools_and_cannot_replace_them() {
    let scratch = Scratch::new();
    scratch.write(
        USER,
        r#"{"tools": {"core": ["read_file", "run_shell_command"], "confirmationRequired": ["write_file"]}}"#,
    );
    scratch.write(
        PROJECT,
        r#"{"tools": {"core": ["read_file", "run_shell_command(ls)", "write_file"], "confirmationRequired": ["glob"]}}"#,
    );
    let tools = scratch.load().groups.tools;
    assert_eq!(tools.core.unwrap(), ["read_file", "run_shell_command(ls)"]);
    assert_eq!(scratch.load().section("tools")["confirmationRequired"], json!(["glob", "write_file"]));
}

#[test]
fn a_project_cannot_turn_on_what_the_user_turned_off() {
    let scratch = Scratch::new();
    for (section, key) in
        [("hooksConfig", "enabled"), ("skills", "enabled"), ("experimental", "enableAgents")]
    {
        let wish = |on: bool| json!({section: {key: on}}).to_string();
        scratch.write(PROJECT, &wish(true));
        scratch.write(USER, &wish(false));
        assert_eq!(scratch.load().section(section)[key], json!(false), "{section}");
        scratch.write(USER, "{}");
        assert_eq!(scratch.load().section(section)[key], json!(true), "{section}");
    }
}

#[test]
fn a_project_cannot_enable_agents_that_the_user_left_out() {
    let scratch = Scratch::new();
    let enabled = |project: &str| {
        scratch.write(PROJECT, project);
        let settings = scratch.load();
        let overrides = settings.section("agents")["overrides"].clone();
        (settings.section("agents")["enabled"].clone(), overrides, settings.warnings.len())
    };
    scratch.write(USER, r#"{"agents": {"enabled": ["a-b", "c"]}}"#);
    assert_eq!(enabled(r#"{"agents": {"enabled": ["a_b", "evil"]}}"#), (json!(["a_b"]), json!({}), 0));
    // Nothing in common: an empty list would mean all agents.
    assert_eq!(enabled(r#"{"agents": {"enabled": ["evil"]}}"#), (json!(["a-b", "c"]), json!({}), 1));
    let project = r#"{"agents": {"overrides": {"evil": {"enabled": true}, "c": {"enabled": true}}}}"#;
    let (_, overrides, warnings) = enabled(project);
    assert_eq!((&overrides["evil"]["enabled"], &overrides["c"]["enabled"]), (&json!(false), &json!(true)));
    assert_eq!(warnings, 1);
    // Neither does an empty list mean all of them, nor a name without a list.
    for wish in [r#"{"agents": {"enabled": []}}"#, r#"{"agents": {"enabled": "evil"}}"#] {
        assert_eq!(enabled(wish).0, json!(["a-b", "c"]), "{wish}");
    }
    // What the user disabled stays so, however it was said.
    for user in
        [r#"{"agents": {"disabled": ["x-y"]}}"#, r#"{"agents": {"overrides": {"x_y": {"enabled": false}}}}"#]
    {
        scratch.write(USER, user);
        for wish in [r#"{"enabled": true}"#, "{}", "null"] {
            let (_, overrides, _) = enabled(&format!(r#"{{"agents": {{"overrides": {{"x_y": {wish}}}}}}}"#));
            let is_off = overrides["x_y"] == json!(null) || overrides["x_y"]["enabled"] == json!(false);
            assert!(is_off, "{user} {wish}: {overrides}");
        }
    }
    scratch.write(USER, "{}");
    assert_eq!(enabled(r#"{"agents": {"enabled": ["a"]}}"#), (json!(["a"]), json!({}), 0), "fewer is fine");
}

#[test]
fn the_same_file_in_home_and_project_draws_no_warning() {
    let scratch = Scratch::new();
    let text = "{\"general\": {\"enableAutoUpdate\": false}, \"telemetry\": {\"enabled\": true, \"target\": \"local\", \"otlpEndpoint\": \"\", \"outfile\": \"/t/telemetry.log\"}, \"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}, \"folderTrust\": {\"enabled\": false}}, \"ui\": {\"useAlternateBuffer\": true}, \"model\": {\"name\": \"gemini-3-flash-preview\"}, \"ide\": {\"enabled\": false, \"hasSeenNudge\": true}, \"sandbox\": false}";
    scratch.write(USER, text);
    scratch.write(PROJECT, text);
    let settings = scratch.load();
    assert_eq!(settings.warnings, []);
    assert_eq!(settings.groups.telemetry.outfile.as_deref(), Some(Path::new("/t/telemetry.log")));
    assert_eq!(settings.groups.tools.sandbox.enabled, Some(false));
    assert_eq!(settings.get("telemetry.otlpEndpoint").unwrap().0, &json!(""));
}

#[test]
fn the_environment_sets_what_its_variables_name() {
    let scratch = Scratch::new();
    scratch.write(USER, "{\"telemetry\": true, \"output\": {\"dialect\": \"upstream\"}}");
    let vars = [
        ("GEMINI_SANDBOX", "docker"),
        ("GEMINI_TELEMETRY_TARGET", "gcp"),
        ("GEMINI_TELEMETRY_LOG_PROMPTS", "false"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"),
        ("GEMINI_TELEMETRY_OTLP_ENDPOINT", ""),
        ("GEMINI_TELEMETRY_OTLP_PROTOCOL", "http"),
        ("POLLUX_OUTPUT_DIALECT", "klingon"),
        ("GEMINI_MODEL", ""),
    ];
    let settings = scratch.load_with(&vars, ProjectTrust::Trusted, &[]).unwrap();
    let telemetry = &settings.groups.telemetry;
    assert!(telemetry.enabled && !telemetry.log_prompts && telemetry.target == "gcp");
    assert_eq!((telemetry.otlp_endpoint.as_deref(), telemetry.otlp_protocol), (Some(""), OtlpProtocol::Http));
    assert_eq!(settings.groups.tools.sandbox.command.as_deref(), Some("docker"));
    assert_eq!(settings.groups.model.name, "auto");
    assert_eq!(settings.groups.output.dialect, Dialect::GeminiCli);
    assert_eq!(settings.get("telemetry.otlpEndpoint").unwrap().0, &json!(""));
    assert_eq!(settings.origin("telemetry.target").to_string(), "GEMINI_TELEMETRY_TARGET");
    let [warning] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
    assert!(
        warning.message.ends_with("received 'klingon' in the environment variable POLLUX_OUTPUT_DIALECT")
    );
    assert!(report(&settings.warnings).starts_with("`output.dialect`: Invalid enum value."));
}

#[test]
fn the_allowed_servers_of_all_files_intersect_and_an_argument_replaces_both_lists() {
    let scratch = Scratch::new();
    scratch.write(USER, "{\"mcp\": {\"allowed\": [\"A\", \"b\"], \"excluded\": [\"x\"]}}");
    scratch.write(SYSTEM, "{\"mcp\": {\"allowed\": [\"a\", \"c\"], \"excluded\": [\"y\"]}}");
    let settings = scratch.load();
    assert_eq!(settings.section("mcp")["allowed"], json!(["A"]));
    assert_eq!(settings.section("mcp")["excluded"], json!(["x", "y"]));
    let args = [("mcp.allowed", json!(["z"])), ("mcp.excluded", json!([]))];
    let settings = scratch.load_with(&[], ProjectTrust::Trusted, &args).unwrap();
    assert_eq!(
        (&settings.section("mcp")["allowed"], &settings.section("mcp")["excluded"]),
        (&json!(["z"]), &json!([]))
    );
}

#[test]
fn hooks_are_off_if_the_current_or_the_older_switch_says_so() {
    for (older, newer, enabled, disabled) in [
        (
            json!({"disabled": ["a", "b"]}),
            json!({"enabled": true, "disabled": ["b", "c"]}),
            true,
            json!(["b", "c", "a"]),
        ),
        (json!({"disabled": ["a"]}), json!({"notifications": false}), true, json!(["a"])),
        (json!({"disabled": "a"}), json!({"disabled": "b"}), true, json!(["b", "a"])),
        (json!({"enabled": false}), json!({"enabled": true}), false, json!([])),
        (json!({"enabled": "False"}), json!({"enabled": true}), false, json!([])),
        (json!({"enabled": true}), json!({"enabled": false}), false, json!([])),
        (json!({"disabled": ["a"]}), json!({"disabled": null}), true, json!(["a"])),
    ] {
        let scratch = Scratch::new();
        scratch.write(USER, &json!({"hooks": older, "hooksConfig": newer}).to_string());
        let settings = scratch.load();
        let config = settings.section("hooksConfig");
        assert_eq!(
            (&config["enabled"], &config["disabled"]),
            (&json!(enabled), &disabled),
            "{older} {newer}"
        );
        assert_eq!(settings.warnings, []);
    }
}

#[test]
fn older_forms_are_read_as_the_current_ones() {
    let scratch = Scratch::new();
    scratch.write(
        USER,
        "{\"hooks\": {\"enabled\": false, \"disabled\": [\"h\"], \"BeforeTool\": [{\"command\": \"x\"}]}, \"ui\": {\"theme\": \"VS2015\", \"accessibility\": {\"enableLoadingPhrases\": false}}, \"apiKey\": \"k\", \"admin\": {\"secureModeEnabled\": true}, \"general\": {\"defaultApprovalMode\": \"autoEdit\"}, \"model\": {\"name\": \"$NAME\", \"maxSessionTurns\": \"${TURNS:-3}\"}}",
    );
    let settings = scratch.load_with(&[("NAME", "from-env")], ProjectTrust::Trusted, &[]).unwrap();
    assert_eq!(settings.warnings, []);
    assert_eq!(
        settings.section("hooksConfig"),
        &json!({"disabled": ["h"], "enabled": false, "notifications": true})
    );
    assert_eq!(settings.section("hooks")["BeforeTool"], json!([{"command": "x"}]));
    assert_eq!(settings.get("ui.theme").unwrap().0, "Default");
    assert_eq!(settings.get("ui.loadingPhrases").unwrap().0, "off");
    assert_eq!(settings.get("admin.secureModeEnabled").unwrap().0, &json!(false));
    assert!(settings.groups.security.api_key.is_some());
    assert_eq!(
        (settings.groups.model.name.as_str(), settings.groups.model.max_session_turns),
        ("from-env", Some(3))
    );
    assert!(
        scratch.read(USER).contains("\"apiKey\": \"k\"") && scratch.read(USER).contains("$NAME"),
        "never rewritten"
    );
}

#[test]
fn values_of_the_seeds_are_read_beside_upstreams() {
    let effective = |text: Value| {
        let scratch = Scratch::new();
        scratch.write(USER, &text.to_string());
        let settings = scratch.load();
        assert_eq!(settings.warnings, [], "{text}");
        settings
    };
    for (written, key, expected) in [
        (json!({"security": {"enableYoloMode": false}}), "security.disableYoloMode", json!(true)),
        (json!({"security": {"enableAlwaysAllow": true}}), "security.disableAlwaysAllow", json!(false)),
        (json!({"model": {"enableLoopDetection": false}}), "model.disableLoopDetection", json!(true)),
        (json!({"tools": {"enableLLMCorrection": true}}), "tools.disableLLMCorrection", json!(false)),
        (
            json!({"model": {"enableLoopDetection": false, "disableLoopDetection": false}}),
            "model.disableLoopDetection",
            json!(false),
        ),
        (json!({"theme": "light"}), "ui.theme", json!("Default Light")),
        (json!({"theme": "light"}), "ui.autoThemeSwitching", json!(false)),
        (json!({"ui": {"theme": "dark"}}), "ui.theme", json!("Default")),
        (json!({"api": {"provider": "vertex"}}), "security.auth.selectedType", json!("vertex-ai")),
    ] {
        assert_eq!(effective(written.clone()).get(key).map(|(value, _)| value), Some(&expected), "{written}");
    }
    assert_eq!(effective(json!({"theme": "auto", "editor": "none"})).get("ui.theme"), None);
    assert_eq!(effective(json!({"api": {"provider": "gemini"}})).get("security.auth.selectedType"), None);
    for none in [json!("none"), json!({"enabled": true, "type": "none"})] {
        let sandbox = effective(json!({"sandbox": none})).groups.tools.sandbox;
        assert_eq!((sandbox.enabled, sandbox.command), (Some(false), None));
    }
}

#[test]
fn a_project_cannot_allow_yolo_mode_by_the_positive_name() {
    let scratch = Scratch::new();
    scratch.write(USER, "{\"security\": {\"enableYoloMode\": false}}");
    scratch.write(PROJECT, "{\"security\": {\"enableYoloMode\": true}, \"api\": {\"provider\": \"vertex\"}}");
    let settings = scratch.load();
    assert_eq!(settings.get("security.disableYoloMode").unwrap().0, true);
    assert_eq!(settings.get("security.auth.selectedType"), None);
}

#[test]
fn an_unknown_key_at_the_top_is_named() {
    let scratch = Scratch::new();
    scratch.write(USER, "{\"$schema\": \"x\",\n\"bogusTop\": 1, \"general\": {\"ofLater\": 1}}");
    let [warning] = &scratch.load().warnings[..] else { panic!() };
    assert_eq!((warning.key.as_str(), warning.line), ("bogusTop", Some(2)));
    assert_eq!(warning.message, "unknown setting; it is ignored");
}

#[test]
fn the_command_gemini_speaks_upstreams_dialect_unless_told_otherwise() {
    let scratch = Scratch::new();
    let dialect = |env: &crate::env::Env| {
        let request = crate::settings::LoadRequest {
            offered: &[],
            env,
            own_env: env,
            home: &scratch.home(),
            project_root: &scratch.path("work"),
            trust: ProjectTrust::Untrusted,
            args: Default::default(),
            migration: crate::settings::Migration::InMemory,
        };
        crate::settings::load(&request).unwrap().groups.output.dialect
    };
    let called = |vars: &[(&str, &str)]| scratch.env(vars).called_as_gemini();
    assert_eq!(dialect(&scratch.env(&[])), Dialect::Pollux);
    assert_eq!(dialect(&called(&[])), Dialect::GeminiCli);
    assert_eq!(dialect(&called(&[("POLLUX_OUTPUT_DIALECT", "pollux")])), Dialect::Pollux);
    scratch.write(USER, "{\"output\": {\"dialect\": \"pollux\"}}");
    assert_eq!(dialect(&called(&[])), Dialect::Pollux);
}

#[test]
fn groups_hold_the_defaults_when_nothing_is_set() {
    let groups = Scratch::new().load().groups;
    assert_eq!((groups.general.max_attempts, groups.general.retry_fetch_errors), (10, true));
    assert_eq!(groups.general.session_format, SessionFormat::Json);
    assert_eq!(groups.general.retention.max_age.as_deref(), Some("30d"));
    assert_eq!(groups.general.rewind, crate::groups::Rewind::default());
    assert_eq!((groups.output.format, groups.output.dialect), (OutputFormat::Text, Dialect::Pollux));
    assert_eq!((groups.model.max_session_turns, groups.model.compression_threshold), (None, 0.5));
    assert!(groups.model.loop_detection && groups.model.mask_protect_latest);
    assert_eq!((groups.model.mask_protected_tokens, groups.model.mask_min_prunable_tokens), (50_000, 30_000));
    assert_eq!(groups.context.file_names, ["GEMINI.md"]);
    assert_eq!(groups.context.boundary_markers, [".git"]);
    assert!(groups.context.include_directory_tree && groups.context.filtering.respect_git_ignore);
    assert_eq!((groups.tools.core, groups.tools.shell_pager.as_str()), (None, "cat"));
    assert_eq!((groups.tools.truncate_threshold, groups.tools.shell_inactivity_seconds), (40_000, 300));
    assert!(groups.security.folder_trust && groups.security.protect_build_files);
    assert!(
        !groups.security.refuse_untrusted_headless
            && !groups.telemetry.enabled
            && !groups.general.usage_statistics
    );
}

#[test]
fn groups_follow_the_settings() {
    let scratch = Scratch::new();
    scratch.write(
        USER,
        "{\"general\": {\"maxAttempts\": 99, \"sessionFormat\": \"jsonl\"}, \"output\": {\"format\": \"stream-json\", \"dialect\": \"gemini-cli\"}, \"context\": {\"fileName\": [\"AGENTS.md\", \"GEMINI.md\", \"AGENTS.md\"], \"importFormat\": \"flat\"}, \"security\": {\"folderTrust\": {\"headless\": \"refuse\"}}, \"tools\": {\"sandbox\": {\"enabled\": true, \"type\": \"podman\", \"allowedPaths\": [\"/b\"]}, \"sandboxAllowedPaths\": [\"/a\"], \"core\": []}, \"model\": {\"disableLoopDetection\": true}}",
    );
    let settings = scratch.load();
    assert_eq!(settings.warnings, []);
    let groups = settings.groups;
    assert_eq!((groups.general.max_attempts, groups.general.session_format), (10, SessionFormat::Jsonl));
    assert_eq!((groups.output.format, groups.output.dialect), (OutputFormat::StreamJson, Dialect::GeminiCli));
    assert_eq!(groups.context.file_names, ["AGENTS.md", "GEMINI.md"]);
    assert!(groups.security.refuse_untrusted_headless && !groups.model.loop_detection);
    assert_eq!(groups.tools.core, Some(vec![]));
    assert_eq!(
        (groups.tools.sandbox.command.as_deref(), groups.tools.sandbox.allowed_paths),
        (Some("podman"), vec!["/a".to_owned(), "/b".to_owned()])
    );
}

#[test]
fn a_project_lowers_limits_on_spending_and_never_raises_them() {
    let below = |budget: Value| object(json!({"budget": budget}));
    let narrowed = |own: Value, theirs: Value| {
        let mut values = object(json!({"budget": own}));
        let refused = super::project::narrow_budget(&mut values, &below(theirs));
        (
            values.shift_remove("budget").unwrap(),
            refused.into_iter().map(|(path, _)| path).collect::<Vec<_>>(),
        )
    };
    let all = |limits: Value| (limits, Vec::<String>::new());
    let but =
        |limits: Value, refused: &[&str]| (limits, refused.iter().map(|path| (*path).to_owned()).collect());
    let user = json!({"session": {"usd": 5}, "day": {"usd": 20}});
    assert_eq!(narrowed(json!({"session": {"usd": 1}}), user.clone()), all(json!({"session": {"usd": 1}})));
    assert_eq!(
        narrowed(json!({"session": {"usd": 9}}), user.clone()),
        but(json!({"session": {}}), &["budget.session.usd"])
    );
    assert_eq!(narrowed(json!({"turn": {"usd": 9}}), user.clone()), all(json!({"turn": {"usd": 9}})));
    for odd in [json!("all"), json!(-1), json!(null), json!({"usd": 1})] {
        assert_eq!(
            narrowed(json!({"session": {"usd": odd}, "unknownPrice": 0}), user.clone()).0,
            json!({"session": {}})
        );
    }
    assert_eq!(narrowed(json!({"month": {"usd": 1}}), user.clone()), but(json!({}), &["budget.month.usd"]));
}

#[test]
fn limits_of_the_system_are_kept_apart_and_lower_ones_stay() {
    let scratch = Scratch::new();
    scratch.write(USER, "{\"budget\": {\"session\": {\"usd\": 2, \"requests\": 50}}}");
    scratch.write(SYSTEM, "{\"budget\": {\"session\": {\"usd\": 5, \"requests\": 20}}}");
    let settings = scratch.load();
    assert_eq!(settings.groups.model.budget, json!({"session": {"usd": 2, "requests": 20}}));
    assert_eq!(settings.system_budget, json!({"session": {"usd": 5, "requests": 20}}));
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => panic!("not an object"),
    }
}

mod references;
