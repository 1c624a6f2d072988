//! Writes approvals to the file that later sessions load.

use std::path::{Path, PathBuf};

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
    let saved = match files::read_text(file) {
        Ok(text) => text.unwrap_or_default(),
        // Not UTF-8: backed up like text that is not TOML.
        Err(FileError::NotUtf8 { .. }) => "\u{0}".to_owned(),
        Err(error) => return Err(failed(error)),
    };
    let (text, set_aside) = match grant.merged_into(&saved) {
        Ok(text) => (text, None),
        Err(_) => {
            let aside = aside(file);
            std::fs::copy(file, &aside)
                .map_err(|source| failed(FileError::Write { path: aside.clone(), source }))?;
            (grant.to_toml(), Some(aside))
        }
    };
    files::replace(file, text.as_bytes(), Mode::Private).map_err(failed)?;
    Ok(set_aside)
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
