//! Commands whose output is known in kind.

use super::value::HERE;
use super::{Part, names};

/// A word that can stand for a command's output in every check: a name of a commit, a number, the directory.
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

/// What stands for each line that a stage of a pipe passes on, if the lines are names of files in the workspace.
pub(super) fn feed(part: &Part, before: Option<&'static str>) -> Option<&'static str> {
    let (name, arguments) = literal(part)?;
    let has = |options: &[&str]| arguments.iter().any(|a| options.contains(a));
    let leaves = arguments.iter().any(|a| a.starts_with(['/', '~']) || a.contains("..") || a.contains("=/"));
    if leaves && before.is_none() {
        return None;
    }
    // Words that are neither options nor numbers.
    let operands = arguments.iter().filter(|a| !a.starts_with('-') && a.parse::<u32>().is_err()).count();
    match name {
        _ if arguments.iter().any(|a| a.starts_with("--format")) => None,
        "git" if arguments.first() == Some(&"ls-files") => Some("*"),
        "git" if arguments.first() == Some(&"diff") && has(&["--name-only"]) && !has(&["--no-index"]) => {
            Some("*")
        }
        "ls" if arguments
            .iter()
            .all(|a| !a.starts_with('-') || matches!(*a, "-1" | "-A" | "-t" | "-r" | "-d")) =>
        {
            Some("*")
        }
        "rg" if has(&["-l", "--files", "--files-with-matches", "-lF", "-il", "-li"]) => Some("*"),
        "fd" | "fdfind" => Some("*"),
        "grep" if has(&["-rl", "-rln", "-lr", "-ril", "-rli", "-lR", "-Rl"]) => Some("*"),
        "find" if !has(&["-printf", "-ls"]) => Some("./*"),
        // Lines pass these unchanged, if they read the pipe and no file.
        "grep" | "egrep" | "fgrep" if operands == 1 && !arguments.iter().any(|a| changes_lines(a)) => before,
        "sort" | "head" | "tail" | "uniq" if operands == 0 && !has(&["-c", "--count"]) => before,
        _ => None,
    }
}

/// Whether git surely takes a word for a commit; it repeats what it does not know.
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

/// The program and its arguments, with patterns standing for themselves.
fn literal(part: &Part) -> Option<(&str, Vec<&str>)> {
    if !part.behind.is_empty() {
        return None;
    }
    let word = |(at, word): (usize, &'_ Option<String>)| match word {
        Some(_) => part.words.get(at)?.as_deref(),
        None => part.patterns.iter().find(|(place, _)| *place == at).map(|(_, pattern)| pattern.as_str()),
    };
    let words: Option<Vec<&str>> = part.words.iter().enumerate().map(word).collect();
    let words = words?;
    let (program, arguments) = words.split_first()?;
    Some((names::base(program), arguments.to_vec()))
}
