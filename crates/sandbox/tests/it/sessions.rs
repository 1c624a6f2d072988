//! What persists between the commands of a session, and that nothing outlives it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pollux_sandbox::holder::Start;
use pollux_sandbox::{Guard, Level, Sandbox, SandboxRequest, Trial, process_table};

use crate::scene::{LEVELS, Scene, request, scratch};

pub(crate) const ARGUMENT: &str = "__session";

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Processes with this word on their command line.
fn marked(word: &str) -> usize {
    let all = process_table::processes();
    let own = std::process::id().cast_signed();
    let lines = all.iter().filter(|process| process.is_alive && process.id != own);
    let lines = lines.filter_map(|process| fs::read_to_string(format!("/proc/{}/cmdline", process.id)).ok());
    lines.filter(|line| line.split('\0').any(|argument| argument == word)).count()
}

fn levels(network: bool) -> impl Iterator<Item = Scene> {
    LEVELS.into_iter().filter_map(move |level| Scene::new(level, network))
}

#[test]
fn a_server_and_files_of_one_command_are_there_for_the_next() {
    for scene in levels(false).filter(|scene| scene.sandbox.level() != Level::Landlock) {
        let level = scene.sandbox.level();
        let (status, said) =
            scene.shell("python3 -m http.server --bind 127.0.0.1 8123 >/dev/null 2>&1 & echo $!");
        assert!(status.success(), "{level}: {said}");
        let fetch = "echo kept > /tmp/kept; for i in $(seq 100); do \
                     python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123/own\").read())' \
                     2>/dev/null && exit 0; sleep 0.1; done; exit 1";
        let (status, page) = scene.shell(fetch);
        assert!(status.success() && page.contains("mine"), "{level}: {page}");
        // The number that the first command printed is valid in the others.
        let (status, rest) = scene.shell(&format!("cat /tmp/kept && kill {}", said.trim()));
        assert!(status.success(), "{level}: {rest}");
    }
}

#[test]
fn commands_see_their_own_processes_only() {
    for scene in levels(true).filter(|scene| scene.sandbox.level() != Level::Landlock) {
        let (_, said) = scene
            .shell("ls /proc | grep -c '^[0-9]*$'; cat /proc/sys/kernel/osrelease >/dev/null && echo ok");
        let mut lines = said.lines();
        let count: u32 = lines.next().unwrap().parse().unwrap();
        assert!(count < 10 && lines.next() == Some("ok"), "{said}");
    }
}

#[test]
fn daemons_end_with_the_sandbox() {
    for scene in levels(true) {
        let (level, word) = (scene.sandbox.level(), format!("6{:05}", std::process::id() % 100_000));
        let daemon = format!(
            "(setsid nohup sh -c 'trap \"\" TERM HUP; sleep {word}; true' >/dev/null 2>&1 &) & sleep 0.3"
        );
        let (status, said) = scene.shell(&daemon);
        assert!(status.success(), "{level}: {said}");
        eventually("the daemon runs", || marked(&word) > 0);
        drop(scene);
        eventually("the daemon is gone", || marked(&word) == 0);
    }
}

/// A process that opens a sandbox, starts a daemon in it and waits.
pub(crate) fn run(arguments: &[String]) -> ! {
    let [level, base, word] = arguments else { std::process::exit(2) };
    let base = Path::new(base);
    let script = format!(
        "(setsid nohup sh -c 'trap \"\" TERM HUP; sleep {word}; true' >/dev/null 2>&1 &); sleep {word}"
    );
    let null = fs::File::open("/dev/null").unwrap();
    let (sandbox, guard);
    let directory = base.join("w");
    let start = |streams| pollux_sandbox::holder::Start {
        program: "/bin/sh".as_ref(),
        arguments: vec!["-c".as_ref(), script.as_ref()],
        directory: &directory,
        environment: &[],
        streams,
    };
    use std::os::fd::AsFd as _;
    let streams = [null.as_fd(), null.as_fd(), null.as_fd()];
    if let Some(level) = Level::named(level) {
        sandbox = Sandbox::open(&request(base, level)).unwrap();
        std::mem::forget(sandbox.start(&start(streams)).unwrap());
        std::mem::forget(sandbox);
    } else {
        guard = Guard::open().unwrap();
        std::mem::forget(guard.start(&start(streams)).unwrap());
        std::mem::forget(guard);
    }
    #[expect(clippy::print_stdout, reason = "its parent waits for it")]
    {
        println!("started");
    }
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

fn session(level: &str, base: &Path, word: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([ARGUMENT, level, base.to_str().unwrap(), word])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "started\n", "{level}");
    child
}

#[test]
fn killing_the_program_ends_everything_at_every_level_and_without_one() {
    let Some(folder) = scratch() else { return };
    for path in ["w", "home/.gemini"] {
        fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    for level in ["namespaces", "bwrap", "landlock", "none"] {
        let request = Level::named(level).map(|level| request(folder.path(), level));
        if request.is_some_and(|request| Sandbox::open(&request).is_err()) {
            continue;
        }
        let word = format!("7{:05}", std::process::id() % 100_000);
        let mut child = session(level, folder.path(), &word);
        let all = if level == "none" { 2 } else { 1 };
        eventually("both run", || marked(&word) >= all);
        child.kill().unwrap();
        child.wait().unwrap();
        eventually(&format!("{level}: nothing is left"), || marked(&word) == 0);
    }
}

#[test]
fn many_processes_end_with_the_sandbox() {
    for scene in levels(true) {
        let word = format!("8{:05}", std::process::id() % 100_000);
        let bomb = format!(
            "f() {{ [ $1 -gt 0 ] && {{ f $(($1-1)) & f $(($1-1)) & }}; sleep {word}; }}; f 6 & sleep 0.3"
        );
        scene.shell(&bomb);
        eventually("they run", || marked(&word) > 50);
        let level = scene.sandbox.level();
        drop(scene);
        eventually(&format!("{level}: all are gone"), || marked(&word) == 0);
    }
}

#[test]
fn a_second_set_of_rights_shares_processes_and_loopback_but_not_files() {
    let Some(scene) = Scene::new(Level::Namespaces, false) else { return };
    fs::create_dir(scene.path("extra")).unwrap();
    let more = SandboxRequest {
        allowed: vec![scene.path("extra")],
        network: false,
        ..request(scene.folder.path(), Level::Namespaces)
    };
    let second = scene.sandbox.with_rights(&more).unwrap();
    let (status, said) =
        scene.shell("python3 -m http.server --bind 127.0.0.1 8124 >/dev/null 2>&1 & echo $!");
    assert!(status.success(), "{said}");
    let extra = format!("touch {0}/made", scene.path("extra").display());
    assert!(!scene.shell(&extra).0.success());
    let scene = Scene { sandbox: second, ..scene };
    assert!(scene.shell(&extra).0.success() && !scene.shell("touch $HOME/outside").0.success());
    let fetch = "for i in $(seq 100); do \
                 python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8124/own\").read())' \
                 2>/dev/null && exit 0; sleep 0.1; done; exit 1";
    let (status, page) = scene.shell(fetch);
    assert!(status.success() && page.contains("mine"), "{page}");
}

#[test]
fn files_that_appear_or_are_replaced_during_a_session_are_protected_and_hidden() {
    for scene in levels(true).filter(|scene| scene.sandbox.level() != Level::Landlock) {
        let level = scene.sandbox.level();
        #[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
        let write = |path: &str, text: &str| fs::write(scene.path(path), text).unwrap();
        assert!(scene.shell("true").0.success());
        write("home/.netrc", "SECRET");
        write("w/.envrc", "mine");
        write("new", "[core]\n");
        fs::rename(scene.path("new"), scene.path("w/.git/config")).unwrap();
        for attempt in ["cat $HOME/.netrc", "echo x > .envrc", "echo x >> .git/config"] {
            let (status, said) = scene.shell(attempt);
            assert!(!status.success() && !said.contains("SECRET"), "{level}: {attempt}: {said}");
        }
    }
}

#[test]
fn a_workspace_that_was_replaced_is_not_entered() {
    for scene in levels(true) {
        assert!(scene.shell("true").0.success());
        fs::rename(scene.path("w"), scene.path("old")).unwrap();
        std::os::unix::fs::symlink(scene.path("home"), scene.path("w")).unwrap();
        let null = fs::File::open("/dev/null").unwrap();
        use std::os::fd::AsFd as _;
        let start = pollux_sandbox::holder::Start {
            program: "/bin/sh".as_ref(),
            arguments: vec!["-c".as_ref(), "true".as_ref()],
            directory: Path::new("/"),
            environment: &[],
            streams: [null.as_fd(), null.as_fd(), null.as_fd()],
        };
        let error = scene.sandbox.start(&start).unwrap_err().to_string();
        assert!(error.contains("was replaced by another folder"), "{error}");
    }
}

#[test]
fn a_listener_inside_is_handed_out_and_nothing_else_leads_out() {
    use std::io::{Read as _, Write as _};
    for level in [Level::Namespaces, Level::Bubblewrap] {
        let Some(folder) = scratch() else { return };
        let base = folder.path();
        for path in ["home", "w"] {
            fs::create_dir_all(base.join(path)).unwrap();
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let open = move |opened: Vec<(u16, std::net::TcpListener)>| sender.send(opened).unwrap();
        let doors = pollux_sandbox::Doors {
            ports: vec![3128],
            open: std::sync::Arc::new(open),
            variables: vec![("HTTP_PROXY".to_owned(), "http://127.0.0.1:3128".to_owned())],
        };
        let grants = pollux_sandbox::Grants { doors: Some(doors), ..Default::default() };
        let Ok(sandbox) = Sandbox::open(&SandboxRequest { network: false, grants, ..request(base, level) })
        else {
            continue;
        };
        assert!(sandbox.confinement().proxied && !sandbox.confinement().network);
        let (port, listener) = receiver.recv().unwrap().pop().unwrap();
        assert_eq!(port, 3128);
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut said = [0; 5];
            stream.read_exact(&mut said).unwrap();
            stream.write_all(b"answer").unwrap();
            said
        });
        let scene = Scene { sandbox, outside: crate::scene::Outside::new(), folder, _sockets: Vec::new() };
        let ask = "import socket as s\nc = s.create_connection((\"127.0.0.1\", 3128))\nc.sendall(b\"hello\")\nprint(c.recv(9))";
        let (status, said) =
            scene.shell(&format!("echo $HTTP_PROXY $POLLUX_SANDBOX_NETWORK; python3 -c '{ask}'"));
        assert!(
            status.success() && said.contains("3128 proxy") && said.contains("answer"),
            "{level}: {said}"
        );
        assert_eq!(&served.join().unwrap(), b"hello");
        // The listener is gone, and there is no other way.
        let (status, said) = scene.shell(&format!("python3 -c '{ask}'"));
        assert!(!status.success(), "{level}: {said}");
    }
}

#[test]
fn a_right_ends_with_its_holder_whatever_its_commands_do() {
    let Some(scene) = Scene::new(Level::Namespaces, false) else { return };
    fs::create_dir(scene.path("extra")).unwrap();
    let grants = pollux_sandbox::Grants { visible: vec![scene.path("home/.ssh")], ..Default::default() };
    let more = SandboxRequest {
        allowed: vec![scene.path("extra")],
        network: false,
        grants,
        ..request(scene.folder.path(), Level::Namespaces)
    };
    let second = scene.sandbox.with_rights(&more).unwrap();
    let word = format!("ending-{}", std::process::id());
    // A daemon with its own session, and the process that started it killed as far as that is possible.
    let daemon = format!(
        "cat ~/.ssh/id; (setsid setsid sh -c 'trap \"\" TERM HUP; while :; do date > {0}/alive; sleep 0.05; done' {word} &) ; \
         sleep 0.3; kill -9 $PPID; true",
        scene.path("extra").display()
    );
    // The first sandbox, whose processes these are too, stays.
    let with = Scene { sandbox: second, ..scene };
    let (_, said) = with.shell(&daemon);
    assert!(said.contains("SECRET"), "{said}");
    eventually("the daemon runs", || with.path("extra/alive").exists());
    let Scene { sandbox, folder, .. } = with;
    drop(sandbox);
    assert_eq!(marked(&word), 0, "a process kept the right");
    fs::remove_file(folder.path().join("extra/alive")).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(!folder.path().join("extra/alive").exists());
}

#[test]
fn the_end_of_a_right_kills_no_program_that_started_after_its_processes_had_ended() {
    let Some(scene) = Scene::new(Level::Namespaces, false) else { return };
    let more = SandboxRequest { network: false, ..request(scene.folder.path(), Level::Namespaces) };
    let with = Scene { sandbox: scene.sandbox.with_rights(&more).unwrap(), ..scene };
    let view = with.shell("readlink /proc/self/ns/mnt").1.trim().to_owned();
    assert!(view.starts_with("mnt:["), "{view}");
    let inside = || {
        let all = process_table::processes().into_iter().map(|process| process.id);
        let is_inside = |id: &i32| {
            fs::read_link(format!("/proc/{id}/ns/mnt")).is_ok_and(|own| own.as_os_str() == view.as_str())
        };
        all.filter(is_inside).collect::<Vec<_>>()
    };
    for process in inside() {
        let _ = Command::new("kill").args(["-9", &process.to_string()]).status();
    }
    eventually("all have ended", || inside().is_empty());
    // The kernel gives the lowest free number to the next view.
    let user: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["--user"] };
    let mut others: Vec<Child> = (0..32)
        .map_while(|_| {
            let sleeps = ["--mount", "sleep", "600"];
            let unshare = Command::new("unshare").args(user).args(sleeps).stderr(Stdio::null()).spawn();
            unshare.ok()
        })
        .collect();
    let own = fs::read_link("/proc/self/ns/mnt").unwrap();
    let is_apart = |other: &mut Child| {
        let has_ended = other.try_wait().unwrap().is_some();
        has_ended || fs::read_link(format!("/proc/{}/ns/mnt", other.id())).is_ok_and(|view| view != own)
    };
    eventually("all have their views", || others.iter_mut().all(is_apart));
    let mut number =
        || others.iter_mut().filter_map(|other| other.try_wait().ok()).filter(Option::is_none).count();
    let before = number();
    let Scene { sandbox, .. } = with;
    drop(sandbox);
    std::thread::sleep(Duration::from_millis(100));
    let after = number();
    for mut other in others {
        let _ = other.kill();
        let _ = other.wait();
    }
    assert_eq!(after, before, "programs of others were killed");
}

#[test]
fn a_level_that_worked_before_starts_no_process_until_the_first_command() {
    for first in levels(true) {
        let level = first.sandbox.level();
        let temp = first.path("temp");
        fs::create_dir(&temp).unwrap();
        let asked = SandboxRequest { temp: temp.clone(), ..request(first.folder.path(), level) };
        let open = || Sandbox::open_at(&asked, Trial::UnlessKnown).unwrap();
        let known = || fs::read_to_string(first.path("home/.gemini/sandbox-trials")).unwrap_or_default();
        let folders = || fs::read_dir(&temp).unwrap().count();
        drop(open());
        assert_eq!(known().lines().count(), 1, "{level}");
        let sandbox = open();
        assert_eq!((sandbox.level(), folders()), (level, 0));
        let scene = Scene { sandbox, ..first };
        assert!(scene.shell("echo x > new").0.success() && !scene.shell("echo x > $HOME/new").0.success());
    }
}

#[test]
fn a_remembered_level_that_fails_runs_no_command_and_is_forgotten() {
    for scene in levels(true).filter(|scene| scene.sandbox.level() != Level::Landlock) {
        let temp = scene.path("temp");
        fs::create_dir(&temp).unwrap();
        let asked =
            SandboxRequest { temp: temp.clone(), ..request(scene.folder.path(), scene.sandbox.level()) };
        let open = || Sandbox::open_at(&asked, Trial::UnlessKnown).unwrap();
        drop(open());
        let sandbox = open();
        fs::remove_dir(&temp).unwrap();
        let null = fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let made = scene.path("w/made");
        let start = Start {
            program: "/usr/bin/touch".as_ref(),
            arguments: vec![made.as_os_str()],
            directory: Path::new("/"),
            environment: &[],
            streams: [null.as_fd(), null.as_fd(), null.as_fd()],
        };
        let error = sandbox.start(&start).unwrap_err().to_string();
        assert!(error.starts_with("could not enter the sandbox: "), "{error}");
        assert!(!made.exists());
        assert_eq!(fs::read_to_string(scene.path("home/.gemini/sandbox-trials")).unwrap(), "");
    }
}
