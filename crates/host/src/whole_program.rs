//! The whole program in a container, on request: `tools.sandbox.scope` or `GEMINI_SANDBOX_SCOPE` is `process`.

use std::ffi::OsString;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;

use pollux_config::env::Env;
use pollux_config::files;
use pollux_config::paths::{Home, SystemFiles};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
pub use pollux_sandbox::container::WholeCommand;
#[cfg(target_os = "linux")]
use pollux_sandbox::{Grants, container::WholeProgram};
use pollux_sandbox::{Level, SandboxRequest};

use crate::container;
use crate::load::load_settings;
use crate::loaded::Loaded;
use crate::request::Request;
use crate::sandbox::container_asked;
#[cfg(target_os = "linux")]
use crate::sandbox::unavailable;

/// Variables that the program gets inside, as upstream hands them over. Other keys are named in `SANDBOX_ENV`.
#[cfg(target_os = "linux")]
const FORWARDED: &[&str] = &[
    "CI",
    "COLORTERM",
    "GEMINI_API_KEY",
    "GEMINI_CLI_IDE_SERVER_PORT",
    "GEMINI_CLI_IDE_WORKSPACE_PATH",
    "GEMINI_MODEL",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_VERTEX_BASE_URL",
    "LANG",
    "NO_COLOR",
    "POLLUX_OUTPUT_DIALECT",
    "TERM",
    "TERM_PROGRAM",
    "TZ",
];

/// Files and folders of the user's own that the program reads inside. What it runs later outside cannot be changed
/// there.
#[cfg(target_os = "linux")]
const READ: &[&str] = &[
    "GEMINI.md",
    "agents",
    "commands",
    "extensions",
    "memory.md",
    "policies",
    "projects.json",
    "settings.json",
    "skills",
];

/// How the program was called.
pub struct Called<'a> {
    pub name: &'a str,
    pub arguments: &'a [OsString],
    /// Whether input and output are a terminal.
    pub at_terminal: bool,
}

/// The command that runs this program in a container instead, if the user wants that. `None` for everything else, also
/// inside that container. `say` gets lines for stderr.
pub fn whole_program(
    options: &Request,
    env: &Env,
    called: &Called<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<Option<WholeCommand>, Failure> {
    if env.non_empty("SANDBOX").is_some() || !is_perhaps_wanted(env) {
        return Ok(None);
    }
    let loaded = load_settings(options, env)?;
    if container::scope(&loaded)? != container::Scope::Process {
        return Ok(None);
    }
    let Some((request, is_proxied)) = container_asked(&loaded)? else { return Ok(None) };
    if is_proxied {
        let problem = "the sandbox scope `process` has no proxy";
        let hint = "set `tools.sandboxNetwork` to `open` or `none`, or the scope to `command`";
        return Err(Failure::new(ExitKind::Sandbox, problem).hint(hint));
    }
    if let Some(Level::Container(engine)) = request.level {
        say(&format!(
            "Sandbox ({engine}): Pollux itself runs in a container, and its commands can read its keys."
        ));
        let flags = request.container.as_ref().filter(|container| !container.flags.is_empty());
        flags.into_iter().for_each(|_| say(&container::flags_note(engine)));
    }
    container::announcement(&loaded, request.level).into_iter().for_each(|line| say(&line));
    build(&loaded, request, called).map(Some)
}

/// Whether it is worth loading the settings: nearly all runs want something else.
fn is_perhaps_wanted(env: &Env) -> bool {
    if env.non_empty("GEMINI_SANDBOX_SCOPE").is_some() {
        return true;
    }
    let says = |file: &Path, word: &str| {
        files::read_text(file).ok().flatten().is_some_and(|text| text.contains(word))
    };
    let SystemFiles { settings, defaults } = SystemFiles::locate(env);
    [settings, defaults].iter().any(|file| says(file, "\"process\""))
        || Home::locate(env).is_ok_and(|home| {
            says(&home.settings_file(), "\"process\"")
                || home.env_files().iter().any(|file| says(file, "GEMINI_SANDBOX_SCOPE"))
        })
}

#[cfg(not(target_os = "linux"))]
fn build(_: &Loaded, _: SandboxRequest, _: &Called<'_>) -> Result<WholeCommand, Failure> {
    Err(Failure::new(ExitKind::Sandbox, "the sandbox scope `process` is available on Linux only"))
}

#[cfg(target_os = "linux")]
fn build(loaded: &Loaded, request: SandboxRequest, called: &Called<'_>) -> Result<WholeCommand, Failure> {
    let Some(Level::Container(engine)) = request.level else {
        return Err(Failure::new(ExitKind::Sandbox, "the sandbox scope `process` needs docker or podman"));
    };
    // Its own folder is mounted where the program looks for it.
    let grants = Grants { read_only: request.grants.read_only, ..Grants::default() };
    let request = SandboxRequest { grants, ..request };
    let own = container::own_environment(loaded);
    let is_forwarded = |name: &str| FORWARDED.contains(&name) || name.starts_with("LC_");
    let variables = own.iter().filter(|(name, _)| is_forwarded(name));
    let credentials = own.non_empty("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
    let program = WholeProgram {
        name: called.name.to_owned(),
        arguments: called.arguments.to_vec(),
        directory: loaded.env.cwd().to_path_buf(),
        at_terminal: called.at_terminal,
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        own_files: own_files(loaded)?,
        shown: credentials.into_iter().filter(|file| file.is_absolute() && file.is_file()).collect(),
        as_user: !matches!(own.non_empty("SANDBOX_SET_UID_GID"), Some("0" | "false")),
    };
    pollux_sandbox::container::whole_program(engine, &request, &program).map_err(|error| unavailable(&error))
}

/// The program's own files, with their places below the home.
#[cfg(target_os = "linux")]
fn own_files(loaded: &Loaded) -> Result<Vec<(PathBuf, PathBuf, bool)>, Failure> {
    let (home, own) = (loaded.home.gemini_dir(), PathBuf::from(".gemini"));
    let read = READ.iter().map(|name| (home.join(name), own.join(name), false));
    let trusted = loaded.home.trusted_folders_file(&loaded.env);
    let trust = [
        (trusted, own.join("trustedFolders.json"), false),
        (
            loaded.home.trusted_content_dir(),
            below(home, own.as_path(), loaded.home.trusted_content_dir()),
            false,
        ),
    ];
    let mut all: Vec<_> = read.chain(trust).filter(|(source, _, _)| source.exists()).collect();
    // Sessions are kept.
    let sessions = loaded.project.temp_dir();
    files::create_folder(sessions, files::Mode::Private).map_err(|error| {
        Failure::new(ExitKind::Sandbox, "could not create the folder of the project's sessions")
            .because(&error)
    })?;
    all.push((sessions.to_path_buf(), below(home, own.as_path(), sessions.to_path_buf()), true));
    Ok(all)
}

/// Where a file of the user's own folder is inside.
#[cfg(target_os = "linux")]
fn below(home: &Path, own: &Path, file: PathBuf) -> PathBuf {
    file.strip_prefix(home).map_or_else(|_| own.join("other"), |below| own.join(below))
}
