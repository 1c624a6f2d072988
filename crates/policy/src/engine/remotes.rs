//! Credentials in the settings of git: in the URLs of remotes, in headers, and in the user's own settings.

use std::path::{Path, PathBuf};

use super::Engine;
use super::git_config::{Setting, settings};
use super::git_repository::Repository;
use super::reading::untold;
use crate::disk::{BoundedDisk, Disk, EntryKind, GIT_SETTINGS, MAX_BYTES};
use crate::secrets::{config_holds_credentials, holds_login};

/// Limit of parent folders searched for the top of a repository.
const MAX_PARENTS: usize = 64;
/// Limit of files with settings that include each other.
const MAX_INCLUDES: usize = 32;

impl Engine {
    /// Settings that would be shown as they are.
    pub(super) fn weigh_config(&self, look: &BoundedDisk<'_>, config: &Path) -> Result<(), Option<String>> {
        match look.disk.text(config) {
            Some(text) if text.len() as u64 >= MAX_BYTES || config_holds_credentials(&text) => {
                Err(Some("the repository's configuration contains credentials".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// All settings in a folder `.git`, also those of submodules, whose names may contain slashes.
    pub(super) fn weigh_git_folder(
        &self,
        look: &mut BoundedDisk<'_>,
        git: &Path,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<(), Option<String>> {
        for name in GIT_SETTINGS.into_iter().filter(|name| wanted(name)) {
            self.weigh_config(look, &git.join(name))?;
        }
        let mut folders = vec![git.join("modules")];
        while let Some(folder) = folders.pop() {
            if look.disk.kind(&folder) != Some(EntryKind::Folder) {
                continue;
            }
            let entries = look.list(&folder).map_err(|why| Some(untold(why, &folder.to_string_lossy())))?;
            for entry in entries.into_iter().filter(|entry| entry.kind == EntryKind::Folder) {
                let module = folder.join(&entry.name);
                match look.disk.kind(&module.join("HEAD")) {
                    Some(_) => self.weigh_git_folder(look, &module, wanted)?,
                    None => folders.push(module),
                }
            }
        }
        Ok(())
    }

    /// The settings of the repository around a folder, and of the user, if git shows URLs of remotes.
    pub(super) fn weigh_remotes(&self, from: &Path, look: &BoundedDisk<'_>) -> Result<(), Option<String>> {
        for folder in from.ancestors().take(MAX_PARENTS) {
            let git = folder.join(".git");
            if look.disk.kind(&git) == Some(EntryKind::Folder) {
                self.weigh_config(look, &git.join("config"))?;
                // Git skips a `.git` folder that is not a repository.
                if look.disk.kind(&git.join("HEAD")).is_some() {
                    break;
                }
            }
        }
        for repository in Repository::candidates(look.disk, from) {
            for file in repository.settings_files(look.disk) {
                self.weigh_config(look, &file)?;
                let Some(text) = look.disk.text(&file) else { continue };
                if settings(&text).is_some_and(|all| all.iter().any(|one| one.includes())) {
                    return Err(Some("the repository's configuration includes another file".to_owned()));
                }
            }
        }
        self.weigh_own_settings(look.disk)
    }

    /// The settings of the user and the machine, which may replace the beginnings of URLs.
    fn weigh_own_settings(&self, disk: &dyn Disk) -> Result<(), Option<String>> {
        let all = self.settings_with_own(disk, Vec::new());
        match all.is_some_and(|all| !all.iter().filter_map(Setting::address).any(holds_login)) {
            true => Ok(()),
            false => Err(Some("your Git settings may replace the URL by one with credentials".to_owned())),
        }
    }

    /// The settings in these files, in those of the user and the machine, and in files that they include; `None` if git may
    /// know others.
    pub(super) fn settings_with_own(&self, disk: &dyn Disk, mut files: Vec<PathBuf>) -> Option<Vec<Setting>> {
        files.extend(self.options.git_settings.iter().cloned());
        let limit = files.len() + MAX_INCLUDES;
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(file) = files.get(at).cloned() {
            at += 1;
            let Some(text) = disk.text(&file) else { continue };
            let all = settings(&text).filter(|_| (text.len() as u64) < MAX_BYTES && at < limit)?;
            for one in all.iter().filter(|one| one.includes() && one.key == "path") {
                files.push(self.included(&file, &one.value)?);
            }
            found.extend(all);
        }
        Some(found)
    }

    /// The file that a setting includes; `None` if its place is not known.
    fn included(&self, file: &Path, path: &str) -> Option<PathBuf> {
        match path.strip_prefix("~/") {
            Some(rest) => Some(self.options.home.as_ref()?.join(rest)),
            None if path.starts_with(['~', '%']) => None,
            None => Some(file.parent()?.join(path)),
        }
    }
}
