//! A home and a project in a temporary folder, for tests that run a subcommand.

#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::io::{BufRead, empty};
use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_host::prompter::Prompter;
use pollux_host::request::Request;
use tempfile::TempDir;

use crate::line::{Captured, run_captured, run_line};
use crate::table::Command;

pub(crate) struct TestHome {
    folder: TempDir,
    vars: Vec<(String, String)>,
    pub(crate) request: Request,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        for made in [home.join(".gemini"), folder.path().join("project")] {
            fs::create_dir_all(made).unwrap();
        }
        let vars = vec![("HOME".to_owned(), home.display().to_string())];
        Self { folder, vars, request: Request { skip_trust: true, ..Request::default() } }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn untrusted(mut self) -> Self {
        self.request.skip_trust = false;
        self
    }

    pub(crate) fn user_settings(self, text: &str) -> Self {
        fs::write(self.folder.path().join("home/.gemini/settings.json"), text).unwrap();
        self
    }

    /// Writes a file of the project.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let file = self.project().join(path);
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(file, text).unwrap();
        self
    }

    /// Writes a file of the user's home.
    pub(crate) fn home_file(self, path: &str, text: &str) -> Self {
        let file = self.home().join(path);
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(file, text).unwrap();
        self
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub(crate) fn environment(&self) -> Env {
        Env::new(self.vars.iter().cloned(), self.project())
    }

    /// Runs a command without a terminal, with this on its input.
    pub(crate) fn run(&self, command: impl Into<Command>, typed: &str) -> Captured {
        self.answered(command, &mut typed.as_bytes(), false).0
    }

    /// Runs a command with this on its input; what was on the screen comes with the result.
    pub(crate) fn answered(
        &self,
        command: impl Into<Command>,
        input: &mut dyn BufRead,
        at_terminal: bool,
    ) -> (Captured, String) {
        let mut screen = Vec::new();
        let prompter = Prompter { at_terminal, input, screen: &mut screen };
        let done = run_captured(&command.into(), &self.request, &self.environment(), prompter);
        (done, String::from_utf8(screen).unwrap())
    }

    /// Runs a line of words.
    pub(crate) fn line(&self, words: &[&str]) -> Captured {
        let (mut input, mut screen) = (empty(), Vec::new());
        let prompter = Prompter { at_terminal: false, input: &mut input, screen: &mut screen };
        run_line(words, &self.request, &self.environment(), prompter)
    }
}
