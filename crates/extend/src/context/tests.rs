use super::*;

struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
            fs::write(path, text).unwrap();
        }
        Self { dir }
    }

    fn files(&self, names: &[&str], trusted: bool) -> ContextFiles {
        let settings = Context {
            file_names: names.iter().map(|name| (*name).to_owned()).collect(),
            boundary_markers: vec![".git".into()],
            filtering: pollux_config::groups::FileFiltering {
                respect_gemini_ignore: true,
                ..Default::default()
            },
            ..Default::default()
        };
        let places = ContextFolders {
            gemini_dir: self.dir.path().join("home/.gemini"),
            project_temp: self.dir.path().join("home/.gemini/tmp/x"),
            roots: vec![self.dir.path().join("repo/app")],
            trusted,
            homes: vec![self.dir.path().join("home")],
        };
        ContextFiles::new(places, &settings)
    }
}

#[test]
fn project_files_are_taken_from_the_boundary_down_and_only_once() {
    let scene = Scene::new(&[
        ("repo/.git/HEAD", "x"),
        ("GEMINI.md", "outside the repository"),
        ("repo/GEMINI.md", "top"),
        ("repo/app/GEMINI.md", "app"),
        ("repo/app/src/GEMINI.md", "src"),
    ]);
    let mut files = scene.files(&["GEMINI.md"], true);
    let text = files.project().unwrap();
    assert!(text.find("top").unwrap() < text.find("app\n").unwrap(), "{text}");
    assert!(!text.contains("outside"));
    let near = files.near(&scene.dir.path().join("repo/app/src/main.rs")).unwrap();
    assert!(near.contains("src\n") && !near.contains("top"), "{near}");
    assert_eq!(files.near(&scene.dir.path().join("repo/app/src/main.rs")), None);
}

#[test]
fn without_a_marker_only_the_root_itself_is_read() {
    let scene = Scene::new(&[("repo/GEMINI.md", "parent"), ("repo/app/AGENTS.md", "app")]);
    let text = scene.files(&["AGENTS.md", "GEMINI.md"], true).project().unwrap();
    assert!(text.contains("app") && !text.contains("parent"), "{text}");
}

#[test]
fn global_files_and_the_older_memory_file_are_both_read() {
    let scene = Scene::new(&[("home/.gemini/GEMINI.md", "rules"), ("home/.gemini/memory.md", "notes")]);
    let text = scene.files(&["GEMINI.md"], true).global().unwrap();
    assert!(text.find("rules").unwrap() < text.find("notes").unwrap());
}

#[test]
fn an_untrusted_or_ignored_project_file_is_not_read() {
    let scene = Scene::new(&[("repo/app/GEMINI.md", "app"), ("repo/app/.geminiignore", "GEMINI.md\n")]);
    assert_eq!(scene.files(&["GEMINI.md"], false).project(), None);
    assert_eq!(scene.files(&["GEMINI.md"], true).project(), None);
}

#[test]
fn a_directory_named_like_a_context_file_is_skipped() {
    let scene = Scene::new(&[("repo/app/GEMINI.md/x", "")]);
    let mut files = scene.files(&["GEMINI.md"], true);
    assert_eq!(files.project(), None);
    assert!(files.take_warnings().is_empty());
}

#[cfg(unix)]
#[test]
fn links_are_followed_within_the_project_and_not_out_of_it() {
    let scene = Scene::new(&[
        ("secret.txt", "a key"),
        ("repo/.git/HEAD", "x"),
        ("repo/AGENTS.md", "shared rules"),
        ("repo/app/src/main.rs", ""),
    ]);
    let repo = scene.dir.path().join("repo");
    std::os::unix::fs::symlink(repo.join("AGENTS.md"), repo.join("app/GEMINI.md")).unwrap();
    std::os::unix::fs::symlink(scene.dir.path().join("secret.txt"), repo.join("app/src/GEMINI.md")).unwrap();
    let mut files = scene.files(&["GEMINI.md"], true);
    assert!(files.project().unwrap().contains("shared rules"));
    assert_eq!(files.near(&repo.join("app/src/main.rs")), None);
    assert_eq!(files.take_warnings().len(), 1);
}

#[test]
fn a_home_under_version_control_is_not_a_project() {
    let scene = Scene::new(&[
        ("home/.git/HEAD", "x"),
        ("home/.ssh/id_rsa", "a key"),
        ("home/GEMINI.md", "about the home"),
        ("home/src/app/GEMINI.md", "app @../../.ssh/id_rsa @../../../home/.ssh/id_rsa"),
    ]);
    let mut files = scene.files(&["GEMINI.md"], true);
    files.places.roots = vec![scene.dir.path().join("home/src/app")];
    let text = files.project().unwrap();
    assert!(text.contains("app ") && !text.contains("about the home"), "{text}");
    assert!(!text.contains("a key"), "{text}");
    assert_eq!(text.matches("outside the project").count(), 2, "{text}");
}

#[test]
fn a_variable_name_cannot_escape_its_folder_or_read_user_keys() {
    let scene = Scene::new(&[
        ("home/.ssh/id_rsa", "a key"),
        ("home/.gemini/.env", "a key"),
        ("home/.gemini/oauth_creds.json", "a key"),
        ("home/.gemini/AGENTS.md", "rules"),
        ("repo/app/oauth_creds.json", "their own"),
    ]);
    let absolute = scene.dir.path().join("home/.ssh/id_rsa");
    let names = ["../.ssh/id_rsa", absolute.to_str().unwrap(), ".env", "oauth_creds.json", "AGENTS.md"];
    let mut files = scene.files(&names, true);
    let global = files.global().unwrap();
    assert!(global.contains("rules") && !global.contains("a key"), "{global}");
    let own = files.project().unwrap();
    assert!(own.contains("their own") && !own.contains("a key"), "{own}");
}

#[test]
fn files_of_extensions_may_import_what_is_theirs() {
    let scene = Scene::new(&[
        ("home/.gemini/extensions/x/docs/X.md", "rules @../more.md @../../../keys"),
        ("home/.gemini/extensions/x/more.md", "more of them"),
        ("home/.gemini/keys", "a key"),
    ]);
    let folder = scene.dir.path().join("home/.gemini/extensions/x");
    let listed = [(folder.clone(), folder.join("docs/X.md")), (folder.join("docs"), folder.join("more.md"))];
    let mut files = scene.files(&["GEMINI.md"], false);
    let text = files.extensions(&listed).unwrap();
    assert!(text.contains("rules") && text.contains("more of them") && !text.contains("a key"), "{text}");
    assert_eq!(files.take_warnings().len(), 1);
    assert_eq!(files.extensions(&listed), None);
}

#[test]
fn names_that_other_agents_use_are_read_too() {
    let scene = Scene::new(&[
        ("home/.gemini/AGENTS.md", "for all projects"),
        ("repo/.git/HEAD", "x"),
        ("repo/CLAUDE.md", "top"),
        ("repo/app/AGENTS.md", "app"),
        ("repo/app/GEMINI.md", "usual"),
        ("repo/app/src/CLAUDE.md", "deeper"),
    ]);
    let mut files = scene.files(&["AGENTS.md", "CLAUDE.md", "GEMINI.md"], true);
    assert!(files.global().unwrap().contains("for all projects"));
    let text = files.project().unwrap();
    for expected in ["top\n", "app\n", "usual\n"] {
        assert_eq!(text.matches(expected).count(), 1, "{text}");
    }
    assert!(files.near(&scene.dir.path().join("repo/app/src/x.rs")).unwrap().contains("deeper"));
}

#[test]
fn all_files_together_are_bounded() {
    let long = "x".repeat(900_000);
    let paths: Vec<String> = (0..9).map(|n| format!("repo/app/d{n}/GEMINI.md")).collect();
    let listed: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), long.as_str())).collect();
    let scene = Scene::new(&listed);
    let mut files = scene.files(&["GEMINI.md"], true);
    let found: usize =
        paths.iter().filter_map(|path| files.near(&scene.dir.path().join(path))).map(|text| text.len()).sum();
    assert!((900_000..=MAX_TOTAL_BYTES).contains(&found), "{found}");
    assert_eq!(files.take_warnings().len(), 5);
}

/// Links `name` below the scene to `target` below it.
#[cfg(unix)]
fn link(scene: &Scene, name: &str, target: &str) {
    std::os::unix::fs::symlink(scene.dir.path().join(target), scene.dir.path().join(name)).unwrap();
}

#[cfg(unix)]
#[test]
fn a_linked_folder_does_not_extend_the_project() {
    for marker in ["home/.ssh/unrelated", "home/.ssh/.git/HEAD"] {
        let scene = Scene::new(&[
            ("home/.ssh/id_rsa", "a key"),
            (marker, "x"),
            ("repo/app/docs/rules.md", "own rules"),
            ("repo/app/src/main.rs", ""),
        ]);
        link(&scene, "repo/app/keys", "home/.ssh");
        link(&scene, "repo/app/src/keys", "home/.ssh");
        link(&scene, "repo/app/more", "repo/app/docs");
        let mut files = scene.files(&["keys/id_rsa", "more/rules.md"], true);
        let text = files.project().unwrap();
        assert!(text.contains("own rules") && !text.contains("a key"), "{text}");
        assert_eq!(files.near(&scene.dir.path().join("repo/app/src/main.rs")), None);
        let said = files.take_warnings();
        assert!(!said.is_empty() && said.iter().all(|line| line.contains("outside the project")), "{said:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_linked_folder_does_not_extend_the_imports() {
    let scene = Scene::new(&[
        ("home/.git/HEAD", "x"),
        ("home/.ssh/id_rsa", "a key"),
        ("home/src/app/docs/GEMINI.md", "app @../../../.ssh/id_rsa @./more.md"),
        ("home/src/app/docs/more.md", "more"),
    ]);
    link(&scene, "home/src/app/l", "");
    let mut files = scene.files(&["l/home/src/app/docs/GEMINI.md"], true);
    files.places.roots = vec![scene.dir.path().join("home/src/app")];
    let text = files.project().unwrap();
    assert!(text.contains("app ") && text.contains("\nmore\n") && !text.contains("a key"), "{text}");
}

#[test]
fn names_of_a_project_find_only_notes_beside_the_users_keys() {
    let names = [
        "a2a-server-token",
        "a2a-server-key",
        "tmp/shop/shell_history",
        "core/token",
        "tmp/shop/notes.md",
        "NOTES.MD",
        "rules.mdc",
    ];
    let listed: Vec<String> = names.iter().map(|name| format!("home/.gemini/{name}")).collect();
    let mut written: Vec<(&str, &str)> = listed.iter().map(|path| (path.as_str(), path.as_str())).collect();
    written.push(("home/.gemini/tmp/x/memory/id_rsa", "a key"));
    let scene = Scene::new(&written);
    let mut files = scene.files(&[&names[..], &["id_rsa"]].concat(), true);
    let global = files.global().unwrap();
    let read: Vec<&str> = names.into_iter().filter(|name| global.contains(name)).collect();
    assert_eq!(read, ["NOTES.MD", "rules.mdc"], "{global}");
    assert_eq!(files.private(), None);
}

#[test]
fn notes_of_the_user_import_only_text() {
    let scene = Scene::new(&[
        (
            "home/.gemini/GEMINI.md",
            "@./a2a-server-token @oauth_creds.json @./.env @rules/style.md @tmp/x/key.md/k",
        ),
        ("home/.gemini/a2a-server-token", "a key"),
        ("home/.gemini/oauth_creds.json", "a key"),
        ("home/.gemini/.env", "a key"),
        ("home/.gemini/tmp/x/key.md/k", "a key"),
        ("home/.gemini/rules/style.md", "own style"),
    ]);
    let text = scene.files(&["GEMINI.md"], true).global().unwrap();
    assert!(text.contains("own style") && !text.contains("a key"), "{text}");
    assert!(text.contains("<!-- Import failed: oauth_creds.json - only text files such as `.md`"), "{text}");
}

/// Files that the file tools refuse, and some that look alike.
const PROTECTED: [&str; 5] =
    [".env", ".git/config", "node_modules/a.md", "gha-creds-1.json", "private/secret.txt"];
const OPEN: [&str; 5] = [".env.example", ".github/rules.md", "package.json", "README", "docs/env.md"];

fn with_protected_files(more: &[(&str, &str)]) -> Scene {
    let paths: Vec<(String, String)> =
        PROTECTED.iter().chain(&OPEN).map(|name| (format!("repo/app/{name}"), format!("({name})"))).collect();
    let mut files: Vec<(&str, &str)> =
        paths.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    files.push(("repo/app/.geminiignore", "private/\n"));
    files.extend(more);
    Scene::new(&files)
}

#[test]
fn what_the_file_tools_refuse_is_not_imported() {
    let every: Vec<String> = PROTECTED.iter().chain(&OPEN).map(|name| format!("@../{name}")).collect();
    let scene = with_protected_files(&[("repo/app/docs/GEMINI.md", &every.join("\n"))]);
    #[cfg(unix)]
    {
        link(&scene, "repo/app/docs/alias.md", "repo/app/.env");
        link(&scene, "repo/app/docs/hidden.md", "repo/app/private/secret.txt");
        link(&scene, "repo/app/docs/.env", "repo/app/README");
    }
    for (format, more) in [(ImportFormat::Tree, ""), (ImportFormat::Flat, "@alias.md @hidden.md @./.env")] {
        let file = scene.dir.path().join("repo/app/docs/GEMINI.md");
        #[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
        fs::write(&file, format!("{}\n{more}", every.join("\n"))).unwrap();
        let mut files = scene.files(&["GEMINI.md"], true);
        files.format = format;
        let text = files.near(&file).unwrap();
        for name in PROTECTED {
            assert!(!text.contains(&format!("({name})")), "{name} in {text}");
            assert!(text.contains(&format!("<!-- Import failed: ../{name} - ")), "{name} in {text}");
        }
        for name in OPEN {
            assert!(text.contains(&format!("({name})")), "{name} in {text}");
        }
        let said = if more.is_empty() { 5 } else { 8 };
        assert_eq!(text.matches("Import failed").count(), said, "{text}");
    }
}

#[test]
fn files_for_which_the_file_tools_ask_are_not_imported() {
    let scene = Scene::new(&[
        ("repo/app/GEMINI.md", "rules @.aws/credentials @conf/.npmrc @keys/id_rsa @docs/aws.md"),
        ("repo/app/.aws/credentials", "a key"),
        ("repo/app/conf/.npmrc", "a key"),
        ("repo/app/keys/id_rsa", "a key"),
        ("repo/app/docs/aws.md", "how to sign in"),
    ]);
    let text = scene.files(&["GEMINI.md"], true).project().unwrap();
    assert!(text.contains("how to sign in") && !text.contains("a key"), "{text}");
    assert_eq!(text.matches("it usually contains secrets").count(), 3, "{text}");
}

#[test]
fn what_the_file_tools_refuse_is_no_context_file() {
    let scene = with_protected_files(&[("repo/app/GEMINI.md", "rules")]);
    #[cfg(unix)]
    link(&scene, "repo/app/RULES.md", "repo/app/.env");
    let mut files = scene.files(&[&PROTECTED[..], &["GEMINI.md", "RULES.md", "package.json"]].concat(), true);
    let text = files.project().unwrap();
    assert!(text.contains("rules") && text.contains("(package.json)"), "{text}");
    assert!(PROTECTED.iter().all(|name| !text.contains(&format!("({name})"))), "{text}");
    let said = files.take_warnings();
    assert!(said.iter().any(|line| line.ends_with("it may contain secrets")), "{said:?}");
}

#[test]
fn what_git_ignores_is_imported_only_if_it_is_a_note() {
    let scene = Scene::new(&[
        ("repo/.git/info/exclude", "excluded.json\n"),
        ("repo/.gitignore", "*.local.md\n/app/config/\n*.keep\n"),
        ("repo/app/.gitignore", "!a.keep\n"),
        (
            "repo/app/GEMINI.md",
            "@me.local.md @config/secrets.json @excluded.json @../excluded.json @a.keep @open.json",
        ),
        ("repo/app/me.local.md", "(note)"),
        ("repo/app/config/secrets.json", "(secret)"),
        ("repo/app/excluded.json", "(excluded)"),
        ("repo/excluded.json", "(excluded)"),
        ("repo/app/a.keep", "(kept)"),
        ("repo/app/open.json", "(open)"),
    ]);
    let text = |respected| {
        let mut files = scene.files(&["GEMINI.md"], true);
        let filtering =
            pollux_config::groups::FileFiltering { respect_git_ignore: respected, ..Default::default() };
        files.ignored = Ignored::new(&files.places.roots, &filtering);
        files.project().unwrap()
    };
    let shown = |text: &str| -> Vec<&str> {
        let all = ["(note)", "(secret)", "(excluded)", "(kept)", "(open)"];
        all.into_iter().filter(|part| text.contains(part)).collect()
    };
    assert_eq!(shown(&text(true)), ["(note)", "(kept)", "(open)"]);
    assert_eq!(shown(&text(false)), ["(note)", "(secret)", "(excluded)", "(kept)", "(open)"]);
}

#[test]
fn custom_ignore_files_count_as_well() {
    let scene = Scene::new(&[
        ("repo/app/.geminiignore", "a.txt\nb.txt\n"),
        ("repo/app/.hidden", "c.txt\n!b.txt\n"),
        ("repo/app/GEMINI.md", "@a.txt @b.txt @c.txt"),
        ("repo/app/a.txt", "(a)"),
        ("repo/app/b.txt", "(b)"),
        ("repo/app/c.txt", "(c)"),
    ]);
    let mut files = scene.files(&["GEMINI.md"], true);
    let filtering = pollux_config::groups::FileFiltering {
        respect_gemini_ignore: true,
        custom_ignore_files: vec![".hidden".into()],
        ..Default::default()
    };
    files.ignored = Ignored::new(&files.places.roots, &filtering);
    let text = files.project().unwrap();
    assert!(text.contains("(b)") && !text.contains("(a)") && !text.contains("(c)"), "{text}");
}

#[test]
fn a_home_that_is_the_project_keeps_its_keys() {
    let scene = Scene::new(&[
        ("home/.gemini/oauth_creds.json", "a key"),
        ("home/.gemini/rules.md", "own rules"),
        ("home/GEMINI.md", "home @.gemini/oauth_creds.json @.gemini/rules.md"),
    ]);
    #[cfg(unix)]
    link(&scene, "home/g", "home/.gemini");
    let names = ["GEMINI.md", ".gemini/oauth_creds.json", "g/oauth_creds.json"];
    let mut files = scene.files(&names, true);
    files.places.roots = vec![scene.dir.path().join("home")];
    let text = files.project().unwrap();
    assert!(text.contains("own rules") && !text.contains("a key"), "{text}");
}

#[test]
fn an_extension_does_not_show_its_values() {
    let scene = Scene::new(&[
        ("home/.gemini/extensions/x/X.md", "rules @./.env @./package.json"),
        ("home/.gemini/extensions/x/.env", "a key"),
        ("home/.gemini/extensions/x/package.json", "a package"),
    ]);
    let folder = scene.dir.path().join("home/.gemini/extensions/x");
    let mut files = scene.files(&["GEMINI.md"], false);
    let text = files
        .extensions(&[(folder.clone(), folder.join(".env")), (folder.clone(), folder.join("X.md"))])
        .unwrap();
    assert!(text.contains("rules") && text.contains("a package") && !text.contains("a key"), "{text}");
    assert_eq!(files.take_warnings().len(), 1);
}
