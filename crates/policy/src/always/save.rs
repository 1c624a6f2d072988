//! Writes approvals to the file that later sessions load.

use std::path::{Path, PathBuf};

use pollux_config::edit_file::edit_text;
use pollux_config::files::{self, FileError, FileLock, LockError, Mode};

use super::Grant;

/// Why an approval could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error("Failed to persist policy for {tool}: {source}")]
    File { tool: String, source: FileError },
    #[error("Failed to persist policy for {tool}: {source}")]
    Lock { tool: String, source: LockError },
}

/// Adds an approval to a file atomically, also when several programs do so at once. A file that is not valid
/// TOML is backed up next to it; returns the path of the backup.
pub fn save(file: &Path, grant: &Grant) -> Result<Option<PathBuf>, SaveError> {
    let tool = || grant.tool.clone().unwrap_or_else(|| "*".to_owned());
    let failed = |source| SaveError::File { tool: tool(), source };
    if let Some(folder) = file.parent() {
        files::create_folder(folder, Mode::Private).map_err(failed)?;
    }
    let _lock = FileLock::acquire(file).map_err(|source| SaveError::Lock { tool: tool(), source })?;
    let mut set_aside = None;
    // Not UTF-8: backed up like text that is not TOML.
    if let Err(FileError::NotUtf8 { .. }) = files::read_text(file) {
        set_aside = Some(back_up(file).map_err(failed)?);
        files::replace(file, grant.to_toml().as_bytes(), Mode::Private).map_err(failed)?;
        return Ok(set_aside);
    }
    // The user may have the file open in an editor, which takes no lock.
    let edited = edit_text(file, Mode::Private, |saved| match grant.merged_into(saved.unwrap_or_default()) {
        Ok(text) => Ok(Some(text)),
        Err(_) => {
            set_aside = Some(back_up(file)?);
            Ok(Some(grant.to_toml()))
        }
    });
    edited.map_err(failed)?;
    Ok(set_aside)
}

fn back_up(file: &Path) -> Result<PathBuf, FileError> {
    let aside = aside(file);
    match std::fs::copy(file, &aside) {
        Ok(_) => Ok(aside),
        Err(source) => Err(FileError::Write { path: aside, source }),
    }
}

/// An unused file name next to the file.
fn aside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".bak");
    let first = PathBuf::from(&name);
    let numbered = |number: u32| {
        let mut name = name.clone();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    std::iter::once(first.clone()).chain((1..1000).map(numbered)).find(|path| !path.exists()).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::always::tests::grant_for_command;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
    fn saved_approvals_accumulate_and_a_broken_file_is_backed_up() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policies/auto-saved.toml");
        assert_eq!(save(&file, &grant_for_command("git status")).unwrap(), None);
        assert_eq!(save(&file, &grant_for_command("cargo test")).unwrap(), None);
        assert_eq!(save(&file, &grant_for_command("git status")).unwrap(), None);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("[[rule]]").count(), 2, "{text}");
        std::fs::write(&file, "not = [toml").unwrap();
        let kept = save(&file, &grant_for_command("ls")).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "not = [toml");
        assert!(std::fs::read_to_string(&file).unwrap().starts_with("[[rule]]"));
    }
}
