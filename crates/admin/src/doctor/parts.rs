//! What a session is built from: sandbox, servers, hooks, rules, extensions.

use std::ffi::OsStr;
use std::path::Path;

use pollux_config::search_path::SearchPath;
use pollux_domain::plural::counted;
use pollux_host::agents::agent_set;
use pollux_host::custom_commands::{self, CommandList};
use pollux_host::{Loaded, check_extensions, extensions as installed, sandbox_request, split_words};
use pollux_sandbox::Sandbox;

use super::Patient;
use super::finding::{Finding, or_ok};
use crate::hooks::hook_set;
use crate::mcp::{Standing, server_set};
use crate::policy::rules;
use crate::skills::skill_set;

pub(super) fn sandbox(patient: &Patient) -> Vec<Finding> {
    let Some(loaded) = &patient.loaded else { return Vec::new() };
    let request = match sandbox_request(loaded) {
        Ok(request) => request,
        Err(failure) => return vec![Finding::failed(&failure)],
    };
    let wanted = loaded.groups.tools.sandbox.enabled;
    let tried = match Sandbox::probe(&request) {
        Ok(tried) => tried,
        Err(error) => return vec![Finding::problem(error.to_string())],
    };
    let is_chosen = |level| request.level.is_none_or(|only| only == level);
    let used = tried.iter().find(|(level, result)| is_chosen(*level) && result.is_ok());
    let reason =
        tried.iter().filter(|(level, _)| is_chosen(*level)).find_map(|(_, result)| result.as_ref().err());
    match (used, wanted) {
        (_, Some(false)) => vec![
            Finding::warning("turned off in the settings; commands run with your rights")
                .hint("run `pollux config set tools.sandbox true`"),
        ],
        (Some((level, _)), _) => vec![Finding::ok(level.to_string())],
        (None, wanted) => {
            let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let hint = "run `pollux sandbox status`; on Linux, install bubblewrap or allow user namespaces";
            let text = format!("no sandbox is available{reason}");
            let is_asked_for = wanted == Some(true);
            vec![if is_asked_for { Finding::problem(text) } else { Finding::warning(text) }.hint(hint)]
        }
    }
}

pub(super) fn servers(patient: &Patient) -> Vec<Finding> {
    if patient.loaded.is_none() || patient.extent.without_servers {
        return Vec::new();
    }
    let looked = server_set(&patient.request, &patient.env).and_then(|set| set.look_within(patient.answer));
    let rows = match looked {
        Ok((rows, _)) => rows,
        Err(failure) => return vec![Finding::failed(&failure)],
    };
    let mut findings = Vec::new();
    let mut slow = Vec::new();
    for row in rows.iter().filter(|row| row.standing == Standing::Disconnected) {
        let reason = row.reason.as_deref().unwrap_or("not connected");
        if reason.starts_with("no answer within") {
            slow.push(row.name.as_str());
            continue;
        }
        let text = format!("{}: {reason}", row.name);
        let hint = format!("run `pollux mcp test {}`", row.name.split(' ').next().unwrap_or_default());
        findings.push(Finding::problem(text).hint(hint));
    }
    if !slow.is_empty() {
        // They may simply need longer than a check.
        let text = format!("no answer within {} s: {}", patient.answer.as_secs_f64(), slow.join(", "));
        findings.push(Finding::warning(text).hint("run `pollux doctor --timeout 10`"));
    }
    let connected = rows.iter().filter(|row| row.standing == Standing::Connected).count();
    if connected > 0 || findings.is_empty() {
        findings.insert(0, Finding::ok(format!("{connected} of {} connected", rows.len())));
    }
    findings
}

pub(super) fn hooks(patient: &Patient) -> Vec<Finding> {
    let Some(loaded) = &patient.loaded else { return Vec::new() };
    let set = match hook_set(&patient.request, &patient.env) {
        Ok(set) => set,
        Err(failure) => return vec![Finding::failed(&failure)],
    };
    let problem =
        |text: String| Finding::problem(text).hint("fix it in the settings; see `pollux hooks list`");
    let mut findings: Vec<Finding> = set.problems().into_iter().map(problem).collect();
    let rows = set.rows();
    for row in rows.iter().filter(|row| row.enabled) {
        if let Some(reason) = missing_program(&row.command, loaded) {
            let name = row.name.as_deref().unwrap_or(&row.command);
            let text = format!("{} hook `{name}`: {reason}", row.event);
            findings.push(Finding::problem(text).hint(format!("fix its command in `{}`", row.file)));
        }
    }
    let state = if set.is_enabled() { "" } else { ", turned off" };
    or_ok(findings, format!("{}{state}", counted(rows.len(), "hook")))
}

/// Why the program of a simple command cannot be started; nothing is said of commands that a shell must read.
fn missing_program(command: &str, loaded: &Loaded) -> Option<String> {
    let words = split_words(command);
    let first = words.first()?;
    if first.contains(['$', '`', '(', '{', '=', '&', '|', ';', '<', '>', '~', '*']) {
        return None;
    }
    if !first.contains('/') {
        let path = loaded.env.get("PATH").map(OsStr::new);
        let is_found = SearchPath::new(path, &[]).candidates(first, None).next().is_some();
        return (!is_found && !is_shell_word(first)).then(|| format!("`{first}` was not found on PATH"));
    }
    let file = loaded.project.root().join(Path::new(first));
    if !file.exists() {
        return Some(format!("`{first}` does not exist"));
    }
    let is_executable = rustix::fs::access(&file, rustix::fs::Access::EXEC_OK).is_ok();
    (!is_executable).then(|| format!("`{first}` is not executable"))
}

/// Built into shells, not programs.
fn is_shell_word(word: &str) -> bool {
    [
        "cd", "echo", "exec", "exit", "export", "eval", "if", "for", "read", "set", "test", "trap", "true",
        "while", "[", ".", ":",
    ]
    .contains(&word)
}

pub(super) fn policies(patient: &Patient) -> Vec<Finding> {
    if patient.loaded.is_none() {
        return Vec::new();
    }
    let rules = match rules(&patient.request, &patient.env) {
        Ok(rules) => rules,
        Err(failure) => return vec![Finding::failed(&failure)],
    };
    let finding = |found: crate::policy::Finding| {
        let finding =
            if found.is_error { Finding::problem(found.text) } else { Finding::warning(found.text) };
        finding.hint("fix the file; `pollux policy lint` checks it")
    };
    or_ok(rules.lint(&[]).into_iter().map(finding).collect(), "no errors")
}

pub(super) fn extensions(patient: &Patient) -> Vec<Finding> {
    let Some(loaded) = &patient.loaded else { return Vec::new() };
    if let Err(failure) = check_extensions(loaded) {
        return vec![Finding::failed(&failure)];
    }
    let warnings: Vec<Finding> = installed::warnings(loaded)
        .map(|text| Finding::problem(text).hint("see `pollux extensions list`; reinstall or remove it"))
        .collect();
    or_ok(warnings, format!("{} installed", installed::names(loaded).len()))
}

pub(super) fn skills(patient: &Patient) -> Vec<Finding> {
    if patient.loaded.is_none() {
        return Vec::new();
    }
    let set = match skill_set(&patient.request, &patient.env) {
        Ok(set) => set,
        Err(failure) => return vec![Finding::failed(&failure)],
    };
    let (rows, problems) = set.look();
    let problems = problems
        .into_iter()
        .map(|text| Finding::warning(text).hint("run `pollux skills validate PATH`"))
        .collect();
    or_ok(problems, counted(rows.len(), "skill"))
}

pub(super) fn agents(patient: &Patient) -> Vec<Finding> {
    if patient.loaded.is_none() {
        return Vec::new();
    }
    let set = match agent_set(&patient.request, &patient.env) {
        Ok(set) => set,
        Err(failure) => return vec![Finding::failed(&failure)],
    };
    let problem = |text: String| Finding::problem(text).hint("fix the file; `pollux agents list` checks it");
    or_ok(set.problems().into_iter().map(problem).collect(), counted(set.rows().len(), "sub-agent"))
}

pub(super) fn commands(patient: &Patient) -> Vec<Finding> {
    let Some(loaded) = &patient.loaded else { return Vec::new() };
    let CommandList { groups, problems } = custom_commands::list(loaded);
    let problem =
        |text: String| Finding::problem(text).hint("fix the file; `/commands list` names all commands");
    let count: usize = groups.iter().map(|(_, commands)| commands.len()).sum();
    or_ok(problems.into_iter().map(problem).collect(), counted(count, "custom command"))
}
