//! Where a text that still grows can be cut.

/// A text that arrives in pieces. [`Self::settle`] returns the part that can no longer change.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The part that was not returned yet.
    open: String,
    /// Up to where `open` was looked at; whole lines only.
    seen: usize,
    /// Where the last block that is over ends.
    safe: usize,
    fence: Option<Fence>,
    /// The line before was blank.
    after_blank: bool,
    /// The current block continues over blank lines, as lists do.
    in_list: bool,
}

/// An open block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fence {
    mark: char,
    length: usize,
    /// The line that opened it, to reopen the rest of it after a cut.
    opening: String,
}

/// A block that never ends is cut after this many bytes.
const LONGEST_BLOCK: usize = 16 * 1024;

impl Stream {
    pub(crate) fn push(&mut self, piece: &str) {
        self.open.push_str(piece);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The open part, as if it ended now.
    pub(crate) fn tail(&self) -> &str {
        &self.open
    }

    /// The blocks that are over since the last time.
    pub(crate) fn settle(&mut self) -> Option<String> {
        self.look();
        if self.safe == 0 {
            return self.settle_by_force();
        }
        let rest = self.open.split_off(self.safe);
        self.seen -= self.safe;
        self.safe = 0;
        Some(std::mem::replace(&mut self.open, rest))
    }

    /// Everything; the text is over.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let rest = std::mem::take(self).open;
        (!rest.trim().is_empty()).then_some(rest)
    }

    /// Looks at the lines that are complete and were not looked at.
    fn look(&mut self) {
        while let Some(length) = self.open.get(self.seen..).and_then(|rest| rest.find('\n')) {
            let end = self.seen + length + 1;
            let line = self.open.get(self.seen..end).unwrap_or_default().trim_end().to_owned();
            self.look_at(&line, end);
            self.seen = end;
        }
    }

    fn look_at(&mut self, line: &str, end: usize) {
        let begin = self.seen;
        if let Some(fence) = &self.fence {
            if closes(line, fence) {
                self.fence = None;
                if !self.in_list {
                    self.safe = end;
                }
            }
            return;
        }
        let blank = line.is_empty();
        let indented = line.starts_with([' ', '\t']);
        let item = is_item(line);
        // After a blank line, an unindented line that is not a list item ends the block before it.
        let goes_on = blank || indented || (self.in_list && item);
        if self.after_blank && !goes_on {
            self.safe = begin;
            self.in_list = false;
        }
        if line.starts_with('#') && !self.in_list {
            self.safe = end;
        }
        if let Some(fence) = opens(line) {
            if !indented {
                self.safe = begin;
                self.in_list = false;
            }
            self.fence = Some(fence);
        } else if item && !indented {
            self.in_list = true;
        }
        self.after_blank = blank;
    }

    /// A block that is too long to wait for its end. Code is closed and opened again.
    fn settle_by_force(&mut self) -> Option<String> {
        let cut = if self.seen >= LONGEST_BLOCK { self.seen } else { self.cut_in_line()? };
        let rest = self.open.split_off(cut);
        let mut over = std::mem::replace(&mut self.open, rest);
        self.seen = 0;
        if let Some(fence) = &self.fence {
            if !over.ends_with('\n') {
                over.push('\n');
            }
            over.extend(std::iter::repeat_n(fence.mark, fence.length));
            self.open.insert_str(0, &fence.opening);
            self.seen = fence.opening.len();
        }
        Some(over)
    }

    /// Where a line without an end can be cut: after a word, or anywhere.
    fn cut_in_line(&self) -> Option<usize> {
        let line = self.open.get(self.seen..).filter(|line| line.len() >= LONGEST_BLOCK)?;
        let word = line.rfind(' ').map(|at| at + 1).filter(|at| *at >= LONGEST_BLOCK / 2);
        Some(self.seen + word.unwrap_or(line.len()))
    }
}

fn opens(line: &str) -> Option<Fence> {
    let text = line.trim_start();
    let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = text.chars().take_while(|character| *character == mark).count();
    let info = text.get(length..).unwrap_or_default();
    let is_fence = length >= 3 && !(mark == '`' && info.contains('`'));
    is_fence.then(|| Fence { mark, length, opening: format!("{line}\n") })
}

fn closes(line: &str, fence: &Fence) -> bool {
    let text = line.trim();
    text.chars().count() >= fence.length && text.chars().all(|character| character == fence.mark)
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let text = line.trim_start();
    let rest = text.trim_start_matches(|character: char| character.is_ascii_digit());
    if rest.len() < text.len() {
        return rest.starts_with(". ") || rest.starts_with(") ");
    }
    ["- ", "* ", "+ "].iter().any(|bullet| text.starts_with(bullet))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes a text byte by byte and returns the cuts.
    fn cuts(text: &str) -> Vec<String> {
        let mut stream = Stream::default();
        let mut cuts = Vec::new();
        for character in text.chars() {
            stream.push(&character.to_string());
            cuts.extend(stream.settle());
        }
        cuts.extend(stream.finish());
        cuts
    }

    #[test]
    fn nothing_is_lost_or_doubled_wherever_it_is_cut() {
        let text = "# A\n\nOne\ntwo\n\n- a\n\n- b\n  more\n\nEnd\n\n```rust\nfn a() {}\n\nlet b;\n```\n| a |\n|---|\n";
        assert_eq!(cuts(text).concat(), text);
    }

    #[test]
    fn paragraphs_lists_and_code_are_cut_as_wholes() {
        assert_eq!(cuts("One\n\nTwo\n"), ["One\n\n", "Two\n"]);
        assert_eq!(cuts("- a\n\n- b\n\nEnd\n"), ["- a\n\n- b\n\n", "End\n"]);
        let code = "```\na\n\nb\n```\n";
        assert_eq!(cuts(&format!("x\n{code}y")), ["x\n", code, "y"]);
    }

    #[test]
    fn code_without_an_end_is_given_away_in_parts_that_are_code() {
        let line = "let x = 1;\n".repeat(4000);
        let cuts = cuts(&format!("```rust\n{line}"));
        assert!(cuts.len() > 2);
        assert!(cuts.iter().all(|cut| cut.starts_with("```rust\n")));
        let kept: usize = cuts.iter().map(|cut| cut.matches("let x").count()).sum();
        assert_eq!(kept, 4000);
    }

    #[test]
    fn a_line_without_an_end_is_given_away_too() {
        for opening in ["", "```\n"] {
            let mut stream = Stream::default();
            let mut cuts = String::new();
            stream.push(opening);
            for _ in 0..100_000 {
                stream.push("0123456789");
                cuts.extend(stream.settle());
                assert!(stream.tail().len() < 2 * LONGEST_BLOCK);
            }
            cuts.extend(stream.finish());
            assert_eq!(cuts.matches(|character: char| character.is_ascii_digit()).count(), 1_000_000);
        }
    }
}
