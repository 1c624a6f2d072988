//! A list to search and choose from: sessions, settings, themes, models, and every short question.

mod sample;
mod view;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pollux_domain::terminal_text::one_line;

use super::Verdict;
use super::body::Reading;
use crate::theme::Theme;

/// A row of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PickerRow {
    /// Identifies the row to the program.
    pub key: String,
    /// Its columns; the last one takes the room that is left.
    pub columns: Vec<String>,
    /// More about it, shown while it is marked.
    pub preview: Vec<String>,
    /// Colours of which a sample is shown while it is marked.
    pub sample: Option<Box<Theme>>,
}

/// How a list behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PickerOptions {
    /// The title says how many rows there are.
    pub counted: bool,
    /// Rows have numbers, and a digit chooses.
    pub numbered: bool,
    /// It stays after a choice, until the program closes it.
    pub stays_open: bool,
    /// Typing searches at once.
    pub type_to_search: bool,
    /// Columns that a narrow screen omits, in this order.
    pub optional_columns: &'static [usize],
    /// The person did not ask for it; keys meant for the prompt do not answer it.
    pub unrequested: bool,
}

/// A letter that does something with the marked row. [`TAB`], [`RESET`], [`LEFT`] and [`RIGHT`] stand for keys.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Letter {
    letter: char,
    about: String,
    /// It must be pressed twice.
    confirm: bool,
}

/// The Tab key.
pub const TAB: char = '\t';
/// Ctrl+L.
pub const RESET: char = '\u{c}';
/// The arrow keys to the sides.
pub const LEFT: char = '←';
pub const RIGHT: char = '→';

/// Rows that stand for "no" are known by these keys.
const NO: &[&str] = &["no", "never"];

/// A list with a search line.
#[derive(Debug, Default)]
pub struct Picker {
    title: String,
    /// Shown after the title, such as the sort order.
    note: String,
    /// Lines above the list.
    about: Vec<String>,
    headings: Vec<String>,
    rows: Vec<PickerRow>,
    letters: Vec<Letter>,
    /// Lines below the list, such as where a change goes.
    foot: Vec<String>,
    /// The hint about keys, if not the default one.
    hint: Option<String>,
    options: PickerOptions,
    /// Rows that match the search, as indexes into `rows`.
    found: Vec<usize>,
    marked: usize,
    /// The program said which row is marked.
    meant: bool,
    top: usize,
    searched: String,
    searching: bool,
    /// The letter that was pressed once and must be confirmed.
    confirm: Option<char>,
    /// How far the lines above the list were read.
    reading: Reading,
}

impl Picker {
    pub fn new(title: impl Into<String>, headings: &[&str], rows: Vec<PickerRow>) -> Self {
        let found = (0..rows.len()).collect();
        let headings = headings.iter().map(|&heading| heading.to_owned()).collect();
        Self { title: title.into(), headings, rows, found, ..Self::default() }
    }

    #[must_use]
    pub fn options(mut self, options: PickerOptions) -> Self {
        self.options = options;
        self
    }

    /// A letter that does something with the marked row; with `confirm` it must be pressed twice.
    #[must_use]
    pub fn letter(mut self, letter: char, about: &str, confirm: bool) -> Self {
        self.letters.push(Letter { letter, about: about.to_owned(), confirm });
        self
    }

    /// Sets the text after the title.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Sets the lines above the list.
    #[must_use]
    pub fn about(mut self, lines: Vec<String>) -> Self {
        self.about = lines;
        self
    }

    /// Lines below the list.
    #[must_use]
    pub fn foot(mut self, lines: Vec<String>) -> Self {
        self.foot = lines;
        self
    }

    /// Sets the hint about keys.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Marks the row with this key.
    #[must_use]
    pub fn mark(mut self, key: &str) -> Self {
        self.mark_row(key);
        self.meant = true;
        self
    }

    /// Goes on where another list stood, if it is the same one with other rows.
    #[must_use]
    pub(crate) fn after(mut self, before: &Self) -> Self {
        if self.title == before.title {
            self.searching = before.searching;
            self.searched.clone_from(&before.searched);
            let meant = self.marked().map(|row| row.key.clone()).filter(|_| self.meant);
            self.search();
            (self.marked, self.top) = (before.marked.min(self.found.len().saturating_sub(1)), before.top);
            meant.iter().for_each(|key| self.mark_row(key));
        }
        self
    }

    /// More about a row, if it is still there.
    pub fn set_preview(&mut self, key: &str, preview: Vec<String>) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.key == key) {
            row.preview = preview;
        }
    }

    /// Rows that have these words elsewhere, with the place, unless something else is searched meanwhile.
    pub fn set_hits(&mut self, words: &str, hits: Vec<(String, String)>) {
        if self.searched != words {
            return;
        }
        for (key, place) in hits {
            let Some(at) = self.rows.iter().position(|row| row.key == key) else { continue };
            if !self.found.contains(&at) {
                self.found.push(at);
            }
            if let Some(row) = self.rows.get_mut(at) {
                row.preview = vec![place];
            }
        }
    }

    /// The row that is marked.
    pub fn marked(&self) -> Option<&PickerRow> {
        self.rows.get(*self.found.get(self.marked)?)
    }

    pub(super) fn is_unrequested(&self) -> bool {
        self.options.unrequested
    }

    pub(super) fn is_searched(&self) -> bool {
        self.searching || self.options.type_to_search
    }

    pub(super) fn stays(&self) -> bool {
        self.options.stays_open
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Verdict {
        let before = self.marked().map(|row| row.key.clone());
        let searched = self.searched.clone();
        let verdict = self.press(key);
        if verdict != Verdict::Open {
            return verdict;
        }
        // The program may find the words elsewhere.
        if self.searched != searched && self.found.is_empty() {
            return Verdict::Searched(self.searched.clone());
        }
        match self.marked() {
            Some(row) if before.as_ref() != Some(&row.key) => Verdict::Marked(row.key.clone()),
            _ => Verdict::Open,
        }
    }

    fn press(&mut self, key: KeyEvent) -> Verdict {
        let confirming = self.confirm.take();
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if !self.about.is_empty() && self.reading.key(key) {
            return Verdict::Open;
        }
        if let Some(letter) = self.pressed_letter(key) {
            let confirm = self.letters.iter().any(|known| known.letter == letter && known.confirm);
            if !confirm || confirming == Some(letter) {
                return self.picked(Some(letter));
            }
            self.confirm = Some(letter);
            return Verdict::Open;
        }
        let typing = self.searching || self.options.type_to_search;
        match key.code {
            KeyCode::Char('c') if control => return Verdict::Closed,
            KeyCode::Esc if self.searching || !self.searched.is_empty() => {
                self.searching = false;
                self.searched.clear();
                self.search();
            }
            KeyCode::Esc => return Verdict::Closed,
            KeyCode::Up => self.go(-1),
            KeyCode::Down => self.go(1),
            KeyCode::PageUp => self.go(-10),
            KeyCode::PageDown => self.go(10),
            KeyCode::Home => self.marked = 0,
            KeyCode::End => self.marked = self.found.len().saturating_sub(1),
            KeyCode::Enter => return self.agreed(),
            KeyCode::Backspace if typing => {
                self.searched.pop();
                self.search();
            }
            KeyCode::Char(character) if typing && !control => {
                self.searched.push(character);
                self.search();
            }
            KeyCode::Char(character) if !control => return self.command(character),
            _ => {}
        }
        Verdict::Open
    }

    /// A character that is not searched for.
    fn command(&mut self, character: char) -> Verdict {
        match character {
            '/' if !self.options.numbered => self.searching = true,
            'k' => self.go(-1),
            'j' => self.go(1),
            'g' => self.marked = 0,
            'G' => self.marked = self.found.len().saturating_sub(1),
            'q' => return Verdict::Closed,
            // They mark; Enter says it.
            'y' => self.mark_row("yes"),
            'n' => NO.iter().for_each(|key| self.mark_row(key)),
            digit if self.options.numbered => {
                let number = digit.to_digit(10).and_then(|number| usize::try_from(number).ok());
                let place = number.and_then(|number| number.checked_sub(1));
                if let Some(place) = place.filter(|place| *place < self.found.len()) {
                    self.marked = place;
                    return self.agreed();
                }
                // A digit without a choice marks "no".
                if number.is_some() {
                    NO.iter().for_each(|key| self.mark_row(key));
                }
            }
            _ => {}
        }
        Verdict::Open
    }

    /// The letter that a key stands for, if it does something here.
    fn pressed_letter(&self, key: KeyEvent) -> Option<char> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let letter = match key.code {
            KeyCode::Tab => TAB,
            KeyCode::Left => LEFT,
            KeyCode::Right => RIGHT,
            KeyCode::Char('l') if control => RESET,
            KeyCode::Char(letter) if !control && !self.searching && !self.options.type_to_search => letter,
            _ => return None,
        };
        self.letters.iter().any(|known| known.letter == letter).then_some(letter)
    }

    /// Enter scrolls the lines above the list first, then chooses.
    fn agreed(&mut self) -> Verdict {
        if !self.about.is_empty() && !self.reading.is_read() {
            self.reading.next_page();
            return Verdict::Open;
        }
        self.picked(None)
    }

    pub(super) fn paste(&mut self, text: &str) {
        if self.searching || self.options.type_to_search {
            self.searched.push_str(&one_line(text));
            self.search();
        }
    }

    fn picked(&self, with: Option<char>) -> Verdict {
        match self.marked() {
            Some(row) => Verdict::Picked { key: row.key.clone(), with },
            None => Verdict::Open,
        }
    }

    fn go(&mut self, by: isize) {
        let last = self.found.len().saturating_sub(1);
        self.marked = self.marked.saturating_add_signed(by).min(last);
    }

    fn mark_row(&mut self, key: &str) {
        let row = self.rows.iter().position(|row| row.key == key);
        if let Some(place) = row.and_then(|row| self.found.iter().position(|found| *found == row)) {
            self.marked = place;
        }
    }

    /// Every word must be somewhere in the row; rows that have them in sight come first where typing searches.
    fn search(&mut self) {
        let words: Vec<String> = self.searched.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let has = |texts: &[String]| {
            let text = texts.join(" ").to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let rows = self.rows.iter().enumerate();
        let matches =
            |row: &PickerRow| words.is_empty() || has(&[row.columns.as_slice(), &row.preview].concat());
        self.found = rows.filter(|(_, row)| matches(row)).map(|(index, _)| index).collect();
        if self.options.type_to_search && !words.is_empty() {
            let rows = &self.rows;
            self.found.sort_by_cached_key(|place| rows.get(*place).is_none_or(|row| !has(&row.columns)));
        }
        self.marked = self.marked.min(self.found.len().saturating_sub(1));
    }
}
