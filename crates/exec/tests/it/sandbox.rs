//! Commands in each sandbox that works on this machine.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_exec::background::Background;
use pollux_exec::program::{self, Program, ProgramEnding};
use pollux_exec::shell::{Ending, Finished, ShellCommand, ShellEnd, run};
use pollux_sandbox::process_table;
use pollux_sandbox::{Level, Sandbox, SandboxRequest};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::shell::{eventually, is_alive};

/// A home with a key, and a workspace with a repository.
pub(crate) struct Scene {
    folder: TempDir,
    background: Background,
    sandbox: Arc<Sandbox>,
}

impl Scene {
    pub(crate) fn new(level: Level, change: impl FnOnce(&mut SandboxRequest)) -> Option<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // The temporary folders have their own rules.
        if target.starts_with("/tmp") || target.starts_with("/var/tmp") {
            #[expect(clippy::print_stderr, reason = "whoever runs the tests should know")]
            {
                eprintln!("not tested: cargo's target directory is below {}", target.display());
            }
            return None;
        }
        let folder = TempDir::new_in(target).unwrap();
        let base = folder.path();
        for path in [
            "home/.ssh",
            "home/.aws",
            "home/.cache/pip",
            "home/.gemini",
            "home/notes",
            "w/.git/hooks",
            "w/src",
        ] {
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
            grants: pollux_sandbox::Grants::default(),
            container: None,
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

    pub(crate) fn background(&self) -> &Background {
        &self.background
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn command(&self, text: &str) -> ShellCommand {
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
    pub(crate) async fn succeeds(&self, text: &str) -> String {
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

#[tokio::test]
async fn commands_of_several_sandboxes_in_the_background_have_logs_of_their_own() {
    let scenes: Vec<Scene> = (0..3).filter_map(|_| Scene::new(Level::Namespaces, |_| {})).collect();
    let logs = TempDir::new().unwrap();
    // The first two belong to one session, as after a change of its mode.
    let sessions = [Background::new(logs.path().join("l")), Background::new(logs.path().join("l"))];
    let mut known = Vec::new();
    for (index, scene) in scenes.iter().enumerate() {
        let background = &sessions[index / 2];
        let mut command = scene.command(&format!("echo I am {index}; sleep 60"));
        command.background_after = Some(std::time::Duration::from_millis(300));
        let end = run(&command, background, &|_| {}, &CancellationToken::new()).await.unwrap();
        let ShellEnd::MovedToBackground { pid } = end else { panic!("{end:?}") };
        known.push((background, pid, format!("I am {index}")));
    }
    for (background, pid, said) in known {
        let process = background.find(pid).unwrap();
        eventually("it is logged", || {
            pollux_exec::background::read_log_tail(&process.log, 5)
                .is_ok_and(|tail| tail.lines == [said.as_str()])
        })
        .await;
        assert!(background.end(pid).await);
    }
}

/// A scene for each level that works here.
fn scenes(change: impl Fn(&mut SandboxRequest)) -> Vec<Scene> {
    [Level::Namespaces, Level::Bubblewrap, Level::Landlock]
        .into_iter()
        .filter_map(|level| Scene::new(level, &change))
        .collect()
}

/// The number by which this process knows a process of a sandbox that works in the workspace. Sandboxes of other tests
/// have the same numbers inside.
fn outside(scene: &Scene, own: u32) -> Option<u32> {
    let place = |path: &Path| fs::metadata(path).ok().map(|folder| (folder.dev(), folder.ino()));
    let workspace = place(&scene.path("w"));
    let all = process_table::family_of(std::process::id().cast_signed());
    let mut all = all.into_iter().map(i32::cast_unsigned);
    all.find(|id| {
        process_table::own_number(*id) == own && place(format!("/proc/{id}/cwd").as_ref()) == workspace
    })
}

#[tokio::test]
async fn only_the_workspace_caches_and_temporary_files_can_be_written() {
    for scene in scenes(|_| {}) {
        scene.succeeds("echo a > new && mkdir -p src/deep && mv new src/deep/ && rm -r src/deep").await;
        scene.succeeds("echo a > $HOME/.cache/pip/x").await;
        scene.succeeds("echo kept > /tmp/kept-$PPID 2>/dev/null || exit 1; d=$(mktemp -d) && rmdir $d").await;
        let said = scene.fails("touch $HOME/outside").await;
        let why = scene.sandbox.explanation(&said).unwrap_or_default();
        assert!(!why.is_empty() && !why.contains("single file"), "{said}: {why}");
        let why = scene.sandbox.explanation("mv: cannot move 'a' to 'b': Device or resource busy");
        assert!(why.is_some_and(|why| why.contains("written, but not renamed, replaced or removed")));
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
async fn links_do_not_lead_out_of_the_sandbox() {
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
async fn files_that_configure_other_programs_cannot_be_changed() {
    // Landlock rules have no exceptions.
    for scene in [Level::Namespaces, Level::Bubblewrap].iter().filter_map(|level| Scene::new(*level, |_| {}))
    {
        fs::create_dir(scene.path("w/.vscode")).unwrap();
        fs::write(scene.path("w/.envrc"), "").unwrap();
        for attempt in [
            "echo x > .git/hooks/pre-commit",
            "echo x >> .git/config",
            "echo x > new && mv -f new .git/config",
            "mv .git .old && mkdir .git && cp -r .old/hooks .git/ && echo x > .git/hooks/pre-commit",
            "rm -rf .git/hooks && mkdir .git/hooks",
            "echo {} > .vscode/tasks.json",
            "mv .vscode away; mkdir .vscode && echo {} > .vscode/tasks.json",
            "rm -rf .envrc && echo x > .envrc",
        ] {
            scene.fails(attempt).await;
        }
        scene.succeeds("echo x > .git/index && mkdir -p .git/objects && touch .git/objects/x").await;
        assert!(scene.path("w/.git/HEAD").exists());
    }
}

#[tokio::test]
async fn the_sandbox_cannot_be_lifted_from_inside() {
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
async fn the_network_can_be_disabled() {
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
        assert_eq!(signalled, Ending::Signalled(9));
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
        let made = pollux_test_support::git(scene.path("w")).args(["init", "-q"]).status();
        if !made.is_ok_and(|status| status.success()) {
            return;
        }
        scene.succeeds(&format!("echo x > a && {git} add -A && {git} commit -qm first")).await;
        assert_eq!(scene.succeeds(&format!("{git} ls-files && {git} status --short")).await, "a");
    }
}

#[tokio::test]
async fn leftover_processes_can_be_killed_by_a_later_command_and_end_with_the_run() {
    for scene in scenes(|_| {}) {
        let started = scene.run("sleep 600 & sleep 601 & echo hi").await;
        assert_eq!(started.output.text(), "hi");
        let [first, second] = started.background_pids[..] else { panic!("{:?}", started.background_pids) };
        let [outer_first, second] = [first, second].map(|pid| outside(&scene, pid).unwrap());
        scene.succeeds(&format!("kill {first}")).await;
        let first = outer_first;
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
            let sleeper = outside(&scene, read().unwrap()).unwrap();
            cancel.cancel();
            sleeper
        };
        let watcher = |_: &str| {};
        let (end, sleeper) = tokio::join!(run(&given, &scene.background, &watcher, &cancel), stop);
        let ShellEnd::Finished(result) = end.unwrap() else { panic!("moved") };
        assert_eq!(result.ending, Ending::Cancelled);
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
        let pid = outside(&scene, pid).unwrap();
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

/// The environments for commands at every level, and without one; the second is the name of the level.
fn everywhere() -> Vec<(Scene, Option<Arc<Sandbox>>)> {
    let mut all: Vec<_> = scenes(|_| {})
        .into_iter()
        .map(|scene| {
            let sandbox = Some(Arc::clone(&scene.sandbox));
            (scene, sandbox)
        })
        .collect();
    all.extend(Scene::new(Level::Landlock, |_| {}).map(|scene| (scene, None)));
    all
}

/// Open files and folders that a child would inherit by default.
fn left_open(paths: &[PathBuf]) -> Vec<fs::File> {
    let open = |path: &PathBuf| {
        let file = fs::File::open(path).unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        file
    };
    paths.iter().map(open).collect()
}

#[tokio::test]
async fn no_kind_of_child_inherits_a_descriptor_at_any_level() {
    use std::os::fd::AsRawFd as _;
    for (scene, sandbox) in everywhere() {
        let open = left_open(&[scene.path("home/.ssh"), scene.path("home/.ssh/id")]);
        let (folder, file) = (open[0].as_raw_fd(), open[1].as_raw_fd());
        let probe = format!("ls -l /proc/self/fd; cat /proc/self/fd/{folder}/id /proc/self/fd/{file}");
        let check = |kind: &str, said: &str| {
            let level = sandbox.as_ref().map(|sandbox| sandbox.level());
            assert!(said.contains(" 0 -> "), "{level:?} {kind}: {said}");
            assert!(!said.contains("SECRET") && !said.contains(".ssh -> "), "{level:?} {kind}: {said}");
            let inherited = said.lines().filter_map(|line| Some(line.split_once(" -> ")?.1));
            let odd = inherited.filter(|to| !(to.starts_with("pipe:") || to.starts_with("/dev/null")));
            // The folder that `ls` itself reads.
            let odd: Vec<&str> = odd.filter(|to| !to.ends_with("/fd")).collect();
            assert!(odd.is_empty(), "{level:?} {kind}: {odd:?}");
        };
        let given = ShellCommand { sandbox: sandbox.clone(), ..scene.command(&probe) };
        let end = run(&given, &scene.background, &|_| {}, &CancellationToken::new()).await.unwrap();
        let ShellEnd::Finished(finished) = end else { panic!("moved") };
        check("shell", &finished.output.text());

        let program = Program {
            program: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), format!("{{ {probe}; }} 2>&1")],
            directory: given.directory.clone(),
            environment: given.environment.clone(),
            input: Vec::new(),
            time_limit: None,
            output_limit: 1 << 20,
            sandbox: sandbox.clone(),
        };
        let end = program::run(&program, &scene.background, &CancellationToken::new()).await.unwrap();
        check("program", &String::from_utf8_lossy(&end.stdout));

        let mut given =
            ShellCommand { sandbox: sandbox.clone(), ..scene.command(&format!("{probe}; sleep 600")) };
        given.background_after = Some(std::time::Duration::from_millis(50));
        let end = run(&given, &scene.background, &|_| {}, &CancellationToken::new()).await.unwrap();
        let ShellEnd::MovedToBackground { pid } = end else { panic!("{end:?}") };
        let log = scene.background.find(pid).unwrap().log;
        let said = || fs::read_to_string(&log).unwrap_or_default();
        eventually("it tried", || said().matches("cat: ").count() == 2).await;
        check("background", &said());
        scene.background.shutdown().await;
    }
}

#[tokio::test]
async fn other_terminals_cannot_be_opened() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    assert!(fs::OpenOptions::new().write(true).open(&name).is_ok(), "it can be opened outside");
    for scene in scenes(|_| {}) {
        scene.fails(&format!("echo drawn > {name}")).await;
        scene.fails(&format!("exec 3< {name}")).await;
    }
}

#[tokio::test]
async fn processes_outside_cannot_be_signalled() {
    for scene in scenes(|_| {}) {
        if scene.sandbox.confinement().signals_outside {
            continue;
        }
        let mut outside = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let said = scene.fails(&format!("kill -9 {}", outside.id())).await;
        // In another namespace of processes there is no such process.
        assert!(said.contains("not permitted") || said.contains("No such process"), "{said}");
        // All processes but their own are out of reach.
        scene.run("trap '' TERM; kill -TERM -1").await;
        assert!(is_alive(outside.id()));
        outside.kill().unwrap();
        outside.wait().unwrap();
    }
}

#[tokio::test]
async fn a_protected_file_that_appears_is_renamed_and_reported() {
    for scene in scenes(|_| {}) {
        let level = scene.sandbox.level();
        let renamed = |name: &str| scene.path(&format!("w/{name}.sandbox-blocked-1"));
        scene
            .run("mkdir -p .gemini && echo {} > .gemini/settings.json; echo x > .envrc; ln -s src .vscode")
            .await;
        let notice = scene.sandbox.take_notice().unwrap();
        for name in [".gemini", ".envrc", ".vscode"] {
            assert!(scene.path(&format!("w/{name}")).symlink_metadata().is_err(), "{level}: {name}");
            assert!(renamed(name).symlink_metadata().is_ok(), "{level}: {name}");
            assert!(notice.contains(&format!("{name}.sandbox-blocked-1")), "{notice}");
        }
        assert_eq!(fs::read_to_string(renamed(".envrc")).unwrap(), "x\n", "nothing is lost");
        scene.run("echo y > .envrc; mv src .vscode").await;
        assert!(!scene.path("w/.envrc").exists() && !scene.path("w/.vscode").exists(), "{level}");
        assert_eq!(fs::read_to_string(scene.path("w/.envrc.sandbox-blocked-2")).unwrap(), "y\n");
        scene.sandbox.take_notice().unwrap();
        assert_eq!(scene.sandbox.take_notice(), None);
        scene.run("for n in $(seq 1000); do : > .envrc.sandbox-blocked-$n; done; echo z > .envrc").await;
        assert!(!scene.path("w/.envrc").exists(), "{level}: all small numbers are taken");
    }
}

#[tokio::test]
async fn a_protected_file_is_renamed_while_the_command_runs() {
    for scene in scenes(|_| {}) {
        let mut given = scene.command("echo x > .envrc; sleep 600");
        given.background_after = Some(std::time::Duration::from_millis(20));
        let end = run(&given, &scene.background, &|_| {}, &CancellationToken::new()).await.unwrap();
        assert!(matches!(end, ShellEnd::MovedToBackground { .. }), "{end:?}");
        eventually("it is renamed", || scene.path("w/.envrc.sandbox-blocked-1").exists()).await;
        assert!(!scene.path("w/.envrc").exists());
        scene.background.shutdown().await;
    }
}

#[tokio::test]
async fn a_daemon_cannot_create_a_protected_file_either() {
    for scene in scenes(|_| {}) {
        let daemon = "setsid sh -c 'echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done; echo x > .envrc; sleep 600' \
                      >/dev/null 2>&1 & disown; while [ ! -s pid ]; do sleep 0.05; done";
        scene.succeeds(daemon).await;
        fs::write(scene.path("w/go"), "").unwrap();
        eventually("it is renamed", || scene.path("w/.envrc.sandbox-blocked-1").exists()).await;
        assert!(!scene.path("w/.envrc").exists());
        let pid = fs::read_to_string(scene.path("w/pid")).unwrap();
        scene.succeeds(&format!("kill {pid}")).await;
    }
}

#[tokio::test]
async fn the_sandbox_leaves_no_traces_in_the_workspace() {
    for scene in scenes(|_| {}) {
        assert_eq!(scene.succeeds("ls -A").await, ".git\nsrc");
        let mut names: Vec<_> =
            fs::read_dir(scene.path("w")).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".git", "src"]);
        // Files that users and the program's own tools create are left alone before, between and, if
        // announced, during commands.
        fs::create_dir(scene.path("w/.vscode")).unwrap();
        scene.succeeds("true").await;
        let mut given = scene.command("sleep 600");
        given.background_after = Some(std::time::Duration::from_millis(20));
        run(&given, &scene.background, &|_| {}, &CancellationToken::new()).await.unwrap();
        scene.sandbox.permit(&scene.path("w/.gemini/settings.json"));
        fs::create_dir(scene.path("w/.gemini")).unwrap();
        scene.succeeds("true").await;
        assert!(scene.path("w/.vscode").exists() && scene.path("w/.gemini").exists());
        assert_eq!(scene.sandbox.take_notice(), None);
        scene.background.shutdown().await;
    }
}

#[tokio::test]
async fn only_leftovers_of_earlier_versions_are_cleared() {
    let leave = |request: &mut SandboxRequest| {
        for name in [".envrc", ".vscode"] {
            fs::create_dir(request.roots[0].join(name)).unwrap();
        }
        // Owned by the user: not empty.
        fs::create_dir(request.roots[0].join(".gemini")).unwrap();
        fs::write(request.roots[0].join(".gemini/settings.json"), "{}").unwrap();
    };
    if let Some(scene) = Scene::new(Level::Bubblewrap, leave) {
        assert!(!scene.path("w/.envrc").exists() && !scene.path("w/.vscode").exists());
        assert!(scene.path("w/.gemini/settings.json").exists());
    }
    let own = |request: &mut SandboxRequest| {
        fs::create_dir(request.roots[0].join(".vscode")).unwrap();
        fs::write(request.roots[0].join(".envrc"), "").unwrap();
    };
    if let Some(scene) = Scene::new(Level::Bubblewrap, own) {
        assert!(scene.path("w/.vscode").exists() && scene.path("w/.envrc").is_file());
    }
}

#[tokio::test]
async fn bwrap_is_not_taken_from_writable_folders() {
    let fake = |request: &mut SandboxRequest| {
        let folder = request.roots[0].join("bin");
        fs::create_dir_all(&folder).unwrap();
        fs::copy("/bin/true", folder.join("bwrap")).unwrap();
        request.search_path = format!("{}:./bin:", folder.display());
    };
    // The copy of `true` would pass the trial run.
    assert!(Scene::new(Level::Bubblewrap, fake).is_none());
}
