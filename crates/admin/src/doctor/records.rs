//! Sessions and what was remembered.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::Patient;
use super::finding::{Finding, Level, or_ok};
use super::repair::Repair;
use crate::memory::{self, notebook};
use crate::sessions::archive;

/// How every SQLite file begins.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

pub(super) fn sessions(patient: &Patient) -> Vec<Finding> {
    let Some(loaded) = &patient.loaded else { return Vec::new() };
    let mut findings = Vec::new();
    let catalogue = loaded.home.gemini_dir().join("pollux/catalogue.db");
    if is_damaged(&catalogue) {
        findings.push(
            Finding::problem(format!("the index of sessions, `{}`, is damaged", catalogue.display()))
                .hint("delete it; it is rebuilt")
                .repair(Repair::Delete(catalogue)),
        );
    }
    let mut archive = match archive(&patient.request, &patient.env, false) {
        Ok(archive) => archive,
        Err(failure) => return vec![Finding::failed(&failure)],
    };
    let checked = archive.verify(false);
    for file in checked.iter().filter(|file| !file.problems.is_empty()) {
        let all: Vec<&str> = file.problems.iter().map(|problem| problem.text.as_str()).collect();
        let text = format!("`{}`: {}", file.file.display(), all.join("; "));
        let finding = Finding::warning(text);
        findings.push(if file.problems.iter().any(|problem| problem.is_repairable) {
            finding.hint("run `pollux sessions verify --repair`").repair(Repair::Sessions)
        } else {
            finding.hint("the rest of the session can be read; see `pollux sessions verify`")
        });
    }
    or_ok(findings, format!("{} in this folder", checked.len()))
}

/// Whether a file that should be an index is something else.
fn is_damaged(file: &Path) -> bool {
    let Ok(mut file) = File::open(file) else { return false };
    let mut start = [0; SQLITE.len()];
    match file.read(&mut start) {
        Ok(0) => false,
        Ok(_) => start != *SQLITE,
        Err(_) => true,
    }
}

pub(super) fn memory(patient: &Patient) -> Vec<Finding> {
    if patient.loaded.is_none() {
        return Vec::new();
    }
    let mut notebook = match notebook(&patient.request, &patient.env) {
        Ok(notebook) => notebook,
        Err(failure) => return vec![Finding::failed(&failure)],
    };
    let shared =
        |found: memory::Finding| Finding { hint: found.hint, ..Finding::at(found.level, found.what) };
    let all: Vec<Finding> = notebook.doctor().into_iter().map(shared).collect();
    // One line is enough for what is well.
    let (well, ill): (Vec<_>, Vec<_>) = all.into_iter().partition(|finding| finding.level == Level::Ok);
    well.into_iter().take(1).chain(ill).collect()
}
