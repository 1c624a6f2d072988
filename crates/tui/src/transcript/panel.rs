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

/// Columns as wide as their content; the first one shrinks.
fn table(rows: &[Vec<String>], inner: u16, look: Look<'_>) -> Vec<Line<'static>> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let wide = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.width()).max().unwrap_or_default()
    };
    let mut widths: Vec<usize> = (0..columns).map(wide).collect();
    let rest: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    if let Some(first) = widths.first_mut() {
        *first = (*first).min(usize::from(inner).saturating_sub(rest)).max(8);
    }
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let style = if index == 0 { look.theme.secondary() } else { look.theme.text() };
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
        if index == 0 {
            let rule = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
            lines.push(Line::from(Span::styled(
                "─".repeat(rule.min(usize::from(inner))),
                look.theme.border(),
            )));
        }
    }
    lines
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
