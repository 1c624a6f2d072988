//! What the user's settings and environment say about containers.
//!
//! A project has no say in it, except for its `.gemini/sandbox.Dockerfile` in a trusted folder, and only if the user
//! names no image.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::search_path::SearchPath;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_rights::NetworkMode;
use pollux_sandbox::Level;
use pollux_sandbox::container::{
    ContainerError, ContainerRequest, Dockerfile, Engine, ImageSource, parse_ports, parse_variables,
    split_flags,
};

use super::Loaded;

/// The variables that engines read: where they and their files are, and how they reach registries.
const OF_ENGINE: &[&str] = &[
    "BUILDAH_FORMAT",
    "BUILDAH_ISOLATION",
    "DBUS_SESSION_BUS_ADDRESS",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LOGNAME",
    "NO_PROXY",
    "PATH",
    "REGISTRY_AUTH_FILE",
    "STORAGE_DRIVER",
    "STORAGE_OPTS",
    "TMPDIR",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
const OF_ENGINE_PREFIXES: &[&str] =
    &["BUILDKIT_", "BUILDX_", "CONTAINERS_", "CONTAINER_", "DOCKER_", "PODMAN_"];

/// The failure to report (exit code 44).
pub(crate) fn unavailable(error: &ContainerError) -> Failure {
    Failure::from_error(ExitKind::Sandbox, error).hint(error.hint())
}

/// The engine for an image that is set without one.
pub(crate) fn default_engine(loaded: &Loaded) -> Engine {
    let search_path = SearchPath::new(loaded.env.get("PATH").map(OsStr::new), &[]);
    let is_there = |engine: &Engine| search_path.find_guarded(engine.as_str()).is_some();
    [Engine::Docker, Engine::Podman].into_iter().find(is_there).unwrap_or(Engine::Docker)
}

/// What a container would be asked for.
pub(crate) fn request(loaded: &Loaded, network: NetworkMode) -> Result<Arc<ContainerRequest>, Failure> {
    let env = &loaded.env;
    let text = |name: &str| env.non_empty(name).unwrap_or_default();
    let settings = &loaded.groups.tools.sandbox;
    scope(loaded)?;
    let root = loaded.project.root();
    let named = |name: &str| ImageSource::Named(name.to_owned());
    let is_trusted = loaded.trust.uses_project();
    let built = (is_trusted && Dockerfile::exists(root)).then(|| {
        ImageSource::Built(Dockerfile {
            root: root.to_path_buf(),
            rebuild: matches!(text("BUILD_SANDBOX"), "1" | "true"),
            network: network != NetworkMode::None,
        })
    });
    let image = env.non_empty("GEMINI_SANDBOX_IMAGE").map(named);
    let image = image.or_else(|| settings.image.as_deref().map(named)).or(built);
    let image = image.or_else(|| env.non_empty("GEMINI_SANDBOX_IMAGE_DEFAULT").map(named));
    let archive = settings.image_archive.as_deref();
    let archive = archive.map(|path| super::sandbox::absolute(path, loaded.home.user_home(), env.cwd()));
    Ok(Arc::new(ContainerRequest {
        image,
        archive,
        mounts: text("SANDBOX_MOUNTS").to_owned(),
        variables: parse_variables(text("SANDBOX_ENV")).map_err(|error| unavailable(&error))?,
        ports: parse_ports(text("SANDBOX_PORTS")).map_err(|error| unavailable(&error))?,
        flags: split_flags(text("SANDBOX_FLAGS")).map_err(|error| unavailable(&error))?,
        home: home(loaded),
        environment: of_engine(&own_environment(loaded)),
    }))
}

/// What a container confines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Commands; Pollux with its keys stays outside.
    Command,
    /// Everything.
    Process,
}

/// What the user wants a container to confine.
pub(crate) fn scope(loaded: &Loaded) -> Result<Scope, Failure> {
    let word = loaded.env.non_empty("GEMINI_SANDBOX_SCOPE");
    match word.or(loaded.groups.tools.sandbox.scope.as_deref()) {
        None | Some("command") => Ok(Scope::Command),
        Some("process") => Ok(Scope::Process),
        Some(other) => {
            let hint = "use `command` or `process` for `GEMINI_SANDBOX_SCOPE` and `tools.sandbox.scope`";
            Err(Failure::new(ExitKind::Sandbox, format!("unknown sandbox scope `{other}`")).hint(hint))
        }
    }
}

fn home(loaded: &Loaded) -> PathBuf {
    loaded.project.temp_dir().join("container-home")
}

/// The environment without what files of a project added.
pub(crate) fn own_environment(loaded: &Loaded) -> Env {
    let own = loaded.home.env_files();
    let of_project = loaded.dotenv.loaded.iter().filter(|read| !own.contains(&read.file));
    let added: Vec<&String> = of_project.flat_map(|read| &read.names).collect();
    loaded.env.filtered(|name, _| !added.iter().any(|known| *known == name))
}

fn of_engine(env: &Env) -> Vec<(String, String)> {
    let is_read = |name: &str| {
        OF_ENGINE.contains(&name) || OF_ENGINE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    env.iter()
        .filter(|(name, _)| is_read(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// What to say before a start that takes long.
pub(crate) fn announcement(loaded: &Loaded, level: Option<Level>) -> Option<String> {
    let Some(Level::Container(engine)) = level else { return None };
    let request = request(loaded, NetworkMode::Open).ok()?;
    let search_path = loaded.env.get("PATH").unwrap_or_default();
    request
        .needs_build(engine, search_path)
        .then(|| format!("Building the sandbox image from .gemini/sandbox.Dockerfile with {engine}…"))
}

/// The line about a project's image that a sandbox without containers does not use.
pub(crate) fn unused_file(loaded: &Loaded, level: Level) -> Option<String> {
    let is_container = matches!(level, Level::Container(_));
    let is_there = loaded.trust.uses_project() && Dockerfile::exists(loaded.project.root());
    let text = "`.gemini/sandbox.Dockerfile` is not used by this sandbox; use `--sandbox=docker` or `--sandbox=podman`.";
    (is_there && !is_container).then(|| text.to_owned())
}

/// The line about arguments of the user's own.
pub(crate) fn flags_note(engine: Engine) -> String {
    format!("SANDBOX_FLAGS is passed to {engine} and can lift restrictions of the container.")
}

/// Lines about values that have no effect or that lift restrictions.
pub(crate) fn notes(request: &ContainerRequest, engine: Engine, network: NetworkMode) -> Vec<String> {
    let mut notes = Vec::new();
    if !request.flags.is_empty() {
        notes.push(flags_note(engine));
    }
    if !request.ports.is_empty() && network != NetworkMode::Open {
        notes.push("ignoring `SANDBOX_PORTS`: `tools.sandboxNetwork` is not `open`.".to_owned());
    }
    notes
}
