//! Programs that run the program named in their arguments, such as `sudo`, `env` or `xargs`.

use super::programs::{self, Kind, Program};
use super::value::Piece;
use super::word::Word;
use super::{
    Context, Findings, MAX_DEPTH, Part, Pattern, Redirection, braces, embedded, escapes, git, lists, names,
    scripts, variables,
};

/// Whether a name is that of a program that runs others.
pub(super) fn is_wrapper(name: &str) -> bool {
    matches!(name, "env" | "find" | "watch" | "parallel")
        || programs::program(name).is_some_and(|program| program.traits.runs)
}

/// Records a simple command and everything its arguments would run.
pub(super) fn emit(
    text: String,
    words: &[Word],
    assignments: Vec<(String, Option<String>)>,
    context: &Context,
    found: &mut Findings,
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
        found.doubt("the program is only known at run time");
        found.part(part(text, words, assignments.clone(), context));
        // `$(git --exec-path)/git-push`: the folder does not matter to rules that deny.
        if let Some(name) = known_base(&first.raw) {
            let mut known = words.to_vec();
            known.splice(..1, [Word::plain(name)]);
            let text = known.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" ");
            emit(text, &known, assignments, &context.deeper(), found);
        }
        return;
    };
    let name = names::base(program).to_owned();
    // `{fd}` before a redirection is a part of it, also where a line is continued inside.
    if program.contains(['\n', '\t', ' ']) || program.starts_with(['~', '{']) {
        found.doubt("unusual program name");
    }
    if is_keyword(program) && !text.starts_with("[[") {
        found.doubt(format!("`{program}` may be a shell keyword"));
    }
    let call = Invocation {
        name: &name,
        words,
        arguments: words.get(1..).unwrap_or_default(),
        assignments: &assignments,
        context,
        splits: assignments.iter().any(|(name, value)| name == "IFS" && value.as_deref() != Some("")),
    };
    if call.wrapped(&text, found) {
        return;
    }
    if !assignments.is_empty() || !scripts::is_transparent(&call) {
        found.part(part(text, words, assignments.clone(), context));
    }
    dashed_git(&name, words, &assignments, context, found);
    scripts::look_into(&call, found);
    embedded::look_into(&call, found);
    escapes::look_into(&call, found);
    git::look_into(&call, found);
}

/// The name of a program in a folder that is only known at run time.
fn known_base(raw: &str) -> Option<&str> {
    let (folder, name) = raw.rsplit_once('/')?;
    let name = name.trim_end_matches('"');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    (!folder.is_empty() && !name.is_empty() && name.chars().all(is_plain)).then_some(name)
}

/// Records `git-NAME` as `git NAME` as well, so that rules on that find it.
fn dashed_git(
    name: &str,
    words: &[Word],
    assignments: &[(String, Option<String>)],
    context: &Context,
    found: &mut Findings,
) {
    let Some(subcommand) = name.strip_prefix("git-").filter(|one| lists::holds("git/known", one)) else {
        return;
    };
    let mut spelled = vec![Word::plain("git"), Word::plain(subcommand)];
    spelled.extend(words.iter().skip(1).cloned());
    let text = spelled.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" ");
    emit(text, &spelled, assignments.to_vec(), &context.behind(name), found);
}

/// A command whose program is known.
pub(super) struct Invocation<'a> {
    /// Without its directory.
    pub name: &'a str,
    pub words: &'a [Word],
    pub arguments: &'a [Word],
    /// Those in front of it, which the programs that it runs inherit.
    pub assignments: &'a [(String, Option<String>)],
    pub context: &'a Context,
    /// Whether `IFS` is set for it, so that it splits lines differently.
    pub splits: bool,
}

impl Invocation<'_> {
    /// Records the command made up of some of the arguments.
    pub(super) fn runs(&self, words: &[Word], found: &mut Findings) {
        self.runs_with(words, self.assignments.to_vec(), found);
    }

    fn runs_with(&self, words: &[Word], assignments: Vec<(String, Option<String>)>, found: &mut Findings) {
        let text = words.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" ");
        emit(text, words, assignments, &self.context.behind(self.name), found);
    }

    /// Parses a word as shell text.
    pub(super) fn evaluates(&self, word: Option<&Word>, found: &mut Findings) {
        match word.and_then(Word::text) {
            Some(text) => super::run(text, &self.context.behind(self.name), found),
            None => found.doubt(format!("the command that `{}` runs is only known at run time", self.name)),
        }
    }

    /// Whether there is an option of one dash with one of these letters.
    pub(super) fn has_letter(&self, letters: &[char]) -> bool {
        let is_option = |text: &str| text.starts_with('-') && !text.starts_with("--");
        self.arguments.iter().filter_map(Word::text).any(|text| is_option(text) && text.contains(letters))
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

    /// A wrapper that is not a command by itself. The wrapped program is recorded instead.
    fn wrapped(&self, text: &str, found: &mut Findings) -> bool {
        if self.name == "env" {
            return self.env(found);
        }
        if self.name == "xargs" {
            return self.xargs(found);
        }
        let Some(wrapper) = programs::program(self.name).filter(|program| program.traits.runs) else {
            return false;
        };
        let rights = wrapper.traits.rights;
        if self.name == "command" && self.asks_for_place() {
            return false;
        }
        if rights {
            found.part(part(text.to_owned(), self.words, self.assignments.to_vec(), self.context));
        }
        let Some(start) = self.after_options(wrapper, found) else { return rights };
        let mut rest = self.arguments.get(start..).unwrap_or_default();
        rest = rest.get(operands(wrapper)..).unwrap_or_default();
        let mut own = self.assignments.to_vec();
        while rights && let Some((name, value)) = rest.first().and_then(Word::setting) {
            variables::passed(&name, value.as_deref(), found);
            own.push((name, value));
            rest = rest.get(1..).unwrap_or_default();
        }
        if rest.is_empty() {
            return rights;
        }
        self.runs_with(rest, own, found);
        true
    }

    /// Whether `command` has `-v` or `-V` among its own options, so that it only prints what would run.
    fn asks_for_place(&self) -> bool {
        let own = self.arguments.iter().map_while(Word::text);
        own.take_while(|text| text.starts_with('-') && !matches!(*text, "-" | "--"))
            .any(|text| text.contains(['v', 'V']))
    }

    /// Where the operands start; `None` if an option makes it something else than a wrapper.
    fn after_options(&self, wrapper: &Program, found: &mut Findings) -> Option<usize> {
        let mut at = 0;
        while let Some(word) = self.arguments.get(at) {
            let Some(text) = word.text() else {
                if operands(wrapper) > 0 && word.stays_one() {
                    return Some(at);
                }
                found.doubt(format!("the program that `{}` runs is only known at run time", self.name));
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
                Some(_) => wrapper.long(name).is_some_and(|choice| {
                    at += usize::from(choice.value.is_some() && !choice.attached && !option.contains('='));
                    true
                }),
                None => short_options(wrapper, option, &mut at),
            };
            if !known {
                found.doubt(format!("unknown option `{text}` of `{}`", self.name));
            }
            // More or less than one word, and another one is the program.
            if at > value && !self.arguments.get(value).is_some_and(Word::stays_one) {
                found.doubt(format!("the program that `{}` runs is only known at run time", self.name));
            }
        }
        Some(at)
    }

    fn env(&self, found: &mut Findings) -> bool {
        let mut own = self.assignments.to_vec();
        let mut at = 0;
        while let Some(word) = self.arguments.get(at) {
            if let Some((name, value)) = word.setting() {
                // It may become several words, of which the second one is the program.
                if !word.stays_one() {
                    found.doubt("the program that `env` runs is only known at run time");
                }
                variables::passed(&name, value.as_deref(), found);
                found.shown.extend(word.pieces.clone());
                own.push((name, value));
                at += 1;
                continue;
            }
            match word.text() {
                Some("-i" | "-" | "-0" | "-v" | "--ignore-environment" | "--null" | "--debug" | "--") => {
                    at += 1
                }
                Some("-u" | "--unset") => {
                    // More or less than one word, and another one is the program.
                    if self.arguments.get(at + 1).is_none_or(|name| name.text().is_none()) {
                        found.doubt("the variable that `env` unsets is only known at run time");
                    }
                    at += 2;
                }
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
                    found.doubt(format!("unknown option `{text}` of `env`"));
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

    /// `env -S` has its own splitting rules, which are close to the shell's.
    fn split_string(&self, option: &str, at: usize, found: &mut Findings) -> bool {
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

    fn xargs(&self, found: &mut Findings) -> bool {
        let Some(wrapper) = programs::program("xargs") else { return false };
        let start = self.after_options(wrapper, found).unwrap_or_default();
        let hides_marker = |text: &str| {
            !text.starts_with("-I") && !text.starts_with("--") && text.starts_with('-') && text.contains('I')
        };
        let own = self.arguments.get(..start).unwrap_or_default();
        let options = xargs_options(wrapper, own);
        if own.iter().filter_map(Word::text).any(hides_marker) || replaces_unclearly(&options) {
            found.doubt("the words that `xargs` replaces cannot be determined");
        }
        if options.iter().any(|(name, value)| matches!(*name, "d" | "delimiter") && !is_line_end(*value)) {
            found.doubt("`xargs` splits its input into words that cannot be determined");
        }
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
        // A file of arguments is read like a redirection.
        let named =
            |word: &Word| word.text().is_some_and(|t| t.starts_with("--arg-file") || is_cluster_with_a(t));
        let elsewhere = own.iter().any(named);
        for (at, word) in own.iter().enumerate().filter(|(_, word)| named(word)) {
            let text = word.text().unwrap_or_default();
            let attached = text
                .split_once(['=', 'a'])
                .map(|(_, value)| value)
                .filter(|_| !text.starts_with("--arg-file"));
            let value = text.strip_prefix("--arg-file=").or(attached).filter(|value| !value.is_empty());
            let next = || own.get(at + 1).and_then(Word::text);
            let target = value.or_else(next).map(str::to_owned);
            found.redirect(Redirection { writes: false, target }, Vec::new());
        }
        let names = |raw: &str| match self.context.feed.as_ref().filter(|_| !elsewhere) {
            Some(pattern) => Word {
                pattern: Some(pattern.to_string()),
                raw: raw.to_owned(),
                relayed: true,
                ..Word::default()
            },
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

/// The options of `xargs` with their values, in order.
fn xargs_options<'w>(wrapper: &Program, own: &'w [Word]) -> Vec<(&'w str, Option<&'w str>)> {
    let mut options = Vec::new();
    let mut words = own.iter().filter_map(Word::text);
    while let Some(text) = words.next() {
        if let Some(long) = text.strip_prefix("--") {
            let (name, attached) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let takes = wrapper.long(name).is_some_and(|choice| choice.value.is_some() && !choice.attached);
            let value = if takes && attached.is_none() { words.next() } else { attached };
            options.push((name, value));
            continue;
        }
        let Some(letters) = text.strip_prefix('-') else { continue };
        for (at, letter) in letters.char_indices() {
            let after = at + letter.len_utf8();
            let (name, rest) = (letters.get(at..after).unwrap_or_default(), letters.get(after..));
            let attached = rest.filter(|rest| !rest.is_empty());
            match wrapper.short(letter).filter(|choice| choice.value.is_some()) {
                None if matches!(letter, 'i' | 'l' | 'e') => {
                    options.push((name, attached));
                    break;
                }
                None => options.push((name, None)),
                Some(_) => {
                    options.push((name, attached.or_else(|| words.next())));
                    break;
                }
            }
        }
    }
    options
}

/// Whether a later option of `xargs` undoes what an earlier one replaces, or none names the marker.
fn replaces_unclearly(options: &[(&str, Option<&str>)]) -> bool {
    let shapes = options.iter().filter(|(name, _)| {
        matches!(*name, "I" | "i" | "replace" | "n" | "L" | "l" | "max-args" | "max-lines")
    });
    let unnamed = |(name, value): &(&str, Option<&str>)| {
        matches!(*name, "I" | "i" | "replace") && value.is_none_or(str::is_empty)
    };
    shapes.count() > 1 || options.iter().any(unnamed)
}

/// Whether a delimiter of `xargs` is the end of a line or of a string, which no name in a list contains.
fn is_line_end(value: Option<&str>) -> bool {
    matches!(value, Some("\n" | "\\n" | "\\0"))
}

/// Whether short options of `xargs` end in `-a`, whose value is a file.
fn is_cluster_with_a(text: &str) -> bool {
    let flags =
        text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.split_once('a'));
    flags.is_some_and(|(flags, _)| flags.chars().all(|c| "0rtpxo".contains(c)))
}

/// The number of words between a wrapper's options and the program.
fn operands(wrapper: &Program) -> usize {
    wrapper.operands.iter().filter(|(kind, _)| !matches!(kind, Kind::Command)).count()
}

fn short_options(wrapper: &Program, cluster: &str, at: &mut usize) -> bool {
    if wrapper.digits && cluster.parse::<i32>().is_ok() {
        return true;
    }
    let mut letters = cluster.chars();
    while let Some(letter) = letters.next() {
        let Some(choice) = wrapper.short(letter) else { return false };
        if choice.value.is_some() {
            *at += usize::from(letters.as_str().is_empty() && !choice.attached);
            return true;
        }
    }
    true
}

/// Words that change their meaning when bash joins continued lines first.
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

/// Replaces words with braces by their expansions.
fn spelled_out(words: &[Word], found: &mut Findings) -> Vec<Word> {
    let mut all = Vec::with_capacity(words.len());
    for (i, word) in words.iter().enumerate() {
        if !word.braces {
            all.push(word.clone());
            continue;
        }
        if i == 0 {
            found.doubt("the program name uses brace expansion");
        }
        match braces::expand(&word.raw) {
            Some(expanded) => all.extend(expanded.iter().map(|text| Word::plain(text))),
            None => all.push(Word::unknown(&word.raw)),
        }
    }
    all
}

fn part(text: String, words: &[Word], assignments: Vec<(String, Option<String>)>, context: &Context) -> Part {
    let patterns = words
        .iter()
        .enumerate()
        .filter_map(|(at, word)| Some(Pattern { at, text: word.pattern.clone()?, relayed: word.relayed }));
    let patterns = patterns.collect();
    Part {
        text,
        words: words.iter().map(|word| word.literal.clone()).collect(),
        assignments,
        behind: context.behind.clone(),
        repeats: context.repeats,
        writes_nohup: context.writes_nohup,
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
