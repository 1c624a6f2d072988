//! Parses lists, pipelines, simple commands and redirections.

use super::heredoc::Pending;
use super::value::{LIST, Value};
use super::variables;
use super::word::{Mode, Word};
use super::wrapper;
use super::{Context, Findings, MAX_DEPTH, Redirection, Repeats, Sample, listing};

/// Why reading stopped.
#[derive(Debug)]
pub(super) struct Problem(String);

impl Problem {
    pub(super) fn syntax(what: &str) -> Self {
        Self(format!("cannot parse it: {what}"))
    }
}

impl From<Problem> for String {
    fn from(problem: Problem) -> Self {
        problem.0
    }
}

/// Words that end a list at command position.
const CLOSERS: &[&str] = &["then", "else", "elif", "fi", "do", "done", "esac", "}", "in"];

/// Builtins whose arguments bash reads as assignments. In front of other arguments, it expands patterns and splits.
const DECLARATIONS: &[&str] = &["export", "declare", "readonly", "local", "typeset"];

pub(super) struct Parser<'s, 'f> {
    source: &'s [char],
    at: usize,
    context: Context,
    found: &'f mut Findings,
    pub(super) pending: Vec<Pending>,
    statement: usize,
    /// Whether the command being parsed certainly runs, in this very shell.
    straight: bool,
    /// How many redirections of input were read, and how many of them are texts of the line.
    inputs: usize,
    texts: usize,
    /// Whether the last redirection sent output to a file; `None` if it did not redirect output.
    saved: Option<bool>,
    /// The number of pipes parsed, and a sample for the output of the last one.
    pipes: usize,
    output: Option<Sample>,
}

impl<'s, 'f> Parser<'s, 'f> {
    pub(super) fn new(source: &'s [char], context: Context, found: &'f mut Findings) -> Self {
        Self {
            source,
            at: 0,
            context,
            found,
            pending: Vec::new(),
            statement: 0,
            straight: true,
            inputs: 0,
            texts: 0,
            saved: None,
            pipes: 0,
            output: None,
        }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.source.get(self.at).copied()
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<char> {
        self.source.get(self.at + ahead).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.at = (self.at + count).min(self.source.len());
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn text_from(&self, start: usize) -> String {
        self.source.get(start..self.at).unwrap_or_default().iter().collect()
    }

    pub(super) fn statement_start(&self) -> usize {
        self.statement
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn found(&mut self) -> &mut Findings {
        self.found
    }

    pub(super) fn doubt(&mut self, why: &str) {
        self.found.doubt(why);
    }

    pub(super) fn enter(&mut self) -> Result<(), Problem> {
        self.context.depth += 1;
        if self.context.depth > MAX_DEPTH {
            return Err(Problem::syntax("it is nested too deeply"));
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.context.depth = self.context.depth.saturating_sub(1);
    }

    /// Parses commands that may run more than once.
    pub(super) fn repeated(
        &mut self,
        how: Repeats,
        parse: impl FnOnce(&mut Self) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let outer = self.context.repeats;
        self.context.repeats = outer.max(how);
        let result = parse(self);
        self.context.repeats = outer;
        result
    }

    /// Parses a subshell, whose changes of the folder end with it.
    pub(super) fn subshell(&mut self) -> Result<(), Problem> {
        let outer = self.context.repeats;
        if outer == Repeats::Loop {
            self.context.repeats = Repeats::Subshell;
        }
        let result = self.nested(')');
        self.context.repeats = outer;
        result
    }

    pub(super) fn is_straight(&self) -> bool {
        self.straight
    }

    pub(super) fn set_straight(&mut self, straight: bool) {
        self.straight = straight;
    }

    pub(super) fn assigned(&mut self, name: &str, value: Option<&str>) {
        variables::assigned(name, value, self.found);
    }

    pub(super) fn give(&mut self, name: &str, value: Value) {
        self.found.variables.give(name, value);
    }

    /// Parses the complete text.
    pub(super) fn program(&mut self) -> Result<(), Problem> {
        self.list(&[])?;
        self.no_pending_heredoc()?;
        if self.peek().is_some() {
            return Err(Problem::syntax("unexpected token after a command"));
        }
        Ok(())
    }

    /// Commands until the end, a closing parenthesis, `;;`, or a word of `until` at command position.
    pub(super) fn list(&mut self, until: &[&str]) -> Result<(), Problem> {
        loop {
            self.skip_blank_lines()?;
            if self.context.depth == 0 {
                self.statement = self.at;
            }
            match self.peek() {
                None | Some(')') => return Ok(()),
                Some(';') if matches!(self.peek_at(1), Some(';' | '&')) => return Ok(()),
                Some(';' | '&' | '|') => return Err(Problem::syntax("an operator has no command before it")),
                Some(_) => {}
            }
            if let Some(word) = self.reserved() {
                if until.contains(&word.as_str()) {
                    return Ok(());
                }
                if CLOSERS.contains(&word.as_str()) && word != "in" {
                    return Err(Problem::syntax("misplaced reserved word"));
                }
            }
            self.and_or()?;
            self.skip_blanks();
            match self.peek() {
                Some(';') if matches!(self.peek_at(1), Some(';' | '&')) => return Ok(()),
                Some(';' | '&') => self.skip(1),
                Some('\n') | None => {}
                Some(')') => return Ok(()),
                Some(_) => return Err(Problem::syntax("unexpected token after a command")),
            }
            if self.found.is_full() {
                return Err(Problem::syntax("it runs too many commands"));
            }
        }
    }

    fn and_or(&mut self) -> Result<(), Problem> {
        self.straight = true;
        loop {
            self.pipeline()?;
            self.straight = false;
            self.skip_blanks();
            match (self.peek(), self.peek_at(1)) {
                (Some('&'), Some('&')) | (Some('|'), Some('|')) => self.skip(2),
                _ => return Ok(()),
            }
            self.skip_blank_lines()?;
        }
    }

    fn pipeline(&mut self) -> Result<(), Problem> {
        let outer = self.context.feed.take();
        let stdin = std::mem::replace(&mut self.context.stdin, outer.clone());
        let told = self.context.told;
        let result = self.stages();
        self.context.feed = outer;
        self.context.stdin = stdin;
        self.context.told = told;
        self.pipes += 1;
        result
    }

    fn stages(&mut self) -> Result<(), Problem> {
        loop {
            while self.reserved().as_deref() == Some("!") {
                self.skip(1);
                self.skip_blanks();
            }
            let before = self.found.parts.len();
            let inputs = self.inputs;
            self.command()?;
            self.skip_blanks();
            let piped = if self.inputs == inputs { self.context.feed.clone() } else { None };
            let (feed, sample) = match self.found.parts.get(before..) {
                Some([part]) => (listing::feed(part, piped.as_ref()), listing::sample(part)),
                _ => (None, None),
            };
            match (self.peek(), self.peek_at(1)) {
                (Some('|'), Some('&')) => self.skip(2),
                (Some('|'), next) if next != Some('|') => self.skip(1),
                _ => {
                    let list = |names: Sample| Sample::from(format!("{names}{LIST}"));
                    self.output = sample.map(Sample::from).or(feed.map(list));
                    return Ok(());
                }
            }
            self.straight = false;
            self.context.stdin = None;
            self.context.told = false;
            self.context.feed = feed;
            self.skip_blank_lines()?;
        }
    }

    /// A sample for the output of the commands that `read` parses, if they are one pipe.
    pub(super) fn output_of(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<(), Problem>,
    ) -> Result<Option<Sample>, Problem> {
        let pipes = self.pipes;
        self.output = None;
        read(self)?;
        Ok(self.output.take().filter(|_| self.pipes == pipes + 1))
    }

    pub(super) fn command(&mut self) -> Result<(), Problem> {
        self.enter()?;
        if self.compound()? {
            let inputs = self.inputs;
            self.redirections()?;
            // The input parsed above was assumed to come from the pipe.
            if self.inputs != inputs && self.context.feed.is_some() {
                self.doubt("input comes from a pipe and from a redirection");
            }
        } else {
            self.simple()?;
        }
        self.leave();
        Ok(())
    }

    pub(super) fn redirections(&mut self) -> Result<(), Problem> {
        loop {
            self.skip_blanks();
            if !self.redirection()? {
                return Ok(());
            }
        }
    }

    fn simple(&mut self) -> Result<(), Problem> {
        let start = self.at;
        let mut words: Vec<Word> = Vec::new();
        let mut given: Vec<Word> = Vec::new();
        let (inputs, texts) = (self.inputs, self.texts);
        let mut saved = false;
        self.saved = None;
        loop {
            self.skip_blanks();
            if self.redirection()? {
                saved = self.saved.take().unwrap_or(saved);
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('#') => self.skip_comment(),
                Some('(') => return self.function_after(&words),
                Some(_) => {
                    let declares =
                        words.first().is_some_and(|word| DECLARATIONS.contains(&word.raw.as_str()));
                    let may_assign = words.is_empty() || declares;
                    let word = self.word(if may_assign { Mode::Assignment } else { Mode::Plain })?;
                    // `{a[x]}>` keeps the number of the file in an element, whose subscript bash evaluates.
                    if word.raw.starts_with('{') && word.raw.ends_with("]}") && self.peek_redirects() {
                        self.doubt("a redirection assigns a variable");
                    }
                    if word.assignment.is_some() && words.is_empty() {
                        given.push(word);
                    } else {
                        words.push(word);
                    }
                }
            }
        }
        if self.at == start {
            return Err(Problem::syntax("expected a command"));
        }
        let text = self.text_from(start).trim_end().to_owned();
        let assignments = self.assignments(&given, &words);
        let mut context = self.context.clone();
        context.saved = saved;
        if self.inputs != inputs {
            context.feed = None;
            context.stdin = None;
            context.told = self.inputs - inputs == self.texts - texts;
            if words.first().and_then(Word::text) == Some("exec") {
                self.doubt("`exec` redirects input");
            }
        }
        wrapper::emit(text, &words, assignments, &context, self.found);
        Ok(())
    }

    fn peek_redirects(&self) -> bool {
        matches!(self.peek(), Some('<' | '>'))
    }

    /// Records the assignments before a command, or alone.
    fn assignments(&mut self, given: &[Word], words: &[Word]) -> Vec<(String, Option<String>)> {
        let ends = !matches!((self.peek(), self.peek_at(1)), (Some('|'), c) if c != Some('|'))
            && !matches!((self.peek(), self.peek_at(1)), (Some('&'), c) if c != Some('&'));
        let reads = words.first().and_then(Word::text) == Some("read");
        let mut all = Vec::new();
        for word in given {
            let Some((name, value)) = &word.assignment else { continue };
            // `IFS= read` applies to that one builtin.
            if words.is_empty() {
                self.assigned(name, value.as_deref());
            } else if !(reads && name == "IFS") {
                variables::passed(name, value.as_deref(), self.found);
            }
            self.give(name, word.value().map_or(Value::Unknown, Value::assigned));
            if words.is_empty() && self.straight && ends && self.context.depth == 1 {
                self.found.variables.certain.push(name.clone());
            }
            // The program may name its surroundings in an error: `ls` prints a `COLUMNS` that is not a number.
            let told = if words.is_empty() { &mut self.found.traced } else { &mut self.found.shown };
            told.extend(word.pieces.clone());
            if words.is_empty() && variables::may_be_exported(name) {
                self.found.inherited.extend(word.pieces.clone());
            }
            all.push((name.clone(), value.clone()));
        }
        all
    }

    /// Parses one redirection, if there is one.
    fn redirection(&mut self) -> Result<bool, Problem> {
        let mut ahead = 0;
        if self.peek() == Some('{') {
            ahead = 1;
            while self.peek_at(ahead).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                ahead += 1;
            }
            if self.peek_at(ahead) != Some('}') || ahead == 1 {
                return Ok(false);
            }
            ahead += 1;
        } else {
            while self.peek_at(ahead).is_some_and(|c| c.is_ascii_digit()) {
                ahead += 1;
            }
        }
        let (first, second) = (self.peek_at(ahead), self.peek_at(ahead + 1));
        let both = ahead == 0 && first == Some('&') && second == Some('>');
        if !both && (!matches!(first, Some('<' | '>')) || second == Some('(')) {
            return Ok(false);
        }
        let named = ahead > 0;
        if self.peek() == Some('{') {
            self.doubt("a redirection assigns a variable");
        }
        let is_output = ahead == 0 || ahead == 1 && self.peek() == Some('1');
        self.skip(ahead);
        let operator: String = if both && self.peek_at(2) == Some('>') {
            "&>>".into()
        } else {
            let known = ["&>", "<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", "<", ">"];
            known
                .iter()
                .find(|o| o.chars().enumerate().all(|(i, c)| self.peek_at(i) == Some(c)))
                .map_or_else(String::new, |o| (*o).to_owned())
        };
        self.skip(operator.chars().count());
        self.inputs += usize::from(operator.starts_with('<') || named);
        self.texts += usize::from(operator.starts_with("<<") && !named);
        self.skip_blanks();
        let target = self.word(Mode::Plain)?;
        let file = target.text().filter(|name| *name == "/dev/null" || !name.starts_with("/dev/"));
        let is_number = |name: &str| name.chars().all(|c| c.is_ascii_digit() || c == '-');
        self.saved = (is_output && !operator.starts_with('<'))
            .then(|| file.is_some_and(|name| operator != ">&" || !is_number(name)));
        match operator.as_str() {
            "<<" | "<<-" => self.pending.push(Pending::new(&target, operator == "<<-")),
            "<<<" => {
                self.found.inputs.push(target.text().map(str::to_owned));
                self.found.shown.extend(target.pieces);
            }
            "<&" | ">&"
                if target
                    .text()
                    .is_some_and(|t| t.trim_end_matches('-').chars().all(|c| c.is_ascii_digit())) => {}
            ">&" if named && target.text().is_none() => self.redirected(true, &target),
            "<" | "<&" => self.redirected(false, &target),
            _ => self.redirected(true, &target),
        }
        Ok(true)
    }

    fn redirected(&mut self, writes: bool, target: &Word) {
        // The command at the other end is listed separately.
        if target.pattern.as_deref() == Some("/dev/fd/63") {
            return;
        }
        if target.text().is_some_and(|text| text.contains("=~") || text.contains(":~")) {
            self.doubt("a redirection names a home directory");
        }
        let file = target.text().map(str::to_owned);
        match file.as_deref() {
            Some("/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin") => return,
            Some(file) if file.starts_with("/dev/tcp/") || file.starts_with("/dev/udp/") => {
                self.doubt("a redirection opens a network connection");
            }
            Some(file) if file.contains("/dev/tcp") || file.contains("/dev/udp") => {
                self.doubt("a redirection may open a network connection");
            }
            _ => {}
        }
        let pieces = if target.literal.is_none() { target.pieces.clone() } else { Vec::new() };
        self.found.redirect(Redirection { writes, target: file }, pieces);
    }

    /// The unquoted word at this place, if it may be a reserved one.
    pub(super) fn reserved(&self) -> Option<String> {
        let mut word = String::new();
        for i in 0..9 {
            match self.peek_at(i) {
                None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>') => break,
                Some(c) => word.push(c),
            }
        }
        let known = CLOSERS.contains(&word.as_str())
            || matches!(
                word.as_str(),
                "!" | "{"
                    | "if"
                    | "while"
                    | "until"
                    | "for"
                    | "select"
                    | "case"
                    | "[["
                    | "function"
                    | "coproc"
                    | "time"
            );
        known.then_some(word)
    }

    pub(super) fn expect(&mut self, wanted: char) -> Result<(), Problem> {
        if self.next() == Some(wanted) {
            return Ok(());
        }
        Err(Problem::syntax(&format!("`{wanted}` is missing")))
    }

    pub(super) fn skip_blanks(&mut self) {
        loop {
            match (self.peek(), self.peek_at(1)) {
                (Some(' ' | '\t'), _) => self.skip(1),
                (Some('\\'), Some('\n')) => self.skip(2),
                _ => return,
            }
        }
    }

    pub(super) fn skip_comment(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.skip(1);
        }
    }

    /// Blanks, comments and newlines, with the here-documents that start after one.
    pub(super) fn skip_blank_lines(&mut self) -> Result<(), Problem> {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some('#') => self.skip_comment(),
                Some('\n') => {
                    self.skip(1);
                    self.heredocs()?;
                }
                _ => return Ok(()),
            }
        }
    }
}
