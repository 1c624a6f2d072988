//! Keybindings.
//!
//! [`KeyMap`] holds the keys of every command. One key may be bound to several; which of them is meant depends on
//! where the person is, a [`Context`]. Terminals without the kitty protocol send some keys as others (Ctrl+H for
//! Backspace, Ctrl+J for a new line, Escape before a key for Alt); the default keys hold for both.

mod chord;
mod command;
pub(crate) mod encode;
mod file;

#[cfg(test)]
mod tests;

use crossterm::event::KeyEvent;

pub use command::Command;
pub use file::BindingError;

use chord::Chord;

/// Commands by their names alone.
macro_rules! list {
    ($($name:ident,)*) => { &[$(Command::$name),*] };
}

/// Where a key is pressed: the commands that can be meant there, first match wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The prompt, as far as it is edited.
    Composer,
    /// The prompt while suggestions are shown.
    Suggestions,
    /// The prompt while earlier prompts are searched.
    Search,
    /// Keys that the composer does not handle.
    App,
    /// A dialog in which letters are not typed.
    Dialog,
    /// A dialog or list with a field for text.
    List,
    /// A running command that gets the keys.
    Shell,
    /// A background command that is shown.
    Background,
    /// The list of background commands.
    BackgroundList,
    /// The list of extensions.
    Extensions,
}

impl Context {
    fn commands(self) -> &'static [Command] {
        match self {
            Self::Composer => list! {
                Submit, Newline, Cancel, Clear, Home, End, Up, NavUp, Down, NavDown, Left, Right, WordLeft,
                WordRight, DeleteRightAll, DeleteLeftAll, DeleteWordLeft, DeleteWordRight, DeleteLeft,
                DeleteRight, Undo, Redo, Yank, HistoryPrevious, HistoryNext, SearchStart, OpenEditor,
                OldOpenEditor, PasteClipboard, ExpandPaste, QueueMessage, Confirm,
            },
            Self::Suggestions => list! {
                SuggestAccept, SuggestPrevious, SuggestNext, Cancel,
            },
            Self::Search => list! {
                SearchSubmit, SearchAccept, SearchStart, NavUp, NavDown, Cancel,
            },
            Self::App => list! {
                Quit, Exit, Detach, Cancel, ScrollUp, ScrollDown, ScrollHome, ScrollEnd, PageUp, PageDown,
                ShowErrors, ShowTodos, ShowIdeContext, ToggleMarkdown, ToggleCopyMode, ToggleMouse,
                ToggleYolo, CycleMode, ShowMoreLines, FocusShell, ClearScreen, Suspend, BackgroundToggle,
                BackgroundList, DumpFrame, StartRecording, StopRecording,
            },
            Self::Dialog => list! {
                Confirm, Cancel, DialogUp, DialogDown, DialogNext, DialogPrevious, Home, End, PageUp,
                PageDown, ShowMoreLines, Quit, Restart,
            },
            Self::List => list! {
                Confirm, Cancel, NavUp, NavDown, DialogNext, DialogPrevious, PageUp, PageDown, ClearScreen,
                DeleteLeft, DeleteWordLeft, DeleteLeftAll, Quit,
            },
            Self::Shell => list! {
                UnfocusShell, BackgroundToggle, ShellUnfocusWarning,
            },
            Self::Background => list! {
                BackgroundUnfocus, BackgroundToggle, BackgroundList, BackgroundKill, PageUp, PageDown,
            },
            Self::BackgroundList => list! {
                BackgroundSelect, BackgroundEscape, BackgroundKill, BackgroundUnfocusList, BackgroundList,
                BackgroundToggle, DialogUp, DialogDown,
            },
            Self::Extensions => list! {
                ExtensionUpdate, ExtensionLink, Confirm, Cancel, DialogUp, DialogDown,
            },
        }
    }
}

/// A command with its keys, for a list of shortcuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortcut {
    pub command: Command,
    pub section: &'static str,
    pub keys: String,
    pub description: &'static str,
}

/// The keys of every command.
#[derive(Debug, Clone)]
pub struct KeyMap {
    /// In the order of `Command::ALL`.
    bindings: Vec<Vec<Chord>>,
}

impl Default for KeyMap {
    fn default() -> Self {
        let chords =
            |command: Command| command.defaults().iter().filter_map(|key| Chord::parse(key)).collect();
        Self { bindings: Command::ALL.iter().map(|command| chords(*command)).collect() }
    }
}

impl KeyMap {
    /// The default keys with the changes of `keybindings.json`, and the errors in it.
    pub fn read(text: &str) -> (Self, Vec<BindingError>) {
        file::read(text)
    }

    /// The command of a key in a context.
    pub fn command(&self, event: &KeyEvent, context: Context) -> Option<Command> {
        Chord::of(event).find_map(|chord| {
            context.commands().iter().find(|command| self.chords(**command).contains(&chord)).copied()
        })
    }

    /// Whether the key is bound to the command, wherever that may be.
    pub fn is(&self, event: &KeyEvent, command: Command) -> bool {
        let bound = self.chords(command);
        Chord::of(event).any(|chord| bound.contains(&chord))
    }

    /// The key to name in a hint, such as `Ctrl+O`; empty when there is none.
    pub fn key(&self, command: Command) -> String {
        self.chords(command).first().map(|chord| chord.label()).unwrap_or_default()
    }

    /// The last of its keys. Of the default ones that is the key that every terminal can send.
    pub fn last_key(&self, command: Command) -> String {
        self.chords(command).last().map(|chord| chord.label()).unwrap_or_default()
    }

    /// Every command that has a key and an effect, by section.
    pub fn listing(&self) -> Vec<Shortcut> {
        let keys = |chords: &[Chord]| chords.iter().map(|chord| chord.label()).collect::<Vec<_>>().join(", ");
        Command::ALL
            .iter()
            .map(|command| (command, self.chords(*command)))
            .filter(|(command, chords)| command.has_effect() && !chords.is_empty())
            .map(|(command, chords)| Shortcut {
                command: *command,
                section: command.section(),
                keys: keys(chords),
                description: command.description(),
            })
            .collect()
    }

    fn chords(&self, command: Command) -> &[Chord] {
        self.bindings.get(command as usize).map_or(&[], Vec::as_slice)
    }

    /// New keys come first: they are the ones hints name.
    fn add(&mut self, command: Command, chord: Chord) {
        if let Some(chords) = self.bindings.get_mut(command as usize) {
            chords.retain(|known| *known != chord);
            chords.insert(0, chord);
        }
    }

    fn remove(&mut self, command: Command, chord: Chord) -> bool {
        let Some(chords) = self.bindings.get_mut(command as usize) else { return false };
        let before = chords.len();
        chords.retain(|known| *known != chord);
        chords.len() < before
    }
}
