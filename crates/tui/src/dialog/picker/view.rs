//! How a list looks.

use pollux_domain::terminal_text::{one_line, visible};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::{LEFT, Picker, PickerRow, RESET, RIGHT, TAB, sample};
use crate::dialog::Room;
use crate::wrap::{Margin, cut, wrap};

/// The width from which a sample is shown next to the list.
const SIDE_BY_SIDE: u16 = 64;
/// Rows of the list that stay visible if anything does.
const ROWS: usize = 3;
/// Rows of the text above the list that stay visible where there is room for a row of the list.
const ABOUT: usize = 2;
/// The widest that a column may be.
const COLUMN: usize = 40;

impl Picker {
    pub(in crate::dialog) fn lines(&mut self, room: Room<'_>) -> Vec<Line<'static>> {
        let mut lines = self.heading(room);
        if self.searching || self.options.type_to_search {
            lines.push(self.search_line(room));
        }
        let mut tail = self.foot_lines(room);
        tail.extend(self.hint_lines(room));
        let headings = usize::from(!self.headings.is_empty());
        let free = usize::from(room.height).saturating_sub(lines.len() + tail.len() + headings);
        let least = self.found.len().clamp(1, if self.options.numbered { 9 } else { ROWS });
        if !self.about.is_empty() {
            let about = self.about_lines(room);
            // The list gives rows away before the text does, which must be read.
            let most = free.saturating_sub(least).max(ABOUT).min(free.saturating_sub(1));
            lines.extend(self.reading.part(about, most, room));
        }
        let free = usize::from(room.height).saturating_sub(lines.len() + tail.len() + headings);
        lines.extend(self.list(free, least, room));
        lines.extend(tail);
        lines
    }

    fn heading(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let theme = room.theme;
        let bold = theme.accent().add_modifier(Modifier::BOLD);
        let mut spans = vec![Span::styled(visible(&self.title).into_owned(), bold)];
        if self.options.counted {
            spans.push(Span::styled(format!(" ({} total)", self.rows.len()), bold));
        }
        if !self.note.is_empty() {
            spans.push(Span::styled(format!("  {}", one_line(&self.note)), theme.secondary()));
        }
        wrap(&spans, room.width, &Margin::default())
    }

    fn about_lines(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let line = |text: &String| {
            wrap(
                &[Span::styled(visible(text).into_owned(), room.theme.text())],
                room.width,
                &Margin::default(),
            )
        };
        self.about.iter().flat_map(line).collect()
    }

    fn search_line(&self, room: Room<'_>) -> Line<'static> {
        let empty = self.searched.is_empty() && self.options.type_to_search;
        let found = match empty {
            true => "  Search to filter".to_owned(),
            false => format!("  {} found", self.found.len()),
        };
        let text = format!("/ {}▏", one_line(&self.searched));
        Line::from(vec![
            Span::styled(cut(&text, room.width), room.theme.accent()),
            Span::styled(
                cut(&found, room.width.saturating_sub(u16::try_from(text.width()).unwrap_or(u16::MAX))),
                room.theme.secondary(),
            ),
        ])
    }

    /// The rows and the details of the marked one, in `free` lines and those of the headings.
    fn list(&mut self, free: usize, least: usize, room: Room<'_>) -> Vec<Line<'static>> {
        let theme = self.marked().and_then(|row| row.sample.clone());
        if let Some(theme) = theme {
            let side = room.width >= SIDE_BY_SIDE;
            if side {
                let left = Room { width: room.width * 2 / 5, ..room };
                let rows = self.rows_lines(free, left);
                let sample = sample::lines(&theme, room.width - left.width - 2, free);
                return beside(rows, sample, left, room);
            }
            let sample = sample::lines(&theme, room.width, free.saturating_sub(least));
            let mut lines = self.rows_lines(free.saturating_sub(sample.len()), room);
            lines.extend(sample);
            return lines;
        }
        let preview = self.preview(free.saturating_sub(least), room);
        let mut lines = self.rows_lines(free.saturating_sub(preview.len()), room);
        lines.extend(preview);
        lines
    }

    fn rows_lines(&mut self, fits: usize, room: Room<'_>) -> Vec<Line<'static>> {
        let theme = room.theme;
        let fits = fits.max(1);
        self.top = self.top.min(self.marked).max((self.marked + 1).saturating_sub(fits));
        // A list that shrank is shown from where it is full.
        self.top = self.top.min(self.found.len().saturating_sub(fits));
        let shown = self.shown_columns(room.width);
        let of = |texts: &[String]| {
            shown.iter().filter_map(|place| texts.get(*place).cloned()).collect::<Vec<_>>()
        };
        let widths = self.widths(&shown, room.width);
        let mut lines = Vec::new();
        if !self.headings.is_empty() {
            let indent = if self.options.numbered { "     " } else { "  " };
            let text = format!("{indent}{}", columns(&of(&self.headings), &widths));
            lines.push(Line::from(Span::styled(cut(&text, room.width), theme.secondary())));
        }
        for (index, place) in self.found.iter().enumerate().skip(self.top).take(fits) {
            let marked = index == self.marked;
            let style = if marked { theme.focused() } else { theme.text() };
            let text =
                self.rows.get(*place).map(|row| columns(&of(&row.columns), &widths)).unwrap_or_default();
            let sign = if marked { "● " } else { "  " };
            let number = if self.options.numbered { format!("{}. ", index + 1) } else { String::new() };
            lines.push(Line::from(Span::styled(cut(&format!("{sign}{number}{text}"), room.width), style)));
        }
        if self.found.is_empty() {
            lines.push(Line::from(Span::styled("  Nothing found.", theme.secondary())));
        }
        lines
    }

    fn preview(&self, most: usize, room: Room<'_>) -> Vec<Line<'static>> {
        let texts = self.marked().map(|row| row.preview.as_slice()).unwrap_or_default();
        // The list takes precedence.
        let most = most.min((usize::from(room.height) * 2 / 5).max(1));
        let lines = texts.iter().flat_map(|text| {
            let text = Span::styled(one_line(text), room.theme.secondary());
            let margin = Margin::both(Span::styled("  │ ", room.theme.border()));
            wrap(&[text], room.width, &margin).into_iter().take(2)
        });
        lines.take(most).collect()
    }

    fn foot_lines(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let line = |text: &String| {
            wrap(
                &[Span::styled(visible(text).into_owned(), room.theme.text())],
                room.width,
                &Margin::default(),
            )
        };
        self.foot.iter().flat_map(line).collect()
    }

    fn hint_lines(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let confirmed = self
            .confirm
            .and_then(|letter| self.letters.iter().find(|known| known.letter == letter))
            .map(|known| format!("Press {} again to {}; any other key cancels.", known.letter, known.about));
        let style = if confirmed.is_some() { room.theme.warning() } else { room.theme.secondary() };
        let text = confirmed.or_else(|| self.hint.clone()).unwrap_or_else(|| self.usual_hint());
        wrap(&[Span::styled(text, style)], room.width, &Margin::default())
    }

    fn usual_hint(&self) -> String {
        if self.options.numbered {
            let letters =
                self.letters.iter().map(|known| format!(", {} to {}", name(known.letter), known.about));
            return format!("(Use Enter to select{}, Esc to close)", letters.collect::<String>());
        }
        let letters = self.letters.iter().map(|known| format!("{} {}", name(known.letter), known.about));
        let usual = ["↑/↓ move", "Enter choose", "/ search"].map(str::to_owned);
        let all: Vec<String> = usual.into_iter().chain(letters).chain(["q close".to_owned()]).collect();
        all.join(" · ")
    }

    /// The columns that fit; optional ones are omitted before any other is cut.
    fn shown_columns(&self, width: u16) -> Vec<usize> {
        let count = self.rows.iter().map(|row| row.columns.len()).max().unwrap_or_default();
        let mut shown: Vec<usize> = (0..count).collect();
        for omitted in self.options.optional_columns {
            let needed: usize = self.natural_widths(&shown).iter().map(|width| width + 3).sum();
            if needed <= usize::from(width) {
                break;
            }
            shown.retain(|place| place != omitted);
        }
        shown
    }

    /// The widths of these columns with all their text, up to a limit.
    fn natural_widths(&self, shown: &[usize]) -> Vec<usize> {
        let rows = self.found.iter().skip(self.top).take(200).filter_map(|place| self.rows.get(*place));
        let widest = |column: usize| {
            let texts = rows.clone().filter_map(|row: &PickerRow| row.columns.get(column));
            let texts = texts.chain(self.headings.get(column));
            texts.map(|text| text.width().min(COLUMN)).max().unwrap_or_default()
        };
        shown.iter().map(|column| widest(*column)).collect()
    }

    /// The widths of all these columns but the last, which keeps some room.
    fn widths(&self, shown: &[usize], width: u16) -> Vec<usize> {
        let count = shown.len().saturating_sub(1);
        let mut widths = self.natural_widths(shown.get(..count).unwrap_or_default());
        // On a narrow screen the widest gives way; where columns can be omitted, the last one needs its own width only,
        // and at most half of the room.
        let room = usize::from(width).saturating_sub(3 * count + 2);
        let last =
            self.natural_widths(shown.get(count..).unwrap_or_default()).first().copied().unwrap_or_default();
        let most = if self.options.optional_columns.is_empty() {
            room * 3 / 4
        } else {
            room.saturating_sub(last).max(room / 2)
        };
        while widths.iter().sum::<usize>() > most.max(count) {
            let Some(widest) = widths.iter_mut().max() else { break };
            *widest = widest.saturating_sub(1);
        }
        widths
    }
}

/// The name of a key.
fn name(letter: char) -> String {
    match letter {
        TAB => "Tab".to_owned(),
        RESET => "Ctrl+L".to_owned(),
        LEFT => "←".to_owned(),
        RIGHT => "→".to_owned(),
        ' ' => "Space".to_owned(),
        letter => letter.to_string(),
    }
}

fn beside(
    left: Vec<Line<'static>>,
    right: Vec<Line<'static>>,
    narrow: Room<'_>,
    room: Room<'_>,
) -> Vec<Line<'static>> {
    let rows = left.len().max(right.len());
    let (mut left, mut right) = (left.into_iter(), right.into_iter());
    let line = |_| {
        let mut line = left.next().unwrap_or_default();
        let blanks = usize::from(narrow.width).saturating_sub(line.width());
        line.push_span(Span::raw(" ".repeat(blanks)));
        line.push_span(Span::styled("│ ", room.theme.border()));
        line.spans.extend(right.next().unwrap_or_default().spans);
        line
    };
    (0..rows).map(line).collect()
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
