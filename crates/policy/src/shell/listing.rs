//! Commands whose output is predictable in kind, such as lists of file names.

use super::programs::{self, Choice, Kind};
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

/// Options, by program, that change which names are listed, but not what they look like.
const GIT_LISTS: &[&str] = &[
    "c",
    "d",
    "m",
    "o",
    "i",
    "u",
    "k",
    "z",
    "x",
    "cached",
    "deleted",
    "modified",
    "others",
    "ignored",
    "unmerged",
    "killed",
    "exclude",
    "exclude-standard",
    "directory",
    "no-empty-directory",
    "error-unmatch",
    "deduplicate",
];
const GIT_COMPARES: &[&str] = &[
    "name-only",
    "cached",
    "staged",
    "merge-base",
    "diff-filter",
    "no-renames",
    "find-renames",
    "M",
    "z",
    "w",
    "b",
    "no-color",
    "no-ext-diff",
    "no-textconv",
    "ignore-all-space",
    "ignore-space-change",
    "ignore-blank-lines",
    "ignore-submodules",
];
const LS: &[&str] = &["1", "A", "B", "c", "d", "r", "S", "t", "u", "U", "v", "X", "almost-all", "reverse"];
const RG: &[&str] = &[
    "l",
    "files",
    "files-with-matches",
    "files-without-match",
    "i",
    "F",
    "w",
    "x",
    "S",
    "s",
    "n",
    "H",
    "I",
    "a",
    "U",
    "P",
    "v",
    "e",
    "g",
    "t",
    "T",
    "m",
    "d",
    "j",
    "u",
    "0",
    ".",
    "null",
    "hidden",
    "no-hidden",
    "glob",
    "type",
    "type-not",
    "max-depth",
    "no-ignore",
    "no-ignore-vcs",
    "no-ignore-parent",
    "no-ignore-dot",
    "no-ignore-global",
    "sort",
    "sortr",
    "fixed-strings",
    "ignore-case",
    "smart-case",
    "case-sensitive",
    "word-regexp",
    "line-regexp",
    "invert-match",
    "text",
    "multiline",
    "pcre2",
    "no-messages",
    "regexp",
    "one-file-system",
    "no-config",
    "max-filesize",
    "threads",
    "max-count",
];
const FD: &[&str] = &[
    "s",
    "i",
    "a",
    "g",
    "F",
    "p",
    "0",
    "1",
    "H",
    "e",
    "t",
    "d",
    "E",
    "S",
    "hidden",
    "ignore-case",
    "case-sensitive",
    "absolute-path",
    "full-path",
    "fixed-strings",
    "glob",
    "print0",
    "no-ignore",
    "no-ignore-vcs",
    "and",
    "extension",
    "type",
    "max-depth",
    "min-depth",
    "exact-depth",
    "exclude",
    "size",
    "changed-within",
    "changed-before",
    "max-results",
    "strip-cwd-prefix",
    "prune",
];
const GREP: &[&str] = &[
    "r",
    "l",
    "i",
    "y",
    "n",
    "w",
    "x",
    "v",
    "a",
    "s",
    "h",
    "H",
    "I",
    "E",
    "F",
    "G",
    "P",
    "e",
    "recursive",
    "files-with-matches",
    "include",
    "exclude",
    "exclude-dir",
    "ignore-case",
    "line-number",
    "word-regexp",
    "line-regexp",
    "invert-match",
    "text",
    "no-messages",
    "no-filename",
    "with-filename",
    "extended-regexp",
    "fixed-strings",
    "basic-regexp",
    "perl-regexp",
    "regexp",
    "null",
    "Z",
];
/// Options of filters that pass lines on unchanged.
const GREP_FILTER: &[&str] = &[
    "v",
    "i",
    "y",
    "w",
    "x",
    "a",
    "s",
    "h",
    "m",
    "e",
    "E",
    "F",
    "G",
    "P",
    "invert-match",
    "ignore-case",
    "word-regexp",
    "line-regexp",
    "text",
    "no-messages",
    "max-count",
    "regexp",
    "extended-regexp",
    "fixed-strings",
    "basic-regexp",
    "perl-regexp",
    "no-filename",
];
const SORT: &[&str] = &[
    "b",
    "d",
    "f",
    "g",
    "h",
    "i",
    "M",
    "n",
    "r",
    "R",
    "u",
    "V",
    "s",
    "k",
    "t",
    "key",
    "field-separator",
    "unique",
    "reverse",
    "numeric-sort",
    "human-numeric-sort",
    "version-sort",
    "general-numeric-sort",
    "stable",
    "ignore-case",
    "ignore-leading-blanks",
    "random-sort",
];
const HEAD: &[&str] = &["#", "n", "q", "lines", "quiet"];
const UNIQ: &[&str] = &["d", "u", "i", "f", "s", "w", "unique", "repeated", "ignore-case"];

/// Arguments, taken apart as the program's row describes them.
#[derive(Default)]
struct Taken<'a> {
    /// Names without dashes, and values.
    options: Vec<(&'a str, Option<&'a str>)>,
    operands: Vec<&'a str>,
    /// Whether an option replaced the first operand.
    script: bool,
}

impl<'a> Taken<'a> {
    /// `None` if the row does not describe an argument, or an option is not among those known to be harmless.
    fn read(row: &str, words: &[&'a str], harmless: &[&str]) -> Option<Self> {
        let program = programs::program(row)?;
        let mut taken = Self::default();
        let mut rest = words.iter().copied();
        let mut options = true;
        while let Some(word) = rest.next() {
            if !options || word == "-" || !word.starts_with('-') {
                taken.operands.push(word);
            } else if word == "--" {
                options = false;
            } else if let Some(long) = word.strip_prefix("--") {
                let (name, value) =
                    long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                taken.choose(name, program.long(name)?, value, &mut rest)?;
            } else {
                let mut letters = word.get(1..)?;
                while let Some(letter) = letters.chars().next() {
                    let (name, behind) = letters.split_at_checked(letter.len_utf8())?;
                    letters = behind;
                    match program.short(letter) {
                        None if program.digits && letter.is_ascii_digit() => {
                            taken.options.push(("#", None));
                        }
                        None => return None,
                        Some(choice) if choice.value.is_some() => {
                            let attached = Some(letters).filter(|value| !value.is_empty());
                            taken.choose(name, choice, attached, &mut rest)?;
                            break;
                        }
                        Some(choice) => taken.choose(name, choice, None, &mut rest)?,
                    }
                }
            }
        }
        taken.options.iter().all(|(name, _)| harmless.contains(name)).then_some(taken)
    }

    fn choose(
        &mut self,
        name: &'a str,
        choice: Choice,
        attached: Option<&'a str>,
        rest: &mut dyn Iterator<Item = &'a str>,
    ) -> Option<()> {
        self.script |= choice.script;
        let value = match (choice.value, attached) {
            (None, Some(_)) => return None,
            (None, None) => None,
            (Some(_), Some(value)) => Some(value),
            (Some(_), None) if choice.attached => None,
            (Some(_), None) => Some(rest.next()?),
        };
        self.options.push((name, value));
        Some(())
    }

    fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(name))
    }

    fn values(&self, names: &[&str]) -> Vec<&'a str> {
        self.options.iter().filter(|(name, _)| names.contains(name)).filter_map(|(_, value)| *value).collect()
    }

    /// The operands behind the pattern; `None` if the pattern is missing.
    fn roots(&self) -> Option<&[&'a str]> {
        if self.script { Some(&self.operands) } else { self.operands.get(1..) }
    }
}

/// A sample for each line that a stage of a pipe passes on, if the lines are names of files in the workspace.
pub(super) fn feed(part: &Part, before: Option<&Sample>) -> Option<Sample> {
    let (name, arguments) = literal(part)?;
    // Lines pass filters unchanged, if they read the pipe and no file.
    if let Some(harmless) = passes_on(name) {
        let taken = Taken::read(name, &arguments, harmless)?;
        return before.cloned().filter(|_| taken.operands.is_empty());
    }
    if matches!(name, "grep" | "egrep" | "fgrep")
        && let Some(taken) = Taken::read("grep", &arguments, GREP_FILTER)
    {
        return before.cloned().filter(|_| taken.roots().is_some_and(<[&str]>::is_empty));
    }
    if arguments.iter().any(|a| a.starts_with(['/', '~']) || a.contains("..") || a.contains("=/")) {
        return None;
    }
    let names = match (name, arguments.as_slice()) {
        ("git", ["ls-files", rest @ ..]) => listed_by_git(&Taken::read("git/ls-files", rest, GIT_LISTS)?)?,
        ("git", ["diff", rest @ ..]) => {
            Taken::read("git/diff", rest, GIT_COMPARES)?.has(&["name-only"]).then(|| below("", None))?
        }
        ("ls", rest) => {
            let taken = Taken::read("ls", rest, LS)?;
            match taken.operands.is_empty() && !taken.has(&["d"]) {
                true if taken.has(&["A", "almost-all"]) => ANY_NAME.to_string(),
                true => "*".to_owned(),
                false => below("", None),
            }
        }
        ("rg", rest) => listed_by_rg(&Taken::read("rg", rest, RG)?)?,
        ("fd" | "fdfind", rest) => {
            let taken = Taken::read("fd", rest, FD)?;
            let roots = taken.operands.get(1..).unwrap_or_default();
            if taken.has(&["H", "hidden"]) { below(single(roots)?, None) } else { visible(single(roots)?) }
        }
        ("grep" | "egrep" | "fgrep", rest) => listed_by_grep(&Taken::read("grep", rest, GREP)?)?,
        ("find", rest) => found(rest)?,
        _ => return None,
    };
    Some(names.into())
}

/// The options with which a filter passes lines on unchanged; `None` for other programs.
fn passes_on(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "sort" => SORT,
        "head" | "tail" => HEAD,
        "uniq" => UNIQ,
        _ => return None,
    })
}

fn listed_by_git(taken: &Taken<'_>) -> Option<String> {
    let is_exclusion = |operand: &&str| {
        [":!", ":^"].iter().any(|mark| {
            operand
                .strip_prefix(mark)
                .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '(', '!', '^', ':']))
        })
    };
    // Other magic words may list files from the top.
    if taken.operands.iter().any(|operand| operand.starts_with(':') && !is_exclusion(operand)) {
        return None;
    }
    Some(match taken.operands.as_slice() {
        [one] if !one.contains(['\\', ':']) => tracked(one),
        _ => below("", None),
    })
}

fn listed_by_rg(taken: &Taken<'_>) -> Option<String> {
    let lists_all = taken.has(&["files"]);
    if !lists_all && !taken.has(&["l", "files-with-matches", "files-without-match"]) {
        return None;
    }
    let roots = taken.roots()?;
    // Where files are searched, the search itself needs approval for what a root leads to.
    let root = if roots.len() > 1 && !lists_all { None } else { Some(single(roots)?) };
    let globs = taken.values(&["g", "glob"]);
    let hidden = taken.has(&[".", "hidden", "u", "t", "type"]);
    Some(match (globs.as_slice(), root) {
        ([one], root) if !hidden => below(root.unwrap_or_default(), Some(one)),
        ([], Some(root)) if !hidden => visible(root),
        (_, root) => below(root.unwrap_or_default(), None),
    })
}

fn listed_by_grep(taken: &Taken<'_>) -> Option<String> {
    if !taken.has(&["r", "recursive"]) || !taken.has(&["l", "files-with-matches"]) {
        return None;
    }
    // Next to exclusions, files that match neither may be listed as well.
    let name = match taken.values(&["include"]).as_slice() {
        [one] if !taken.has(&["exclude"]) => Some(*one),
        _ => None,
    };
    Some(match taken.roots()? {
        [root] => below(root, name),
        _ => below("", name),
    })
}

/// The only root, or the current folder.
fn single<'a>(roots: &[&'a str]) -> Option<&'a str> {
    match roots {
        [] => Some(""),
        [one] => Some(one),
        _ => None,
    }
}

/// The files below a folder without those that are hidden. A root is searched even if it is hidden itself.
fn visible(root: &str) -> String {
    let root = root.trim_end_matches('/');
    let is_plain = !root.contains(['*', '?', '[', '\\', '{'])
        && root.split('/').all(|name| name == "." || !name.starts_with('.'));
    match root {
        "" => "**".to_owned(),
        root if is_plain => format!("{root}/**"),
        root => below(root, None),
    }
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
/// one. `None` if it prints anything else.
fn found(arguments: &[&str]) -> Option<String> {
    let program = programs::program("find")?;
    let roots: Vec<&str> =
        arguments.iter().copied().take_while(|a| !a.starts_with(['-', '(', '!'])).collect();
    let mut tests = arguments.get(roots.len()..)?.iter().copied();
    let (mut name, mut splits, mut negated) = (None, false, false);
    while let Some(test) = tests.next() {
        let was_negated = std::mem::replace(&mut negated, matches!(test, "!" | "-not"));
        match test {
            "!" | "-not" => {}
            "-o" | "-or" | "," | "(" | ")" => splits = true,
            "-printf" | "-ls" => return None,
            _ => {
                let choice = program.long(test.strip_prefix('-')?)?;
                if matches!(choice.value, Some(Kind::Out | Kind::Command)) {
                    return None;
                }
                if choice.value.is_some() {
                    let value = tests.next()?;
                    name = name.or((test == "-name" && !was_negated).then_some(value));
                }
            }
        }
    }
    let name = name.filter(|_| !splits);
    match roots.as_slice() {
        [root] => Some(below(root, name)),
        // With a slash at its end, a link is followed.
        roots if roots.iter().any(|root| root.ends_with('/') || root.ends_with("/.")) => None,
        // Names without a folder in front may look like options.
        _ => Some(below(".", name)),
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
