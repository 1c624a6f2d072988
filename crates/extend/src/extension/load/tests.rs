use pollux_config::env::Env;
use pollux_config::files::{self, Mode};
use pollux_config::groups::Secret;
use serde_json::{Value, json};

use super::super::{MANIFEST, METADATA};
use super::*;

struct Scene {
    dir: tempfile::TempDir,
}

#[derive(Default)]
struct How {
    only: Vec<String>,
    disabled: Vec<String>,
    untrusted: bool,
    without_values: bool,
}

impl Scene {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn file(&self, path: &str, text: &str) {
        files::replace(&self.path(path), text.as_bytes(), Mode::Shared).unwrap();
    }

    fn extension(&self, folder: &str, manifest: &Value) {
        self.file(&format!("{folder}/{MANIFEST}"), &manifest.to_string());
    }

    fn load_as(&self, how: &How) -> Result<Loaded, LoadError> {
        let (user, project, workspace) =
            (self.path("home"), self.path("work/.gemini/extensions"), self.path("work"));
        load(&LoadRequest {
            user: &user,
            project: (!how.untrusted).then_some(&*project),
            workspace: &workspace,
            trusted: !how.untrusted,
            only: &how.only,
            disabled: &how.disabled,
            refuses: &|_, _| None,
            configurable: !how.without_values,
        })
    }

    fn load(&self) -> Loaded {
        self.load_as(&How::default()).unwrap()
    }
}

fn simple(name: &str) -> Value {
    json!({"name": name, "version": "1.0.0"})
}

fn active(loaded: &Loaded) -> Vec<&str> {
    loaded.all.iter().filter(|one| one.active).map(|one| one.extension.name.as_str()).collect()
}

#[test]
fn all_extensions_are_found_and_a_broken_one_is_reported_and_skipped() {
    let scene = Scene::new();
    assert!(scene.load().all.is_empty());
    scene.extension("home/two", &simple("two"));
    scene.extension("home/other-folder", &simple("one"));
    scene.extension("work/.gemini/extensions/ours", &simple("ours"));
    scene.extension("work/.gemini/extensions/two", &simple("two"));
    scene.file("home/broken/gemini-extension.json", "{");
    scene.file("home/extension-enablement.json", r#"{"two": {"overrides": ["!/"]}}"#);
    scene.file("home/.hidden/x", "");
    let loaded = scene.load();
    assert_eq!(active(&loaded), ["one", "ours", "two"]);
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    let said =
        format!("Warning: Skipping extension in {}: Failed to load", scene.path("home/broken").display());
    assert!(loaded.warnings[0].starts_with(&said), "{:?}", loaded.warnings);
    assert!(loaded.warnings[1].contains("project's extension \"two\""));
    let untrusted = scene.load_as(&How { untrusted: true, ..How::default() }).unwrap();
    assert_eq!(active(&untrusted), ["one", "two"]);
}

#[test]
fn two_extensions_of_the_same_name_are_an_error_naming_both() {
    let scene = Scene::new();
    scene.extension("home/a", &simple("same"));
    scene.extension("home/b", &simple("same"));
    let error = scene.load_as(&How::default()).unwrap_err().to_string();
    assert!(
        error.starts_with("Extension with name same already was loaded") && error.contains("/b`"),
        "{error}"
    );
}

#[test]
fn rules_settings_and_the_flag_decide_what_is_active() {
    let scene = Scene::new();
    for name in ["one", "two", "three"] {
        scene.extension(&format!("home/{name}"), &simple(name));
    }
    let rule = format!("!{}/*", scene.path("work").display());
    scene.file("home/extension-enablement.json", &json!({"one": {"overrides": [rule]}}).to_string());
    assert_eq!(active(&scene.load()), ["three", "two"]);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let disabled = How { disabled: names(&["TWO"]), ..How::default() };
    assert_eq!(active(&scene.load_as(&disabled).unwrap()), ["three"]);
    let loaded = scene.load_as(&How { only: names(&["ONE", "nosuch"]), ..How::default() }).unwrap();
    assert_eq!(active(&loaded), ["one"]);
    assert_eq!(loaded.warnings, ["Extension not found: nosuch"]);
    let none = How { only: names(&["none"]), ..How::default() };
    assert!(active(&scene.load_as(&none).unwrap()).is_empty());
}

#[cfg(unix)]
#[test]
fn a_linked_extension_is_used_in_place_and_a_bare_link_is_refused() {
    let scene = Scene::new();
    scene.extension(
        "src/mine",
        &json!({"name": "mine", "version": "1", "mcpServers": {"s": {"command": "${extensionPath}/x"}}}),
    );
    scene.file(
        &format!("home/mine/{METADATA}"),
        &json!({"source": scene.path("src/mine"), "type": "link"}).to_string(),
    );
    std::os::unix::fs::symlink(scene.path("src/mine"), scene.path("home/sneaky")).unwrap();
    // A project's claim about a link does not count.
    scene.file(
        &format!("work/.gemini/extensions/p/{METADATA}"),
        &json!({"source": scene.path("src/mine"), "type": "link"}).to_string(),
    );
    let loaded = scene.load();
    assert_eq!(active(&loaded), ["mine"]);
    let mine = &loaded.all[0];
    assert_eq!((&mine.extension.path, &mine.folder), (&scene.path("src/mine"), &scene.path("home/mine")));
    let env = Env::new([], scene.path("work"));
    let servers = mine.servers(&env, &no_secrets);
    assert_eq!(servers[0].1["command"], json!(scene.path("src/mine/x")));
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    assert!(
        loaded.warnings.iter().any(|text| text.contains("a link to a path outside")),
        "{:?}",
        loaded.warnings
    );
}

#[test]
fn servers_get_variables_settings_and_no_say_about_trust() {
    let scene = Scene::new();
    scene.extension(
        "home/x",
        &json!({"name": "x", "version": "1",
        "settings": [{"name": "Region", "envVar": "REGION"}, {"name": "Token", "envVar": "TOKEN", "sensitive": true},
            {"name": "Unset", "envVar": "UNSET"}],
        "mcpServers": {
            "local": {"command": "node", "args": ["${extensionPath}${/}s.js", "${REGION}", "${nope}", "$USER"],
                "env": {"REGION": "mine"}, "cwd": "${workspacePath}", "trust": true},
            "remote": {"httpUrl": "https://${REGION}.example.com", "headers": {"X": "Bearer ${TOKEN}"}}}}),
    );
    scene.file("home/x/.env", "REGION=eu\nTOKEN=not from here\n");
    let loaded = scene.load();
    let x = &loaded.all[0];
    let env = Env::new([("USER".to_owned(), "me".to_owned())], scene.path("work"));
    let secrets = |service: &str, variable: &str| {
        let service_fits = service == format!("Gemini CLI Extensions x {}", x.id);
        (service_fits && variable == "TOKEN").then(|| Secret::new("hush"))
    };
    let servers = x.servers(&env, &secrets);
    let script = scene.path("home/x/s.js");
    assert_eq!(
        servers,
        [
            (
                "local".to_owned(),
                json!({"command": "node", "args": [script, "eu", "${nope}", "me"],
                    "env": {"REGION": "mine", "TOKEN": "hush"}, "cwd": scene.path("work")})
            ),
            (
                "remote".to_owned(),
                json!({"httpUrl": "https://eu.example.com", "headers": {"X": "Bearer hush"}})
            )
        ]
    );
    // Text for the model contains no secrets.
    assert_eq!(x.extension.hydrate("${REGION} ${TOKEN} ${/}"), "eu ${TOKEN} /");
    let off = scene.load_as(&How { without_values: true, ..How::default() }).unwrap();
    assert_eq!(off.all[0].environment(&secrets), []);
}

#[test]
fn context_files_that_exist_are_found() {
    let scene = Scene::new();
    scene.extension(
        "home/a",
        &json!({"name": "a", "version": "1", "contextFileName": ["ONE.md", "missing.md", "../x"]}),
    );
    scene.extension("home/b", &simple("b"));
    scene.file("home/a/ONE.md", "one");
    scene.file("home/b/GEMINI.md", "usual");
    let loaded = scene.load();
    let (files, warnings) = loaded.all[0].context_files();
    assert_eq!((files, warnings.len()), (vec![scene.path("home/a/ONE.md")], 1));
    assert_eq!(loaded.all[1].context_files().0, [scene.path("home/b/GEMINI.md")]);
}

/// Published extensions, with their structure and our own texts.
#[test]
fn public_extension_layouts_load_without_warnings() {
    let scene = Scene::new();
    let setting =
        |name: &str, variable: &str| json!({"name": name, "description": "(Optional)", "envVar": variable});
    let shapes = [
        // A server that was built into the folder, commands, a skill.
        json!({"name": "scan-cli", "version": "0.3.0", "contextFileName": "GEMINI.md",
            "mcpServers": {"scanServer": {"command": "node", "args": ["${extensionPath}/server/dist/index.js"]}}}),
        // Paths with the separator as a variable, relative to a working directory.
        json!({"name": "office", "version": "0.0.6", "contextFileName": "office-server${/}OFFICE-Context.md",
            "mcpServers": {"office": {"command": "node", "args": ["scripts${/}start.js"], "cwd": "${extensionPath}"}}}),
        // Many settings, none of them a secret by its own word, and no server.
        json!({"name": "a-database", "version": "0.2.0", "description": "Talks to a database.", "contextFileName": "A-DATABASE.md",
            "settings": [setting("Project ID", "A_DB_PROJECT"), setting("Password", "A_DB_PASSWORD")]}),
        // Unknown keys, and a remote server that signs in with Google.
        json!({"name": "alerts", "contextFileName": "GEMINI.md", "version": "1.1.0", "skills": ["skills/triage"],
            "settings": [{"name": "SERVER_URL", "defaultValue": "https://example.com/mcp", "description": "", "envVar": "SERVER_URL", "sensitive": false}],
            "mcpServers": {"remote": {"httpUrl": "${SERVER_URL}", "authProviderType": "google_credentials",
                "oauth": {"scopes": ["https://example.com/auth"]}, "headers": {"x-project": "${PROJECT_ID}"},
                "env": {"REGION": "${REGION}"}, "disabledTools": ["list"]}}}),
        // Hooks alone.
        json!({"name": "loop", "version": "1.0.0"}),
        // A name with capitals, and a relative command.
        json!({"name": "Peak", "version": "0.1.0", "mcpServers": {"PeakMcpServer": {"command": "./run.sh", "args": []}}}),
        // Variables of the environment only.
        json!({"name": "charts", "version": "0.1.6", "mcpServers": {"charts": {"command": "${extensionPath}${/}toolbox",
            "args": ["--stdio"], "env": {"CHARTS_URL": "${CHARTS_URL}"}}}, "contextFileName": "CHARTS.md"}),
        // A package that is fetched at every start, and an empty environment.
        json!({"name": "pictures", "version": "1.0.4", "mcpServers": {"pictures": {"command": "npx", "args": ["-y", "@x/y@1.12.0"], "env": {}}},
            "settings": [{"name": "API Key", "description": "Your key.", "envVar": "PICTURES_KEY"}]}),
        // Texts in other scripts, with imports of skills.
        json!({"name": "powers-zh", "description": "工作方法论 — 测试", "version": "1.7.3", "contextFileName": "GEMINI.md"}),
    ];
    for manifest in &shapes {
        let folder = format!("home/{}", manifest["name"].as_str().unwrap());
        scene.extension(&folder, manifest);
        scene.file(&format!("{folder}/GEMINI.md"), "text");
    }
    let loaded = scene.load();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert_eq!(active(&loaded).len(), shapes.len());
    let env = Env::new([("CHARTS_URL".to_owned(), "https://charts".to_owned())], scene.path("work"));
    let servers: BTreeMap<String, Value> =
        loaded.all.iter().flat_map(|one| one.servers(&env, &no_secrets)).collect();
    assert_eq!(servers.len(), 6);
    assert_eq!(servers["charts"]["env"]["CHARTS_URL"], "https://charts");
    assert_eq!(servers["office"]["args"][0], "scripts/start.js");
    assert_eq!(servers["office"]["cwd"], json!(scene.path("home/office")));
    assert_eq!(servers["remote"]["httpUrl"], "${SERVER_URL}");
}

#[test]
fn variables_without_effect_are_looked_for_only_on_request() {
    let scene = Scene::new();
    for name in ["on", "off"] {
        scene.extension(&format!("home/{name}"), &simple(name));
        scene.file(&format!("home/{name}/.env"), "OLLAMA_HOST=http://evil.example\n");
    }
    let loaded = scene.load_as(&How { disabled: vec!["off".to_owned()], ..How::default() }).unwrap();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let told: Vec<String> = loaded.all.iter().filter_map(Installed::ignored_addresses).collect();
    assert_eq!(
        told,
        [
            "Extension \"on\": `.env`: ignored, because an extension cannot redirect model requests: `OLLAMA_HOST`"
        ]
    );
}
