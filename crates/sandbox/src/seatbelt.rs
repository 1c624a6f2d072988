//! The macOS level: generates a profile for `sandbox-exec`.

use std::fmt::Write as _;
use std::path::Path;

use crate::paths::SandboxPaths;

#[cfg(target_os = "macos")]
pub(crate) const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// Sockets of daemons that act for others; those below homes are hidden with the rest.
const SOCKETS: &[&str] = &["/var/run", "/private/var/run", "/tmp", "/private/tmp"];

#[cfg(target_os = "macos")]
#[derive(Debug)]
pub(crate) struct Seatbelt {
    profile: String,
}

#[cfg(target_os = "macos")]
impl Seatbelt {
    pub(crate) fn find(places: &SandboxPaths, network: bool) -> Result<Self, crate::LevelError> {
        if !Path::new(PROGRAM).is_file() {
            return Err(crate::LevelError::NotInstalled(PROGRAM));
        }
        Ok(Self { profile: profile(places, network) })
    }

    pub(crate) fn profile(&self) -> &str {
        &self.profile
    }
}

/// The profile. Later rules win.
fn profile(places: &SandboxPaths, network: bool) -> String {
    let mut text = String::from("(version 1)\n(allow default)\n(deny file-write*)\n");
    let mut rule = |verb: &str, what: &str, path: &Path| {
        let _ = writeln!(text, "({verb} {what} (subpath {}))", quoted(path));
    };
    for path in places.writable.iter().chain(&places.temp) {
        rule("allow", "file-write*", path);
    }
    rule("allow", "file-write*", Path::new("/dev"));
    for path in &places.protected {
        rule("deny", "file-write*", path);
    }
    for path in &places.hidden {
        rule("deny", "file-read* file-write*", path);
        // A path below a hidden one that was allowed by name.
        for open in places.writable.iter().filter(|open| open.starts_with(path)) {
            rule("allow", "file-read* file-write*", open);
        }
    }
    for path in &places.pinned {
        let _ = writeln!(text, "(deny file-write-unlink (literal {}))", quoted(path));
    }
    if network {
        for path in SOCKETS.iter().map(Path::new).chain(places.homes.iter().map(|home| home.as_path())) {
            let _ = writeln!(text, "(deny network-outbound (remote unix-socket (subpath {})))", quoted(path));
        }
        // Host names are resolved through it.
        text.push_str("(allow network-outbound (literal \"/private/var/run/mDNSResponder\"))\n");
    } else {
        text.push_str("(deny network*)\n");
    }
    text
}

fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_denies_last_what_must_not_be_written() {
        let places = SandboxPaths {
            writable: vec!["/w".into(), "/h/.docker/x".into()],
            hidden: vec!["/h/.docker".into()],
            protected: vec!["/w/.gemini".into()],
            pinned: vec!["/w/.git".into()],
            homes: vec!["/h".into()],
            ..SandboxPaths::default()
        };
        let text = profile(&places, false);
        let line =
            |wanted: &str| text.lines().position(|line| line == wanted).unwrap_or_else(|| panic!("{text}"));
        let allowed = line("(allow file-write* (subpath \"/w\"))");
        assert!(line("(deny file-write*)") < allowed);
        assert!(allowed < line("(deny file-write* (subpath \"/w/.gemini\"))"));
        assert!(
            line("(deny file-read* file-write* (subpath \"/h/.docker\"))")
                < line("(allow file-read* file-write* (subpath \"/h/.docker/x\"))")
        );
        line("(deny network*)");
        line("(deny file-write-unlink (literal \"/w/.git\"))");
        assert!(!profile(&places, true).contains("(deny network*)"));
    }

    #[test]
    fn a_path_cannot_end_its_quotes() {
        assert_eq!(quoted(Path::new("/a\")(allow x\\")), r#""/a\")(allow x\\""#);
    }
}
