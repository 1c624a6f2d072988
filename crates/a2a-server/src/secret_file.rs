//! Files with secrets: created for this user only, and refused if others can read them.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pollux_config::files::{self, Mode};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

/// The largest file.
const MAX_FILE: u64 = 1024 * 1024;

/// Creates a file with this content, unless there is one.
pub(crate) fn create(file: &Path, content: &str) -> io::Result<()> {
    if file.exists() {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    files::create_folder(folder, Mode::Private).map_err(io::Error::other)?;
    // Readable by its owner only.
    let mut temp = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(temp, "{content}")?;
    match temp.persist_noclobber(file) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

/// Reads a file that only its owner can read; `what` names it in errors.
pub(crate) fn read(file: &Path, what: &str) -> Result<String, Failure> {
    let shown = format!("{what} `{}`", file.display());
    let unreadable =
        |error: io::Error| Failure::new(ExitKind::Config, format!("could not read {shown}")).because(&error);
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    if opened.metadata().map_err(unreadable)?.permissions().mode() & 0o077 != 0 {
        let text = format!("cannot use {shown}: other users can read it");
        return Err(Failure::new(ExitKind::Config, text).hint(format!("run `chmod 600 {}`", file.display())));
    }
    let mut text = String::new();
    opened.take(MAX_FILE).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}
