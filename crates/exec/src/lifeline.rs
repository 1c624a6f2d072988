//! A watcher process that kills our children if this program dies.
//!
//! It reads the live process groups from a pipe. When this program ends for any reason, the pipe closes and the
//! watcher kills every group that is still registered.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use pollux_sandbox::new_session::keep_standard_streams_only;

const SCRIPT: &str = r#"
live=" "
while read -r sign group; do
  case $sign in
    +) live="$live$group " ;;
    -) live="${live%% "$group" *} ${live#* "$group" }" ;;
  esac
done
for group in $live; do kill -s KILL -- "-$group" 2>/dev/null; done
"#;

/// The watcher; started with the first group.
#[derive(Debug, Default)]
pub(crate) struct Lifeline {
    watcher: Mutex<Option<Child>>,
}

impl Lifeline {
    /// Registers a process group. Without a watcher (no `sh`) this does nothing.
    pub(crate) fn add(&self, group: i32) {
        let Ok(mut watcher) = self.watcher.lock() else { return };
        if watcher.is_none() {
            *watcher = start().ok();
        }
        tell(watcher.as_mut(), '+', group);
    }

    /// Unregisters a process group.
    pub(crate) fn remove(&self, group: i32) {
        let Ok(mut watcher) = self.watcher.lock() else { return };
        tell(watcher.as_mut(), '-', group);
    }
}

fn tell(watcher: Option<&mut Child>, sign: char, group: i32) {
    if let Some(pipe) = watcher.and_then(|child| child.stdin.as_mut()) {
        // A watcher that was killed cannot help; the commands still run.
        let _ = pipe.write_all(format!("{sign} {group}\n").as_bytes());
    }
}

fn start() -> std::io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(SCRIPT).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    keep_standard_streams_only(&mut command);
    // Outside the terminal's group, so that Ctrl-C does not reach it.
    command.process_group(0).spawn()
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        if let Ok(watcher) = self.watcher.get_mut()
            && let Some(mut child) = watcher.take()
        {
            drop(child.stdin.take());
            // It ends as soon as the pipe is closed.
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        Command::new("/bin/sleep").arg("600").process_group(0).spawn().unwrap()
    }

    #[test]
    fn registered_groups_are_killed_when_the_pipe_closes() {
        let (mut kept, mut lost) = (sleeper(), sleeper());
        let lifeline = Lifeline::default();
        lifeline.add(kept.id() as i32);
        lifeline.add(lost.id() as i32);
        lifeline.remove(kept.id() as i32);
        drop(lifeline);
        assert!(!lost.wait().unwrap().success());
        assert_eq!(kept.try_wait().unwrap(), None);
        kept.kill().unwrap();
        kept.wait().unwrap();
    }
}
