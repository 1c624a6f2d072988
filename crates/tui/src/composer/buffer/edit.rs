//! The commands that edit a text, in the prompt as in the fields of dialogs.

use super::Buffer;
use crate::keys::Command;

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    /// It does not edit, or there is nothing to edit.
    Unhandled,
    /// The cursor is where it was.
    Stayed,
    /// The cursor moved, or an earlier text is back.
    Moved,
    /// The text may have changed.
    Changed,
}

impl Buffer {
    pub(crate) fn edit(&mut self, command: Command) -> Edit {
        let at = self.cursor();
        let to = match command {
            Command::Home => self.row_start(),
            Command::End => self.row_end(),
            Command::Left => self.left(at),
            Command::Right => self.right(at),
            Command::WordLeft => self.word_left(at),
            Command::WordRight => self.word_right(at),
            _ => return self.change(command),
        };
        self.go(to);
        if to == at { Edit::Stayed } else { Edit::Moved }
    }

    /// Commands that change the text.
    fn change(&mut self, command: Command) -> Edit {
        let at = self.cursor();
        match command {
            Command::DeleteRightAll => self.kill_right(),
            Command::DeleteLeftAll => self.kill_left(),
            Command::DeleteWordLeft => self.cut(self.word_left(at)..at),
            Command::DeleteWordRight => self.cut(at..self.word_right(at)),
            Command::DeleteLeft => drop(self.delete_left()),
            Command::DeleteRight if self.is_empty() => return Edit::Unhandled,
            Command::DeleteRight => drop(self.delete_right()),
            Command::Yank => {
                let text = self.register.text.clone();
                let text = self.adopt(&text);
                self.replace_raw(at..at, text);
            }
            Command::Undo if !self.can_undo() => return Edit::Unhandled,
            Command::Undo => {
                self.undo();
                return Edit::Moved;
            }
            Command::Redo => {
                self.redo();
                return Edit::Moved;
            }
            _ => return Edit::Unhandled,
        }
        Edit::Changed
    }
}
