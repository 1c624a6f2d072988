//! Parses `$…`, backticks and process substitution.

use super::parser::{Parser, Problem};
use super::run;
use super::value::{Piece, Value};
use super::word::{Draft, Mode, Word};

/// Longer subscripts and operands are not read.
const MAX_EVALUATED: usize = 200;

impl Parser<'_, '_> {
    /// Parses `$` and the expansion after it.
    pub(super) fn dollar(&mut self, draft: &mut Draft, in_quotes: bool) -> Result<(), Problem> {
        match self.peek_at(1) {
            // Bash joins the lines first, so this may be any expansion.
            Some('\\') if self.peek_at(2) == Some('\n') => {
                Err(Problem::syntax("line continuation after `$`"))
            }
            Some('(') => {
                if self.peek_at(2) == Some('(') && self.arithmetic_at(3)? {
                    draft.unknown(Piece::Number);
                    return Ok(());
                }
                self.skip(2);
                let sample = self.output_of(|parser| parser.nested(')'))?;
                draft.unknown(Piece::Output { quoted: in_quotes, sample });
                Ok(())
            }
            Some('{') => {
                self.skip(2);
                let piece = self.parameter(in_quotes)?;
                draft.unknown(piece);
                Ok(())
            }
            Some('[') => Err(Problem::syntax("`$[` arithmetic is not supported")),
            Some('\'') if !in_quotes => {
                self.next();
                self.ansi_quoted(draft)
            }
            Some('"') if !in_quotes => {
                self.doubt("a translated string may contain anything");
                self.next();
                self.double_quoted(draft)
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                self.next();
                let start = self.position();
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.next();
                }
                let name = self.text_from(start);
                draft.unknown(self.variable(name, in_quotes));
                Ok(())
            }
            // Always a small number, so it represents itself.
            Some('?') => {
                self.skip(2);
                draft.quoted('$');
                draft.quoted('?');
                Ok(())
            }
            Some(c @ ('0'..='9' | '@' | '*' | '#' | '-' | '$' | '!')) => {
                draft.unknown(self.variable(c.to_string(), in_quotes));
                self.skip(2);
                Ok(())
            }
            _ => {
                self.next();
                if in_quotes {
                    draft.quoted('$')
                } else {
                    draft.bare('$')
                }
                Ok(())
            }
        }
    }

    fn variable(&mut self, name: String, quoted: bool) -> Piece {
        let certain = self.found().variables.certain.contains(&name);
        Piece::Variable { name, quoted, certain }
    }

    /// Commands up to a closing parenthesis; the opening one is read.
    pub(super) fn nested(&mut self, close: char) -> Result<(), Problem> {
        self.enter()?;
        let outer = std::mem::take(&mut self.pending);
        let straight = self.is_straight();
        let start = self.position();
        self.list(&[])?;
        self.no_pending_heredoc()?;
        self.expect(close)?;
        if !outer.is_empty() && self.text_from(start).contains('\n') {
            return Err(Problem::syntax("a here-document starts before a substitution with several lines"));
        }
        self.pending = outer;
        self.set_straight(straight);
        self.leave();
        Ok(())
    }

    pub(super) fn process_substitution(&mut self, draft: &mut Draft) -> Result<(), Problem> {
        draft.unknown(Piece::Unknown);
        draft.pipe = true;
        self.skip(2);
        self.nested(')')
    }

    /// The inside of `${…}`.
    fn parameter(&mut self, in_quotes: bool) -> Result<Piece, Problem> {
        if self.peek().is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | '|')) {
            return Err(Problem::syntax("`${ …}` is not supported"));
        }
        if self.peek() == Some('!') {
            self.doubt("indirect expansion of a variable");
        }
        self.enter()?;
        let start = self.position();
        let mut ignored = Draft::default();
        self.parameter_name();
        let name = self.text_from(start);
        let mut piece = match name.strip_prefix('#') {
            Some(counted) if !counted.is_empty() => Piece::Number,
            _ if name.starts_with('!') && name.len() > 1 => Piece::Unknown,
            _ => self.variable(name, in_quotes),
        };
        let after = self.subscript();
        let operand = self.text_from(start);
        let shows = self.operator(after, &operand);
        let plain = self.peek() == Some('}');
        loop {
            match self.peek() {
                Some('}') => {
                    let operands = ignored.unknowns();
                    if shows {
                        self.found().shown.extend(operands.clone());
                    }
                    if !plain && piece != Piece::Number {
                        let mut from = operands;
                        from.push(piece);
                        piece = Piece::Derived { from, quoted: in_quotes };
                    }
                    self.next();
                    self.leave();
                    return Ok(piece);
                }
                None => return Err(Problem::syntax("`${` is not closed")),
                Some('\\') if self.peek_at(1) == Some('\n') => {
                    return Err(Problem::syntax("line continuation inside `${`"));
                }
                Some('\\') => self.skip(2),
                Some('\'') if !in_quotes => self.single_quoted(&mut ignored)?,
                Some('"') => self.double_quoted(&mut ignored)?,
                Some('$') => self.dollar(&mut ignored, in_quotes)?,
                Some('`') => self.backticks(&mut ignored, in_quotes)?,
                Some('<' | '>') if self.peek_at(1) == Some('(') => self.process_substitution(&mut ignored)?,
                Some('@') if self.peek_at(1) == Some('P') => {
                    self.doubt("an expansion transforms a value (`@P`)");
                    self.next();
                }
                Some(_) => {
                    self.next();
                }
            }
        }
    }

    /// The name in `${…}`, with the `#` of a length or the `!` of an indirect expansion.
    fn parameter_name(&mut self) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if matches!(self.peek(), Some('#' | '!')) {
            let special = matches!(self.peek_at(1), Some('@' | '*' | '?' | '-' | '$' | '!' | '#'));
            if self.peek_at(1).is_some_and(is_part) || special && self.peek_at(2) == Some('}') {
                self.next();
            }
        }
        let named = self.peek().is_some_and(is_part);
        self.next();
        while named && self.peek().is_some_and(is_part) {
            self.next();
        }
    }

    /// The operator that starts `ahead` characters on. Returns whether bash prints the operand, as of `${x?…}`.
    fn operator(&mut self, ahead: usize, name: &str) -> bool {
        match (self.peek_at(ahead), self.peek_at(ahead + 1)) {
            (Some('@'), _) => self.doubt("an expansion transforms a value (`@`)"),
            (Some('?'), _) | (Some(':'), Some('?')) => return true,
            (Some(':'), Some('-' | '+')) => {}
            (Some('='), _) | (Some(':'), Some('=')) => {
                self.found().arrays |= ahead > 0;
                self.assigned(name, None);
                self.give(name, Value::Unknown);
            }
            (Some(':'), _) => self.computed_operand(ahead),
            _ => {}
        }
        false
    }

    /// `${x[…]}`: bash evaluates the subscript. Returns its length with the brackets.
    fn subscript(&mut self) -> usize {
        if self.peek() != Some('[') {
            return 0;
        }
        let mut open = 0_usize;
        let mut inside = String::new();
        for ahead in 1..MAX_EVALUATED {
            match self.peek_at(ahead) {
                Some(']') if open == 0 => {
                    if !matches!(inside.as_str(), "@" | "*") {
                        self.evaluated(&inside);
                    }
                    return ahead + 1;
                }
                Some(']') => open -= 1,
                Some('[') => open += 1,
                Some(_) => {}
                None => break,
            }
            inside.extend(self.peek_at(ahead));
        }
        self.doubt("an array subscript is evaluated");
        0
    }

    /// `${x:from:count}` computes.
    fn computed_operand(&mut self, ahead: usize) {
        let rest = (ahead + 1..ahead + MAX_EVALUATED).map_while(|i| self.peek_at(i));
        let inside: String = rest.take_while(|c| *c != '}').collect();
        if inside.chars().count() + 1 == MAX_EVALUATED {
            self.doubt("arithmetic on a value that is only known at run time");
        }
        self.evaluated(&inside.replace(':', " "));
    }

    /// Text that bash evaluates as arithmetic. Quotes hide where it ends.
    fn evaluated(&mut self, text: &str) {
        if text.contains(['"', '\'', '\\', '`']) {
            self.doubt("arithmetic contains quotes");
        }
        self.check_arithmetic(text);
    }

    /// Backtick substitution: the text is unescaped once and parsed again.
    pub(super) fn backticks(&mut self, draft: &mut Draft, in_quotes: bool) -> Result<(), Problem> {
        draft.unknown(Piece::Output { quoted: in_quotes, sample: None });
        self.next();
        let mut inside = String::new();
        loop {
            match self.next() {
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(c @ ('`' | '\\' | '$')) => inside.push(c),
                    Some('"') if in_quotes => inside.push('"'),
                    Some(c) => inside.extend(['\\', c]),
                    None => return Err(Problem::syntax("a backtick is not closed")),
                },
                Some(c) => inside.push(c),
                None => return Err(Problem::syntax("a backtick is not closed")),
            }
        }
        let context = self.context().deeper();
        run(&inside, &context, self.found());
        Ok(())
    }

    /// `$'…'`; the `$` is read.
    fn ansi_quoted(&mut self, draft: &mut Draft) -> Result<(), Problem> {
        self.next();
        // An empty string still makes the word quoted.
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            match self.next() {
                Some('\'') => break,
                Some('\\') => self.ansi_escape(&mut bytes)?,
                Some(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
                None => return Err(Problem::syntax("a `$'` quote is not closed")),
            }
        }
        let Ok(text) = String::from_utf8(bytes) else {
            return Err(Problem::syntax("a `$'` quote is not UTF-8"));
        };
        if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\x1b' | '\r')) {
            self.doubt("a `$'` quote contains control characters");
        }
        if text.is_empty() {
            draft.quoted(' ');
            draft.unknown(Piece::Unknown);
        }
        text.chars().for_each(|c| draft.quoted(c));
        Ok(())
    }

    fn ansi_escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), Problem> {
        let unclosed = || Problem::syntax("a `$'` quote is not closed");
        let c = self.next().ok_or_else(unclosed)?;
        let code = match c {
            'n' => 10,
            't' => 9,
            'r' => 13,
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'v' => 11,
            '\\' | '\'' | '"' | '?' => u32::from(c),
            'x' => self.digits(16, 2, 0).ok_or_else(unclosed)?,
            'u' | 'U' => {
                let value = self.digits(16, if c == 'u' { 4 } else { 8 }, 0).ok_or_else(unclosed)?;
                let decoded = char::from_u32(value).filter(|c| *c != '\0').ok_or_else(unclosed)?;
                bytes.extend(decoded.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            '0'..='7' => self.digits(8, 2, c.to_digit(8).unwrap_or_default()).unwrap_or(u32::from(c) - 48),
            'c' => u32::from(self.next().ok_or_else(unclosed)?) & 0x1f,
            other => {
                bytes.push(b'\\');
                bytes.extend(other.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
        };
        let byte = u8::try_from(code & 0xff).unwrap_or_default();
        if byte == 0 {
            return Err(Problem::syntax("a `$'` quote contains NUL"));
        }
        bytes.push(byte);
        Ok(())
    }

    /// Up to `most` digits; `None` if there are none.
    fn digits(&mut self, radix: u32, most: usize, before: u32) -> Option<u32> {
        let mut value = before;
        let mut count = 0;
        while count < most {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else { break };
            value = value.wrapping_mul(radix).wrapping_add(digit);
            self.next();
            count += 1;
        }
        (count > 0).then_some(value)
    }

    /// Parses the words of a `for … in` up to the first token that is not a word.
    pub(super) fn words(&mut self) -> Result<Vec<Word>, Problem> {
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | '(' | ')') => return Ok(words),
                Some('#') => self.skip_comment(),
                Some(_) => words.push(self.word(Mode::Plain)?),
            }
        }
    }
}
