//! Opens addresses in the user's browser.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use pollux_config::env::Env;
use tokio::time::{Instant, sleep};

use crate::helpers::{helper, with_safe_path};
use crate::provider_keys;

/// How long the opener is waited for. One that is the browser itself stays.
const OPENING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Asks the system to open an address; false if nothing can. The browser outlives this program and gets no keys.
pub async fn open_in_browser(url: &str, env: &Env) -> bool {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let Some(opener) = helper(opener, env) else { return false };
    let environment = provider_keys(env).and_credentials_removed_from(env);
    let started = Command::new(opener)
        .arg(url)
        .env_clear()
        .envs(with_safe_path(environment.iter(), env))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let Ok(mut child) = started else { return false };
    let end = Instant::now() + OPENING;
    while Instant::now() < end {
        match child.try_wait() {
            Ok(None) => sleep(PAUSE).await,
            Ok(Some(status)) => return status.success(),
            Err(_) => return false,
        }
    }
    true
}

/// Whether a browser that is opened would appear on a screen of the user.
pub fn has_screen(env: &Env) -> bool {
    let is_set = |name: &str| env.non_empty(name).is_some();
    let is_remote = is_set("SSH_CONNECTION") || is_set("SSH_TTY");
    let has_display = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") || is_set("WSL_DISTRO_NAME");
    !is_remote && (cfg!(target_os = "macos") || has_display)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_browser_needs_a_screen_of_this_machine() {
        let env = |names: &[&str]| {
            Env::new(names.iter().map(|name| ((*name).to_owned(), "x".to_owned())), "/".into())
        };
        assert!(has_screen(&env(&["DISPLAY"])) && has_screen(&env(&["WAYLAND_DISPLAY", "HOME"])));
        assert!(!has_screen(&env(&["HOME"])) && !has_screen(&env(&["DISPLAY", "SSH_CONNECTION"])));
    }
}
