//! Extensions: `pollux extensions` from the command line, and what an extension brings into a run.

use std::fs;
use std::path::Path;

use pollux_test_support::mcp::server_entry;
use pollux_test_support::{FakeHttp, HttpAnswer, Run, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, parse};

fn extensions(scene: &Scene, args: &[&str]) -> Run {
    typed(scene, args, "")
}

fn typed(scene: &Scene, args: &[&str], input: &str) -> Run {
    let args: Vec<&str> = ["extensions"].into_iter().chain(args.iter().copied()).collect();
    scene
        .prepare(&args)
        .without_env("GEMINI_API_KEY")
        .without_env("GOOGLE_GEMINI_BASE_URL")
        .stdin(input)
        .run()
}

fn put(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// An extension's source beside the project.
fn source(scene: &Scene, manifest: &Value) -> std::path::PathBuf {
    let folder = scene.home.project().join("../their-extension");
    put(&folder, "gemini-extension.json", &manifest.to_string());
    folder
}

#[test]
#[expect(clippy::too_many_lines, reason = "one journey, in its order")]
fn an_extension_is_installed_listed_switched_updated_and_removed() {
    let scene = Scene::with(TestHome::new(), []);
    let folder = source(
        &scene,
        &json!({"name": "tool", "version": "1.0.0", "mcpServers": {"srv": {"command": "node", "args": ["${extensionPath}/s.js"]}},
            "settings": [{"name": "Region", "description": "eu or us", "envVar": "REGION"},
                {"name": "Token", "envVar": "TOOL_TOKEN", "sensitive": true}]}),
    );
    put(&folder, "hooks/hooks.json", r#"{"hooks": {"SessionStart": [{"command": "echo hi"}]}}"#);
    let from = folder.to_str().unwrap();
    let refused = typed(&scene, &["install", from], "n\n");
    assert_eq!(refused.code, Some(1));
    for shown in [
        "Installing extension \"tool\".",
        "  * srv (local): node ${extensionPath}/s.js",
        "SessionStart: echo hi",
        "Do you want to continue? [Y/n]: ",
        "Installation cancelled for \"tool\".",
    ] {
        assert!(refused.stderr.contains(shown), "{shown}\n{}", refused.stderr);
    }
    // Nobody there is no consent.
    assert_eq!(extensions(&scene, &["install", from]).code, Some(1));
    let done = extensions(&scene, &["install", from, "--consent"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "Extension \"tool\" installed successfully and enabled.\n"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("You have consented to the following:")
            && done.stderr.contains("SessionStart: echo hi")
    );
    assert!(
        done.stderr.contains("Extension \"tool\" has missing settings: Region, Token."),
        "{}",
        done.stderr
    );
    let again = extensions(&scene, &["install", from, "--consent"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("Extension \"tool\" is already installed. Please uninstall it first."));

    assert_eq!(
        typed(&scene, &["config", "tool", "Region"], "eu west\n").stdout,
        "Setting \"Region\" updated.\n"
    );
    assert_eq!(typed(&scene, &["config", "tool", "TOOL_TOKEN"], "hush-hush\n").code, Some(0));
    let list = extensions(&scene, &["list"]);
    assert!(list.stdout.starts_with("✓ tool (1.0.0)\n ID: "), "{}", list.stdout);
    assert!(
        list.stdout.contains("  Region: eu west (User - ")
            && list.stdout.contains("  Token: *** (User - Keychain)\n"),
        "{}",
        list.stdout
    );
    assert!(!list.stdout.contains("hush") && list.stderr.is_empty(), "{}", list.stderr);
    let object = parse(&extensions(&scene, &["list", "-o", "json"]).stdout);
    assert_eq!((&object[0]["name"], &object[0]["isActive"]), (&json!("tool"), &json!(true)));

    let off = extensions(&scene, &["disable", "tool", "--scope", "Workspace"]);
    assert_eq!(off.stdout, "Extension \"tool\" successfully disabled for scope \"Workspace\".\n");
    assert!(extensions(&scene, &["list"]).stdout.starts_with("✗ tool"));
    assert_eq!(
        extensions(&scene, &["enable", "tool"]).stdout,
        "Extension \"tool\" successfully enabled in all scopes.\n"
    );
    assert!(extensions(&scene, &["list"]).stdout.starts_with("✓ tool"));
    // The project is not in the home.
    let off = extensions(&scene, &["disable", "tool"]);
    assert_eq!(off.stdout, "Extension \"tool\" successfully disabled in all scopes.\n");
    assert!(off.stderr.is_empty(), "{}", off.stderr);
    assert!(extensions(&scene, &["list"]).stdout.starts_with("✗ tool"));
    assert_eq!(extensions(&scene, &["enable", "tool"]).code, Some(0));
    assert!(extensions(&scene, &["list"]).stdout.starts_with("✓ tool"));
    assert_eq!(extensions(&scene, &["enable", "nosuch"]).code, Some(52));
    assert_eq!(extensions(&scene, &["disable", "nosuch"]).code, Some(1));
    assert_eq!(extensions(&scene, &["disable", "tool", "--scope", "system"]).code, Some(1));

    assert_eq!(extensions(&scene, &["update", "tool"]).stdout, "Extension \"tool\" is already up to date.\n");
    source(
        &scene,
        &json!({"name": "tool", "version": "1.1.0", "excludeTools": ["glob"],
        "settings": [{"name": "Region", "envVar": "REGION"}]}),
    );
    let held = typed(&scene, &["update", "tool"], "n\n");
    assert!(
        held.code == Some(1)
            && held.stderr.contains("+   * glob")
            && held.stderr.contains("-   * srv (local)"),
        "{}",
        held.stderr
    );
    let newer = typed(&scene, &["update", "--all"], "y\n");
    assert_eq!(newer.stdout, "Extension \"tool\" successfully updated: 1.0.0 → 1.1.0.\n", "{}", newer.stderr);
    assert!(newer.stderr.contains("files changed: gemini-extension.json"), "{}", newer.stderr);
    assert!(extensions(&scene, &["list"]).stdout.contains("  Region: eu west (User - "));
    assert_eq!(extensions(&scene, &["update", "--all"]).stdout, "No extensions to update.\n");
    let unknown = extensions(&scene, &["update", "nosuch"]);
    assert_eq!(unknown.code, Some(0));
    assert!(
        unknown.stderr.contains("Extension \"nosuch\" not found.\n\nInstalled extensions:\ntool (1.1.0)\n")
    );

    put(&scene.home.gemini_dir(), "extensions/tool/hooks/hooks.json", "{}");
    let changed = extensions(&scene, &["list"]).stderr;
    assert!(
        changed.contains("\"tool\" has changed since it was installed (changed: hooks/hooks.json)"),
        "{changed}"
    );

    let gone = extensions(&scene, &["uninstall", "tool", "nosuch"]);
    assert_eq!(
        (gone.code, gone.stdout.as_str()),
        (Some(1), "Extension \"tool\" successfully uninstalled.\n")
    );
    assert!(gone.stderr.contains("Failed to uninstall \"nosuch\": Extension not found."), "{}", gone.stderr);
    assert_eq!(extensions(&scene, &["list"]).stdout, "No extensions installed.\n");
    assert_eq!(extensions(&scene, &["list", "-o", "json"]).stdout, "[]\n");
}

#[test]
fn what_an_extension_brings_is_in_effect_while_it_is_on() {
    let mut server = server_entry("plain");
    server["trust"] = json!(true);
    let manifest = json!({"name": "kit", "version": "1.0.0", "contextFileName": "docs${/}KIT.md", "excludeTools": ["glob"],
        "settings": [{"name": "Word", "envVar": "KIT_WORD"}], "mcpServers": {"srv": server}});
    let home = TestHome::new()
        .settings(json!({"mcpServers": {"srv": {"excludeTools": ["fail"], "trust": true}},
            "mcp": {"firstRequestWaitMs": 60_000}}))
        .home_file(".gemini/extensions/kit/gemini-extension.json", &manifest.to_string())
        .home_file(".gemini/extensions/kit/docs/KIT.md", "the kit speaks")
        .home_file(".gemini/extensions/kit/.env", "KIT_WORD=open sesame\n")
        .home_file(
            ".gemini/extensions/kit/hooks/hooks.json",
            r#"{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo \"$KIT_WORD\" > ${workspacePath}/said"}]}]}}"#,
        )
        .home_file(
            ".gemini/extensions/kit/policies/p.toml",
            "[[rule]]\ntoolName = \"grep_search\"\ndecision = \"deny\"\npriority = 100\n[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = 900\n",
        );
    let replies =
        [reply().call("mcp_srv_echo", json!({"text": "hi"})), reply().text("done"), reply().text("bare")];
    let scene = Scene::with(home, replies);
    let run = scene.run(&["-p", "say hi"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "done\n"), "{}", run.stderr);
    let first = scene.server.request(0).contents()[0].to_string();
    assert!(first.contains("<extension_context>") && first.contains("the kit speaks"), "{first}");
    let names = scene.server.request(1).tool_names();
    assert!(
        names.contains(&"mcp_srv_echo".to_owned()) && !names.contains(&"mcp_srv_fail".to_owned()),
        "{names:?}"
    );
    assert!(!names.contains(&"glob".to_owned()) && !names.contains(&"grep_search".to_owned()), "{names:?}");
    assert_eq!(fs::read_to_string(scene.home.project().join("said")).unwrap(), "open sesame\n");
    // An extension cannot allow anything.
    let shell = scene
        .prepare(&[
            "policy",
            "explain",
            "--headless",
            "--json",
            "--tool",
            "run_shell_command",
            "--args",
            r#"{"command": "rm x"}"#,
        ])
        .run();
    assert_ne!(parse(&shell.stdout)["decision"], "allow", "{}", shell.stdout);
    let listed = scene.prepare(&["mcp", "list"]).run().stdout;
    assert!(listed.contains("srv (from kit): "), "{listed}");
    let bare = scene.run(&["-p", "again", "-e", "none"]);
    assert_eq!(bare.stdout, "bare\n", "{}", bare.stderr);
    let last = scene.server.request(2);
    assert!(
        !last.contents()[0].to_string().contains("the kit speaks")
            && last.tool_names().contains(&"glob".to_owned())
    );
    assert_eq!(scene.prepare(&["--list-extensions"]).run().stdout, "Installed extensions:\n- kit\n");
}

#[test]
fn a_broken_extension_is_said_and_the_run_goes_on() {
    let home = TestHome::new()
        .home_file(
            ".gemini/extensions/bad/gemini-extension.json",
            "{\"name\": \"a\\u001b[31m/..\", \"version\": \"1\"}",
        )
        .home_file(
            ".gemini/extensions/odd/gemini-extension.json",
            r#"{"name": "odd", "version": "1", "contextFileName": "../../keys"}"#,
        )
        .home_file(
            ".gemini/extensions/odd/hooks/hooks.json",
            &format!("{}{}", "[".repeat(20_000), "]".repeat(20_000)),
        )
        .home_file(".gemini/keys", "a key");
    let scene = Scene::with(home, [reply().text("fine")]);
    let run = scene.run(&["-p", "x", "-e", "odd,nosuch"]);
    assert_eq!(run.stdout, "fine\n", "{}", run.stderr);
    for said in [
        "Skipping extension in ",
        "Invalid extension name: ",
        "Extension not found: nosuch",
        "Invalid contextFileName: \"../../keys\" in extension \"odd\"",
        "hooks.json",
    ] {
        assert!(run.stderr.contains(said), "{said}\n{}", run.stderr);
    }
    assert!(
        !run.stderr.contains('\u{1b}')
            && !scene.server.request(0).contents()[0].to_string().contains("a key")
    );
}

#[test]
fn a_damaged_record_hides_no_changed_file_of_an_extension() {
    let scene =
        Scene::with(TestHome::new(), [reply().text("one"), reply().text("two"), reply().text("three")]);
    let folder = source(&scene, &json!({"name": "tool", "version": "1.0.0"}));
    put(&folder, "GEMINI.md", "Be kind.");
    let installed = extensions(&scene, &["install", folder.to_str().unwrap(), "--consent"]);
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    let run = scene.run(&["-p", "x"]);
    assert!(!run.stderr.contains("Warning"), "{}", run.stderr);
    put(&scene.home.gemini_dir(), "extensions/tool/GEMINI.md", "Be cruel.");
    let changed = scene.run(&["-p", "x"]).stderr;
    assert!(
        changed.contains("\"tool\" has changed since it was installed (changed: GEMINI.md)"),
        "{changed}"
    );
    put(&scene.home.gemini_dir(), "extension_content.json", "{\"store\": ");
    let hidden = scene.run(&["-p", "x"]).stderr;
    assert!(
        hidden.contains("Warning: Changed files of extensions cannot be detected: `")
            && hidden.contains("extension_content.json` is damaged. Review your extensions, then delete"),
        "{hidden}"
    );
}

#[test]
fn a_projects_extensions_count_only_where_it_is_trusted() {
    let home = || {
        TestHome::new()
            .file(".gemini/extensions/ours/gemini-extension.json", r#"{"name": "ours", "version": "1.0.0"}"#)
            .file(".gemini/extensions/ours/GEMINI.md", "ours speaks")
    };
    let trusted = Scene::with(home(), [reply().text("yes")]);
    trusted.run(&["-p", "x"]);
    assert!(trusted.server.request(0).contents()[0].to_string().contains("ours speaks"));
    let refused = extensions(&trusted, &["uninstall", "ours"]);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("belongs to this project"),
        "{}",
        refused.stderr
    );
    let untrusted = Scene::untrusted(home(), [reply().text("no")]);
    untrusted.run(&["-p", "x"]);
    assert!(!untrusted.server.request(0).contents()[0].to_string().contains("ours speaks"));
}

#[test]
fn settings_say_where_extensions_may_come_from() {
    let scene = Scene::with(
        TestHome::new().settings(json!({"security": {"allowedExtensions": ["^https://github\\.com/good/"]}})),
        [],
    );
    let folder = source(&scene, &json!({"name": "tool", "version": "1.0.0"}));
    let run = extensions(&scene, &["install", folder.to_str().unwrap(), "--consent"]);
    assert!(
        run.code == Some(1)
            && run.stderr.contains("is not allowed by the \"allowedExtensions\" security setting."),
        "{}",
        run.stderr
    );
    let blocked =
        Scene::with(TestHome::new().settings(json!({"security": {"blockGitExtensions": true}})), []);
    let run = extensions(&blocked, &["install", "https://example.com/x.git", "--consent"]);
    assert!(
        run.stderr
            .contains("Installing extensions from remote sources is disallowed by your current settings."),
        "{}",
        run.stderr
    );
    let untrusted = Scene::untrusted(TestHome::new(), []);
    let folder = source(&untrusted, &json!({"name": "tool", "version": "1.0.0"}));
    let run = extensions(&untrusted, &["install", folder.to_str().unwrap()]);
    assert!(run.code == Some(1) && run.stderr.contains("is not trusted"), "{}", run.stderr);
}

#[test]
fn the_folder_of_an_extension_is_trusted_by_its_real_path() {
    let scene = Scene::untrusted(TestHome::new(), []);
    let folder = source(&scene, &json!({"name": "tool", "version": "1.0.0"})).canonicalize().unwrap();
    let other = folder.with_file_name("another");
    put(&other, "gemini-extension.json", r#"{"name": "other", "version": "1.0.0"}"#);
    let link = folder.with_file_name("link");
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    let from = link.to_str().unwrap();
    let refused = typed(&scene, &["install", from], "n\n");
    assert!(
        refused
            .stderr
            .contains("Do you want to trust this folder and continue with the installation? [y/N]: "),
        "{}",
        refused.stderr
    );
    assert!(refused.code == Some(1) && refused.stderr.contains("Installation aborted"), "{}", refused.stderr);
    // The folder, the workspace, and what the extension brings.
    let done = typed(&scene, &["install", from], "y\ny\ny\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let trusted = fs::read_to_string(scene.home.gemini_dir().join("trustedFolders.json")).unwrap();
    assert!(trusted.contains(&format!("\"{}\"", folder.display())), "{trusted}");
    assert!(!trusted.contains("/link"), "{trusted}");
    assert_eq!(extensions(&scene, &["uninstall", "tool"]).code, Some(0));
    let again = typed(&scene, &["install", from], "y\ny\n");
    assert_eq!(again.code, Some(0), "it is known: {}", again.stderr);
    assert!(!again.stderr.contains("trust this folder"), "{}", again.stderr);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let turned = typed(&scene, &["install", from], "n\n");
    assert!(turned.stderr.contains("Do you want to trust this folder"), "{}", turned.stderr);
}

#[test]
fn every_template_is_valid_and_mistakes_are_told() {
    let scene = Scene::with(TestHome::new(), []);
    let templates =
        ["custom-commands", "exclude-tools", "hooks", "mcp-server", "policies", "skills", "themes-example"];
    for template in templates {
        let made = extensions(&scene, &["new", template, template]);
        let wanted =
            format!("Successfully created new extension from template \"{template}\" at {template}.\n");
        assert!(made.stdout.starts_with(&wanted), "{} {}", made.stdout, made.stderr);
        let valid = extensions(&scene, &["validate", template]);
        assert_eq!(
            valid.stdout,
            format!("Extension {template} has been successfully validated.\n"),
            "{}",
            valid.stderr
        );
        assert_eq!(valid.stderr, "", "{template}");
    }
    assert_eq!(extensions(&scene, &["new", "bare"]).code, Some(0));
    assert!(extensions(&scene, &["new", "bare"]).stderr.contains("Path already exists: bare"));
    assert!(
        extensions(&scene, &["new", "x", "nosuch"]).stderr.contains("available templates: custom-commands")
    );
    assert_eq!(extensions(&scene, &["new", "a b"]).code, Some(1));
    put(
        &scene.home.project(),
        "wrong/gemini-extension.json",
        r#"{"name": "wrong", "version": "one", "contextFileName": ["../x", "missing.md"]}"#,
    );
    let run = extensions(&scene, &["validate", "wrong"]);
    assert_eq!(run.code, Some(1));
    for said in [
        "Validation warnings:\n  - Warning: Version 'one' does not appear",
        "Validation failed with the following errors:\n  - Invalid context file path: \"../x\".",
        "are missing: missing.md",
    ] {
        assert!(run.stderr.contains(said), "{said}\n{}", run.stderr);
    }
    let linked = extensions(&scene, &["link", "mcp-server", "--consent"]);
    assert_eq!(
        linked.stdout, "Extension \"mcp-server\" linked successfully and enabled.\n",
        "{}",
        linked.stderr
    );
    assert!(extensions(&scene, &["list"]).stdout.contains("(Type: link)"));
    assert_eq!(
        extensions(&scene, &["update", "mcp-server"]).stdout,
        "Extension \"mcp-server\" is already up to date.\n"
    );
    extensions(&scene, &["uninstall", "mcp-server"]);
    assert!(scene.home.project().join("mcp-server/server.py").exists());
}

#[test]
fn a_release_is_asked_for_at_the_address_that_is_given() {
    let github = FakeHttp::start(|_| HttpAnswer::status(500));
    let scene = Scene::with(TestHome::new(), []);
    let run = scene
        .prepare(&["extensions", "install", "o/r", "--consent"])
        .env("POLLUX_GITHUB_API", &github.url())
        .stdin("n\n")
        .run();
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("status 500") && run.stderr.contains("git clone"), "{}", run.stderr);
    assert_eq!(github.requests()[0].path, "/repos/o/r/releases/latest");
}

#[test]
fn other_names_of_context_files_are_read() {
    let home = TestHome::new()
        .settings(json!({"context": {"fileName": ["AGENTS.md", "CLAUDE.md"]}}))
        .file("AGENTS.md", "for agents")
        .file("CLAUDE.md", "for claude")
        .file("GEMINI.md", "for gemini");
    let scene = Scene::with(home, [reply().text("ok")]);
    scene.run(&["-p", "x"]);
    let first = scene.server.request(0).contents()[0].to_string();
    for text in ["for agents", "for claude", "for gemini"] {
        assert_eq!(first.matches(text).count(), 1, "{text} {first}");
    }
}
