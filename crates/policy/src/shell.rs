//! Analyses shell commands without running them.
//!
//! [`analyse`] parses a command line as bash does and lists every simple command in it. Anything it is not sure
//! about becomes a doubt; it never guesses in favour of a command. The parser (`parser` and `word`) is our own
//! recursive descent: the tree-sitter grammar reads here-documents, backticks and `<>` differently from bash,
//! and any difference between the parser that decides and the shell that executes is a security hole.

mod arguments;
mod arithmetic;
mod braces;
mod compound;
mod danger;
mod embedded;
mod escapes;
mod expansion;
mod git;
mod heredoc;
mod listing;
mod lists;
mod names;
mod parser;
mod programs;
mod reach;
mod reads;
mod resolve;
mod salvage;
mod scripts;
mod sed;
mod value;
mod variables;
mod word;
mod wrapper;

pub use crate::wildcard::{ANY_FOLDERS, ANY_NAME};
pub(crate) use danger::checked_out;
pub use danger::is_dangerous;
pub(crate) use git::{
    changes_tree, contacts as git_contacts, fetches_submodules as git_fetches_submodules, git_directory,
    is_tame as is_tame_setting, subcommand_place as git_subcommand,
};
pub use names::program_names;
pub(crate) use reach::{
    Brought, acts_on_entries, applies_patch, brought_by, build_files, changes_permissions, copies_trees,
    ends_as_folder, expands_patterns, git_adds, git_changes_operands, git_compares, git_forces,
    git_names_only, git_option_files, git_prints, git_reads_untracked, git_runs, git_shows_addresses,
    git_shows_stash, holds_packages, links_from_here, links_hard, links_soft, names_backups, names_hosts,
    names_target, operands_are_sources, packs, puts_into, uncovered, unpacks,
};
pub use reach::{Touch, touches};
pub(crate) use reads::takes_variables;
pub use reads::{How, Read, Reads, Tree, is_known_safe, is_known_safe_within, reads};
pub use value::Datum;
pub(crate) use value::Piece;
use value::{Variables, WordValue};
pub(crate) use variables::is_harmless;

/// Programs that a read-only program starts by name.
pub(crate) fn started_by(program: &str) -> &'static [&'static str] {
    lists::list(&format!("starts/{program}"))
}

/// Files of a folder that change what a program does.
pub(crate) struct Steering {
    /// They must not exist.
    pub(crate) files: &'static [&'static str],
    /// They must not name a folder.
    pub(crate) toolchains: &'static [&'static str],
    /// They must have no line that begins with one of `words`.
    pub(crate) texts: &'static [&'static str],
    pub(crate) words: &'static [&'static str],
}

/// The files that change what a program does.
pub(crate) fn steered_by(program: &str) -> Steering {
    let list = |kind: &str| lists::list(&format!("steers/{kind}{program}"));
    Steering { files: list(""), toolchains: list("path/"), texts: list("lines-of/"), words: list("line/") }
}

/// Commands longer than this are not read.
const MAX_BYTES: usize = 64 * 1024;
/// More simple commands than this are not listed.
const MAX_PARTS: usize = 2_000;
/// Substitutions, groups and wrappers inside one another.
const MAX_DEPTH: usize = 40;

/// The result of analysing a command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandAnalysis {
    /// Every simple command that would run, in order, those inside wrappers and substitutions included.
    pub parts: Vec<Part>,
    /// Redirections to files, with where they write or read.
    pub redirections: Vec<Redirection>,
    /// Why the analysis is incomplete; empty if the command is fully analysed.
    pub doubts: Vec<String>,
    /// Whether it prints environment variables, which may contain secrets, outside of a command's words.
    pub exposes: bool,
    /// Variables of tools that the line sets for its later commands, in whatever way.
    pub(crate) set: Vec<String>,
}

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// The text as written.
    pub text: String,
    /// The program and its arguments with quotes removed; `None` where a word is only known at run time.
    pub words: Vec<Option<String>>,
    /// `NAME=value` before the command.
    pub assignments: Vec<(String, Option<String>)>,
    /// The wrappers around it, such as `sudo` or `xargs`, outermost first.
    pub behind: Vec<String>,
    /// Whether one run of the line may run it more than once.
    pub repeats: Repeats,
    /// Whether a `nohup` around it may write a file: its output is not redirected.
    pub writes_nohup: bool,
    /// The words that are `None` because they are file name patterns.
    pub patterns: Vec<Pattern>,
    /// The words that are `None` because they are data, but not secret.
    pub data: Vec<Datum>,
    /// The pieces of the words that are not known yet.
    pub(crate) pieces: Vec<(usize, Vec<Piece>)>,
}

/// Whether a command may run more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Repeats {
    #[default]
    Never,
    /// In a subshell of a loop, which starts in the same folder each time.
    Subshell,
    /// In a loop.
    Loop,
    /// In a function, which may call itself from a subshell.
    Function,
}

/// A word that is a file name pattern.
///
/// Two characters that no command may hold stand for what lists of files bring: [`ANY_NAME`] and [`ANY_FOLDERS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Its index among the words.
    pub at: usize,
    pub text: String,
    /// Whether the names come through a variable or a pipe, so that a name with a space is split.
    pub relayed: bool,
}

impl Pattern {
    /// Whether a matched file name may look like an option.
    fn may_be_an_option(&self) -> bool {
        self.text.starts_with(['-', '*', '?', '[', ANY_NAME, ANY_FOLDERS])
    }
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    pub writes: bool,
    /// The file, or a pattern of the possible files; `None` where it is only known at run time.
    pub target: Option<String>,
}

/// Lists the commands that a command line would run. Total: any input gives a result in bounded time and
/// memory.
pub fn analyse(command: &str) -> CommandAnalysis {
    let mut found = Findings::default();
    if command.len() > MAX_BYTES {
        found.doubt(format!("the command is longer than {} KB", MAX_BYTES / 1024));
        return found.finish();
    }
    if let Some(what) = unreadable(command) {
        found.doubt(what);
    }
    if continues_inside_an_operator(command) {
        found.doubt("line continuation inside an operator");
    }
    run(command, &Context::default(), &mut found);
    found.finish()
}

/// A sample word that represents each word of a command's output in every check.
type Sample = std::sync::Arc<str>;

/// The surroundings of a command line.
#[derive(Debug, Clone, Default)]
struct Context {
    depth: usize,
    behind: Vec<String>,
    /// Whether the output of the simple command goes to a file.
    saved: bool,
    writes_nohup: bool,
    repeats: Repeats,
    /// A sample for each name that comes through the pipe, if these are names of files in the workspace.
    feed: Option<Sample>,
    /// The same for the input of a loop in a pipe.
    stdin: Option<Sample>,
    /// Whether the input is a here-document or here-string of the line.
    told: bool,
}

impl Context {
    fn deeper(&self) -> Self {
        Self {
            depth: self.depth + 1,
            behind: self.behind.clone(),
            saved: self.saved,
            writes_nohup: self.writes_nohup,
            repeats: self.repeats,
            feed: self.feed.clone(),
            stdin: self.stdin.clone(),
            told: self.told,
        }
    }

    fn behind(&self, name: &str) -> Self {
        let mut inner = self.deeper();
        inner.behind.push(name.to_owned());
        inner.writes_nohup |= name == "nohup" && !self.saved;
        inner
    }
}

/// The results so far.
#[derive(Debug, Default)]
struct Findings {
    parts: Vec<Part>,
    redirections: Vec<Redirection>,
    doubts: Vec<String>,
    functions: Vec<String>,
    variables: Variables,
    /// Variables used in arithmetic.
    computed: Vec<String>,
    /// The pieces of here-documents and here-strings.
    shown: Vec<Piece>,
    /// Their texts; `None` if one is only known at run time.
    inputs: Vec<Option<String>>,
    /// Programs that run one of them, with their surroundings.
    scripted: Vec<(String, Context)>,
    /// The pieces of assignments and loops, which bash prints if it traces commands, and whether it does.
    traced: Vec<Piece>,
    traces: bool,
    /// The pieces of values that programs inherit if the variable is exported already.
    inherited: Vec<Piece>,
    /// Whether there are arrays, and declarations with values that are only known at run time.
    arrays: bool,
    declares_unknown: bool,
    /// Redirections to files that are not known yet, by index.
    targets: Vec<(usize, Vec<Piece>)>,
    /// Variables of tools that the line sets.
    set: Vec<String>,
    /// Bytes of commands that were analysed again with the values of variables.
    followed: usize,
}

impl Findings {
    fn doubt(&mut self, why: impl Into<String>) {
        let why = why.into();
        if self.doubts.len() < 20 && !self.doubts.contains(&why) {
            self.doubts.push(why);
        }
    }

    fn part(&mut self, part: Part) {
        if self.parts.len() < MAX_PARTS {
            self.parts.push(part);
        } else {
            self.doubt(format!("it runs more than {MAX_PARTS} commands"));
        }
    }

    fn is_full(&self) -> bool {
        self.parts.len() >= MAX_PARTS
    }

    fn compute(&mut self, name: String) {
        if !self.computed.contains(&name) {
            self.computed.push(name);
        }
    }

    fn redirect(&mut self, redirection: Redirection, pieces: Vec<Piece>) {
        if !pieces.is_empty() {
            self.targets.push((self.redirections.len(), pieces));
        }
        self.redirections.push(redirection);
    }

    fn finish(mut self) -> CommandAnalysis {
        escapes::look_into_inputs(&mut self);
        let variables = std::mem::take(&mut self.variables);
        if self.computed.iter().any(|name| !variables.is_number(name)) {
            self.doubt("arithmetic on a value that is only known at run time");
        }
        for (place, pieces) in std::mem::take(&mut self.targets) {
            self.name_target(place, variables.standing(0, &pieces));
        }
        for part in std::mem::take(&mut self.parts) {
            resolve::part(part, &variables, &mut self);
        }
        escapes::doubt_others(&mut self);
        if self.arrays && self.declares_unknown {
            self.doubt("a declaration may evaluate the elements of an array");
        }
        let mut shown = std::mem::take(&mut self.shown);
        if self.traces {
            shown.append(&mut self.traced);
        }
        if self.parts.iter().any(programs::starts_program) {
            shown.append(&mut self.inherited);
        }
        let exposes = shown
            .iter()
            .any(|piece| variables.standing(0, std::slice::from_ref(piece)) == WordValue::Unknown);
        let Self { parts, redirections, doubts, set, .. } = self;
        CommandAnalysis { parts, redirections, doubts, exposes, set }
    }

    /// Replaces a file known only at run time by the possible files.
    fn name_target(&mut self, place: usize, standing: WordValue) {
        let WordValue::Words(readings) = standing else { return };
        let Some(writes) = self.redirections.get(place).map(|redirection| redirection.writes) else { return };
        let mut files = readings.iter().map(|words| match words.as_slice() {
            [file] if !writes || !file.contains(['*', '?', '[', ANY_NAME, ANY_FOLDERS]) => Some(file.clone()),
            _ => None,
        });
        let Some(first) = files.next() else { return };
        if let Some(redirection) = self.redirections.get_mut(place) {
            redirection.target = first;
        }
        let more: Vec<Redirection> = files.map(|target| Redirection { writes, target }).collect();
        self.redirections.extend(more);
    }
}

/// Parses one piece of shell text: the command itself, or the argument of `eval`, `sh -c` and the like.
fn run(text: &str, context: &Context, found: &mut Findings) {
    if context.depth > MAX_DEPTH {
        found.doubt("it is nested too deeply");
        return;
    }
    let characters: Vec<char> = text.chars().collect();
    // Another shell may not inherit the variables of this one.
    let certain = std::mem::take(&mut found.variables.certain);
    let mut parser = parser::Parser::new(&characters, context.clone(), found);
    if let Err(problem) = parser.program() {
        let rest: String = characters.get(parser.statement_start()..).unwrap_or_default().iter().collect();
        found.doubt(problem);
        // So that a deny rule still sees the program names in unparsable text.
        salvage::names_in(&rest, context, found);
    }
    found.variables.certain = certain;
}

/// Whether bash would join two characters to an operator over the end of a line, as `(` and `(` to `((`.
fn continues_inside_an_operator(command: &str) -> bool {
    let is_operator = |c: char| "(){}<>|&;$[]!#=".contains(c);
    command.match_indices("\\\n").any(|(at, joint)| {
        let before = command.get(..at).and_then(|text| text.chars().next_back());
        let after = command.get(at + joint.len()..).and_then(|text| text.chars().next());
        matches!((before, after), (Some(a), Some(b))
            if !a.is_whitespace() && !b.is_whitespace() && (is_operator(a) || is_operator(b)))
    })
}

/// Characters that look different to a user than to the shell.
fn unreadable(command: &str) -> Option<String> {
    command.chars().find_map(|c| {
        let hidden = match c {
            '\n' | '\t' => false,
            c if c.is_control() => true,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180e}' => true,
            '\u{200b}' | '\u{200c}' | '\u{200e}' | '\u{200f}' | '\u{feff}' | '\u{3164}' | '\u{ffa0}' => true,
            '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}' => true,
            c => c.is_whitespace() && c != ' ',
        };
        hidden.then(|| format!("it contains a hidden or misleading character (U+{:04X})", u32::from(c)))
    })
}

#[cfg(test)]
mod tests;
