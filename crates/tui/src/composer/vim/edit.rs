//! Edits of vim's single-key commands.

use super::super::buffer::{Buffer, Pos, Register};
use super::{Operator, Outcome, Pending, Vim, VimMode, motion};

/// Bytes one `p` may insert, however often it is to be repeated.
const MOST_PUT: usize = 1024 * 1024;

impl Vim {
    /// Commands that are neither motions nor operators.
    pub(super) fn command(&mut self, c: char, buffer: &mut Buffer) -> Outcome {
        let count = self.counted();
        let at = buffer.cursor();
        let end = buffer.line_end(at.line);
        if c == 'r' {
            return self.wait(Pending::Replace);
        }
        self.stop_waiting();
        match c {
            'x' => buffer.cut(at..motion::right_in_line(buffer, at, count)),
            'X' => buffer.cut(motion::left_in_line(buffer, at, count)..at),
            '~' => {
                let range = at..motion::right_in_line(buffer, at, count);
                let swapped = motion::swap_case(&buffer.slice(range.clone()));
                buffer.replace_raw(range, swapped);
            }
            'D' => buffer.cut(at..end),
            'C' => {
                buffer.cut(at..end);
                self.mode = VimMode::Insert;
            }
            'Y' => self.take_lines(
                Operator::Yank,
                at.line,
                (at.line + count - 1).min(buffer.line_count() - 1),
                buffer,
            ),
            'p' | 'P' => put(buffer, c == 'p', count),
            'u' => {
                for _ in 0..count {
                    if !buffer.undo() {
                        break;
                    }
                }
            }
            '.' => {
                self.keys = None;
                return Outcome::Repeat(count);
            }
            _ => return self.insert_command(c, buffer),
        }
        Outcome::Moved
    }

    fn insert_command(&mut self, c: char, buffer: &mut Buffer) -> Outcome {
        let at = buffer.cursor();
        match c {
            'i' => {}
            'a' => buffer.go(motion::right_in_line(buffer, at, 1)),
            'I' => buffer.go(motion::first_word(buffer, at.line)),
            'A' => buffer.go(buffer.line_end(at.line)),
            'o' => {
                buffer.go(buffer.line_end(at.line));
                buffer.insert("\n");
            }
            'O' => {
                buffer.go(Pos::new(at.line, 0));
                buffer.insert("\n");
                buffer.go(Pos::new(at.line, 0));
            }
            _ => return Outcome::Moved,
        }
        self.mode = VimMode::Insert;
        Outcome::Moved
    }

    pub(super) fn replace(&mut self, c: char, buffer: &mut Buffer) -> Outcome {
        let count = self.counted();
        self.stop_waiting();
        let at = buffer.cursor();
        let to = motion::right_in_line(buffer, at, count);
        let there = buffer.slice(at..to);
        // As in vim, nothing happens when the line is too short.
        if motion::clusters(&there) == count {
            buffer.replace(at..to, &c.to_string().repeat(count));
            buffer.go(buffer.left(buffer.cursor()));
        }
        Outcome::Moved
    }
}

/// `p` and `P`.
fn put(buffer: &mut Buffer, after: bool, count: usize) {
    let Register { text, lines } = buffer.register.clone();
    let size = text.size() + usize::from(lines);
    if size == 0 {
        return;
    }
    let text = buffer.adopt(&text);
    let times = count.min((MOST_PUT / size).max(1));
    let at = buffer.cursor();
    if !lines {
        let to = if after { motion::right_in_line(buffer, at, 1) } else { at };
        buffer.replace_raw(to..to, text.repeat(times));
        buffer.go(buffer.left(buffer.cursor()));
        return;
    }
    let block = vec![text; times].join("\n");
    let line = if after {
        let end = buffer.line_end(at.line);
        buffer.replace_raw(end..end, format!("\n{block}"));
        at.line + 1
    } else {
        let start = Pos::new(at.line, 0);
        buffer.replace_raw(start..start, format!("{block}\n"));
        at.line
    };
    buffer.go(motion::first_word(buffer, line));
}
