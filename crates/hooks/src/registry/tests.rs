#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;

use pollux_config::paths::Home;
use pollux_config::settings::{ArgOverrides, LoadRequest as SettingsRequest, Migration, ProjectTrust, load};
use serde_json::json;

use super::*;

struct World {
    folder: tempfile::TempDir,
    env: Env,
}

impl World {
    /// A user's, a project's and the system's settings.
    fn new(user: &Value, project: &Value, system: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, value) in [
            ("home/.gemini/settings.json", user),
            ("work/.gemini/settings.json", project),
            ("system.json", system),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value.to_string()).unwrap();
        }
        let path = |name: &str| folder.path().join(name).display().to_string();
        let vars = [
            ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", path("system.json")),
            ("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", path("none.json")),
            ("NAME", "value; rm -rf".to_owned()),
        ];
        let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value)), folder.path().join("work"));
        Self { folder, env }
    }

    fn load(&self, trust: ProjectTrust, extensions: &[ExtensionHooks]) -> Registry {
        let (home, root) = (Home::at(self.folder.path().join("home")), self.folder.path().join("work"));
        let settings = load(&SettingsRequest {
            env: &self.env,
            own_env: &self.env,
            home: &home,
            project_root: &root,
            trust,
            args: ArgOverrides::default(),
            migration: Migration::InMemory,
            offered: &[],
        })
        .unwrap();
        Registry::load(&LoadRequest {
            settings: &settings,
            env: &self.env,
            lent_env: &self.env,
            extensions,
            workspace: &root,
            project_off: &[],
            current_name: |name| name,
            callbacks: None,
        })
    }
}

fn of_project(hooks: &Value) -> Registry {
    World::new(&json!({}), &json!({ "hooks": hooks }), &json!({})).load(ProjectTrust::Trusted, &[])
}

fn titles(plan: &Plan) -> Vec<&str> {
    plan.hooks.iter().map(|hook| hook.title()).collect()
}

fn problems(registry: &Registry) -> Vec<(Severity, &str, &str)> {
    let all = registry.problems().iter();
    all.map(|problem| (problem.severity, problem.key.as_str(), problem.text.as_str())).collect()
}

#[test]
fn both_forms_are_read_with_everything_in_them() {
    let registry = of_project(&json!({"BeforeTool": [
        {"matcher": "write", "sequential": true, "hooks": [
            {"type": "command", "name": "guard", "command": "./g.sh", "timeout": 5000, "description": "d",
             "env": {"A": "x$NAME", "N": 1}, "required": true},
            {"command": "echo $NAME"}]},
        {"command": "echo short", "matcher": "glob", "timeout": 1500.5},
    ]}));
    assert_eq!(problems(&registry), []);
    let [guard, plain, short] = registry.hooks() else { panic!("{registry:?}") };
    assert_eq!((guard.title(), guard.timeout.as_millis(), guard.required), ("guard", 5000, true));
    assert_eq!(guard.env, [("A".to_owned(), "xvalue; rm -rf".to_owned()), ("N".to_owned(), "1".to_owned())]);
    assert_eq!(guard.key, "hooks.BeforeTool[0].hooks[0]");
    assert!(guard.file.ends_with("work/.gemini/settings.json"));
    // A variable is the shell's business: pasted in, its value would run.
    assert_eq!((plain.command.as_str(), plain.timeout.as_secs()), ("echo $NAME", 60));
    assert_eq!((short.matcher.as_deref(), short.timeout.as_micros()), (Some("glob"), 1_500_500));
    let plan = registry.plan(Event::BeforeTool, "write_file");
    assert_eq!((titles(&plan), plan.sequential), (vec!["guard", "echo $NAME"], true));
    let plan = registry.plan(Event::BeforeTool, "glob");
    assert_eq!((titles(&plan), plan.sequential), (vec!["echo short"], false));
}

#[test]
fn a_bad_definition_is_named_and_the_others_stay() {
    let registry = of_project(&json!({
        "BeforeTool": [null, 5, {}, {"hooks": 1}, {"hooks": [null, {"type": "command"}, {"command": " "},
            {"type": "plugin", "command": "x"}, {"command": "a\u{0}b"}]}, {"matcher": 3, "command": "x"},
            {"command": "good"}],
        "BeforTool": [{"command": "x"}],
        "Whenever": [],
    }));
    let skipped: Vec<&str> = registry
        .problems()
        .iter()
        .filter(|problem| problem.severity == Severity::Skipped)
        .map(|problem| problem.key.as_str())
        .collect();
    assert_eq!(
        skipped,
        [
            "hooks.BeforeTool[0]",
            "hooks.BeforeTool[1]",
            "hooks.BeforeTool[2]",
            "hooks.BeforeTool[3]",
            "hooks.BeforeTool[4].hooks[0]",
            "hooks.BeforeTool[4].hooks[1]",
            "hooks.BeforeTool[4].hooks[2]",
            "hooks.BeforeTool[4].hooks[3]",
            "hooks.BeforeTool[4].hooks[4]",
            "hooks.BeforeTool[5]",
            "hooks.BeforTool",
            "hooks.Whenever",
        ]
    );
    assert_eq!(registry.hooks().len(), 1);
    let text = registry.problems()[10].to_string();
    assert!(text.contains("Invalid hook event name: \"BeforTool\" from project config. Skipping."), "{text}");
    assert!(text.contains("Did you mean `BeforeTool`?") && text.contains("settings.json: `hooks."), "{text}");
}

#[test]
fn likely_mistakes_are_pointed_out() {
    let registry = of_project(&json!({
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x", "timeout": 5}]}],
        "before_tool": [{"command": "y", "timeout": 30, "timeOut": 1}],
        "AfterTool": [{"command": "z", "timeout": -1, "matcher": "a("}],
    }));
    let texts: Vec<&str> = registry.problems().iter().map(|problem| problem.text.as_str()).collect();
    for part in [
        "Claude Code's name for `BeforeTool`",
        "read as `BeforeTool`",
        "unknown keys ignored: `timeOut`",
        "`timeout` is in milliseconds; 30 ms",
        "positive number of milliseconds, not -1; using 60000",
        "not a valid regular expression",
    ] {
        assert!(texts.iter().any(|text| text.contains(part)), "{part}: {texts:?}");
    }
    let hook = &registry.hooks()[0];
    assert_eq!((hook.timeout.as_secs(), hook.matcher.as_deref()), (5, Some("run_shell_command")));
}

#[test]
fn sources_run_in_their_order_and_a_project_cannot_weaken_a_guard() {
    let guard = |matcher: &str, timeout: u64| json!({"matcher": matcher, "hooks": [{"type": "command", "name": "guard", "command": "g", "timeout": timeout}]});
    let hooks = |own: Value| json!({"hooks": {"BeforeTool": own}});
    let world = World::new(
        &hooks(json!([{"command": "user"}])),
        &hooks(json!([guard(".*", 101), {"command": "project"}, guard("x", 200)])),
        &hooks(json!([guard("", 9000), {"command": "system"}])),
    );
    let registry = world.load(ProjectTrust::Trusted, &[]);
    let plan = registry.plan(Event::BeforeTool, "glob");
    assert_eq!(titles(&plan), ["guard", "project", "user", "system"]);
    assert_eq!((plan.hooks[0].timeout.as_millis(), plan.hooks[0].source.word()), (9000, "system"));
    let registry = world.load(ProjectTrust::Untrusted, &[]);
    assert_eq!(titles(&registry.plan(Event::BeforeTool, "glob")), ["user", "guard", "system"]);
}

#[test]
fn switches_turn_hooks_off_but_a_projects_do_not() {
    let hooks = json!({"BeforeTool": [{"name": "a", "command": "x"}, {"command": "y"}]});
    let plan = |user: Value, project: Value| {
        let registry = World::new(&user, &project, &json!({})).load(ProjectTrust::Trusted, &[]);
        let listens = registry.listens_to(Event::BeforeTool);
        let names: Vec<String> =
            titles(&registry.plan(Event::BeforeTool, "")).into_iter().map(str::to_owned).collect();
        assert_eq!(listens, !names.is_empty());
        names
    };
    let with = |more: Value| {
        let mut settings = json!({ "hooks": hooks });
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        settings
    };
    assert_eq!(plan(with(json!({})), json!({})), ["a", "y"]);
    for off in [json!({"hooksConfig": {"enabled": false}}), json!({"tools": {"enableHooks": false}})] {
        assert!(plan(with(off.clone()), json!({})).is_empty(), "{off}");
        assert_eq!(plan(with(json!({})), off.clone()), ["a", "y"], "{off}");
    }
    let mut legacy = hooks.clone();
    legacy["enabled"] = json!(false);
    assert!(plan(json!({ "hooks": legacy }), json!({})).is_empty());
    for (list, left) in [(json!(["a"]), "y"), (json!(["y", "x"]), "a")] {
        assert_eq!(plan(with(json!({"hooksConfig": {"disabled": list}})), json!({})), [left]);
        let mut legacy = hooks.clone();
        legacy["disabled"] = list;
        assert_eq!(plan(json!({ "hooks": legacy }), json!({})), [left]);
    }
    assert_eq!(plan(with(json!({})), json!({"hooksConfig": {"disabled": ["a"]}})), ["a", "y"]);
}

#[test]
fn extensions_bring_hooks_with_their_variables() {
    let world = World::new(&json!({}), &json!({}), &json!({}));
    let extension = |name: &str, text: &str| {
        let directory = world.folder.path().join(name);
        fs::create_dir_all(directory.join("hooks")).unwrap();
        fs::write(directory.join("hooks/hooks.json"), text).unwrap();
        let variables = vec![("TOKEN".to_owned(), "t".to_owned())];
        ExtensionHooks { name: name.to_owned(), directory, variables }
    };
    let extensions = [
        extension("good", r#"{"hooks": {"SessionEnd": [{"command": "cat ${extensionPath}${/}x"}]}}"#),
        extension("odd", r#"{"hooks": []}"#),
        extension("broken", "{"),
    ];
    let registry = world.load(ProjectTrust::Trusted, &extensions);
    let [hook] = registry.hooks() else { panic!("{registry:?}") };
    assert_eq!(
        (hook.command.as_str(), hook.source.to_string().as_str()),
        ("cat ${extensionPath}/x", "extension good")
    );
    assert!(hook.env.iter().any(|(name, value)| name == "extensionPath" && value.ends_with("/good")));
    assert!(hook.env.contains(&("TOKEN".to_owned(), "t".to_owned())));
    let found = problems(&registry);
    assert_eq!(found.len(), 2);
    assert!(found[0].2.ends_with("\"hooks\" property must be an object"), "{found:?}");
}
