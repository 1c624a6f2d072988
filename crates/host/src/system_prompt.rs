//! The system prompt as a file: `GEMINI_SYSTEM_MD` reads one, `GEMINI_WRITE_SYSTEM_MD` writes it.

use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_config::files;
use pollux_config::paths::same_place;
use pollux_config::trust;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock};

use super::Loaded;

/// `GEMINI_SYSTEM_MD`: a file that replaces the system prompt.
pub(super) fn own_system_prompt(loaded: &Loaded) -> Result<Option<String>, Failure> {
    let Some(path) = prompt_file(&loaded.env, "GEMINI_SYSTEM_MD", loaded) else { return Ok(None) };
    if is_untrusted(loaded, &path) {
        return Ok(None);
    }
    match files::read_text(&path) {
        Ok(Some(text)) => Ok(Some(text)),
        Ok(None) => {
            Err(Failure::new(ExitKind::Failure, format!("missing system prompt file '{}'", path.display()))
                .hint("it is set in `GEMINI_SYSTEM_MD`; create the file or unset the variable"))
        }
        Err(error) => Err(Failure::from_error(ExitKind::Failure, &error)),
    }
}

pub(super) fn unused_system_prompt(loaded: &Loaded) -> Option<String> {
    let path =
        prompt_file(&loaded.env, "GEMINI_SYSTEM_MD", loaded).filter(|path| is_untrusted(loaded, path))?;
    Some(format!("`{}` is not used as the system prompt: this folder is not trusted", path.display()))
}

/// Whether a file is in the `.gemini` folder of an untrusted project.
fn is_untrusted(loaded: &Loaded, path: &Path) -> bool {
    let own = loaded.project.gemini_dir();
    !loaded.trust.uses_project() && path.starts_with(&own) && !same_place(&own, loaded.home.gemini_dir())
}

/// `GEMINI_WRITE_SYSTEM_MD`: writes the prompt of this run; a warning if that fails.
pub(super) fn write_system_prompt(loaded: &Loaded, prompt: &str) -> Option<String> {
    let path = prompt_file(&loaded.env, "GEMINI_WRITE_SYSTEM_MD", loaded)?;
    let written = files::write_output(&path, prompt.as_bytes(), files::Mode::Shared);
    if path.starts_with(loaded.project.gemini_dir()) {
        // The user requested this file, so it does not need a second approval.
        let _ = trust::rebind(&loaded.home, loaded.project.root(), &loaded.binding, Some(SystemClock.now()));
    }
    written.err().map(|error| format!("could not write the system prompt: {error}"))
}

/// The file a variable refers to: none, the project's `.gemini/system.md`, or a path.
fn prompt_file(env: &Env, variable: &str, loaded: &Loaded) -> Option<PathBuf> {
    let value = env.non_empty(variable)?;
    match value.to_ascii_lowercase().as_str() {
        "0" | "false" => None,
        "1" | "true" => Some(loaded.project.gemini_dir().join("system.md")),
        _ => Some(match value.strip_prefix("~/") {
            Some(rest) => loaded.home.user_home().join(rest),
            None => env.cwd().join(value),
        }),
    }
}
