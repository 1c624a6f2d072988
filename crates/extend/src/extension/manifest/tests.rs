use serde_json::json;

use super::*;

struct Scene(tempfile::TempDir);

impl Scene {
    fn new(manifest: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        files::replace(&dir.path().join(MANIFEST), manifest.as_bytes(), files::Mode::Shared).unwrap();
        Self(dir)
    }

    fn read(&self) -> Result<Manifest, ManifestError> {
        Manifest::read(self.0.path())
    }

    fn refusal(manifest: &str) -> String {
        let scene = Self::new(manifest);
        let text = scene.read().unwrap_err().to_string();
        text.replace(scene.0.path().to_str().unwrap(), "D")
    }
}

/// The shapes that public extensions have.
#[test]
fn manifests_as_people_write_them_are_read() {
    let full = json!({
        "$schema": "https://example.com/schema.json",
        "name": "Sec-Ops2", "version": "1.1.0", "description": "Looks at alerts",
        "contextFileName": "server${/}NOTES.md",
        "skills": ["skills/triage"],
        "settings": [
            {"name": "Region", "description": "eu or us", "envVar": "REGION", "sensitive": false},
            {"name": "Address", "defaultValue": "https://example.com", "envVar": "ADDRESS"},
            {"name": "Token", "description": "", "envVar": "TOKEN", "sensitive": true},
        ],
        "mcpServers": {"remote": {"httpUrl": "${ADDRESS}", "disabledTools": ["x"]}},
        "excludeTools": ["run_shell_command(rm -rf)"],
        "themes": [{"name": "Dusk", "type": "custom"}],
        "plan": {"directory": "plans"},
        "migratedTo": "https://github.com/o/new",
    });
    let scene = Scene::new(&full.to_string());
    let manifest = scene.read().unwrap();
    assert_eq!((manifest.name.as_str(), manifest.version.as_str()), ("Sec-Ops2", "1.1.0"));
    assert_eq!(manifest.settings.len(), 3);
    assert!(manifest.settings[2].sensitive && !manifest.settings[0].sensitive);
    assert_eq!(manifest.servers().map(|(name, _)| name).collect::<Vec<_>>(), ["remote"]);
    assert_eq!(manifest.excluded_tools(), ["run_shell_command(rm -rf)"]);
    assert_eq!(manifest.themes().len(), 1);
    assert_eq!(manifest.plan_directory(), Some(Ok("plans")));
    assert_eq!(manifest.migrated_to.as_deref(), Some("https://github.com/o/new"));
    let files = manifest.context_files(scene.0.path());
    assert_eq!(files[0].path, Ok(scene.0.path().join("server/NOTES.md")));
    assert_eq!(manifest.warnings(), Vec::<String>::new());
    let plain = Scene::new("\u{feff}{\"name\": \"a\", \"version\": 2}").read().unwrap();
    assert_eq!(plain.version, "2");
    assert_eq!(plain.context_files(Path::new("/e"))[0].path, Ok(PathBuf::from("/e/GEMINI.md")));
}

#[test]
fn refusals_have_upstreams_words() {
    let empty = tempfile::tempdir().unwrap();
    let error = Manifest::read(empty.path()).unwrap_err().to_string();
    assert_eq!(error, format!("Configuration file not found at {}", empty.path().join(MANIFEST).display()));
    let prefix = "Failed to load extension config from D/gemini-extension.json: ";
    for (manifest, wanted) in [
        (r#"{"version": "1"}"#, "Invalid configuration in D/gemini-extension.json: missing \"name\""),
        (r#"{"name": "a"}"#, "Invalid configuration in D/gemini-extension.json: missing \"version\""),
        (
            r#"{"name": "../up", "version": "1"}"#,
            "Invalid extension name: \"../up\". Only letters (a-z, A-Z), numbers (0-9), and dashes (-) are allowed.",
        ),
        (
            r#"{"name": "a\u001b[2J", "version": "1"}"#,
            "Invalid extension name: \"a\u{1b}[2J\". Only letters (a-z, A-Z), numbers (0-9), and dashes (-) are allowed.",
        ),
        ("[]", "it is not a JSON object"),
    ] {
        assert_eq!(Scene::refusal(manifest), format!("{prefix}{wanted}"));
    }
    assert!(Scene::refusal("{// no\n}").starts_with(prefix));
    assert!(Scene::refusal(&"[".repeat(100_000)).starts_with(prefix));
}

#[test]
fn a_manifest_of_a_gigabyte_is_refused_unread() {
    let dir = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(dir.path().join(MANIFEST)).unwrap();
    file.set_len(1024 * 1024 * 1024).unwrap();
    let error = Manifest::read(dir.path()).unwrap_err().to_string();
    assert!(error.ends_with("it is larger than 1 MiB"), "{error}");
}

#[test]
fn a_context_file_stays_in_the_extension() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    let scene = Scene::new(
        &json!({"name": "a", "version": "1", "contextFileName":
            ["../x", "/etc/passwd", "C:\\x", "", "a\u{0}b", "%2e%2e/x", "link.md", 7, "sub/fine.md"]})
        .to_string(),
    );
    #[cfg(unix)]
    std::os::unix::fs::symlink(outside.path(), scene.0.path().join("link.md")).unwrap();
    let manifest = scene.read().unwrap();
    let found: Vec<_> = manifest.context_files(scene.0.path()).into_iter().map(|file| file.path).collect();
    use ContextFileError::{Absolute, NoText, NullByte, Outside, Parent};
    let out = || Outside(scene.0.path().to_owned());
    assert_eq!(
        found,
        [
            Err(Parent),
            Err(Absolute),
            Err(Absolute),
            Err(NoText),
            Err(NullByte),
            Err(Parent),
            Err(out()),
            Err(NoText),
            Ok(scene.0.path().join("sub/fine.md"))
        ]
    );
    drop(outside);
}

#[cfg(unix)]
#[test]
fn a_manifest_that_is_a_link_to_elsewhere_is_refused() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    files::replace(outside.path(), br#"{"name": "a", "version": "1"}"#, files::Mode::Shared).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join(MANIFEST)).unwrap();
    let error = Manifest::read(dir.path()).unwrap_err().to_string();
    assert!(error.ends_with("it points outside the extension's folder"), "{error}");
}

#[test]
fn invalid_manifest_fields_are_skipped_and_reported() {
    let scene = Scene::new(
        &json!({"name": "a", "version": "1", "mcpServers": [], "excludeTools": "x", "plan": {"directory": "../up"},
            "settings": [{"name": "A", "envVar": "A B"}, {"envVar": "B"}, {"name": "C", "envVar": "C"}]})
        .to_string(),
    );
    let manifest = scene.read().unwrap();
    assert_eq!(manifest.settings.len(), 1);
    assert_eq!(manifest.servers().count() + manifest.excluded_tools().len(), 0);
    assert_eq!(manifest.warnings().len(), 4, "{:?}", manifest.warnings());
}
