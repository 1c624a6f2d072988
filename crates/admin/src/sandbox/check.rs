//! Harmless escape attempts to run on a user's machine.

use std::path::Path;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_host::Loaded;
use pollux_sandbox::{Holding, Level, Sandbox};

use super::{Streams, in_sandbox};

/// A script that succeeds only if it gains access that the named right should block.
struct Attempt {
    right: &'static str,
    what: &'static str,
    script: &'static str,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Held,
    /// It succeeded, as the report predicts.
    Open,
    Broken,
}

/// An attempt and its outcome.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) right: &'static str,
    pub(super) what: &'static str,
    pub(super) outcome: Outcome,
}

const ATTEMPTS: &[Attempt] = &[
    Attempt {
        right: "files outside",
        what: "create a file in the home directory",
        script: r#"f="$HOME/.pollux-sandbox-check-$$"; ( : > "$f" ) 2>/dev/null && rm -f "$f""#,
    },
    Attempt {
        right: "files outside",
        what: "create a file in /usr, /etc or /var",
        script: r#"for d in /usr /etc /var; do f="$d/.pollux-check-$$"; ( : > "$f" ) 2>/dev/null && rm -f "$f" && exit 0; done; exit 1"#,
    },
    Attempt {
        right: "hidden places",
        what: "read keys and tokens",
        script: r#"for d in .ssh .gnupg .aws .kube .docker; do for f in "$HOME/$d"/*; do [ -f "$f" ] && head -c 1 "$f" >/dev/null 2>&1 && exit 0; done; done; exit 1"#,
    },
    Attempt {
        right: "processes outside",
        what: "signal Pollux",
        script: r#"kill -0 "$POLLUX_CHECK_PID" 2>/dev/null && [ "$POLLUX_CHECK_PID" != "$PPID" ]"#,
    },
    Attempt {
        right: "processes outside",
        what: "read the variables of the first process",
        script: r#"v=$(tr -d '\0' < /proc/1/environ 2>/dev/null) && [ -n "$v" ]"#,
    },
    Attempt { right: "mounts and namespaces", what: "create a user namespace", script: "unshare -U true" },
    Attempt {
        right: "mounts and namespaces",
        what: "mount a file system",
        script: "mount -t tmpfs none /mnt",
    },
    Attempt { right: "privileges", what: "become root with sudo", script: "sudo -n true" },
    Attempt {
        right: "devices",
        what: "read the memory or a disk",
        script: "head -c 1 /dev/mem || head -c 1 /dev/sda || head -c 1 /dev/vda",
    },
    Attempt {
        right: "system settings",
        what: "open a kernel setting for writing",
        script: ": >> /proc/sys/kernel/core_pattern",
    },
    Attempt {
        right: "daemon sockets",
        what: "reach Docker, the session bus or ssh-agent",
        script: r#"[ -n "$SSH_AUTH_SOCK$DBUS_SESSION_BUS_ADDRESS$DOCKER_HOST" ] || { docker version && exit 0; systemctl --user show-environment; }"#,
    },
    Attempt {
        right: "descriptors",
        what: "find an open file of Pollux",
        script: "[ -e /proc/self/fd/10 ] || [ -e /proc/self/fd/9 ]",
    },
];

/// Runs all attempts.
pub(super) fn run(sandbox: &Sandbox, loaded: &Loaded) -> Result<Vec<Checked>, Failure> {
    let rights = sandbox.confinement().report();
    let own = std::process::id();
    let mut results = Vec::new();
    let contained = matches!(sandbox.level(), Level::Container(_));
    if contained {
        results.push(write_on_machine(sandbox, loaded)?);
    }
    // A container has files of its own at these places.
    let attempts = ATTEMPTS.iter().filter(|attempt| !contained || attempt.right != "files outside");
    for Attempt { right, what, script } in attempts {
        let script = format!("POLLUX_CHECK_PID={own}; {script}");
        let arguments = ["-c".to_owned(), script];
        let (status, _) = in_sandbox(sandbox, "/bin/sh", &arguments, loaded, (Streams::None, &[]))
            .map_err(|error| failed(&error))?;
        let is_held = rights.iter().any(|known| known.name == *right && known.holding == Holding::Held);
        let outcome = match (status.success(), is_held) {
            (false, _) => Outcome::Held,
            (true, false) => Outcome::Open,
            (true, true) => Outcome::Broken,
        };
        results.push(Checked { right, what, outcome });
    }
    Ok(results)
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::new(ExitKind::Sandbox, "could not run a command in the sandbox").because(error)
}

/// Tries to create files outside, and looks for them on this machine: inside a container they may well exist.
fn write_on_machine(sandbox: &Sandbox, loaded: &Loaded) -> Result<Checked, Failure> {
    let name = format!(".pollux-sandbox-check-{}", std::process::id());
    let folders = [loaded.home.user_home(), Path::new("/usr"), Path::new("/etc"), Path::new("/var")];
    let files = folders.map(|folder| folder.join(&name));
    let script = "for f in \"$@\"; do : > \"$f\"; done";
    let mut arguments = ["-c", script, "sh"].map(str::to_owned).to_vec();
    arguments.extend(files.iter().map(|file| file.to_string_lossy().into_owned()));
    in_sandbox(sandbox, "/bin/sh", &arguments, loaded, (Streams::None, &[]))
        .map_err(|error| failed(&error))?;
    let made = files.iter().filter(|file| std::fs::remove_file(file).is_ok()).count();
    let outcome = if made == 0 { Outcome::Held } else { Outcome::Broken };
    Ok(Checked {
        right: "files outside",
        what: "create a file in the home directory, /usr, /etc or /var",
        outcome,
    })
}
