//! A terminal window over time, as an SVG that plays without scripts.
//!
//! Each row is drawn once for every text it had, and a style shows it at its time; rows that do not change cost nothing.
//! Readers who prefer reduced motion see one still moment.

use std::fmt::Write as _;
use std::time::Duration;

use super::{END, Palette, used_rows};

/// Windows in order, each with the time that it is shown.
pub struct Recording {
    palette: &'static Palette,
    columns: u16,
    rows: u16,
    frames: Vec<(Vec<String>, Duration)>,
    still: usize,
}

impl Recording {
    pub fn new(palette: &'static Palette) -> Self {
        Self { palette, columns: 0, rows: 1, frames: Vec::new(), still: 0 }
    }

    /// Adds a window. One that looks like the last prolongs it.
    pub fn add(&mut self, window: &vt100::Screen, shown: Duration) {
        self.columns = window.size().1;
        self.rows = self.rows.max(used_rows(window));
        let draw = |row: u16| {
            let mut svg = String::new();
            self.palette.draw_row(&mut svg, window, row, self.columns);
            svg
        };
        let rows: Vec<String> = (0..window.size().0).map(draw).collect();
        match self.frames.last_mut() {
            Some((last, time)) if *last == rows => *time += shown,
            _ => self.frames.push((rows, shown)),
        }
    }

    /// Makes the last window the one for readers who prefer reduced motion.
    pub fn mark_still(&mut self) {
        self.still = self.frames.len().saturating_sub(1);
    }

    /// Windows that differ from the one before.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub fn svg(&self, title: &str) -> String {
        let total: Duration = self.frames.iter().map(|(_, shown)| *shown).sum();
        let mut spans: Vec<(usize, usize)> = Vec::new();
        let mut rows = String::new();
        for row in 0..usize::from(self.rows) {
            for (text, from, to) in self.texts(row) {
                if text.is_empty() {
                    continue;
                }
                if (from, to) == (0, self.frames.len()) {
                    rows.push_str(text);
                    continue;
                }
                let known = spans.iter().position(|span| *span == (from, to));
                let number = known.unwrap_or_else(|| {
                    spans.push((from, to));
                    spans.len() - 1
                });
                let still = if (from..to).contains(&self.still) { " s" } else { "" };
                let _ =
                    writeln!(rows, "<g class=\"r{still}\" style=\"animation-name:k{number}\">\n{text}</g>");
            }
        }
        let style = self.style(&spans, total);
        self.palette.begin(self.columns, self.rows, title, &style) + &rows + END
    }

    /// The texts of a row, each with its first frame and the one after its last.
    fn texts(&self, row: usize) -> Vec<(&str, usize, usize)> {
        let mut texts: Vec<(&str, usize, usize)> = Vec::new();
        for (at, (rows, _)) in self.frames.iter().enumerate() {
            let text = rows.get(row).map_or("", String::as_str);
            match texts.last_mut() {
                Some((last, _, to)) if *last == text => *to = at + 1,
                _ => texts.push((text, at, at + 1)),
            }
        }
        texts
    }

    fn style(&self, spans: &[(usize, usize)], total: Duration) -> String {
        let percent = |frame: usize| {
            let before: Duration = self.frames.iter().take(frame).map(|(_, shown)| *shown).sum();
            before.as_secs_f64() / total.as_secs_f64().max(0.001) * 100.0
        };
        let mut style = format!(
            "\n.r{{visibility:hidden;animation:{:.2}s step-end infinite}}.s{{visibility:visible}}\n\
             @media(prefers-reduced-motion:reduce){{.r{{animation:none}}}}\n",
            total.as_secs_f64()
        );
        for (number, (from, to)) in spans.iter().enumerate() {
            let first = if *from == 0 { "visible" } else { "hidden" };
            let _ = write!(style, "@keyframes k{number}{{0%{{visibility:{first}}}");
            for (at, state) in [(*from, "visible"), (*to, "hidden")] {
                if at > 0 && at < self.frames.len() {
                    let _ = write!(style, "{:.3}%{{visibility:{state}}}", percent(at));
                }
            }
            style.push_str("}\n");
        }
        style
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::DARK;

    const SECOND: Duration = Duration::from_secs(1);

    fn recorded(windows: &[&str], still: usize) -> (String, usize) {
        let mut recording = Recording::new(&DARK);
        let mut emulator = vt100::Parser::new(4, 20, 0);
        for (at, bytes) in windows.iter().enumerate() {
            emulator.process(bytes.as_bytes());
            recording.add(emulator.screen(), SECOND);
            if at == still {
                recording.mark_still();
            }
        }
        (recording.svg("A recording"), recording.len())
    }

    #[test]
    fn a_row_is_drawn_once_for_each_of_its_texts_and_shown_at_its_time() {
        let (svg, frames) = recorded(&["always\r\n", "one", "", "\rtwo"], 1);
        // The third window is like the second: four seconds, three frames.
        assert_eq!(frames, 3);
        assert!(svg.contains("animation:4.00s"), "{svg}");
        for text in [">always<", ">one<", ">two<"] {
            assert_eq!(svg.matches(text).count(), 1, "{text} in {svg}");
        }
        let constant = svg.find(">always<").unwrap();
        assert!(svg.find("<g class=\"r").unwrap() > constant, "{svg}");
        assert!(svg.contains(
            "@keyframes k0{0%{visibility:hidden}25.000%{visibility:visible}75.000%{visibility:hidden}}"
        ));
        assert!(svg.contains("@keyframes k1{0%{visibility:hidden}75.000%{visibility:visible}}"), "{svg}");
    }

    #[test]
    fn readers_who_prefer_reduced_motion_see_the_marked_moment() {
        let (svg, _) = recorded(&["first", "\rother", "\rthird"], 1);
        let still: Vec<&str> = svg.split("<g class=\"r s\"").skip(1).collect();
        assert_eq!(still.len(), 1, "{svg}");
        assert!(still[0].contains(">other<"), "{svg}");
        assert!(svg.contains("prefers-reduced-motion:reduce"), "{svg}");
        assert!(!svg.contains("<script"), "{svg}");
    }
}
