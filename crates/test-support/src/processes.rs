//! Processes that a test caused.

use std::fs;
use std::path::Path;

/// The command lines of the processes that work in a folder, with this text in them. A command line alone may be that of
/// another run of the same test.
pub fn processes_in(folder: impl AsRef<Path>, text: &str) -> Vec<String> {
    let folder = fs::canonicalize(folder).expect("find the folder");
    let processes = fs::read_dir("/proc").expect("list the processes").flatten();
    let found = processes.filter_map(|process| {
        let process = process.path();
        let place = fs::read_link(process.join("cwd")).ok()?;
        let state = fs::read_to_string(process.join("stat")).ok()?;
        let line = fs::read(process.join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let is_meant = place.starts_with(&folder) && !state.contains(") Z ") && line.contains(text);
        is_meant.then(|| format!("{} {line}", process.display()))
    });
    found.collect()
}
