//! Whether the commands of tools run in a sandbox, and in which.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::exit::ExitKind;
use pollux_exec::sandbox::{Level, Sandbox as Borders, SandboxError, SandboxRequest};

use super::{Loaded, turn};
use crate::report::Failure;

/// Upstream's sandboxes that need a daemon, an image or another system.
const CONTAINERS: &[&str] = &["docker", "podman", "runsc", "lxc", "windows-native"];
const VALUES: &str = "use `true`, `bwrap` or `landlock` (Linux), `sandbox-exec` (macOS), or `false`";

/// Where the commands of tools run.
pub(crate) struct Sandbox {
    pub(crate) borders: Option<Arc<Borders>>,
    /// Lines for stderr.
    pub(crate) notes: Vec<String>,
}

impl Sandbox {
    /// What the model is told about where it works: in our sandbox, in one around us, or in none.
    pub(crate) fn kind(&self, loaded: &Loaded) -> Option<String> {
        let own = self.borders.as_ref().map(|borders| borders.level().to_string());
        own.or_else(|| loaded.env.non_empty("SANDBOX").map(str::to_owned))
    }
}

/// Who wants a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Nobody,
    /// `yolo` mode: if there is one.
    Mode,
    /// `--sandbox`, `GEMINI_SANDBOX` or `tools.sandbox`.
    Asked,
    /// `security.toolSandboxing`, and none of the others.
    EveryTool,
}

/// Whether the wished sandbox works (44).
pub(crate) fn check_sandbox(loaded: &Loaded, approval: ApprovalMode) -> Result<Sandbox, Failure> {
    let wish = wish(loaded, approval);
    if wish == Wish::Nobody {
        return Ok(Sandbox { borders: None, notes: Vec::new() });
    }
    let level = loaded.groups.tools.sandbox.command.as_deref().map(level).transpose()?;
    match Borders::open(&request(loaded, wish, level)?) {
        Ok(borders) => {
            let network = if network(loaded, wish) { "" } else { "; there is no network" };
            let note = format!(
                "Sandbox ({}): commands can write the workspace, caches and temporary files, nothing else{network}.",
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
    // `SANDBOX` is set inside a sandbox that was made for this program, or by it.
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
        format!("the sandbox `{word}` was asked for, and this version has no container sandbox")
    } else {
        format!("there is no sandbox `{word}`")
    };
    Err(Failure::new(ExitKind::Sandbox, problem)
        .hint(format!("`GEMINI_SANDBOX` or `tools.sandbox` names it; {VALUES}")))
}

/// Without a word about it the network is open, except where every tool is to be confined.
fn network(loaded: &Loaded, wish: Wish) -> bool {
    loaded.groups.tools.sandbox.network.unwrap_or(wish != Wish::EveryTool)
}

fn request(loaded: &Loaded, wish: Wish, level: Option<Level>) -> Result<SandboxRequest, Failure> {
    let env = &loaded.env;
    let user_home = loaded.home.user_home();
    let homes = env.non_empty("HOME").map(PathBuf::from).into_iter().chain([user_home.to_path_buf()]);
    let allowed = loaded.groups.tools.sandbox.allowed_paths.iter();
    Ok(SandboxRequest {
        roots: turn::workspace(loaded)?.directories().to_vec(),
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
