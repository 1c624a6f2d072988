//! Files among the arguments of a program that writes, in every spelling of its options.
//!
//! Errs on the side of more files: a word that may be the value of an option counts as one, and as an operand too if it
//! is not certain.

use super::super::lists;
use super::super::programs::{Effect, Kind, Program};
use super::covers::{self, is_tame_setting, uploads};
use super::{AT_RUN_TIME, Touch, Word, unknown};

pub(super) const LEAVES: &str = "an option lets it work outside the workspace";
const RUNS: &str = "an argument may make it run a program or read further options";
const SETS: &str = "an argument sets a variable that may run a program";

/// Arguments, taken apart.
#[derive(Default)]
pub(super) struct Given<'p> {
    pub(super) named: Vec<Touch<'p>>,
    pub(super) operands: Vec<&'p str>,
    pub(super) unsure: Option<&'static str>,
    /// Files that say what to build.
    pub(super) builds: Vec<&'p str>,
    pub(super) addresses: Vec<&'p str>,
    /// Whether files are written under the names of addresses.
    pub(super) fetched: bool,
    /// Whether an option names the downloaded file.
    pub(super) renamed: bool,
    /// Whether files are sent to addresses.
    pub(super) sends: bool,
    /// The program whose lists apply to values that are passed on.
    pub(super) family: &'static str,
}

/// The next word is the value of an option, or may be.
struct Expects {
    kind: Kind,
    certain: bool,
}

impl<'p> Given<'p> {
    pub(super) fn read(name: &str, program: &Program, words: &[Word<'p>]) -> Self {
        let family = lists::list(&format!("family/{name}")).first().copied().unwrap_or_default();
        let mut given = Self { family, fetched: program.traits.fetches, ..Self::default() };
        let stops = format!("stops/{name}");
        let outside = lists::list(&format!("outside/{name}"));
        let mut rest = words.iter().peekable();
        let mut may_be_value = false;
        while let Some(word) = rest.next() {
            let renamed = std::mem::take(&mut may_be_value).then_some(given.renamed);
            let Some(text) = word.text else {
                if !word.tame || program.operands.iter().any(|(kind, _)| *kind == Kind::Out) {
                    given.unsure = Some(AT_RUN_TIME);
                }
                continue;
            };
            if text == "--" {
                let behind: Vec<Word<'p>> = rest.by_ref().copied().collect();
                // For these programs, the words after `--` belong to the program they run.
                if given.hands_on(name) {
                    given.passes_on(name, &behind);
                } else {
                    given.operands.extend(behind.iter().filter_map(|word| word.text));
                    given.unsure = given.unsure.or_else(|| unknown(words));
                }
                break;
            }
            if text == "-" || !text.starts_with('-') {
                given.operands.push(text);
                // What follows belongs to the program that it runs.
                if given.operands.len() == 2
                    && given.operands.first().is_some_and(|verb| lists::holds(&stops, verb))
                {
                    break;
                }
                continue;
            }
            if is_one_of(outside, text) {
                given.unsure = Some(LEAVES);
            }
            let expects = if program.traits.words {
                given.word(name, program, text)
            } else if let Some(long) = text.strip_prefix("--") {
                given.long(program, long)
            } else {
                given.cluster(program, text.get(1..).unwrap_or_default())
            };
            given.renamed = renamed.unwrap_or(given.renamed);
            let Some(expects) = expects else { continue };
            let Some(value) = rest.peek() else { continue };
            match value.text {
                Some(value) => given.take(expects.kind, value),
                None if !value.tame => given.unsure = Some(AT_RUN_TIME),
                None => {}
            }
            given.renamed = renamed.unwrap_or(given.renamed);
            let is_option = value.text.is_some_and(|value| value.starts_with('-') && value != "-");
            may_be_value = is_option;
            if expects.certain && !is_option {
                rest.next();
            }
        }
        given
    }

    /// The value of an option.
    pub(super) fn take(&mut self, kind: Kind, value: &'p str) {
        match kind {
            Kind::Out => self.named.push(Touch { path: value, writes: true }),
            Kind::File | Kind::Facts | Kind::Tree | Kind::Archive => {
                self.named.push(Touch { path: value, writes: false });
            }
            Kind::Command => self.unsure = Some(RUNS),
            Kind::Upload => self.named.extend(uploads(value)),
            Kind::Address => self.addresses.push(value),
            Kind::Text | Kind::Number => {}
            _ => self.covers(kind, value),
        }
    }

    /// `--name`, `--name=value` and abbreviations.
    fn long(&mut self, program: &Program, text: &'p str) -> Option<Expects> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        // `--config.key=value`
        let is_known = program.long_by(|known| known.starts_with(name)).next().is_some();
        let name = name.split('.').next().filter(|_| !is_known).unwrap_or(name);
        let exact = program.long(name).is_some();
        let fits = |known: &str| if exact { known == name } else { known.starts_with(name) };
        let kinds: Vec<(Option<Kind>, bool)> =
            program.long_by(fits).map(|(_, choice)| (choice.value, choice.attached)).collect();
        self.fetched |= program.long_by(fits).any(|(_, choice)| choice.effect == Some(Effect::Fetched));
        if kinds.is_empty() && program.traits.strict {
            self.unsure = Some(covers::UNLISTED);
        }
        if kinds.iter().any(|(kind, _)| *kind == Some(Kind::Ask)) {
            self.unsure = Some(covers::BEYOND);
        }
        if let Some(value) = value {
            if kinds.is_empty() && writes_operands(program) {
                self.take(Kind::File, value);
            }
            kinds.iter().filter_map(|(kind, _)| *kind).for_each(|kind| self.take(kind, value));
            return None;
        }
        let certain = kinds.len() == 1;
        let separate = kinds.into_iter().filter(|(_, attached)| !attached).filter_map(|(kind, _)| kind);
        separate.max_by_key(|kind| weight(*kind)).map(|kind| Expects { kind, certain })
    }

    /// Short options, of which one may have a value.
    fn cluster(&mut self, program: &Program, letters: &'p str) -> Option<Expects> {
        let mut known = true;
        for (at, letter) in letters.char_indices() {
            let after = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            let Some(choice) = program.short(letter) else {
                known &= program.digits && letter.is_ascii_digit();
                if !known && program.traits.strict {
                    self.unsure = Some(covers::UNLISTED);
                }
                continue;
            };
            self.fetched |= choice.effect == Some(Effect::Fetched);
            if choice.value == Some(Kind::Ask) {
                self.unsure = Some(covers::BEYOND);
            }
            let Some(kind) = choice.value else { continue };
            if after.is_empty() {
                return (!choice.attached).then_some(Expects { kind, certain: known });
            }
            // A mode such as tar's `-x`: `out?` only says that the mode writes; the letters after it are options.
            if choice.attached && kind == Kind::Out {
                continue;
            }
            self.take(kind, after.strip_prefix('=').unwrap_or(after));
            if after.starts_with('=') {
                self.take(kind, after);
            }
            if known {
                return None;
            }
        }
        // This may be the value of an unknown option, such as `-x../y`.
        if !known && let Some(place) = letters.find(['/', '~', '.']).filter(|_| letters.contains(['/', '~']))
        {
            self.take(Kind::Out, letters.split_at(place).1);
        }
        None
    }

    /// Options of whole words, behind one or two dashes; the value of a short one may be attached.
    fn word(&mut self, name: &str, program: &Program, text: &'p str) -> Option<Expects> {
        let single = !text.starts_with("--");
        let text = text.strip_prefix("--").or(text.strip_prefix('-')).unwrap_or(text);
        let (given, value) = text.split_once('=').map_or((text, None), |(given, value)| (given, Some(value)));
        let same = |known: &str| match name {
            "tsc" => known.eq_ignore_ascii_case(given),
            _ => known == given,
        };
        let exact = program.long_by(same).last().map(|(_, choice)| choice);
        if let Some(choice) = exact {
            let kind = choice.value?;
            if kind == Kind::Ask {
                self.unsure = Some(covers::BEYOND);
            }
            match value {
                Some(value) => self.take(kind, value),
                None if choice.attached => {}
                None => return Some(Expects { kind, certain: true }),
            }
            return None;
        }
        if program.traits.glued {
            self.glued(program, text, single);
            return None;
        }
        let glued = |known: &str| known.len() < 3 && text.starts_with(known);
        for (known, choice) in program.long_by(glued) {
            let value = text.get(known.len()..).unwrap_or_default();
            if let Some(kind) = choice.value {
                self.take(kind, value.strip_prefix('=').unwrap_or(value));
            }
        }
        None
    }

    /// All files, given the kinds of the operands.
    pub(super) fn touches(mut self, name: &str, program: &Program) -> (Vec<Touch<'p>>, Option<&'static str>) {
        let operands = std::mem::take(&mut self.operands);
        let targeted = name != "rsync" && self.named.iter().any(|touch| touch.writes);
        let kinds: Vec<Kind> = program.operands.iter().map(|(kind, _)| *kind).collect();
        let last = operands.len().saturating_sub(1);
        self.judge_addresses();
        for (at, operand) in operands.iter().enumerate() {
            match kinds.as_slice() {
                _ if name == "dd" => self.named.extend(dd(operand)),
                [Kind::File, Kind::Out] => {
                    self.named.push(Touch { path: operand, writes: at == last && !targeted });
                }
                [Kind::Out] => {
                    if targeted && program.traits.source {
                        self.named.push(Touch { path: operand, writes: false });
                    }
                    self.named.push(Touch { path: operand, writes: true });
                }
                [] if name == "unzip" => self.named.push(Touch { path: operand, writes: true }),
                // A compiler shows the files that a program from standard input includes.
                [Kind::File]
                    if program.traits.argument_files
                        && (operand.starts_with('@') || *operand == "-" || operand.starts_with("/dev/")) =>
                {
                    self.unsure = Some(RUNS);
                }
                [Kind::File] => self.named.push(Touch { path: operand, writes: false }),
                [Kind::Address] => {
                    self.addresses.push(operand);
                    self.judge_addresses();
                }
                [Kind::Given] if !is_tame_setting(operand) => self.unsure = Some(SETS),
                [Kind::Given] => self.setting(operand),
                [Kind::Package] => self.package(operand),
                [Kind::Placed] => self.placed(operand, at == last),
                _ => {}
            }
        }
        if name == "cargo" {
            self.cargo(&operands);
        }
        (self.named, self.unsure)
    }

    fn cargo(&mut self, operands: &[&'p str]) {
        let mut creates = false;
        for operand in operands {
            if matches!(*operand, "new" | "init" | "vendor") {
                creates = true;
            } else if operand.starts_with('+') && operand.contains(['/', '\\']) {
                self.named.push(Touch { path: "/", writes: false });
            } else if creates {
                self.named.push(Touch { path: operand, writes: true });
            }
        }
    }
}

/// Whether a word is one of these options, possibly abbreviated or in a cluster.
pub(super) fn is_one_of(options: &[&str], text: &str) -> bool {
    let given = text.split('=').next().unwrap_or_default();
    options.iter().any(|option| match option.strip_prefix("--") {
        Some(_) => given.len() > 2 && option.starts_with(given),
        None => {
            let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
            letters.zip(option.chars().nth(1)).is_some_and(|(letters, letter)| letters.contains(letter))
        }
    })
}

/// Which kind counts where an abbreviation may mean several.
fn weight(kind: Kind) -> u8 {
    match kind {
        Kind::Command => 4,
        Kind::Out | Kind::Named => 3,
        Kind::File | Kind::Facts | Kind::Tree | Kind::Archive => 2,
        Kind::Upload | Kind::Address => 1,
        _ => 0,
    }
}

fn writes_operands(program: &Program) -> bool {
    program.operands.iter().any(|(kind, _)| *kind == Kind::Out)
}

fn dd(operand: &str) -> Option<Touch<'_>> {
    let (name, path) = operand.split_once('=')?;
    matches!(name, "if" | "of").then_some(Touch { path, writes: name == "of" })
}

/// Every argument, as a file that may be changed.
pub(super) fn all<'p>(words: &[Word<'p>]) -> Vec<Touch<'p>> {
    words.iter().filter_map(|word| word.text).map(|path| Touch { path, writes: true }).collect()
}

/// `sed`, which may change its files in place.
pub(super) fn sed<'p>(words: &[Word<'p>]) -> (Vec<Touch<'p>>, Option<&'static str>) {
    let (mut touches, mut operands) = (Vec::new(), Vec::new());
    let (mut in_place, mut scripted, mut options) = (false, false, true);
    let mut rest = words.iter();
    while let Some(text) = rest.next().map(|word| word.text.unwrap_or_default()) {
        if text == "--" {
            options = false;
        } else if !options || text == "-" || !text.starts_with('-') {
            operands.push(text);
        } else if let Some(long) = text.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let is = |option: &str| !name.is_empty() && option.starts_with(name);
            if is("in-place") {
                in_place = true;
                touches.extend(value.map(|path| Touch { path, writes: true }));
            }
            if is("file") || is("expression") {
                scripted = true;
                let value = value.or_else(|| rest.next().and_then(|word| word.text));
                touches.extend(value.filter(|_| is("file")).map(|path| Touch { path, writes: false }));
            }
        } else {
            let letters = text.get(1..).unwrap_or_default();
            let Some(place) = letters.find(['i', 'e', 'f', 'l']) else { continue };
            let (option, value) = letters.split_at(place).1.split_at(1);
            let value = Some(value).filter(|value| !value.is_empty());
            match option {
                "i" => {
                    in_place = true;
                    touches.extend(value.map(|path| Touch { path, writes: true }));
                }
                "e" | "f" => {
                    scripted = true;
                    let value = value.or_else(|| rest.next().and_then(|word| word.text));
                    touches.extend(value.filter(|_| option == "f").map(|path| Touch { path, writes: false }));
                }
                _ if value.is_none() => drop(rest.next()),
                _ => {}
            }
        }
    }
    let files = operands.iter().skip(usize::from(!scripted));
    touches.extend(files.map(|path| Touch { path, writes: in_place }));
    (touches, unknown(words))
}

fn is_short(text: &str) -> bool {
    text.starts_with('-') && !text.starts_with("--")
}

/// Whether `tar` writes an archive.
pub(super) fn packs(words: &[&str]) -> bool {
    let long = ["--create", "--append", "--update", "--concatenate", "--catenate", "--delete"];
    let modes = ['c', 'r', 'u', 'A'];
    words.first().is_some_and(|first| !first.starts_with('-') && first.contains(modes))
        || words.iter().any(|text| {
            is_short(text) && text.split(['f', 'C', 'x', 't']).next().unwrap_or_default().contains(modes)
                || text.len() > 3 && long.iter().any(|option| option.starts_with(*text))
        })
}

/// `tar`, whose first word may be options without a dash.
pub(super) fn tar<'p>(program: &Program, words: &[Word<'p>]) -> (Vec<Touch<'p>>, Option<&'static str>) {
    let first = words.first().and_then(|word| word.text).unwrap_or_default();
    let old = !first.starts_with('-');
    let mut given = Given::read("tar", program, words.get(usize::from(old)..).unwrap_or_default());
    if old && (is_one_of(lists::list("outside/tar"), &format!("-{first}"))) {
        given.unsure = Some(LEAVES);
    }
    // In this old style, option values are separate words that are not assigned here, so any of them may run a program.
    if old && first.contains(['I', 'F', 'T']) {
        given.unsure = Some(RUNS);
    }
    let texts: Vec<&str> = words.iter().filter_map(|word| word.text).collect();
    let creates = packs(&texts);
    let operands = std::mem::take(&mut given.operands);
    let archive = operands.first().copied().filter(|_| old && first.contains('f'));
    // This marks the archive as written; the table marks the files of other options.
    given.named.iter_mut().for_each(|touch| touch.writes |= creates);
    given.named.extend(operands.iter().map(|path| Touch { path, writes: creates && archive == Some(*path) }));
    // An archive on another machine is reached by a program.
    if given.named.iter().any(|touch| touch.path.split('/').next().is_some_and(|first| first.contains(':'))) {
        given.unsure = Some(RUNS);
    }
    (given.named, given.unsure.or_else(|| unknown(words)))
}
