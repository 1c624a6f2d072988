//! Slash commands in plain lines, and what of them works without a person.

use std::fs;

use pollux_test_support::{Terminal, TestHome, reply};
use serde_json::json;

use crate::scene::{MODEL, Scene};

fn at_terminal(scene: &Scene, args: &[&str]) -> Terminal {
    let args: Vec<&str> = ["-m", MODEL].into_iter().chain(args.iter().copied()).collect();
    scene.prepare(&args).env("TERM", "dumb").on_terminal()
}

#[test]
fn the_model_learns_of_a_persons_own_commands() {
    let scene = Scene::new([reply().text("I see.")]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal
        .expect("User: ")
        .say("!echo on''e; exit 3")
        .expect("\none\n")
        .expect("[exit code 3]")
        .expect("User: ");
    terminal.say("what was that?").expect("I see.").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let texts = scene.server.request(0).last_texts();
    let expected = "I ran the following shell command:\n```sh\necho on''e; exit 3\n```\n\n\
                    This produced the following result:\n```\none\n[exit code 3]\n```";
    assert!(texts.ends_with(&[expected.to_owned(), "what was that?".to_owned()]), "{texts:?}");
    assert!(scene.session().to_string().contains("I ran the following shell command"));
}

#[test]
fn init_makes_a_file_once_and_asks_the_model_to_fill_it() {
    let scene = Scene::new([reply().text("filled")]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal
        .expect("User: ")
        .say("/init")
        .expect("Created an empty GEMINI.md")
        .expect("filled")
        .expect("User: ");
    terminal.say("/init").expect("GEMINI.md already exists in this folder").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(
        scene.server.request(0).last_texts().last().unwrap().contains("describe it in the file `GEMINI.md`")
    );
    assert_eq!(scene.server.requests().len(), 1);
}

#[test]
fn commands_that_make_a_prompt_work_without_a_person() {
    let scene = Scene::new([reply().text("filled"), reply().text("planned"), reply().text("plain")]);
    assert_eq!(scene.run(&["-p", "/init"]).stdout, "filled\n");
    assert!(scene.home.project().join("GEMINI.md").exists());
    let again = scene.run(&["-p", "/init"]);
    assert_eq!(again.code, Some(42), "{}", again.stderr);
    assert_eq!(scene.run(&["-p", "/plan a tree"]).stdout, "planned\n");
    let request = scene.server.request(1);
    assert_eq!(request.last_texts().last().unwrap(), "a tree");
    let tools = request.body["tools"].to_string();
    assert!(tools.contains("exit_plan_mode"), "{tools}");
    let dialog = scene.run(&["-p", "/theme"]);
    assert_eq!(dialog.code, Some(42), "{}", dialog.stderr);
    // What only tells is a prompt like any other.
    assert_eq!(scene.run(&["-p", "/stats"]).stdout, "plain\n");
}

#[test]
fn a_plan_begins_in_plan_mode() {
    let scene = Scene::new([reply().text("planned")]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("User: ").say("/plan").expect("No plan yet.").expect("Mode plan").expect("User: ");
    terminal.say("/plan copy").expect("No plan yet.").expect("User: ");
    terminal.say("/plan a tree").expect("planned").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(scene.server.request(0).last_texts().last().unwrap(), "a tree");
}

#[test]
fn folders_join_the_workspace_of_the_conversation() {
    let home = TestHome::new().home_file("beside/note.txt", "from beside");
    let beside = home.home().join("beside");
    let read = reply().call("read_file", json!({"file_path": beside.join("note.txt")}));
    let scene = Scene::with(home, [reply().text("one"), read, reply().text("two")]);
    let mut terminal = at_terminal(&scene, &["-i", "hi"]);
    terminal
        .expect("one")
        .expect("User: ")
        .say("/directory add nowhere")
        .expect("No such directory: `nowhere`");
    terminal.expect("User: ").say(&format!("/directory add {}", beside.display()));
    terminal
        .expect("Added to the workspace: ")
        .expect("User: ")
        .say("/directory show")
        .expect("beside")
        .expect("User: ");
    terminal.say("read it").expect("two").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let last = scene.server.request(2).body.to_string();
    assert!(last.contains("from beside") && last.contains("\"hi\""), "{last}");
    // It is the same session all the time.
    scene.session();
}

#[test]
fn what_is_to_be_remembered_is_in_the_next_request() {
    let scene = Scene::new([reply().text("one")]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("User: ").say("/memory add").expect("Usage: /memory add <text>").expect("User: ");
    terminal.say("/memory add I like tea").expect("Saved to ").expect("User: ").say("/memory show");
    terminal.expect("- I like tea").expect("User: ").say("/memory list").expect("GEMINI.md").expect("User: ");
    terminal.say("hi").expect("one").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(scene.server.request(0).body.to_string().contains("I like tea"));
}

#[test]
fn a_session_is_exported_or_deleted_on_request() {
    let scene = Scene::new([reply().text("one")]);
    let mut terminal = at_terminal(&scene, &["-i", "hi"]);
    terminal
        .expect("one")
        .expect("User: ")
        .say("/export-session out.json")
        .expect("Exported session ")
        .expect("User: ");
    terminal.say("/export-session out.json").expect("already exists").expect("User: ").say("/quit --delete");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("To continue this conversation"), "{screen}");
    assert!(fs::read_to_string(scene.home.project().join("out.json")).unwrap().contains("one"));
    assert!(scene.session_files().is_empty());
}

#[test]
fn keys_are_kept_and_forgotten() {
    let scene = Scene::new([]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal
        .expect("User: ")
        .say("/auth signin")
        .expect("? Get started")
        .expect("5. Vertex AI")
        .expect("Answer");
    terminal.say("5").expect("GOOGLE_GENAI_USE_VERTEXAI");
    terminal.expect("Answer").say("1").expect("API key (not shown)").say("short").expect("invalid API key");
    terminal.expect("API key (not shown)").say("a-key-of-twenty-characters");
    terminal.expect("The key could not be checked").expect("Store it anyway").expect("Answer").say("3");
    terminal
        .expect("API key stored in ")
        .expect("User: ")
        .say("/auth")
        .expect("stored")
        .expect("Answer")
        .say("");
    terminal
        .expect("User: ")
        .say("/auth signout")
        .expect("The stored key was removed.")
        .expect("User: ")
        .say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("a-key-of-twenty-characters"), "{screen}");
}

#[test]
fn commands_tell_the_facts_or_say_that_they_are_not_here() {
    let home = TestHome::new().settings(
        json!({"advanced": {"bugCommand": {"urlTemplate": "https://x.test/new?t={title}&i={info}"}}}),
    );
    let scene = Scene::with(home, []);
    let mut terminal = at_terminal(&scene, &[]);
    terminal
        .expect("User: ")
        .say("/about")
        .expect("CLI Version: ")
        .expect("Sandbox: ")
        .expect("Auth Method: ");
    terminal
        .expect("User: ")
        .say("/bug it & that")
        .expect("https://x.test/new?t=it%20%26%20that&i=CLI%20Version");
    terminal
        .expect("User: ")
        .say("/shortcuts")
        .expect("Ctrl+")
        .expect("User: ")
        .say("/privacy")
        .expect("leaves this machine");
    terminal
        .expect("User: ")
        .say("/docs")
        .expect("documentation is built in")
        .expect("User: ")
        .say("/upgrade")
        .expect("plan")
        .expect("User: ");
    terminal
        .say("/ide status")
        .expect("Not connected: /ide enable connects")
        .expect("User: ")
        .say("/terminal-setup");
    terminal
        .expect("shift+enter")
        .expect("User: ")
        .say("/setup-github")
        .expect("requires a Git repository")
        .expect("User: ");
    terminal
        .say("/copy")
        .expect("No answer to copy yet")
        .expect("User: ")
        .say("/tasks")
        .expect("No background processes");
    terminal
        .expect("User: ")
        .say("/tools desc")
        .expect("- ReadFile (read_file)")
        .expect("User: ")
        .say("/mcp schema");
    terminal
        .expect("No MCP servers configured.")
        .expect("User: ")
        .say("/hooks disable-all")
        .expect("No hooks configured.");
    terminal
        .expect("User: ")
        .say("/oncall")
        .expect("`/oncall` is not available in this version.")
        .expect("User: ")
        .say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
}

#[test]
fn vim_is_switched_and_kept() {
    let scene = Scene::new([]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal
        .expect("User: ")
        .say("/vim")
        .expect("Vim mode is on")
        .expect("User: ")
        .say("/vim")
        .expect("Vim mode is off");
    terminal.expect("User: ").say("/vim").expect("Vim mode is on").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let settings = fs::read_to_string(scene.home.gemini_dir().join("settings.json")).unwrap();
    assert!(settings.contains("\"vimMode\": true"), "{settings}");
}

#[test]
fn a_process_in_the_background_is_shown_and_ended() {
    let call = json!({"command": "echo begun; exec sleep 600", "is_background": true});
    let scene = Scene::new([reply().call("run_shell_command", call), reply().text("it runs")]);
    let mut terminal = at_terminal(&scene, &["-i", "go", "--approval-mode", "yolo", "--sandbox=false"]);
    terminal
        .expect("it runs")
        .expect("User: ")
        .say("/bashes")
        .expect("runs")
        .expect("sleep 600")
        .expect("Answer");
    terminal.say("k 1").expect("Really kill it?").say("yes");
    terminal.expect("killed.").expect("ended").expect("Answer").say("").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
}
