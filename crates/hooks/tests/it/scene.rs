//! A folder with settings and scripts, and the hooks loaded from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::groups::Redaction;
use pollux_config::paths::Home;
use pollux_config::settings::{ArgOverrides, LoadRequest as SettingsRequest, Migration, ProjectTrust, load};
use pollux_domain::time::{Clock, Timestamp};
use pollux_exec::background::Background;
use pollux_exec::environment::sanitised;
use pollux_hooks::{BeforeTool, Fired, HookScene, HookServices, Hooks, LoadRequest, Payload, Registry};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::parse("2026-01-27T12:00:00.000Z").unwrap()
    }
}

pub(crate) struct World {
    pub folder: tempfile::TempDir,
    pub hooks: Hooks,
    pub scene: HookScene,
    pub cancel: CancellationToken,
}

impl World {
    /// These hooks of a trusted project, in a folder with a space in its name.
    pub(crate) fn new(hooks: &Value) -> Self {
        Self::with_env(hooks, &[])
    }

    pub(crate) fn with_env(hooks: &Value, vars: &[(&str, &str)]) -> Self {
        Self::prepared(hooks, vars, |_| {})
    }

    /// The same in a folder that is prepared before the hooks are loaded.
    pub(crate) fn prepared(hooks: &Value, vars: &[(&str, &str)], prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("my work");
        fs::create_dir_all(root.join(".gemini")).unwrap();
        prepare(&root);
        fs::write(root.join(".gemini/settings.json"), json!({ "hooks": hooks }).to_string()).unwrap();
        let none = folder.path().join("none.json").display().to_string();
        let fixed = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", none.as_str()),
            ("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", none.as_str()),
        ];
        let vars = fixed.iter().chain(vars).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let env = Env::new(vars, root.clone());
        let settings = load(&SettingsRequest {
            env: &env,
            own_env: &env,
            home: &Home::at(folder.path().join("home")),
            project_root: &root,
            trust: ProjectTrust::Trusted,
            args: ArgOverrides::default(),
            migration: Migration::InMemory,
            offered: &[],
        })
        .unwrap();
        let registry = Registry::load(&LoadRequest {
            settings: &settings,
            env: &env,
            lent_env: &env,
            extensions: &[],
            workspace: &root,
            project_off: &[],
            current_name: |name| name,
            callbacks: None,
        });
        assert_eq!(registry.problems(), []);
        let services = HookServices {
            environment: sanitised(&env, &Redaction::default()),
            background: Arc::new(Background::new(folder.path().join("logs"))),
            clock: Arc::new(Noon),
        };
        let scene = HookScene {
            session_id: "s1".into(),
            transcript_path: Some(PathBuf::from("/t/session.json")),
            cwd: root,
            plans_dir: Some(PathBuf::from("/plans")),
            budget: None,
        };
        Self {
            folder,
            hooks: Hooks::new(Arc::new(registry), services),
            scene,
            cancel: CancellationToken::new(),
        }
    }

    pub(crate) async fn fire<P: Payload>(&self, payload: P) -> Fired<P::Outcome> {
        self.hooks.fire(&self.scene, payload, &self.cancel).await
    }

    /// The answer to a call of `glob` when one hook is this command.
    pub(crate) async fn of_command(command: &str) -> Fired<pollux_hooks::BeforeToolOutcome> {
        Self::new(&json!({"BeforeTool": [{"name": "h", "command": command}]})).fire(call()).await
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.scene.cwd.join(name)).unwrap()
    }
}

pub(crate) fn call() -> BeforeTool {
    let input = json!({"pattern": "*"});
    BeforeTool {
        tool_name: "glob".into(),
        tool_input: input.as_object().unwrap().clone(),
        ..BeforeTool::default()
    }
}
