//! Parses compound commands: groups, conditions, loops and functions.

use super::parser::{Parser, Problem};
use super::value::{Piece, Value};
use super::word::{Mode, Word, is_name};
use super::wrapper;
use super::{Repeats, braces, variables};

impl Parser<'_, '_> {
    /// A compound command, if one starts here.
    pub(super) fn compound(&mut self) -> Result<bool, Problem> {
        if self.peek() == Some('(') {
            if self.peek_at(1) == Some('(') {
                if !self.arithmetic_at(2)? {
                    return Err(Problem::syntax("`((` is ambiguous"));
                }
                return Ok(true);
            }
            self.skip(1);
            self.subshell()?;
            return Ok(true);
        }
        let Some(word) = self.reserved() else { return Ok(false) };
        match word.as_str() {
            "{" => {
                self.skip(1);
                self.body(&["}"])?;
            }
            "if" => self.conditional()?,
            "while" | "until" => {
                self.skip(5);
                self.repeated(Repeats::Loop, |parser| {
                    parser.body(&["do"])?;
                    parser.body(&["done"]).map(drop)
                })?;
            }
            "for" | "select" => self.iteration(word.len())?,
            "case" => self.case()?,
            "[[" => self.condition()?,
            "function" => {
                self.skip(8);
                self.skip_blanks();
                let name = self.word(Mode::Plain)?;
                self.skip_blanks();
                if self.peek() == Some('(') {
                    self.skip(1);
                    self.skip_blanks();
                    self.expect(')')?;
                }
                self.function(&name)?;
            }
            "coproc" => {
                self.doubt("it starts a co-process");
                self.skip(6);
                self.skip_blanks();
                self.command()?;
            }
            "time" => {
                self.skip(4);
                self.skip_blanks();
                self.time_option('p');
                self.time_option('-');
                if !matches!(self.peek(), None | Some('\n' | ';' | '&' | '|' | ')')) {
                    self.pipeline_part()?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `-p` or `--` behind `time`, if it is a word of its own: any other option is the name of a program.
    fn time_option(&mut self, letter: char) {
        let is_option = self.peek() == Some('-') && self.peek_at(1) == Some(letter);
        let ends_word = matches!(
            self.peek_at(2),
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
        );
        if is_option && ends_word {
            self.skip(2);
            self.skip_blanks();
        }
    }

    fn pipeline_part(&mut self) -> Result<(), Problem> {
        while self.reserved().as_deref() == Some("!") {
            self.skip(1);
            self.skip_blanks();
        }
        self.command()
    }

    /// A list and the reserved word that closes it.
    fn body(&mut self, close: &[&str]) -> Result<String, Problem> {
        self.list(close)?;
        match self.reserved() {
            Some(word) if close.contains(&word.as_str()) => {
                self.skip(word.chars().count());
                Ok(word)
            }
            _ => Err(Problem::syntax("a compound command is not closed")),
        }
    }

    fn conditional(&mut self) -> Result<(), Problem> {
        self.skip(2);
        self.body(&["then"])?;
        loop {
            match self.body(&["elif", "else", "fi"])?.as_str() {
                "elif" => {
                    self.body(&["then"])?;
                }
                "else" => {
                    self.body(&["fi"])?;
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }

    fn iteration(&mut self, keyword: usize) -> Result<(), Problem> {
        let selects = self.peek() == Some('s');
        self.skip(keyword);
        self.skip_blanks();
        let mut certain = None;
        if self.peek() == Some('(') && self.peek_at(1) == Some('(') {
            if !self.arithmetic_at(2)? {
                return Err(Problem::syntax("`for ((` is not closed"));
            }
        } else {
            let name = self.word(Mode::Plain)?;
            let Some(name) = name.text().filter(|text| is_name(text)) else {
                return Err(Problem::syntax("`for` needs a variable name"));
            };
            self.assigned(name, None);
            self.skip_blank_lines()?;
            if self.reserved().as_deref() == Some("in") {
                self.skip(2);
                for word in self.words()? {
                    if selects && word.literal.is_none() {
                        self.doubt("`select` shows names that are only known at run time");
                    }
                    self.found().traced.extend(word.pieces.clone());
                    if variables::may_be_exported(name) {
                        self.found().inherited.extend(word.pieces.clone());
                    }
                    self.give_each(name, &word);
                }
            } else {
                if selects {
                    self.doubt("`select` shows names that are only known at run time");
                }
                let all = Piece::Variable { name: "@".to_owned(), quoted: false, certain: true };
                self.give(name, Value::Each(vec![all]));
            }
            certain = Some(name.to_owned());
        }
        self.skip_blanks();
        if self.peek() == Some(';') {
            self.skip(1);
        }
        self.skip_blank_lines()?;
        let known = self.found().variables.certain.len();
        self.found().variables.certain.extend(certain);
        let close = match self.reserved().as_deref() {
            Some("do") => ["done"],
            Some("{") => ["}"],
            _ => return Err(Problem::syntax("`for` has no body")),
        };
        self.skip(if close == ["}"] { 1 } else { 2 });
        self.repeated(Repeats::Loop, |parser| parser.body(&close).map(drop))?;
        self.found().variables.certain.truncate(known);
        Ok(())
    }

    /// One word of `for … in`, which may become several values.
    fn give_each(&mut self, name: &str, word: &Word) {
        let texts =
            if word.braces { braces::expand(&word.raw) } else { word.literal.clone().map(|text| vec![text]) };
        match (texts, &word.pattern) {
            (Some(texts), _) => {
                texts.into_iter().for_each(|text| self.give(name, Value::Pieces(vec![Piece::Text(text)])));
            }
            (None, Some(pattern)) => self.give(name, Value::Pattern(pattern.clone())),
            (None, None) if braces::counts(&word.raw) => self.give(name, Value::Number),
            (None, None) if word.braces => self.give(name, Value::Unknown),
            (None, None) => self.give(name, Value::Each(word.pieces.clone())),
        }
    }

    fn case(&mut self) -> Result<(), Problem> {
        self.skip(4);
        self.skip_blanks();
        let subject = self.word(Mode::Plain)?;
        self.found().shown.extend(subject.pieces);
        self.skip_blank_lines()?;
        if self.reserved().as_deref() != Some("in") {
            return Err(Problem::syntax("`case` needs `in`"));
        }
        self.skip(2);
        loop {
            self.skip_blank_lines()?;
            if self.reserved().as_deref() == Some("esac") {
                self.skip(4);
                return Ok(());
            }
            if self.peek() == Some('(') {
                self.skip(1);
            }
            loop {
                self.skip_blanks();
                self.word(Mode::Plain)?;
                self.skip_blanks();
                match self.next() {
                    Some('|') => {}
                    Some(')') => break,
                    _ => return Err(Problem::syntax("a `case` pattern is not closed")),
                }
            }
            self.list(&["esac"])?;
            if self.peek() == Some(';') {
                self.skip(1);
                while matches!(self.peek(), Some(';' | '&')) {
                    self.skip(1);
                }
            } else if self.reserved().as_deref() != Some("esac") {
                return Err(Problem::syntax("`case` is not closed"));
            }
        }
    }

    fn condition(&mut self) -> Result<(), Problem> {
        let start = self.position();
        self.skip(2);
        let mut words = vec![Word::plain("[[")];
        let mut mode = Mode::Plain;
        loop {
            self.skip_blank_lines()?;
            match (self.peek(), self.peek_at(1)) {
                (None, _) => return Err(Problem::syntax("`[[` is not closed")),
                (Some('&'), Some('&')) | (Some('|'), Some('|')) => self.skip(2),
                (Some('<' | '>'), Some(c)) if c != '(' => self.skip(1),
                (Some('(' | ')'), _) if mode == Mode::Plain => self.skip(1),
                (Some(_), _) => {
                    let mut word = self.word(mode)?;
                    // An operator may be split over two lines. In quotes it is not an operator.
                    word.raw = word.raw.replace("\\\n", "");
                    let closes = word.raw == "]]";
                    mode = if word.raw == "=~" { Mode::Regex } else { Mode::Plain };
                    words.push(word);
                    if closes {
                        break;
                    }
                }
            }
        }
        let text = self.text_from(start);
        self.check_condition(&words);
        let context = self.context().clone();
        wrapper::emit(text, &words, Vec::new(), &context, self.found());
        Ok(())
    }

    fn function(&mut self, name: &Word) -> Result<(), Problem> {
        match name.text() {
            Some(text) if variables::is_command_name(text) => {
                self.found().doubt(format!("it redefines `{text}` as a function"));
            }
            Some(text) => self.found().functions.push(text.to_owned()),
            None => return Err(Problem::syntax("a function's name is only known at run time")),
        }
        self.found().variables.parameters = true;
        self.skip_blank_lines()?;
        self.repeated(Repeats::Function, |parser| {
            if !parser.compound()? {
                return Err(Problem::syntax("a function has no body"));
            }
            parser.redirections()
        })
    }

    pub(super) fn function_after(&mut self, words: &[Word]) -> Result<(), Problem> {
        let [name] = words else { return Err(Problem::syntax("misplaced parenthesis")) };
        self.skip(1);
        self.skip_blanks();
        self.expect(')')?;
        self.function(name)
    }
}
