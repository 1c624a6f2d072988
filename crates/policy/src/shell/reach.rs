//! Files that a command touches beyond what its first word suggests.
//!
//! A rule that allows `git` or `cp` is about the workspace; it does not cover paths outside it or files that
//! influence later runs.

mod covers;
mod git_files;
mod git_shows;
mod given;

pub(crate) use self::git_files::{
    changes_operands as git_changes_operands, forces as git_forces, names_only as git_names_only,
    option_files as git_option_files, reads_untracked as git_reads_untracked, runs as git_runs,
    shows_stash as git_shows_stash,
};
pub(crate) use self::git_shows::{
    adds as git_adds, compares as git_compares, ends_as_folder, prints as git_prints,
    shows_addresses as git_shows_addresses,
};
use self::given::Given;
use super::{Part, git, lists, names, programs};

/// A file that a command touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch<'p> {
    pub path: &'p str,
    /// Whether it may be created or changed.
    pub writes: bool,
}

/// What a command that does more than read brings into a folder, apart from ordinary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brought {
    Nothing,
    /// Anything, but only in folders of its own.
    Below,
    /// What there is in its sources.
    Copies,
    /// Links, or copies under other names, where its operands say.
    Links,
    Anything,
}

/// What a command brings, judging by the tables.
pub(crate) fn brought_by(part: &Part) -> Brought {
    let Some(Some(program)) = part.words.first() else { return Brought::Anything };
    let name = names::base(program);
    let arguments: Vec<&str> = part.words.iter().skip(1).flatten().map(String::as_str).collect();
    let options = lists::list(&format!("brings/option/{name}"));
    let other = arguments.iter().any(|text| given::is_one_of(options, text));
    let first = arguments.iter().find(|text| !text.starts_with('-')).copied().unwrap_or_default();
    let knows =
        |section: &str| lists::holds(section, name) || lists::holds(section, &format!("{name}/{first}"));
    // Creating an archive changes nothing else.
    let packs = matches!(name, "tar" | "gtar" | "bsdtar") && given::packs(&arguments);
    if knows("brings/copies") {
        if other { Brought::Links } else { Brought::Copies }
    } else if other {
        Brought::Anything
    } else if knows("brings/nothing") && !(name == "cargo" && first == "vendor") || packs {
        Brought::Nothing
    } else if knows("brings/below") {
        Brought::Below
    } else {
        Brought::Anything
    }
}

/// Whether all operands of a program are sources, even if it also changes or replaces them.
pub(crate) fn operands_are_sources(name: &str) -> bool {
    lists::holds("copies/all", name)
}

/// Whether an option names the folder that a command writes to.
pub(crate) fn names_target(part: &Part) -> bool {
    let options = ["-t", "--target-directory"];
    part.words.iter().skip(1).flatten().any(|text| given::is_one_of(&options, text))
}

/// Whether a command is given one of the options of a section.
pub(crate) fn has_option(part: &Part, section: &str) -> bool {
    let options = lists::list(section);
    !options.is_empty() && part.words.iter().skip(1).flatten().any(|text| given::is_one_of(options, text))
}

/// A program, or `git/subcommand`.
fn key(part: &Part) -> String {
    let name = part.words.first().and_then(Option::as_deref).map(names::base).unwrap_or_default();
    match git_files::subcommand(part) {
        Some(subcommand) => format!("git/{subcommand}"),
        None => name.to_owned(),
    }
}

/// Whether `tar` writes an archive.
pub(crate) fn packs(part: &Part) -> bool {
    let arguments: Vec<&str> = part.words.iter().skip(1).flatten().map(String::as_str).collect();
    matches!(key(part).as_str(), "tar" | "gtar" | "bsdtar") && given::packs(&arguments)
}

/// Whether a command copies, packs or sends all files below a folder.
pub(crate) fn copies_trees(part: &Part) -> bool {
    packs(part) || has_option(part, &format!("trees/{}", key(part)))
}

/// Whether a program itself expands patterns, in all folders below.
pub(crate) fn expands_patterns(part: &Part) -> bool {
    lists::holds("trees/patterns", &key(part))
}

/// Whether the operands of a program may be files on other machines.
pub(crate) fn names_hosts(part: &Part) -> bool {
    lists::holds("acts/remote", &key(part))
}

/// Whether a command puts files into a folder under the names of its sources.
pub(crate) fn puts_into(part: &Part) -> bool {
    lists::holds("puts/into", &key(part))
}

/// Whether a command gives its sources further names, through which they can be changed.
pub(crate) fn links_hard(part: &Part) -> bool {
    let name = key(part);
    name == "ln" && !links_soft(part) || has_option(part, &format!("links/hard/{name}"))
}

/// Whether a command makes symbolic links.
pub(crate) fn links_soft(part: &Part) -> bool {
    has_option(part, &format!("links/soft/{}", key(part)))
}

/// Whether the targets of symbolic links are given from the current folder.
pub(crate) fn links_from_here(part: &Part) -> bool {
    has_option(part, &format!("links/relative/{}", key(part)))
}

/// Whether a command may remove the end of a file's name.
pub(crate) fn unpacks(part: &Part) -> bool {
    lists::holds("acts/unpacks", &key(part))
}

/// Whether an option chooses how the backups of a command are named.
pub(crate) fn names_backups(part: &Part) -> bool {
    has_option(part, &format!("backup/suffix/{}", key(part)))
}

/// Whether a command changes the files that a patch names.
pub(crate) fn applies_patch(part: &Part) -> bool {
    let key = key(part);
    lists::holds("applies/patch", &key) && !has_option(part, &format!("applies/nothing/{key}"))
}

/// Whether package managers fill folders of this name.
pub(crate) fn holds_packages(name: &str) -> bool {
    lists::holds("packages/folder", name)
}

/// Whether a program acts on the entries of a folder instead of what links point to.
pub(crate) fn acts_on_entries(name: &str) -> bool {
    lists::holds("acts/entries", name)
}

/// Whether a program changes who may write a file.
pub(crate) fn changes_permissions(name: &str) -> bool {
    lists::holds("acts/permissions", name)
}

/// Whether the next word of a git command is free text.
fn announces_text(subcommand: &str, option: &str) -> bool {
    let short = option.starts_with('-') && !option.starts_with("--");
    match subcommand {
        "commit" | "tag" | "merge" | "stash" | "notes" if short && option.ends_with('m') => true,
        "log" | "diff" | "show" if matches!(option, "-S" | "-G") => true,
        _ => lists::holds("git/text-option", option),
    }
}

/// The files that a command touches beyond the scope of a rule on its first words, and why they cannot all be
/// determined, if so.
pub fn touches(part: &Part) -> (Vec<Touch<'_>>, Option<&'static str>) {
    let (mut touches, unsure) = named(part);
    for touch in &mut touches {
        // Bash takes `x=~/a` and `x=a:~/b` for a home directory in any argument.
        let home = touch.path.find("=~").or_else(|| touch.path.find(":~"));
        touch.path = home.and_then(|at| touch.path.get(at + 1..)).unwrap_or(touch.path);
    }
    (touches, unsure)
}

fn named(part: &Part) -> (Vec<Touch<'_>>, Option<&'static str>) {
    let Some(Some(program)) = part.words.first() else { return (Vec::new(), None) };
    let name = names::base(program);
    let words = words_of(part);
    match (name, programs::program(name)) {
        ("git", _) => git_touches(part, &words),
        ("sed" | "gsed", _) => given::sed(&words),
        ("perl", _) => (given::all(&words), unknown(&words)),
        ("tar" | "gtar" | "bsdtar", Some(program)) => given::tar(program, &words),
        (_, Some(program)) => Given::read(name, program, &words).touches(name, program),
        (_, None) => (Vec::new(), unknown(&words)),
    }
}

/// The files that say what a command builds or runs.
pub(crate) fn build_files(part: &Part) -> Vec<&str> {
    let Some(Some(program)) = part.words.first() else { return Vec::new() };
    let name = names::base(program);
    let row = programs::program(name).filter(|program| program.traits.loose);
    row.map_or_else(Vec::new, |row| Given::read(name, row, &words_of(part)).builds)
}

/// The first operand of a command: not the value of an option, nor a toolchain.
pub(super) fn subcommand(part: &Part) -> Option<&str> {
    let name = names::base(part.words.first()?.as_deref()?);
    let given = Given::read(name, programs::program(name)?, &words_of(part));
    given.operands.into_iter().find(|operand| !operand.starts_with('+'))
}

/// Why a rule on a program as a whole does not cover the subcommand of a command, if it does not.
pub(crate) fn uncovered(part: &Part) -> Option<&'static str> {
    let Some(Some(program)) = part.words.first() else { return None };
    let name = names::base(program);
    let row = programs::program(name)?;
    covers::verb(name, &Given::read(name, row, &words_of(part)).operands, part)
}

/// The arguments of a command.
fn words_of(part: &Part) -> Vec<Word<'_>> {
    part.words
        .iter()
        .enumerate()
        .skip(1)
        .map(|(at, word)| Word {
            text: word.as_deref().or_else(|| {
                part.patterns.iter().find(|pattern| pattern.at == at).map(|found| found.text.as_str())
            }),
            tame: part.data.iter().any(|datum| datum.at == at && datum.single && datum.leads),
            single: part.data.iter().any(|datum| datum.at == at && datum.single),
        })
        .collect()
}

#[derive(Clone, Copy)]
struct Word<'p> {
    text: Option<&'p str>,
    /// Known only at run time, but one word and not an option.
    tame: bool,
    single: bool,
}

const AT_RUN_TIME: &str = "some of its arguments are only known at run time";

fn unknown(words: &[Word<'_>]) -> Option<&'static str> {
    words.iter().any(|word| word.text.is_none() && !word.tame).then_some(AT_RUN_TIME)
}

fn git_touches<'p>(part: &'p Part, words: &[Word<'p>]) -> (Vec<Touch<'p>>, Option<&'static str>) {
    let place = git::subcommand_place(&part.words).saturating_sub(1);
    let (own, rest) = words.split_at(place.min(words.len()));
    let mut touches = Vec::new();
    for pair in own.windows(2) {
        if let [Word { text: Some("-C"), .. }, Word { text: Some(path), .. }] = pair {
            touches.push(Touch { path, writes: false });
        }
    }
    let subcommand = rest.first().and_then(|word| word.text).unwrap_or_default();
    let writes = matches!(
        subcommand,
        "worktree" | "clone" | "init" | "bundle" | "archive" | "format-patch" | "log" | "diff" | "show"
    );
    let mut unsure = None;
    let mut paths_only = false;
    let mut rest = rest.iter().skip(1).peekable();
    while let Some(word) = rest.next() {
        let Some(text) = word.text else {
            if !word.tame && !paths_only {
                unsure = Some(AT_RUN_TIME);
            }
            continue;
        };
        if text == "--" {
            paths_only = true;
            continue;
        }
        if announces_text(subcommand, text) {
            // Words that look like options are treated as options.
            if let Some(value) = rest.next_if(|value| value.text.is_none_or(|text| !text.starts_with('-')))
                && value.text.is_none()
                && !value.single
            {
                unsure = Some(AT_RUN_TIME);
            }
            continue;
        }
        let is_text = |option: &&str| text.strip_prefix(*option).is_some_and(|value| value.starts_with('='));
        if lists::list("git/text-option").iter().chain(&["--format", "--pretty"]).any(is_text) {
            continue;
        }
        if given::is_one_of(lists::list(&format!("outside/git-{subcommand}")), text)
            || lists::holds(&format!("outside/exact/git-{subcommand}"), text)
        {
            unsure = Some(given::LEAVES);
        }
        if subcommand == "config" && shows_closed_setting(text, words) {
            unsure = Some("it may show a setting with credentials");
        }
        let given = text.split('=').next().unwrap_or_default();
        if given.len() > 2 && "--output".starts_with(given) && lists::holds("git/writes-output", subcommand) {
            unsure = Some("it writes its output to a file");
        }
        // A file may be named like an option.
        if text.starts_with(['*', '?', '['])
            && part.words.iter().flatten().all(|word| word != text)
            && matches!(subcommand, "diff" | "log" | "show" | "grep" | "fetch" | "push" | "pull" | "archive")
            && !paths_only
        {
            unsure = Some("a file name that the pattern matches may be taken as an option");
        }
        let long = text.starts_with("--") && !text.contains('=');
        if lists::holds("git/file-option", text)
            || long && given::is_one_of(lists::list("git/file-option"), text)
        {
            match rest.next_if(|value| value.text.is_none_or(|text| !text.starts_with('-'))) {
                Some(Word { text: Some(path), .. }) => {
                    touches.push(Touch { path, writes: !matches!(text, "-F" | "--file") });
                }
                Some(_) => unsure = Some(AT_RUN_TIME),
                None => {}
            }
            continue;
        }
        let value = match text.strip_prefix('-') {
            None | Some("") => text,
            Some(option) => match option.split_once('=') {
                Some((_, value)) => value,
                None => match option.find(['/', '~']) {
                    Some(place) if !option.starts_with('-') => option.split_at(place).1,
                    _ => continue,
                },
            },
        };
        let leads_out = value.starts_with(['/', '~'])
            || value.split('/').any(|component| component == "..")
            || value.starts_with("file:");
        let is_output = text.starts_with("--o")
            || text.starts_with("-o")
            || subcommand == "apply" && text.starts_with("--b")
            || matches!(subcommand, "mailinfo" | "merge-file" | "fast-export")
            || writes && matches!(subcommand, "worktree" | "bundle" | "init" | "clone");
        // Any other word may be a file behind a link; the workspace itself is none.
        let is_root = value.trim_matches(['.', '/', '*']).is_empty();
        if leads_out || is_output || !is_root {
            touches.push(Touch { path: value.strip_prefix("file://").unwrap_or(value), writes: is_output });
        }
    }
    (touches, unsure)
}

/// Whether a word of `git config` is a key that it shows, and that may hold credentials.
fn shows_closed_setting(text: &str, words: &[Word<'_>]) -> bool {
    let all = || words.iter().filter_map(|word| word.text);
    let shows = all().any(|word| word == "get" || word.starts_with("--g") && !"--global".starts_with(word));
    let operands = all().skip_while(|word| *word != "config").filter(|word| !word.starts_with('-')).count();
    // A key alone is shown, too.
    let is_key = text.contains('.') && !text.starts_with('-');
    is_key && (shows || operands == 2) && !super::reads::git::is_open_key(text)
}
