//! Styled text broken into rows by display width.

use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// A tab is as wide as this where it stands.
const TAB: &str = "    ";

/// The prefix of the first row, and of the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Margin {
    pub(crate) first: Vec<Span<'static>>,
    pub(crate) rest: Vec<Span<'static>>,
}

impl Margin {
    /// A sign before the first row, and blanks of its width before the others.
    pub(crate) fn hanging(sign: Span<'static>) -> Self {
        let blanks = Span::raw(" ".repeat(sign.width()));
        Self { first: vec![sign], rest: vec![blanks] }
    }

    /// The same sign before every row.
    pub(crate) fn both(sign: Span<'static>) -> Self {
        Self { first: vec![sign.clone()], rest: vec![sign] }
    }

    fn width(&self) -> usize {
        let width = |spans: &[Span<'_>]| spans.iter().map(Span::width).sum::<usize>();
        width(&self.first).max(width(&self.rest))
    }
}

/// Breaks one logical line between words; a word that is wider than a row is broken inside.
pub(crate) fn wrap(spans: &[Span<'static>], width: u16, margin: &Margin) -> Vec<Line<'static>> {
    let room = usize::from(width).saturating_sub(margin.width()).max(1);
    let mut rows = Rows { rows: Vec::new(), row: Vec::new(), used: 0, room };
    for (word, style) in words(spans) {
        let wide = word.width();
        let blank = word.trim().is_empty();
        if rows.used + wide <= room {
            rows.push(&word, style, wide);
        } else if blank {
            rows.next();
        } else {
            if rows.used > 0 && wide <= room {
                rows.next();
            }
            rows.push_broken(&word, style);
        }
    }
    rows.finish(margin)
}

/// Breaks one logical line anywhere, as code and output of programs must be.
pub(crate) fn chop(spans: &[Span<'static>], width: u16, margin: &Margin) -> Vec<Line<'static>> {
    let room = usize::from(width).saturating_sub(margin.width()).max(1);
    let mut rows = Rows { rows: Vec::new(), row: Vec::new(), used: 0, room };
    for span in spans {
        rows.push_broken(&span.content.replace('\t', TAB), span.style);
    }
    rows.finish(margin)
}

/// A line that is no wider than this.
pub(crate) fn clip(line: Line<'static>, width: usize) -> Line<'static> {
    if line.width() <= width {
        return line;
    }
    let mut left = width;
    let mut spans = Vec::new();
    for span in line.spans {
        let mut kept = String::new();
        for grapheme in span.content.graphemes(true) {
            if grapheme.width() > left {
                left = 0;
                break;
            }
            left -= grapheme.width();
            kept.push_str(grapheme);
        }
        spans.push(Span::styled(kept, span.style));
    }
    Line::from(spans).style(line.style)
}

struct Rows {
    rows: Vec<Vec<Span<'static>>>,
    row: Vec<Span<'static>>,
    used: usize,
    room: usize,
}

impl Rows {
    fn push(&mut self, text: &str, style: Style, width: usize) {
        self.used += width;
        match self.row.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            _ => self.row.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn push_broken(&mut self, text: &str, style: Style) {
        for grapheme in text.graphemes(true) {
            let wide = grapheme.width();
            if self.used + wide > self.room && self.used > 0 {
                self.next();
            }
            // A character that is wider than the whole row is not shown at all.
            if wide <= self.room {
                self.push(grapheme, style, wide);
            }
        }
    }

    fn next(&mut self) {
        if let Some(last) = self.row.last_mut() {
            let kept = last.content.trim_end().len();
            last.content.to_mut().truncate(kept);
        }
        self.rows.push(std::mem::take(&mut self.row));
        self.used = 0;
    }

    fn finish(mut self, margin: &Margin) -> Vec<Line<'static>> {
        if !self.row.is_empty() || self.rows.is_empty() {
            self.rows.push(self.row);
        }
        let rows = self.rows.into_iter().enumerate().map(|(index, row)| {
            let before = if index == 0 { &margin.first } else { &margin.rest };
            Line::from([before.clone(), row].concat())
        });
        rows.collect()
    }
}

/// Runs of blanks and runs of other characters, with their styles. A word whose style changes inside is several
/// pieces; they are kept together by the row only as far as they fit.
fn words(spans: &[Span<'static>]) -> Vec<(String, Style)> {
    let mut words: Vec<(String, Style)> = Vec::new();
    for span in spans {
        for piece in span.content.split_word_bounds() {
            let piece = if piece == "\t" { TAB } else { piece };
            let blank = piece.trim().is_empty();
            match words.last_mut() {
                Some((word, style)) if *style == span.style && word.trim().is_empty() == blank => {
                    word.push_str(piece);
                }
                _ => words.push((piece.to_owned(), span.style)),
            }
        }
    }
    words
}

/// `12s`, `3m 4s`.
pub(crate) fn short(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds => format!("{}m {}s", seconds / 60, seconds % 60),
    }
}

/// The text in one row of at most this width, with `…` if that is not all.
pub(crate) fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut shown, mut used) = (String::new(), 0);
    for cluster in text.graphemes(true) {
        used += cluster.width();
        if used + 1 > width {
            break;
        }
        shown.push_str(cluster);
    }
    if width > 0 {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, width: u16) -> Vec<String> {
        wrap(&[Span::raw(text.to_owned())], width, &Margin::default()).iter().map(Line::to_string).collect()
    }

    #[test]
    fn words_stay_whole_where_they_can() {
        assert_eq!(rows("one two three", 8), ["one two", "three"]);
        assert_eq!(rows("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(rows("", 4), [""]);
        assert_eq!(rows("  indented", 20), ["  indented"]);
    }

    #[test]
    fn width_is_what_the_terminal_shows() {
        assert_eq!(rows("日本語文字", 4), ["日本", "語文", "字"]);
        assert_eq!(rows("日", 1), [""]);
        assert_eq!(rows("e\u{301}e\u{301}e\u{301}", 2), ["e\u{301}e\u{301}", "e\u{301}"]);
    }

    #[test]
    fn a_margin_hangs() {
        let margin = Margin::hanging(Span::raw("- "));
        let lines = wrap(&[Span::raw("one two three")], 9, &margin);
        let shown: Vec<String> = lines.iter().map(Line::to_string).collect();
        assert_eq!(shown, ["- one two", "  three"]);
    }
}
