//! git as tests run it: the developer's repository and settings have no part in it.

use std::path::Path;
use std::process::Command;

/// git in a folder.
pub fn git(folder: impl AsRef<Path>) -> Command {
    with_own_git("git", folder)
}

/// A program in a folder that starts git, such as a shell.
pub fn with_own_git(program: &str, folder: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    // In a git hook, these lead to the developer's own repository.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "test").env(format!("GIT_{who}_EMAIL"), "test@example.com");
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}
