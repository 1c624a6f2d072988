use std::sync::Mutex;
use std::time::{Duration, Instant};

use pollux_exec::background::Background;
use pollux_exec::shell::{Ending, Finished, ShellCommand, ShellEnd, StartError, run};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) fn command(text: &str) -> ShellCommand {
    ShellCommand {
        text: text.to_owned(),
        directory: std::env::temp_dir(),
        environment: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
        inactivity: None,
        background_after: None,
        sandbox: None,
    }
}

async fn finished(command: ShellCommand) -> Finished {
    let background = Background::new(TempDir::new().unwrap().path().join("logs"));
    finished_in(&background, command).await
}

async fn finished_in(background: &Background, command: ShellCommand) -> Finished {
    match run(&command, background, &|_| {}, &CancellationToken::new()).await.unwrap() {
        ShellEnd::Finished(finished) => finished,
        ShellEnd::MovedToBackground { pid } => panic!("{pid} went to the background"),
    }
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

/// Waits for something that must happen; the limit only bounds a failing test.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn both_streams_arrive_in_the_order_they_were_written() {
    let result = finished(command("for i in 1 2 3; do echo out$i; echo err$i >&2; done; exit 3")).await;
    assert_eq!(result.ending, Ending::Exited(3));
    assert_eq!(result.output.text(), "out1\nerr1\nout2\nerr2\nout3\nerr3");
    assert!(result.background_pids.is_empty());
}

#[tokio::test]
async fn a_signal_is_told_apart_from_an_exit_code() {
    assert_eq!(finished(command("kill -9 $$")).await.ending, Ending::Signalled(9));
    assert_eq!(finished(command("exit 137")).await.ending, Ending::Exited(137));
}

#[tokio::test]
async fn a_command_has_no_input_and_only_the_given_environment() {
    let mut given = command("cat; env | sort");
    given.environment.push(("GIVEN".to_owned(), "yes".to_owned()));
    let text = finished(given).await.output.text();
    assert!(text.contains("GIVEN=yes"), "{text}");
    assert!(!text.contains("CARGO"), "{text}");
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_does_not_delay_the_result() {
    let background = Background::new(TempDir::new().unwrap().path().join("logs"));
    let result = finished_in(&background, command("sleep 600 & echo hi")).await;
    assert_eq!(result.output.text(), "hi");
    let [sleeper] = result.background_pids[..] else { panic!("{:?}", result.background_pids) };
    assert!(is_alive(sleeper), "the result must come while the sleeper runs");
    drop(background);
    eventually("leftovers end with the registry", || !is_alive(sleeper)).await;
}

#[tokio::test]
async fn a_grandchild_that_keeps_printing_neither_delays_the_result_nor_gets_killed() {
    let folder = TempDir::new().unwrap();
    let mut given = command("(yes | head -c 5000000; echo survived > mark; sleep 600) & echo started");
    given.directory = folder.path().to_owned();
    let background = Background::new(folder.path().join("logs"));
    let result = finished_in(&background, given).await;
    assert_eq!(result.ending, Ending::Exited(0));
    assert_eq!(result.background_pids.len(), 1);
    // More than a pipe holds: it only arrives if the reader continues.
    eventually("it printed everything", || folder.path().join("mark").exists()).await;
}

#[tokio::test]
async fn large_output_is_counted_and_held_in_bounded_memory() {
    let result = finished(command("head -c 200000000 /dev/zero | tr '\\0' x; echo; echo end")).await;
    assert_eq!(result.output.total_bytes(), 200_000_005);
    assert_eq!(result.output.kept_bytes(), 16 << 20);
    let text = result.output.text();
    assert!(text.starts_with("xxx"));
    assert!(text.ends_with("end\n[GEMINI_CLI_WARNING: Output truncated. The buffer is limited to 16MB.]"));
}

#[tokio::test]
async fn cancelling_ends_the_whole_group_even_if_it_ignores_the_polite_signal() {
    let folder = TempDir::new().unwrap();
    let mut given = command("trap '' TERM; echo before; sleep 600 & echo $! > pid; wait; sleep 600");
    given.directory = folder.path().to_owned();
    let background = Background::new(folder.path().join("logs"));
    let cancel = CancellationToken::new();
    let pid_file = folder.path().join("pid");
    let read_pid =
        || std::fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let watcher = |_: &str| {};
    let stop = async {
        eventually("the pid is written", || read_pid().is_some()).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(run(&given, &background, &watcher, &cancel), stop);
    let ShellEnd::Finished(result) = end.unwrap() else { panic!("moved") };
    assert_eq!(result.ending, Ending::Cancelled);
    assert_eq!(result.output.text(), "before");
    let sleeper = read_pid().unwrap();
    eventually("the sleeper is gone", || !is_alive(sleeper) && !is_alive(result.pid)).await;
}

#[tokio::test]
async fn cancelling_reaches_a_descendant_in_a_session_of_its_own() {
    let folder = TempDir::new().unwrap();
    let mut given = command("setsid sh -c 'echo $$ > pid; exec sleep 600' & wait; sleep 600");
    given.directory = folder.path().to_owned();
    let background = Background::new(folder.path().join("logs"));
    let cancel = CancellationToken::new();
    let pid_file = folder.path().join("pid");
    let read_pid =
        || std::fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let stop = async {
        eventually("the pid is written", || read_pid().is_some()).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(run(&given, &background, &|_| {}, &cancel), stop);
    assert!(matches!(end.unwrap(), ShellEnd::Finished(_)));
    let stray = read_pid().unwrap();
    eventually("the stray is gone", || !is_alive(stray)).await;
}

#[tokio::test]
async fn dropping_the_future_kills_the_group() {
    let folder = TempDir::new().unwrap();
    let mut given = command("sleep 600 & echo $! > pid; wait");
    given.directory = folder.path().to_owned();
    let background = Background::new(folder.path().join("logs"));
    let pid_file = folder.path().join("pid");
    let read_pid =
        || std::fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let cancel = CancellationToken::new();
    tokio::select! {
        _ = run(&given, &background, &|_| {}, &cancel) => panic!("it must not end"),
        () = eventually("the pid is written", || read_pid().is_some()) => {}
    }
    let sleeper = read_pid().unwrap();
    eventually("the sleeper is gone", || !is_alive(sleeper)).await;
}

#[tokio::test]
async fn a_silent_command_is_killed_and_one_that_prints_is_not() {
    let mut silent = command("echo start; sleep 600");
    silent.inactivity = Some(Duration::from_secs(5));
    let result = finished(silent).await;
    assert_eq!(result.ending, Ending::Inactive);
    assert_eq!(result.output.text(), "start");

    // Longer as a whole than the silence that ends a command.
    let mut talking = command("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 1; done");
    talking.inactivity = Some(Duration::from_secs(5));
    assert_eq!(finished(talking).await.ending, Ending::Exited(0));
}

#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    let seen = Mutex::new(String::new());
    let cancel = CancellationToken::new();
    let watcher = |text: &str| {
        let mut seen = seen.lock().unwrap();
        seen.push_str(text);
        if seen.contains("hello") {
            cancel.cancel();
        }
    };
    let background = Background::new(TempDir::new().unwrap().path().join("logs"));
    let end =
        run(&command("printf '\\033[1mhello\\033[0m'; sleep 600"), &background, &watcher, &cancel).await;
    let ShellEnd::Finished(result) = end.unwrap() else { panic!("moved") };
    assert_eq!(result.ending, Ending::Cancelled);
    assert_eq!(*seen.lock().unwrap(), "hello");
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let mut given = command("true");
    given.directory = "/no/such/place".into();
    let background = Background::new("/nowhere".into());
    let error = run(&given, &background, &|_| {}, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, StartError::Directory { .. }));
    assert!(error.to_string().contains("/no/such/place"), "{error}");
}

/// A variable that changes the meaning of a line, the line, and its output without the variable.
const CHANGING: &[(&str, &str, &str, &str)] = &[
    ("CDPATH", "/", "mkdir -p etc && cd etc && pwd", "@/etc"),
    ("BASH_ENV", "@/start", "echo fine", "fine"),
    ("SHELLOPTS", "noglob", "echo mark*", "marked"),
    ("SHELLOPTS", "noexec", "echo fine", "fine"),
    ("BASHOPTS", "nocasematch", "case A in a) echo other;; *) echo fine;; esac", "fine"),
    ("POSIXLY_CORRECT", "1", "ls marked -1 2>/dev/null || echo other", "marked"),
    ("POSIX_PEDANTIC", "1", "[[ -o posix ]] && echo other || echo fine", "fine"),
    ("BASH_FUNC_ls%%", "() { echo function; }", "ls -d marked", "marked"),
    ("BASH_XTRACEFD", "1", "{ set -x; : ; } > /dev/null", "+ :"),
    ("BASH_COMPAT", "31", "[[ ab =~ \"a.\" ]] && echo other || echo fine", "fine"),
    ("OLDPWD", "/", "cd - 2>/dev/null || echo fine", "fine"),
    ("TMOUT", "1", "(sleep 1.2; echo late) | { read -r word; echo \"[$word]\"; }", "[late]"),
];

#[tokio::test]
async fn no_variable_changes_what_a_command_line_means() {
    use pollux_config::env::Env;
    use pollux_config::groups::Redaction;

    let folder = TempDir::new().unwrap();
    let folder = std::fs::canonicalize(folder.path()).unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("start", "echo started"), ("marked", "")] {
        std::fs::File::create(folder.join(name)).unwrap();
        tokio::fs::write(folder.join(name), text).await.unwrap();
    }
    let here = |text: &str| text.replace('@', folder.to_str().unwrap());
    for (name, value, line, expected) in CHANGING {
        let (value, expected) = (here(value), here(expected));
        let path = "/usr/local/bin:/usr/bin:/bin";
        // The test is only meaningful if bash honours the variable.
        let bare = std::process::Command::new("bash")
            .args(["-c", line])
            .env_clear()
            .envs([("PATH", path), (*name, &value)])
            .current_dir(&folder)
            .output();
        let bare = bare.unwrap();
        let said = [bare.stdout, bare.stderr].concat();
        let minded = String::from_utf8_lossy(&said).trim() != expected;
        assert!(minded, "{name} has no effect on `{line}`: {expected}");
        let vars = [("PATH".to_owned(), path.to_owned()), ((*name).to_owned(), value)];
        let env = Env::new(vars, folder.clone());
        let environment = pollux_exec::environment::for_command(&env, &Redaction::default(), "");
        let given = ShellCommand { environment, directory: folder.clone(), ..command(line) };
        assert_eq!(finished(given).await.output.text(), expected, "{name}: {line}");
    }
}

#[tokio::test]
async fn bash_does_not_read_startup_files_when_it_seems_to_run_under_ssh() {
    let home = TempDir::new().unwrap();
    tokio::fs::write(home.path().join(".bashrc"), "echo from the start-up file").await.unwrap();
    let mut given = command("echo fine");
    let home = home.path().display().to_string();
    for (name, value) in [("HOME", home.as_str()), ("SSH_CLIENT", "192.0.2.1 1 22"), ("SHLVL", "0")] {
        given.environment.push((name.to_owned(), value.to_owned()));
    }
    assert_eq!(finished(given).await.output.text(), "fine");
}

#[tokio::test]
async fn bash_is_not_taken_from_a_folder_prepended_to_path() {
    let folder = TempDir::new().unwrap();
    pollux_test_support::executable(folder.path().join("bash"), "#!/bin/sh\necho fake\n");
    let mut given = command("echo fine");
    given.environment = vec![("PATH".to_owned(), format!("{}:/usr/bin:/bin", folder.path().display()))];
    if std::path::Path::new("/bin/bash").is_file() {
        assert_eq!(finished(given).await.output.text(), "fine");
    }
}
