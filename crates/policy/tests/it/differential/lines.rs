//! Command lines by chance: everyday ones, those of the corpus, and the families that an attacker would try.

use std::sync::OnceLock;

use super::{table, words};
use crate::lines::{COMMANDS, EVERYDAY, HOSTILE, rows, unescape};
use pollux_test_support::chance::Chance;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Family {
    Everyday,
    Corpus,
    Table,
    Files,
    Environment,
    Remote,
    Launcher,
    Grammar,
}

/// Lines that wait, or never end.
const ENDLESS: &[&str] = &[
    "sleep",
    "tail -f",
    "tail -F",
    "--follow",
    "--retry",
    "yes",
    "while true",
    "while :",
    "until ",
    "/dev/zero",
    "/dev/urandom",
    "--pid",
];

/// A line, and the family that it is of.
pub(super) fn line(chance: &mut Chance) -> (Family, String) {
    loop {
        let (family, line) = attempt(chance);
        let endless = ENDLESS.iter().any(|word| line.contains(word));
        if !endless && !line.contains('\0') {
            return (family, line);
        }
    }
}

fn attempt(chance: &mut Chance) -> (Family, String) {
    let (family, mut text, most) = match chance.below(100) {
        0..22 => (Family::Everyday, chance.pick(everyday()).clone(), 3),
        22..28 => (Family::Corpus, chance.pick(corpus()).clone(), 2),
        28..58 => (Family::Table, table::command(chance), 2),
        58..76 => (Family::Files, reader(chance), 3),
        76..82 => {
            let command = if chance.one_in(2) { chance.pick(everyday()).clone() } else { reader(chance) };
            (Family::Environment, with_environment(&command, chance), 2)
        }
        82..86 => (Family::Remote, (*chance.pick(words::REMOTE)).to_owned(), 2),
        86..94 => (Family::Launcher, (*chance.pick(words::LAUNCHERS)).to_owned(), 2),
        _ => {
            let bytes: Vec<u8> =
                (0..2 + 2 * chance.below(7)).map(|_| u8::try_from(chance.below(256)).unwrap()).collect();
            (Family::Grammar, crate::grammar::command(&bytes), 1)
        }
    };
    for _ in 0..chance.below(most) {
        text = mutated(&text, chance);
    }
    (family, text)
}

fn everyday() -> &'static [String] {
    static LINES: OnceLock<Vec<String>> = OnceLock::new();
    LINES.get_or_init(|| rows(EVERYDAY).map(|(_, fields)| unescape(fields[2])).collect())
}

fn corpus() -> &'static [String] {
    static LINES: OnceLock<Vec<String>> = OnceLock::new();
    LINES.get_or_init(|| {
        let commands = rows(COMMANDS).map(|(_, fields)| unescape(&fields[2..].join("\t")));
        commands.chain(rows(HOSTILE).map(|(_, fields)| unescape(fields[4]))).collect()
    })
}

fn reader(chance: &mut Chance) -> String {
    let mut text = (*chance.pick(words::READERS)).to_owned();
    for _ in 0..chance.below(3) {
        text.push(' ');
        text.push_str(words::operand(chance));
    }
    text
}

fn with_environment(command: &str, chance: &mut Chance) -> String {
    let given = chance.pick(words::ENVIRONMENT);
    match chance.below(8) {
        0 => format!("export {given}; {command}"),
        1 => format!("{given}; {command}"),
        2 => format!("env {given} {command}"),
        3 => format!("declare -x {given}; {command}"),
        _ => format!("{given} {command}"),
    }
}

fn mutated(text: &str, chance: &mut Chance) -> String {
    match chance.below(12) {
        0..3 => {
            let operand = words::operand(chance);
            with_word(text, operand, chance)
        }
        3 => format!("{text} {}", words::operand(chance)),
        4 => {
            let option = *chance.pick(words::OPTIONS);
            with_word(text, option, chance)
        }
        5 => format!("{text} {}", chance.pick(words::OPTIONS)),
        6 => respelled(text, chance),
        7 if chance.one_in(2) => with_environment(text, chance),
        7 => {
            let joint = chance.pick(&[" ; ", " && ", " | ", " || ", "\n", " & "]);
            format!("{text}{joint}{}", chance.pick(everyday()))
        }
        _ => {
            let around = *chance.pick(words::AROUND);
            around.replace('@', text)
        }
    }
}

/// Puts a word in the place of another, the program's name excepted.
fn with_word(text: &str, word: &str, chance: &mut Chance) -> String {
    let mut words: Vec<&str> = text.split(' ').collect();
    let at = 1 + chance.below(words.len());
    match words.get_mut(at) {
        Some(old) if !chance.one_in(4) => *old = word,
        _ => words.insert(at.min(words.len()), word),
    }
    words.join(" ")
}

/// Spells one word in another way: quotes, braces, patterns.
fn respelled(text: &str, chance: &mut Chance) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let at = chance.below(words.len());
    let word = words[at];
    let Some(middle) = word.char_indices().nth(1).map(|(at, _)| at) else { return text.to_owned() };
    let (head, tail) = word.split_at(middle);
    let new = match chance.below(10) {
        0 => format!("'{word}'"),
        1 => format!("\"{word}\""),
        2 => format!("{head}\"\"{tail}"),
        3 => format!("\\{word}"),
        4 => format!("{{{word},{}}}", words::operand(chance)),
        5 => format!("{head}*"),
        6 => format!("?{tail}"),
        7 => format!("[{head}]{tail}"),
        8 => format!("$'{word}'"),
        _ => format!("{head}{{,x}}{tail}"),
    };
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    words[at] = new;
    words.join(" ")
}
