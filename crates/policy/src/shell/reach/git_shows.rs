//! Which tracked files a git command shows, and which it adds, judging by its words.

use super::super::arguments::Arguments;
use super::super::{ANY_FOLDERS, ANY_NAME, Part, git, lists, programs};
use super::git_files::subcommand;
use super::given::is_one_of;
use crate::disk::finds_any;

/// The files that a git command is limited to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pathspecs {
    /// If empty, all files.
    only: Vec<String>,
    without: Vec<String>,
    /// Operands that are paths if there are such files.
    maybe: Vec<String>,
}

impl Pathspecs {
    /// Whether a tracked path is among them, given the folder that git runs in. Errs on the side of yes.
    pub(crate) fn include(&self, path: &str, prefix: &str) -> bool {
        let path = path.to_lowercase();
        let is_excluded = self.without.iter().filter_map(|one| from_top(one, prefix)).any(|one| {
            let one = one.to_lowercase();
            !one.is_empty() && is_below(&path, &one)
        });
        let is_meant = |one: &String| {
            let Some(one) = from_top(one, prefix).map(|one| one.to_lowercase()) else { return true };
            one.is_empty()
                || is_below(&path, &one)
                || one.contains(['*', '?', '[', '\\'])
                    && (one.contains('\\')
                        || finds_any(&one, &path)
                        || path
                            .match_indices('/')
                            .any(|(at, _)| path.get(..at).is_some_and(|up| finds_any(&one, up))))
        };
        !is_excluded && (self.only.is_empty() || self.only.iter().any(is_meant))
    }

    /// Treats operands as paths if they exist: git rejects an operand that is both a path and a commit.
    pub(crate) fn settle(&mut self, exists: impl Fn(&str) -> bool) {
        let found = std::mem::take(&mut self.maybe).into_iter().filter(|name| exists(name));
        self.only.extend(found);
    }

    fn all() -> Self {
        Self::default()
    }

    /// Adds one pathspec. Returns `false` if it is not understood.
    fn add(&mut self, word: &str) -> bool {
        if let Some(magic) = word.strip_prefix(':') {
            let without = ["!", "^", "(exclude)"].iter().find_map(|mark| magic.strip_prefix(mark));
            let plain =
                without.filter(|path| !path.contains(['*', '?', '[', '\\', ':', '(']) && !path.is_empty());
            self.without.extend(plain.map(str::to_owned));
            // Other magic may mean anything.
            return without.is_some();
        }
        self.only.push(word.to_owned());
        true
    }
}

/// A path from the top of the repository; `None` if it leads out.
fn from_top(path: &str, prefix: &str) -> Option<String> {
    if path.starts_with(['/', '~']) {
        return None;
    }
    let joined = match path.strip_prefix(TOP) {
        Some(path) => path.to_owned(),
        None => format!("{prefix}{path}"),
    };
    let mut names: Vec<&str> = Vec::new();
    for name in joined.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The tracked files whose contents a git command may show; `None` if it shows none.
pub(crate) fn prints(part: &Part) -> Option<Pathspecs> {
    let subcommand = subcommand(part)?;
    let words = arguments(part);
    let texts: Vec<&str> = words.iter().map(|word| word.unwrap_or_default()).collect();
    let with = lists::list(&format!("git/prints-with/{subcommand}"));
    let asked = texts.iter().any(|text| is_one_of(with, text));
    if !lists::holds("git/prints", subcommand) {
        return asked.then(|| limits(part, subcommand, &words));
    }
    // Options that limit the output to names apply only if every word is understood.
    let quiet = lists::list(&format!("git/prints-not/{subcommand}"));
    let end = texts.iter().position(|text| *text == "--").unwrap_or(texts.len());
    let own = texts.get(..end).unwrap_or_default();
    let is_quiet = own.iter().any(|text| quiet.contains(&text.split('=').next().unwrap_or_default()));
    let understood = programs::program(&format!("git/{subcommand}"))
        .is_some_and(|row| words.iter().all(Option::is_some) && Arguments::read(row, own).is_some());
    if is_quiet && understood && !asked {
        return None;
    }
    Some(limits(part, subcommand, &words))
}

/// The files that `git add` and the like may add; `None` for other commands.
pub(crate) fn adds(part: &Part) -> Option<Pathspecs> {
    let subcommand = subcommand(part)?;
    let words = arguments(part);
    let texts: Vec<&str> = words.iter().map(|word| word.unwrap_or_default()).collect();
    match subcommand {
        // Of tracked files only, or nothing.
        "add" | "stage"
            if texts
                .iter()
                .any(|text| matches!(*text, "-u" | "--update" | "-n" | "--dry-run" | "-p" | "--patch")) =>
        {
            None
        }
        "add" | "stage" => {
            let mut specs = Pathspecs::all();
            for (at, text) in texts.iter().enumerate() {
                let is_option = text.starts_with('-') && text.len() > 1;
                let flags =
                    ["-A", "--all", "-v", "--verbose", "-N", "--intent-to-add", "-f", "--force", "--"];
                if is_option && flags.contains(text) {
                    continue;
                }
                if is_option || words.get(at).is_none_or(Option::is_none) || !specs.add(text) {
                    return Some(Pathspecs::all());
                }
            }
            Some(specs)
        }
        "update-index" => Some(Pathspecs::all()),
        "stash" => {
            let options = ["-u", "-a", "--include-untracked", "--all", "--only-untracked"];
            texts.iter().any(|text| is_one_of(&options, text)).then(Pathspecs::all)
        }
        _ => None,
    }
}

/// Whether a git command may show the URLs of remotes.
pub(crate) fn shows_addresses(part: &Part) -> bool {
    let Some(subcommand) = subcommand(part).filter(|name| lists::holds("git/addresses", name)) else {
        return false;
    };
    let words = arguments(part);
    let texts: Vec<&str> = words.iter().map(|word| word.unwrap_or_default()).collect();
    let silent = lists::list(&format!("git/addresses-not/{subcommand}"));
    let mut operands = texts.iter().filter(|text| !text.starts_with('-') && **text != "get");
    // A remote may be given by its URL.
    let may_show_url = |key: &&str| !git::is_tame(key, None) || key.to_ascii_lowercase().contains("remote");
    match subcommand {
        "config" if texts.iter().any(|text| *text == "get" || text.starts_with("--g")) => {
            operands.any(may_show_url)
        }
        // A value may follow the key.
        "config" => operands.find(|text| text.contains('.')).is_some_and(may_show_url),
        _ if texts.iter().any(|text| text.starts_with("-v") || text.starts_with("--v")) => true,
        "remote" => operands.next().is_some_and(|verb| !silent.contains(verb)),
        _ => operands.next().is_none_or(|word| !silent.contains(word)),
    }
}

/// The words after the subcommand, with patterns as they are; `None` for those that are known only at run time.
fn arguments(part: &Part) -> Vec<Option<&str>> {
    let first = git::subcommand_place(&part.words) + 1;
    let named = |at| {
        let pattern = part.patterns.iter().find(|pattern| pattern.at == at && !pattern.relayed)?;
        (!pattern.text.contains([ANY_NAME, ANY_FOLDERS])).then_some(pattern.text.as_str())
    };
    part.words
        .iter()
        .enumerate()
        .skip(first)
        .map(|(at, word)| word.as_deref().or_else(|| named(at)))
        .collect()
}

/// What the operands limit a command to. Without `--`, an operand counts only if it cannot be anything but a path or a file
/// of a commit.
fn limits(part: &Part, subcommand: &str, words: &[Option<&str>]) -> Pathspecs {
    let Some(row) = programs::program(&format!("git/{subcommand}")) else { return Pathspecs::all() };
    let own: Vec<&str> =
        part.words.iter().take(git::subcommand_place(&part.words)).flatten().map(String::as_str).collect();
    let Some(words) = words.iter().copied().collect::<Option<Vec<&str>>>() else { return Pathspecs::all() };
    if own.iter().any(|word| word.contains("pathspecs") || word.contains("-tree"))
        || words.contains(&"--pathspec-from-file")
    {
        return Pathspecs::all();
    }
    let end = words.iter().position(|word| *word == "--");
    let (before, behind) = words.split_at(end.unwrap_or(words.len()));
    let Some(read) = Arguments::read(row, before) else { return Pathspecs::all() };
    let mut specs = Pathspecs::default();
    for word in behind.iter().skip(1) {
        if !specs.add(word) {
            return Pathspecs::all();
        }
    }
    if end.is_some() {
        return specs;
    }
    // `HEAD:file` is limited to this file only if no other operand is a commit.
    let operands: Vec<&str> = read.values.iter().rev().take(read.operands).map(|(_, value)| *value).collect();
    if !operands.is_empty() && operands.iter().all(|value| file_of_commit(value).is_some()) {
        specs.only = operands
            .iter()
            .filter_map(|value| file_of_commit(value))
            .map(|path| format!("{TOP}{path}"))
            .collect();
    } else if subcommand != "grep" {
        specs.maybe = operands.into_iter().filter(|value| !value.contains(':')).map(str::to_owned).collect();
    }
    specs
}

/// The file or folder in `HEAD:file`.
fn file_of_commit(text: &str) -> Option<&str> {
    let (commit, path) = text.split_once(':')?;
    (!commit.is_empty() && !path.starts_with('.')).then_some(path)
}

/// Marks a path from the top of the repository, not from the folder that git runs in.
const TOP: char = '\0';
