//! Programs of others below `target`, where scripts install them.

use std::path::{Path, PathBuf};

/// A folder below `target`; `None`, and a line that says so, where the script has not run.
pub(crate) fn installed(folder: &str, script: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(folder);
    let complete = folder.join("installed").exists();
    if !complete {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "skipped: scripts/{script} has not installed the client");
    }
    complete.then_some(folder)
}
