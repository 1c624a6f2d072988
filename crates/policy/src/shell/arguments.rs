//! Splits the arguments of a program into options, values and operands as the program table describes.

use super::programs::{Choice, Count, Effect, Kind, Program};

/// Arguments with their kinds.
#[derive(Debug, Default)]
pub(super) struct Arguments<'a> {
    /// Every value and operand in order.
    pub values: Vec<(Kind, &'a str)>,
    /// Operands are trees.
    pub tree: bool,
    /// Hidden files count.
    pub hidden: bool,
    /// Only names are read.
    pub names: bool,
    /// How many of `values` are operands; they come last.
    pub operands: usize,
    /// Whether an option replaced the first operand.
    script: bool,
    /// Operands are text.
    listing: bool,
}

impl<'a> Arguments<'a> {
    /// Reads all arguments; `None` if any of them is unknown.
    pub(super) fn read(program: &Program, words: &[&'a str]) -> Option<Self> {
        let mut read = Self::default();
        if program.traits.any {
            return Some(read);
        }
        let mut operands = Vec::new();
        let mut rest = words.iter().copied();
        let mut options = true;
        let writes = program.operands.iter().any(|(kind, _)| *kind == Kind::Out);
        while let Some(word) = rest.next() {
            if !options || word == "-" || !word.starts_with('-') {
                operands.push(word);
            } else if writes && !operands.is_empty() {
                // Some programs take no options after operands: `xxd a -p` writes to the file `-p`.
                return None;
            } else if word == "--" {
                // Options of complete words continue behind it: `find -- -files0-from x`.
                (!program.traits.words).then_some(())?;
                options = false;
            } else if program.traits.words {
                let choice = word.strip_prefix('-').and_then(|name| program.long(name))?;
                read.choose(choice, None, &mut rest)?;
            } else if let Some(long) = word.strip_prefix("--") {
                let (name, value) =
                    long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                read.choose(program.long(name)?, value, &mut rest)?;
            } else {
                read.cluster(program, word.get(1..)?, &mut rest)?;
            }
        }
        read.place(program, &operands)?;
        Some(read)
    }

    /// Options of one letter, the last of which may have a value.
    fn cluster(
        &mut self,
        program: &Program,
        cluster: &'a str,
        rest: &mut dyn Iterator<Item = &'a str>,
    ) -> Option<()> {
        if program.digits && cluster.chars().all(|c| c.is_ascii_digit()) {
            return Some(());
        }
        // Behind a number, some programs take no value, and others take the next word: `head -5c x`, `grep -5A x`.
        let numbered = program.digits && cluster.starts_with(|c: char| c.is_ascii_digit());
        let mut letters = cluster.chars();
        while let Some(letter) = letters.next() {
            let Some(choice) = program.short(letter) else {
                // `-3A`, `-A3`: numbers among letters.
                (program.digits && letter.is_ascii_digit()).then_some(())?;
                continue;
            };
            if choice.value.is_some() {
                let attached = Some(letters.as_str()).filter(|attached| !attached.is_empty());
                if numbered && attached.is_none() && !choice.attached {
                    program.traits.counts.then_some(())?;
                    continue;
                }
                return self.choose(choice, attached, rest);
            }
            self.choose(choice, None, rest)?;
        }
        Some(())
    }

    fn choose(
        &mut self,
        choice: Choice,
        attached: Option<&'a str>,
        rest: &mut dyn Iterator<Item = &'a str>,
    ) -> Option<()> {
        self.script |= choice.script;
        match choice.effect {
            Some(Effect::Tree) => self.tree = true,
            Some(Effect::Hidden) => self.hidden = true,
            Some(Effect::Names) => self.names = true,
            Some(Effect::Fetched) => return None,
            None => {}
        }
        let Some(kind) = choice.value else { return attached.is_none().then_some(()) };
        self.listing |= kind == Kind::Listing;
        if kind == Kind::Pair {
            rest.next()?;
            rest.next()?;
            return Some(());
        }
        let value = match attached {
            Some(value) => value,
            None if choice.attached => "",
            // Words that look like options are not taken as values.
            None => {
                rest.next().filter(|next| kind == Kind::Number || !next.starts_with('-') || *next == "-")?
            }
        };
        // What is not a number may be the name of a file.
        if kind == Kind::Number && !(choice.attached && value.is_empty()) && !is_number(value) {
            return None;
        }
        // An option with an optional value is taken without one.
        if !value.is_empty() || matches!(kind, Kind::Out | Kind::Command) {
            self.values.push((kind, value));
        }
        Some(())
    }

    /// Gives operands the kinds that are expected in their order.
    fn place(&mut self, program: &Program, operands: &[&'a str]) -> Option<()> {
        self.operands = operands.len();
        if self.listing {
            return Some(());
        }
        let mut expected = program.operands.iter().peekable();
        if self.script {
            expected.next();
        }
        for operand in operands {
            let (kind, count) = expected.peek()?;
            if *count != Count::Any {
                expected.next();
            }
            if *kind == Kind::Plus && !operand.starts_with('+') {
                return None;
            }
            self.values.push((*kind, operand));
        }
        // A missing required argument makes it a different command.
        expected.all(|(_, count)| *count != Count::One).then_some(())
    }
}

/// A number with a sign and a unit: `+5`, `0.5s`, `10MiB`, `0x1f`.
fn is_number(value: &str) -> bool {
    let value = value.strip_prefix(['+', '-']).unwrap_or(value);
    if let Some(digits) = value.strip_prefix("0x") {
        return !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    }
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = value.strip_suffix(unit).unwrap_or_default();
    number.contains(|c: char| c.is_ascii_digit())
        && number.matches('.').count() <= 1
        && unit.len() <= 3
        && unit.chars().all(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::super::programs::program;
    use super::*;

    fn read<'a>(name: &str, words: &[&'a str]) -> Option<Vec<(Kind, &'a str)>> {
        Arguments::read(program(name).unwrap(), words).map(|read| read.values)
    }

    #[test]
    fn values_and_operands_get_their_kinds() {
        use Kind::{File, Number, Out, Text};
        type Expected<'a> = Option<&'a [(Kind, &'a str)]>;
        let table: &[(&str, &[&str], Expected<'_>)] = &[
            ("cat", &["-n", "a", "b"], Some(&[(File, "a"), (File, "b")])),
            ("cat", &["-Q", "a"], None),
            ("cat", &["--numb", "a"], None),
            ("cat", &["--", "-n"], Some(&[(File, "-n")])),
            ("head", &["-n5", "-c", "3", "a"], Some(&[(Number, "5"), (Number, "3"), (File, "a")])),
            ("head", &["-20", "a"], Some(&[(File, "a")])),
            ("head", &["-20c", "a"], Some(&[(File, "a")])),
            ("head", &["-c", "a"], None),
            ("head", &["-c", ".5"], Some(&[(Number, ".5")])),
            ("head", &["-n", "-1MiB", "a"], Some(&[(Number, "-1MiB"), (File, "a")])),
            ("grep", &["-5A", "a", "b"], None),
            ("find", &["--", "-files0-from", "a"], None),
            ("grep", &["x", "a"], Some(&[(Text, "x"), (File, "a")])),
            ("grep", &["-e", "x", "a"], Some(&[(Text, "x"), (File, "a")])),
            ("grep", &["-nf", "p", "a"], Some(&[(File, "p"), (File, "a")])),
            ("grep", &["-Rn", "x", "a"], None),
            ("grep", &[], None),
            ("sort", &["-uo", "x", "a"], Some(&[(Out, "x"), (File, "a")])),
            ("sort", &["-uox", "a"], Some(&[(Out, "x"), (File, "a")])),
            ("date", &["+%s"], Some(&[(Kind::Plus, "+%s")])),
            ("date", &["0101"], None),
            ("git/branch", &["--list", "x*"], Some(&[])),
            ("git/branch", &["x"], None),
            ("uniq", &["a", "b"], Some(&[(File, "a"), (Out, "b")])),
            ("find", &[".", "-name", "x"], Some(&[(Text, "x"), (Kind::Facts, ".")])),
            ("find", &[".", "-delete"], Some(&[(Out, ""), (Kind::Facts, ".")])),
        ];
        for (name, words, expected) in table {
            assert_eq!(read(name, words).as_deref(), *expected, "{name} {words:?}");
        }
    }
}
