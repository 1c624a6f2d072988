//! The clipboard of this machine, where a program for it is here.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pollux_host::Loaded;
use pollux_host::helpers::{helper, helper_environment};

/// How long such a program may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Programs with their arguments, and the variable without which they have no clipboard.
const PROGRAMS: &[(&str, &[&str], Option<&str>)] = &[
    ("pbcopy", &[], None),
    ("wl-copy", &[], Some("WAYLAND_DISPLAY")),
    ("xclip", &["-selection", "clipboard"], Some("DISPLAY")),
    ("xsel", &["--clipboard", "--input"], Some("DISPLAY")),
];

/// Whether the person sits at another machine, whose clipboard only their terminal reaches.
pub(crate) fn is_remote(loaded: &Loaded) -> bool {
    ["SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"].iter().any(|name| loaded.env.non_empty(name).is_some())
}

/// Gives a text to the machine's clipboard; the program that took it, or `None` where none could.
pub(crate) async fn copy_here(text: &str, loaded: &Loaded) -> Option<&'static str> {
    if is_remote(loaded) {
        return None;
    }
    for (name, arguments, needed) in PROGRAMS {
        if needed.is_some_and(|variable| loaded.env.non_empty(variable).is_none()) {
            continue;
        }
        let Some(program) = helper(name, &loaded.env) else { continue };
        let environment = helper_environment(loaded);
        let text = text.to_owned();
        let given = tokio::task::spawn_blocking(move || give(&program, arguments, environment, &text));
        if let Ok(Ok(true)) = tokio::time::timeout(PATIENCE, given).await {
            return Some(name);
        }
    }
    None
}

/// They stay behind to serve the clipboard, so nobody waits for more than their first process.
fn give(program: &Path, arguments: &[&str], environment: Vec<(String, String)>, text: &str) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let written = child.stdin.take().is_some_and(|mut input| input.write_all(text.as_bytes()).is_ok());
    child.wait().is_ok_and(|status| status.success()) && written
}
