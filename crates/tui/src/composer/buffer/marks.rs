//! Places that stay where they are in the text while it changes around them.

use std::ops::Range;

use super::Pos;

/// Maximum number of marks; the oldest is dropped first.
const MAX: usize = 16;

/// A place in the text of the composer, for something that comes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    places: Vec<(Mark, Pos)>,
    /// Number of marks so far.
    count: u64,
}

impl Marks {
    pub(super) fn add(&mut self, at: Pos) -> Mark {
        self.count += 1;
        let mark = Mark(self.count);
        if self.places.len() >= MAX {
            self.places.remove(0);
        }
        self.places.push((mark, at));
        mark
    }

    pub(super) fn take(&mut self, mark: Mark) -> Option<Pos> {
        let index = self.places.iter().position(|(known, _)| *known == mark)?;
        Some(self.places.remove(index).1)
    }

    /// Moves the marks when text is replaced. Text inserted at a mark goes after it.
    pub(super) fn follow(&mut self, replaced: &Range<Pos>, new_end: Pos) {
        let Range { start, end } = *replaced;
        for (_, place) in &mut self.places {
            if *place <= start {
                continue;
            }
            *place = match *place {
                within if within < end => start,
                Pos { line, col } if line == end.line => {
                    Pos::new(new_end.line, new_end.col + (col - end.col))
                }
                Pos { line, col } => Pos::new(new_end.line + (line - end.line), col),
            };
        }
    }

    /// Forgets all places; later marks are different ones.
    pub(super) fn cleared(&self) -> Self {
        Self { places: Vec::new(), count: self.count }
    }
}
