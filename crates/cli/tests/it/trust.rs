//! A folder that nobody trusts brings nothing with it.

use pollux_test_support::{TestHome, reply};
use serde_json::json;

use crate::scene::Scene;

/// A project that tries to bring settings, variables and instructions.
fn project() -> TestHome {
    TestHome::new()
        .project_settings(
            json!({"model": {"name": "project-model"}, "tools": {"allowed": ["run_shell_command"]}}),
        )
        .file("GEMINI.md", "PROJECT RULE")
        .file(".env", "GEMINI_MODEL=env-model\nGEMINI_CLI_CUSTOM_HEADERS=X-Evil: 1\n")
        .file(".gemini/.env", "GEMINI_MODEL=gemini-env-model\n")
}

fn trust_lines(stderr: &str) -> usize {
    stderr.lines().filter(|line| line.contains("not trusted: ")).count()
}

#[test]
fn an_untrusted_folder_brings_nothing_and_one_line_says_so() {
    let scene = Scene::untrusted(project(), [reply().text("ok")]);
    let run = scene.prepare(&["-p", "x"]).run();
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
    assert_eq!(trust_lines(&run.stderr), 1, "{}", run.stderr);
    let request = scene.server.request(0);
    assert!(
        !request.path.contains("project-model") && !request.path.contains("env-model"),
        "{}",
        request.path
    );
    assert!(!request.body.to_string().contains("PROJECT RULE"));
    assert_eq!(request.header("x-evil"), None);
    assert!(!request.tool_names().contains(&"run_shell_command".to_owned()));
}

#[test]
fn the_wished_mode_falls_back_to_default() {
    let scene = Scene::untrusted(TestHome::new(), [reply().text("ok")]);
    let run = scene.run(&["-p", "x", "--yolo"]);
    assert!(
        run.stderr
            .contains("Approval mode overridden to \"default\" because the current folder is not trusted."),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("YOLO mode is enabled"));
    assert!(!scene.server.request(0).tool_names().contains(&"write_file".to_owned()));
}

#[test]
fn trust_can_be_given_by_flag_variable_setting_or_file() {
    let trusted = |home: TestHome, args: &[&str], env: &[(&str, &str)]| {
        let scene = Scene::untrusted(home, [reply().text("ok")]);
        let args: Vec<&str> = ["-p", "x"].into_iter().chain(args.iter().copied()).collect();
        let run = env.iter().fold(scene.prepare(&args), |run, (name, value)| run.env(name, value)).run();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let request = scene.server.request(0);
        let used = request.body.to_string().contains("PROJECT RULE");
        assert_eq!(used, trust_lines(&run.stderr) == 0, "{}", run.stderr);
        used
    };
    assert!(!trusted(project(), &[], &[]));
    assert!(trusted(project(), &["--skip-trust"], &[]));
    assert!(trusted(project(), &[], &[("GEMINI_CLI_TRUST_WORKSPACE", "true")]));
    assert!(!trusted(project(), &[], &[("GEMINI_CLI_TRUST_WORKSPACE", "false")]));
    let off = json!({"security": {"folderTrust": {"enabled": false}}});
    assert!(trusted(project().settings(off.clone()), &[], &[]));
    let home = project();
    let root = std::fs::canonicalize(home.project()).unwrap();
    let listed = json!({root.to_str().unwrap(): "TRUST_FOLDER"}).to_string();
    assert!(trusted(home.home_file(".gemini/trustedFolders.json", &listed), &[], &[]));
}

#[test]
fn a_project_cannot_trust_itself() {
    let home = TestHome::new()
        .project_settings(json!({"security": {"folderTrust": {"enabled": false}}}))
        .file(".env", "GEMINI_CLI_TRUST_WORKSPACE=true\n")
        .file("GEMINI.md", "PROJECT RULE");
    let scene = Scene::untrusted(home, [reply().text("ok")]);
    let run = scene.prepare(&["-p", "x"]).run();
    assert_eq!(trust_lines(&run.stderr), 1, "{}", run.stderr);
    assert!(!scene.server.request(0).body.to_string().contains("PROJECT RULE"));
}

#[test]
fn refusing_untrusted_folders_is_exit_55() {
    let home = project().settings(json!({"security": {"folderTrust": {"headless": "refuse"}}}));
    let scene = Scene::untrusted(home, [reply().text("ok")]);
    let run = scene.prepare(&["-p", "x"]).run();
    assert_eq!((run.stdout.as_str(), run.code), ("", Some(55)), "{}", run.stderr);
    assert!(run.stderr.contains("--skip-trust"), "{}", run.stderr);
    assert!(scene.server.requests().is_empty());
    assert_eq!(scene.prepare(&["-p", "x", "--skip-trust"]).run().code, Some(0));
}

#[test]
fn a_trusted_project_sets_model_and_variables() {
    let scene = Scene::with(
        TestHome::new()
            .settings(json!({"model": {"name": "user-model"}}))
            .file(".env", "EXTRA_THING=1\n")
            .project_settings(json!({"model": {"name": "project-model"}})),
        [reply().text("ok")],
    );
    scene.prepare(&["-p", "x"]).run();
    assert!(scene.server.request(0).path.contains("/project-model:"));
}
