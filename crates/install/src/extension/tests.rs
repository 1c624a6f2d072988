use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use pollux_exec::background::Background;
use pollux_extend::extension::{Enablement, LoadRequest, MANIFEST, load};
use pollux_net::client::ClientOptions;
use pollux_net::credentials::StoreOptions;
use pollux_test_support::{FakeHttp, HttpAnswer};
use serde_json::json;

use super::*;
use crate::integrity::{Depth, IntegrityState};

struct World {
    dir: TempDir,
    background: Background,
    cancel: CancellationToken,
    store: CredentialStore,
    places: ExtensionPaths,
    api: String,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let gemini_dir = dir.path().join("home/.gemini");
        let places = ExtensionPaths {
            gemini_dir: gemini_dir.clone(),
            user_home: dir.path().join("home"),
            workspace: dir.path().join("work"),
        };
        fs::create_dir_all(&places.workspace).unwrap();
        let store = CredentialStore::new(StoreOptions {
            gemini_dir: gemini_dir.clone(),
            host: "h".into(),
            user: "u".into(),
            force_file: true,
            ..StoreOptions::default()
        });
        let background = Background::new(dir.path().join("background"));
        Self { dir, background, cancel: CancellationToken::new(), store, places, api: API.to_owned() }
    }

    fn put(&self, path: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        files::replace(&path, text.as_bytes(), Mode::Shared).unwrap();
        path
    }

    fn source(&self, version: &str, more: &Value) -> PathBuf {
        let mut manifest = json!({"name": "tool", "version": version});
        let fields = more.as_object().cloned().unwrap_or_default();
        manifest.as_object_mut().unwrap().extend(fields);
        self.put(&format!("src/{MANIFEST}"), &manifest.to_string()).parent().unwrap().to_owned()
    }

    fn outside(&self) -> InstallServices<'_> {
        let environment = vec![
            ("PATH".to_owned(), option_env!("PATH").unwrap_or("/usr/bin:/bin").to_owned()),
            ("GIT_CONFIG_GLOBAL".to_owned(), "/dev/null".to_owned()),
        ];
        let time_limit = Duration::from_secs(60);
        let git =
            Git { program: "git".into(), environment, background: &self.background, token: None, time_limit };
        let releases = Releases {
            api: self.api.clone(),
            http: ClientOptions::new("test"),
            token: Some("hush".to_owned()),
            cancel: &self.cancel,
        };
        InstallServices { git, releases, cancel: &self.cancel }
    }

    fn integrity(&self) -> Integrity<'_> {
        Integrity::new(&self.places.gemini_dir, Some(&self.store))
    }

    fn installed(&self) -> Vec<Installed> {
        let request = LoadRequest {
            user: &self.places.extensions(),
            project: None,
            workspace: &self.places.workspace,
            trusted: true,
            only: &[],
            disabled: &[],
            refuses: &|_, _| None,
            configurable: true,
        };
        let loaded = load(&request).unwrap();
        assert_eq!(loaded.warnings, Vec::<String>::new());
        loaded.all
    }

    async fn stage(&self, source: &str) -> Result<Staged, InstallError> {
        let wish = InstallRequest { source: source.to_owned(), ..InstallRequest::default() };
        let metadata = infer(&wish, &self.places.workspace)?;
        stage(metadata, &self.places, &self.outside(), &mut |_| false).await
    }

    fn install(&self, staged: Staged, previous: Option<&Installed>, answers: &SettingValues) -> PathBuf {
        staged.install(previous, answers, &self.places, &self.integrity(), &self.store).unwrap()
    }

    fn leftovers(&self) -> usize {
        let entries = fs::read_dir(self.places.extensions()).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with('.')).count()
    }
}

fn settings() -> Value {
    json!([{"name": "Region", "envVar": "REGION"}, {"name": "Token", "envVar": "TOKEN", "sensitive": true}])
}

#[tokio::test]
async fn an_extension_is_installed_updated_renamed_and_removed() {
    let world = World::new();
    let source = world.source("1.0.0", &json!({"settings": settings()}));
    world.put("src/run.sh", "echo 1");
    let staged = world.stage(source.to_str().unwrap()).await.unwrap();
    staged.check_name(&[], None, &world.places).unwrap();
    let Consent::Ask(text) = staged.consent(None) else { panic!("nobody asked") };
    assert!(text.starts_with("Installing extension \"tool\".\n"), "{text}");
    let asked = staged.new_settings(None);
    let answers: SettingValues =
        asked.into_iter().zip([Secret::new("eu west"), Secret::new("hush")]).collect();
    let folder = world.install(staged, None, &answers);
    assert_eq!(folder, world.places.folder("tool"));
    let rules =
        files::read_text(&world.places.extensions().join("extension-enablement.json")).unwrap().unwrap();
    assert!(rules.contains(&format!("{}/*", world.places.user_home.display())), "{rules}");
    let all = world.installed();
    let [one] = all.as_slice() else { panic!("{all:?}") };
    let secrets = |service: &str, name: &str| world.store.secret(service, name).unwrap();
    let environment = one.environment(&secrets);
    assert_eq!(
        environment,
        [("REGION".to_owned(), "eu west".to_owned()), ("TOKEN".to_owned(), "hush".to_owned())]
    );
    assert!(!files::read_text(&folder.join(".env")).unwrap().unwrap().contains("hush"));
    let metadata = one.metadata.clone().unwrap();
    assert_eq!((metadata.kind, metadata.source.as_str()), (Kind::Local, source.to_str().unwrap()));
    assert_eq!(world.integrity().verify("tool", &metadata), IntegrityState::Verified);
    assert!(matches!(check(one, &world.places, &world.outside()).await, Ok(UpdateState::UpToDate)));

    let again = world.stage(source.to_str().unwrap()).await.unwrap();
    let error = again.check_name(&all, None, &world.places).unwrap_err().to_string();
    assert_eq!(error, "Extension \"tool\" is already installed. Please uninstall it first.");
    drop(again);

    // A newer version without changes that need consent.
    world.source("1.1.0", &json!({"settings": settings()}));
    world.put("src/run.sh", "echo 2");
    let Ok(UpdateState::Available(newer)) = check(one, &world.places, &world.outside()).await else {
        panic!("no update")
    };
    let staged = stage(newer, &world.places, &world.outside(), &mut |_| false).await.unwrap();
    assert_eq!((staged.consent(Some(one)), staged.new_settings(Some(one))), (Consent::NotNeeded, vec![]));
    let before = world.integrity().contents("tool").unwrap().unwrap();
    assert_eq!(
        before.changes(&staged.folder, Depth::Full).summary(),
        "changed: gemini-extension.json, run.sh"
    );
    world.install(staged, Some(one), &Vec::new());
    let all = world.installed();
    assert_eq!((all[0].extension.version.as_str(), all[0].environment(&secrets)), ("1.1.0", environment));

    // A version with more permissions and another name.
    world.put("src/hooks/hooks.json", r#"{"hooks": {"SessionStart": [{"command": "curl x"}]}}"#);
    world.source(
        "2.0.0",
        &json!({"name": "tool-two", "settings": [{"name": "Token", "envVar": "TOKEN", "sensitive": true}]}),
    );
    let staged = world.stage(source.to_str().unwrap()).await.unwrap();
    let Consent::Ask(text) = staged.consent(Some(&all[0])) else { panic!("nobody asked") };
    assert!(text.starts_with("Updating extension \"tool\", which is now named \"tool-two\"."), "{text}");
    assert!(text.contains("+   * SessionStart: curl x\n"), "{text}");
    assert!(text.contains("-   * Region (REGION)\n"), "{text}");
    switch(&world.places.extensions(), "tool", Switch::Off(&world.places.workspace)).unwrap();
    world.install(staged, Some(&all[0]), &Vec::new());
    let all = world.installed();
    assert_eq!((all.len(), all[0].extension.name.as_str(), all[0].active), (1, "tool-two", false));
    assert_eq!(all[0].environment(&secrets), [("TOKEN".to_owned(), "hush".to_owned())]);

    let found = find(&all, &source.display().to_string().to_uppercase()).unwrap();
    uninstall(found, &world.places, &world.integrity(), &world.store).unwrap();
    assert!(world.installed().is_empty() && !world.places.folder("tool-two").exists());
    let service = all[0].values.service(ValueScope::User).unwrap();
    assert!(world.store.secret(&service, "TOKEN").unwrap().is_none());
    assert!(Enablement::read(&world.places.extensions()).is_enabled("tool-two", &world.places.workspace));
    assert_eq!(world.leftovers(), 0);
}

#[tokio::test]
async fn a_linked_extension_stays_where_it_is() {
    let world = World::new();
    let source = world.source("1.0.0", &json!({}));
    let metadata = infer_link("../src", &world.places.workspace).unwrap();
    assert!(infer_link("nowhere", &world.places.workspace).is_err());
    let staged = stage(metadata, &world.places, &world.outside(), &mut |_| false).await.unwrap();
    world.install(staged, None, &Vec::new());
    world.source("1.5.0", &json!({}));
    let all = world.installed();
    assert_eq!(
        (all[0].extension.version.as_str(), &all[0].extension.path),
        ("1.5.0", &source.canonicalize().unwrap())
    );
    assert!(matches!(check(&all[0], &world.places, &world.outside()).await, Ok(UpdateState::Never(_))));
    uninstall(&all[0], &world.places, &world.integrity(), &world.store).unwrap();
    assert!(source.join(MANIFEST).exists() && world.installed().is_empty());
}

fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

#[tokio::test]
async fn an_archive_is_unpacked_without_the_repository_in_it() {
    let world = World::new();
    let bytes = archive(&[
        ("tool-main/gemini-extension.json", r#"{"name": "tool", "version": "1.0.0"}"#),
        ("tool-main/.git/config", "[core]\nfsmonitor = evil"),
    ]);
    let path = world.places.workspace.join("tool.tar.gz");
    fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
    let staged = world.stage("tool.tar.gz").await.unwrap();
    let folder = world.install(staged, None, &Vec::new());
    assert!(folder.join(MANIFEST).exists() && !folder.join(".git").exists());
    let wish =
        InstallRequest { source: "tool.tar.gz".into(), auto_update: true, ..InstallRequest::default() };
    let error = infer(&wish, &world.places.workspace).unwrap_err().to_string();
    assert_eq!(error, "--ref and --auto-update are not applicable for local extensions.");
    assert_eq!(world.stage("nowhere").await.unwrap_err().to_string(), "Install source not found.");
}

#[tokio::test]
async fn a_repository_is_cloned_and_updated_when_it_moves_on() {
    let world = World::new();
    let source = world.source("1.0.0", &json!({}));
    let git = |arguments: &[&str]| {
        let done = pollux_test_support::git(&source).args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "one"]);
    let address = format!("file://{}", source.display());
    let staged = world.stage(&address).await.unwrap();
    assert_eq!(staged.metadata.kind, Kind::Git);
    world.install(staged, None, &Vec::new());
    let all = world.installed();
    assert!(matches!(check(&all[0], &world.places, &world.outside()).await, Ok(UpdateState::UpToDate)));
    world.source("1.0.1", &json!({}));
    git(&["commit", "-qam", "two"]);
    let Ok(UpdateState::Available(newer)) = check(&all[0], &world.places, &world.outside()).await else {
        panic!("no update")
    };
    let staged = stage(newer, &world.places, &world.outside(), &mut |_| false).await.unwrap();
    assert_eq!(staged.consent(Some(&all[0])), Consent::NotNeeded);
    world.install(staged, Some(&all[0]), &Vec::new());
    assert_eq!(world.installed()[0].extension.version, "1.0.1");
    assert_eq!(world.leftovers(), 0);
}

/// A fake GitHub for releases. The file itself is on another server.
fn github(tag: &'static str, storage: String) -> FakeHttp {
    FakeHttp::start_with_url(move |url, request| match request.path.as_str() {
        "/repos/o/r/releases/latest" | "/repos/o/r/releases/tags/v1" => HttpAnswer::json(&json!({
            "tag_name": tag,
            "assets": [{"name": "tool.tar.gz", "url": format!("{url}/assets/1")}],
            "tarball_url": format!("{url}/source"),
        })),
        "/assets/1" => HttpAnswer::status(302).header("location", &format!("{storage}/file")),
        "/repos/o/early/releases/latest" => HttpAnswer::status(404),
        "/repos/o/early/releases" => HttpAnswer::json(
            &json!([{"tag_name": "v0-rc", "assets": [], "tarball_url": format!("{url}/source")}]),
        ),
        "/repos/o/none/releases" => HttpAnswer::json(&json!([])),
        "/repos/o/busy/releases/latest" => HttpAnswer::status(403),
        _ => HttpAnswer::status(404),
    })
}

#[tokio::test]
async fn a_release_is_found_fetched_and_updated() {
    let mut world = World::new();
    let bytes = archive(&[("gemini-extension.json", r#"{"name": "tool", "version": "1.0.0"}"#)]);
    let storage = FakeHttp::start(move |_| HttpAnswer::status(200).body(bytes.clone()));
    let server = github("v1", storage.url());
    world.api = server.url();
    let staged = world.stage("o/r").await.unwrap();
    let metadata = staged.metadata.clone();
    assert_eq!((metadata.kind, metadata.release_tag.as_deref()), (Kind::GithubRelease, Some("v1")));
    assert_eq!(metadata.source, "https://github.com/o/r");
    world.install(staged, None, &Vec::new());
    assert!(server.requests().iter().all(|request| request.header("authorization") == Some("token hush")));
    assert_eq!(storage.requests()[0].header("authorization"), None);
    let all = world.installed();
    assert!(matches!(check(&all[0], &world.places, &world.outside()).await, Ok(UpdateState::UpToDate)));
    let later = github("v2", storage.url());
    world.api = later.url();
    assert!(matches!(check(&all[0], &world.places, &world.outside()).await, Ok(UpdateState::Available(_))));
}

#[tokio::test]
async fn a_missing_release_gives_none_and_a_failure_offers_git_clone() {
    let mut world = World::new();
    let server = github("v1", String::new());
    world.api = server.url();
    let repo = |name: &str| GitHubRepo { owner: "o".into(), repo: name.into() };
    let outside = world.outside();
    assert_eq!(outside.releases.find(&repo("none"), None, false).await.unwrap(), None);
    assert_eq!(outside.releases.find(&repo("r"), Some("v9"), false).await.unwrap(), None);
    let early = outside.releases.find(&repo("early"), None, false).await.unwrap().unwrap();
    assert_eq!(early.tag, "v0-rc");
    let mut asked = String::new();
    let metadata = Metadata::new("https://github.com/o/busy", Kind::Git);
    let error = stage(metadata, &world.places, &outside, &mut |question| {
        asked = question.to_owned();
        false
    })
    .await
    .unwrap_err();
    assert!(asked.contains("status 403") && asked.contains("git clone"), "{asked}");
    assert!(matches!(error, InstallError::Release { .. }), "{error:?}");
    assert_eq!(world.leftovers(), 0);
}
