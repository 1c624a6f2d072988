//! The whole program in a container: the engine's arguments, and with podman where it is there.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use pollux_sandbox::container::{ContainerRequest, Engine, ImageSource, WholeProgram, whole_program};
use pollux_sandbox::{Level, SandboxRequest};

use crate::containers::{fake, request, system_folder, wish, with_podman, workspace};
use crate::scene::scratch;

/// This test's program as the one that runs inside.
pub(crate) const ARGUMENT: &str = "__test-whole";
/// Its exit code.
const CODE: i32 = 7;

fn program(base: &Path) -> WholeProgram {
    for (path, text) in [("home/.gemini/settings.json", "{}"), ("home/.gemini/tmp/p/old", "session")] {
        fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
        fs::write(base.join(path), text).unwrap();
    }
    let own = |name: &str, writable| (base.join("home").join(name), PathBuf::from(name), writable);
    WholeProgram {
        name: "gemini".to_owned(),
        arguments: [ARGUMENT, "a b", "--flag"].map(Into::into).into(),
        directory: base.join("w"),
        variables: vec![("GEMINI_API_KEY".to_owned(), "SECRET-KEY".to_owned())],
        own_files: vec![own(".gemini/settings.json", false), own(".gemini/tmp/p", true)],
        as_user: true,
        ..WholeProgram::default()
    }
}

/// Runs inside: says what it sees, and tries to write.
pub(crate) fn act(arguments: &[String]) -> i32 {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).unwrap();
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let home = PathBuf::from(variable("HOME"));
    fs::write("made", "inside").unwrap();
    fs::write(home.join(".gemini/tmp/p/new"), "session").unwrap();
    let can_write = |path: PathBuf| fs::OpenOptions::new().append(true).create(true).open(path).is_ok();
    #[expect(clippy::print_stdout, reason = "its parent reads it")]
    {
        println!("arguments {arguments:?}");
        println!("input {input}");
        println!("folder {}", std::env::current_dir().unwrap().display());
        for name in ["SANDBOX", "GEMINI_API_KEY", "NAMED", "PATH_OF_HOST"] {
            println!("{name} {}", variable(name));
        }
        println!("settings {}", can_write(home.join(".gemini/settings.json")));
        println!("hooks {}", can_write(".git/hooks/pre-commit".into()));
        println!("home {} {}", can_write(home.join("x")), can_write("/tmp/x".into()));
    }
    CODE
}

#[test]
fn the_engine_gets_everything_but_no_secret_on_its_command_line() {
    let (Some(folder), Some(programs)) = (scratch(), system_folder()) else { return };
    let base = fs::canonicalize(folder.path()).unwrap();
    workspace(&base);
    fake(programs.path(), &base.join("log"), "case \"$1\" in image) echo '[]';; *) exit 1;; esac");
    let container = ContainerRequest {
        image: Some(ImageSource::Named("registry.example/tools:2".to_owned())),
        flags: vec!["--memory=1g".to_owned()],
        mounts: format!("{}/data:/data", base.display()),
        ports: vec![8080],
        variables: vec![("NAMED".to_owned(), "TOKEN".to_owned()), ("PATH".to_owned(), "/p".to_owned())],
        environment: vec![("PATH".to_owned(), "/usr/bin".to_owned())],
        ..ContainerRequest::default()
    };
    let asked = |engine, network, program: &WholeProgram| {
        let request = SandboxRequest {
            level: Some(Level::Container(engine)),
            search_path: programs.path().to_string_lossy().into_owned(),
            network,
            ..request(&base, container.clone())
        };
        let whole = whole_program(engine, &request, program).unwrap();
        let words = |word: &std::ffi::OsStr| word.to_str().unwrap().to_owned();
        let arguments: Vec<String> = whole.command.get_args().map(words).collect();
        let variables: Vec<(String, String)> =
            whole.command.get_envs().filter_map(|(name, value)| Some((words(name), words(value?)))).collect();
        let file = arguments.iter().find_map(|word| word.strip_prefix("--env-file=")).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        let inside = fs::read_to_string(file).unwrap();
        (arguments, variables, inside)
    };
    let (arguments, variables, inside) = asked(Engine::Docker, true, &program(&base));
    let has = |word: &str| arguments.iter().any(|known| known == word);
    let b = base.display();
    for word in [
        "run",
        "--interactive",
        "--rm",
        "--init",
        "--pull=never",
        "--cap-drop=ALL",
        "--publish=127.0.0.1:8080:8080",
        "--user=0:0",
        "--env=HOME=/cache/home",
        "--memory=1g",
        &format!("--workdir={b}/w"),
        &format!("type=bind,source={b}/w,target={b}/w"),
        &format!("type=bind,source={b}/w/.git/hooks,target={b}/w/.git/hooks,readonly"),
        &format!("type=bind,source={b}/data,target=/data,readonly"),
        &format!("type=bind,source={b}/home/.gemini/tmp/p,target=/cache/home/.gemini/tmp/p"),
        &format!(
            "type=bind,source={b}/home/.gemini/settings.json,target=/cache/home/.gemini/settings.json,readonly"
        ),
    ] {
        assert!(has(word), "{word}: {arguments:?}");
    }
    let name = arguments.iter().find_map(|word| word.strip_prefix("--name=")).unwrap();
    assert!(name.starts_with("tools-2-") && has(&format!("--env=SANDBOX={name}")), "{arguments:?}");
    let text = arguments.join("\n");
    assert!(!text.contains("SECRET") && !text.contains("TOKEN") && !has("--tty"), "{text}");
    assert_eq!(inside, "GEMINI_API_KEY=SECRET-KEY\nNAMED=TOKEN\nPATH=/p\n");
    // They do not change the engine.
    assert!(!variables.iter().any(|(_, value)| value.contains("SECRET") || value.contains("TOKEN")));
    assert!(variables.contains(&("PATH".to_owned(), "/usr/bin".to_owned())), "{variables:?}");
    let image = arguments.iter().position(|word| word == "registry.example/tools:2").unwrap();
    assert!(arguments.iter().position(|word| word == "--memory=1g").unwrap() < image, "{arguments:?}");
    let command = &arguments[image + 1..];
    let last = command.iter().position(|word| word == "/run/pollux/gemini").unwrap();
    assert_eq!(command[last + 1..], [ARGUMENT, "a b", "--flag"]);
    // Its folder for the home is gone with it.
    let home = arguments.iter().find_map(|word| word.strip_suffix(",target=/cache/home")).unwrap();
    assert!(!Path::new(home.strip_prefix("type=bind,source=").unwrap()).exists());

    let other = WholeProgram { at_terminal: true, as_user: false, ..program(&base) };
    let (arguments, ..) = asked(Engine::Docker, false, &other);
    let has = |word: &str| arguments.iter().any(|known| known == word);
    assert!(has("--tty") && has("--network=none"), "{arguments:?}");
    assert!(!arguments.iter().any(|word| word.starts_with("--user") || word.starts_with("--publish")));
}

#[test]
fn podman_runs_the_whole_program_as_the_user() {
    let Some((folder, environment)) = with_podman() else { return };
    let base = fs::canonicalize(folder.path()).unwrap();
    let variables = vec![("NAMED".to_owned(), "yes".to_owned())];
    let request = request(&base, ContainerRequest { variables, ..wish(&base, &environment) });
    let mut whole = whole_program(Engine::Podman, &request, &program(&base)).unwrap();
    let mut child =
        whole.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"piped").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(CODE), "{out}{err}");
    let b = base.display();
    for line in [
        "arguments [\"a b\", \"--flag\"]",
        "input piped",
        &format!("folder {b}/w"),
        "GEMINI_API_KEY SECRET-KEY",
        "NAMED yes",
        "settings false",
        "hooks false",
        "home true true",
    ] {
        assert!(out.lines().any(|said| said == line), "{line}: {out}{err}");
    }
    assert!(out.lines().any(|said| said.starts_with("SANDBOX pollux-test-busybox")), "{out}");
    use std::os::unix::fs::MetadataExt as _;
    for made in ["w/made", "home/.gemini/tmp/p/new"] {
        let meta = fs::metadata(base.join(made)).unwrap();
        assert_eq!(meta.uid(), rustix::process::geteuid().as_raw(), "{made}");
    }
    assert_eq!(fs::read_to_string(base.join("home/.gemini/settings.json")).unwrap(), "{}");
}
