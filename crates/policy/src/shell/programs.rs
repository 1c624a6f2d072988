//! The program table `commands/programs.table`: how programs use their arguments.
//!
//! Knowledge about programs is data, not code. A program, option or operand that is missing from the table is
//! unknown, and the caller asks for approval.

use std::collections::HashMap;
use std::sync::OnceLock;

const TABLE: &str = include_str!("../../commands/programs.table");

/// The kind of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Facts,
    Tree,
    Out,
    Text,
    Plus,
    Number,
    Command,
    Archive,
    Sed,
    Awk,
    Jq,
    Key,
    Revision,
    Glob,
    Skip,
    SkipFolder,
    Shown,
    Given,
    Listing,
    Pair,
    Bsd,
    Type,
    Address,
    Upload,
    /// More than a rule on the program covers.
    Ask,
    Build,
    Outs,
    Numbered,
    Globbed,
    Passed,
    Flags,
    Environment,
    Mount,
    Filter,
    Package,
    Placed,
    /// Written to; no file is then named after the URL.
    Named,
    Define,
    Plain,
}

impl Kind {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "file" => Self::File,
            "facts" => Self::Facts,
            "tree" => Self::Tree,
            "out" => Self::Out,
            "text" => Self::Text,
            "+text" => Self::Plus,
            "number" => Self::Number,
            "command" => Self::Command,
            "archive" => Self::Archive,
            "sed" => Self::Sed,
            "awk" => Self::Awk,
            "jq" => Self::Jq,
            "key" => Self::Key,
            "rev" => Self::Revision,
            "glob" => Self::Glob,
            "skip" => Self::Skip,
            "skipdir" => Self::SkipFolder,
            "shown" => Self::Shown,
            "given" => Self::Given,
            "listing" => Self::Listing,
            "pair" => Self::Pair,
            "bsd" => Self::Bsd,
            "type" => Self::Type,
            "url" => Self::Address,
            "upload" => Self::Upload,
            "ask" => Self::Ask,
            "build" => Self::Build,
            "outs" => Self::Outs,
            "numbered" => Self::Numbered,
            "globbed" => Self::Globbed,
            "passed" => Self::Passed,
            "flags" => Self::Flags,
            "env" => Self::Environment,
            "mount" => Self::Mount,
            "filter" => Self::Filter,
            "package" => Self::Package,
            "placed" => Self::Placed,
            "named" => Self::Named,
            "define" => Self::Define,
            "plain" => Self::Plain,
            _ => return None,
        })
    }
}

/// The effect of an option in addition to taking a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Tree,
    Hidden,
    Names,
    Fetched,
}

/// An option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Choice {
    /// The kind of its value, if it takes one.
    pub value: Option<Kind>,
    /// Whether the value can only be attached, and is optional.
    pub attached: bool,
    /// Whether it replaces the first operand.
    pub script: bool,
    pub effect: Option<Effect>,
}

/// How often an operand may occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    One,
    Optional,
    Any,
}

/// Properties of a program as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Traits {
    /// No option of it reads a file, writes one or runs a program.
    pub any: bool,
    pub builtin: bool,
    /// Words known only at run time may be among its arguments.
    pub data: bool,
    /// Only in a trusted folder.
    pub trusted: bool,
    /// Never known to be read-only.
    pub loose: bool,
    /// Options are complete words with one dash.
    pub words: bool,
    /// Without an operand, the current folder is used.
    pub here: bool,
    /// Hidden files of a tree are skipped.
    pub visible: bool,
    /// A word that begins with `@` names a file of arguments.
    pub argument_files: bool,
    /// Another command follows its operands.
    pub runs: bool,
    /// That command gets other privileges.
    pub rights: bool,
    /// Shows remote URLs.
    pub remotes: bool,
    /// A rule on the program covers only options that are listed.
    pub strict: bool,
    /// The value of an option may be attached to its name without `=`.
    pub glued: bool,
    /// With an option that names the output, operands are also read.
    pub source: bool,
    /// Writes files with the names of its addresses.
    pub fetches: bool,
    /// Behind a number as an option, letters take no value.
    pub counts: bool,
}

/// The description of a program.
#[derive(Debug, Clone, Default)]
pub(super) struct Program {
    pub operands: Vec<(Kind, Count)>,
    pub traits: Traits,
    /// Options by their name without dashes; with the trait `words`, by the complete word.
    short: Vec<(char, Choice)>,
    long: Vec<(&'static str, Choice)>,
    /// Beginnings of options that may continue with anything plain.
    families: Vec<&'static str>,
    /// Whether a number is an option.
    pub digits: bool,
}

impl Program {
    pub(super) fn short(&self, letter: char) -> Option<Choice> {
        // The later entry of a row wins, so that a letter of a cluster can be given a value.
        self.short.iter().rev().find(|(known, _)| *known == letter).map(|(_, choice)| *choice)
    }

    pub(super) fn long(&self, name: &str) -> Option<Choice> {
        self.long.iter().rev().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
    }

    /// What follows the longest beginning of an option that is listed as a family.
    pub(super) fn family<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.families.iter().filter_map(|family| text.strip_prefix(family)).min_by_key(|rest| rest.len())
    }

    /// Whether an option of it writes or runs something, so that a file of the option's name would, too.
    pub(super) fn acts(&self) -> bool {
        let acts = |choice: &Choice| matches!(choice.value, Some(Kind::Out | Kind::Command));
        self.short.iter().any(|(_, choice)| acts(choice)) || self.long.iter().any(|(_, choice)| acts(choice))
    }

    /// The long options whose names satisfy `fits`.
    pub(super) fn long_by<'p>(
        &'p self,
        fits: impl Fn(&str) -> bool + 'p,
    ) -> impl Iterator<Item = (&'static str, Choice)> + 'p {
        self.long.iter().filter(move |(name, _)| fits(name)).map(|(name, choice)| (*name, *choice))
    }

    fn option(&mut self, token: &'static str) -> Option<()> {
        if token == "-#" {
            self.digits = true;
            return Some(());
        }
        if let Some(family) = token.strip_suffix('*') {
            self.families.push(family.strip_prefix('-').filter(|_| self.traits.words)?);
            return Some(());
        }
        let (name, choice) = choice(token)?;
        if let Some(long) = name.strip_prefix("--") {
            self.long.push((long, choice));
        } else if self.traits.words {
            self.long.push((name.strip_prefix('-')?, choice));
        } else {
            let letters = name.strip_prefix('-').filter(|letters| !letters.is_empty())?;
            let single = choice == Choice::default() || letters.chars().count() == 1;
            single.then_some(())?;
            self.short.extend(letters.chars().map(|letter| (letter, choice)));
        }
        Some(())
    }
}

/// Takes `--name:kind?!` apart.
fn choice(token: &'static str) -> Option<(&'static str, Choice)> {
    let mut choice = Choice::default();
    let token = match token.strip_suffix('!') {
        Some(rest) => {
            choice.script = true;
            rest
        }
        None => token,
    };
    if let Some((name, effect)) = token.split_once('=') {
        choice.effect = Some(match effect {
            "tree" => Effect::Tree,
            "hidden" => Effect::Hidden,
            "names" => Effect::Names,
            "fetched" => Effect::Fetched,
            _ => return None,
        });
        return Some((name, choice));
    }
    let Some((name, kind)) = token.split_once(':') else { return Some((token, choice)) };
    let kind = match kind.strip_suffix('?') {
        Some(rest) => {
            choice.attached = true;
            rest
        }
        None => kind,
    };
    choice.value = Some(Kind::parse(kind)?);
    Some((name, choice))
}

#[derive(Default)]
struct Table {
    programs: HashMap<&'static str, Program>,
    /// Programs with a harmless query such as `--version`, and whether the folder must be trusted for it.
    questions: HashMap<&'static str, Vec<(&'static str, bool)>>,
    problems: Vec<String>,
}

/// The section that a header line starts.
enum Section {
    Group(&'static str),
    Names(Vec<&'static str>),
}

impl Table {
    fn read(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut groups: HashMap<&'static str, Vec<&'static str>> = HashMap::new();
        let mut section = Section::Names(Vec::new());
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if let Some(options) = line.strip_prefix("  ") {
                table.options(options, &section, &mut groups);
            } else if let Some(group) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = Section::Group(group);
            } else {
                section = Section::Names(table.header(line));
            }
        }
        table
    }

    fn options(
        &mut self,
        line: &'static str,
        section: &Section,
        groups: &mut HashMap<&'static str, Vec<&'static str>>,
    ) {
        let tokens: Vec<&'static str> = match line.trim().strip_prefix("use ") {
            Some(group) => groups.get(group).cloned().unwrap_or_default(),
            None => line.split_whitespace().collect(),
        };
        match section {
            Section::Group(group) => groups.entry(group).or_default().extend(tokens),
            Section::Names(names) => {
                for name in names {
                    let Some(program) = self.programs.get_mut(name) else { continue };
                    for token in &tokens {
                        if program.option(token).is_none() {
                            self.problems.push(format!("{name}: `{token}`"));
                        }
                    }
                }
            }
        }
    }

    fn header(&mut self, line: &'static str) -> Vec<&'static str> {
        // Names may contain a colon: bash has a command of that name.
        let Some((names, rest)) = line.rsplit_once(": ") else {
            self.problems.push(line.to_owned());
            return Vec::new();
        };
        let (kinds, traits) = rest.split_once(';').unwrap_or((rest, ""));
        let mut program = Program::default();
        for word in traits.split_whitespace() {
            let traits = &mut program.traits;
            match word {
                "any" => traits.any = true,
                "builtin" => traits.builtin = true,
                "data" => traits.data = true,
                "trusted" => traits.trusted = true,
                "loose" => traits.loose = true,
                "words" => traits.words = true,
                "here" => traits.here = true,
                "visible" => traits.visible = true,
                "atfile" => traits.argument_files = true,
                "runs" => traits.runs = true,
                "rights" => traits.rights = true,
                "remotes" => traits.remotes = true,
                "strict" => traits.strict = true,
                "glued" => traits.glued = true,
                "source" => traits.source = true,
                "fetches" => traits.fetches = true,
                "counts" => traits.counts = true,
                _ => self.problems.push(format!("{line}: `{word}`")),
            }
        }
        if let Some(words) = names.strip_prefix("ask ") {
            for word in words.split_whitespace() {
                for name in kinds.split_whitespace() {
                    self.questions.entry(name).or_default().push((word, program.traits.trusted));
                }
            }
            return Vec::new();
        }
        for word in kinds.split_whitespace().filter(|word| *word != "none") {
            let (kind, count) = match (word.strip_suffix('*'), word.strip_suffix('?')) {
                (Some(kind), _) => (kind, Count::Any),
                (_, Some(kind)) => (kind, Count::Optional),
                _ => (word, Count::One),
            };
            match Kind::parse(kind) {
                Some(kind) => program.operands.push((kind, count)),
                None => self.problems.push(format!("{line}: `{word}`")),
            }
        }
        let names: Vec<&'static str> = names.split_whitespace().collect();
        for name in &names {
            if self.programs.insert(name, program.clone()).is_some() {
                self.problems.push(format!("`{name}` has two rows"));
            }
        }
        names
    }
}

fn table() -> &'static Table {
    static READ: OnceLock<Table> = OnceLock::new();
    READ.get_or_init(|| Table::read(TABLE))
}

/// The description of a program, or of `program/subcommand`.
pub(super) fn program(name: &str) -> Option<&'static Program> {
    table().programs.get(name)
}

/// Whether a program has this harmless query, and whether only in a trusted folder.
pub(super) fn question(name: &str, word: &str) -> Option<bool> {
    table().questions.get(name)?.iter().find(|(asked, _)| *asked == word).map(|(_, trusted)| *trusted)
}

/// Whether a program is read-only and runs nothing else.
pub(super) fn is_listed(name: &str) -> bool {
    program(name).is_some_and(|program| !program.traits.loose && !program.traits.runs)
}

/// Whether a command may start a program that inherits variables.
pub(super) fn starts_program(part: &super::Part) -> bool {
    let Some(name) = part.words.first() else { return false };
    !part.behind.is_empty()
        || !name.as_deref().and_then(program).is_some_and(|program| program.traits.builtin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_program_table_is_parsed() {
        assert_eq!(table().problems, Vec::<String>::new());
        assert!(table().programs.len() > 150 && table().questions.len() > 100);
    }

    #[test]
    fn options_have_the_kinds_that_the_table_gives_them() {
        let grep = program("grep").unwrap();
        assert_eq!(grep.operands, [(Kind::Text, Count::One), (Kind::File, Count::Any)]);
        assert_eq!(grep.short('R'), None);
        assert_eq!(grep.short('r').unwrap().effect, Some(Effect::Tree));
        assert!(grep.short('e').unwrap().script && grep.digits);
        assert_eq!(grep.long("include").unwrap().value, Some(Kind::Glob));
        assert_eq!(program("git/log").unwrap().long("stat").unwrap().value, Some(Kind::Text));
        assert_eq!(question("cargo", "-V"), Some(true));
        assert_eq!((question("make", "--version"), question("mvn", "--version")), (Some(false), None));
    }
}
