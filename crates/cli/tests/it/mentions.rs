//! `@path` in a prompt.

use std::fs;

use pollux_test_support::{TestHome, reply};
use serde_json::json;

use crate::scene::{MODEL, PNG, Scene};

#[test]
fn a_mentioned_file_comes_along_and_only_the_typed_text_is_shown() {
    let home =
        TestHome::new().file("src/f.txt", "the file's text\n").file("src/deep/g.txt", "another text\n");
    let scene = Scene::with(home, [reply().text("ok"), reply().text("ok")]);
    let run = scene.run(&["-p", "explain @src/f.txt, please", "-o", "stream-json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let texts = scene.server.request(0).last_texts();
    assert_eq!(texts[1], "explain @src/f.txt, please");
    assert!(texts.contains(&"\n--- Content from referenced files ---".to_owned()), "{texts:?}");
    assert!(texts.contains(&"\nContent from @src/f.txt:\n".to_owned()), "{texts:?}");
    assert!(texts.iter().any(|text| text == "the file's text"), "{texts:?}");
    assert_eq!(texts.last().unwrap(), "\n--- End of content ---");
    assert_eq!(crate::scene::lines(&run.stdout)[1]["content"], "explain @src/f.txt, please");
    scene.run(&["-p", "all of @src and @src/f.txt and @src/f.txt"]);
    let texts = scene.server.request(1).last_texts();
    assert_eq!(texts[1], "all of @src/** and @src/f.txt and @src/f.txt");
    let whole = texts.join("|");
    assert_eq!(
        (whole.matches("the file's text").count(), whole.matches("another text").count()),
        (1, 1),
        "{whole}"
    );
    assert_eq!(whole.matches("--- End of content ---").count(), 1);
}

#[test]
fn what_is_no_file_stays_text_and_what_lies_outside_stays_outside() {
    let scene = Scene::new([reply().text("ok")]);
    let beside = scene.home.project().parent().unwrap().join("secret.txt");
    fs::write(&beside, "TOP-SECRET").unwrap();
    let prompt =
        format!("mail me@example.com about @missing.txt and @{} or @../secret.txt", beside.display());
    let run = scene.run(&["-p", &prompt]);
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
    assert_eq!(scene.server.request(0).last_texts()[1..], [prompt]);
    assert!(!scene.server.request(0).body.to_string().contains("TOP-SECRET"));
}

#[test]
fn a_mentioned_image_is_sent_as_inline_data() {
    let scene = Scene::new([reply().text("A dot.")]);
    fs::write(scene.home.project().join("dot.png"), PNG).unwrap();
    let run = scene.run(&["-p", "what is @dot.png"]);
    assert_eq!((run.stdout.as_str(), run.code), ("A dot.\n", Some(0)), "{}", run.stderr);
    let requests = scene.server.requests();
    let sent = requests.last().unwrap();
    assert!(sent.path.ends_with(":streamGenerateContent"));
    assert!(sent.body["contents"].to_string().contains("\"inlineData\""), "{}", sent.body["contents"]);
    let counted: Vec<&str> = requests.iter().filter_map(|request| request.path.rsplit(':').next()).collect();
    assert_eq!(counted, ["countTokens", "streamGenerateContent"]);
}

#[test]
fn a_resumed_session_sends_mentioned_files_again_and_keeps_what_was_typed() {
    let home = TestHome::new().file("f.txt", "the file's text\n");
    let scene = Scene::with(home, [reply().text("one"), reply().text("two")]);
    scene.run(&["-p", "explain @f.txt"]);
    let session = scene.session();
    assert_eq!(session["messages"][0]["displayContent"], "explain @f.txt", "{session:#}");
    let list = scene.run(&["--list-sessions"]).stdout;
    assert!(list.contains("  1. explain @f.txt ("), "{list}");
    scene.run(&["--resume", "-p", "more"]);
    assert!(scene.server.request(1).body["contents"].to_string().contains("the file's text"));
}

#[test]
fn a_file_that_is_usually_left_out_comes_along_when_it_is_named() {
    let home = TestHome::new().file("GEMINI.md", "RULES").file("app/[id].ts", "dynamic route");
    let scene = Scene::with(home, [reply().text("ok")]);
    scene.run(&["-p", "compare @GEMINI.md with @\"app/[id].ts\""]);
    let texts = scene.server.request(0).last_texts();
    assert!(texts.contains(&"RULES".to_owned()) && texts.contains(&"dynamic route".to_owned()), "{texts:?}");
}

/// Files that `read_file` refuses, and some that look alike.
const PERHAPS_CLOSED: [&str; 13] = [
    ".env",
    ".ENV",
    ".env.",
    ".env.local",
    ".env.example",
    ".git/config",
    ".github/rules.md",
    "GIT~1",
    "gha-creds-1.json",
    "node_modules/a.md",
    "package.json",
    "listed.json",
    "README",
];

#[test]
fn a_context_file_imports_what_read_file_reads_and_nothing_else() {
    let mut home = TestHome::new().file(".geminiignore", "listed.json\n");
    let mut imports = String::new();
    let mut asked = reply();
    for name in PERHAPS_CLOSED {
        home = home.file(name, &format!("text of {name};"));
        imports.push_str(&format!("@./{name}\n"));
        asked = asked.call("read_file", json!({"file_path": name}));
    }
    let scene = Scene::with(home.file("GEMINI.md", &imports), [asked, reply().text("ok")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let context = scene.server.request(0).last_texts().remove(0);
    let answers = scene.server.request(1).function_responses();
    assert_eq!(answers.len(), PERHAPS_CLOSED.len());
    let mut closed = Vec::new();
    for (name, answer) in PERHAPS_CLOSED.into_iter().zip(&answers) {
        let text = format!("text of {name};");
        let is_read = answer.to_string().contains(&text);
        assert_eq!(context.contains(&text), is_read, "{name}: {answer}\n{context}");
        closed.extend((!is_read).then_some(name));
    }
    let expected = [
        ".env",
        ".ENV",
        ".env.",
        ".env.local",
        ".git/config",
        "GIT~1",
        "gha-creds-1.json",
        "node_modules/a.md",
        "listed.json",
    ];
    assert_eq!(closed, expected);
}

#[test]
fn a_context_file_that_the_model_writes_imports_no_secret() {
    let scene = Scene::with(
        TestHome::new().file(".env", "TOKEN=top-secret\n"),
        [
            reply().call("write_file", json!({"file_path": "docs/GEMINI.md", "content": "Notes: @../.env"})),
            reply().text("ok"),
        ],
    );
    let run = scene.run(&["-p", "x", "--approval-mode", "auto_edit"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(scene.home.read("docs/GEMINI.md").trim(), "Notes: @../.env");
    let answer = scene.server.request(1).function_responses()[0].to_string();
    assert!(answer.contains("Import failed: ../.env") && !answer.contains("top-secret"), "{answer}");
}

#[test]
fn names_of_a_project_read_no_keys_of_the_user() {
    let names = ["keys/id_rsa", "a2a-server-token", "tmp/shop/shell_history", "core/token"];
    let home = TestHome::new()
        .project_settings(json!({"context": {"fileName": names}}))
        .home_file(".ssh/id_rsa", "top-secret")
        .home_file(".gemini/a2a-server-token", "top-secret")
        .home_file(".gemini/tmp/shop/shell_history", "top-secret")
        .home_file(".gemini/core/token", "top-secret")
        .home_file(".gemini/GEMINI.md", "GLOBAL RULE");
    std::os::unix::fs::symlink(home.home().join(".ssh"), home.project().join("keys")).unwrap();
    let scene = Scene::with(home, []);
    let run = scene.prepare(&["prompt", "show", "--model", MODEL]).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("GLOBAL RULE") && !run.stdout.contains("top-secret"), "{}", run.stdout);
}
