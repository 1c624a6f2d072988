//! Containers: with a recorded engine, and with podman where it is there.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_sandbox::container::{ContainerRequest, Engine, ImageSource};
use pollux_sandbox::holder::Start;
use pollux_sandbox::{Level, Sandbox, SandboxError, SandboxRequest};
use pollux_test_support::executable;
use tempfile::TempDir;

use crate::scene::{scratch, tell};

/// A container in a process that is to be killed.
pub(crate) const ARGUMENT: &str = "__test-container";

const IMAGE: &str = "localhost/pollux-test-busybox";
const BUSYBOX: &str = "/bin/busybox";
/// Where a fake engine is looked for: a folder that only root can write.
const SYSTEM: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) fn workspace(base: &Path) {
    for path in ["home/.ssh", "home/.gemini", "w/.git/hooks", "w/.vscode", "data"] {
        fs::create_dir_all(base.join(path)).unwrap();
    }
    for file in ["home/.ssh/id", "w/.git/HEAD", "w/.git/config", "data/file"] {
        fs::write(base.join(file), "SECRET").unwrap();
    }
}

pub(crate) fn request(base: &Path, container: ContainerRequest) -> SandboxRequest {
    SandboxRequest {
        roots: vec![base.join("w")],
        allowed: Vec::new(),
        homes: vec![base.join("home")],
        gemini_dir: base.join("home/.gemini"),
        temp: "/tmp".into(),
        search_path: SYSTEM.to_owned(),
        network: false,
        level: Some(Level::Container(Engine::Podman)),
        grants: pollux_sandbox::Grants::default(),
        container: Some(Arc::new(container)),
    }
}

/// The environment in which podman works on machines that may not raise limits, as in CI.
fn environment(base: &Path) -> Vec<(String, String)> {
    let conf = base.join("containers.conf");
    let runtime = if Path::new("/usr/sbin/runc").exists() { "runtime = \"runc\"\n" } else { "" };
    let text = format!(
        "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
         [engine]\n{runtime}events_logger = \"file\"\n"
    );
    fs::write(&conf, text).unwrap();
    let kept = ["PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "USER"];
    let own = std::env::vars().filter(|(name, _)| kept.contains(&name.as_str()));
    own.chain([("CONTAINERS_CONF".to_owned(), conf.to_string_lossy().into_owned())]).collect()
}

fn podman(environment: &[(String, String)], arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("podman");
    command.args(arguments).env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// A folder with a workspace, and an environment in which podman has an image; `None` says why not.
pub(crate) fn with_podman() -> Option<(TempDir, Vec<(String, String)>)> {
    let folder = scratch()?;
    let base = fs::canonicalize(folder.path()).unwrap();
    workspace(&base);
    let environment = environment(&base);
    let prepared = (|| {
        podman(&environment, &["--version"])?;
        let context = base.join("context");
        fs::create_dir_all(&context).map_err(|error| error.to_string())?;
        fs::copy(BUSYBOX, context.join("busybox")).map_err(|error| format!("{BUSYBOX}: {error}"))?;
        let links: Vec<String> =
            ["sh", "id", "cat", "touch", "sleep", "ls", "env", "mv", "wget", "nc", "mount", "unshare", "ps"]
                .map(|name| format!("COPY busybox /bin/{name}"))
                .into();
        // An image that would like to load its own code into the first process.
        let text = format!(
            "FROM scratch\n{}\nENV PATH=/bin OF_IMAGE=1 LD_LIBRARY_PATH=/bin LD_PRELOAD=/bin/sh\n\
             COPY preload /etc/ld.so.preload\nENTRYPOINT [\"/bin/nope\"]\nUSER 4242\n",
            links.join("\n")
        );
        fs::write(context.join("preload"), "/bin/busybox\n").map_err(|error| error.to_string())?;
        fs::write(context.join("Dockerfile"), text).map_err(|error| error.to_string())?;
        let context = context.to_string_lossy();
        podman(&environment, &["build", "--network=none", "--tag", IMAGE, &context])?;
        podman(&environment, &["run", "--rm", "--network=none", "--entrypoint=", IMAGE, "/bin/sh", "-c", ":"])
    })();
    match prepared {
        Ok(_) => Some((folder, environment)),
        Err(why) => {
            tell(&format!("not tested: podman: {}", why.trim().lines().next_back().unwrap_or_default()));
            None
        }
    }
}

pub(crate) fn wish(base: &Path, environment: &[(String, String)]) -> ContainerRequest {
    ContainerRequest {
        image: Some(ImageSource::Named(IMAGE.to_owned())),
        home: base.join("home/.gemini/tmp/container-home"),
        environment: environment.to_vec(),
        ..ContainerRequest::default()
    }
}

/// The output of a script inside, and whether it succeeded.
fn run(sandbox: &Sandbox, base: &Path, script: &str) -> (String, bool) {
    use std::os::fd::AsFd as _;
    let (mut reader, writer) = std::io::pipe().unwrap();
    let null = fs::File::open("/dev/null").unwrap();
    let environment = [("SECRET_TOKEN", "SECRET"), ("TERM", "xterm"), ("HOME", "/wrong")];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (root, script) = (base.join("w"), std::ffi::OsStr::new(script));
    let start = Start {
        program: "/bin/sh".as_ref(),
        arguments: vec!["-c".as_ref(), script],
        directory: &root,
        environment: &environment,
        streams: [null.as_fd(), writer.as_fd(), writer.as_fd()],
    };
    let (mut held, _armed) = sandbox.start(&start).unwrap();
    drop(writer);
    let mut output = String::new();
    reader.read_to_string(&mut output).unwrap();
    (output, held.wait().unwrap().success())
}

/// The containers whose owner is this process.
fn containers_of(environment: &[(String, String)], owner: u32) -> String {
    let list = ["ps", "--all", "--filter", "label=pollux.owner", "--format", "{{.ID}} {{.Labels}}"];
    let list = podman(environment, &list).unwrap();
    list.lines().filter(|line| line.contains(&format!("-{owner}-"))).collect()
}

/// Waits until all of them are gone. A test in the same process may still have one.
fn none_is_left(environment: &[(String, String)], owner: u32) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !containers_of(environment, owner).is_empty() {
        assert!(Instant::now() < deadline, "{}", containers_of(environment, owner));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_container_of_podman_confines_commands() {
    let Some((folder, environment)) = with_podman() else { return };
    let base = fs::canonicalize(folder.path()).unwrap();
    let variables = vec![("NAMED".to_owned(), "yes".to_owned())];
    let mounts = format!("{0}/data:/data,{0}/data/file:/f:rw", base.display());
    let wish = ContainerRequest { variables, mounts, ..wish(&base, &environment) };
    let sandbox = Sandbox::open(&request(&base, wish)).unwrap();
    let w = base.join("w");
    let outside = base.display();
    let works = |script: &str| {
        let (output, good) = run(&sandbox, &base, script);
        assert!(good, "{script}: {output}");
        output
    };
    works("echo new > made");
    assert_eq!(fs::read_to_string(w.join("made")).unwrap(), "new\n");
    assert_eq!(works("cat /data/file; echo changed > /f"), "SECRET");
    assert_eq!(fs::read_to_string(base.join("data/file")).unwrap(), "changed\n");
    let env = works("env");
    for line in ["OF_IMAGE=1", "NAMED=yes", "HOME=/cache/home", "SANDBOX=podman", "TERM=xterm"] {
        assert!(env.lines().any(|known| known == line), "{line}: {env}");
    }
    assert!(!env.contains("SECRET"), "{env}");
    works("echo kept > ~/kept; echo temp > $TMPDIR/temp; sleep 60 > /dev/null 2>&1 & echo $! > /tmp/job");
    works("cat ~/kept /tmp/temp; kill -0 $(cat /tmp/job)");
    for attempt in [
        "echo x > .git/hooks/pre-commit".to_owned(),
        "echo x >> .git/config".to_owned(),
        "mv .git other".to_owned(),
        "touch .vscode/tasks.json".to_owned(),
        "touch /data/new".to_owned(),
        format!("cat {outside}/home/.ssh/id"),
        format!("ls {outside}/home"),
        "echo x > /run/pollux/pollux".to_owned(),
        "cat /proc/1/environ".to_owned(),
        "mount -t tmpfs none /mnt".to_owned(),
        "unshare -U true".to_owned(),
        "wget -T 2 -O- http://192.0.2.1/".to_owned(),
        "ls /run/pollux/control/holder.sock".to_owned(),
        "ls /var/run/docker.sock /run/podman".to_owned(),
    ] {
        let (output, good) = run(&sandbox, &base, &attempt);
        assert!(!good, "{attempt}: {output}");
    }
    // A protected name that appears is moved out of the way by the keeper.
    run(&sandbox, &base, "echo x > .envrc");
    sandbox.take_tripped();
    assert!(!w.join(".envrc").exists());
    drop(sandbox);
    none_is_left(&environment, std::process::id());
}

#[test]
fn a_killed_owner_takes_its_container_along() {
    let Some((folder, environment)) = with_podman() else { return };
    let base = fs::canonicalize(folder.path()).unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap());
    owner.arg(ARGUMENT).arg(&base).env_clear().envs(environment.clone());
    let mut owner = owner.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !base.join("w/started").exists() {
        assert!(Instant::now() < deadline, "the container did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = owner.id();
    assert_ne!(containers_of(&environment, id), "");
    owner.kill().unwrap();
    owner.wait().unwrap();
    none_is_left(&environment, id);
}

/// Starts a command in a container and waits to be killed.
pub(crate) fn hold(arguments: &[String]) {
    let base = PathBuf::from(&arguments[0]);
    let sandbox = Sandbox::open(&request(&base, wish(&base, &environment(&base)))).unwrap();
    run(&sandbox, &base, "echo x > started; sleep 600");
}

/// A folder for programs that counts as the system's. Only root can make one outside of a home.
pub(crate) fn system_folder() -> Option<TempDir> {
    if !rustix::process::geteuid().is_root() {
        tell("not tested: a fake engine needs a folder that only root can write");
        return None;
    }
    let folder = tempfile::Builder::new().prefix("pollux-test-engine-").tempdir_in("/usr/local").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    Some(folder)
}

#[test]
fn a_folder_that_is_swapped_while_the_engine_mounts_it_is_noticed() {
    let (Some((folder, environment)), Some(programs)) = (with_podman(), system_folder()) else { return };
    let base = fs::canonicalize(folder.path()).unwrap();
    let b = base.display();
    let real = ["/usr/bin/podman", "/usr/local/bin/podman"].into_iter().find(|path| Path::new(path).exists());
    let Some(real) = real else { return tell("not tested: podman is in another folder") };
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = run ] && rm -r '{b}/w/.vscode' && ln -s '{b}/home/.ssh' '{b}/w/.vscode'\n\
         exec {real} \"$@\"\n"
    );
    let file = programs.path().join("podman");
    executable(&file, &text);
    let search_path = programs.path().to_string_lossy().into_owned();
    let request = SandboxRequest { search_path, ..request(&base, wish(&base, &environment)) };
    let error = Sandbox::open(&request).unwrap().enter().unwrap_err().to_string();
    assert!(error.contains(".vscode` was replaced while the sandbox started"), "{error}");
}

/// A fake docker that writes its arguments to a file per subcommand and answers as the script says.
pub(crate) fn fake(folder: &Path, log: &Path, script: &str) {
    let file = folder.join("docker");
    let text = format!(
        "#!/bin/sh\nfor word in \"$@\"; do printf '%s\\n' \"$word\" >> \"{}.$1\"; done\n{script}\n",
        log.display()
    );
    executable(&file, &text);
}

#[test]
fn every_failure_of_an_engine_has_its_own_message() {
    let (Some(folder), Some(programs)) = (scratch(), system_folder()) else { return };
    let base = fs::canonicalize(folder.path()).unwrap();
    workspace(&base);
    let log = base.join("log");
    let named = |name: &str| ContainerRequest {
        image: Some(ImageSource::Named(name.to_owned())),
        home: base.join("home/.gemini/c"),
        ..ContainerRequest::default()
    };
    let path = programs.path().to_string_lossy().into_owned();
    let open = |container: ContainerRequest| {
        let request = SandboxRequest {
            level: Some(Level::Container(Engine::Docker)),
            search_path: path.clone(),
            ..request(&base, container)
        };
        let opened = Sandbox::open(&request).and_then(|sandbox| sandbox.enter());
        match opened {
            Ok(()) => "works".to_owned(),
            Err(SandboxError::Container(error)) => format!("{error} | {}", error.hint()),
            Err(other) => format!("? {other}"),
        }
    };
    assert!(open(named("i")).starts_with("`docker` not found in `PATH` | install docker outside"));
    let daemon = "echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2; exit 1";
    let refused = "echo 'permission denied while trying to connect to the Docker daemon socket' >&2; exit 1";
    let fails = |said: &str| {
        format!("case \"$1\" in image) echo '[\"A=1\"]';; run) echo '{said}' >&2; exit 125;; esac")
    };
    let table = [
        (daemon.to_owned(), named("i"), "the docker daemon is not running | start it"),
        (refused.to_owned(), named("i"), "no permission to use the docker daemon | "),
        (
            "echo 'Error response from daemon: No such image: i' >&2; exit 1".to_owned(),
            named("i"),
            "docker has no image `i` | Pollux does not download images; run `docker pull i`",
        ),
        (String::new(), named("-v"), "invalid image name `-v` | "),
        (String::new(), ContainerRequest { image: None, ..named("i") }, "no container image is set | set"),
        (
            fails("docker: Error response from daemon: no runtime"),
            named("i"),
            "docker could not start a container: docker: Error response from daemon: no runtime | check",
        ),
        (
            fails("docker: Error response from daemon: No such image: i"),
            named("i"),
            "docker has no image `i` | ",
        ),
    ];
    for (script, container, expected) in table {
        fake(programs.path(), &log, &script);
        let told = open(container);
        assert!(told.starts_with(expected), "{told}");
    }
    let mounts = ContainerRequest { mounts: "/".to_owned(), ..named("i") };
    assert!(open(mounts).starts_with("invalid mount `/` in `SANDBOX_MOUNTS`: "), "{}", open(named("i")));
    let elsewhere = vec![("DOCKER_HOST".to_owned(), "tcp://10.0.0.1:2375".to_owned())];
    let remote = ContainerRequest { environment: elsewhere, ..named("i") };
    assert!(open(remote).starts_with("`DOCKER_HOST` points to a remote engine"));
}

#[test]
fn an_engine_gets_these_arguments() {
    let (Some(folder), Some(programs)) = (scratch(), system_folder()) else { return };
    let base = fs::canonicalize(folder.path()).unwrap();
    workspace(&base);
    let log = base.join("log");
    fake(programs.path(), &log, "case \"$1\" in image) echo '[]';; *) exit 1;; esac");
    let wish = ContainerRequest {
        image: Some(ImageSource::Named("i:2".to_owned())),
        flags: vec!["--memory=1g".to_owned()],
        mounts: format!("{}/data:/data", base.display()),
        home: base.join("home/.gemini/c"),
        ..ContainerRequest::default()
    };
    let request = SandboxRequest {
        level: Some(Level::Container(Engine::Docker)),
        search_path: programs.path().to_string_lossy().into_owned(),
        ..request(&base, wish)
    };
    let sandbox = Sandbox::open(&request).unwrap();
    assert!(sandbox.enter().is_err());
    let called = |name: &str| fs::read_to_string(base.join(format!("log.{name}"))).unwrap();
    let asked = called("image");
    assert_eq!(
        asked.lines().collect::<Vec<_>>(),
        ["image", "inspect", "--format={{json .Config.Env}}", "i:2"]
    );
    let text = called("run");
    let run: Vec<&str> = text.lines().collect();
    let has = |word: &str| run.contains(&word);
    for word in ["--rm", "--pull=never", "--cap-drop=ALL", "--network=none", "--user=0:0", "--memory=1g"] {
        assert!(has(word), "{word}: {run:?}");
    }
    let b = base.display();
    assert!(has(&format!("type=bind,source={b}/w,target={b}/w")), "{run:?}");
    assert!(has(&format!("type=bind,source={b}/w/.git/hooks,target={b}/w/.git/hooks,readonly")), "{run:?}");
    assert!(has(&format!("type=bind,source={b}/data,target=/data,readonly")), "{run:?}");
    assert!(!text.contains(&format!("source={b}/home,")) && !text.contains("docker.sock"), "{text}");
    let image = run.iter().position(|word| *word == "i:2").unwrap();
    assert!(run.iter().position(|word| *word == "--memory=1g").unwrap() < image, "{run:?}");
    assert_eq!(run.last(), Some(&"/run/pollux/control/holder.sock"));
}
