//! Where the prompt comes from, and standard streams that are closed.

use std::io::Read;
use std::process::{Command, Stdio};

use pollux_test_support::{TestHome, reply};

use crate::scene::{MODEL, Scene, binary, lines, panicked};

fn sent(scene: &Scene, index: usize) -> String {
    scene.server.request(index).last_texts().pop().unwrap()
}

#[test]
fn the_prompt_is_stdin_then_flag_or_words() {
    let scene = Scene::new((0..5).map(|_| reply().text("ok")));
    let runs = [
        scene.prompt(&["-p", "from flag"]).run(),
        scene.prompt(&["some", "plain words"]).run(),
        scene.prompt(&[]).stdin("from stdin\n").run(),
        scene.prompt(&["-p", "from flag"]).stdin("from stdin").run(),
        scene.prompt(&["words"]).stdin("from stdin").run(),
    ];
    assert!(runs.iter().all(|run| run.code == Some(0) && run.stdout == "ok\n"), "{runs:?}");
    let prompts: Vec<String> = (0..5).map(|index| sent(&scene, index)).collect();
    assert_eq!(
        prompts,
        ["from flag", "some plain words", "from stdin\n", "from stdin\n\nfrom flag", "from stdin\n\nwords"]
    );
}

#[test]
fn no_input_at_all_is_refused_without_a_request() {
    let scene = Scene::new([]);
    for input in ["", "  \n\t"] {
        let run = scene.prompt(&[]).stdin(input).run();
        assert_eq!((run.code, run.stdout.as_str()), (Some(42), ""), "{}", run.stderr);
        let said = "no prompt given\n\nhint: use `-p TEXT`, or pipe text into `pollux`\n";
        assert!(run.stderr.contains(said), "{}", run.stderr);
        let run = scene.prompt(&["--output-dialect", "gemini-cli"]).stdin(input).run();
        assert_eq!(run.code, Some(42), "{}", run.stderr);
        assert!(
            run.stderr.contains(
                "No input provided via stdin. Input can be provided by piping data into gemini or using the --prompt option."
            ),
            "{}",
            run.stderr
        );
        assert_eq!(run.stdout, "");
    }
    assert!(scene.server.requests().is_empty());
}

#[test]
fn an_interactive_prompt_with_piped_input_is_refused_without_a_request() {
    let scene = Scene::new([]);
    let run = scene.prompt(&["-i", "hello"]).stdin("x").run();
    assert_eq!(run.code, Some(42));
    assert!(run.stderr.contains("--prompt-interactive flag cannot be used when input is piped"));
    assert!(scene.server.requests().is_empty());
}

#[test]
fn too_much_input_is_cut_and_said() {
    let scene = Scene::new([reply().text("ok")]);
    let run = scene.prompt(&[]).stdin("é".repeat(9 * 1024 * 1024 / 2)).run();
    assert!(run.stderr.contains("Warning: stdin input truncated to 8388608 bytes."), "{}", run.stderr);
    assert!(!panicked(&run));
    // Such a prompt may not fit the model's window; if it is sent, it is cut at the limit.
    if !scene.server.requests().is_empty() {
        assert_eq!(sent(&scene, 0).len(), 8_388_608);
    } else {
        assert_eq!(run.code, Some(1), "{}", run.stderr);
    }
}

#[test]
fn input_that_is_no_text_is_taken_as_far_as_it_can_be_read() {
    let scene = Scene::new([reply().text("ok")]);
    let run = scene.prompt(&[]).stdin(b"caf\xff\xfe!".to_vec()).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(sent(&scene, 0).starts_with("caf") && sent(&scene, 0).ends_with('!'));
}

/// Runs the program in a shell that arranges its streams.
fn shell(scene: &Scene, script: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .arg(binary())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", scene.home.home())
        .env("GEMINI_API_KEY", "test-key")
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .env("GOOGLE_GEMINI_BASE_URL", scene.server.url())
        .current_dir(scene.home.project())
        .stdin(Stdio::null());
    command
}

#[test]
fn closed_standard_streams_are_no_panic() {
    let scene = Scene::new((0..3).map(|_| reply().text("ok")));
    let closed_in = shell(&scene, "exec \"$0\" -m m -p x <&-").output().unwrap();
    assert_eq!((closed_in.stdout.as_slice(), closed_in.status.code()), (&b"ok\n"[..], Some(0)));
    let closed_out = shell(&scene, "exec \"$0\" -m m -p x >&-").output().unwrap();
    let said = String::from_utf8_lossy(&closed_out.stderr).into_owned();
    assert!(matches!(closed_out.status.code(), Some(0 | 1)), "{said}");
    assert!(!said.contains("crashed:"), "{said}");
    let closed_err = shell(&scene, "exec \"$0\" -m m -p x 2>&-").output().unwrap();
    assert_eq!((closed_err.stdout.as_slice(), closed_err.status.code()), (&b"ok\n"[..], Some(0)));
}

#[test]
fn a_full_disk_behind_stdout_is_said_and_fails() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let scene = Scene::new([reply().text("ok")]);
    let full = shell(&scene, "exec \"$0\" -m m -p x >/dev/full").output().unwrap();
    let said = String::from_utf8_lossy(&full.stderr).into_owned();
    assert_eq!(full.status.code(), Some(1), "{said}");
    assert!(said.contains("could not write to stdout") && !said.contains("crashed:"), "{said}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_run_quietly() {
    for format in ["text", "stream-json"] {
        // Much more than a pipe holds, and no two lines alike.
        let long = (0..3000u64).fold(reply(), |reply, n| {
            let words: Vec<String> = (1..20).map(|k| (n * 7919 * k).to_string()).collect();
            reply.text(&format!("{}\n", words.join(" ")))
        });
        let scene = Scene::new([long]);
        let script = format!("exec \"$0\" -m {MODEL} -p x -o {format}");
        let mut child = shell(&scene, &script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut first = [0; 20];
        out.read_exact(&mut first).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
    }
}

#[test]
fn an_open_silent_pipe_is_not_waited_for() {
    let scene = Scene::new([reply().text("ok")]);
    let mut child = shell(&scene, &format!("exec \"$0\" -m {MODEL} -p x"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let held = child.stdin.take();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), child.wait().unwrap().code()), ("ok\n", Some(0)));
    drop(held);
}

#[test]
fn a_prompt_of_many_lines_and_scripts_arrives_unchanged() {
    let prompt = "naïve — 日本語 🦀\n\tsecond \"line\" $HOME `x`\\";
    let scene = Scene::with(TestHome::new(), [reply().text("ok")]);
    let run = scene.run(&["-p", prompt, "-o", "stream-json"]);
    assert_eq!(sent(&scene, 0), prompt);
    assert_eq!(lines(&run.stdout)[1]["content"], prompt);
    assert_eq!(scene.session()["messages"][0]["content"], prompt);
}
