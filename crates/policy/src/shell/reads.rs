//! Read-only commands: which files they read, and how much of them.
//!
//! Does not access the disk. The caller decides whether a file may be read, and handles doubts and
//! redirections.

pub(super) mod git;

use super::arguments::Arguments;
use super::programs::{self, Kind, Program};
use super::scripts::awk_is_tame;
use super::{Part, lists, names, sed, variables};

/// The files that a read-only command reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reads {
    pub all: Vec<Read>,
    /// Whether the program reads or runs configuration of the folder.
    pub needs_trust: bool,
    /// The program as bash will look for it on `PATH`; `None` if it is a part of bash, or named by its path.
    pub program: Option<String>,
}

/// One file or folder that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    pub path: String,
    pub how: How,
}

/// How much of a file or folder is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// Whether it exists, its size and the like; of a folder, the names in it.
    Facts,
    Contents,
    /// The remote URLs of the surrounding repository; they may contain a token.
    Remotes,
    /// The contents of every file below it.
    Tree(Tree),
}

/// Which files below a folder are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    /// Hidden files as well.
    pub hidden: bool,
    /// Links are followed.
    pub follows: bool,
    /// Only names that match one of these patterns; all if there are none.
    pub only: Vec<String>,
    /// Not files of these names.
    pub without: Vec<String>,
    /// Not folders of these names.
    pub without_folders: Vec<String>,
}

/// Whether a command is read-only and reads only files below its directory, judging by their names.
pub fn is_known_safe(part: &Part) -> bool {
    is_known_safe_within(part, &|path| is_below(path))
}

/// Like [`is_known_safe`], with the caller deciding which files may be read.
pub fn is_known_safe_within(part: &Part, may_read: &dyn Fn(&str) -> bool) -> bool {
    reads(part).is_some_and(|reads| reads.all.iter().all(|read| may_read(&read.path)))
}

/// The files that a command reads if it is read-only. File name patterns are kept as they are.
pub fn reads(part: &Part) -> Option<Reads> {
    let gives_rights = |name: &String| programs::program(name).is_some_and(|program| program.traits.rights);
    if part.behind.iter().any(gives_rights) {
        return None;
    }
    let words = spelled(part)?;
    let is_read = words.first() == Some(&"read");
    let risky = |(name, value): &(String, Option<String>)| {
        variables::is_risky(name, value.as_deref()) && !(is_read && name == "IFS")
    };
    if part.assignments.iter().any(risky) || takes_variables(part, &part.assignments).is_some() {
        return None;
    }
    let Some((path, arguments)) = words.split_first() else {
        return (!part.assignments.is_empty()).then(Reads::default);
    };
    let name = names::base(path);
    if name != *path && *path != format!("/bin/{name}") && *path != format!("/usr/bin/{name}") {
        return None;
    }
    let mut reads = if let [word] = arguments
        && part.assignments.is_empty()
        && let Some(needs_trust) = programs::question(name, word)
    {
        Reads { needs_trust, ..Reads::default() }
    } else if name == "command" && matches!(arguments, ["-v" | "-V", ..]) && part.data.is_empty() {
        Reads::default()
    } else if name == "git" {
        git::reads(part, arguments)?
    } else {
        let (program, arguments) = described(name, arguments)?;
        let all = looked_at(name, program, arguments, part)?;
        Reads { all, needs_trust: program.traits.trusted, program: None }
    };
    let is_builtin = programs::program(name).is_some_and(|program| program.traits.builtin);
    reads.program = (name == *path && !is_builtin).then(|| name.to_owned());
    Some(reads)
}

/// Why a variable may change what a read-only command does: tools that a folder configures, and those that start others, have
/// more variables than can be listed.
pub(crate) fn takes_variables(part: &Part, given: &[(String, Option<String>)]) -> Option<String> {
    let (name, _) = given.iter().find(|(name, value)| !variables::is_harmless(name, value.as_deref()))?;
    let words: Vec<&str> = part.words.iter().map(|word| word.as_deref().unwrap_or_default()).collect();
    let (path, arguments) = words.split_first()?;
    let program = names::base(path);
    let is_question = matches!(arguments, [word] if programs::question(program, word).is_some());
    let takes = is_question
        || lists::holds("takes/variables", program)
        || described(program, arguments).is_some_and(|(program, _)| program.traits.trusted);
    takes.then(|| format!("it sets `{name}`, which may change what `{program}` does"))
}

/// The table entry for a program with these arguments, and the remaining arguments.
fn described<'w, 'a>(name: &str, arguments: &'w [&'a str]) -> Option<(&'static Program, &'w [&'a str])> {
    let (program, rest) =
        subcommand(name, arguments).or_else(|| programs::program(name).map(|found| (found, arguments)))?;
    (!program.traits.loose && !program.traits.runs).then_some((program, rest))
}

/// The table entry for the subcommand that the arguments begin with.
fn subcommand<'w, 'a>(name: &str, arguments: &'w [&'a str]) -> Option<(&'static Program, &'w [&'a str])> {
    let deeper = match arguments {
        [first, second, rest @ ..] if !second.starts_with('-') => {
            programs::program(&format!("{name}/{first}-{second}")).map(|program| (program, rest))
        }
        _ => None,
    };
    deeper.or_else(|| {
        let (first, rest) = arguments.split_first()?;
        programs::program(&format!("{name}/{first}")).map(|program| (program, rest))
    })
}

fn looked_at(name: &str, program: &Program, arguments: &[&str], part: &Part) -> Option<Vec<Read>> {
    if !part.data.is_empty() {
        return takes_data(name, program, arguments, part).then(Vec::new);
    }
    if program.traits.any {
        // Names that a pattern finds are shown; the words of `[[` are not expanded.
        let patterns = part.patterns.iter().filter(|_| name != "[[");
        return patterns.map(|pattern| read(&pattern.text, How::Facts)).collect();
    }
    if program.traits.argument_files && arguments.iter().any(|word| word.starts_with('@')) {
        return None;
    }
    if program.acts() && part.patterns.iter().any(super::Pattern::may_be_an_option) {
        return None;
    }
    // The first word of tar may be options without a dash.
    let dashed;
    let arguments = match arguments {
        [mode, rest @ ..] if matches!(name, "tar" | "gtar" | "bsdtar") && !mode.starts_with('-') => {
            dashed = format!("-{mode}");
            std::iter::once(dashed.as_str()).chain(rest.iter().copied()).collect()
        }
        _ => arguments.to_vec(),
    };
    let changes = name == "cd" && arguments == ["-"] || name == "set" && arguments.is_empty();
    if changes || name == "ps" && ps_may_show_variables(&arguments) {
        return None;
    }
    let given = Arguments::read(program, &arguments)?;
    files(name, program, &given)
}

/// Whether ps may show the variables of processes. Options with a dash that it cannot make sense of, alone or together,
/// are read again as BSD's, where `e` means variables, and so are values that BSD's option does not take: `-xef`, `-eH -T`,
/// `-auxe` where no user has the name `xe`.
fn ps_may_show_variables(arguments: &[&str]) -> bool {
    /// Those that make sense in any combination.
    const SENSIBLE: &str = "AadefFHjlLwyNmMC";
    const ALONE: [&str; 4] = ["--forest", "--headers", "--no-headers", "--no-heading"];
    let (mut is_sensible, mut any_e) = (true, false);
    let (mut is_value, mut is_name) = (false, false);
    for word in arguments {
        if word.contains("env") {
            return true;
        }
        if std::mem::take(&mut is_value) {
            continue;
        }
        if std::mem::take(&mut is_name) {
            any_e |= word.contains('e');
            continue;
        }
        if word.starts_with("--") {
            is_value = !word.contains('=') && !ALONE.contains(word);
            continue;
        }
        let letters = word.strip_prefix('-').unwrap_or(word);
        // Both ways of reading take what follows these for a value.
        let flags = letters.split(['o', 'p']).next().unwrap_or_default();
        is_value = flags.len() + 1 == letters.len();
        is_name = letters.ends_with('C');
        is_sensible &= word.starts_with('-') && flags.chars().all(|letter| SENSIBLE.contains(letter));
        any_e |= flags.contains('e');
    }
    any_e && !is_sensible
}

/// The files among arguments; `None` if the command does more than read.
fn files(name: &str, program: &Program, given: &Arguments<'_>) -> Option<Vec<Read>> {
    let mut tree =
        Tree { hidden: given.hidden || !program.traits.visible, follows: name == "diff", ..Tree::default() };
    for (kind, value) in &given.values {
        match (kind, value.strip_prefix('!')) {
            (Kind::Glob, Some(not)) => {
                tree.without.push(not.to_owned());
                tree.without_folders.push(not.to_owned());
            }
            (Kind::Glob, None) => tree.only.push((*value).to_owned()),
            (Kind::Skip, _) => tree.without.push((*value).to_owned()),
            (Kind::SkipFolder, _) => tree.without_folders.push((*value).to_owned()),
            // A type, like a pattern, finds hidden files as well.
            (Kind::Type, _) => {
                tree.hidden = true;
                tree.only.extend(endings_of_type(value).iter().map(|ending| format!("*.{ending}")));
            }
            _ => {}
        }
    }
    tree.hidden |= program.traits.visible && !tree.only.is_empty();
    // Where names are asked for as well, the order decides which counts.
    if !tree.only.is_empty() {
        tree.without.clear();
    }
    let how = |kind: Kind| match kind {
        Kind::Facts => How::Facts,
        _ if given.names => How::Facts,
        Kind::Tree => How::Tree(tree.clone()),
        Kind::File if given.tree => How::Tree(tree.clone()),
        _ => How::Contents,
    };
    let mut all = Vec::new();
    if program.traits.remotes {
        all.push(Read { path: ".".to_owned(), how: How::Remotes });
    }
    for (kind, value) in &given.values {
        match kind {
            Kind::Command | Kind::Listing => return None,
            Kind::Out if is_sink(value) => {}
            Kind::Out => return None,
            Kind::File | Kind::Facts | Kind::Tree if *value == "-" => {}
            Kind::File | Kind::Facts | Kind::Tree => all.push(read(value, how(*kind))?),
            Kind::Archive => archive(value, &mut all)?,
            Kind::Revision => all.push(git::named(value)?),
            Kind::Sed if sed::is_tame(value) => {}
            Kind::Awk if awk_only_reads(value) => {}
            Kind::Jq if jq_only_reads(value) => {}
            Kind::Sed | Kind::Awk | Kind::Jq => return None,
            Kind::Key if git::is_open_key(value) => {}
            Kind::Shown if super::value::is_public(value) => {}
            Kind::Bsd if !value.contains('e') => {}
            Kind::Given if value.split_once('=').is_some_and(|(n, v)| is_plain_value(n, v)) => {}
            Kind::Key | Kind::Shown | Kind::Bsd | Kind::Given => return None,
            Kind::Text | Kind::Plus | Kind::Number | Kind::Glob | Kind::Skip | Kind::SkipFolder => {}
            Kind::Pair | Kind::Type => {}
            // Of programs that do more than read.
            _ => return None,
        }
    }
    let is_place = |(kind, _): &&(Kind, &str)| matches!(kind, Kind::File | Kind::Facts | Kind::Tree);
    let named = given.values.iter().rev().take(given.operands).any(|value| is_place(&value));
    if !named && (program.traits.here || given.tree) {
        let kind = program.operands.last().map_or(Kind::Facts, |(kind, _)| *kind);
        all.push(Read { path: ".".to_owned(), how: how(kind) });
    }
    Some(all)
}

/// A file by name; `None` if the name can mean another file than its text suggests.
fn read(path: &str, how: How) -> Option<Read> {
    // Bash takes `x=~/a` and `x=a:~/b` for a home directory in any argument.
    let names_home = path.starts_with('~') || path.contains("=~") || path.contains(":~");
    let expands = names_home || path.contains(['$', '`']) || finds_parent(path);
    (!expands).then(|| Read { path: path.to_owned(), how })
}

/// An archive; programs try the name with endings as well, and take `host:file` for one on another machine.
fn archive(name: &str, all: &mut Vec<Read>) -> Option<()> {
    if name == "-" {
        return Some(());
    }
    if name.split('/').next().is_some_and(|first| first.contains(':')) {
        return None;
    }
    for ending in ["", ".zip", ".ZIP", ".gz", ".Z", ".z", "-z", "_z", "-gz"] {
        all.push(read(&format!("{name}{ending}"), How::Contents)?);
    }
    Some(())
}

/// Files that discard what is written to them.
fn is_sink(path: &str) -> bool {
    matches!(path, "/dev/null" | "/dev/stderr" | "/dev/stdout")
}

fn is_plain_value(name: &str, value: &str) -> bool {
    super::word::is_name(name) && !variables::is_risky(name, Some(value))
}

/// File name endings of one of ripgrep's types; an unknown one narrows nothing.
fn endings_of_type(name: &str) -> &'static [&'static str] {
    match lists::list(&format!("type/{name}")) {
        [] => &["*"],
        known => known,
    }
}

/// Whether a program may get words that can be anything but a secret.
fn takes_data(name: &str, program: &Program, arguments: &[&str], part: &Part) -> bool {
    match name {
        // `-v` evaluates a subscript, and unquoted text may contain one.
        "test" | "[" => {
            let adjacent = part.data.windows(2).any(|pair| matches!(pair, [a, b] if a.at + 1 == b.at));
            part.data.iter().all(|datum| datum.single)
                && !adjacent
                && !arguments.iter().any(|a| a.contains('[') || a.contains(['$', '`']))
        }
        "printf" => {
            part.data.iter().all(|datum| datum.at > 1)
                && !arguments.first().is_some_and(|a| a.starts_with("-v"))
        }
        "wait" => !arguments.iter().any(|a| a.starts_with('-')),
        "[[" => true,
        _ => program.traits.data && part.patterns.is_empty(),
    }
}

/// The words, with patterns kept as they are and nothing for data; `None` if known only at run time.
fn spelled(part: &Part) -> Option<Vec<&str>> {
    part.words
        .iter()
        .enumerate()
        .map(|(i, word)| match word {
            Some(word) => Some(word.as_str()),
            None if part.data.iter().any(|datum| datum.at == i && i > 0) => Some(""),
            None => {
                part.patterns.iter().find(|pattern| pattern.at == i && i > 0).map(|found| found.text.as_str())
            }
        })
        .collect()
}

/// Whether a path stays below the working directory, judging by its text.
fn is_below(path: &str) -> bool {
    matches!(path, "/dev/null" | "/dev/fd/63")
        || !path.starts_with(['/', '\\']) && !path.split('/').any(|component| component == "..")
}

/// Whether a file name pattern may match `..`.
fn finds_parent(pattern: &str) -> bool {
    pattern.split('/').any(|component| {
        let rest = component.trim_start_matches('.');
        rest.len() < component.len() && !rest.is_empty() && rest.chars().all(|c| "*?[].!^@()".contains(c))
    })
}

fn awk_only_reads(program: &str) -> bool {
    let reads_more = program.contains("ENVIRON") || program.contains("ARG") || program.contains("PROCINFO");
    !program.starts_with('-') && awk_is_tame(program) && !reads_more
}

fn jq_only_reads(filter: &str) -> bool {
    !names_env(filter) && !["ENV", "import", "include", "modulemeta"].iter().any(|word| filter.contains(word))
}

/// Whether a jq filter calls `env`.
fn names_env(filter: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    filter.match_indices("env").any(|(at, word)| {
        let (before, after) =
            (filter.get(..at).unwrap_or_default(), filter.get(at + word.len()..).unwrap_or_default());
        !before.ends_with(|c: char| is_part(c) || c == '.') && !after.starts_with(is_part)
    })
}
