//! Which tracked files a git command shows, and which it adds, judging by its words.

use super::super::arguments::Arguments;
use super::super::programs::Kind;
use super::super::{ANY_FOLDERS, ANY_NAME, Part, git, lists, programs};
use super::git_files::subcommand;
use super::given::is_one_of;
use crate::disk::finds_any;

/// The files that a git command is limited to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pathspecs {
    /// If empty, all files.
    only: Vec<String>,
    without: Vec<String>,
    /// Operands that are paths if there are such files, and otherwise revisions.
    maybe: Vec<String>,
    revisions: Vec<String>,
    /// Whether a revision may be a file, which is printed whatever the limits.
    is_any_object: bool,
    /// Whether only names are shown, provided that every revision is a commit.
    is_quiet: bool,
    /// Whether files of submodules are shown, too.
    pub(crate) submodules: bool,
}

impl Pathspecs {
    /// Whether a tracked path is among them, given the folder that git runs in. Errs on the side of yes.
    pub(crate) fn include(&self, path: &str, prefix: &str) -> bool {
        // Git compares bytes, and this one stands for others.
        if path.contains(char::REPLACEMENT_CHARACTER) {
            return true;
        }
        let is_excluded = |one: &String| {
            // Such a pattern excludes a folder, but not a file of this name.
            let is_folder = ends_as_folder(one);
            from_top(one, prefix).is_some_and(|one| {
                !one.is_empty() && is_below(path, &one) && !(is_folder && path.len() == one.len())
            })
        };
        let lower = path.to_lowercase();
        let is_meant = |one: &String| {
            let Some(one) = from_top(one, prefix).map(|one| one.to_lowercase()) else { return true };
            one.is_empty()
                || is_below(&lower, &one)
                || one.contains(['*', '?', '[', '\\'])
                    && (one.contains('\\')
                        || finds_any(&one, &lower)
                        || lower
                            .match_indices('/')
                            .any(|(at, _)| lower.get(..at).is_some_and(|up| finds_any(&one, up))))
        };
        !self.without.iter().any(is_excluded) && (self.only.is_empty() || self.only.iter().any(is_meant))
    }

    /// Treats operands as paths if they exist: git rejects an operand that is both a path and a revision. Returns `false`
    /// if the command shows only names.
    pub(crate) fn settle(&mut self, exists: impl Fn(&str) -> bool, is_commit: impl Fn(&str) -> bool) -> bool {
        let (found, others): (Vec<String>, Vec<String>) =
            std::mem::take(&mut self.maybe).into_iter().partition(|name| exists(name));
        self.only.extend(found);
        if self.is_any_object && !self.revisions.iter().chain(&others).all(|one| is_commit(one)) {
            *self = Self { submodules: self.submodules, ..Self::all() };
        }
        !self.is_quiet
    }

    /// Includes all files.
    pub(crate) fn widen(&mut self) {
        self.only.clear();
        self.without.clear();
    }

    fn all() -> Self {
        Self::default()
    }

    /// Adds one pathspec. Returns `false` if it is not understood.
    fn add(&mut self, word: &str) -> bool {
        if word.starts_with(':') {
            let without = EXCLUDES.iter().find_map(|mark| word.strip_prefix(mark));
            let plain = without.filter(|path| {
                !path.contains(['*', '?', '[', '\\', ':', '('])
                    && !path.is_empty()
                    && !path.starts_with(['!', '^', '/'])
            });
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

/// Whether a path can only be a folder, as git writes it.
pub(crate) fn ends_as_folder(path: &str) -> bool {
    path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..")
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
    // `%(raw)` is the content of what a tag points to.
    let asked =
        texts.iter().any(|text| is_one_of(with, text) || text.contains("%(raw") || text.contains("%(*raw"));
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
    let is_quiet = is_quiet && understood && !asked;
    if is_quiet && !lists::holds("git/shows-any-object", subcommand) {
        return None;
    }
    let mut found = limits(part, subcommand, &words);
    found.is_quiet = is_quiet && found.is_any_object;
    Some(found)
}

/// Whether a git command compares folders file by file if there is no repository.
pub(crate) fn compares(part: &Part) -> bool {
    subcommand(part) == Some("diff")
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
    let all = Pathspecs { submodules: enters_submodules(subcommand, words), ..Pathspecs::all() };
    let Some(row) = programs::program(&format!("git/{subcommand}")) else { return all };
    let own: Vec<&str> =
        part.words.iter().take(git::subcommand_place(&part.words)).flatten().map(String::as_str).collect();
    let Some(words) = words.iter().copied().collect::<Option<Vec<&str>>>() else { return all };
    if own.iter().any(|word| word.contains("pathspecs") || word.contains("-tree"))
        || words.contains(&"--pathspec-from-file")
    {
        return all;
    }
    let end = words.iter().position(|word| *word == "--");
    let (before, behind) = words.split_at(end.unwrap_or(words.len()));
    let selects = lists::list(&format!("git/selects/{subcommand}"));
    let Some(read) =
        Arguments::read(row, before).filter(|_| !before.iter().any(|word| is_one_of(selects, word)))
    else {
        return all;
    };
    let is_any_object = lists::holds("git/any-object", subcommand);
    let mut specs = Pathspecs { is_any_object, ..all.clone() };
    for word in behind.iter().skip(1) {
        if !specs.add(word) {
            return all;
        }
    }
    // The pattern of `git grep` is no revision. A path that is excluded without `--` excludes nothing, to be safe.
    let operands: Vec<&str> = read
        .values
        .iter()
        .rev()
        .take(read.operands)
        .filter(|(kind, value)| *kind != Kind::Text && !EXCLUDES.iter().any(|mark| value.starts_with(mark)))
        .map(|(_, value)| *value)
        .collect();
    if operands.iter().any(|value| colon(value).is_some()) {
        // Paths start at the top only if no tree is given, and `HEAD:file` is limited to this file only if no other operand
        // is a commit.
        let Some(files) = operands.iter().map(|value| file_of_commit(value)).collect::<Option<Vec<_>>>()
        else {
            return all;
        };
        if end.is_some() {
            return all;
        }
        specs.only = files.iter().map(|(_, path)| format!("{TOP}{path}")).collect();
        specs.revisions = files.iter().map(|(commit, _)| (*commit).to_owned()).collect();
    } else if end.is_some() || lists::holds("git/no-paths", subcommand) {
        specs.revisions = operands.into_iter().map(str::to_owned).collect();
    } else {
        specs.maybe = operands.into_iter().map(str::to_owned).collect();
    }
    specs
}

/// Whether an option lets a command show files of submodules.
fn enters_submodules(subcommand: &str, words: &[Option<&str>]) -> bool {
    words.iter().flatten().any(|word| match subcommand {
        "grep" => word.starts_with("--rec"),
        _ => {
            word.starts_with("--sub")
                && !matches!(*word, "--submodule" | "--submodule=short" | "--submodule=log")
        }
    })
}

/// The commit and the file or folder in `HEAD:file`.
fn file_of_commit(text: &str) -> Option<(&str, &str)> {
    let at = colon(text)?;
    let (commit, path) = (text.get(..at)?, text.get(at + 1..)?);
    // `a:b..c:d` is a range, and `^{/a}:b}` a search for a message.
    let is_plain =
        !commit.is_empty() && !path.starts_with('.') && !path.contains("..") && !text.ends_with('}');
    is_plain.then_some((commit, path))
}

/// Where git splits `HEAD:file`: at the first colon outside braces.
fn colon(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, letter)| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => return Some(at),
            _ => {}
        }
        None
    })
}

/// Beginnings of paths that are excluded.
const EXCLUDES: [&str; 3] = [":!", ":^", ":(exclude)"];
/// Marks a path from the top of the repository, not from the folder that git runs in.
const TOP: char = '\0';
