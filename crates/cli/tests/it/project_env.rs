//! Keys and accounts in a project's `.env`: never used without trust, and with it only for want of the person's own.

use std::fs;
use std::path::PathBuf;

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, binary, parse};

const THEIRS: &str = "AIzaSyT-0123456789theirsijklmnopqrstuv";
const OWN: &str = "AIzaSyD-0123456789abcdefghijklmnopqrstu";

/// Where the person's own key is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Own {
    Nowhere,
    Environment,
    Stored,
    Settings,
    HomeEnv,
}

impl Own {
    fn source(self, home: &TestHome) -> Option<String> {
        match self {
            Self::Nowhere => None,
            Self::Environment => Some("GEMINI_API_KEY in the environment".to_owned()),
            Self::Stored => Some("the stored key".to_owned()),
            Self::Settings => Some("`api.key` in the settings".to_owned()),
            Self::HomeEnv => {
                Some(format!("GEMINI_API_KEY in `{}`", home.gemini_dir().join(".env").display()))
            }
        }
    }
}

struct World {
    home: TestHome,
    own: Own,
}

impl World {
    fn new(own: Own) -> Self {
        let mut home = TestHome::new();
        if own == Own::Settings {
            home = home.settings(json!({"api": {"key": OWN}}));
        }
        if own == Own::HomeEnv {
            home = home.home_file(".gemini/.env", &format!("GEMINI_API_KEY={OWN}\n"));
        }
        if own == Own::Stored {
            let login = home.command(binary(), ["auth", "login", "--api-key-stdin"]).stdin(OWN);
            assert_eq!(login.without_env("GEMINI_API_KEY").run().code, Some(0));
        }
        Self { home, own }
    }

    /// The folder, the one above it, the folder's `.gemini`.
    fn files(&self) -> [PathBuf; 3] {
        let project = self.home.project();
        [project.join(".env"), project.parent().unwrap().join(".env"), project.join(".gemini/.env")]
    }

    fn status(&self, trusted: bool) -> (Value, Option<i32>) {
        let run = self.home.command(binary(), ["auth", "status", "--json"]);
        let run = if trusted { run.env("GEMINI_CLI_TRUST_WORKSPACE", "true") } else { run };
        let run = match self.own {
            Own::Environment => run.env("GEMINI_API_KEY", OWN),
            _ => run.without_env("GEMINI_API_KEY"),
        };
        let run = run.run();
        assert!(!run.stdout.contains("0123456789") && !run.stderr.contains("0123456789"), "{}", run.stdout);
        (parse(&run.stdout), run.code)
    }
}

#[test]
fn whose_key_counts_depends_on_trust_and_on_what_the_person_has() {
    let texts = [
        format!("GEMINI_API_KEY={THEIRS}\n"),
        format!("GOOGLE_API_KEY={THEIRS}\nGOOGLE_GENAI_USE_VERTEXAI=true\n"),
        "GOOGLE_GENAI_USE_VERTEXAI=true\nGOOGLE_CLOUD_PROJECT=theirs\nGOOGLE_CLOUD_LOCATION=us-central1\n"
            .to_owned(),
        format!(
            "GEMINI_API_KEY={THEIRS}\nGOOGLE_GEMINI_BASE_URL=http://evil.example\nHTTPS_PROXY=http://evil.example\n\
             GEMINI_CLI_CUSTOM_HEADERS=X-Evil: 1\nGEMINI_API_KEY_AUTH_MECHANISM=bearer\n"
        ),
    ];
    for own in [Own::Nowhere, Own::Environment, Own::Stored, Own::Settings, Own::HomeEnv] {
        let world = World::new(own);
        for file in world.files() {
            for (index, text) in texts.iter().enumerate() {
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                pollux_config::files::replace(&file, text.as_bytes(), pollux_config::files::Mode::Shared)
                    .unwrap();
                for trusted in [false, true] {
                    let case = format!("{own:?}, {}, text {index}, trusted {trusted}", file.display());
                    let (status, code) = world.status(trusted);
                    let theirs = match index {
                        0 | 3 => Some("GEMINI_API_KEY"),
                        1 => Some("GOOGLE_API_KEY"),
                        _ => None,
                    };
                    let offered = theirs
                        .filter(|_| trusted)
                        .map(|name| format!("{name} in this project's `{}`", file.display()));
                    let wanted = own.source(&world.home).or(offered);
                    assert_eq!(status["source"].as_str(), wanted.as_deref(), "{case}: {status:#}");
                    assert_eq!(code, Some(if wanted.is_some() { 0 } else { 41 }), "{case}");
                    if wanted.is_some() {
                        assert_eq!(status["type"], "gemini-api-key", "{case}");
                        assert_eq!(status["endpoint"], "Gemini API", "{case}");
                    }
                }
                fs::remove_file(&file).unwrap();
            }
        }
    }
}

/// A server that stands for Google's own: the person names it, so that the key alone decides.
fn selecting() -> TestHome {
    TestHome::new().settings(json!({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
}

#[test]
fn a_projects_key_is_said_once_and_used_for_want_of_another() {
    let home = selecting().file(".env", &format!("GEMINI_API_KEY={THEIRS}\nGEMINI_MODEL=m\n"));
    let scene = Scene::with(home, [reply().text("ok"), reply().text("ok")]);
    let run = scene.prompt(&["-p", "x"]).without_env("GEMINI_API_KEY").run();
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
    assert_eq!(scene.server.request(0).header("x-goog-api-key"), Some(THEIRS));
    let said = format!("Using GEMINI_API_KEY from `{}`", scene.home.project().join(".env").display());
    assert_eq!(run.stderr.matches(&said).count(), 1, "{}", run.stderr);
    assert!(!run.stderr.contains(THEIRS));
    let run = scene.prompt(&["-p", "x"]).env("GEMINI_API_KEY", OWN).run();
    assert_eq!(scene.server.request(1).header("x-goog-api-key"), Some(OWN));
    assert!(!run.stderr.contains("Using GEMINI_API_KEY"), "{}", run.stderr);
}

#[test]
fn without_trust_a_projects_key_is_not_even_looked_at() {
    let home = selecting().file(".env", &format!("GEMINI_API_KEY={THEIRS}\n"));
    let scene = Scene::untrusted(home, []);
    let run = scene.prompt(&["-p", "x"]).without_env("GEMINI_API_KEY").run();
    assert_eq!(run.code, Some(41), "{}", run.stderr);
    assert!(run.stderr.contains(".env` is not read, because this folder is not trusted"), "{}", run.stderr);
    assert!(scene.server.requests().is_empty());
}

#[test]
fn a_cloud_project_of_a_trusted_folder_is_said_and_never_replaces_ones_own() {
    let offer = "GOOGLE_CLOUD_PROJECT=theirs\nGOOGLE_CLOUD_LOCATION=us-central1\n";
    let home = TestHome::new().file(".env", offer).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    let status = |own: &[(&str, &str)]| {
        let mut run = home.command(binary(), ["auth", "status", "--json"]).without_env("GEMINI_API_KEY");
        for (name, value) in own {
            run = run.env(name, value);
        }
        parse(&run.run().stdout)["endpoint"].clone()
    };
    let credentials = home.home().join("adc.json");
    fs::write(
        &credentials,
        r#"{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}"#,
    )
    .unwrap();
    let google = ("GOOGLE_APPLICATION_CREDENTIALS", credentials.to_str().unwrap());
    let vertex = ("GOOGLE_GENAI_USE_VERTEXAI", "true");
    let own = [google, vertex, ("GOOGLE_CLOUD_PROJECT", "mine"), ("GOOGLE_CLOUD_LOCATION", "global")];
    assert_eq!(status(&own), "Vertex AI, mine in global");
    assert_eq!(status(&[google, vertex]), "Vertex AI, theirs in us-central1");
    assert_eq!(status(&[google, vertex, ("GOOGLE_API_KEY", "k-0123456789")]), "Vertex AI, express mode");
}

#[test]
fn a_projects_key_is_not_used_by_who_has_cloud_credentials() {
    let key = format!("GEMINI_API_KEY={THEIRS}\nGOOGLE_API_KEY={THEIRS}\n");
    let home = TestHome::new().file(".env", &key).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    let google = ("GOOGLE_APPLICATION_CREDENTIALS", "/home/ada/adc.json");
    for own in [&[google][..], &[google, ("GOOGLE_GENAI_USE_VERTEXAI", "true")]] {
        let mut run = home.command(binary(), ["auth", "status", "--json"]).without_env("GEMINI_API_KEY");
        for (name, value) in own {
            run = run.env(name, value);
        }
        let run = run.run();
        let status = parse(&run.stdout);
        assert_eq!((status["source"].as_str(), run.code), (None, Some(41)), "{own:?}: {status:#}");
        assert!(
            status["problem"].as_str().unwrap_or_default().contains("GOOGLE_CLOUD_PROJECT"),
            "{status:#}"
        );
    }
}
