//! Arithmetic expansion, in which bash evaluates variables, array subscripts and the commands in them.

use super::parser::{Parser, Problem};
use super::value::{Piece, Value};
use super::word::{Draft, Word, is_name};

impl Parser<'_, '_> {
    /// Parses `…))` that starts `ahead` characters on. Without the double close, nothing is consumed and the
    /// result is false.
    pub(super) fn arithmetic_at(&mut self, ahead: usize) -> Result<bool, Problem> {
        let mut open = 0_usize;
        let mut end = ahead;
        loop {
            match self.peek_at(end) {
                Some('(') => open += 1,
                Some(')') if open == 0 => break,
                Some(')') => open -= 1,
                Some('\'' | '"' | '\\' | '`') => return Err(Problem::syntax("arithmetic contains quotes")),
                Some(_) => {}
                None => return Ok(false),
            }
            end += 1;
        }
        if self.peek_at(end + 1) != Some(')') {
            return Ok(false);
        }
        self.skip(ahead);
        let start = self.position();
        let stop = start + (end - ahead);
        let mut ignored = Draft::default();
        while self.position() < stop {
            if self.peek() == Some('$') {
                self.dollar(&mut ignored, true)?;
            } else {
                self.skip(1);
            }
        }
        if self.position() != stop {
            return Err(Problem::syntax("arithmetic is ambiguous"));
        }
        let text = self.text_from(start);
        self.check_arithmetic(&text);
        self.skip(2);
        Ok(true)
    }

    /// Doubts an expression with a variable that has no known numeric value.
    pub(super) fn check_arithmetic(&mut self, text: &str) {
        let mut rest = text;
        let mut names: Vec<(String, bool)> = Vec::new();
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            let (_, from) = rest.split_at(start);
            let length = from.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(from.len());
            let (name, after) = from.split_at(length);
            let after_blanks = after.trim_start();
            let set = after_blanks.starts_with('=') && !after_blanks.starts_with("==");
            names.push((name.to_owned(), set));
            rest = after;
        }
        if text.contains("$(") || text.contains("${") || text.contains("$@") || text.contains("$*") {
            self.doubt("arithmetic on a value that is only known at run time");
        }
        for (name, set) in names {
            if !is_name(&name) {
                continue;
            }
            let found = self.found();
            if set {
                super::variables::assigned(&name, None, found);
                found.variables.give(&name, Value::Number);
            }
            // `X++` sets it as well.
            super::variables::noted(&name, found);
            found.compute(name);
        }
    }

    /// `[[ $x -eq 1 ]]` evaluates both sides, `-v` a subscript.
    pub(super) fn check_condition(&mut self, words: &[Word]) {
        let numbers = |word: Option<&Word>| -> Option<Vec<String>> {
            let word = word?;
            if word.raw.trim_matches('"') == "$?"
                || word.text().is_some_and(|text| text.parse::<i64>().is_ok())
            {
                return Some(Vec::new());
            }
            let name = |piece: &Piece| match piece {
                Piece::Variable { name, .. } => Some(Some(name.clone())),
                Piece::Number => Some(None),
                Piece::Output { sample: Some(sample), .. } if &**sample == "1" => Some(None),
                _ => None,
            };
            let names: Option<Vec<Option<String>>> = word.pieces.iter().map(name).collect();
            names.filter(|names| !names.is_empty()).map(|names| names.into_iter().flatten().collect())
        };
        for (i, word) in words.iter().enumerate() {
            match word.raw.as_str() {
                "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" => {
                    for side in
                        [numbers(i.checked_sub(1).and_then(|i| words.get(i))), numbers(words.get(i + 1))]
                    {
                        match side {
                            Some(names) => names.into_iter().for_each(|name| self.found().compute(name)),
                            None => self.doubt("arithmetic on a value that is only known at run time"),
                        }
                    }
                }
                "-v" | "-R" if !words.get(i + 1).and_then(Word::text).is_some_and(is_name) => {
                    self.doubt("a test evaluates an array subscript");
                }
                _ => {}
            }
        }
    }
}
