//! Compares the command prefix of a rule with the words of a command.

use crate::pattern::PatternMatch;
use crate::shell::Part;

/// Wrappers that run a command unchanged, without more privileges and on the same machine.
const TRANSPARENT: &[&str] = &[
    "bash",
    "builtin",
    "busybox",
    "caffeinate",
    "chrt",
    "command",
    "dash",
    "env",
    "eval",
    "exec",
    "find",
    "gtimeout",
    "ionice",
    "nice",
    "nohup",
    "parallel",
    "setsid",
    "sh",
    "stdbuf",
    "taskset",
    "time",
    "timeout",
    "toybox",
    "trap",
    "unbuffer",
    "watch",
    "xargs",
    "zsh",
];

/// Whether the words of an allow rule cover a command: literally, word by word, from the start.
pub(crate) fn vouches(prefix: &[String], part: &Part) -> bool {
    if part.behind.is_empty() {
        let words = part.words.iter().map(Option::as_deref);
        return prefix.len() <= part.words.len()
            && prefix.iter().zip(words).all(|(wanted, word)| word == Some(wanted.as_str()));
    }
    let opaque = part.behind.iter().filter(|wrapper| is_opaque(wrapper));
    let mut words =
        opaque.map(|wrapper| Some(wrapper.as_str())).chain(part.words.iter().map(Option::as_deref));
    let starts = prefix.iter().all(|wanted| words.next().flatten() == Some(wanted));
    // `sudo` alone must not cover the command it runs.
    starts && prefix.len() > opaque_wrappers(part)
}

/// The number of wrappers that change the privileges, the machine or the directory of a command.
pub(crate) fn opaque_wrappers(part: &Part) -> usize {
    part.behind.iter().filter(|wrapper| is_opaque(wrapper)).count()
}

fn is_opaque(wrapper: &str) -> bool {
    !TRANSPARENT.contains(&base(wrapper))
}

/// Whether the words cover the complete command.
pub(crate) fn is_whole(prefix: &[String], part: &Part) -> bool {
    prefix.len() == part.words.len() && vouches(prefix, part)
}

/// Whether the words of a deny or ask rule match a command in any spelling.
pub(crate) fn catches(prefix: &[String], part: &Part) -> PatternMatch {
    let Some((program, rest)) = prefix.split_first() else {
        return PatternMatch::No;
    };
    let mut result = PatternMatch::No;
    for start in 0..=part.behind.len() {
        let wrapper = part.behind.get(start).map(|name| Some(name.as_str()));
        let Some(first) = wrapper.or_else(|| part.words.first().map(Option::as_deref)) else {
            break;
        };
        let found = match first {
            None => PatternMatch::Unknown,
            Some(name) if same_program(name, program) => {
                let wrappers = part.behind.iter().map(|name| Some(name.as_str()));
                let all = wrappers.chain(part.words.iter().map(Option::as_deref));
                catches_args(rest, &all.skip(start + 1).collect::<Vec<_>>())
            }
            Some(_) => PatternMatch::No,
        };
        match found {
            PatternMatch::Yes => return PatternMatch::Yes,
            PatternMatch::Unknown => result = PatternMatch::Unknown,
            PatternMatch::No => {}
        }
    }
    result
}

/// Compared without directory, `.exe` and case: some file systems do not distinguish `RM` from `rm`.
fn same_program(name: &str, wanted: &str) -> bool {
    stem(name).eq_ignore_ascii_case(stem(wanted))
}

/// The key by which programs are compared.
pub(super) fn program_key(program: &str) -> String {
    stem(program).to_ascii_lowercase()
}

fn stem(program: &str) -> &str {
    let name = base(program);
    let end = name.len().checked_sub(4).filter(|end| name.is_char_boundary(*end));
    match end.map(|end| name.split_at(end)) {
        Some((stem, suffix)) if suffix.eq_ignore_ascii_case(".exe") => stem,
        _ => name,
    }
}

/// A program's name without its directory.
pub(crate) fn base(program: &str) -> &str {
    program.rsplit(['/', '\\']).next().unwrap_or(program)
}

/// The expected words in order; options of the program itself may come between them, short options in any
/// grouping.
fn catches_args(wanted: &[String], args: &[Option<&str>]) -> PatternMatch {
    let Some((first, rest)) = wanted.split_first() else {
        return PatternMatch::Yes;
    };
    if let Some(letters) = short_options(first) {
        let found = has_options(letters, args);
        return match found {
            PatternMatch::Yes => catches_args(rest, args),
            other => other,
        };
    }
    let mut after_option = false;
    let mut unknown = false;
    for (index, arg) in args.iter().enumerate() {
        let Some(arg) = arg else {
            unknown = true;
            after_option = false;
            continue;
        };
        if arg == first {
            let remaining = args.get(index + 1..).unwrap_or_default();
            match catches_args(rest, remaining) {
                PatternMatch::No => {}
                found => return found,
            }
        }
        let is_option = arg.starts_with('-') && arg.len() > 1;
        if !is_option && !after_option {
            break;
        }
        after_option = is_option && !arg.contains('=');
    }
    if unknown { PatternMatch::Unknown } else { PatternMatch::No }
}

fn short_options(word: &str) -> Option<&str> {
    let letters = word.strip_prefix('-')?;
    (!letters.is_empty() && letters.chars().all(|c| c.is_ascii_alphabetic())).then_some(letters)
}

/// Whether every letter is given as a short option, alone or grouped, or by its usual long name.
fn has_options(letters: &str, args: &[Option<&str>]) -> PatternMatch {
    let literal = args.iter().flatten().any(|arg| short_options(arg) == Some(letters));
    let given = |letter: char| {
        args.iter().flatten().any(|arg| match short_options(arg) {
            Some(group) => group.chars().any(|c| c == letter || (letter == 'r' && c == 'R')),
            None => {
                arg.len() > 3
                    && match letter {
                        'r' | 'R' => "--recursive".starts_with(arg),
                        'f' => "--force".starts_with(arg),
                        _ => false,
                    }
            }
        })
    };
    if literal || letters.chars().all(given) {
        PatternMatch::Yes
    } else if args.iter().any(Option::is_none) {
        PatternMatch::Unknown
    } else {
        PatternMatch::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str, behind: &[&str]) -> Part {
        Part {
            text: text.to_owned(),
            words: text.split(' ').map(|word| (word != "?").then(|| word.to_owned())).collect(),
            behind: behind.iter().map(|name| (*name).to_owned()).collect(),
            ..Part::default()
        }
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn another_spelling_does_not_evade_a_deny_rule() {
        let table = [
            ("rm", "rm x", &[][..], PatternMatch::Yes),
            ("rm", "/bin/rm x", &[], PatternMatch::Yes),
            ("rm", "rm x", &["sudo"], PatternMatch::Yes),
            ("sudo", "ls", &["sudo"], PatternMatch::Yes),
            ("sudo rm", "rm x", &["sudo"], PatternMatch::Yes),
            ("rm", "rmdir x", &[], PatternMatch::No),
            ("rm", "? x", &[], PatternMatch::Unknown),
            ("git push", "git push", &[], PatternMatch::Yes),
            ("git push", "git -C /x push", &[], PatternMatch::Yes),
            ("git push", "git --no-pager push origin", &[], PatternMatch::Yes),
            ("git push", "git commit -m push", &[], PatternMatch::No),
            ("git push", "git log push", &[], PatternMatch::No),
            ("git push", "git ?", &[], PatternMatch::Unknown),
            ("rm -rf", "rm -fr x", &[], PatternMatch::Yes),
            ("rm -rf", "rm -r -f x", &[], PatternMatch::Yes),
            ("rm -rf", "rm --recursive --force x", &[], PatternMatch::Yes),
            ("rm -rf", "rm x", &[], PatternMatch::No),
            ("git push --force", "git push origin --force", &[], PatternMatch::No),
        ];
        for (prefix, command, behind, expected) in table {
            assert_eq!(catches(&words(prefix), &part(command, behind)), expected, "{prefix} / {command}");
        }
    }

    #[test]
    fn an_allow_rule_covers_only_what_it_spells_out() {
        let table = [
            ("git", "git status", &[][..], true),
            ("git", "gitk", &[], false),
            ("git", "/tmp/git status", &[], false),
            ("git status", "git status -s", &[], true),
            ("git status", "git ? -s", &[], false),
            ("git", "git status", &["timeout"], true),
            ("git", "git status", &["sudo"], false),
            ("sudo", "rm x", &["sudo"], false),
            ("sudo git", "git status", &["sudo"], true),
            ("timeout", "rm x", &["timeout"], false),
        ];
        for (prefix, command, behind, expected) in table {
            assert_eq!(vouches(&words(prefix), &part(command, behind)), expected, "{prefix} / {command}");
        }
    }
}
