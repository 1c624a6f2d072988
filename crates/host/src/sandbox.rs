//! Selects the sandbox for tool commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_sandbox::{Confinement, Level, Sandbox as Borders, SandboxError, SandboxRequest};
use serde_json::{Value, json};

use super::{Loaded, workspace};

/// Upstream's sandboxes that need a daemon, an image or another system.
const CONTAINERS: &[&str] = &["docker", "podman", "runsc", "lxc", "windows-native"];
const VALUES: &str =
    "use `true`, `namespaces`, `bwrap` or `landlock` (Linux), `sandbox-exec` (macOS), or `false`";

/// The sandbox for tool commands.
pub struct Sandbox {
    pub borders: Option<Arc<Borders>>,
    /// Lines for stderr.
    pub notes: Vec<String>,
}

/// The sandbox actually in effect, whatever the settings requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxInForce {
    /// Pollux confines each command.
    Own(Confinement),
    /// Pollux itself runs inside a sandbox; the value of `SANDBOX`.
    Outer(String),
    None,
}

impl SandboxInForce {
    /// A short name for a status line.
    pub fn name(&self) -> String {
        match self {
            Self::Own(confinement) => confinement.level.to_string(),
            Self::Outer(name) => name.clone(),
            Self::None => "no sandbox".to_owned(),
        }
    }

    /// The name and what it means for commands, in one line.
    pub fn summary(&self) -> String {
        match self {
            Self::Own(confinement) => format!("{} ({})", confinement.level, confinement.rights()),
            Self::Outer(name) => format!("{name} (outer sandbox, shared by Pollux and its commands)"),
            Self::None => "no sandbox (commands run with your rights)".to_owned(),
        }
    }

    /// The same as facts: `level` is the name that settings use, or null.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Own(Confinement { level, network, signals_outside, .. }) => {
                json!({"level": level.as_str(), "network": network, "signals_outside": signals_outside})
            }
            Self::Outer(name) => json!({"level": null, "outer": name}),
            Self::None => json!({"level": null}),
        }
    }
}

impl Sandbox {
    /// The sandbox that commands run in.
    pub fn in_force(&self, env: &Env) -> SandboxInForce {
        match (&self.borders, env.non_empty("SANDBOX")) {
            (Some(borders), _) => SandboxInForce::Own(borders.confinement()),
            (None, Some(outer)) => SandboxInForce::Outer(outer.to_owned()),
            (None, None) => SandboxInForce::None,
        }
    }

    /// The sandbox description for the model; `None` without a sandbox.
    pub fn kind(&self, loaded: &Loaded) -> Option<String> {
        let in_force = self.in_force(&loaded.env);
        (in_force != SandboxInForce::None).then(|| in_force.name())
    }
}

/// Why a sandbox is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Nobody,
    /// `yolo` mode: use one if available.
    Mode,
    /// `--sandbox`, `GEMINI_SANDBOX` or `tools.sandbox`.
    Asked,
    /// `security.toolSandboxing`, and none of the others.
    EveryTool,
}

/// Checks that the requested sandbox works (exit code 44).
pub fn check_sandbox(loaded: &Loaded, approval: ApprovalMode) -> Result<Sandbox, Failure> {
    let wish = wish(loaded, approval);
    if wish == Wish::Nobody {
        return Ok(Sandbox { borders: None, notes: Vec::new() });
    }
    let level = loaded.groups.tools.sandbox.command.as_deref().map(level).transpose()?;
    let request = request(loaded, wish, level)?;
    // A requested sandbox is checked at once; the implicit one of yolo mode is opened with the first command.
    let opened = if wish == Wish::Mode { Borders::open_lazily(&request) } else { Borders::open(&request) };
    match opened {
        Ok(borders) => {
            let network = if network(loaded, wish) { "" } else { ", without network access" };
            let note = format!(
                "Sandbox ({}): commands can write only to the workspace, caches and temporary files{network}.",
                borders.level()
            );
            Ok(Sandbox { borders: Some(Arc::new(borders)), notes: vec![note] })
        }
        Err(error) if wish == Wish::Mode => {
            let note = format!("No sandbox: commands run directly on this machine ({error}).");
            Ok(Sandbox { borders: None, notes: vec![note] })
        }
        Err(error) => {
            let hint = match &error {
                SandboxError::Root(_) => "start in the project's own folder, or use `--sandbox=false`",
                SandboxError::NoneWorks(_) => {
                    "install bubblewrap, run inside a container of your own, or use `--sandbox=false`"
                }
            };
            Err(Failure::from_error(ExitKind::Sandbox, &error).hint(hint))
        }
    }
}

fn wish(loaded: &Loaded, approval: ApprovalMode) -> Wish {
    let asked = &loaded.groups.tools.sandbox;
    // `SANDBOX` is set inside a sandbox.
    if loaded.env.non_empty("SANDBOX").is_some() || asked.enabled == Some(false) {
        Wish::Nobody
    } else if asked.enabled == Some(true) {
        Wish::Asked
    } else if approval == ApprovalMode::Yolo && !loaded.groups.security.tool_sandboxing {
        Wish::Mode
    } else if loaded.groups.security.tool_sandboxing {
        Wish::EveryTool
    } else {
        Wish::Nobody
    }
}

fn level(word: &str) -> Result<Level, Failure> {
    if let Some(level) = Level::named(word) {
        return Ok(level);
    }
    let problem = if CONTAINERS.contains(&word.to_ascii_lowercase().as_str()) {
        format!("unsupported sandbox `{word}`: this version has no container sandbox")
    } else {
        format!("unknown sandbox `{word}`")
    };
    Err(Failure::new(ExitKind::Sandbox, problem)
        .hint(format!("check `GEMINI_SANDBOX` and `tools.sandbox`; {VALUES}")))
}

/// By default the network is open, unless `security.toolSandboxing` confines every tool.
fn network(loaded: &Loaded, wish: Wish) -> bool {
    loaded.groups.tools.sandbox.network.unwrap_or(wish != Wish::EveryTool)
}

fn request(loaded: &Loaded, wish: Wish, level: Option<Level>) -> Result<SandboxRequest, Failure> {
    let env = &loaded.env;
    let user_home = loaded.home.user_home();
    let homes = env.non_empty("HOME").map(PathBuf::from).into_iter().chain([user_home.to_path_buf()]);
    let allowed = loaded.groups.tools.sandbox.allowed_paths.iter();
    Ok(SandboxRequest {
        roots: workspace::workspace(loaded)?.directories().to_vec(),
        allowed: allowed.map(|path| absolute(path, user_home, env.cwd())).collect(),
        homes: homes.collect(),
        gemini_dir: loaded.home.gemini_dir().to_path_buf(),
        temp: PathBuf::from(env.non_empty("TMPDIR").unwrap_or("/tmp")),
        search_path: env.get("PATH").unwrap_or_default().to_owned(),
        network: network(loaded, wish),
        level,
    })
}

fn absolute(path: &str, home: &Path, directory: &Path) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None if path == "~" => home.to_path_buf(),
        None => directory.join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reported_sandbox_is_the_one_in_effect() {
        let own = |network| {
            let level = Level::Bubblewrap;
            SandboxInForce::Own(Confinement {
                level,
                network,
                signals_outside: false,
                abstract_sockets: false,
            })
        };
        assert_eq!(own(true).name(), "bubblewrap");
        assert_eq!(
            own(false).to_json(),
            json!({"level": "bwrap", "network": false, "signals_outside": false})
        );
        assert!(
            own(false).summary().contains("no network") && own(true).summary().contains("network is open")
        );
        let bare = Sandbox { borders: None, notes: Vec::new() };
        let env = |vars: &[(&str, &str)]| {
            Env::new(vars.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())), PathBuf::from("/"))
        };
        assert_eq!(bare.in_force(&env(&[("SANDBOX", "")])), SandboxInForce::None);
        let outer = bare.in_force(&env(&[("SANDBOX", "docker-1")]));
        assert_eq!(
            (outer.name().as_str(), outer.to_json()),
            ("docker-1", json!({"level": null, "outer": "docker-1"}))
        );
    }
}
