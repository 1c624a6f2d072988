//! Programs whose own language runs shell commands, such as `\!` of psql: in their arguments, and in the text that they read
//! from standard input.
//!
//! The lists are in `commands/names.table`. Scripts in files are not read: a rule on the program covers them.

use super::word::Word;
use super::wrapper::Invocation;
use super::{Context, Findings, lists};

/// Lines with more programs and scripts than this are not looked into: each script may be that of each program.
const MAX_PAIRS: usize = 64;

/// Looks for commands in arguments, and for scripts that are no part of the line.
pub(super) fn look_into(call: &Invocation<'_>, found: &mut Findings) {
    if lists::list(&format!("escapes/{}", call.name)).is_empty() && !lists::holds("script/opaque", call.name)
    {
        return;
    }
    for text in call.arguments.iter().filter_map(Word::text) {
        look_at(call.name, text, call.context, found);
    }
    let reads = match call.name {
        "dc" => !call.has_letter(&['e', 'V', 'h']) && !call.has(&["--expression", "--version", "--help"]),
        _ => reads_script(call),
    };
    if !reads {
        return;
    }
    if call.context.told && !lists::holds("script/opaque", call.name) {
        found.scripted.push((call.name.to_owned(), call.context.clone()));
    } else {
        found.doubt(format!("the script of `{}` is only known at run time", call.name));
    }
}

/// Looks at the here-documents and here-strings of the line, each of which may be the script of a program.
pub(super) fn look_into_inputs(found: &mut Findings) {
    let mut inputs = found.inputs.clone();
    inputs.sort_unstable();
    inputs.dedup();
    if found.scripted.len() * inputs.len() > MAX_PAIRS {
        return doubt_others(found);
    }
    for (name, context) in std::mem::take(&mut found.scripted) {
        for input in &inputs {
            match input {
                Some(text) => look_at(&name, text, &context, found),
                None => found.doubt(format!("the script of `{name}` is only known at run time")),
            }
        }
    }
}

/// Doubts what programs read that are known only since variables were replaced.
pub(super) fn doubt_others(found: &mut Findings) {
    for (name, _) in std::mem::take(&mut found.scripted) {
        found.doubt(format!("the script of `{name}` is only known at run time"));
    }
}

/// Looks for a command in the language of a program.
fn look_at(name: &str, text: &str, context: &Context, found: &mut Findings) {
    let behind = |mark: &&str| {
        let mark = mark.replace('^', " ");
        text.find(&mark).and_then(|at| text.get(at + mark.len()..))
    };
    // A word of a query may look like the name of a command.
    let lower = text.to_ascii_lowercase();
    let begun = |mark: &&str| {
        let mark = mark.replace('^', " ");
        let starts = |before: &str| {
            let before = before.trim_end_matches([' ', '\t']);
            before.is_empty() || before.ends_with([';', '\n'])
        };
        let mut places = lower.match_indices(&mark).map(|(at, _)| at);
        let at = places.find(|at| lower.get(..*at).is_some_and(starts))?;
        text.get(at + mark.len()..)
    };
    let marks = lists::list(&format!("escapes/{name}"));
    let words = lists::list(&format!("escapes/start/{name}"));
    if let Some(command) = marks.iter().find_map(behind).or_else(|| words.iter().find_map(begun)) {
        found.doubt(format!("`{name}` runs a command or reads a file given in its script"));
        super::run(command.lines().next().unwrap_or_default(), &context.behind(name), found);
    }
}

/// Whether a program reads its script from standard input: no option gives one, and too few operands are left.
fn reads_script(call: &Invocation<'_>) -> bool {
    let list = |kind: &str| lists::list(&format!("script/{kind}/{}", call.name));
    let (gives, values, attached) = (list("given"), list("value"), list("attached"));
    let has_words = lists::holds("script/words", call.name);
    let is_input = |text: &str| text == "-" || text.starts_with("/dev/") || text.starts_with("/proc/");
    let mut operands = 0;
    let mut words = call.arguments.iter().map(|word| word.text().unwrap_or_default());
    while let Some(text) = words.next() {
        if !text.starts_with('-') || text == "-" {
            operands += usize::from(!is_input(text));
            continue;
        }
        let (name, mut value) = match text.split_once('=').filter(|_| text.starts_with("--")) {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        // The first letter with a value ends a cluster.
        let mut option = name.to_owned();
        if !has_words && !text.starts_with("--") {
            let mut letters = text.char_indices().skip(1).map(|(at, letter)| (at, format!("-{letter}")));
            let ends = |one: &str| gives.contains(&one) || values.contains(&one) || attached.contains(&one);
            if let Some((at, letter)) = letters.find(|(_, letter)| ends(letter)) {
                value = text.get(at + 1..).filter(|rest| !rest.is_empty());
                option = letter;
            }
        }
        let option = option.as_str();
        if value.is_none() && values.contains(&option) {
            value = Some(words.next().unwrap_or_default());
        }
        if gives.contains(&option) {
            return value.is_some_and(is_input);
        }
    }
    let enough = list("operands").first().and_then(|count| count.parse().ok());
    enough.is_none_or(|enough: usize| operands < enough)
}
