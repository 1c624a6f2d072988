//! Programs that tests write and run.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a file that can be run.
///
/// Another process does: a child that another test starts meanwhile would inherit this process's descriptor, and a file
/// that is open for writing cannot be run ("Text file busy").
pub fn executable(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    let script = r#"mkdir -p "${1%/*}" && cat > "$1" && chmod 755 "$1""#;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh"]).arg(path).env("PATH", "/usr/bin:/bin").stdin(Stdio::piped());
    let mut shell = command.spawn().expect("start a shell");
    let mut input = shell.stdin.take().expect("its input is a pipe");
    input.write_all(text.as_bytes()).expect("hand over the text");
    drop(input);
    assert!(shell.wait().expect("wait for the shell").success(), "could not write {}", path.display());
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::executable;

    #[test]
    fn a_program_is_written_replaced_and_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bin/its name");
        for word in ["one", "two"] {
            executable(&file, &format!("#!/bin/sh\necho {word} '%s'\n"));
            let output = Command::new(&file).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{word} %s\n"));
        }
    }
}
