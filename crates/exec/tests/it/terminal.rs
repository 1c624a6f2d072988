//! Commands in a terminal of their own.

use std::sync::{Arc, Mutex};

use pollux_domain::terminal_screen::{TerminalScreen, TerminalSize, TypedBytes};
use pollux_domain::terminals::{CommandInput, CommandTerminal};
use pollux_exec::background::{Background, read_log_tail};
use pollux_exec::shell::{Ending, Finished, ShellCommand, ShellEnd, run_in_terminal};
use pollux_sandbox::Level;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::sandbox::Scene;
use crate::shell::{command, eventually, is_alive};

/// The person in front of a terminal.
struct Person {
    terminal: CommandTerminal,
    inputs: mpsc::Sender<CommandInput>,
    screen: Arc<Mutex<TerminalScreen>>,
}

impl Person {
    fn new() -> Self {
        let screen = Arc::new(Mutex::new(TerminalScreen::default()));
        let shown = Arc::clone(&screen);
        let (terminal, inputs) =
            CommandTerminal::new(TerminalSize { columns: 80, rows: 24 }, move |screen| {
                *shown.lock().unwrap() = screen;
                true
            });
        Self { terminal, inputs, screen }
    }

    async fn types(&self, text: &str) {
        self.does(CommandInput::Typed(TypedBytes(text.as_bytes().to_vec()))).await;
    }

    async fn does(&self, input: CommandInput) {
        self.inputs.send(input).await.unwrap();
    }

    async fn sees(&self, text: &str) {
        eventually(text, || self.screen.lock().unwrap().text().contains(text)).await;
    }
}

fn background() -> (TempDir, Background) {
    let folder = TempDir::new().unwrap();
    let background = Background::new(folder.path().join("logs"));
    (folder, background)
}

/// Runs a command while a person acts.
async fn with_person(
    command: ShellCommand,
    background: &Background,
    acts: impl AsyncFnOnce(&Person),
) -> ShellEnd {
    let person = Person::new();
    let cancel = CancellationToken::new();
    let run = run_in_terminal(&command, background, &person.terminal, &cancel);
    tokio::join!(run, acts(&person)).0.unwrap()
}

async fn finished(text: &str, acts: impl AsyncFnOnce(&Person)) -> Finished {
    let (_folder, background) = background();
    match with_person(command(text), &background, acts).await {
        ShellEnd::Finished(finished) => finished,
        ShellEnd::MovedToBackground { pid } => panic!("{pid} went to the background"),
    }
}

const FACTS: &str = "test -t 0 && test -t 1 && test -t 2 && echo three; stty size; \
    (exec </dev/tty && echo controlled) 2>/dev/null";

#[tokio::test]
async fn a_command_has_a_terminal_of_the_given_size() {
    let result = finished(FACTS, async |_| {}).await;
    assert_eq!(result.ending, Ending::Exited(0));
    assert_eq!(result.output.text(), "three\n24 80\ncontrolled");
}

#[tokio::test]
async fn a_question_is_shown_and_its_answer_is_read() {
    let result = finished("read -p 'Your name? ' name; echo \"hello $name\"", async |person| {
        person.sees("Your name?").await;
        person.types("Ada\r").await;
    });
    assert_eq!(result.await.output.text(), "Your name? Ada\nhello Ada");
}

#[tokio::test]
async fn a_secret_that_is_not_echoed_is_in_no_output() {
    let result = finished("read -s -p 'Password: ' p; echo; echo \"${#p} characters\"", async |person| {
        person.sees("Password:").await;
        person.types("hunter2\r").await;
    });
    assert_eq!(result.await.output.text(), "Password: \n7 characters".replace(": \n", ":\n"));
}

#[tokio::test]
async fn a_resize_reaches_the_command() {
    let result =
        finished("trap 'stty size; exit' WINCH; echo ready; while :; do read -t 1 x; done", async |person| {
            person.sees("ready").await;
            person.does(CommandInput::Resized(TerminalSize { columns: 100, rows: 30 })).await;
        });
    assert_eq!(result.await.output.text(), "ready\n30 100");
}

#[tokio::test]
async fn ctrl_c_and_end_of_input_go_through_the_terminal() {
    let result = finished("echo ready; sleep 600", async |person| {
        person.sees("ready").await;
        person.types("\u{3}").await;
    });
    assert_eq!(result.await.ending, Ending::Signalled(2));
    let result = finished("cat; echo over", async |person| {
        person.types("one\r").await;
        person.sees("one\none").await;
        person.types("\u{4}").await;
    });
    assert_eq!(result.await.output.text(), "one\none\nover");
}

#[tokio::test]
async fn a_full_screen_program_can_be_used() {
    let (folder, background) = background();
    let file = folder.path().join("notes");
    let command = command(&format!("TERM=xterm-256color vim -u NONE {}", file.display()));
    if !std::path::Path::new("/usr/bin/vim").exists() {
        return;
    }
    let end = with_person(command, &background, async |person| {
        eventually("the screen of vim", || person.screen.lock().unwrap().alternate).await;
        person.types("ihello from vim\u{1b}").await;
        person.sees("hello from vim").await;
        person.types(":wq\r").await;
    });
    let ShellEnd::Finished(result) = end.await else { panic!("moved") };
    assert_eq!(result.ending, Ending::Exited(0));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "hello from vim\n");
    assert!(!result.output.text().contains('~'), "{}", result.output.text());
}

#[tokio::test]
async fn all_output_arrives_however_much_it_is() {
    let result = finished("seq 1 200000", async |_| {}).await;
    let expected: Vec<String> = (1..=200_000).map(|number| number.to_string()).collect();
    assert_eq!(result.output.text(), expected.join("\n"));
    // The end of the output and of the command come at the same moment.
    for _ in 0..20 {
        let result = finished("seq 1 300; printf last", async |_| {}).await;
        assert!(result.output.text().ends_with("300\nlast"), "{}", result.output.text());
    }
}

#[tokio::test]
async fn a_cancelled_command_ends_with_all_that_it_started() {
    let (_folder, background) = background();
    let person = Person::new();
    let cancel = CancellationToken::new();
    let command = command("trap '' HUP INT; sleep 600 & echo $!; wait");
    let run = run_in_terminal(&command, &background, &person.terminal, &cancel);
    let stop = async {
        eventually("the number", || person.screen.lock().unwrap().text().trim().parse::<u32>().is_ok()).await;
        cancel.cancel();
        person.screen.lock().unwrap().text().trim().parse::<u32>().unwrap()
    };
    let (end, pid) = tokio::join!(run, stop);
    let ShellEnd::Finished(result) = end.unwrap() else { panic!("moved") };
    assert_eq!(result.ending, Ending::Cancelled);
    eventually("its end", || !is_alive(pid)).await;
}

#[tokio::test]
async fn what_is_left_in_the_background_survives_its_shell() {
    let (_folder, background) = background();
    let end = with_person(command("sleep 600 & echo hi"), &background, async |_| {}).await;
    let ShellEnd::Finished(result) = end else { panic!("moved") };
    assert_eq!(result.output.text(), "hi");
    let [sleeper] = result.background_pids[..] else { panic!("{:?}", result.background_pids) };
    assert!(is_alive(sleeper));
    drop(background);
    eventually("its end", || !is_alive(sleeper)).await;
}

#[tokio::test]
async fn a_command_can_be_moved_to_the_background() {
    let (folder, background) = background();
    let go = folder.path().join("go");
    let text =
        format!("echo before; while ! test -e {}; do sleep 0.05; done; echo after; exit 3", go.display());
    let mut changes = background.changes();
    let end = with_person(command(&text), &background, async |person| {
        person.sees("before").await;
        person.does(CommandInput::MoveToBackground).await;
    });
    let ShellEnd::MovedToBackground { pid } = end.await else { panic!("not moved") };
    changes.changed().await.unwrap();
    let process = background.find(pid).unwrap();
    assert_eq!((process.command, process.ending), (text, None));
    std::fs::File::create(&go).unwrap();
    changes.changed().await.unwrap();
    assert_eq!(background.find(pid).unwrap().ending, Some(Ending::Exited(3)));
    let log = process.log;
    eventually("all of its log", || read_log_tail(&log, 10).unwrap().lines == ["before", "after"]).await;
}

/// Tests that run beside it in one process would open and close descriptors as well, so it has a process of its own.
#[test]
fn a_command_gets_no_other_descriptor_and_leaves_none_behind() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["terminal::child_counts_its_descriptors", "--exact", "--ignored"])
        .args(["--nocapture", "--test-threads=1"])
        .output()
        .unwrap();
    let said = [child.stdout, child.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "a child of the test above"]
async fn child_counts_its_descriptors() {
    let own = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (_folder, background) = background();
    let run = async || {
        let end = with_person(command("ls /proc/self/fd | tr '\\n' ' '"), &background, async |_| {}).await;
        let ShellEnd::Finished(result) = end else { panic!("moved") };
        // The fourth is the folder that `ls` reads.
        assert_eq!(result.output.text(), "0 1 2 3");
    };
    run().await;
    let before = own();
    for _ in 0..5 {
        run().await;
    }
    // A thread that is about to end may close its descriptor a moment later.
    eventually("no more descriptors than before", || own() <= before).await;
}

#[tokio::test]
async fn a_command_has_its_terminal_in_every_sandbox() {
    for level in [Level::Namespaces, Level::Bubblewrap, Level::Landlock] {
        let Some(scene) = Scene::new(level, |_| {}) else { continue };
        let text = format!("{FACTS}; read -p 'Name? ' name; echo \"hello $name\"; sleep 600");
        let end = with_person(scene.command(&text), scene.background(), async |person| {
            person.sees("Name?").await;
            person.types("Ada\r").await;
            person.sees("hello Ada").await;
            person.types("\u{3}").await;
        });
        let ShellEnd::Finished(result) = end.await else { panic!("moved") };
        assert_eq!(result.ending, Ending::Signalled(2), "{level:?}");
        // No rule of Landlock can tell a command's own terminal from others, so it has only its streams.
        let controlled = if level == Level::Landlock { "" } else { "controlled\n" };
        let expected = format!("three\n24 80\n{controlled}Name? Ada\nhello Ada\n^C");
        assert_eq!(result.output.text(), expected, "{level:?}");
    }
}

#[tokio::test]
async fn a_command_has_its_terminal_under_the_guard() {
    let folder = TempDir::new().unwrap();
    let background = Background::guarded(folder.path().join("logs"));
    let end = with_person(command(FACTS), &background, async |_| {}).await;
    let ShellEnd::Finished(result) = end else { panic!("moved") };
    assert_eq!(result.output.text(), "three\n24 80\ncontrolled");
    background.shutdown().await;
}
