//! Where vim's motions lead.

use unicode_segmentation::UnicodeSegmentation;

use super::super::buffer::{Buffer, Class, Pos};

/// The extent of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Upto,
    Including,
    Lines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) to: Pos,
    pub(super) reach: Reach,
}

/// `f`, `F`, `t` or `T`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Find {
    pub(super) back: bool,
    /// Stops before it.
    pub(super) till: bool,
}

impl Find {
    pub(super) fn reversed(self) -> Self {
        Self { back: !self.back, ..self }
    }
}

/// A motion of one key.
pub(super) fn simple(buffer: &Buffer, c: char, count: usize, operates: bool) -> Option<Target> {
    let at = buffer.cursor();
    let upto = |to| Target { to, reach: Reach::Upto };
    let lines = |line| Target { to: Pos::new(line, 0), reach: Reach::Lines };
    Some(match c {
        'h' => upto(left_in_line(buffer, at, count)),
        'l' | ' ' => upto(right_in_line(buffer, at, count)),
        'j' => lines((at.line + count).min(buffer.line_count() - 1)),
        'k' => lines(at.line.saturating_sub(count)),
        '0' => upto(Pos::new(at.line, 0)),
        '^' => upto(first_word(buffer, at.line)),
        '$' => upto(buffer.line_end((at.line + count - 1).min(buffer.line_count() - 1))),
        'w' | 'W' => upto(word_start(buffer, c == 'W', count, operates)),
        'b' | 'B' => upto(word_back(buffer, c == 'B', count)),
        'e' | 'E' => word_end(buffer, c == 'E', count, false),
        _ => return None,
    })
}

pub(super) fn to_line(buffer: &Buffer, line: usize) -> Target {
    let line = line.min(buffer.line_count() - 1);
    Target { to: first_word(buffer, line), reach: Reach::Lines }
}

/// The first character of a line that is not blank.
pub(super) fn first_word(buffer: &Buffer, line: usize) -> Pos {
    buffer.skip(Pos::new(line, 0), |class| class == Class::Blank)
}

pub(super) fn left_in_line(buffer: &Buffer, mut at: Pos, count: usize) -> Pos {
    for _ in 0..count {
        if at.col == 0 {
            break;
        }
        at = buffer.left(at);
    }
    at
}

pub(super) fn right_in_line(buffer: &Buffer, mut at: Pos, count: usize) -> Pos {
    for _ in 0..count {
        let Some(cluster) = buffer.cluster_after(at) else { break };
        at.col += cluster.len();
    }
    at
}

/// In normal mode the cursor stands on a character, not behind the last one.
pub(super) fn stay_in_line(buffer: &mut Buffer) {
    let at = buffer.cursor();
    if at.col > 0 && at.col >= buffer.line(at.line).len() {
        buffer.go(buffer.left(at));
    }
}

pub(super) fn clusters(text: &str) -> usize {
    text.graphemes(true).count()
}

pub(super) fn swap_case(text: &str) -> String {
    let swap = |c: char| -> String {
        if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
    };
    text.chars().map(swap).collect()
}

pub(super) fn find(buffer: &Buffer, find: Find, sought: &str, count: usize) -> Option<Target> {
    let cursor = buffer.cursor();
    let line = buffer.line(cursor.line);
    let mut at = cursor;
    let mut left = count;
    while left > 0 {
        at = if find.back { left_in_line(buffer, at, 1) } else { right_in_line(buffer, at, 1) };
        let is_end = if find.back { at.col == 0 } else { at.col >= line.len() };
        let cluster = buffer.cluster_after(at).unwrap_or_default();
        // A `t` right before its target continues to the next one.
        let is_here = find.till && count == 1 && neighbour(buffer, cursor, find.back) == Some(at);
        if cluster == sought && !is_here {
            left -= 1;
        }
        if left > 0 && is_end {
            return None;
        }
    }
    if find.till {
        at = if find.back { right_in_line(buffer, at, 1) } else { left_in_line(buffer, at, 1) };
    }
    let reach = if find.back { Reach::Upto } else { Reach::Including };
    Some(Target { to: at, reach })
}

fn neighbour(buffer: &Buffer, at: Pos, back: bool) -> Option<Pos> {
    let next = if back { left_in_line(buffer, at, 1) } else { right_in_line(buffer, at, 1) };
    (next != at).then_some(next)
}

/// With `big`, words are separated by blanks only.
fn same(big: bool, one: Class, other: Class) -> bool {
    one == other || (big && one != Class::Blank && other != Class::Blank)
}

fn class_at(buffer: &Buffer, at: Pos) -> Option<Class> {
    buffer.cluster_after(at).map(Class::of)
}

/// The start of the next word. An operator stays in the line with the last one.
fn word_start(buffer: &Buffer, big: bool, count: usize, operates: bool) -> Pos {
    let mut at = buffer.cursor();
    for step in 1..=count {
        let line = at.line;
        let before = at;
        if let Some(class) = class_at(buffer, at).filter(|class| *class != Class::Blank) {
            at = buffer.skip(at, |other| same(big, class, other));
        }
        at = buffer.skip(at, |class| class == Class::Blank);
        while class_at(buffer, at).is_none() && at.line + 1 < buffer.line_count() {
            if operates && step == count {
                // A word alone on its line: the line end goes when there is nothing else to take.
                return if at == before { buffer.right(at) } else { at };
            }
            at = first_word(buffer, at.line + 1);
            // An empty line is a word.
            if buffer.line(at.line).is_empty() {
                break;
            }
        }
        if at.line == line && at == before {
            break;
        }
    }
    at
}

fn word_back(buffer: &Buffer, big: bool, count: usize) -> Pos {
    let mut at = buffer.cursor();
    for _ in 0..count {
        at = buffer.skip_back(at, |class| class == Class::Blank);
        while at.col == 0 && at.line > 0 {
            at = buffer.line_end(at.line - 1);
            if at.col == 0 {
                break;
            }
            at = buffer.skip_back(at, |class| class == Class::Blank);
        }
        if let Some(class) = buffer.cluster_before(at).map(Class::of) {
            at = buffer.skip_back(at, |other| same(big, class, other));
        }
    }
    at
}

/// The last character of a word; `here` counts the one the cursor stands at the end of.
pub(super) fn word_end(buffer: &Buffer, big: bool, count: usize, here: bool) -> Target {
    let mut at = buffer.cursor();
    for step in 0..count {
        let mut next = if here && step == 0 { at } else { buffer.right(at) };
        next = buffer.skip(next, |class| class == Class::Blank);
        while class_at(buffer, next).is_none() && next.line + 1 < buffer.line_count() {
            next = first_word(buffer, next.line + 1);
        }
        let Some(class) = class_at(buffer, next) else { break };
        at = buffer.left(buffer.skip(next, |other| same(big, class, other)));
    }
    Target { to: at, reach: Reach::Including }
}
