//! Vim keys: a normal mode of motions, operators, counts and repetition over the buffer.

mod edit;
mod motion;

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::buffer::{Buffer, Pos, Register};
use super::{Composer, Reaction};
use crate::keys::Command;
use motion::{Find, Reach, Target};

/// Keys of one change that are remembered for `.`; a longer one cannot be repeated.
const MOST_KEYS: usize = 4096;
const MOST_COUNT: usize = 9999;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VimMode {
    Insert,
    Normal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Delete,
    Change,
    Yank,
}

/// A pending command that needs another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Nothing,
    /// `g`
    Go,
    /// `r`
    Replace,
    /// `f`, `F`, `t`, `T`
    Find(Find),
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not a key of vim here.
    Pass,
    /// The cursor moved, or the key is part of a command.
    Moved,
    Edited,
    /// The last change is to be made again.
    Repeat(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Vim {
    pub(crate) mode: VimMode,
    count: usize,
    /// With the count before it.
    operator: Option<(Operator, usize)>,
    pending: Pending,
    last_find: Option<(Find, String)>,
    /// The keys of the change that is being made; `None` when it grew too long.
    keys: Option<Vec<KeyEvent>>,
    change: Vec<KeyEvent>,
}

impl Default for Vim {
    fn default() -> Self {
        Self {
            mode: VimMode::Insert,
            count: 0,
            operator: None,
            pending: Pending::Nothing,
            last_find: None,
            keys: None,
            change: Vec::new(),
        }
    }
}

impl Vim {
    /// The keys `.` repeats.
    pub(crate) fn change(&self) -> Vec<KeyEvent> {
        self.change.clone()
    }

    fn is_waiting(&self) -> bool {
        self.count > 0 || self.operator.is_some() || self.pending != Pending::Nothing
    }

    fn stop_waiting(&mut self) {
        (self.count, self.operator, self.pending) = (0, None, Pending::Nothing);
    }

    /// Forgets a command that is half typed.
    pub(crate) fn rest(&mut self) {
        self.stop_waiting();
        self.keys = None;
    }

    /// A key in either mode.
    pub(crate) fn key(&mut self, event: &KeyEvent, buffer: &mut Buffer) -> Outcome {
        match self.mode {
            VimMode::Insert => {
                self.remember(event);
                Outcome::Pass
            }
            VimMode::Normal => self.normal(event, buffer),
        }
    }

    /// Escape: true when it was vim's.
    pub(crate) fn escape(&mut self, event: &KeyEvent, buffer: &mut Buffer) -> bool {
        match self.mode {
            VimMode::Insert => {
                self.remember(event);
                self.mode = VimMode::Normal;
                if let Some(keys) = self.keys.take() {
                    self.change = keys;
                }
                if buffer.cursor().col > 0 {
                    buffer.go(buffer.left(buffer.cursor()));
                }
                true
            }
            VimMode::Normal => {
                let waited = self.is_waiting();
                self.rest();
                waited
            }
        }
    }

    fn remember(&mut self, event: &KeyEvent) {
        if let Some(keys) = &mut self.keys {
            keys.push(*event);
            if keys.len() > MOST_KEYS {
                self.keys = None;
            }
        }
    }

    fn normal(&mut self, event: &KeyEvent, buffer: &mut Buffer) -> Outcome {
        let KeyCode::Char(c) = event.code else {
            return self.named_key(event, buffer);
        };
        if event.modifiers.intersects(!KeyModifiers::SHIFT) {
            self.rest();
            return Outcome::Pass;
        }
        if !self.is_waiting() {
            self.keys = Some(Vec::new());
        }
        self.remember(event);
        let revision = buffer.revision();
        let outcome = self.char(c, buffer);
        if !self.is_waiting() && self.mode == VimMode::Normal {
            motion::stay_in_line(buffer);
            if buffer.revision() != revision && c != 'u' {
                self.change = self.keys.take().unwrap_or_default();
            }
        }
        if outcome == Outcome::Moved && buffer.revision() != revision { Outcome::Edited } else { outcome }
    }

    /// Keys without a letter move as they do elsewhere; with an operator they end it.
    fn named_key(&mut self, event: &KeyEvent, buffer: &mut Buffer) -> Outcome {
        let c = match event.code {
            KeyCode::Left | KeyCode::Backspace => 'h',
            KeyCode::Right => 'l',
            KeyCode::Home => '0',
            KeyCode::End => '$',
            KeyCode::Delete => 'x',
            _ => {
                self.rest();
                return Outcome::Pass;
            }
        };
        let letter = KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
        if event.modifiers.is_empty() { self.normal(&letter, buffer) } else { Outcome::Pass }
    }

    fn char(&mut self, c: char, buffer: &mut Buffer) -> Outcome {
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Find(find) => {
                self.last_find = Some((find, c.to_string()));
                let target = motion::find(buffer, find, &c.to_string(), self.counted());
                return self.reach(target, buffer);
            }
            Pending::Replace => return self.replace(c, buffer),
            Pending::Go if c == 'g' => {
                let line = self.count_or(1) - 1;
                return self.reach(Some(motion::to_line(buffer, line)), buffer);
            }
            Pending::Go => {
                self.rest();
                return Outcome::Moved;
            }
            Pending::Nothing => {}
        }
        match c {
            '1'..='9' | '0' if c != '0' || self.count > 0 => {
                let digit = c.to_digit(10).and_then(|digit| usize::try_from(digit).ok()).unwrap_or(0);
                self.count = (self.count * 10 + digit).min(MOST_COUNT);
                Outcome::Moved
            }
            'd' => self.operate(Operator::Delete, buffer),
            'c' => self.operate(Operator::Change, buffer),
            'y' => self.operate(Operator::Yank, buffer),
            'g' => self.wait(Pending::Go),
            'f' => self.wait(Pending::Find(Find { back: false, till: false })),
            'F' => self.wait(Pending::Find(Find { back: true, till: false })),
            't' => self.wait(Pending::Find(Find { back: false, till: true })),
            'T' => self.wait(Pending::Find(Find { back: true, till: true })),
            ';' | ',' => {
                let target = self.last_find.clone().and_then(|(find, sought)| {
                    let find = if c == ',' { find.reversed() } else { find };
                    motion::find(buffer, find, &sought, self.counted())
                });
                self.reach(target, buffer)
            }
            'G' => {
                let line = self.count_or(buffer.line_count()) - 1;
                self.reach(Some(motion::to_line(buffer, line)), buffer)
            }
            'j' | 'k' if self.operator.is_none() => {
                for _ in 0..self.counted().min(buffer.line_count() * 1000) {
                    let moved = if c == 'j' { buffer.down() } else { buffer.up() };
                    if !moved {
                        break;
                    }
                }
                self.stop_waiting();
                Outcome::Moved
            }
            _ => match motion::simple(buffer, c, self.counted(), self.operator.is_some()) {
                Some(target) => self.reach(Some(self.changing_word(c, target, buffer)), buffer),
                None if self.operator.is_none() => self.command(c, buffer),
                None => {
                    self.rest();
                    Outcome::Moved
                }
            },
        }
    }

    fn wait(&mut self, pending: Pending) -> Outcome {
        self.pending = pending;
        Outcome::Moved
    }

    /// `2d3w` deletes six words.
    fn counted(&self) -> usize {
        let before = self.operator.map_or(1, |(_, count)| count.max(1));
        (self.count.max(1) * before).min(MOST_COUNT)
    }

    fn count_or(&self, default: usize) -> usize {
        let given = self.count.max(self.operator.map_or(0, |(_, count)| count));
        if given > 0 { given } else { default }
    }

    /// `cw` on a word leaves the blanks behind it.
    fn changing_word(&self, c: char, target: Target, buffer: &Buffer) -> Target {
        let changes = self.operator.is_some_and(|(operator, _)| operator == Operator::Change);
        let on_word = buffer.cluster_after(buffer.cursor()).is_some_and(|cluster| !cluster.trim().is_empty());
        match c {
            'w' | 'W' if changes && on_word => motion::word_end(buffer, c == 'W', self.counted(), true),
            _ => target,
        }
    }

    /// An operator key: the second of the same means whole lines.
    fn operate(&mut self, operator: Operator, buffer: &mut Buffer) -> Outcome {
        match self.operator {
            None => {
                self.operator = Some((operator, self.count));
                self.count = 0;
                Outcome::Moved
            }
            Some((waiting, _)) if waiting == operator => {
                let last = buffer.cursor().line + self.counted() - 1;
                let target =
                    Target { to: Pos::new(last.min(buffer.line_count() - 1), 0), reach: Reach::Lines };
                self.reach(Some(target), buffer)
            }
            Some(_) => {
                self.rest();
                Outcome::Moved
            }
        }
    }

    /// Moves to a target, or applies the operator to it.
    fn reach(&mut self, target: Option<Target>, buffer: &mut Buffer) -> Outcome {
        let operator = self.operator.map(|(operator, _)| operator);
        self.stop_waiting();
        let Some(target) = target else { return Outcome::Moved };
        let Some(operator) = operator else {
            buffer.go(target.to);
            return Outcome::Moved;
        };
        let from = buffer.cursor();
        match target.reach {
            Reach::Lines => self.take_lines(
                operator,
                from.line.min(target.to.line),
                from.line.max(target.to.line),
                buffer,
            ),
            Reach::Upto | Reach::Including => {
                let (start, mut end) = (from.min(target.to), from.max(target.to));
                if target.reach == Reach::Including {
                    end = motion::right_in_line(buffer, end, 1);
                }
                match operator {
                    Operator::Yank => {
                        buffer.register = Register { text: buffer.keep(start..end), lines: false };
                        buffer.go(start);
                    }
                    Operator::Delete => buffer.cut(start..end),
                    Operator::Change => {
                        buffer.cut(start..end);
                        self.mode = VimMode::Insert;
                    }
                }
            }
        }
        Outcome::Moved
    }

    fn take_lines(&mut self, operator: Operator, first: usize, last: usize, buffer: &mut Buffer) {
        let whole = Pos::new(first, 0)..buffer.line_end(last);
        let register = Register { text: buffer.keep(whole.clone()), lines: true };
        match operator {
            Operator::Yank => {}
            Operator::Change => {
                buffer.cut(whole);
                self.mode = VimMode::Insert;
            }
            Operator::Delete => {
                let range = if last + 1 < buffer.line_count() {
                    Pos::new(first, 0)..Pos::new(last + 1, 0)
                } else if first > 0 {
                    buffer.line_end(first - 1)..whole.end
                } else {
                    whole
                };
                buffer.cut(range);
                let line = first.min(buffer.line_count() - 1);
                buffer.go(motion::first_word(buffer, line));
            }
        }
        buffer.register = register;
    }
}

impl Composer {
    pub(super) fn vim_key(&mut self, event: &KeyEvent, now: Instant) -> Option<Reaction> {
        let vim = self.vim.as_mut()?;
        if self.keys.is(event, Command::Cancel) {
            if vim.escape(event, &mut self.buffer) {
                self.completion.close();
                self.taps.escape = Some(now);
                return Some(Reaction::Changed);
            }
            return None;
        }
        match vim.key(event, &mut self.buffer) {
            Outcome::Pass => None,
            Outcome::Moved | Outcome::Edited => Some(self.moved()),
            Outcome::Repeat(count) => {
                let change = vim.change();
                for _ in 0..count.min(100) {
                    self.replay(&change, now);
                }
                Some(self.moved())
            }
        }
    }

    /// Repeats a change, without sending anything again.
    fn replay(&mut self, change: &[KeyEvent], now: Instant) {
        for event in change {
            if self.keys.is(event, Command::Submit) || self.keys.is(event, Command::QueueMessage) {
                continue;
            }
            drop(self.dispatch(*event, now));
        }
    }
}
