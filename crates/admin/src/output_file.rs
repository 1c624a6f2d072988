//! Files that a command writes because the user named them.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt as _};
use std::path::Path;

use pollux_config::files::{self, Mode};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

/// Writes a text that only the user may read; an existing file is replaced only if `replace` is set. Into a pipe or
/// device it is written without a question.
pub(crate) fn write(path: &Path, text: &str, replace: bool) -> Result<(), Failure> {
    let failed = |error: &io::Error| {
        Failure::new(ExitKind::Failure, format!("could not write `{}`", path.display())).because(error)
    };
    let is_special = fs::metadata(path).is_ok_and(|old| !old.is_file() && !old.is_dir());
    if replace || is_special {
        // A replaced file keeps its mode.
        if fs::metadata(path).is_ok_and(|old| old.is_file()) {
            fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|error| failed(&error))?;
        }
        return files::write_output(path, text.as_bytes(), Mode::Private)
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error));
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.and_then(|mut out| out.write_all(text.as_bytes())).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return Failure::new(ExitKind::Input, format!("`{}` already exists", path.display()))
                .hint("name another file, or add `--yes` to replace it");
        }
        failed(&error)
    })
}
