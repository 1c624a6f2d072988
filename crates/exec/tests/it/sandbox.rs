//! Commands in each sandbox that works on this machine.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_exec::background::Background;
use pollux_exec::program::{self, Program, ProgramEnding};
use pollux_exec::sandbox::{Level, Sandbox, SandboxRequest};
use pollux_exec::shell::{Ending, Finished, ShellCommand, ShellEnd, run};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::shell::{eventually, is_alive};

/// A home with a key, and a workspace with a repository.
struct Scene {
    folder: TempDir,
    background: Background,
    sandbox: Arc<Sandbox>,
}

impl Scene {
    fn new(level: Level, change: impl FnOnce(&mut SandboxRequest)) -> Option<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // The folders for temporary files have rules of their own.
        if target.starts_with("/tmp") || target.starts_with("/var/tmp") {
            #[expect(clippy::print_stderr, reason = "whoever runs the tests should know")]
            {
                eprintln!("not tested: cargo's target directory is below {}", target.display());
            }
            return None;
        }
        let folder = TempDir::new_in(target).unwrap();
        let base = folder.path();
        for path in
            ["home/.ssh", "home/.aws", "home/.cache", "home/.gemini", "home/notes", "w/.git/hooks", "w/src"]
        {
            fs::create_dir_all(base.join(path)).unwrap();
        }
        for (path, text) in [
            ("home/.ssh/id", "SECRET"),
            ("home/.aws/config", "region"),
            ("home/.aws/credentials", "SECRET"),
            ("home/.netrc", "SECRET"),
            ("home/.gemini/oauth_creds.json", "SECRET"),
            ("home/notes/plain", "readable"),
            ("w/.git/HEAD", "ref: refs/heads/main\n"),
            ("w/.git/config", "[core]\n"),
        ] {
            fs::write(base.join(path), text).unwrap();
        }
        let mut request = SandboxRequest {
            roots: vec![base.join("w")],
            allowed: Vec::new(),
            homes: vec![base.join("home")],
            gemini_dir: base.join("home/.gemini"),
            temp: "/tmp".into(),
            search_path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
            network: true,
            level: Some(level),
        };
        change(&mut request);
        match Sandbox::open(&request) {
            Ok(sandbox) => Some(Self {
                background: Background::new(base.join("logs")),
                sandbox: Arc::new(sandbox),
                folder,
            }),
            Err(why) => {
                #[expect(clippy::print_stderr, reason = "whoever runs the tests should know")]
                {
                    eprintln!("not tested: {why}");
                }
                None
            }
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn command(&self, text: &str) -> ShellCommand {
        ShellCommand {
            text: text.to_owned(),
            directory: self.path("w"),
            environment: vec![
                ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
                ("HOME".to_owned(), self.path("home").display().to_string()),
                ("SSH_AUTH_SOCK".to_owned(), "/tmp/agent".to_owned()),
            ],
            inactivity: None,
            background_after: None,
            sandbox: Some(Arc::clone(&self.sandbox)),
        }
    }

    async fn run(&self, text: &str) -> Finished {
        let end = run(&self.command(text), &self.background, &|_| {}, &CancellationToken::new()).await;
        match end.unwrap() {
            ShellEnd::Finished(finished) => finished,
            ShellEnd::MovedToBackground { pid } => panic!("{pid} went to the background"),
        }
    }

    /// Runs a command that must succeed.
    async fn succeeds(&self, text: &str) -> String {
        let result = self.run(text).await;
        let output = result.output.text();
        assert_eq!(result.ending, Ending::Exited(0), "{}: {text}: {output}", self.sandbox.level());
        output
    }

    /// Runs a command that must fail.
    async fn fails(&self, text: &str) -> String {
        let result = self.run(text).await;
        let output = result.output.text();
        assert_ne!(result.ending, Ending::Exited(0), "{}: {text}: {output}", self.sandbox.level());
        output
    }
}

/// A scene for each level that works here.
fn scenes(change: impl Fn(&mut SandboxRequest)) -> Vec<Scene> {
    [Level::Bubblewrap, Level::Landlock].into_iter().filter_map(|level| Scene::new(level, &change)).collect()
}

#[tokio::test]
async fn only_the_workspace_caches_and_temporary_files_can_be_written() {
    for scene in scenes(|_| {}) {
        scene.succeeds("echo a > new && mkdir -p src/deep && mv new src/deep/ && rm -r src/deep").await;
        scene.succeeds("echo a > $HOME/.cache/x").await;
        scene.succeeds("echo kept > /tmp/kept-$PPID 2>/dev/null || exit 1; d=$(mktemp -d) && rmdir $d").await;
        let said = scene.fails("touch $HOME/outside").await;
        assert!(scene.sandbox.explanation(&said).is_some(), "{said}");
        for outside in
            ["echo >> $HOME/notes/plain", "rm $HOME/notes/plain", "mkdir /usr/x", "touch ../beside"]
        {
            scene.fails(outside).await;
        }
        scene.fails("truncate -s 0 $HOME/notes/plain").await;
        assert_eq!(fs::read_to_string(scene.path("home/notes/plain")).unwrap(), "readable");
        assert!(!scene.path("home/outside").exists() && !scene.path("beside").exists());
    }
}

#[tokio::test]
async fn temporary_files_last_from_command_to_command() {
    for scene in scenes(|_| {}) {
        let name = format!("/tmp/{}", scene.folder.path().file_name().unwrap().display());
        scene.succeeds(&format!("echo kept > {name}")).await;
        assert_eq!(scene.succeeds(&format!("cat {name} && rm {name}")).await, "kept");
    }
}

#[tokio::test]
async fn secrets_cannot_be_read() {
    for scene in scenes(|_| {}) {
        symlink(scene.path("home/.ssh"), scene.path("w/keys")).unwrap();
        for secret in [
            "cat $HOME/.ssh/id",
            "cat keys/id",
            "cat $HOME/.netrc",
            "cat $HOME/.gemini/oauth_creds.json",
            "cp -r $HOME/.ssh stolen && cat stolen/id",
        ] {
            let said = scene.fails(secret).await;
            assert!(!said.contains("SECRET"), "{said}");
        }
        assert_eq!(scene.succeeds("cat $HOME/notes/plain").await, "readable");
    }
}

#[tokio::test]
async fn links_do_not_lead_out() {
    for scene in scenes(|_| {}) {
        symlink(scene.path("home/notes"), scene.path("w/notes")).unwrap();
        scene.fails("echo x > notes/new").await;
        scene.fails("echo x > notes/plain").await;
        scene.fails("ln -s $HOME/notes other && echo x > other/plain").await;
        scene.fails("ln $HOME/notes/plain hard && echo x > hard").await;
        scene.fails("echo x > inside && ln inside $HOME/notes/hard").await;
        scene.fails("mv $HOME/notes/plain stolen").await;
        assert_eq!(fs::read_to_string(scene.path("home/notes/plain")).unwrap(), "readable");
    }
}

#[tokio::test]
async fn what_makes_other_programs_run_something_cannot_be_created_or_changed() {
    // Landlock has no exceptions from what it allows.
    let Some(scene) = Scene::new(Level::Bubblewrap, |_| {}) else { return };
    for attempt in [
        "mkdir -p .gemini && echo {} > .gemini/settings.json",
        "mv .gemini away; mkdir .gemini && echo {} > .gemini/settings.json",
        "echo x > .git/hooks/pre-commit",
        "echo x >> .git/config",
        "echo x > new && mv -f new .git/config",
        "mv .git .old && mkdir .git && cp -r .old/hooks .git/ && echo x > .git/hooks/pre-commit",
        "rm -rf .git/hooks && mkdir .git/hooks",
        "echo x > .envrc",
        "rm -rf .envrc && echo x > .envrc",
        "mkdir -p .vscode && echo {} > .vscode/tasks.json",
    ] {
        scene.fails(attempt).await;
    }
    scene.succeeds("echo x > .git/index && mkdir -p .git/objects && touch .git/objects/x").await;
    assert!(scene.path("w/.git/HEAD").exists());
    let root = scene.path("w");
    let Scene { folder, sandbox, background } = scene;
    drop((sandbox, background));
    assert!(!root.join(".gemini").exists() && !root.join(".envrc").exists(), "placeholders are gone");
    drop(folder);
}

#[tokio::test]
async fn borders_cannot_be_taken_down_from_inside() {
    for scene in scenes(|_| {}) {
        scene.fails("mount -o remount,rw,bind / && touch $HOME/outside").await;
        scene.fails("umount $HOME/.ssh && cat $HOME/.ssh/id").await;
        let nested =
            "unshare -Urm sh -c 'mount -o remount,rw,bind /; umount -l $HOME/.ssh; cat $HOME/.ssh/id'";
        scene.fails(nested).await;
        // Through the file system of a process outside, and its variables.
        let outside = std::process::id();
        let secret = scene.path("home/.ssh/id");
        scene.fails(&format!("cat /proc/{outside}/root{}", secret.display())).await;
        scene.fails(&format!("head -c 1 /proc/{outside}/environ")).await;
    }
}

#[tokio::test]
async fn sockets_of_daemons_cannot_be_reached() {
    let temp = TempDir::new().unwrap();
    let in_temp = temp.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&in_temp).unwrap();
    for scene in scenes(|_| {}) {
        let in_docker = scene.path("home/.docker");
        fs::create_dir(&in_docker).unwrap();
        let connect = |path: &Path| {
            format!(
                "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\"); print(\"reached\")'",
                path.display()
            )
        };
        let said = scene.fails(&connect(&in_temp)).await;
        assert!(!said.contains("reached"), "{said}");
        assert_eq!(
            scene.succeeds("echo \"[$SSH_AUTH_SOCK]\"; ls -A /run/user 2>/dev/null; true").await,
            "[]"
        );
    }
}

#[tokio::test]
async fn the_network_can_be_switched_off() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    for scene in scenes(|_| {}) {
        scene.succeeds(&connect).await;
    }
    for scene in scenes(|request| request.network = false) {
        scene.fails(&connect).await;
        let why = scene.sandbox.explanation("curl: (6) Could not resolve host: example.org").unwrap();
        assert!(why.contains("tools.sandboxNetworkAccess"), "{why}");
    }
}

#[tokio::test]
async fn commands_work_as_they_do_outside() {
    for scene in scenes(|_| {}) {
        assert_eq!(scene.run("exit 7").await.ending, Ending::Exited(7));
        let signalled = scene.run("kill -9 $$").await.ending;
        // A wrapper passes signals on as shells do.
        assert!(matches!(signalled, Ending::Signalled(9) | Ending::Exited(137)), "{signalled:?}");
        assert_eq!(scene.succeeds("pwd").await, fs::canonicalize(scene.path("w")).unwrap().to_str().unwrap());
        assert_eq!(
            scene.succeeds("echo a > /dev/null; echo out > /dev/stdout; echo b | cat").await,
            "out\nb"
        );
        assert_eq!(scene.succeeds("cat <(echo sub)").await, "sub");
        let order = scene.succeeds("echo 1; echo 2 >&2; echo 3; ls $HOME > /dev/null").await;
        assert_eq!(order, "1\n2\n3");
        let level = scene.sandbox.level().as_str();
        assert_eq!(scene.succeeds("echo $SANDBOX").await, level);
        let missing = ShellCommand { environment: Vec::new(), ..scene.command("echo found") };
        let end = run(&missing, &scene.background, &|_| {}, &CancellationToken::new()).await.unwrap();
        let ShellEnd::Finished(finished) = end else { panic!("moved") };
        assert_eq!(finished.output.text(), "found");
    }
}

#[tokio::test]
async fn git_commits_in_the_workspace() {
    let git = "git -c user.name=a -c user.email=a@b.c -c safe.directory=*";
    for scene in scenes(|_| {}) {
        fs::remove_dir_all(scene.path("w/.git")).unwrap();
        let made =
            std::process::Command::new("git").args(["init", "-q"]).current_dir(scene.path("w")).status();
        if !made.is_ok_and(|status| status.success()) {
            return;
        }
        scene.succeeds(&format!("echo x > a && {git} add -A && {git} commit -qm first")).await;
        assert_eq!(scene.succeeds(&format!("{git} ls-files && {git} status --short")).await, "a");
    }
}

#[tokio::test]
async fn what_is_left_running_can_be_ended_by_a_later_command_and_ends_with_the_run() {
    for scene in scenes(|_| {}) {
        let started = scene.run("sleep 600 & sleep 601 & echo hi").await;
        assert_eq!(started.output.text(), "hi");
        let [first, second] = started.background_pids[..] else { panic!("{:?}", started.background_pids) };
        scene.succeeds(&format!("kill {first}")).await;
        eventually("the first is gone", || !is_alive(first)).await;
        assert!(is_alive(second));
        drop(scene);
        eventually("leftovers end with the registry", || !is_alive(second)).await;
    }
}

#[tokio::test]
async fn cancelling_ends_the_whole_group() {
    for scene in scenes(|_| {}) {
        let given = scene.command("sleep 600 & echo $! > pid; sleep 600");
        let cancel = CancellationToken::new();
        let pid_file = scene.path("w/pid");
        let read = || fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse::<u32>().ok());
        let stop = async {
            eventually("the pid is written", || read().is_some()).await;
            cancel.cancel();
        };
        let watcher = |_: &str| {};
        let (end, ()) = tokio::join!(run(&given, &scene.background, &watcher, &cancel), stop);
        let ShellEnd::Finished(result) = end.unwrap() else { panic!("moved") };
        assert_eq!(result.ending, Ending::Cancelled);
        let sleeper = read().unwrap();
        eventually("the sleeper is gone", || !is_alive(sleeper)).await;
    }
}

#[tokio::test]
async fn a_background_command_writes_its_log_outside_and_stays_inside() {
    for scene in scenes(|_| {}) {
        let mut given = scene.command("echo begun; touch $HOME/outside; echo code $?; sleep 600");
        given.background_after = Some(std::time::Duration::from_millis(50));
        let end = run(&given, &scene.background, &|_| {}, &CancellationToken::new()).await.unwrap();
        let ShellEnd::MovedToBackground { pid } = end else { panic!("{end:?}") };
        let log = scene.background.find(pid).unwrap().log;
        eventually("the log has it", || fs::read_to_string(&log).is_ok_and(|text| text.contains("code 1")))
            .await;
        assert!(!scene.path("home/outside").exists());
        scene.background.shutdown().await;
        eventually("it is gone", || !is_alive(pid)).await;
    }
}

#[tokio::test]
async fn a_program_without_a_shell_is_confined_too() {
    for scene in scenes(|_| {}) {
        let ShellCommand { directory, environment, sandbox, .. } = scene.command("");
        let mut program = Program {
            program: "touch".into(),
            arguments: vec![scene.path("home/outside").display().to_string()],
            directory,
            environment,
            input: Vec::new(),
            time_limit: None,
            output_limit: 1000,
            sandbox,
        };
        let end = program::run(&program, &scene.background, &CancellationToken::new()).await.unwrap();
        assert_eq!(end.ending, ProgramEnding::Exited(1), "{:?}", end.stderr);
        program.program = "no-such-program".into();
        let missing = program::run(&program, &scene.background, &CancellationToken::new()).await;
        assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn the_user_can_allow_more() {
    let allow = |request: &mut SandboxRequest| {
        let home = request.homes[0].clone();
        request.allowed = vec![home.join(".ssh"), home.join("notes"), home.join(".aws/config")];
    };
    for scene in scenes(allow) {
        assert_eq!(scene.succeeds("cat $HOME/.ssh/id").await, "SECRET");
        assert_eq!(scene.succeeds("cat $HOME/.aws/config").await, "region");
        scene.fails("cat $HOME/.aws/credentials").await;
        scene.fails("touch $HOME/.aws/new").await;
        scene.succeeds("echo x > $HOME/notes/new").await;
        scene.fails("cat $HOME/.netrc").await;
    }
}
