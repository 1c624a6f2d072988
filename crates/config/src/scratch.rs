//! A home and a project in a folder of their own, for tests.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::env::Env;
use crate::paths::Home;
use crate::settings::{ArgOverrides, LoadRequest, Migration, ProjectTrust, Settings, SettingsError, load};

pub(crate) const USER: &str = "home/.gemini/settings.json";
pub(crate) const PROJECT: &str = "work/.gemini/settings.json";
pub(crate) const SYSTEM: &str = "etc/settings.json";
pub(crate) const DEFAULTS: &str = "etc/system-defaults.json";

pub(crate) struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["home", "work", "etc"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    pub(crate) fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        path
    }

    pub(crate) fn read(&self, relative: &str) -> String {
        fs::read_to_string(self.path(relative)).unwrap()
    }

    /// Names in a folder, sorted.
    pub(crate) fn names(&self, relative: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(relative)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    pub(crate) fn env(&self, vars: &[(&str, &str)]) -> Env {
        let own = [("HOME", self.path("home")), ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", self.path(SYSTEM))];
        let own = own.map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned()));
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Env::new(own.into_iter().chain(vars), self.path("work"))
    }

    pub(crate) fn home(&self) -> Home {
        Home::at(self.path("home"))
    }

    pub(crate) fn load(&self) -> Settings {
        self.load_with(&[], ProjectTrust::Trusted, &[]).unwrap()
    }

    pub(crate) fn load_with(
        &self,
        vars: &[(&str, &str)],
        trust: ProjectTrust,
        args: &[(&str, Value)],
    ) -> Result<Settings, SettingsError> {
        self.load_in(&self.path("work"), vars, trust, args)
    }

    pub(crate) fn load_in(
        &self,
        root: &Path,
        vars: &[(&str, &str)],
        trust: ProjectTrust,
        args: &[(&str, Value)],
    ) -> Result<Settings, SettingsError> {
        let args = args.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        load(&LoadRequest {
            env: &self.env(vars),
            own_env: &self.env(vars),
            offered: &[],
            home: &self.home(),
            project_root: root,
            trust,
            args: ArgOverrides(args),
            migration: Migration::Write,
        })
    }
}
