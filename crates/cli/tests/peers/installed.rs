//! Programs of others below `target`, where scripts install them.

use std::path::{Path, PathBuf};

/// A folder below `target`; `None`, and a line that says so, where the script has not run.
pub(crate) fn installed(folder: &str, script: &str) -> Option<PathBuf> {
    let what = folder;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(what);
    let complete = folder.join("installed").exists();
    if !complete {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "skipped: scripts/{script} has not installed {what}");
    }
    complete.then_some(folder)
}
