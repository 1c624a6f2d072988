//! How much of a program's power a rule on its name covers: subcommands, settings, addresses and values that are passed on to
//! another program.
//!
//! The lists are in `commands/covers.table`; what is missing there needs approval.

use super::super::programs::{self, Kind, Program};
use super::super::{Part, lists, variables};
use super::given::Given;
use super::{Touch, Word, unknown};
use crate::secrets::is_secret_name;

pub(super) const UNLISTED: &str = "a rule on the program does not cover one of the options";
pub(super) const BEYOND: &str = "an option does more than a rule on the program covers";
const SUBCOMMAND: &str = "a rule on the program does not cover this subcommand";
const EXPOSES: &str = "it passes on an environment variable, which may contain a secret";

/// Everything: a path that is only known when the program puts it together.
const ANYWHERE: Touch<'static> = Touch { path: "/", writes: true };

impl<'p> Given<'p> {
    /// The value of an option, of a kind that only rules on whole programs know.
    pub(super) fn covers(&mut self, kind: Kind, value: &'p str) {
        match kind {
            Kind::Ask => self.unsure = Some(BEYOND),
            Kind::Build => {
                self.builds.push(value);
                self.named.push(Touch { path: value, writes: false });
            }
            Kind::Outs => {
                let files = value.split(',').filter_map(|piece| piece.split_once(['=', ':']));
                self.named.extend(files.map(|(_, path)| Touch { path, writes: true }));
            }
            Kind::Numbered if value.contains('#') => self.named.push(ANYWHERE),
            Kind::Numbered => self.named.push(Touch { path: value, writes: true }),
            Kind::Globbed => {
                self.sends = true;
                let is_pattern = value.contains(['{', '[', '%']);
                self.named.push(if is_pattern { ANYWHERE } else { Touch { path: value, writes: false } });
            }
            Kind::Passed => self.passed(value.split(',')),
            Kind::Flags => self.passed(value.split_whitespace()),
            Kind::Environment if !value.contains('=') => self.unsure = Some(EXPOSES),
            Kind::Mount => {
                let path = value.split(':').next().unwrap_or_default();
                if path.starts_with(['.', '~']) || path.contains('/') {
                    self.named.extend([false, true].map(|writes| Touch { path, writes }));
                }
            }
            Kind::Named => {
                self.renamed = !value.is_empty();
                self.named.push(Touch { path: value, writes: true });
            }
            Kind::Define => self.define(value),
            // A target triple; a target specification file is not covered.
            Kind::Plain if value.contains(['/', '\\']) || value.ends_with(".json") => {
                self.unsure = Some(BEYOND)
            }
            Kind::Filter if !value.starts_with("- ") && !value.starts_with("+ ") => {
                self.unsure = Some(BEYOND)
            }
            _ => {}
        }
    }

    /// Options for another program: those that are listed, with their values.
    fn passed(&mut self, pieces: impl Iterator<Item = &'p str>) {
        let mut before = "";
        for piece in pieces {
            let piece = piece.trim_matches(['"', '\'']);
            let name = piece.split('=').next().unwrap_or_default();
            // `all=-N`: the packages that an option is for.
            let name = piece.split_once("=-").map_or(name, |(_, option)| {
                if piece.starts_with('-') {
                    name
                } else {
                    piece.get(piece.len() - option.len() - 1..).unwrap_or(name)
                }
            });
            let is_value = !before.is_empty() && !piece.starts_with('-') && !piece.contains('@');
            if !piece.contains('@') && lists::matches(&format!("passed/{}", self.family), name) {
                before = name;
            } else if !is_value {
                self.unsure = Some(BEYOND);
            } else if !lists::holds(&format!("passed-text/{}", self.family), before) {
                self.named.push(Touch { path: piece, writes: false });
            }
        }
    }

    /// An option whose value may be attached to its name; the longest name counts.
    pub(super) fn glued(&mut self, program: &Program, text: &'p str, single: bool) {
        let named = program
            .long_by(|known| single && text.starts_with(known))
            .filter_map(|(known, choice)| Some((text.get(known.len()..)?, choice.value?)))
            .min_by_key(|(rest, _)| rest.len());
        let family = program.family(text).filter(|_| single);
        match (named, family) {
            (Some((value, kind)), family) if family.is_none_or(|rest| value.len() <= rest.len()) => {
                self.take(kind, value.strip_prefix('=').unwrap_or(value));
            }
            (_, Some(rest)) if rest.contains(['/', '~', '|', '@', '!']) || rest.contains("..") => {
                self.unsure = Some(BEYOND);
            }
            (_, Some(_)) => {}
            _ if program.traits.strict => self.unsure = Some(UNLISTED),
            _ => {}
        }
    }

    /// Whether the words behind `--` belong to the program that a program runs.
    pub(super) fn hands_on(&self, name: &str) -> bool {
        match (name, self.operands.as_slice()) {
            ("cargo" | "cmake", _) => true,
            ("npm" | "pnpm" | "yarn" | "bun", [verb, rest @ ..]) => {
                let is_named = !matches!(*verb, "run" | "run-script") || !rest.is_empty();
                is_named && !lists::holds("takes/packages", verb)
            }
            _ => false,
        }
    }

    /// What `cargo rustc -- …` and the like pass on.
    pub(super) fn passes_on(&mut self, name: &str, words: &[Word<'p>]) {
        let verb = self.operands.iter().find(|operand| !operand.starts_with('+'));
        let by_verb = verb.map(|verb| lists::list(&format!("behind/{name}/{verb}"))).unwrap_or_default();
        let behind = if by_verb.is_empty() { lists::list(&format!("behind/{name}/-")) } else { by_verb };
        let Some((other, program)) =
            behind.first().and_then(|other| Some((other, programs::program(other)?)))
        else {
            return;
        };
        let mut given = Given::read(other, program, words);
        self.builds.append(&mut given.builds);
        let (touches, unsure) = given.touches(other, program);
        self.named.extend(touches);
        self.unsure = self.unsure.or(unsure).or_else(|| unknown(words));
    }

    /// Local files behind addresses, and files that are named like addresses.
    pub(super) fn judge_addresses(&mut self) {
        for address in std::mem::take(&mut self.addresses) {
            self.named.extend(local_file(address, self.sends));
            if self.fetched && !self.renamed {
                self.named.push(fetched_name(address));
            }
        }
    }

    /// `make NAME=VALUE`, where the value may be options of a compiler.
    pub(super) fn setting(&mut self, operand: &'p str) {
        let Some((name, value)) = operand.split_once('=') else { return };
        let name = name.trim_end_matches([':', '?', '+']).to_ascii_uppercase();
        if lists::matches("settings/flags", &name) {
            self.flags(value);
        }
    }

    /// Options of a compiler, separated by spaces.
    fn flags(&mut self, value: &'p str) {
        let Some(compiler) = programs::program("gcc") else { return };
        let words: Vec<Word<'p>> = value
            .split_whitespace()
            .map(|word| Word { text: Some(word), tame: false, single: true })
            .collect();
        let (touches, unsure) = Given::read("gcc", compiler, &words).touches("gcc", compiler);
        self.named.extend(touches);
        self.unsure = self.unsure.or(unsure);
    }

    /// `cmake -D NAME:TYPE=VALUE`
    fn define(&mut self, text: &'p str) {
        let Some((name, value)) = text.split_once('=') else { return };
        let name = name.split(':').next().unwrap_or_default();
        let upper = name.to_ascii_uppercase();
        let is = |section: &str| lists::matches(section, name);
        // CMake may write values to build files unquoted.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || " _-+=./,:@%;~*".contains(c);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-+.".contains(c);
        if !value.chars().all(is_plain) || is("define/flags") && value.contains([';', '*', '~']) {
            self.unsure = Some(BEYOND);
        } else if is("define/flags") {
            self.flags(value);
        } else if is("define/script") {
            self.take(Kind::Build, value);
        } else if lists::matches("define/program", &upper) {
            if !lists::matches("define/tool", value) || !value.chars().all(is_name) {
                self.unsure = Some(BEYOND);
            }
        } else if upper.starts_with("CMAKE_") && !is("define/known") {
            self.unsure = Some(BEYOND);
        } else {
            let writes = is("define/writes");
            self.named.extend(value.split(';').map(|path| Touch { path, writes }));
        }
    }

    /// A package, or a folder with one.
    pub(super) fn package(&mut self, operand: &'p str) {
        if operand.contains("://") {
            self.unsure = Some(BEYOND);
        }
        let local = ["file:", "link:", "portal:"];
        let local = local.iter().find_map(|scheme| operand.split_once(scheme).map(|(_, path)| path));
        let scoped = operand.starts_with('@') && operand.matches('/').count() == 1;
        let is_path = operand.contains('/') && !scoped || operand.starts_with('~') || operand.contains("..");
        let is_file = is_path || is_secret_name(operand);
        if let Some(path) = local.or(is_file.then_some(operand)) {
            self.named.push(Touch { path, writes: false });
        }
    }

    /// A file, or one in a container: `container:file`.
    pub(super) fn placed(&mut self, operand: &'p str, last: bool) {
        let elsewhere = operand.split('/').next().is_some_and(|first| first.contains(':'));
        if !elsewhere {
            self.named.push(Touch { path: operand, writes: last });
        }
    }
}

/// Why the subcommand is not covered. A list of subcommands names those that are: `NAME`, `NAME/OPERAND`, or `-` for none;
/// those behind a `!` are not.
pub(super) fn verb(name: &str, operands: &[&str], part: &Part) -> Option<&'static str> {
    let operands = match operands {
        [toolchain, rest @ ..] if toolchain.starts_with('+') => rest,
        _ => operands,
    };
    let section = format!("verbs/{name}");
    if lists::list(&section).is_empty() {
        return None;
    }
    let both = |mark: &str| match operands {
        [verb, operand, ..] => lists::matches(&section, &format!("{mark}{verb}/{operand}")),
        _ => false,
    };
    let covered = match operands {
        [] => {
            let ended = part.words.iter().flatten().any(|word| word == "--");
            !ended && lists::holds(&section, "-")
        }
        [verb, ..] => (lists::matches(&section, verb) || both("")) && !both("!"),
    };
    (!covered).then_some(SUBCOMMAND)
}

/// `make NAME=VALUE`: the value may be a part of a command.
pub(super) fn is_tame_setting(operand: &str) -> bool {
    let Some((name, value)) = operand.split_once('=') else { return true };
    let name = name.trim_end_matches([':', '?', '+', '!']);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " _-+=./,:@%".contains(c);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    value.chars().all(is_plain)
        && name.chars().all(is_word)
        && !operand.contains("!=")
        && !variables::is_risky(name, Some(value))
        && !lists::matches("settings/make", name)
        && value
            .split([' ', ','])
            .all(|word| !word.starts_with(['/', '.', '@']) && !word.contains("=/") && !word.contains(".."))
        && value.split(' ').all(|word| !lists::matches("values/make", word))
}

/// The file of an address, or everything if it is only known when the program puts it together.
fn local_file(text: &str, writes: bool) -> Option<Touch<'_>> {
    let text = text.trim_start();
    // `--url @file`
    if let Some(path) = text.strip_prefix('@') {
        return Some(Touch { path, writes: false });
    }
    let (scheme, rest) = text.split_once(':')?;
    if scheme.contains(['{', '[']) {
        return Some(ANYWHERE);
    }
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    // The name of this machine may stand before the path.
    let path = rest.strip_prefix("//").map_or(rest, |rest| match rest.find('/') {
        Some(place) => rest.split_at(place).1,
        None => rest,
    });
    Some(if path.contains(['{', '[', '%']) { ANYWHERE } else { Touch { path, writes } })
}

/// The file that a download is written to: the last component of the address.
fn fetched_name(address: &str) -> Touch<'_> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let name = path.split_once('/').and_then(|(_, path)| path.rsplit('/').next()).unwrap_or_default();
    if name.contains(['{', '[', '%', '*', '\\']) || matches!(name, "." | "..") {
        return ANYWHERE;
    }
    Touch { path: if name.is_empty() { "index.html" } else { name }, writes: true }
}

/// The files whose contents are sent: `@file`, `name=@file`, `name=<file`, `name@file`, `name=x;headers=@file`.
pub(super) fn uploads(text: &str) -> Vec<Touch<'_>> {
    // `-w %output{file}`
    if text.contains("%output{") {
        return vec![ANYWHERE];
    }
    let name = text.split_once('@').map(|(name, _)| name).filter(|name| !name.contains(['=', ' ', '"', ':']));
    let named = name.and_then(|name| text.get(name.len() + 1..));
    let marked = text.match_indices(['@', '<']).filter_map(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let marks = before.is_empty() || before.ends_with(['=', '"', ',', ';', ' ']);
        text.get(at + 1..).filter(|_| marks)
    });
    marked
        .chain(named)
        .flat_map(|files| files.split([',', ';']))
        .map(|path| Touch { path: path.trim_matches(['"', ' ']), writes: false })
        .collect()
}
