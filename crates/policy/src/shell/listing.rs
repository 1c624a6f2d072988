//! Commands whose output is predictable in kind, such as lists of file names.

use super::value::HERE;
use super::{ANY_FOLDERS, ANY_NAME, Part, Sample, names};

/// A sample word for a command's output in every check: the name of a commit, a number, the directory.
pub(super) fn sample(part: &Part) -> Option<&'static str> {
    let (name, arguments) = literal(part)?;
    let plain = |all: &[&str]| all.iter().all(|argument| is_revision(argument));
    match (name, arguments.as_slice()) {
        ("pwd", []) => Some(HERE),
        ("nproc", []) => Some("1"),
        ("wc", ["-l" | "-c" | "-w"]) => Some("1"),
        ("date", ["+%s"]) => Some("1"),
        ("date", ["+%F" | "+%Y-%m-%d" | "+%Y%m%d" | "+%Y"]) => Some("1"),
        (
            "git",
            ["rev-parse", "--short" | "--abbrev-ref" | "--verify", rest @ ..]
            | ["rev-parse" | "merge-base", rest @ ..],
        ) if !rest.is_empty() && plain(rest) => Some("HEAD"),
        ("git", ["rev-list", "--count", rest @ ..]) if plain(rest) => Some("1"),
        _ => None,
    }
}

/// A sample for each line that a stage of a pipe passes on, if the lines are names of files in the workspace.
pub(super) fn feed(part: &Part, before: Option<&Sample>) -> Option<Sample> {
    let (name, arguments) = literal(part)?;
    let has = |options: &[&str]| arguments.iter().any(|a| options.contains(a));
    let leaves = arguments.iter().any(|a| a.starts_with(['/', '~']) || a.contains("..") || a.contains("=/"));
    if leaves && before.is_none() || arguments.iter().any(|a| a.starts_with("--format")) {
        return None;
    }
    // Words that are neither options nor numbers.
    let operands: Vec<&str> =
        arguments.iter().copied().filter(|a| !a.starts_with('-') && a.parse::<u32>().is_err()).collect();
    let value_of = |option: &str| {
        let attached = arguments.iter().find_map(|a| a.strip_prefix(option)?.strip_prefix('='));
        let apart = || {
            arguments
                .windows(2)
                .find_map(|pair| (pair.first() == Some(&option)).then(|| pair.get(1).copied())?)
        };
        attached.or_else(apart)
    };
    let names = match name {
        "git" if arguments.first() == Some(&"ls-files") => match operands.as_slice() {
            [_, one] => tracked(one),
            _ => below("", None),
        },
        "git" if arguments.first() == Some(&"diff") && has(&["--name-only"]) && !has(&["--no-index"]) => {
            below("", None)
        }
        "ls" if arguments
            .iter()
            .all(|a| !a.starts_with('-') || matches!(*a, "-1" | "-A" | "-t" | "-r" | "-d")) =>
        {
            match (operands.as_slice(), has(&["-A"])) {
                ([], false) => "*".to_owned(),
                ([], true) => ANY_NAME.to_string(),
                _ => below("", None),
            }
        }
        "rg" if has(&["-l", "--files", "--files-with-matches", "-lF", "-il", "-li"]) => {
            match value_of("-g").or_else(|| value_of("--glob")) {
                Some(pattern) => below("", Some(pattern)),
                None if has(&["--hidden", "-.", "-t", "--type"]) => below("", None),
                None => "**".to_owned(),
            }
        }
        "fd" | "fdfind" if has(&["-H", "--hidden"]) => below("", None),
        "fd" | "fdfind" => "**".to_owned(),
        "grep" if has(&["-rl", "-rln", "-lr", "-ril", "-rli"]) => match operands.as_slice() {
            [_, root] => below(root, value_of("--include")),
            _ => below("", value_of("--include")),
        },
        "find" if !has(&["-printf", "-ls"]) => found(&arguments),
        // Lines pass these unchanged, if they read the pipe and no file.
        "grep" | "egrep" | "fgrep" if operands.len() == 1 && !arguments.iter().any(|a| changes_lines(a)) => {
            return before.cloned();
        }
        "sort" | "head" | "tail" | "uniq" if operands.is_empty() && !has(&["-c", "--count"]) => {
            return before.cloned();
        }
        _ => return None,
    };
    Some(names.into())
}

/// Every file below a folder whose name matches this pattern.
fn below(root: &str, name: Option<&str>) -> String {
    let root = root.trim_end_matches('/');
    let start = if root.is_empty() { String::new() } else { format!("{root}/") };
    // A pattern of a path, one that starts with `!` or has alternatives narrows in ways that are not followed.
    match name.filter(|name| !name.contains(['/', '!', '{', '\\'])) {
        Some(name) => {
            let any: String = name.chars().map(|c| if c == '*' || c == '?' { ANY_NAME } else { c }).collect();
            // For programs, a bracket may match a leading dot.
            let lead = if any.starts_with('[') { ANY_NAME.to_string() } else { String::new() };
            format!("{start}{ANY_FOLDERS}/{lead}{any}")
        }
        None => format!("{start}{ANY_FOLDERS}"),
    }
}

/// The files that `git ls-files` lists for a path.
fn tracked(path: &str) -> String {
    match path.strip_prefix('*') {
        Some(end) if !end.contains(['*', '?', '[']) => below("", Some(path)),
        None if !path.contains(['*', '?', '[', ':']) => below(path, None),
        _ => below("", None),
    }
}

/// The files that `find` lists: below its first folder, with a name if the tests that every file passes give
/// one.
fn found(arguments: &[&str]) -> String {
    let roots: Vec<&str> =
        arguments.iter().copied().take_while(|a| !a.starts_with(['-', '(', '!'])).collect();
    let tests = arguments.get(roots.len()..).unwrap_or_default();
    let splits = tests.iter().any(|a| matches!(*a, "-o" | "-or" | "," | "(" | ")"));
    let name = tests.iter().enumerate().find_map(|(at, test)| {
        let negated = at > 0 && matches!(tests.get(at - 1), Some(&("!" | "-not")));
        (*test == "-name" && !negated && !splits).then(|| tests.get(at + 1).copied())?
    });
    match roots.as_slice() {
        [root] => below(root, name),
        // Names without a folder in front may look like options.
        _ => below(".", name),
    }
}

/// Whether git certainly takes a word as a commit; it echoes unknown words.
fn is_revision(text: &str) -> bool {
    let name = text.split(['~', '^', '@']).next().unwrap_or_default();
    let known = matches!(
        name,
        "" | "HEAD" | "main" | "master" | "develop" | "origin/main" | "origin/master" | "origin/HEAD"
    );
    let is_hash = name.len() >= 7 && name.chars().all(|c| c.is_ascii_hexdigit());
    let tail_is_plain =
        text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '~' | '^' | '@' | '/' | '{' | '}'));
    (known || is_hash) && tail_is_plain
}

fn changes_lines(argument: &str) -> bool {
    argument.starts_with("--") && !argument.starts_with("--inv")
        || argument.starts_with('-')
            && argument
                .contains(['o', 'c', 'n', 'b', 'H', 'A', 'B', 'C', 'Z', 'T', 'f', 'e', 'r', 'R', 'l', 'L'])
}

/// The program and its arguments, with patterns kept as they are.
fn literal(part: &Part) -> Option<(&str, Vec<&str>)> {
    if !part.behind.is_empty() {
        return None;
    }
    let word = |(at, word): (usize, &'_ Option<String>)| match word {
        Some(_) => part.words.get(at)?.as_deref(),
        None => part.patterns.iter().find(|pattern| pattern.at == at).map(|found| found.text.as_str()),
    };
    let words: Option<Vec<&str>> = part.words.iter().enumerate().map(word).collect();
    let words = words?;
    let (program, arguments) = words.split_first()?;
    Some((names::base(program), arguments.to_vec()))
}
