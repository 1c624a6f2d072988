//! Commands in the arguments of programs that are not wrappers, such as `find -exec` or `tar -I`.

use super::word::Word;
use super::wrapper::Invocation;
use super::{Findings, lists};

/// Looks for commands in the arguments of a program.
pub(super) fn look_into(call: &Invocation<'_>, found: &mut Findings) {
    match call.name {
        "find" | "gfind" => find(call, found),
        "fd" | "fdfind" => fd(call, found),
        "watch" => watch(call, found),
        "less" | "more" | "most"
            if call.arguments.iter().any(|w| {
                w.text()
                    .is_some_and(|t| t.starts_with('+') || t.starts_with("-k") || t.starts_with("--lesskey"))
            }) =>
        {
            found.doubt(format!("`{}` runs commands at startup", call.name));
        }
        "vim" | "vi" | "nvim" | "view"
            if call.arguments.iter().any(|w| w.text().is_some_and(|t| t.starts_with('+'))) =>
        {
            found.doubt("an editor runs commands at startup");
        }
        // At the end of a volume, it asks for a command.
        "tar" | "gtar" if short_cluster_has(call, &['I', 'F', 'L', 'M']) => {
            found.doubt("`tar` runs a program named in its arguments")
        }
        "make" | "gmake"
            if call.arguments.iter().any(|w| {
                w.setting().is_some_and(|(n, _)| matches!(n.as_str(), "SHELL" | "MAKE" | "CC" | "CXX"))
            }) =>
        {
            found.doubt("an argument sets the program that `make` runs");
        }
        "make" | "gmake" | "bmake" if call.arguments.iter().filter_map(Word::text).any(is_input) => {
            found.doubt("the rules that `make` follows are only known at run time");
        }
        "cargo"
            if call.arguments.iter().skip_while(|w| w.text() != Some("--")).filter_map(Word::text).any(
                |t| {
                    t.contains("linker")
                        || t.contains("link-arg")
                        || t.starts_with("-Z")
                        || t.starts_with('@')
                },
            ) && call.has(&["rustc", "rustdoc", "clippy", "check", "build"]) =>
        {
            found.doubt("an argument sets the program that the compiler runs");
        }
        "rsync" if short_cluster_has(call, &['e']) => {
            found.doubt("`rsync` runs a program named in its arguments")
        }
        // On macOS it runs its operands.
        "arch" if !call.arguments.is_empty() => opaque(call, found),
        "crontab" if !call.has(&["-l", "-r"]) => found.doubt("`crontab` schedules commands"),
        name if lists::holds("launcher/opaque", name) => opaque(call, found),
        _ => subcommand(call, found),
    }
    options(call, found);
}

/// Whether a word of `make` names the standard input.
fn is_input(text: &str) -> bool {
    let attached = text.starts_with('-') && (text.ends_with("f-") || text.ends_with("=-"));
    text == "-"
        || attached
        || text.contains("/dev/stdin")
        || text.contains("/dev/fd/")
        || text.contains("/fd/0")
}

/// Subcommands that run the program behind them.
fn subcommand(call: &Invocation<'_>, found: &mut Findings) {
    let Some((Some(first), rest)) = call.arguments.split_first().map(|(word, rest)| (word.text(), rest))
    else {
        return;
    };
    if !lists::holds("launcher/subcommand", &format!("{}/{first}", call.name)) {
        return;
    }
    let marked = rest.iter().position(|word| word.text() == Some("--")).map(|at| at + 1);
    // `direnv exec` names a folder first.
    let start = marked.unwrap_or(usize::from(call.name == "direnv"));
    match rest.get(start).map(Word::text) {
        None => {}
        Some(Some(text)) if marked.is_some() || !text.starts_with('-') && !text.contains('@') => {
            call.runs(rest.get(start..).unwrap_or_default(), found);
        }
        Some(_) => opaque(call, found),
    }
}

fn find(call: &Invocation<'_>, found: &mut Findings) {
    let mut at = 0;
    while let Some(word) = call.arguments.get(at) {
        at += 1;
        if !matches!(word.text(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
            continue;
        }
        let rest = call.arguments.get(at..).unwrap_or_default();
        let end = rest.iter().position(|w| matches!(w.text(), Some(";" | "+"))).unwrap_or(rest.len());
        let inner: Vec<Word> = rest.iter().take(end).map(run_time_if_placeholder).collect();
        if inner.is_empty() {
            found.doubt("the command that `find` runs cannot be determined");
        } else {
            call.runs(&inner, found);
        }
        at += end;
    }
}

fn run_time_if_placeholder(word: &Word) -> Word {
    if word.raw.contains("{}") { Word::unknown(&word.raw) } else { word.clone() }
}

fn fd(call: &Invocation<'_>, found: &mut Findings) {
    let place =
        call.arguments.iter().position(|w| matches!(w.text(), Some("-x" | "-X" | "--exec" | "--exec-batch")));
    if let Some(place) = place {
        let rest = call.arguments.get(place + 1..).unwrap_or_default();
        let mut inner: Vec<Word> =
            rest.iter().take_while(|w| w.text() != Some(";")).map(run_time_if_placeholder).collect();
        inner.push(Word::unknown("…"));
        call.runs(&inner, found);
    } else if call.arguments.iter().any(|w| {
        w.text().is_some_and(|t| t.starts_with("-x") || t.starts_with("-X") || t.starts_with("--exec"))
    }) {
        found.doubt("`fd` runs a program");
    }
}

/// `watch` passes its arguments to `sh -c`.
fn watch(call: &Invocation<'_>, found: &mut Findings) {
    let mut at = 0;
    while let Some(text) = call.arguments.get(at).and_then(Word::text) {
        match text {
            "-n" | "--interval" | "-q" | "--equexit" => at += 2,
            _ if text.starts_with('-') => at += 1,
            _ => break,
        }
    }
    let words: Option<Vec<&str>> =
        call.arguments.get(at..).unwrap_or_default().iter().map(Word::text).collect();
    match words {
        Some(words) => super::run(&words.join(" "), &call.context.behind("watch"), found),
        None => found.doubt("the command that `watch` runs is only known at run time"),
    }
}

fn opaque(call: &Invocation<'_>, found: &mut Findings) {
    found.doubt(format!("`{}` starts programs in a way that cannot be analysed", call.name));
    // Guesses for deny rules: the first words that may be a program.
    let candidates: Vec<usize> = call
        .arguments
        .iter()
        .enumerate()
        .filter(|(_, word)| word.text().is_some_and(|text| !text.starts_with('-') && !text.is_empty()))
        .map(|(i, _)| i)
        .take(4)
        .collect();
    for i in candidates {
        if let Some(text) = call.arguments.get(i).and_then(Word::text)
            && text.contains([' ', ';', '|', '&'])
        {
            super::run(text, &call.context.behind(call.name), found);
        } else {
            call.runs(call.arguments.get(i..).unwrap_or_default(), found);
        }
    }
}

fn short_cluster_has(call: &Invocation<'_>, letters: &[char]) -> bool {
    call.arguments.iter().enumerate().any(|(i, word)| {
        word.text().is_some_and(|text| {
            let dashed = text.starts_with('-') && !text.starts_with("--");
            (dashed || call.name != "rsync" && i == 0 && text.chars().all(|c| c.is_ascii_alphabetic()))
                && text.contains(letters)
        })
    })
}

fn options(call: &Invocation<'_>, found: &mut Findings) {
    let options = lists::list(&format!("runs/{}", call.name));
    if options.is_empty() {
        return;
    }
    let mut arguments = call.arguments.iter();
    while let Some(word) = arguments.next() {
        let Some(text) = word.text() else {
            // A file may be named like an option.
            if word.pattern.as_ref().is_some_and(|pattern| pattern.starts_with(['*', '?', '['])) {
                found.doubt(format!(
                    "a file name that the pattern matches may be taken as an option of `{}`",
                    call.name
                ));
            }
            continue;
        };
        if text == "--" {
            return;
        }
        let hit = options.iter().find(|option| {
            let long = option.starts_with("--");
            // Long options may be abbreviated.
            let given = text.split('=').next().unwrap_or_default();
            if long { given.len() > 3 && option.starts_with(given) } else { text.starts_with(*option) }
        });
        if hit.is_none() {
            continue;
        }
        found.doubt(format!("`{text}` makes `{}` run another program", call.name));
        let value = match text.split_once('=') {
            Some((_, value)) => Some(value),
            None => arguments.next().and_then(Word::text),
        };
        if let Some(value) = value {
            let command = value.strip_prefix("exec=").unwrap_or(value);
            super::run(command, &call.context.behind(call.name), found);
        }
    }
}
