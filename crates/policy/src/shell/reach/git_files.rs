//! Files that git reads besides those it tracks: named by options, or not tracked at all.

use super::super::reads::git::may_be_untracked;
use super::super::{Part, git, lists, names};
use super::given::is_one_of;

/// The subcommand of a git command.
pub(super) fn subcommand(part: &Part) -> Option<&str> {
    let program = part.words.first().and_then(Option::as_deref)?;
    let place = git::subcommand_place(&part.words);
    if names::base(program) == "git" { part.words.get(place).and_then(Option::as_deref) } else { None }
}

/// Whether a command runs this subcommand of git.
pub(crate) fn runs(part: &Part, name: &str) -> bool {
    subcommand(part) == Some(name)
}

/// Whether a git command shows what a stash changes.
pub(crate) fn shows_stash(part: &Part) -> bool {
    let mut words = part.words.iter().skip(git::subcommand_place(&part.words) + 1).flatten();
    subcommand(part) == Some("stash") && words.any(|word| word == "show")
}

/// The files that options of a git command name. A word that may be the value of another option counts as well.
pub(crate) fn option_files(part: &Part) -> Vec<&str> {
    let Some(subcommand) = subcommand(part) else { return Vec::new() };
    let options = lists::list(&format!("git/reads/{subcommand}"));
    let place = git::subcommand_place(&part.words) + 1;
    let words = part.words.get(place..).unwrap_or_default();
    let mut files = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let Some(text) = word.as_deref().filter(|text| text.starts_with('-')) else { continue };
        let next = words.get(at + 1).and_then(Option::as_deref);
        for option in options.iter().filter(|option| is_one_of(&[option], text)) {
            let value = match option.strip_prefix("--") {
                Some(_) => text.split_once('=').map(|(_, value)| value),
                None => option.chars().nth(1).and_then(|letter| text.split_once(letter)).map(|(_, v)| v),
            };
            files.extend(value.filter(|value| !value.is_empty()).or(next));
        }
    }
    files
}

/// Whether an option lets a git command read files that are not tracked, or an operand those that a stash keeps.
pub(crate) fn reads_untracked(part: &Part) -> bool {
    let words = || part.words.iter().skip(git::subcommand_place(&part.words) + 1).flatten();
    let options = ["-u", "--include-untracked", "--only-untracked"];
    let shows_stash = shows_stash(part);
    has(part, "git/untracked")
        || shows_stash && words().any(|word| is_one_of(&options, word))
        || words().any(|word| !word.starts_with('-') && may_be_untracked(word))
}

/// Whether a git command adds files even if they are ignored.
pub(crate) fn forces(part: &Part) -> bool {
    has(part, "git/forces")
}

fn has(part: &Part, section: &str) -> bool {
    subcommand(part).is_some_and(|subcommand| super::has_option(part, &format!("{section}/{subcommand}")))
}

/// Whether a git command shows only the names of its operands.
pub(crate) fn names_only(part: &Part) -> bool {
    subcommand(part).is_some_and(|subcommand| lists::holds("git/names-only", subcommand))
}

/// Whether a git command removes or renames its operands.
pub(crate) fn changes_operands(part: &Part) -> bool {
    subcommand(part).is_some_and(|subcommand| lists::holds("git/changes-operands", subcommand))
}
