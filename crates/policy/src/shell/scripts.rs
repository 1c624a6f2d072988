//! Shell builtins, shells and interpreters that run text passed to them.

use super::value::{Piece, Value};
use super::variables;
use super::word::{Word, is_name};
use super::wrapper::Invocation;
use super::{Findings, lists, sed};

/// Looks for text that the command runs as shell or program code.
pub(super) fn look_into(call: &Invocation<'_>, found: &mut Findings) {
    match call.name {
        name if SHELLS.contains(&name) => shell(call, found),
        "fish" | "pwsh" | "powershell" | "cmd" | "cmd.exe" | "powershell.exe" | "csh" | "tcsh" | "nu"
        | "elvish" | "xonsh" => {
            if call.arguments.is_empty() || call.arguments.iter().any(|word| gives_code(call.name, word)) {
                found.doubt(format!("`{}` runs code in another language", call.name));
            }
        }
        "eval" => eval(call, found),
        "." | "source" => found.doubt("it sources a file"),
        "trap" => trap(call, found),
        "alias" if call.arguments.iter().any(|word| word.text() != Some("-p")) => {
            found.doubt("it defines an alias")
        }
        "enable" | "fc" | "bind" if !call.arguments.is_empty() => {
            found.doubt(format!("`{}` changes the shell itself", call.name))
        }
        "shopt" if call.has(&["-s"]) => found.doubt("`shopt -s` changes how the rest is parsed"),
        "set" => set(call, found),
        "hash" if call.has(&["-p"]) => found.doubt("`hash -p` maps a name to another program"),
        "complete" | "compgen" | "mapfile" | "readarray" if call.has(&["-C", "-F"]) => {
            found.doubt(format!("`{}` runs a command given in its arguments", call.name));
        }
        "jobs" if call.has(&["-x"]) || call.arguments.iter().any(|word| word.text().is_none()) => {
            found.doubt("`jobs -x` runs a command");
        }
        "let" => found.doubt("`let` evaluates the contents of variables"),
        "export" | "typeset" | "declare" | "readonly" | "local" => declaration(call, found),
        "read" => read(call, found),
        "unset" => {
            let nothing = Value::Pieces(vec![Piece::Text(String::new())]);
            call.arguments.iter().for_each(|word| names_variable(word, &nothing, found));
        }
        "wait" if !call.arguments.iter().filter_map(Word::text).any(names_with_p) => {}
        "mapfile" | "readarray" | "getopts" | "wait" => {
            found.arrays |= !matches!(call.name, "getopts" | "wait");
            call.arguments.iter().for_each(|word| names_variable(word, &Value::Unknown, found));
        }
        "printf" if call.arguments.first().is_some_and(|w| w.text().is_none_or(|t| t.starts_with("-v"))) => {
            if call.arguments.first().is_some_and(|word| word.text().is_none()) {
                found.doubt("the arguments of `printf` are only known at run time");
            }
            call.arguments.iter().take(2).for_each(|word| names_variable(word, &Value::Unknown, found));
        }
        "test" | "[" => {
            let subscript = call.arguments.windows(2).any(|pair| {
                let [option, name] = pair else { return false };
                match (option.text(), name.text()) {
                    (Some("-v"), name) => !name.is_some_and(is_name),
                    (Some(_), _) => false,
                    // It may turn out to be `-v`.
                    (None, Some(name)) => name.contains('[') && name != "[",
                    (None, None) => true,
                }
            });
            // One piece may become empty, and another one contain `-v` and the subscript.
            if subscript || call.arguments.iter().any(|word| word.splitting() > 1) {
                found.doubt("a test evaluates an array subscript");
            }
        }
        _ => interpreter(call, found),
    }
}

const SHELLS: &[&str] = &["sh", "bash", "zsh", "dash", "ksh", "ash", "rbash", "mksh", "ksh93", "yash"];

/// Whether an argument of a shell with another language makes it run text.
fn gives_code(shell: &str, word: &Word) -> bool {
    let Some(text) = word.text() else { return false };
    if matches!(text, "/c" | "/C" | "/k" | "/K")
        || text.starts_with("--command")
        || text.starts_with("--init-c")
    {
        return true;
    }
    let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.starts_with('-')) else {
        return false;
    };
    if !shell.starts_with("p") {
        return letters.contains(['c', 'C']) || shell == "nu" && letters.contains('e');
    }
    // Options of PowerShell are words, which may be abbreviated.
    let lower = letters.to_ascii_lowercase();
    lower.starts_with('c') && !lower.starts_with("conf")
        || lower == "e"
        || lower == "ec"
        || lower.starts_with("en")
}

/// Whether the command only runs text that is analysed here, so that its parts are sufficient.
pub(super) fn is_transparent(call: &Invocation<'_>) -> bool {
    let literal = call.arguments.iter().all(|word| word.text().is_some());
    literal
        && !call.arguments.is_empty()
        && (call.name == "eval" || SHELLS.contains(&call.name) && shell_command(call).is_some())
}

/// The index of the text that `sh -c` and the like run.
fn shell_command(call: &Invocation<'_>) -> Option<usize> {
    let mut wanted = false;
    let mut at = 0;
    while let Some(text) = call.arguments.get(at).and_then(Word::text) {
        if !text.starts_with(['-', '+']) || text == "-" {
            break;
        }
        at += 1;
        if text == "--" {
            break;
        }
        if text.starts_with("--") {
            at += usize::from(matches!(text, "--rcfile" | "--init-file"));
            continue;
        }
        wanted |= text.contains('c');
        // In bash, each of these takes a word, wherever it stands; elsewhere, a name may follow it in the same word.
        at += match call.name {
            "sh" | "bash" | "rbash" | "dash" | "ash" => {
                text.chars().filter(|letter| matches!(letter, 'o' | 'O')).count()
            }
            _ => usize::from(text.ends_with(['o', 'O'])),
        };
    }
    (wanted && at < call.arguments.len()).then_some(at)
}

fn shell(call: &Invocation<'_>, found: &mut Findings) {
    if call.has(&["--rcfile", "--init-file"]) {
        found.doubt("a shell reads a startup file");
    }
    if let Some(at) = shell_command(call) {
        found.traces |= traces(call.arguments.get(..at).unwrap_or_default());
        found.variables.parameters |= call.arguments.len() > at + 1;
        return call.evaluates(call.arguments.get(at), found);
    }
    if matches!(call.arguments.first().and_then(Word::text), Some("--version" | "--help")) {
        return;
    }
    let script =
        call.arguments.iter().find(|word| word.text().is_none_or(|text| !text.starts_with(['-', '+'])));
    let reads = call
        .arguments
        .iter()
        .filter_map(Word::text)
        .any(|text| text.starts_with('-') && !text.starts_with("--") && text.contains('s'));
    match script.map(Word::text) {
        Some(Some(file)) if !reads && !file.starts_with("/dev/") && !file.starts_with("/proc/") => {}
        _ => found.doubt(format!("the command that `{}` runs is only known at run time", call.name)),
    }
}

fn eval(call: &Invocation<'_>, found: &mut Findings) {
    let words: Option<Vec<&str>> = call.arguments.iter().map(Word::text).collect();
    match words.as_deref() {
        Some(["--", words @ ..] | words) => super::run(&words.join(" "), &call.context.behind("eval"), found),
        None => found.doubt("the command that `eval` runs is only known at run time"),
    }
}

fn trap(call: &Invocation<'_>, found: &mut Findings) {
    let mut arguments = call.arguments;
    if arguments.first().and_then(Word::text) == Some("--") {
        arguments = arguments.get(1..).unwrap_or_default();
    }
    match arguments.first().map(Word::text) {
        None | Some(Some("-" | "" | "-l" | "-p")) => {}
        Some(_) if arguments.len() == 1 => {}
        Some(_) => call.evaluates(arguments.first(), found),
    }
}

fn read(call: &Invocation<'_>, found: &mut Findings) {
    // A complete line of a file list is the name of a file.
    let value = match (&call.context.stdin, call.arguments) {
        (Some(pattern), [option, _]) if option.text() == Some("-r") && !call.splits => {
            Value::Pattern(pattern.to_string())
        }
        _ => Value::Data,
    };
    found.arrays |= call.has_letter(&['a']);
    call.arguments.iter().for_each(|word| names_variable(word, &value, found));
}

/// Whether it may be `-p` of `wait`, alone or among other letters.
fn names_with_p(text: &str) -> bool {
    text.starts_with('-') && text.contains('p')
}

/// Whether options of a shell make it print each command before it runs.
fn traces(words: &[Word]) -> bool {
    let mut options = words.iter().map(Word::text).take_while(|text| *text != Some("--"));
    options
        .any(|text| text.is_none_or(|text| text == "xtrace" || text.starts_with('-') && text.contains('x')))
}

fn set(call: &Invocation<'_>, found: &mut Findings) {
    found.traces |= traces(call.arguments);
    let all = call.arguments.iter().filter_map(Word::text).any(|text| {
        text == "allexport" || text.starts_with('-') && !text.starts_with("--") && text.contains(['a', 'k'])
    });
    if all || call.has(&["posix", "keyword", "history", "histexpand"]) {
        found.doubt("`set` changes how the rest is parsed");
    }
    let is_option =
        |word: &Word| word.text().is_some_and(|text| text.starts_with(['-', '+']) && text != "--");
    found.variables.parameters |= !call.arguments.iter().all(is_option);
}

fn declaration(call: &Invocation<'_>, found: &mut Findings) {
    // `-u` and similar options change the assigned value.
    let plain = !call
        .arguments
        .iter()
        .filter_map(Word::text)
        .any(|text| text.starts_with('-') && text.contains(['u', 'l', 'c', 'a', 'A']));
    found.arrays |= call.has_letter(&['a', 'A']);
    // A program that gets the variable may print it.
    found.traces |= call.name == "export" || call.has_letter(&['x']);
    for word in call.arguments {
        declared_value(word, found);
        if let Some((name, value)) = &word.assignment {
            variables::assigned(name, value.as_deref(), found);
            let given = word.value().filter(|_| plain).map_or(Value::Unknown, Value::assigned);
            found.variables.give(name, given);
            continue;
        }
        match word.text() {
            Some(text) if text.starts_with(['-', '+']) => {
                if text.contains(['n', 'i']) && call.name != "export" {
                    found.doubt("a variable gets a special attribute");
                }
                if text.contains('f') && call.name == "export" {
                    found.doubt("it exports a function");
                }
            }
            Some(text) => match text.split_once('=') {
                Some((name, value)) => {
                    variables::assigned(name.trim_end_matches('+'), Some(value), found);
                    found.variables.give(name.trim_end_matches('+'), Value::Unknown);
                }
                None => {
                    variables::assigned(text, None, found);
                    let nothing = Value::Pieces(vec![Piece::Text(String::new())]);
                    found.variables.give(text, if plain { nothing } else { Value::Unknown });
                }
            },
            None => {
                found.doubt(format!("the variables that `{}` declares are only known at run time", call.name))
            }
        }
    }
}

/// Bash evaluates the elements in a value `(…)` of an array, also where it is quoted, and the subscript of a name.
fn declared_value(word: &Word, found: &mut Findings) {
    let Some((name, value)) = word.assignment.clone().or_else(|| word.setting()) else {
        if word.text().is_some_and(|text| text.contains('[')) {
            found.doubt("an array subscript is evaluated");
        }
        return;
    };
    if word.braced_value {
        found.doubt("a declaration has several values");
    }
    let is_compound =
        word.raw.strip_prefix(&name).is_some_and(|rest| rest.starts_with("=(") || rest.starts_with("+=("));
    match value {
        Some(value) if value.starts_with('(') => {
            found.doubt("a declaration may evaluate the elements of an array")
        }
        None if !is_compound => {
            found.declares_unknown = true;
            found.arrays |= lists::holds("variable/array", &name);
        }
        _ => {}
    }
}

/// An argument that may be the name of a variable to be set.
fn names_variable(word: &Word, value: &Value, found: &mut Findings) {
    match word.text() {
        Some(text) => {
            let name = text.trim_start_matches("-v");
            if is_name(name) {
                found.variables.give(name, value.clone());
            }
            variables::assigned(name, None, found);
            if name.contains('[') {
                found.doubt("an array subscript is evaluated");
            }
        }
        None => found.doubt("the variable that it sets is only known at run time"),
    }
}

/// Interpreters with options for code, by name; version suffixes are left off.
const INLINE: &[(&str, &[&str])] = &[
    ("python", &["-c", "-i"]),
    ("pypy", &["-c", "-i"]),
    (
        "node",
        &[
            "-e",
            "-p",
            "-pe",
            "-r",
            "--eval",
            "--print",
            "--require",
            "--import",
            "--loader",
            "-i",
            "--experimental-loader",
        ],
    ),
    ("nodejs", &["-e", "-p", "--eval", "--print", "-r", "--require", "-i"]),
    ("bun", &["-e", "--eval", "-p", "--print", "eval", "-r", "--preload"]),
    ("deno", &["eval", "repl", "-e"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e", "-r"]),
    ("php", &["-r", "-B", "-R", "-E", "-d", "-a"]),
    ("lua", &["-e", "-l", "-i"]),
    ("luajit", &["-e", "-l", "-i"]),
    ("osascript", &["-e"]),
    ("Rscript", &["-e"]),
    ("R", &["-e"]),
    ("julia", &["-e", "-E", "--eval", "--print"]),
    ("ghc", &["-e"]),
    ("groovy", &["-e"]),
    ("scala", &["-e"]),
    ("elixir", &["-e", "--eval"]),
    ("erl", &["-eval"]),
    ("tclsh", &[]),
    ("guile", &["-c"]),
    ("sbcl", &["--eval"]),
    ("emacs", &["--eval", "-eval", "-l", "--load", "-f"]),
];

fn interpreter(call: &Invocation<'_>, found: &mut Findings) {
    match call.name {
        "sed" | "gsed" => return sed(call, found),
        "awk" | "gawk" | "mawk" | "nawk" => return awk(call, found),
        _ => {}
    }
    let stem = call.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let Some((_, options)) = INLINE.iter().find(|(name, _)| *name == stem || *name == call.name) else {
        return;
    };
    let letters: Vec<char> =
        options.iter().filter(|o| o.len() == 2).filter_map(|o| o.chars().nth(1)).collect();
    let mut names_script = false;
    let mut arguments = call.arguments.iter();
    while let Some(word) = arguments.next() {
        let Some(text) = word.text() else { break };
        if matches!(text, "-W" | "-X" | "-I" | "-C" | "-L" | "--title" | "--conditions" | "--env-file") {
            arguments.next();
            continue;
        }
        let long = options.iter().any(|o| {
            text == *o || o.starts_with("--") && text.strip_prefix(o).is_some_and(|r| r.starts_with('='))
        });
        let cluster = text.starts_with('-') && !text.starts_with("--") && text != "-m" && {
            let body = text.trim_start_matches('-');
            body.chars()
                .take_while(|c| c.is_ascii_alphabetic() || c.is_ascii_digit())
                .any(|c| letters.contains(&c))
                && stem != "deno"
        };
        if text == "-m" || !text.starts_with('-') && !long {
            names_script = text != "-" && !text.starts_with("/dev/") && !text.starts_with("/proc/");
            break;
        }
        if long || cluster {
            found.doubt(format!("`{}` runs code given in its arguments", call.name));
            return;
        }
        if matches!(text, "--version" | "-V" | "-v" | "--help" | "-h" | "--test") {
            return;
        }
    }
    if !names_script && !matches!(stem, "bun" | "deno" | "ghc" | "emacs" | "R") {
        found.doubt(format!("`{}` runs code that is not part of the command line", call.name));
    }
}

/// `sed` scripts may run commands (`e`) and write files (`w`).
fn sed(call: &Invocation<'_>, found: &mut Findings) {
    let mut script_seen = false;
    let mut arguments = call.arguments.iter();
    while let Some(word) = arguments.next() {
        let Some(text) = word.text() else {
            if !script_seen {
                found.doubt("the `sed` script is only known at run time");
            }
            script_seen = true;
            continue;
        };
        let script = match text.strip_prefix("--") {
            Some(long) => match long.split_once('=') {
                // Long options may be abbreviated.
                Some((name, value)) if is_start_of(name, "expression") => Some(value),
                None if is_start_of(long, "expression") => {
                    Some(arguments.next().and_then(Word::text).unwrap_or("e"))
                }
                None if long.starts_with('l') => {
                    arguments.next();
                    None
                }
                _ if is_start_of(long.split('=').next().unwrap_or_default(), "file") => Some("e"),
                _ => None,
            },
            None if text.starts_with('-') && text.len() > 1 => {
                sed_cluster(text, || arguments.next().map(|word| word.text().unwrap_or("e")))
            }
            None if !script_seen => Some(text),
            None => None,
        };
        if let Some(script) = script {
            script_seen = true;
            if !sed::is_tame(script) {
                found.doubt("the `sed` script may run commands or write files");
            }
        }
    }
}

fn is_start_of(given: &str, option: &str) -> bool {
    !given.is_empty() && option.starts_with(given)
}

/// The script that options of one letter give; a file of commands counts as one that runs something.
fn sed_cluster<'a>(text: &'a str, next: impl FnOnce() -> Option<&'a str>) -> Option<&'a str> {
    let mut letters = text.trim_start_matches('-').chars();
    while let Some(letter) = letters.next() {
        let attached = Some(letters.as_str()).filter(|rest| !rest.is_empty());
        match letter {
            'e' => return attached.or_else(next),
            'f' => return Some("e"),
            'l' => {
                attached.or_else(next);
                return None;
            }
            'i' => return None,
            _ => {}
        }
    }
    None
}

/// `awk` programs may run commands, open pipes and write files.
fn awk(call: &Invocation<'_>, found: &mut Findings) {
    let mut arguments = call.arguments.iter();
    while let Some(word) = arguments.next() {
        match word.text() {
            Some("-F" | "-v" | "--field-separator" | "--assign") => {
                arguments.next();
            }
            Some(text) if text.starts_with("-F") || text.starts_with("-v") => {}
            Some(text) if text.starts_with('-') => {
                found.doubt(format!("`{text}` lets `awk` load or change files"));
            }
            Some(program) => {
                if !awk_is_tame(program) {
                    found.doubt("the `awk` program may run commands or write files");
                }
                return;
            }
            None => {
                found.doubt("the `awk` program is only known at run time");
                return;
            }
        }
    }
}

pub(super) fn awk_is_tame(program: &str) -> bool {
    let without_or = program.replace("||", "");
    // The end of a statement is only certain where no string, regex or comment can contain a similar character. The
    // end of a line is none: awk reads on after a comma, a backslash and the like.
    let plain = !program.contains(['"', '/', '#']);
    let statement = |after: &'_ str| match plain {
        true => after.split(['}', ';']).next().unwrap_or_default().contains('>'),
        false => after.contains('>'),
    };
    let prints_to_file = without_or.split("print").skip(1).any(statement);
    !without_or.contains('|')
        && !program.contains("system")
        && !program.contains("getline")
        && !program.contains('@')
        && !program.contains("SYMTAB")
        && !prints_to_file
}
