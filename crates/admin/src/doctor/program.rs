//! The program itself, the terminal, and other agents on this machine.

use std::ffi::OsStr;
use std::path::PathBuf;

use pollux_config::search_path::SearchPath;
use pollux_domain::time::{Clock, SystemClock};

use super::Patient;
use super::finding::{Finding, or_ok};

/// The first of 2026; a clock before it is wrong, and certificates fail.
const CLOCK_LIMIT: i64 = 1_767_225_600_000;

/// The program on PATH, programs it needs, and the clock.
pub(super) fn program(patient: &Patient) -> Vec<Finding> {
    let mut findings = Vec::new();
    let own = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
    match find(patient, "pollux") {
        None => findings.push(
            Finding::warning("`pollux` is not on PATH")
                .hint("add its folder to PATH in your shell's start-up file"),
        ),
        Some(found) if own.as_ref().is_some_and(|own| found.canonicalize().ok().as_ref() != Some(own)) => {
            findings.push(
                Finding::warning(format!("`pollux` on PATH is another program: `{}`", found.display()))
                    .hint("remove the one you do not need, or change the order of PATH"),
            );
        }
        Some(_) => {}
    }
    if find(patient, "git").is_none() {
        findings.push(
            Finding::warning("git was not found; extensions cannot be installed from repositories")
                .hint("install git"),
        );
    }
    if find(patient, "bash").is_none() && find(patient, "sh").is_none() {
        findings.push(
            Finding::problem("neither bash nor sh was found on PATH; the agent cannot run commands")
                .hint("add the folder of bash to PATH"),
        );
    }
    if SystemClock.now().millis() < CLOCK_LIMIT {
        findings.push(
            Finding::problem("the clock of this machine is wrong: it shows a date before 2026")
                .hint("set the clock; encrypted connections fail without it"),
        );
    }
    or_ok(findings, own.map_or_else(|| "on PATH".to_owned(), |path| path.display().to_string()))
}

fn find(patient: &Patient, name: &str) -> Option<PathBuf> {
    let path = patient.env.get("PATH").map(OsStr::new);
    SearchPath::new(path, &[]).candidates(name, None).next()
}

/// Whether the screen can be shown as intended.
pub(super) fn terminal(patient: &Patient) -> Vec<Finding> {
    let env = &patient.env;
    let mut findings = Vec::new();
    let term = env.non_empty("TERM");
    match term {
        None => findings.push(
            Finding::warning("TERM is not set; sessions show plain lines")
                .hint("set TERM to the type of your terminal, such as `xterm-256color`"),
        ),
        Some("dumb") => findings.push(
            Finding::warning("TERM is `dumb`; sessions show plain lines")
                .hint("set TERM to the type of your terminal, such as `xterm-256color`"),
        ),
        Some(_) => {}
    }
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| env.non_empty(name));
    let is_utf8 = locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    });
    if !is_utf8 {
        let shown = locale.unwrap_or("not set");
        findings.push(
            Finding::warning(format!("the locale is not UTF-8 ({shown})"))
                .hint("set LANG to a UTF-8 locale, such as `C.UTF-8`"),
        );
    }
    let kind = if patient.at_terminal { "" } else { "; output is not a terminal" };
    or_ok(findings, format!("{}, {}{kind}", term.unwrap_or_default(), locale.unwrap_or_default()))
}

/// Other agents whose settings can be imported or shared.
pub(super) fn other_agents(patient: &Patient) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(path) = find(patient, "gemini") {
        let own = std::env::current_exe().ok().and_then(|path| path.parent()?.canonicalize().ok());
        let folder = path.canonicalize().ok().and_then(|path| Some(path.parent()?.to_path_buf()));
        if own.is_none() || own != folder {
            found.push(Finding::ok(format!(
                "gemini-cli at `{}`; both programs use the same files",
                path.display()
            )));
        }
    }
    let home = patient.env.non_empty("HOME").map(PathBuf::from);
    for (folder, name, word) in [(".claude", "Claude Code", "claude"), (".codex", "Codex", "codex")] {
        if home.as_ref().is_some_and(|home| home.join(folder).is_dir()) {
            let import = format!("to take over its settings, run `pollux import {word}`");
            found.push(Finding::ok(format!("{name} in `~/{folder}`")).hint(import));
        }
    }
    or_ok(found, "none found")
}
