//! Custom commands: `/name words` in headless runs and in conversations.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use pollux_test_support::{Run, Terminal, TestHome, reply};
use serde_json::json;

use crate::scene::{MODEL, Scene};

/// A project with one command.
fn command(prompt: &str) -> TestHome {
    project(TestHome::new(), "c", prompt)
}

fn project(home: TestHome, name: &str, prompt: &str) -> TestHome {
    home.file(&format!(".gemini/commands/{name}.toml"), &definition(prompt))
}

fn user(home: TestHome, name: &str, prompt: &str) -> TestHome {
    home.home_file(&format!(".gemini/commands/{name}.toml"), &definition(prompt))
}

fn definition(prompt: &str) -> String {
    format!("prompt = {}\n", json!(prompt))
}

/// What the model gets for a prompt: one text for each part.
fn sent(home: TestHome, args: &[&str]) -> (Vec<String>, Run) {
    let scene = Scene::with(home, [reply().text("ok")]);
    let run = scene.run(args);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    (scene.server.request(0).last_texts().split_off(1), run)
}

/// A run that ends before the model is asked anything.
fn refused(home: TestHome, args: &[&str]) -> (Scene, Run) {
    let scene = Scene::with(home, []);
    let run = scene.run(args);
    assert_eq!(run.code, Some(42), "{} {}", run.stdout, run.stderr);
    assert_eq!(scene.server.requests().len(), 0);
    (scene, run)
}

fn at_terminal(scene: &Scene) -> Terminal {
    scene.prepare(&["-m", MODEL]).on_terminal()
}

#[test]
fn a_command_becomes_its_prompt_and_only_what_was_typed_is_shown() {
    let home = project(TestHome::new(), "git/fix it", "Fix {{args}} now");
    let (texts, run) = sent(home, &["-p", "/git:fix_it issue 7; \"quoted\"", "-o", "stream-json"]);
    assert_eq!(texts, ["Fix issue 7; \"quoted\" now"]);
    assert_eq!(crate::scene::lines(&run.stdout)[1]["content"], "/git:fix_it issue 7; \"quoted\"");
    assert_eq!(sent(command("noargs prompt"), &["-p", "/c one two"]).0, ["noargs prompt\n\n/c one two"]);
    assert_eq!(sent(command("noargs prompt"), &["-p", "/c"]).0, ["noargs prompt"]);
}

#[test]
fn what_is_no_command_is_sent_as_text() {
    for typed in ["/nosuch thing", "/etc/hosts is odd", "//c", "/* c */"] {
        assert_eq!(sent(command("p"), &["-p", typed]).0, [typed]);
    }
}

#[test]
fn piped_text_goes_before_the_commands_prompt() {
    let scene = Scene::with(command("Review this"), [reply().text("ok")]);
    let run = scene.prompt(&["-p", "/c"]).stdin("the diff").run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(scene.server.request(0).last_texts()[1..], ["the diff\n\n", "Review this"]);
}

#[test]
fn piped_text_is_a_command_only_if_no_prompt_was_typed() {
    let home = command("Run: !{touch made} {{args}}");
    let scene = Scene::with(home, [reply().text("ok"), reply().text("ok"), reply().text("ok")]);
    for (index, piped) in
        ["/init me\nZZZ", "/c one", "/nosuch @gone.txt x@example.com"].into_iter().enumerate()
    {
        let run = scene.prompt(&["-p", "explain QQQ", "--yolo", "--sandbox=false"]).stdin(piped).run();
        assert_eq!((run.code, run.stderr.contains("Warning")), (Some(0), false), "{}", run.stderr);
        assert_eq!(scene.server.request(index).last_texts()[1..], [format!("{piped}\n\nexplain QQQ")]);
    }
    assert!(!scene.home.project().join("GEMINI.md").exists());
    assert!(!scene.home.project().join("made").exists());
    scene.server.push([reply().text("ok")]);
    let run = scene.prompt(&["--yolo", "--sandbox=false"]).stdin("/c one").run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(scene.server.request(3).last_texts()[1..], ["Run:  one"]);
    assert!(scene.home.project().join("made").exists());
}

#[test]
fn files_are_spliced_in_and_never_looked_at_for_more() {
    let home = command("Rules:\n@{docs/rules.md}End @{docs}!")
        .file("docs/rules.md", "be kind\n!{touch made} @{secret} {{args}}\n")
        .file("docs/b.txt", "bee");
    let (texts, run) = sent(home, &["-p", "/c x", "--approval-mode", "yolo"]);
    let whole = texts.concat();
    assert!(whole.starts_with("Rules:\nbe kind\n!{touch made} @{secret} {{args}}\nEnd "), "{whole}");
    assert!(whole.contains("--- Start of content for directory: docs ---\n--- b.txt ---\nbee\n"), "{whole}");
    assert!(whole.contains("--- rules.md ---\nbe kind"), "{whole}");
    assert!(!run.stderr.contains("made"), "{}", run.stderr);
}

#[test]
fn a_file_outside_of_the_workspace_stays_outside() {
    let home = command("a @{../../outside.txt} @{/etc/passwd} @{link.txt} @{missing.md} z");
    let scene = Scene::with(home, [reply().text("ok")]);
    let outside = scene.home.project().parent().unwrap().join("outside.txt");
    fs::write(&outside, "TOP-SECRET").unwrap();
    symlink(&outside, scene.home.project().join("link.txt")).unwrap();
    let run = scene.run(&["-p", "/c"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let request = scene.server.request(0);
    assert_eq!(
        request.last_texts()[1..],
        ["a @{../../outside.txt} @{/etc/passwd} @{link.txt} @{missing.md} z"]
    );
    assert!(!request.body.to_string().contains("TOP-SECRET") && !request.body.to_string().contains("root:"));
    for line in [
        "Failed to inject content for '@{../../outside.txt}': Path not found in workspace: ../../outside.txt",
        "Failed to inject content for '@{/etc/passwd}': Absolute path is outside of the allowed workspace: /etc/passwd",
        "Failed to inject content for '@{missing.md}': Path not found in workspace: missing.md",
    ] {
        assert!(run.stderr.contains(line), "{}", run.stderr);
    }
}

#[test]
fn an_ignored_file_is_left_out_with_a_word() {
    let home =
        command("a @{hidden.txt} z").file(".geminiignore", "hidden.txt\n").file("hidden.txt", "HIDDEN");
    let (texts, run) = sent(home, &["-p", "/c"]);
    assert_eq!(texts, ["a  z"]);
    let line =
        "File '@{hidden.txt}' was ignored by .gitignore or .geminiignore and was not included in the prompt.";
    assert!(run.stderr.contains(line), "{}", run.stderr);
}

#[test]
fn commands_run_where_the_policy_allows_them_and_what_they_print_stays_text() {
    let home = command("A !{echo '!{touch made} @{secret.txt}'} B !{echo oops; exit 3} C !{} D")
        .file("secret.txt", "SECRET");
    let scene = Scene::with(home, [reply().text("ok")]);
    let run = scene.run(&["-p", "/c", "--approval-mode", "yolo"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let printed =
        "A !{touch made} @{secret.txt} B oops\n[Shell command 'echo oops; exit 3' exited with code 3] C  D";
    assert_eq!(scene.server.request(0).last_texts()[1..], [printed]);
    assert!(!scene.home.project().join("made").exists());
}

#[test]
fn without_permission_nothing_runs_and_only_the_message_is_told() {
    for (extra, blocked) in
        [(&[][..], "touch made"), (&["--allowed-tools", "run_shell_command(git)"][..], "touch made")]
    {
        let args: Vec<&str> = ["-p", "/c x"].into_iter().chain(extra.iter().copied()).collect();
        let scene = Scene::with(command("!{git --version} !{touch made}"), []);
        let run = scene.run(&args);
        // Upstream's exit code.
        assert_eq!((run.code, scene.server.requests().len()), (Some(1), 0), "{}", run.stderr);
        let message = "cannot be run. Blocked command:";
        assert!(run.stderr.contains(&format!("c {message} \"")), "{}", run.stderr);
        assert!(run.stderr.trim_end().ends_with("Reason: Blocked by policy."), "{}", run.stderr);
        assert!(extra.is_empty() || run.stderr.contains(blocked), "{}", run.stderr);
        assert!(!scene.home.project().join("made").exists());
    }
}

#[test]
fn a_command_that_a_flag_allows_runs_headless() {
    let (texts, _) = sent(
        command("Version: !{git --version}"),
        &["-p", "/c", "--allowed-tools", "run_shell_command(git)"],
    );
    assert!(texts[0].starts_with("Version: git version "), "{texts:?}");
}

#[test]
fn hostile_arguments_stay_arguments() {
    for typed in [
        "; touch made",
        "$(touch made)",
        "`touch made`",
        "' ; touch made; '",
        "\" ; touch made; \"",
        "a\ntouch made",
    ] {
        for prompt in ["!{printf %s {{args}}}", "!{printf %s \"{{args}}\"}", "!{printf %s '{{args}}'}"] {
            let scene = Scene::with(command(prompt), [reply().text("ok")]);
            let run = scene.run(&["-p", &format!("/c {typed}"), "--approval-mode", "yolo"]);
            assert_eq!(run.code, Some(0), "{}", run.stderr);
            assert_eq!(scene.server.request(0).last_texts()[1..], [typed], "{prompt}");
            assert!(!scene.home.project().join("made").exists(), "{prompt} {typed}");
        }
    }
    let (scene, run) = refused(command("!{echo `echo {{args}}`}"), &["-p", "/c a; touch made", "--yolo"]);
    assert!(run.stderr.contains("cannot be inserted safely"), "{}", run.stderr);
    assert!(!scene.home.project().join("made").exists());
}

#[test]
fn names_that_several_have_mean_the_projects_and_each_has_one_of_its_own() {
    let both = || user(project(TestHome::new(), "dup", "of the project"), "dup", "of the user");
    for (typed, expected) in
        [("/dup", "of the project"), ("/workspace.dup", "of the project"), ("/user.dup", "of the user")]
    {
        assert_eq!(sent(both(), &["-p", typed]).0, [expected]);
    }
    let taken = || project(TestHome::new(), "help", "my help");
    assert_eq!(sent(taken(), &["-p", "/help"]).0, ["/help"]);
    assert_eq!(sent(taken(), &["-p", "/workspace.help"]).0, ["my help"]);
}

#[test]
fn an_extension_brings_commands_that_go_after_everybody_elses() {
    let home = || {
        user(TestHome::new(), "deploy", "of the user")
            .home_file(
                ".gemini/extensions/gcp/gemini-extension.json",
                r#"{"name": "gcp", "version": "1.0.0"}"#,
            )
            .home_file(".gemini/extensions/gcp/commands/deploy.toml", "prompt = 'of the extension'")
            .home_file(".gemini/extensions/gcp/commands/gke/up.toml", "prompt = 'up'")
    };
    for (typed, expected) in [
        ("/deploy", "of the user"),
        ("/gcp:deploy", "of the extension"),
        ("/gcp.deploy", "of the extension"),
        ("/gke:up", "up"),
    ] {
        assert_eq!(sent(home(), &["-p", typed]).0, [expected], "{typed}");
    }
}

#[test]
fn files_that_cannot_be_used_say_why() {
    for (text, why) in [
        ("description = 'x'", "The 'prompt' field is required."),
        ("prompt = ", "is not valid TOML"),
        (
            "prompt = '!{echo'",
            "Invalid syntax in command 'c': Unclosed injection starting at index 0 ('!{').",
        ),
        ("prompt = ''", "the prompt of the command `/c` is empty"),
    ] {
        let (_, run) = refused(TestHome::new().file(".gemini/commands/c.toml", text), &["-p", "/c"]);
        assert!(run.stderr.contains(why), "{}", run.stderr);
    }
    let home = TestHome::new().file(".gemini/commands/c.toml", "");
    File::options()
        .write(true)
        .open(home.project().join(".gemini/commands/c.toml"))
        .and_then(|file| file.set_len(1 << 30))
        .unwrap();
    let (_, run) = refused(home, &["-p", "/c"]);
    assert!(run.stderr.contains("larger than 1024 KiB"), "{}", run.stderr);
}

#[test]
fn a_broken_file_is_no_burden_to_other_commands() {
    let home = project(command("fine"), "broken", "x").file(".gemini/commands/broken.toml", "not toml");
    let (texts, run) = sent(home, &["-p", "/c"]);
    assert_eq!(texts, ["fine"]);
    assert!(!run.stderr.contains("broken"), "{}", run.stderr);
}

#[test]
fn a_folder_without_trust_has_no_commands() {
    let home = user(command("of the project"), "mine", "of the user");
    let scene = Scene::untrusted(home, [reply().text("ok"), reply().text("ok")]);
    let mut terminal = at_terminal(&scene);
    terminal
        .expect("Do you trust")
        .expect("Answer")
        .say("3")
        .expect("User: ")
        .say("/c")
        .expect("Unknown command `/c`");
    terminal.expect("User: ").say("/mine").expect("Unknown command `/mine`").expect("User: ").say("/quit");
    terminal.end();
    assert_eq!(scene.server.requests().len(), 0);
}

#[test]
fn in_a_conversation_one_question_covers_everything_a_command_runs() {
    let home = command("A !{touch one} !{touch two} {{args}}");
    let scene = Scene::with(home, [reply().text("first"), reply().text("second")]);
    let made = |name: &str| scene.home.project().join(name).exists();
    let mut terminal = at_terminal(&scene);
    terminal.expect("User: ").say("/c go").expect("wants to run").expect("touch one").expect("touch two");
    terminal.expect("Answer").say("3").expect("User: ");
    assert!(!made("one") && scene.server.requests().is_empty());
    terminal.say("/c go").expect("Answer").say("2").expect("first").expect("User: ");
    assert!(made("one") && made("two"));
    // For the rest of the session: no question.
    terminal.say("/c again").expect("second").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(screen.matches("wants to run").count(), 2, "{screen}");
    assert_eq!(scene.server.request(1).last_texts(), ["A   again"]);
}

#[test]
fn a_conversation_lists_commands_and_reads_them_anew() {
    let home = TestHome::new()
        .file(".gemini/commands/git/fix.toml", "prompt = 'Fix'\ndescription = \"Fixes\\u001b[31m it\"\n")
        .file(".gemini/commands/bad.toml", "prompt = 3");
    let scene = Scene::with(home, [reply().text("now it is there")]);
    let mut terminal = at_terminal(&scene);
    terminal.expect("User: ").say("/commands list").expect("Project commands").expect("/git:fix  Fixes it");
    terminal
        .expect("The 'prompt' field must be a string.")
        .expect("User: ")
        .say("/fresh")
        .expect("Unknown command");
    fs::write(scene.home.project().join(".gemini/commands/fresh.toml"), "prompt = 'Fresh'").unwrap();
    terminal.expect("User: ").say("/commands reload").expect("Custom commands reloaded successfully.");
    terminal.expect("User: ").say("/help").expect("/commands list|reload").expect("/fresh");
    terminal.expect("User: ").say("/fresh").expect("now it is there").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(scene.server.request(0).last_texts().last().unwrap(), "Fresh");
}
