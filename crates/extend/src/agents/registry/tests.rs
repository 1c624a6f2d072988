#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use super::*;
use crate::agents::{ModelChoice, Origin, Prompt, fill};
use pollux_domain::remote_agent::{CardSource, RemoteAuth};
use serde_json::json;
use std::fs;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn load(&self, settings: AgentSettings) -> Registry {
        let root = self.0.path().join("project");
        Registry::load(&Sources {
            user: self.0.path().join("user"),
            project: Some((&root, root.join("agents"))),
            acknowledged: Acknowledgements::read(&self.0.path().join("home")),
            settings,
            ..Sources::default()
        })
    }

    fn local(&self, text: &str) -> Result<Definition, String> {
        self.write("user/one.md", text);
        let registry = self.load(AgentSettings::default());
        match registry.problems() {
            [] => Ok(registry.enabled().last().unwrap().as_ref().clone()),
            [problem, ..] => Err(problem.clone()),
        }
    }
}

const WRITER: &str = "---\nname: writer\ndescription: writes\n---\nYou write ${query}.\n";

#[test]
fn a_markdown_file_is_an_agent_with_upstreams_defaults() {
    let place = Place::new();
    let definition = place.local(WRITER).unwrap();
    let Kind::Local(local) = &definition.kind else { panic!("local") };
    assert_eq!((local.max_turns, local.time_limit.as_secs()), (30, 600));
    assert_eq!(local.model, ModelChoice::Inherit);
    assert_eq!(local.generation["temperature"], 1.0);
    assert_eq!(local.tools, None);
    let text = local.prompt.text().unwrap().unwrap();
    assert_eq!(fill(&text, json!({"query": "odes"}).as_object().unwrap()).unwrap(), "You write odes.");
}

#[test]
fn every_key_is_read_and_every_other_one_refused() {
    let place = Place::new();
    let definition = place
        .local(
            "---\nkind: local\nname: a-b_1\ndescription: d\ndisplay_name: A\ntools: [read_file, mcp_x_*, '*']\n\
             mcpServers: {s: {command: x}}\nmodel: gemini-2.5-pro\ntemperature: 0.3\nmax_turns: 4\ntimeout_mins: 2\n\
             inputs: {path: {type: string, required: true}}\noutput: {name: report, schema: {type: object}}\n---\nbody\n",
        )
        .unwrap();
    let Kind::Local(local) = &definition.kind else { panic!("local") };
    assert_eq!(local.model, ModelChoice::Named("gemini-2.5-pro".into()));
    assert_eq!((local.max_turns, local.time_limit.as_secs()), (4, 120));
    assert_eq!(local.generation["temperature"], 0.3);
    assert!(local.mcp_servers.contains_key("s"));
    assert_eq!(local.output.as_ref().unwrap().name, "report");
    let refused = [
        ("colour: red", "unknown field `colour`"),
        ("temperature: 7", "temperature"),
        ("max_turns: 0", "max_turns"),
        ("timeout_mins: -1", "timeout_mins"),
        ("tools: ['read*']", "invalid tool name"),
        ("kind: ghost", "`kind` must be"),
        ("system_prompt: x", "unknown field `system_prompt`"),
    ];
    for (line, expected) in refused {
        let problem = place.local(&format!("---\nname: a\ndescription: d\n{line}\n---\n")).unwrap_err();
        assert!(problem.starts_with("Failed to load agent from "), "{problem}");
        assert!(problem.contains(expected), "{line}: {problem}");
    }
    for name in ["Big", "a b", "''", "\"a\\u001b[31m\""] {
        let problem = place.local(&format!("---\nname: {name}\ndescription: d\n---\n")).unwrap_err();
        assert!(problem.contains("name") && !problem.contains('\u{1b}'), "{problem:?}");
    }
    assert!(place.local("no front matter").unwrap_err().contains("front matter"));
    assert!(place.local("---\nname: a\n---\n").unwrap_err().contains("description"));
}

#[test]
fn older_toml_files_are_read() {
    let place = Place::new();
    place.write(
        "user/old.toml",
        "name = \"old\"\ndescription = \"d\"\ntools = [\"glob\"]\n[prompts]\nsystem_prompt = \"You are ${query}\"\n\
         query = \"Go: ${query}\"\n[model]\nmodel = \"flash\"\ntemperature = 0.2\n[run]\nmax_turns = 3\ntimeout_mins = 5\n",
    );
    place.write(
        "user/far.toml",
        "[[remote_agents]]\nkind = \"remote\"\nname = \"far\"\nagent_card_url = \"https://x.test/card\"\n",
    );
    let registry = place.load(AgentSettings::default());
    assert_eq!(registry.problems(), &[] as &[String]);
    let Kind::Local(local) = &registry.find("old").unwrap().kind else { panic!("local") };
    assert_eq!(local.query.as_deref(), Some("Go: ${query}"));
    assert_eq!((local.max_turns, local.time_limit.as_secs()), (3, 300));
    assert!(registry.find("far").unwrap().is_remote());
    place.write(
        "user/old.toml",
        "name = \"old\"\ndescription = \"d\"\n[prompts]\nsystem_prompt = \"x\"\nmood = 1\n",
    );
    assert!(place.load(AgentSettings::default()).problems()[0].contains("`prompts.mood`"));
}

#[test]
fn remote_agents_are_defined_alone_or_in_a_list() {
    let place = Place::new();
    place.write(
        "user/remote.md",
        "---\n- kind: remote\n  name: one\n  agent_card_url: https://a.test/card\n  auth: {type: http, scheme: Bearer, \
         token: $TOKEN}\n- kind: remote\n  name: two\n  agent_card_json: '{\"name\": \"x\"}'\n---\n",
    );
    let registry = place.load(AgentSettings::default());
    assert_eq!(registry.problems(), &[] as &[String]);
    let Kind::Remote(target) = &registry.find("one").unwrap().kind else { panic!("remote") };
    assert_eq!(target.auth, Some(RemoteAuth::Bearer { token: "$TOKEN".into() }));
    assert!(!format!("{target:?}").contains("$TOKEN"), "secrets stay out of logs");
    let Kind::Remote(target) = &registry.find("two").unwrap().kind else { panic!("remote") };
    assert_eq!(target.card, CardSource::Json("{\"name\": \"x\"}".into()));
    let wrong = [
        ("name: a", "needs `agent_card_url`"),
        ("name: a\nagent_card_url: https://a\nagent_card_json: '{}'", "mutually exclusive"),
        ("name: a\nagent_card_url: file:///etc/passwd", "not an http"),
        ("name: a\nagent_card_json: '{'", "not valid JSON"),
        ("name: a\nagent_card_url: https://a\nauth: {type: apiKey}", "needs `key`"),
        ("name: a\nagent_card_url: https://a\ntools: []", "unknown field `tools`"),
    ];
    for (lines, expected) in wrong {
        let problem = place.local(&format!("---\nkind: remote\n{lines}\n---\n")).unwrap_err();
        assert!(problem.contains(expected), "{lines}: {problem}");
    }
}

#[test]
fn the_first_agent_of_a_name_wins_and_project_agents_need_acknowledgement() {
    let place = Place::new();
    place.write("project/agents/writer.md", WRITER).write("user/writer.md", WRITER);
    place.write("user/gen.md", "---\nname: generalist\ndescription: mine\n---\n");
    place.write("user/_draft.md", "nonsense").write("user/sub/deep.md", "nonsense");
    let registry = place.load(AgentSettings::default());
    assert_eq!(registry.problems().len(), 2, "{:?}", registry.problems());
    assert!(registry.problems().iter().all(|line| line.contains("ignoring agent")));
    assert_eq!(registry.find("generalist").unwrap().origin, Origin::Builtin);
    assert!(registry.find("writer").is_none(), "nobody has agreed to it");
    let pending = registry.entries().iter().find(|entry| entry.definition.name == "writer").unwrap();
    let Status::Unacknowledged { hash } = &pending.status else { panic!("{:?}", pending.status) };
    let root = place.0.path().join("project");
    let mut agreements = Acknowledgements::read(&place.0.path().join("home"));
    agreements.agree(&root, "writer", hash).unwrap();
    let registry = place.load(AgentSettings::default());
    let writer = registry.find("writer").unwrap();
    let Kind::Local(local) = &writer.kind else { panic!("local") };
    assert!(local.prompt.text().is_ok());
    place.write("project/agents/writer.md", "---\nname: writer\ndescription: writes\n---\nDo evil.\n");
    assert!(local.prompt.text().unwrap_err().to_string().contains("has changed since you approved it"));
    assert!(
        place.load(AgentSettings::default()).find("writer").is_none(),
        "another text needs another agreement"
    );
}

#[test]
fn settings_switch_agents_and_change_their_limits() {
    let place = Place::new();
    let overrides = json!({
        "codebase-investigator": {"runConfig": {"maxTurns": 7, "maxTimeMinutes": 1},
                                  "modelConfig": {"model": "m", "generateContentConfig": {"temperature": 0.7}},
                                  "tools": ["glob"]},
        "cli_help": {"enabled": false},
        "ghost": {},
    });
    let settings = AgentSettings {
        overrides: overrides.as_object().unwrap().clone(),
        disabled: vec!["generalist".into()],
        ..AgentSettings::default()
    };
    let registry = place.load(settings);
    let Kind::Local(local) = &registry.find("codebase-investigator").unwrap().kind else { panic!("local") };
    assert_eq!((local.max_turns, local.time_limit.as_secs()), (7, 60));
    assert_eq!(local.model, ModelChoice::Named("m".into()));
    assert_eq!((&local.generation["temperature"], &local.generation["topP"]), (&json!(0.7), &json!(0.95)));
    assert!(registry.find("cli_help").is_none() && registry.find("generalist").is_none());
    assert_eq!(registry.problems(), ["agents.overrides.ghost: no agent has the name `ghost`"]);
}

#[test]
fn a_list_of_enabled_agents_disables_the_others_unless_overridden() {
    let settings = AgentSettings {
        overrides: json!({"cli_help": {"enabled": true}}).as_object().unwrap().clone(),
        enabled: vec!["generalist".into(), "codebase_investigator".into()],
        disabled: vec!["codebase-investigator".into()],
    };
    let registry = Place::new().load(settings);
    let enabled: Vec<&str> = registry.enabled().map(|agent| agent.name.as_str()).collect();
    assert_eq!(enabled, ["cli_help", "generalist"]);
}

#[test]
fn an_unknown_name_in_the_lists_is_reported_with_the_nearest_one() {
    let settings = AgentSettings {
        enabled: vec!["genralist".into(), "cli-help".into(), "browser-agent".into(), "ghost".into()],
        disabled: vec!["codebase_investigater".into(), "agent_of_another_project".into()],
        ..AgentSettings::default()
    };
    let registry = Place::new().load(settings);
    assert_eq!(
        registry.problems(),
        [
            "agents.enabled: no agent has the name `genralist`; did you mean `generalist`?",
            "agents.enabled: no agent has the name `ghost`",
            "agents.disabled: no agent has the name `codebase_investigater`; did you mean `codebase_investigator`?",
        ]
    );
}

#[test]
fn the_camel_case_names_of_fields_are_read() {
    let place = Place::new();
    place.write(
        "user/a.md",
        "---\nname: a\ndescription: d\nexperimental: true\nmaxTurns: 3\nmaxTimeMinutes: 2\ninitialMessages:\n  \
         - role: user\n    parts:\n      - text: hi\n  - role: model\n    text: hello\n---\nBody",
    );
    place.write("user/b.md", "---\nname: b\nagentCardUrl: https://h.example/card\nexperimental: true\n---\n");
    let registry = place.load(AgentSettings::default());
    assert_eq!(registry.problems(), [] as [&str; 0]);
    let Kind::Local(local) = &registry.find("a").unwrap().kind else { panic!("local") };
    assert_eq!((local.max_turns, local.time_limit.as_secs()), (3, 120));
    let said: Vec<String> = local.initial.iter().map(|content| content.text()).collect();
    assert_eq!(said, ["hi", "hello"]);
    assert!(registry.find("b").unwrap().is_remote());
}

#[test]
fn upstreams_blocks_are_read_in_both_formats() {
    let place = Place::new();
    place.write(
        "user/a.md",
        "---\nkind: local\nname: a\ndisplayName: A\ndescription: d\ninputConfig:\n  inputs:\n    count: {type: integer, \
         description: how many, required: true}\npromptConfig:\n  systemPrompt: You count ${count}.\n  query: Go\n  \
         initialMessages: [{role: user, parts: [{text: hi}]}]\nmodelConfig: {model: m, temp: 0.2, top_p: 0.5, \
         thinkingBudget: 7, generateContentConfig: {topK: 3}}\nrunConfig: {maxTimeMinutes: 2, maxTurns: 4}\n\
         toolConfig: {tools: [glob]}\noutputConfig: {outputName: report, description: o, schema: {type: string}}\n---\n\n",
    );
    place.write(
        "user/b.toml",
        "name = \"b\"\ndescription = \"d\"\n[promptConfig]\nsystemPrompt = \"You are b\"\n[runConfig]\nmaxTimeMinutes = 1\n",
    );
    place.write(
        "user/c.md",
        "---\nkind: remote\nname: c\nagentCardUrl: https://h.example/card\ninputConfig: {inputs: {}}\noutputConfig: {}\n---\n",
    );
    let registry = place.load(AgentSettings::default());
    assert_eq!(registry.problems(), [] as [&str; 0]);
    let Kind::Local(local) = &registry.find("a").unwrap().kind else { panic!("local") };
    assert_eq!(local.inputs["required"], json!(["count"]));
    assert_eq!(local.prompt.text().unwrap().unwrap(), "You count ${count}.");
    assert_eq!((local.query.as_deref(), local.initial.len()), (Some("Go"), 1));
    assert_eq!(local.model, ModelChoice::Named("m".into()));
    assert_eq!(
        Value::Object(local.generation.clone()),
        json!({"temperature": 0.2, "topP": 0.5, "thinkingConfig": {"thinkingBudget": 7}, "topK": 3})
    );
    assert_eq!((local.max_turns, local.time_limit.as_secs()), (4, 120));
    assert_eq!(local.tools.as_deref(), Some(&["glob".to_owned()][..]));
    assert_eq!(local.output.as_ref().unwrap().name, "report");
    let Kind::Local(local) = &registry.find("b").unwrap().kind else { panic!("local") };
    assert_eq!((local.prompt.clone(), local.time_limit.as_secs()), (Prompt::Text("You are b".into()), 60));
    assert!(registry.find("c").unwrap().is_remote());
    for (line, expected) in [
        ("runConfig: {maxTurn: 3}", "unknown field `runConfig.maxTurn` (expected maxTurns, "),
        ("max_turns: 3\nrunConfig: {maxTurns: 4}", "`runConfig.maxTurns` is set twice"),
        ("maxTurns: 3\nrunConfig: {maxTurns: 4}", "duplicate field"),
        ("runConfig: {maxTurns: 0}", "`max_turns` must be"),
        ("runConfig: 3", "unknown field `runConfig`"),
        ("promptConfig: {systemPrompt: x}", "`promptConfig.systemPrompt` is set and there is a text below"),
        ("promptConfig: {systemPrompt: ''}", "must be a text that is not empty"),
        ("toolConfig: {tools: [{name: f}]}", "`tools` must list the names of tools, not {\"name\":\"f\"}"),
    ] {
        let problem = place.local(&format!("---\nname: x\ndescription: d\n{line}\n---\nbody\n")).unwrap_err();
        assert!(problem.contains(expected), "{line}: {problem}");
    }
}

#[test]
fn texts_of_an_extension_have_its_variables_filled_in() {
    let place = Place::new();
    place.write(
        "ext/agents/a.md",
        "---\nname: a\ndescription: in ${extensionPath}\n---\nAt ${extensionPath} for ${query}",
    );
    let mut extension = Extension {
        name: "ext".into(),
        version: "1".into(),
        path: place.0.path().join("ext"),
        variables: Default::default(),
    };
    extension.variables.insert("extensionPath".into(), "/e".into());
    let registry = Registry::load(&Sources { extensions: &[extension], ..Sources::default() });
    let a = registry.find("a").unwrap();
    assert_eq!(a.description, "in /e");
    let Kind::Local(local) = &a.kind else { panic!("local") };
    assert_eq!(local.prompt.text().unwrap().unwrap(), "At /e for ${query}");
}
