//! A long list to search and choose from: sessions, settings, themes, models.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pollux_domain::terminal_text::{one_line, visible};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::{Room, Verdict};
use crate::wrap::{Margin, wrap};

/// Something to choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// What the program knows it by.
    pub key: String,
    /// Its columns; the last one takes the room that is left.
    pub columns: Vec<String>,
    /// More about it, shown while it is marked.
    pub preview: Vec<String>,
}

/// A list with a search line.
#[derive(Debug, Default)]
pub struct Picker {
    title: String,
    headings: Vec<String>,
    rows: Vec<Row>,
    /// Rows that match what is searched, as places in `rows`.
    found: Vec<usize>,
    marked: usize,
    top: usize,
    searched: String,
    searching: bool,
    /// Letters that do something with the marked row, and what.
    letters: Vec<(char, String)>,
    /// A letter that asks first, and that was pressed once.
    confirm: Option<char>,
    /// Letters that must be pressed twice.
    grave: Vec<char>,
    /// Lines above the list.
    about: Vec<String>,
}

impl Picker {
    pub fn new(title: impl Into<String>, headings: &[&str], rows: Vec<Row>) -> Self {
        let found = (0..rows.len()).collect();
        let headings = headings.iter().map(|&heading| heading.to_owned()).collect();
        Self { title: title.into(), headings, rows, found, ..Self::default() }
    }

    /// A letter that does something with the marked row; a grave one must be pressed twice.
    #[must_use]
    pub fn letter(mut self, letter: char, about: &str, grave: bool) -> Self {
        self.letters.push((letter, about.to_owned()));
        self.grave.extend(grave.then_some(letter));
        self
    }

    /// Lines above the list: what it is about.
    #[must_use]
    pub fn about(mut self, lines: Vec<String>) -> Self {
        self.about = lines;
        self
    }

    /// Marks the row with this key.
    #[must_use]
    pub fn mark(mut self, key: &str) -> Self {
        let place = self.rows.iter().position(|row| row.key == key);
        self.marked = place.and_then(|place| self.found.iter().position(|found| *found == place)).unwrap_or_default();
        self
    }

    /// Other rows, such as after one was deleted; the mark stays where it was.
    pub fn replace(&mut self, rows: Vec<Row>) {
        self.rows = rows;
        self.search();
    }

    /// The row that is marked.
    pub fn marked(&self) -> Option<&Row> {
        self.rows.get(*self.found.get(self.marked)?)
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Verdict {
        let confirming = self.confirm.take();
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Verdict::Closed,
            KeyCode::Esc if self.searching => {
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
            KeyCode::Enter => return self.picked(None),
            KeyCode::Backspace if self.searching => {
                self.searched.pop();
                self.search();
            }
            KeyCode::Char(character) if self.searching && !control => {
                self.searched.push(character);
                self.search();
            }
            KeyCode::Char('/') => self.searching = true,
            KeyCode::Char('k') => self.go(-1),
            KeyCode::Char('j') => self.go(1),
            KeyCode::Char('g') => self.marked = 0,
            KeyCode::Char('G') => self.marked = self.found.len().saturating_sub(1),
            KeyCode::Char('q') => return Verdict::Closed,
            KeyCode::Char(letter) if self.letters.iter().any(|(known, _)| *known == letter) => {
                if !self.grave.contains(&letter) || confirming == Some(letter) {
                    return self.picked(Some(letter));
                }
                self.confirm = Some(letter);
            }
            _ => {}
        }
        Verdict::Open
    }

    pub(super) fn paste(&mut self, text: &str) {
        if self.searching {
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

    /// Every word must be somewhere in the row.
    fn search(&mut self) {
        let words: Vec<String> = self.searched.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let matches = |row: &Row| {
            let text = [row.columns.as_slice(), row.preview.as_slice()].concat().join(" ").to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let rows = self.rows.iter().enumerate();
        self.found =
            rows.filter(|(_, row)| words.is_empty() || matches(row)).map(|(index, _)| index).collect();
        self.marked = self.marked.min(self.found.len().saturating_sub(1));
    }

    pub(super) fn lines(&mut self, room: Room<'_>) -> Vec<Line<'static>> {
        let theme = room.theme;
        let bold = theme.accent().add_modifier(Modifier::BOLD);
        let mut lines = vec![Line::from(vec![
            Span::styled(self.title.clone(), bold),
            Span::styled(format!(" ({} total)", self.found.len()), theme.secondary()),
        ])];
        for line in &self.about {
            lines.extend(wrap(
                &[Span::styled(visible(line).into_owned(), theme.text())],
                room.width,
                &Margin::default(),
            ));
        }
        if self.searching {
            let text = format!("/ {}▏", one_line(&self.searched));
            lines.push(Line::from(Span::styled(text, theme.accent())));
        }
        let preview = self.preview(room);
        let hint = self.hint(room);
        let used = lines.len() + preview.len() + hint.len() + usize::from(!self.headings.is_empty());
        let fits = usize::from(room.height).saturating_sub(used).max(1);
        let widths = self.widths();
        if !self.headings.is_empty() {
            lines.push(Line::from(Span::styled(
                format!("  {}", columns(&self.headings, &widths)),
                theme.secondary(),
            )));
        }
        self.top = self.top.min(self.marked).max((self.marked + 1).saturating_sub(fits));
        let places: Vec<usize> = self.found.iter().skip(self.top).take(fits).copied().collect();
        for (index, place) in places.into_iter().enumerate() {
            let marked = self.top + index == self.marked;
            let style = if marked { theme.focused() } else { theme.text() };
            let text = self.rows.get(place).map(|row| columns(&row.columns, &widths)).unwrap_or_default();
            let line = format!("{} {text}", if marked { "●" } else { " " });
            lines.push(Line::from(Span::styled(cut(&line, room.width), style)));
        }
        if self.found.is_empty() {
            lines.push(Line::from(Span::styled("  Nothing found.", theme.secondary())));
        }
        lines.extend(preview);
        lines.extend(hint);
        lines
    }

    fn preview(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let texts = self.marked().map(|row| row.preview.as_slice()).unwrap_or_default();
        // The list is what it is about.
        let most = usize::from(room.height) / 3;
        let lines = texts.iter().map(|text| {
            Line::from(Span::styled(
                cut(&format!("  │ {}", one_line(text)), room.width),
                room.theme.secondary(),
            ))
        });
        lines.take(most).collect()
    }

    fn hint(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let text = match self.confirm {
            Some(letter) => {
                let about =
                    self.letters.iter().find(|(known, _)| *known == letter).map(|(_, about)| about.as_str());
                format!("Press {letter} again to {}; any other key keeps it.", about.unwrap_or("do it"))
            }
            None => {
                let letters = self.letters.iter().map(|(letter, about)| format!("{letter} {about}"));
                let all: Vec<String> = ["↑/↓ move", "Enter choose", "/ search"]
                    .map(str::to_owned)
                    .into_iter()
                    .chain(letters)
                    .collect();
                format!("{} · q close", all.join(" · "))
            }
        };
        let style = if self.confirm.is_some() { room.theme.warning() } else { room.theme.secondary() };
        wrap(&[Span::styled(text, style)], room.width, &Margin::default())
    }

    /// The widths of all columns but the last.
    fn widths(&self) -> Vec<usize> {
        let count = self.rows.iter().map(|row| row.columns.len()).max().unwrap_or_default().saturating_sub(1);
        let shown = self.found.iter().skip(self.top).take(200).filter_map(|place| self.rows.get(*place));
        let mut widths: Vec<usize> =
            self.headings.iter().take(count).map(|heading| heading.width()).collect();
        widths.resize(count, 0);
        for row in shown {
            for (width, column) in widths.iter_mut().zip(&row.columns) {
                *width = (*width).max(column.width()).min(40);
            }
        }
        widths
    }
}

fn columns(texts: &[String], widths: &[usize]) -> String {
    let cells = texts.iter().enumerate().map(|(index, text)| {
        let text = one_line(text);
        match widths.get(index) {
            Some(width) => {
                let text = cut(&text, u16::try_from(*width).unwrap_or(u16::MAX));
                let blanks = width.saturating_sub(text.width());
                format!("{text}{}", " ".repeat(blanks))
            }
            None => text,
        }
    });
    cells.collect::<Vec<_>>().join(" │ ")
}

/// The text, no wider than `width`.
fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    for character in text.chars() {
        if shown.width() + character.to_string().width() + 1 > width {
            break;
        }
        shown.push(character);
    }
    shown.push('…');
    shown
}
