//! Programs that run the program named in their arguments.

use super::value::Piece;
use super::word::{Word, is_name};
use super::{Context, Found, MAX_DEPTH, Part, braces, embedded, git, names, scripts, variables};

/// How a wrapper's own arguments are told from those of the program it runs.
struct Wrapper {
    name: &'static str,
    /// Options that take the next word, without their dashes; one letter for short ones.
    with_value: &'static [&'static str],
    /// Options that stand alone.
    flags: &'static [&'static str],
    /// Words before the program.
    operands: usize,
    /// Whether it gives the program more rights, so that it counts as a command itself.
    privileged: bool,
}

const fn neutral(
    name: &'static str,
    with_value: &'static [&'static str],
    flags: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { name, with_value, flags, operands, privileged: false }
}

const WRAPPERS: &[Wrapper] = &[
    neutral("nohup", &[], &[], 0),
    neutral(
        "timeout",
        &["k", "s", "kill-after", "signal"],
        &["v", "f", "p", "foreground", "preserve-status", "verbose"],
        1,
    ),
    neutral(
        "gtimeout",
        &["k", "s", "kill-after", "signal"],
        &["v", "foreground", "preserve-status", "verbose"],
        1,
    ),
    neutral("nice", &["n", "adjustment"], &[], 0),
    neutral("ionice", &["c", "n", "class", "classdata"], &["t", "ignore"], 0),
    neutral("setsid", &[], &["c", "f", "w", "ctty", "fork", "wait"], 0),
    neutral("stdbuf", &["i", "o", "e", "input", "output", "error"], &[], 0),
    neutral("time", &["f", "format"], &["p", "v", "q", "portability", "verbose"], 0),
    neutral(
        "chrt",
        &["T", "P", "D"],
        &["b", "f", "i", "o", "r", "a", "v", "batch", "fifo", "idle", "other", "rr"],
        1,
    ),
    neutral("taskset", &[], &["a", "c", "cpu-list"], 1),
    neutral("builtin", &[], &[], 0),
    neutral("unbuffer", &[], &["p"], 0),
    neutral("caffeinate", &["t", "w"], &["d", "i", "m", "s", "u"], 0),
    neutral("exec", &["a"], &["c", "l"], 0),
    neutral("command", &[], &["p"], 0),
    neutral("busybox", &[], &[], 0),
    neutral("toybox", &[], &[], 0),
    Wrapper {
        name: "sudo",
        with_value: &[
            "u",
            "g",
            "h",
            "p",
            "C",
            "T",
            "D",
            "R",
            "r",
            "t",
            "U",
            "user",
            "group",
            "host",
            "prompt",
            "close-from",
            "command-timeout",
            "chdir",
            "chroot",
            "role",
            "type",
            "other-user",
        ],
        flags: &[
            "A",
            "b",
            "E",
            "H",
            "n",
            "P",
            "S",
            "B",
            "N",
            "K",
            "k",
            "v",
            "V",
            "l",
            "non-interactive",
            "preserve-env",
            "set-home",
            "stdin",
            "background",
            "askpass",
        ],
        operands: 0,
        privileged: true,
    },
    Wrapper { name: "doas", with_value: &["u", "C"], flags: &["n", "L"], operands: 0, privileged: true },
    Wrapper {
        name: "pkexec",
        with_value: &["user"],
        flags: &["disable-internal-agent", "keep-cwd"],
        operands: 0,
        privileged: true,
    },
    Wrapper {
        name: "chroot",
        with_value: &["userspec", "groups"],
        flags: &["skip-chdir"],
        operands: 1,
        privileged: true,
    },
];

/// Whether a name is that of a program that runs others.
pub(super) fn is_wrapper(name: &str) -> bool {
    matches!(name, "env" | "xargs" | "find" | "watch" | "parallel") || WRAPPERS.iter().any(|w| w.name == name)
}

/// Notes a simple command and everything its arguments would run.
pub(super) fn emit(
    text: String,
    words: &[Word],
    assignments: Vec<(String, Option<String>)>,
    context: &Context,
    found: &mut Found,
) {
    if context.depth > MAX_DEPTH {
        found.doubt("it is nested too deeply");
        return;
    }
    let words = &spelled_out(words, found);
    let Some(first) = words.first() else {
        if !assignments.is_empty() || text.contains('>') {
            found.part(part(text, words, assignments, context));
        }
        return;
    };
    let Some(program) = first.text().filter(|name| !name.is_empty()) else {
        found.doubt("which program runs is only known at run time");
        found.part(part(text, words, assignments, context));
        return;
    };
    let name = names::base(program).to_owned();
    if program.contains(['\n', '\t', ' ']) || program.starts_with('~') {
        found.doubt("the program's name is odd");
    }
    if is_keyword(program) && !text.starts_with("[[") {
        found.doubt(format!("`{program}` may be a word of the shell's grammar"));
    }
    let call = Call {
        name: &name,
        words,
        arguments: words.get(1..).unwrap_or_default(),
        context,
        splits: assignments.iter().any(|(name, value)| name == "IFS" && value.as_deref() != Some("")),
    };
    if call.wrapped(&assignments, &text, found) {
        return;
    }
    if !assignments.is_empty() || !scripts::is_transparent(&call) {
        found.part(part(text, words, assignments, context));
    }
    scripts::look_into(&call, found);
    embedded::look_into(&call, found);
    git::look_into(&call, found);
}

/// A command whose program is known.
pub(super) struct Call<'a> {
    /// Without its directory.
    pub name: &'a str,
    pub words: &'a [Word],
    pub arguments: &'a [Word],
    pub context: &'a Context,
    /// Whether `IFS` is set for it, so that it takes a line apart in another way.
    pub splits: bool,
}

impl Call<'_> {
    /// Notes the command that some of the arguments make up.
    pub(super) fn runs(&self, words: &[Word], found: &mut Found) {
        self.runs_with(words, Vec::new(), found);
    }

    fn runs_with(&self, words: &[Word], assignments: Vec<(String, Option<String>)>, found: &mut Found) {
        let text = words.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" ");
        emit(text, words, assignments, &self.context.behind(self.name), found);
    }

    /// Reads a word as shell text.
    pub(super) fn evaluates(&self, word: Option<&Word>, found: &mut Found) {
        match word.and_then(Word::text) {
            Some(text) => super::run(text, &self.context.behind(self.name), found),
            None => found.doubt(format!("what `{}` runs is only known at run time", self.name)),
        }
    }

    pub(super) fn has(&self, options: &[&str]) -> bool {
        self.arguments.iter().any(|word| {
            word.text().is_some_and(|text| {
                options.iter().any(|option| {
                    text == *option
                        || option.starts_with("--")
                            && text.strip_prefix(option).is_some_and(|r| r.starts_with('='))
                })
            })
        })
    }

    /// A wrapper that is no command of its own. The wrapped program is noted in its place.
    fn wrapped(&self, assignments: &[(String, Option<String>)], text: &str, found: &mut Found) -> bool {
        if self.name == "env" {
            return self.env(assignments, found);
        }
        if self.name == "xargs" {
            return self.xargs(found);
        }
        let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == self.name) else { return false };
        if self.name == "command" && self.has(&["-v", "-V", "-pv", "-pV"]) {
            return false;
        }
        if wrapper.privileged {
            found.part(part(text.to_owned(), self.words, assignments.to_vec(), self.context));
        }
        let Some(start) = self.after_options(wrapper, found) else { return wrapper.privileged };
        let mut rest = self.arguments.get(start..).unwrap_or_default();
        rest = rest.get(wrapper.operands..).unwrap_or_default();
        let mut own = Vec::new();
        while wrapper.privileged
            && let Some((name, value)) = rest.first().and_then(|word| word.assignment.clone())
        {
            variables::assigned(&name, value.as_deref(), found);
            own.push((name, value));
            rest = rest.get(1..).unwrap_or_default();
        }
        if rest.is_empty() {
            return wrapper.privileged;
        }
        own.splice(0..0, assignments.iter().cloned());
        self.runs_with(rest, own, found);
        true
    }

    /// Where the operands start; `None` if an option makes it something else than a wrapper.
    fn after_options(&self, wrapper: &Wrapper, found: &mut Found) -> Option<usize> {
        let mut at = 0;
        while let Some(word) = self.arguments.get(at) {
            let Some(text) = word.text() else {
                if wrapper.operands > 0 && word.stays_one() {
                    return Some(at);
                }
                found.doubt(format!("which program `{}` runs is only known at run time", self.name));
                return Some(at);
            };
            if text == "--" {
                return Some(at + 1);
            }
            if !text.starts_with('-') || text == "-" {
                return Some(at);
            }
            at += 1;
            let value = at;
            let long = text.strip_prefix("--");
            let option = long.unwrap_or_else(|| text.trim_start_matches('-'));
            let name = option.split('=').next().unwrap_or_default();
            let known = match long {
                Some(_) if wrapper.with_value.contains(&name) => {
                    at += usize::from(!option.contains('='));
                    true
                }
                Some(_) => wrapper.flags.contains(&name),
                None => self.short_options(wrapper, option, &mut at),
            };
            if !known {
                found.doubt(format!("`{text}` is an option of `{}` that is not known here", self.name));
            }
            // More or less than one word, and another one is the program.
            if at > value && !self.arguments.get(value).is_some_and(Word::stays_one) {
                found.doubt(format!("which program `{}` runs is only known at run time", self.name));
            }
        }
        Some(at)
    }

    fn short_options(&self, wrapper: &Wrapper, cluster: &str, at: &mut usize) -> bool {
        if wrapper.name == "nice" && cluster.parse::<i32>().is_ok() {
            return true;
        }
        for (i, letter) in cluster.char_indices() {
            let letter = letter.to_string();
            if wrapper.with_value.contains(&letter.as_str()) {
                *at += usize::from(i + letter.len() == cluster.len());
                return true;
            }
            if !wrapper.flags.contains(&letter.as_str()) {
                return false;
            }
        }
        true
    }

    fn env(&self, assignments: &[(String, Option<String>)], found: &mut Found) -> bool {
        let mut own = assignments.to_vec();
        let mut at = 0;
        while let Some(word) = self.arguments.get(at) {
            let assigned = word.assignment.clone().or_else(|| {
                let (name, value) = word.text()?.split_once('=')?;
                is_name(name).then(|| (name.to_owned(), Some(value.to_owned())))
            });
            if let Some((name, value)) = assigned {
                variables::assigned(&name, value.as_deref(), found);
                own.push((name, value));
                at += 1;
                continue;
            }
            match word.text() {
                Some("-i" | "-" | "-0" | "-v" | "--ignore-environment" | "--null" | "--debug" | "--") => {
                    at += 1
                }
                Some("-u" | "--unset") => at += 2,
                Some("-C" | "--chdir") => {
                    found.doubt("`env` changes the directory");
                    at += 2;
                }
                Some(text)
                    if text.starts_with("-S")
                        || text.starts_with("--split-string")
                        || text.starts_with("-vS") =>
                {
                    return self.split_string(text, at, found);
                }
                Some(text) if text.starts_with("-u") || text.starts_with("--unset=") => at += 1,

                Some(text) if text.starts_with('-') || text.contains('=') => {
                    found.doubt(format!("`{text}` is an option of `env` that is not known here"));
                    at += 1;
                }
                _ => break,
            }
        }
        let rest = self.arguments.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        self.runs_with(rest, own, found);
        true
    }

    /// `env -S` splits by rules of its own, which are close to the shell's.
    fn split_string(&self, option: &str, at: usize, found: &mut Found) -> bool {
        found.doubt("`env -S` splits a string into a command");
        let attached = option
            .trim_start_matches("--split-string")
            .trim_start_matches("-v")
            .trim_start_matches("-S")
            .trim_start_matches('=');
        let text = if attached.is_empty() {
            self.arguments.get(at + 1).and_then(Word::text).unwrap_or_default()
        } else {
            attached
        };
        super::run(text, &self.context.behind("env"), found);
        true
    }

    fn xargs(&self, found: &mut Found) -> bool {
        let wrapper = Wrapper {
            name: "xargs",
            with_value: &[
                "n",
                "P",
                "I",
                "L",
                "s",
                "d",
                "a",
                "E",
                "max-args",
                "max-procs",
                "replace",
                "max-lines",
                "max-chars",
                "delimiter",
                "arg-file",
            ],
            flags: &[
                "0",
                "r",
                "t",
                "p",
                "x",
                "o",
                "i",
                "l",
                "null",
                "no-run-if-empty",
                "verbose",
                "interactive",
                "exit",
                "open-tty",
            ],
            operands: 0,
            privileged: false,
        };
        let start = self.after_options(&wrapper, found).unwrap_or_default();
        let mut inner = self.arguments.get(start..).unwrap_or_default().to_vec();
        if inner.is_empty() {
            return false;
        }
        let marker = self.arguments.windows(2).take(start).find_map(|pair| match pair {
            [option, marker] if option.text() == Some("-I") => marker.text().map(str::to_owned),
            [option, _] => option
                .text()
                .and_then(|t| t.strip_prefix("-I").or(t.strip_prefix("--replace=")))
                .map(str::to_owned),
            _ => None,
        });
        let elsewhere = self
            .arguments
            .iter()
            .take(start)
            .any(|word| word.text().is_some_and(|t| t.starts_with("-a") || t.starts_with("--arg-file")));
        let names = |raw: &str| match self.context.feed.filter(|_| !elsewhere) {
            Some(pattern) => {
                Word { pattern: Some(pattern.to_owned()), raw: raw.to_owned(), ..Word::default() }
            }
            None => Word::made_of(raw, Piece::Output { quoted: false, sample: None }),
        };
        match marker {
            Some(marker) => {
                for word in &mut inner {
                    if word.text() == Some(marker.as_str()) {
                        *word = names(&word.raw);
                    } else if word.text().is_some_and(|text| text.contains(&marker)) {
                        *word = Word::unknown(&word.raw);
                    }
                }
            }
            None => inner.push(names("…")),
        }
        self.runs(&inner, found);
        true
    }
}

/// Words that mean something else when bash joins continued lines before it looks at them.
fn is_keyword(program: &str) -> bool {
    matches!(
        program,
        "if" | "then"
            | "else"
            | "elif"
            | "fi"
            | "do"
            | "done"
            | "case"
            | "esac"
            | "for"
            | "select"
            | "while"
            | "until"
            | "function"
            | "coproc"
            | "{"
            | "}"
            | "!"
            | "[["
            | "]]"
    )
}

/// Replaces words with braces by what they expand to.
fn spelled_out(words: &[Word], found: &mut Found) -> Vec<Word> {
    let mut all = Vec::with_capacity(words.len());
    for (i, word) in words.iter().enumerate() {
        if !word.braces {
            all.push(word.clone());
            continue;
        }
        if i == 0 {
            found.doubt("the program's name is spelled with braces");
        }
        match braces::expand(&word.raw) {
            Some(expanded) => all.extend(expanded.iter().map(|text| Word::plain(text))),
            None => all.push(Word::unknown(&word.raw)),
        }
    }
    all
}

fn part(text: String, words: &[Word], assignments: Vec<(String, Option<String>)>, context: &Context) -> Part {
    let patterns =
        words.iter().enumerate().filter_map(|(i, word)| Some((i, word.pattern.clone()?))).collect();
    Part {
        text,
        words: words.iter().map(|word| word.literal.clone()).collect(),
        assignments,
        behind: context.behind.clone(),
        patterns,
        data: Vec::new(),
        pieces: words
            .iter()
            .enumerate()
            .filter(|(_, word)| word.literal.is_none() && word.pattern.is_none() && !word.pieces.is_empty())
            .map(|(i, word)| (i, word.pieces.clone()))
            .collect(),
    }
}
