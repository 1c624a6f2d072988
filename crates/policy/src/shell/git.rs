//! Programs that git runs because of its arguments, settings or aliases.

use std::path::{Path, PathBuf};

use super::word::Word;
use super::wrapper::Invocation;
use super::{Findings, Part, lists};

/// Whether setting a key can make git run something.
pub(crate) fn is_tame(key: &str, value: Option<&str>) -> bool {
    let key = key.to_ascii_lowercase();
    // Such a URL runs a program, and a template contains hooks.
    if key == "init.templatedir" || value.is_some_and(|value| value.contains("::")) {
        return false;
    }
    if key == "core.pager" {
        return matches!(value, Some("cat" | ""));
    }
    lists::holds("git/tame-key", &key)
        || lists::list("git/tame-section").iter().any(|section| key.starts_with(*section))
}

/// Whether a subcommand may bring files or links into a folder, or replace them.
pub(crate) fn changes_tree(subcommand: &str) -> bool {
    lists::holds("git/changes-tree", subcommand)
}

/// Whether a subcommand contacts other repositories.
pub(crate) fn contacts(subcommand: &str) -> bool {
    lists::holds("git/contacts", subcommand)
}

/// Whether a command fetches submodules that the project declares, or notes their addresses for later.
pub(crate) fn fetches_submodules(part: &Part) -> bool {
    let place = subcommand_place(&part.words);
    let mut words = part.words.iter().skip(place + 1).map(|word| word.as_deref().unwrap_or_default());
    match part.words.get(place).and_then(Option::as_deref) {
        Some("submodule") => {
            let action = words.find(|word| !word.starts_with('-')).unwrap_or("status");
            !lists::holds("git/submodule-stays", action)
        }
        _ => words.any(|word| word.starts_with("--recurse-s")),
    }
}

/// Splits git's own options from the subcommand; returns the index of the latter.
pub(crate) fn subcommand_place(words: &[Option<String>]) -> usize {
    let mut at = 1;
    while let Some(Some(word)) = words.get(at) {
        if !word.starts_with('-') {
            break;
        }
        at += match word.as_str() {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" | "--config-env"
            | "--attr-source" => 2,
            _ => 1,
        };
    }
    at
}

/// The directory that git uses; each `-C` changes it, as seen from the real folder before. `None` if a pattern or a variable
/// names it.
pub(crate) fn git_directory(part: &Part, from: &Path, real: impl Fn(&Path) -> PathBuf) -> Option<PathBuf> {
    let subcommand = subcommand_place(&part.words);
    // A word that is not known yet could become another `-C`.
    if matches!(part.words.get(subcommand), Some(None)) {
        return None;
    }
    let mut folder = real(from);
    let mut words = part.words.iter().take(subcommand).skip(1);
    while let Some(word) = words.next() {
        if word.as_deref() == Some("-C") {
            folder = real(&folder.join(words.next()?.as_deref()?));
        }
    }
    Some(folder)
}

pub(super) fn look_into(call: &Invocation<'_>, found: &mut Findings) {
    if call.name != "git" {
        return;
    }
    let mut at = 0;
    while let Some(word) = call.arguments.get(at) {
        let Some(text) = word.text() else {
            found.doubt("the arguments of `git` are only known at run time");
            return;
        };
        if !text.starts_with('-') {
            break;
        }
        at += 1;
        match text {
            "-c" => {
                configured(call, call.arguments.get(at), found);
                at += 1;
            }
            "-C" => at += 1,
            "-p"
            | "-P"
            | "--paginate"
            | "--no-pager"
            | "--no-optional-locks"
            | "--literal-pathspecs"
            | "--version"
            | "-v"
            | "--help"
            | "-h"
            | "--no-replace-objects" => {}
            _ => {
                found.doubt(format!("`{text}` changes which programs git runs or where it works"));
                if matches!(
                    text,
                    "--git-dir"
                        | "--work-tree"
                        | "--namespace"
                        | "--exec-path"
                        | "--config-env"
                        | "--super-prefix"
                ) {
                    at += 1;
                }
            }
        }
    }
    let Some(subcommand) = call.arguments.get(at).and_then(Word::text) else { return };
    subcommand_runs(call, subcommand, call.arguments.get(at + 1..).unwrap_or_default(), found);
}

/// `-c key=value`.
fn configured(call: &Invocation<'_>, word: Option<&Word>, found: &mut Findings) {
    let Some(text) = word.and_then(Word::text) else {
        found.doubt("a git setting is only known at run time");
        return;
    };
    let (key, value) = text.split_once('=').unwrap_or((text, "true"));
    if is_tame(key, Some(value)) {
        return;
    }
    found.doubt(format!("the git setting `{key}` may run a program"));
    let command = value.strip_prefix('!').unwrap_or(value);
    if !command.is_empty() {
        super::run(command, &call.context.behind("git"), found);
    }
}

fn subcommand_runs(call: &Invocation<'_>, subcommand: &str, arguments: &[Word], found: &mut Findings) {
    let texts: Vec<&str> = arguments.iter().filter_map(Word::text).collect();
    let has = |wanted: &[&str]| {
        texts.iter().any(|text| {
            // Long options may be abbreviated.
            let given = text.split('=').next().unwrap_or_default();
            wanted
                .iter()
                .any(|w| given == *w || given.len() > 4 && w.starts_with("--") && w.starts_with(given))
        })
    };
    if !lists::holds("git/known", subcommand) {
        found.doubt(format!("`git {subcommand}` may be an alias"));
    }
    if matches!(subcommand, "merge" | "rebase" | "pull" | "cherry-pick" | "revert" | "stash" | "am") {
        strategy(subcommand, &texts, found);
    }
    if has(&["--ext-diff", "--textconv", "--filters"]) {
        found.doubt("git runs a program from its settings");
    }
    if subcommand != "rebase" && is_given(lists::list(&format!("git/runs-option/{subcommand}")), &texts) {
        found.doubt(format!("an option of `git {subcommand}` runs a program"));
    }
    match subcommand {
        "rebase" if is_given(lists::list("git/runs-option/rebase"), &texts) => {
            found.doubt("`git rebase` starts an editor");
        }
        "rebase" => {
            for (i, word) in arguments.iter().enumerate() {
                match word.text() {
                    Some("-x" | "--exec") => call.evaluates(arguments.get(i + 1), found),
                    Some(text) if is_given(&["-x"], &[text]) && !text.starts_with("-x") => {
                        found.doubt("an option of `git rebase` runs a program");
                    }
                    Some(text) if text.starts_with("--e") || text.starts_with("-x") => {
                        let command = text
                            .split_once('=')
                            .map_or_else(|| text.trim_start_matches("-x"), |(_, command)| command);
                        super::run(command, &call.context.behind("git"), found);
                    }
                    _ => {}
                }
            }
        }
        "bisect" if texts.first() == Some(&"run") => call.runs(arguments.get(1..).unwrap_or_default(), found),
        "submodule" if texts.contains(&"foreach") => {
            let rest: Vec<&str> = texts
                .iter()
                .skip_while(|t| **t != "foreach")
                .skip(1)
                .skip_while(|t| t.starts_with('-'))
                .copied()
                .collect();
            super::run(&rest.join(" "), &call.context.behind("git"), found);
            if texts.len() != arguments.len() {
                found.doubt("the command that `git` runs is only known at run time");
            }
        }
        "config" => config(arguments, &texts, found),
        _ if lists::holds("git/runs", subcommand) => {
            found.doubt(format!("`git {subcommand}` runs other programs"));
        }
        "clone" | "fetch" | "pull" | "push" | "ls-remote" | "archive" | "fetch-pack" | "send-pack"
        | "remote" | "submodule" => {
            if has(&[
                "--upload-pack",
                "--receive-pack",
                "--exec",
                "--config",
                "--template",
                "--upload",
                "--rec",
                "--ex",
            ]) || subcommand == "clone" && has(&["-u", "-c"])
            {
                found.doubt(format!("an argument sets the program that `git {subcommand}` runs"));
            }
            if texts.iter().any(|t| {
                t.contains("ext::")
                    || t.starts_with("fd::")
                    || t.split("::").nth(1).is_some() && !t.contains('=')
            }) {
                found.doubt("a git URL runs a program");
            }
        }
        "maintenance" if has(&["start", "register"]) => found.doubt("`git maintenance` schedules jobs"),
        "apply" | "am" if has(&["--unsafe-paths", "--directory"]) => {
            found.doubt("a patch may write outside the workspace");
        }
        "interpret-trailers" => found.doubt("`git interpret-trailers` may run commands"),
        "init" if has(&["--template", "--separate-git-dir"]) => {
            found.doubt("git copies hooks from another directory")
        }
        "lfs"
            if !texts.first().is_some_and(|t| {
                matches!(*t, "pull" | "fetch" | "ls-files" | "status" | "env" | "track" | "version")
            }) =>
        {
            found.doubt("`git lfs` may change how files are stored");
        }
        _ => {}
    }
}

/// Whether the arguments contain one of these options: abbreviated, in a cluster, or with a value attached.
fn is_given(options: &[&str], texts: &[&str]) -> bool {
    // A word that may be another option's value counts as well, to be safe. In a cluster, the letters after an option
    // that takes a value are that value.
    let is_short = |text: &str, letter: char| {
        let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default();
        letters
            .split(['m', 'F', 'C', 'S', 'b', 'o', 'j', 'f', 'U', 'G'])
            .next()
            .is_some_and(|flags| flags.contains(letter))
            || letters.starts_with(letter)
    };
    texts.iter().any(|text| {
        let given = text.split('=').next().unwrap_or_default();
        options.iter().any(|option| match option.strip_prefix("--") {
            Some(_) => given.len() > 2 && option.starts_with(given),
            None => option.chars().nth(1).is_some_and(|letter| is_short(text, letter)),
        })
    })
}

/// A merge strategy that is not built into git is a program.
fn strategy(subcommand: &str, texts: &[&str], found: &mut Findings) {
    for (at, text) in texts.iter().enumerate() {
        let (name, attached) =
            text.split_once('=').map_or((*text, None), |(name, value)| (name, Some(value)));
        let is_long = name.len() > 4 && "--strategy".starts_with(name);
        // With other subcommands `-s` may mean `--signoff`. After one of these letters, the rest of the word is its
        // value.
        let is_short = matches!(subcommand, "merge" | "rebase" | "pull");
        let cluster = text.strip_prefix('-').filter(|letters| is_short && !letters.starts_with('-'));
        let cluster = cluster.filter(|letters| {
            letters
                .split('s')
                .next()
                .is_some_and(|flags| !flags.contains(['X', 'm', 'S', 'C', 'F', 'x', 'j']))
        });
        let short = cluster.and_then(|letters| letters.split_once('s')).map(|(_, value)| value);
        let value = match (is_long, short) {
            (true, _) => attached.or(texts.get(at + 1).copied()),
            (_, Some("")) => texts.get(at + 1).copied(),
            (_, short) => short,
        };
        if value
            .is_some_and(|v| !matches!(v, "ort" | "recursive" | "resolve" | "octopus" | "ours" | "subtree"))
        {
            found.doubt("a merge strategy may run a program");
        }
    }
}

fn config(arguments: &[Word], texts: &[&str], found: &mut Findings) {
    if texts.iter().any(|t| {
        matches!(*t, "--global" | "--system" | "-f" | "--worktree")
            || t.starts_with("--file")
            || t.starts_with("--glob")
            || t.starts_with("--sys")
            || t.starts_with("-f")
            || t.starts_with("--blob")
    }) && !texts.iter().any(|t| t.starts_with("--get") || matches!(*t, "get" | "list" | "--list" | "-l"))
    {
        found.doubt("it changes git settings outside this repository");
    }
    let reads = texts.iter().any(|t| {
        matches!(
            *t,
            "--get" | "--get-all" | "--get-regexp" | "--list" | "-l" | "list" | "get" | "--get-urlmatch"
        )
    });
    let operands: Vec<&str> = texts.iter().copied().filter(|t| !t.starts_with('-') && *t != "set").collect();
    if texts.len() != arguments.len() && !reads && operands.first().is_none_or(|key| !is_tame(key, None)) {
        found.doubt("a git setting is only known at run time");
    }
    if texts.iter().any(|t| matches!(*t, "-e" | "--edit" | "edit")) {
        found.doubt("`git config` starts an editor");
    }
    if texts.iter().any(|t| {
        t.starts_with("--unset")
            || t.starts_with("--re")
            || matches!(*t, "unset" | "rename-section" | "remove-section")
    }) && operands.iter().any(|key| *key != "unset" && !is_tame(key, None))
    {
        found.doubt("a git setting is removed");
    }
    if !reads
        && operands.len() > 1
        && operands.first().is_some_and(|key| !is_tame(key, operands.get(1).copied()))
    {
        found.doubt("the git setting may run a program later");
    }
}
