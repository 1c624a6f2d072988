//! Draws a [`Panel`]: figures in a box.

use pollux_domain::panel::{Panel, PanelRow};
use pollux_domain::terminal_text::one_line;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::look::Look;
use super::tool_box::boxed;
use crate::wrap::{Margin, wrap};

/// The longest bar.
const BAR: u64 = 40;
/// Eighths of a cell.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const LABEL: usize = 28;
/// What a narrow table leaves of its first column.
const FIRST_COLUMN: usize = 7;

pub(super) fn lines(panel: &Panel, look: Look<'_>) -> Vec<Line<'static>> {
    let theme = look.theme;
    let bold = theme.accent().add_modifier(Modifier::BOLD);
    let inner = look.width.saturating_sub(4).max(1);
    let mut lines = vec![Line::default()];
    lines.extend(wrap(&[Span::styled(one_line(&panel.title), bold)], inner, &Margin::default()));
    lines.push(Line::default());
    for row in &panel.rows {
        match row {
            PanelRow::Blank => lines.push(Line::default()),
            PanelRow::Heading(text) => lines.push(Line::from(Span::styled(text.clone(), bold))),
            PanelRow::Text(text) => {
                lines.extend(wrap(
                    &[Span::styled(one_line(text), theme.secondary())],
                    inner,
                    &Margin::default(),
                ));
            }
            PanelRow::Pair(name, value) => {
                let wide = LABEL.min(usize::from(inner) / 2);
                let name = format!("{name:wide$} ");
                let margin = Margin::hanging(Span::styled(name, theme.link_plain()));
                lines.extend(wrap(&[Span::styled(one_line(value), theme.text())], inner, &margin));
            }
            PanelRow::Table(rows) => lines.extend(table(rows, inner, look)),
            PanelRow::Bars(bars) => lines.extend(plot(bars, inner, look)),
        }
    }
    boxed(lines, theme.border(), look)
}

/// Columns as wide as their content. Where they do not fit, the words of headings are stacked, the first column shrinks,
/// and the last columns are omitted.
fn table(rows: &[Vec<String>], inner: u16, look: Look<'_>) -> Vec<Line<'static>> {
    let room = usize::from(inner);
    let mut headings = rows.iter().take(1).cloned().collect::<Vec<_>>();
    let body = rows.get(1..).unwrap_or_default();
    let mut widths = natural_widths(&headings, body);
    if needed(&widths, *widths.first().unwrap_or(&0)) > room {
        headings = stacked(rows.first().map_or(&[][..], Vec::as_slice));
        widths = natural_widths(&headings, body);
    }
    let least = widths.first().copied().unwrap_or_default().min(FIRST_COLUMN);
    while widths.len() > 2 && needed(&widths, least) > room {
        widths.pop();
    }
    let rest = needed(&widths, 0);
    if let Some(first) = widths.first_mut() {
        *first = (*first).min(room.saturating_sub(rest)).max(least);
    }
    let columns = widths.len();
    let mut lines = Vec::new();
    for (index, row) in headings.iter().chain(body).enumerate() {
        let is_heading = index < headings.len();
        let style = if is_heading { look.theme.secondary() } else { look.theme.text() };
        let mut text = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let indent = cell.len() - cell.trim_start_matches(' ').len();
            let cell = cut_to_width(&format!("{:indent$}{}", "", one_line(cell)), *width);
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            match column {
                0 => text.extend([cell.as_str(), &blanks]),
                _ => text.extend(["  ", &blanks, &cell]),
            }
        }
        lines.push(Line::from(Span::styled(text, style)));
        if index + 1 == headings.len() {
            let rule = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
            lines.push(Line::from(Span::styled(
                "─".repeat(rule.min(usize::from(inner))),
                look.theme.border(),
            )));
        }
    }
    lines
}

fn natural_widths(headings: &[Vec<String>], body: &[Vec<String>]) -> Vec<usize> {
    let rows = || headings.iter().chain(body);
    let columns = rows().map(Vec::len).max().unwrap_or_default();
    let wide = |column: usize| rows().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
    (0..columns).map(|column| wide(column).unwrap_or_default()).collect()
}

/// The width of a table whose first column is this wide.
fn needed(widths: &[usize], first: usize) -> usize {
    first + widths.iter().skip(1).map(|width| width + 2).sum::<usize>()
}

/// The headings with one word below the other.
fn stacked(headings: &[String]) -> Vec<Vec<String>> {
    let words: Vec<Vec<&str>> = headings.iter().map(|text| text.split_whitespace().collect()).collect();
    let height = words.iter().map(Vec::len).max().unwrap_or_default();
    let row = |index: usize| {
        let word = |words: &Vec<&str>| {
            let above = height - words.len();
            index
                .checked_sub(above)
                .and_then(|place| words.get(place))
                .copied()
                .unwrap_or_default()
                .to_owned()
        };
        words.iter().map(word).collect()
    };
    (0..height).map(row).collect()
}

fn plot(bars: &[(String, u64, String)], inner: u16, look: Look<'_>) -> Vec<Line<'static>> {
    let name = bars.iter().map(|(name, ..)| name.width()).max().unwrap_or_default();
    let behind = bars.iter().map(|(.., text)| text.width()).max().unwrap_or_default();
    let most = bars.iter().map(|(_, value, _)| *value).max().unwrap_or_default().max(1);
    let room =
        u64::from(inner).saturating_sub(u64::try_from(name + behind + 3).unwrap_or(u64::MAX)).clamp(1, BAR);
    let lines = bars.iter().map(|(label, value, text)| {
        let eighths = usize::try_from(value * room * 8 / most).unwrap_or_default();
        let end = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
        Line::from(vec![
            Span::styled(format!("{label:>name$} "), look.theme.secondary()),
            Span::styled(format!("{}{end}", "█".repeat(eighths / 8)), look.theme.accent()),
            Span::styled(format!(" {text}"), look.theme.text()),
        ])
    });
    lines.collect()
}

/// Cut to a width, with a sign that says so.
pub(crate) fn cut_to_width(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    for character in text.chars() {
        if kept.width() + character.to_string().width() + 1 > most {
            break;
        }
        kept.push(character);
    }
    if most > 0 {
        kept.push('…');
    }
    kept
}
