//! Going back: files as they were to the byte, the conversation, or both; saved conversations and checkpoints.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use pollux_test_support::{Reply, Terminal, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, Scene, until};

fn at_terminal(scene: &Scene, args: &[&str]) -> Terminal {
    let args: Vec<&str> = ["-m", MODEL].into_iter().chain(args.iter().copied()).collect();
    scene.prepare(&args).on_terminal()
}

fn shell(command: &str) -> Reply {
    reply().call("run_shell_command", json!({"command": command}))
}

fn write(name: &str, content: &str) -> Reply {
    reply().call("write_file", json!({"file_path": name, "content": content}))
}

/// Everything below a folder: content or link target, and mode.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                fs::read_link(&path).unwrap().to_string_lossy().into_owned().into_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            found.insert(path, (meta.permissions().mode(), content));
        }
    }
    found
}

/// The folders of this name in the home's state.
pub(crate) fn state_folders(scene: &Scene, name: &str) -> Vec<PathBuf> {
    let tmp = scene.home.gemini_dir().join("tmp");
    let projects = fs::read_dir(tmp).into_iter().flatten().flatten();
    projects.map(|entry| entry.path().join(name)).filter(|path| path.exists()).collect()
}

#[test]
fn what_a_command_destroyed_comes_back_to_the_byte() {
    let home = TestHome::new().file("a.txt", "one\r\ntwo").file(".git/HEAD", "ref: x").file("d/e/f", "");
    let scene = Scene::with(
        home,
        [shell("rm -rf a.txt .git d run link empty; echo x > new; echo y > kept"), reply().text("gone")],
    );
    let project = scene.home.project();
    fs::write(project.join("run"), [0, 159, 146, 150]).unwrap();
    fs::set_permissions(project.join("run"), fs::Permissions::from_mode(0o751)).unwrap();
    symlink("a.txt", project.join("link")).unwrap();
    fs::create_dir(project.join("empty")).unwrap();
    fs::write(project.join("kept"), "k").unwrap();
    let before = tree(&project);
    let mut terminal = at_terminal(&scene, &["-y", "-i", "clean up"]);
    terminal.expect("gone").expect("User: ");
    assert!(!project.join("a.txt").exists() && project.join("new").exists());
    terminal.say("/rewind").expect("1. clean up").expect("Answer (number").say("1");
    terminal.expect("recreate a.txt").expect("delete new").expect("1. Rewind conversation and revert");
    terminal.expect("Answer").say("1").expect("Restored ").expect("Rewound to before:").expect("clean up");
    terminal.expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(tree(&project), before);
    let store = state_folders(&scene, "rewind").pop().unwrap();
    assert_eq!(fs::metadata(store).unwrap().permissions().mode() & 0o077, 0, "others can read the copies");
}

#[test]
fn files_alone_go_back_and_the_conversation_stays() {
    let home = TestHome::new().file("a.txt", "old\n");
    let scene = Scene::with(home, [write("a.txt", "new\n"), reply().text("edited"), reply().text("second")]);
    let mut terminal = at_terminal(&scene, &["-y", "-i", "edit it"]);
    terminal.expect("edited").expect("User: ").say("/rewind").expect("Answer (number").say("1");
    terminal.expect("restore a.txt").expect("3. Revert code changes").expect("Answer").say("3");
    terminal.expect("Restored 1 file or folder.").expect("User: ");
    assert_eq!(scene.home.read("a.txt"), "old\n");
    terminal.say("go on").expect("second").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(scene.server.request(2).body["contents"].to_string().contains("edit it"));
}

#[test]
fn the_conversation_alone_goes_back_in_the_session_file_too() {
    let home = TestHome::new().file("a.txt", "old\n");
    let replies =
        [reply().text("first"), write("a.txt", "new\n"), reply().text("edited"), reply().text("third")];
    let scene = Scene::with(home, replies);
    let mut terminal = at_terminal(&scene, &["-y", "-i", "hello"]);
    terminal.expect("first").expect("User: ").say("edit it").expect("edited").expect("User: ").say("/rewind");
    terminal.expect("1. hello").expect("2. edit it").expect("Answer (number").say("2");
    terminal.expect("2. Rewind conversation").expect("Answer").say("2").expect("Rewound to before:\nedit it");
    terminal.expect("User: ").say("something else").expect("third").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(scene.home.read("a.txt"), "new\n");
    let sent = scene.server.request(3).body["contents"].to_string();
    assert!(sent.contains("hello") && !sent.contains("edit it"), "{sent}");
    let recorded = scene.session()["messages"].to_string();
    assert!(recorded.contains("something else") && !recorded.contains("edit it"), "{recorded}");
}

#[test]
fn what_somebody_else_changed_since_is_kept_unless_the_person_insists() {
    let home = TestHome::new().file("a.txt", "old\n").file("b.txt", "old\n");
    let scene = Scene::with(home, [write("a.txt", "new\n"), write("b.txt", "new\n"), reply().text("edited")]);
    let mut terminal = at_terminal(&scene, &["-y", "-i", "edit it"]);
    terminal.expect("edited").expect("User: ");
    fs::write(scene.home.project().join("a.txt"), "mine\n").unwrap();
    for (answer, mine) in [("no", "mine\n"), ("yes", "old\n")] {
        terminal
            .say("/rewind")
            .expect("Answer (number")
            .say("1")
            .expect("conflict: restore a.txt")
            .expect("Answer");
        terminal.say("3").expect("(yes or no): ").say(answer).expect("User: ");
        // The screen shows the next prompt when all is done.
        terminal.say("/mode").expect("Mode yolo").expect("User: ");
        assert_eq!((scene.home.read("a.txt").as_str(), scene.home.read("b.txt").as_str()), (mine, "old\n"));
    }
    terminal.say("/quit");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_session_that_is_resumed_can_still_go_back() {
    let home = TestHome::new().file("a.txt", "old\n");
    let scene = Scene::with(home, [shell("echo x > a.txt; mkdir m"), reply().text("done")]);
    assert_eq!(scene.run(&["-y", "-p", "break it"]).code, Some(0));
    assert_eq!(scene.home.read("a.txt"), "x\n");
    let mut terminal = at_terminal(&scene, &["--resume", "latest"]);
    terminal
        .expect("User: ")
        .say("/rewind")
        .expect("1. break it")
        .expect("Answer (number")
        .say("1")
        .expect("Answer");
    terminal.say("1").expect("Rewound to before:\nbreak it").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(scene.home.read("a.txt"), "old\n");
    assert!(!scene.home.project().join("m").exists());
}

#[test]
fn calls_that_only_read_leave_nothing_behind() {
    let home = TestHome::new().file("a.txt", "old\n");
    let read = reply().call("read_file", json!({"file_path": "a.txt"}));
    let scene = Scene::with(home, [read, shell("ls -l | wc -l"), reply().text("done")]);
    assert_eq!(scene.run(&["-y", "-p", "look"]).code, Some(0));
    assert!(state_folders(&scene, "rewind").is_empty());
}

#[test]
fn commands_are_not_kept_when_the_settings_say_so_but_edits_are() {
    let home = TestHome::new()
        .settings(json!({"general": {"rewind": {"shellCommands": false}}}))
        .project_settings(json!({"general": {"rewind": {"enabled": false}}}))
        .file("a.txt", "old\n");
    let scene = Scene::with(home, [shell("echo x > b.txt"), write("a.txt", "new\n"), reply().text("done")]);
    let mut terminal = at_terminal(&scene, &["-y", "-i", "go"]);
    terminal
        .expect("done")
        .expect("User: ")
        .say("/rewind")
        .expect("Answer (number")
        .say("1")
        .expect("restore a.txt");
    terminal.expect("Answer").say("3").expect("Restored 1 file or folder.").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!((scene.home.read("a.txt").as_str(), scene.home.read("b.txt").as_str()), ("old\n", "x\n"));
}

#[test]
fn a_conversation_is_saved_listed_resumed_and_deleted_in_gemini_clis_form() {
    let scene = Scene::new([shell("echo hi"), reply().text("said hi"), reply().text("again")]);
    let mut terminal = at_terminal(&scene, &["-y", "-i", "say hi"]);
    terminal
        .expect("said hi")
        .expect("User: ")
        .say("/chat save")
        .expect("Missing tag. Usage: /resume save <tag>");
    terminal
        .expect("User: ")
        .say("/chat save my tag")
        .expect("Conversation checkpoint saved with tag: my tag.");
    terminal.expect("User: ").say("/resume save my tag").expect("already exists").expect("no): ").say("no");
    terminal.expect("User: ").say("/chat list").expect("my tag").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let file = state_folders(&scene, "checkpoint-my%20tag.json").pop().unwrap();
    let saved: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(saved["authType"], "gemini-api-key");
    let turns = saved["history"].as_array().unwrap();
    assert_eq!(turns.len(), 5, "{saved:#}");
    assert_eq!(turns[1], json!({"role": "user", "parts": [{"text": "say hi"}]}));
    assert!(turns[2]["parts"][0].get("functionCall").is_some());

    let mut terminal = at_terminal(&scene, &["-y"]);
    terminal
        .expect("User: ")
        .say("/chat resume nothing")
        .expect("No saved checkpoint found with tag: nothing.");
    terminal.expect("User: ").say("/chat resume my tag").expect("Resuming").expect("User: ").say("go on");
    terminal.expect("again").expect("User: ").say("/chat delete my tag").expect("'my tag' has been deleted.");
    terminal.expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let contents = scene.server.request(2).body["contents"].as_array().unwrap().clone();
    assert_eq!(contents.len(), 5, "{contents:#?}");
    assert_eq!(contents[2]["parts"][0]["functionResponse"]["name"], "run_shell_command");
    assert!(!file.exists());
    // Both conversations are whole sessions of their own.
    assert_eq!(scene.session_files().len(), 2);
}

#[test]
fn a_conversation_that_gemini_cli_saved_is_resumed() {
    let scene = Scene::new([reply().text("one"), reply().text("two")]);
    assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
    let temp = state_folders(&scene, "chats").pop().unwrap();
    let saved = json!([
        {"role": "user", "parts": [{"text": "<session_context>\nold\n</session_context>"}]},
        {"role": "user", "parts": [{"text": "list"}]},
        {"role": "model", "parts": [{"text": "thinking", "thought": true},
            {"functionCall": {"name": "list_directory", "args": {"dir_path": "."}}, "thoughtSignature": "c2ln"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "list_directory", "response": {"output": "a b"}}}]},
        {"role": "model", "parts": [{"text": "a and b"}]},
    ]);
    fs::write(temp.with_file_name("checkpoint-theirs.json"), saved.to_string()).unwrap();
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("User: ").say("/chat resume theirs").expect("Resuming").expect("User: ").say("and now");
    terminal
        .expect("two")
        .expect("User: ")
        .say("/rewind")
        .expect("1. list")
        .expect("2. and now")
        .expect("Answer (number");
    terminal.say("").expect("Nothing changed.").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let sent = scene.server.request(1).body["contents"].to_string();
    assert!(
        sent.contains("a and b") && sent.contains("\"output\":\"a b\"") && !sent.contains("\\nold\\n"),
        "{sent}"
    );
}

#[test]
fn a_conversation_is_shared_as_markdown_or_json_and_nothing_else() {
    let scene = Scene::new([reply().text("hello")]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal
        .expect("User: ")
        .say("/chat share x.md")
        .expect("No conversation found to share.")
        .expect("User: ");
    terminal
        .say("hi")
        .expect("hello")
        .expect("User: ")
        .say("/chat share x.txt")
        .expect("Invalid file format.");
    terminal.expect("User: ").say("/chat share x.md").expect("Conversation shared to /").expect("User: ");
    let written = scene.home.read("x.md");
    fs::write(scene.home.project().join("x.md"), "mine").unwrap();
    terminal.say("/chat share x.md").expect("already exists").expect("User: ");
    assert_eq!(scene.home.read("x.md"), "mine");
    terminal.say("/chat share x.md --yes").expect("Conversation shared to /").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let text = scene.home.read("x.md");
    assert_eq!(text, written);
    assert!(text.ends_with("## USER 🧑‍💻\n\nhi\n\n---\n\n## MODEL ✨\n\nhello"), "{text}");
}

fn checkpointing() -> TestHome {
    TestHome::new().settings(json!({"general": {"checkpointing": {"enabled": true}}})).file("a.txt", "old\n")
}

#[test]
fn a_checkpoint_brings_back_the_project_and_proposes_the_call_again() {
    let scene = Scene::with(checkpointing(), [write("a.txt", "new\n"), reply().text("edited")]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal
        .expect("User: ")
        .say("/restore")
        .expect("No restorable tool calls found.")
        .expect("User: ")
        .say("edit it");
    terminal.expect("wants to edit").expect("Answer").say("1").expect("edited").expect("User: ");
    assert_eq!(scene.home.read("a.txt"), "new\n");
    fs::write(scene.home.project().join("stray.txt"), "x").unwrap();
    let folder = state_folders(&scene, "checkpoints").pop().unwrap();
    let name = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().file_name().into_string().unwrap();
    assert!(name.ends_with("-a.txt-write_file.json"), "{name}");
    terminal
        .say("/restore")
        .expect("Available tool calls to restore:")
        .expect("-a.txt-write_file")
        .expect("User: ");
    terminal.say("/restore nothing").expect("File not found: nothing.json").expect("User: ");
    terminal.say(&format!("/restore {name}")).expect("Restored project to the state before the tool call.");
    terminal.expect("wants to edit").expect("Answer").say("n").expect("instead").say("").expect("cancelled");
    terminal.expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(scene.home.read("a.txt"), "old\n");
    assert!(!scene.home.project().join("stray.txt").exists());
}

#[test]
fn checkpoints_without_git_are_refused_at_the_start() {
    let scene = Scene::with(checkpointing(), []);
    let run = scene.prompt(&["-p", "x"]).env("PATH", "/nowhere").run();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let said = "Checkpointing is enabled, but Git is not installed. Please install Git or disable checkpointing to continue.";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}

#[test]
fn prompts_and_own_commands_are_noted_where_gemini_cli_notes_them() {
    let scene = Scene::new([reply().text("one")]);
    let mut terminal = at_terminal(&scene, &[]);
    terminal
        .expect("User: ")
        .say("hello there")
        .expect("one")
        .expect("User: ")
        .say("!echo o''k; exit 3")
        .expect("\nok\n");
    terminal.expect("[exit code 3]").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let log = fs::read_to_string(state_folders(&scene, "logs.json").pop().unwrap()).unwrap();
    let log: Value = serde_json::from_str(&log).unwrap();
    assert_eq!((log[0]["message"].as_str(), log[0]["messageId"].as_u64()), (Some("hello there"), Some(0)));
    let shell = fs::read_to_string(state_folders(&scene, "shell_history").pop().unwrap()).unwrap();
    assert_eq!(shell, "echo o''k; exit 3");
    assert_eq!(scene.run(&["-p", "x"]).stdout, "");
    assert_eq!(log.as_array().unwrap().len(), 1);
}

#[test]
fn commands_that_tell_tell_and_later_ones_say_so() {
    let home = TestHome::new().file("GEMINI.md", "be brief");
    let scene = Scene::with(home, [reply().text("one"), reply().text("two")]);
    let mut terminal = at_terminal(&scene, &["-i", "hi"]);
    terminal.expect("one").expect("User: ").say("/help").expect("/rewind").expect("/tools").expect("User: ");
    terminal.say("/stats").expect("Tool Calls: 0").expect("Reqs: 1").expect("User: ");
    terminal.say("/model").expect("Select Model").expect(MODEL).expect("Answer").say("").expect("User: ");
    terminal.say("/about").expect("Session file: /").expect("User: ");
    terminal
        .say("/tools")
        .expect("(read_file)")
        .expect("User: ")
        .say("/policies")
        .expect("allow")
        .expect("User: ");
    terminal.say("/permissions").expect("trust").expect("User: ").say("/memory show").expect("be brief");
    terminal.expect("User: ").say("/directory show").expect("Workspace directories:").expect("User: ");
    terminal.say("/corgi list").expect("`/corgi` is not available in this version.").expect("User: ");
    terminal.say("/restore").expect("Checkpoints are off").expect("User: ").say("/clear");
    terminal.expect("To resume this session").expect("New session.").expect("User: ");
    terminal
        .say("/rewind")
        .expect("No conversation found.")
        .expect("User: ")
        .say("ho")
        .expect("two")
        .expect("User: ");
    terminal.say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    assert!(!scene.server.request(1).body["contents"].to_string().contains("\"hi\""));
    assert_eq!(scene.session_files().len(), 2);
}

#[test]
fn a_conversation_is_condensed_when_the_person_wants_it() {
    let snapshot = "<state_snapshot><overall_goal>g</overall_goal></state_snapshot>";
    let long = (1..800).map(|k: u64| (k * 7919).to_string()).collect::<Vec<_>>().join(" ");
    let scene = Scene::new([reply().text(&long), reply().text(snapshot), reply().text("after")]);
    let mut terminal = at_terminal(&scene, &["-i", "tell me much"]);
    terminal
        .expect("User: ")
        .say("/compress")
        .expect("Chat history compressed from ")
        .expect("User: ")
        .say("more");
    terminal.expect("after").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    let sent = scene.server.request(2).body["contents"].to_string();
    assert!(sent.contains("state_snapshot") && !sent.contains("15838 23757"), "{sent}");
}

/// A session of two prompts, without a title.
fn talked_twice() -> Scene {
    let scene = Scene::new([reply().text("one"), reply().text("two")]);
    assert_eq!(scene.run(&["-p", "mend the fence"]).code, Some(0));
    assert_eq!(scene.run(&["--resume", "-p", "paint it"]).code, Some(0));
    scene
}

#[test]
fn the_session_of_this_run_gets_a_title_and_older_ones_do_not() {
    let scene = talked_twice();
    let old = scene.session();
    let mut terminal = at_terminal(&scene, &[]);
    // Nothing is sent before the first prompt, and nothing of the older session ever.
    terminal.expect("User: ").say("/stats").expect("Calls: 0").expect("User: ");
    assert!(scene.server.titles().is_empty());
    scene.server.push([reply().text("three"), reply().text("four")]);
    terminal.say("dig a well").expect("three").expect("User: ");
    assert!(scene.server.titles().is_empty());
    terminal.say("and fill it").expect("four").expect("User: ");
    until("the request for the title is counted", || {
        terminal.say("/stats").expect("Reqs: ").expect("User: ");
        terminal.text().contains("Reqs: 3")
    });
    terminal.say("/quit");
    assert_eq!(terminal.end().0, Some(0));
    let titles = scene.server.titles();
    assert_eq!(titles.len(), 1);
    assert!(titles[0].path.contains(MODEL), "{}", titles[0].path);
    let asked = titles[0].body["contents"].to_string();
    assert!(asked.contains("User: dig a well") && asked.contains("Assistant: four"), "{asked}");
    assert!(!asked.contains("fence"), "{asked}");
    let sessions = scene.sessions();
    let summary = |prompt: &str| {
        let session = sessions.iter().find(|session| session.to_string().contains(prompt)).unwrap();
        session.get("summary").cloned()
    };
    assert_eq!(summary("dig a well"), Some(json!("A title")));
    assert_eq!(summary("mend the fence"), old.get("summary").cloned());
}

#[test]
fn no_title_is_made_in_headless_runs_or_where_the_settings_say_so() {
    let scene = talked_twice();
    scene.server.push([reply().text("three")]);
    assert_eq!(scene.run(&["-p", "other"]).code, Some(0));
    let off = json!({"general": {"sessionSummaries": false}}).to_string();
    fs::write(scene.home.gemini_dir().join("settings.json"), off).unwrap();
    let mut terminal = at_terminal(&scene, &[]);
    terminal.expect("User: ").say("/stats").expect("Calls: 0").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(scene.server.requests().len(), 3);
}
