//! Copying to the clipboard: with a program of this machine, or through the terminal (OSC 52).
//!
//! Reading the clipboard is up to the front end.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pollux_host::Loaded;
use pollux_host::helpers::{helper, with_safe_path};

/// Time limit for a clipboard program.
const PATIENCE: Duration = Duration::from_secs(3);

/// Programs, their arguments, and the variable they need.
const PROGRAMS: &[(&str, &[&str], Option<&str>)] = &[
    ("pbcopy", &[], None),
    ("wl-copy", &[], Some("WAYLAND_DISPLAY")),
    ("xclip", &["-selection", "clipboard"], Some("DISPLAY")),
    ("xsel", &["--clipboard", "--input"], Some("DISPLAY")),
];

/// Whether this is a remote session, whose clipboard only the terminal can reach.
pub(crate) fn is_remote(loaded: &Loaded) -> bool {
    ["SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"].iter().any(|name| loaded.env.non_empty(name).is_some())
}

/// Copies a text with a local program; returns its name, or `None` if none worked.
pub(crate) async fn copy_here(text: &str, loaded: &Loaded) -> Option<&'static str> {
    if is_remote(loaded) {
        return None;
    }
    for (name, arguments, needed) in PROGRAMS {
        if needed.is_some_and(|variable| loaded.env.non_empty(variable).is_none()) {
            continue;
        }
        let Some(program) = helper(name, &loaded.env) else { continue };
        let environment = with_safe_path(loaded.command_env(), &loaded.env);
        let text = text.to_owned();
        let given = tokio::task::spawn_blocking(move || give(&program, arguments, environment, &text));
        if let Ok(Ok(true)) = tokio::time::timeout(PATIENCE, given).await {
            return Some(name);
        }
    }
    None
}

/// Only the first process is waited for, because a background process keeps serving the clipboard.
fn give(program: &Path, arguments: &[&str], environment: Vec<(String, String)>, text: &str) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let written = child.stdin.take().is_some_and(|mut input| input.write_all(text.as_bytes()).is_ok());
    child.wait().is_ok_and(|status| status.success()) && written
}

/// The longest sequence, in bytes, that terminals accept.
const LONGEST_SEQUENCE: usize = 100_000;

/// The OSC 52 sequence that puts a text on the clipboard of the terminal's machine; `None` if it is too long.
pub(crate) fn copy_sequence(text: &str, in_tmux: bool) -> Option<String> {
    let sequence = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
    let sequence = match in_tmux {
        true => format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b")),
        false => sequence,
    };
    (sequence.len() <= LONGEST_SEQUENCE).then_some(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_text_is_whole_or_refused() {
        assert_eq!(copy_sequence("hello", false).as_deref(), Some("\u{1b}]52;c;aGVsbG8=\u{7}"));
        assert_eq!(copy_sequence("ab", false).as_deref(), Some("\u{1b}]52;c;YWI=\u{7}"));
        assert_eq!(
            copy_sequence("abc", true).as_deref(),
            Some("\u{1b}Ptmux;\u{1b}\u{1b}]52;c;YWJj\u{7}\u{1b}\\")
        );
        assert_eq!(copy_sequence(&"x".repeat(100_000), false), None);
    }
}
