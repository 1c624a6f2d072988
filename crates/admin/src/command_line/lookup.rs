//! Finding commands in words: which one is meant, and which one was probably meant.

use clap::{Arg, Command};
use pollux_domain::spelling::distance;

use crate::usage::UsageError;

/// More words than this are a prompt, whatever they begin with.
const MAX_WORDS_OF_A_COMMAND: usize = 3;
/// Fewer letters stand for too many names.
const MIN_ABBREVIATION: usize = 3;

/// Commands that similar programs have, and what to do here.
const FOREIGN: &[(&[&str], &str)] = &[
    (
        &["update", "upgrade", "self-update"],
        "Pollux does not update itself; install the new version the way you installed this one",
    ),
    (&["login", "signin", "sign-in"], "run `pollux auth login`"),
    (&["logout", "signout", "sign-out"], "run `pollux auth logout`"),
    (&["a2a-server"], "run `pollux a2a serve`"),
    (
        &["serve", "server", "app-server"],
        "run `pollux acp` for editors, or `pollux mcp serve` or `pollux a2a serve` for other agents",
    ),
    (&["diagnose", "status"], "run `pollux doctor`"),
    (&["version"], "run `pollux --version`"),
    (&["resume", "continue"], "run `pollux --resume`"),
    (&["exec"], "run `pollux -p TEXT`"),
    (&["settings"], "run `pollux config show`"),
];

/// The names of the commands that the words lead to, in a built tree.
pub fn path(root: &Command, words: &[String]) -> Vec<String> {
    let mut command = root;
    let mut names = Vec::new();
    for index in positions(root, words) {
        if let Some(found) = words.get(index).and_then(|word| command.find_subcommand(word)) {
            names.push(found.get_name().to_owned());
            command = found;
        }
    }
    names
}

/// Where the names of commands stand among the words.
pub fn positions(root: &Command, words: &[String]) -> Vec<usize> {
    let mut command = root;
    let mut found = Vec::new();
    for index in arguments(root, words) {
        match words.get(index).and_then(|word| command.find_subcommand(word)) {
            Some(inner) => command = inner,
            None => break,
        }
        found.push(index);
    }
    found
}

/// Where words stand that are neither options nor their values. Nothing after `--` counts.
fn arguments(root: &Command, words: &[String]) -> Vec<usize> {
    let mut command = root;
    let mut is_value = false;
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if word == "--" {
            break;
        }
        if word.starts_with('-') && word.len() > 1 {
            is_value = takes_next(command, word);
        } else if std::mem::take(&mut is_value) {
            continue;
        } else {
            command = command.find_subcommand(word).unwrap_or(command);
            found.push(index);
        }
    }
    found
}

/// Whether the word after this option is its value.
fn takes_next(command: &Command, option: &str) -> bool {
    let named = |arg: &&Arg| match option.strip_prefix("--") {
        Some(long) => arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
        None => option.chars().next_back() == arg.get_short(),
    };
    let found = command.get_arguments().find(named);
    found.is_some_and(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set())
}

/// The refusal of a command whose name was probably mistyped; `None` where the words are a prompt.
///
/// A lone word near a command's name is such a mistake, and so are a few words whose second one is, or is nearly, the
/// name of a command below it, or a value it takes.
pub fn mistyped_command(root: &Command, words: &[String]) -> Option<UsageError> {
    let typed: Vec<&str> =
        arguments(root, words).into_iter().filter_map(|index| words.get(index)).map(String::as_str).collect();
    let first = *typed.first()?;
    // Text with spaces is a prompt, however short, and so is a word for a session that is resumed.
    let is_resumed =
        words.iter().any(|word| word == "-r" || word == "--resume" || word.starts_with("--resume="));
    if root.find_subcommand(first).is_some() || first.contains(char::is_whitespace) || is_resumed {
        return None;
    }
    if typed.len() == 1
        && let Some(error) = foreign(first)
    {
        return Some(error);
    }
    let nearest = nearest_command(root, first)?;
    let is_command = match typed.get(1) {
        None => true,
        Some(second) if typed.len() <= MAX_WORDS_OF_A_COMMAND => {
            let mut meant = root.find_subcommand(nearest)?.clone();
            meant.build();
            let is_value =
                |arg: &Arg| arg.get_possible_values().iter().any(|value| value.matches(second, false));
            meant.find_subcommand(second).is_some()
                || nearest_command(&meant, second).is_some()
                || meant.get_positionals().any(is_value)
        }
        Some(_) => false,
    };
    is_command.then(|| UsageError::UnknownCommand {
        given: first.to_owned(),
        nearest: nearest.to_owned(),
        words: typed.join(" "),
    })
}

/// The refusal of words that begin like a command of a similar program and hold an option of it.
pub(super) fn foreign_command(root: &Command, words: &[String]) -> Option<UsageError> {
    let first = arguments(root, words).into_iter().next().and_then(|index| words.get(index))?;
    foreign(first)
}

fn foreign(word: &str) -> Option<UsageError> {
    let known = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(word));
    let (_, instead) = FOREIGN.iter().find(|(names, _)| known(names))?;
    Some(UsageError::ForeignCommand { given: word.to_owned(), instead })
}

/// The visible command below this one whose name is nearest to what was typed.
pub(super) fn nearest_command<'a>(command: &'a Command, typed: &str) -> Option<&'a str> {
    let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let names = visible.flat_map(|inner| {
        std::iter::once(inner.get_name())
            .chain(inner.get_all_aliases())
            .map(move |name| (name, inner.get_name()))
    });
    nearest(names, typed)
}

/// The visible option of this command whose name is nearest to what was typed, without dashes.
pub(super) fn nearest_option<'a>(command: &'a Command, typed: &str) -> Option<&'a str> {
    let longs = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
    nearest(longs.map(|name| (name, name)), typed)
}

/// Of names with what each stands for, the one that was probably meant.
fn nearest<'a>(names: impl Iterator<Item = (&'a str, &'a str)>, typed: &str) -> Option<&'a str> {
    let typed = folded(typed);
    let most = if typed.chars().count() <= 4 { 1 } else { 2 };
    let near = names.map(|(name, meant)| (slips(&typed, &folded(name)), meant));
    near.filter(|(far, _)| *far <= most).min_by_key(|(far, _)| *far).map(|(_, meant)| meant)
}

/// How many slips of the fingers lie between two words; swapped letters are one.
fn slips(typed: &str, name: &str) -> usize {
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    // The beginning of a name is an abbreviation of it.
    if typed.len() >= MIN_ABBREVIATION && name.starts_with(typed) {
        return 1;
    }
    match distance(typed, name) {
        2 if sorted(typed) == sorted(name) => 1,
        other => other,
    }
}

/// Upper case and the signs between words are what people get wrong most.
fn folded(name: &str) -> String {
    name.chars().filter(|sign| !matches!(sign, '-' | '_')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_a_resumed_session_is_a_prompt() {
        let resume = Arg::new("resume").long("resume").short('r').num_args(0..=1);
        let root = Command::new("pollux").arg(resume).subcommand(Command::new("config"));
        let refused = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            mistyped_command(&root, &words).is_some()
        };
        for mistake in [&["continue"][..], &["login"], &["confg"]] {
            assert!(refused(mistake), "{mistake:?}");
        }
        for prompt in
            [&["--resume", "latest", "continue"][..], &["-r", "3", "confg"], &["--resume=3", "login"]]
        {
            assert!(!refused(prompt), "{prompt:?}");
        }
    }
}
