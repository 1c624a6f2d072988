//! What stands between two entries of an object: white space, comments and the comma.

use jsonc_parser::ast::Object;

/// The text between the end of one entry (or `{`) and the start of the next (or `}`).
pub(super) struct Gap {
    comments: Vec<Comment>,
    /// Offset of the comma, if there is one.
    pub(super) comma: Option<usize>,
}

#[derive(Clone, Copy)]
pub(super) struct Comment {
    pub(super) from: usize,
    pub(super) to: usize,
    /// On the line where the gap begins.
    same_line: bool,
    /// A blank line follows somewhere, so it is not about the next entry.
    set_apart: bool,
}

impl Comment {
    pub(super) fn text<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.from..self.to).unwrap_or_default()
    }
}

impl Gap {
    pub(super) fn before(text: &str, object: &Object<'_>, index: usize) -> Option<Self> {
        let from = match index.checked_sub(1) {
            Some(previous) => object.properties.get(previous)?.range.end,
            None => object.range.start + 1,
        };
        Some(Self::read(text, from, object.properties.get(index)?.range.start))
    }

    pub(super) fn after(text: &str, object: &Object<'_>, index: usize) -> Option<Self> {
        let to = match object.properties.get(index + 1) {
            Some(next) => next.range.start,
            None => object.range.end.saturating_sub(1),
        };
        Some(Self::read(text, object.properties.get(index)?.range.end, to))
    }

    /// Comments about the entry that follows the gap.
    pub(super) fn leading(&self) -> impl Iterator<Item = Comment> + '_ {
        self.comments.iter().filter(|comment| !comment.same_line && !comment.set_apart).copied()
    }

    /// Comments on the line of the entry before the gap.
    pub(super) fn trailing(&self) -> impl Iterator<Item = Comment> + '_ {
        self.comments.iter().filter(|comment| comment.same_line).copied()
    }

    fn read(text: &str, from: usize, to: usize) -> Self {
        let bytes = text.as_bytes().get(..to).unwrap_or_default();
        let mut gap = Self { comments: Vec::new(), comma: None };
        let (mut at, mut first_line, mut newlines) = (from, true, 0);
        while let Some(byte) = bytes.get(at) {
            let next = bytes.get(at + 1);
            match byte {
                b'/' => {
                    let end = if next == Some(&b'*') {
                        find(bytes, at + 2, b"*/").map_or(to, |close| close + 2)
                    } else {
                        find(bytes, at, b"\n").map_or(to, |newline| {
                            if bytes.get(newline - 1) == Some(&b'\r') { newline - 1 } else { newline }
                        })
                    };
                    gap.comments.push(Comment { from: at, to: end, same_line: first_line, set_apart: false });
                    newlines = 0;
                    at = end;
                    continue;
                }
                b',' => gap.comma = Some(at),
                b'\n' => {
                    first_line = false;
                    newlines += 1;
                    if newlines > 1 {
                        gap.comments.iter_mut().for_each(|comment| comment.set_apart = true);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        // `{"a": 1, /* about b */ "b": 2}`: what follows the comma without a line break is about `b`.
        if first_line && let Some(comma) = gap.comma {
            gap.comments.iter_mut().filter(|comment| comment.from > comma).for_each(|comment| {
                comment.same_line = false;
            });
        }
        gap
    }
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(what.len()).position(|window| window == what).map(|at| from + at)
}
