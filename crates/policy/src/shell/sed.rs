//! Which `sed` scripts only edit and print: those that run no command and read and write no further file.
//!
//! Accepts the scripts that every `sed` reads in the same way. Programs differ on a delimiter in brackets, on what may
//! follow a command, and on the end of a label; such scripts count as unsafe.

/// Whether a script only edits and prints.
pub(super) fn is_tame(script: &str) -> bool {
    // A command ends with its line, and text that continues on the next line is judged as commands.
    script.split('\n').all(|line| {
        let characters: Vec<char> = line.chars().collect();
        Line { rest: &characters }.only_edits()
    })
}

struct Line<'l> {
    rest: &'l [char],
}

impl Line<'_> {
    fn only_edits(mut self) -> bool {
        loop {
            while self.peek().is_some_and(|c| is_blank(c) || c == ';') {
                self.advance(1);
            }
            let Some(c) = self.peek() else { return true };
            if c == '#' {
                return true;
            }
            match self.command() {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
    }

    /// Reads one command; `Some(false)` if the rest of the line is its text, `None` if it is not known to be harmless.
    fn command(&mut self) -> Option<bool> {
        if self.address()? {
            self.blanks();
            if self.peek() == Some(',') {
                self.advance(1);
                self.blanks();
                self.address()?.then_some(())?;
            }
        }
        self.blanks();
        if self.peek() == Some('!') {
            self.advance(1);
            self.blanks();
        }
        let command = self.next()?;
        match command {
            '{' => return Some(true),
            '}' | 'p' | 'd' | '=' | 'n' | 'N' | 'P' | 'D' | 'h' | 'H' | 'g' | 'G' | 'x' => {}
            'q' | 'Q' | 'l' => {
                self.blanks();
                self.digits();
            }
            'a' | 'i' | 'c' => return Some(false),
            ':' | 'b' | 't' | 'T' => {
                self.blanks();
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')) {
                    self.advance(1);
                }
            }
            's' => {
                let delimiter = self.delimiter()?;
                self.expression(delimiter)?;
                self.part(delimiter)?;
                while self
                    .peek()
                    .is_some_and(|c| matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M') || c.is_ascii_digit())
                {
                    self.advance(1);
                }
            }
            'y' => {
                let delimiter = self.delimiter()?;
                self.part(delimiter)?;
                self.part(delimiter)?;
            }
            _ => return None,
        }
        self.blanks();
        matches!(self.peek(), None | Some(';' | '}' | '#')).then_some(true)
    }

    /// Reads a line number, `$`, a regex or `+N` and `~N`; false if there is none, `None` if its end is not certain.
    fn address(&mut self) -> Option<bool> {
        match self.peek() {
            Some('$') => self.advance(1),
            Some('+' | '~') => {
                self.advance(1);
                self.digits();
            }
            Some(c) if c.is_ascii_digit() => {
                self.digits();
                if self.peek() == Some('~') {
                    self.advance(1);
                    self.digits();
                }
            }
            Some('/') => {
                self.advance(1);
                self.matched('/')?;
            }
            Some('\\') => {
                self.advance(1);
                let delimiter = self.delimiter()?;
                self.matched(delimiter)?;
            }
            _ => return Some(false),
        }
        Some(true)
    }

    /// The regex of an address with its flags.
    fn matched(&mut self, delimiter: char) -> Option<()> {
        self.expression(delimiter)?;
        self.blanks();
        while matches!(self.peek(), Some('I' | 'M' | ' ' | '\t')) {
            self.advance(1);
        }
        Some(())
    }

    fn delimiter(&mut self) -> Option<char> {
        self.next().filter(|c| c.is_ascii_punctuation() && !matches!(c, '\\' | '[' | ']'))
    }

    /// Skips a regex and the delimiter behind it, if its end does not depend on how brackets are read.
    fn expression(&mut self, delimiter: char) -> Option<()> {
        let end = plain_end(self.rest, delimiter)?;
        let brackets = [(false, false), (false, true), (true, false), (true, true)];
        let certain = brackets
            .into_iter()
            .all(|(classes, escapes)| bracketed_end(self.rest, delimiter, classes, escapes) == Some(end));
        certain.then(|| self.advance(end + 1))
    }

    /// Skips a replacement, or a part of `y`, and the delimiter behind it.
    fn part(&mut self, delimiter: char) -> Option<()> {
        let end = plain_end(self.rest, delimiter)?;
        self.advance(end + 1);
        Some(())
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.advance(1);
        }
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.advance(1);
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.advance(1);
        Some(next)
    }

    fn advance(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// The place of the next delimiter without a backslash before it.
fn plain_end(text: &[char], delimiter: char) -> Option<usize> {
    let mut at = 0;
    loop {
        let c = *text.get(at)?;
        // In some encodings, such a character is the second half of the one before.
        let is_half = c >= '@' && at > 0 && text.get(at - 1).is_some_and(|before| !before.is_ascii());
        if is_half && (c == '\\' || c == delimiter) {
            return None;
        }
        match c {
            '\\' => at += 2,
            c if c == delimiter => return Some(at),
            _ => at += 1,
        }
    }
}

/// The place of the next delimiter outside brackets, where brackets may hold classes (`[:space:]`) and escapes.
fn bracketed_end(text: &[char], delimiter: char, classes: bool, escapes: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        match *text.get(at)? {
            '\\' => at += 2,
            c if c == delimiter => return Some(at),
            '[' => at = bracket_end(text, at + 1, classes, escapes)?,
            _ => at += 1,
        }
    }
}

/// The place behind the bracket that closes the one before `at`.
fn bracket_end(text: &[char], mut at: usize, classes: bool, escapes: bool) -> Option<usize> {
    at += usize::from(text.get(at) == Some(&'^'));
    // The first character inside never closes.
    at += usize::from(text.get(at) == Some(&']'));
    loop {
        match *text.get(at)? {
            ']' => return Some(at + 1),
            '\\' if escapes => at += 2,
            '[' if classes && let Some(kind @ (':' | '.' | '=')) = text.get(at + 1).copied() => {
                let inside = text.get(at + 2..)?;
                at += 4 + inside.windows(2).position(|pair| pair == [kind, ']'])?;
            }
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests;
