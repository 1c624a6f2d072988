//! Everyday commands: saved conversations, servers, models, agents and plans.

use std::fs;

use pollux_test_support::mcp::server_entry;
use pollux_test_support::{TestHome, executable, reply};
use serde_json::json;

use super::{PLACEHOLDER, open, quit};
use crate::scene::{MODEL, Scene, until};

#[test]
fn a_conversation_is_saved_listed_resumed_and_deleted() {
    let scene = Scene::new([reply().text("apples are red"), reply().text("pears are green")]);
    let screen = open(&scene, &[]);
    screen.say("about apples").expect("✦ apples are red").expect(PLACEHOLDER);
    screen.say("/chat save fruit").expect("Conversation checkpoint saved with tag: fruit.");
    screen.say("/chat list").expect("Saved conversations").expect("  fruit  (");
    // Enter alone does not overwrite it.
    screen.say("/chat save fruit").expect("Do you want to overwrite it?").expect("● 2. No").key("Enter");
    screen.expect("Nothing was saved.").say("/clear").expect_gone("apples are red").expect(PLACEHOLDER);
    screen.say("/chat resume fruit").expect("> about apples").expect("✦ apples are red");
    screen.expect("Resuming the conversation saved as fruit").say("and pears?").expect("✦ pears are green");
    screen.say("/chat delete fruit").expect("fruit").say("/chat list");
    screen.expect("No saved conversation checkpoints found.");
    quit(screen);
    let sent = scene.server.request(1).body.to_string();
    assert!(sent.contains("about apples") && sent.contains("and pears?"), "{sent}");
}

#[test]
fn a_server_is_switched_off_and_on_and_one_that_is_missing_is_named() {
    let servers = json!({"plain": server_entry("plain"), "gone": {"command": "no-such-server"}});
    let scene = Scene::with(TestHome::new().settings(json!({"mcpServers": servers})), []);
    let screen = open(&scene, &[]);
    screen.expect("MCP issues detected");
    // The notice names `/mcp`, so only a longer command is seen to be typed.
    until("it is connected", || screen.say("/mcp list").expect(PLACEHOLDER).text().contains("✓ plain: "));
    screen.expect("✗ gone: `no-such-server` was not found on PATH").expect(PLACEHOLDER);
    screen.say("/mcp disable plain").expect("ℹ MCP server 'plain' disabled.").expect(PLACEHOLDER);
    screen.say("/mcp disable nope").expect("✕ Server 'nope' not found. Use /mcp list");
    screen.say("/mcp enable plain").expect("ℹ MCP server 'plain' enabled.").expect(PLACEHOLDER);
    screen.say("/mcp reload").expect("MCP servers reconnected.").expect(PLACEHOLDER);
    quit(screen);
}

#[test]
fn a_model_that_no_list_has_is_used_and_similar_ones_are_named() {
    let scene = Scene::new([reply().text("here I am")]);
    let screen = open(&scene, &[]);
    screen.say("/model set nonsense").expect("Model set to nonsense");
    screen.expect("`nonsense` is not among the known models of Gemini").expect("/model for a list");
    screen.say("/model gemini-2.5-prp").expect("Did you mean").expect("`gemini-2.5-pro`?");
    screen.expect(PLACEHOLDER).say("good morning").expect("✦ here I am");
    quit(screen);
    assert!(scene.server.request(0).path.contains("gemini-2.5-prp"), "{}", scene.server.request(0).path);
}

#[test]
fn agents_are_named_and_show_their_work_and_their_report_once() {
    let scout =
        "---\nname: scout\ndescription: looks around\ntools: [run_shell_command]\n---\nYou look around.\n";
    let home = TestHome::new().home_file(".gemini/agents/scout.md", scout);
    let ask = reply().call("invoke_agent", json!({"agent_name": "scout", "prompt": "find the keep"}));
    let waits = "while [ ! -e go.txt ]; do sleep 0.01; done";
    let look = reply().call("run_shell_command", json!({"command": waits}));
    let done = reply().call("complete_task", json!({"result": "the keep stands on the hill"}));
    let scene = Scene::with(home, [ask, look, done, reply().text("All is well.")]);
    let screen = open(&scene, &["--yolo"]);
    screen.say("look").expect("Agent scout  find the keep").expect("│ ⊷ Shell ");
    fs::write(scene.home.project().join("go.txt"), "").unwrap();
    screen.expect("✓  Agent scout  find the keep").expect("│ the keep stands on the hill");
    screen.expect("✦ All is well.");
    let text = quit(screen);
    assert_eq!(text.matches("the keep stands on the hill").count(), 1, "{text}");
}

#[test]
fn a_plan_is_written_sent_back_and_approved_in_a_small_window() {
    let plan = |text: &str| reply().call("write_file", json!({"file_path": "plan.md", "content": text}));
    let submit = || reply().call("exit_plan_mode", json!({"plan_filename": "plan.md"}));
    let replies = [
        plan("# Plan\n\n1. Change it\n"),
        submit(),
        plan("# Plan\n\n1. Change it\n2. Test it\n"),
        submit(),
        reply().text("To work."),
    ];
    let scene = Scene::new(replies);
    let screen = scene.prepare(&["-m", MODEL, "--approval-mode", "plan"]).on_screen(80, 24);
    screen.expect("Plan mode").say("plan it").expect("? Exit Plan Mode  plan.md").expect("1. Change it");
    screen.expect("Execute this plan?").key("n").key("Enter").expect("What to do instead?");
    screen.say("and test it").expect("2. Test it").expect("● 1. Yes, and ask before each change").key("1");
    screen.expect("✦ To work.").expect("Shift+Tab to accept edits");
    quit(screen);
    assert!(scene.server.request(2).body.to_string().contains("and test it"));
}

#[test]
fn the_last_answer_is_copied_and_the_folders_trust_is_shown() {
    let scene = Scene::new([reply().text("one line")]);
    let screen = open(&scene, &[]);
    screen.say("/copy").expect("No answer to copy yet.").say("go").expect("✦ one line").expect(PLACEHOLDER);
    screen.say("/copy").expect("the last answer to the").expect("(1 line, 8 characters");
    screen.say("/permissions").expect(": trusted (").expect("To change this: /permissions trust");
    assert!(!screen.text().contains("digest"), "{}", screen.text());
    quit(screen);
}

#[test]
fn every_hook_is_switched_off_and_on() {
    let hook = json!({"hooks": {"BeforeAgent": [{"hooks": [
        {"type": "command", "name": "mark", "command": "touch hooked.txt"}]}]}});
    let scene = Scene::with(TestHome::new().settings(hook), [reply().text("one"), reply().text("two")]);
    let screen = open(&scene, &[]);
    screen.say("/hooks disable-all").expect("Hook \"mark\" disabled").say("/hooks").expect("mark [disabled]");
    quit(screen);
    let screen = open(&scene, &[]);
    screen.say("go").expect("✦ one");
    assert!(!scene.home.project().join("hooked.txt").exists());
    screen.expect(PLACEHOLDER).say("/hooks enable-all").expect("Hook \"mark\" enabled");
    quit(screen);
    let screen = open(&scene, &[]);
    screen.say("go").expect("✦ two");
    quit(screen);
    assert!(scene.home.project().join("hooked.txt").exists());
}

#[test]
fn a_prompt_waits_for_a_slow_clipboard() {
    // It answers when the test moves an answer to its place.
    let reads = "#!/bin/sh\ncase \"$*\" in *image*) exit 1;; esac\ncd \"$HOME\"\n\
                 until mv answer taken 2> /dev/null; do sleep 0.02; done\ncat taken\n";
    let home = TestHome::new();
    let (bin, answer) = (home.home().join("bin"), home.home().join("answer"));
    executable(bin.join("wl-paste"), reads);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let home = home.env("PATH", &path).env("WAYLAND_DISPLAY", "wayland-0");
    let scene = Scene::with(home, [reply().text("I see it.")]);
    let screen = open(&scene, &[]);
    screen
        .type_text("look at ")
        .key("Ctrl+V")
        .key("Enter")
        .expect("Waiting for the clipboard before sending");
    fs::write(&answer, "").unwrap();
    screen.expect("⚠ The clipboard has neither text nor an image. The prompt was not sent.");
    screen.expect("> look at").key("Ctrl+V").key("Enter").expect("Waiting for the clipboard before sending");
    fs::write(answer.with_extension("draft"), "the blue door").unwrap();
    fs::rename(answer.with_extension("draft"), &answer).unwrap();
    screen.expect("✦ I see it.");
    quit(screen);
    assert_eq!(super::last(&scene, 0), "look at the blue door");
}
