//! Creates files with secrets, for this user only.

use std::io::{self, Write as _};
use std::path::Path;

use pollux_config::files::{self, Mode};

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
