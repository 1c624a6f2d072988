use std::time::Duration;

use pollux_exec::background::{Background, read_log_tail};
use pollux_exec::shell::{Ending, ShellEnd, run};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::shell::{command, eventually, is_alive};

async fn start(background: &Background, text: &str) -> u32 {
    let mut given = command(text);
    given.background_after = Some(Duration::from_millis(100));
    match run(&given, background, &|_| {}, &CancellationToken::new()).await.unwrap() {
        ShellEnd::MovedToBackground { pid } => pid,
        ShellEnd::Finished(finished) => panic!("it ended: {finished:?}"),
    }
}

#[tokio::test]
async fn a_background_command_is_listed_logged_and_its_end_noticed() {
    let folder = TempDir::new().unwrap();
    let background = Background::new(folder.path().join("logs"));
    let gate = folder.path().join("gate");
    let text =
        format!("echo early; while [ ! -e '{}' ]; do sleep 0.05; done; echo late; exit 4", gate.display());
    let pid = start(&background, &text).await;
    let listed = background.find(pid).unwrap();
    assert_eq!((listed.command.as_str(), listed.ending), (text.as_str(), None));
    assert_eq!(listed.log, folder.path().join(format!("logs/background-{pid}.log")));

    std::fs::File::create(&gate).unwrap();
    eventually("it ends", || background.find(pid).unwrap().ending == Some(Ending::Exited(4))).await;
    let tail = read_log_tail(&listed.log, 100).unwrap();
    assert_eq!(tail.lines, ["early", "late"]);
    assert!(!tail.is_partial);
    let last = read_log_tail(&listed.log, 1).unwrap();
    assert_eq!((last.lines, last.is_partial), (vec!["late".to_owned()], true));
}

#[tokio::test]
async fn a_command_that_ends_before_the_delay_stays_in_the_foreground() {
    let background = Background::new(TempDir::new().unwrap().path().join("logs"));
    let mut given = command("echo quick");
    given.background_after = Some(Duration::from_secs(60));
    let end = run(&given, &background, &|_| {}, &CancellationToken::new()).await.unwrap();
    assert!(matches!(end, ShellEnd::Finished(finished) if finished.output.text() == "quick"));
    assert_eq!(background.list(), []);
}

#[tokio::test]
async fn shutting_down_ends_background_commands_and_what_they_left() {
    let folder = TempDir::new().unwrap();
    let background = Background::new(folder.path().join("logs"));
    let pid = start(&background, "sleep 600").await;
    assert!(is_alive(pid));
    background.shutdown().await;
    assert!(!is_alive(pid));
    assert_eq!(background.find(pid).unwrap().ending, Some(Ending::Cancelled));
}

#[tokio::test]
async fn old_logs_are_removed_and_recent_ones_stay() {
    let folder = TempDir::new().unwrap();
    let logs = folder.path();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(8 * 24 * 3600);
    for (name, is_old) in [("background-1.log", true), ("background-2.log", false), ("notes.txt", true)] {
        let file = std::fs::File::create(logs.join(name)).unwrap();
        if is_old {
            file.set_modified(old).unwrap();
        }
    }
    let background = Background::new(logs.to_path_buf());
    start(&background, "sleep 30").await;
    let left: Vec<bool> = ["background-1.log", "background-2.log", "notes.txt"]
        .iter()
        .map(|name| logs.join(name).exists())
        .collect();
    assert_eq!(left, [false, true, true]);
    background.shutdown().await;
}

#[tokio::test]
async fn old_and_abandoned_logs_are_removed() {
    let folder = TempDir::new().unwrap();
    let logs = folder.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    let old = std::time::SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    for name in ["background-1.log", "background-2.log.old", "other.log.old", "background-3.txt"] {
        std::fs::File::create(logs.join(name)).unwrap().set_modified(old).unwrap();
    }
    std::fs::File::create(logs.join("background-4.log.old")).unwrap();
    let background = Background::new(logs.clone());
    start(&background, "sleep 600").await;
    let exists = |name: &str| logs.join(name).exists();
    assert!(!exists("background-1.log") && !exists("background-2.log.old"));
    assert!(exists("other.log.old") && exists("background-3.txt") && exists("background-4.log.old"));
    background.shutdown().await;
}
