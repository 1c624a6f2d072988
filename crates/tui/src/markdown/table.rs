//! Tables, drawn with lines and cut to the width there is.

use pulldown_cmark::Alignment;
use ratatui::text::{Line, Span};

use super::Look;
use crate::wrap::{Margin, wrap};

/// A cell's text.
pub(super) type Cell = Vec<Span<'static>>;

/// A column is never narrower than this.
const NARROWEST: usize = 3;

/// Draws rows; the first is the heading.
pub(super) fn draw(rows: &[Vec<Cell>], sides: &[Alignment], look: Look<'_>) -> Vec<Line<'static>> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    if columns == 0 {
        return Vec::new();
    }
    let widths = widths(rows, columns, usize::from(look.width));
    let rule = |left: char, middle: char, right: char| {
        let bars: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        let text = format!("{left}{}{right}", bars.join(&middle.to_string()));
        Line::from(Span::styled(text, look.theme.border()))
    };
    let mut lines = vec![rule('┌', '┬', '┐')];
    for (index, row) in rows.iter().enumerate() {
        if index == 1 {
            lines.push(rule('├', '┼', '┤'));
        }
        lines.extend(row_lines(row, &widths, sides, look));
    }
    lines.push(rule('└', '┴', '┘'));
    lines
}

/// Column widths: as wide as the content; if it does not fit, the widest columns shrink first.
fn widths(rows: &[Vec<Cell>], columns: usize, room: usize) -> Vec<usize> {
    let wide = |cell: &Cell| cell.iter().map(Span::width).sum::<usize>();
    let mut widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(wide).max().unwrap_or_default())
        .map(|width| width.max(NARROWEST))
        .collect();
    let room = room.saturating_sub(3 * columns + 1).max(NARROWEST * columns);
    loop {
        let total: usize = widths.iter().sum();
        let Some(excess) = total.checked_sub(room).filter(|excess| *excess > 0) else { return widths };
        let widest = widths.iter().copied().max().unwrap_or_default();
        if widest <= NARROWEST {
            return widths;
        }
        let next =
            widths.iter().copied().filter(|width| *width < widest).max().unwrap_or(NARROWEST).max(NARROWEST);
        let count = widths.iter().filter(|width| **width == widest).count();
        let step = (widest - next).min(excess.div_ceil(count)).max(1);
        widths.iter_mut().filter(|width| **width == widest).for_each(|width| *width -= step);
    }
}

fn row_lines(row: &[Cell], widths: &[usize], sides: &[Alignment], look: Look<'_>) -> Vec<Line<'static>> {
    let cells: Vec<Vec<Line<'static>>> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| {
            let cell = row.get(column).cloned().unwrap_or_default();
            wrap(&cell, u16::try_from(*width).unwrap_or(u16::MAX), &Margin::default())
        })
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or_default();
    let bar = |text: &'static str| Span::styled(text, look.theme.border());
    (0..height)
        .map(|index| {
            let mut spans = vec![bar("│")];
            for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                let line = cell.get(index).cloned().unwrap_or_default();
                let blanks = width.saturating_sub(line.width());
                let before = match sides.get(column) {
                    Some(Alignment::Right) => blanks,
                    Some(Alignment::Center) => blanks / 2,
                    _ => 0,
                };
                spans.push(Span::raw(" ".repeat(before + 1)));
                spans.extend(line.spans);
                spans.push(Span::raw(" ".repeat(blanks - before + 1)));
                spans.push(bar("│"));
            }
            Line::from(spans)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::markdown;
    use crate::theme::Theme;

    #[test]
    fn columns_are_aligned_as_the_table_says() {
        let theme = Theme::no_colour();
        let text =
            "| left | mid | right |\n|:---|:--:|---:|\n| a | b | c |\n| long text | 日本語 | 1234567 |\n";
        let look = markdown::Look { theme: &theme, width: 60, line_numbers: false };
        let lines: Vec<String> = markdown::render(text, look).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "┌───────────┬────────┬─────────┐",
                "│ left      │  mid   │   right │",
                "├───────────┼────────┼─────────┤",
                "│ a         │   b    │       c │",
                "│ long text │ 日本語 │ 1234567 │",
                "└───────────┴────────┴─────────┘",
            ]
        );
    }
}
