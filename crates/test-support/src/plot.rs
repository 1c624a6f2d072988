//! Bars and lines as SVG, readable on light and dark pages.

use std::fmt::Write as _;

/// Sizes in pixels: the picture, the column of names, a bar with the room below it, the title.
const WIDTH: usize = 760;
const NAMES: usize = 190;
const BAR: usize = 18;
const STEP: usize = 26;
const TITLE: usize = 44;
const MARGIN: usize = 16;
/// The room of a line.
const HEIGHT: usize = 160;
/// Room for the figure to the right of the longest bar.
const FIGURES: usize = 110;

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    pub name: String,
    pub value: f64,
    /// The value as people read it.
    pub figure: String,
    /// Drawn in the colour that stands out.
    pub is_ours: bool,
}

/// Horizontal bars from zero on one linear scale. The same bars always give the same picture.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let longest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let room = (WIDTH - NAMES - FIGURES - MARGIN) as f64;
    let mut svg = frame(title, TITLE + bars.len() * STEP + MARGIN);
    for (at, bar) in bars.iter().enumerate() {
        let top = TITLE + at * STEP;
        let base = top + BAR - 4;
        // A bar too short to see is still there.
        let length = if longest > 0.0 { (bar.value / longest * room).max(1.0) } else { 1.0 };
        let class = if bar.is_ours { "o" } else { "p" };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{NAMES}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\"/>\
             <text x=\"{:.1}\" y=\"{base}\">{}</text>",
            NAMES - 10,
            escaped(&bar.name),
            NAMES as f64 + length + 8.0,
            escaped(&bar.figure)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Values over time on a linear scale from zero. `figure` says a value as people read it.
pub fn line(title: &str, values: &[f64], figure: impl Fn(f64) -> String) -> String {
    let highest = values.iter().copied().fold(0.0, f64::max);
    let (left, width, height) = (MARGIN as f64, (WIDTH - FIGURES - MARGIN) as f64, HEIGHT as f64);
    let mut svg = frame(title, TITLE + HEIGHT + MARGIN);
    let across = |at: usize| left + width * at as f64 / values.len().saturating_sub(1).max(1) as f64;
    let up = |value: f64| TITLE as f64 + height * (1.0 - if highest > 0.0 { value / highest } else { 0.0 });
    let points: Vec<String> =
        values.iter().enumerate().map(|(at, value)| format!("{:.1},{:.1}", across(at), up(*value))).collect();
    let _ = writeln!(svg, "<polyline class=\"l\" points=\"{}\"/>", points.join(" "));
    let base = TITLE + HEIGHT;
    let _ = writeln!(svg, "<path class=\"a\" d=\"M{left} {base}h{width}\"/>");
    if let Some(last) = values.last() {
        let (x, y) = (left + width + 8.0, up(*last) + 4.0);
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(&figure(*last)));
    }
    svg.push_str("</svg>\n");
    svg
}

/// A picture with nothing but its frame and title.
fn frame(title: &str, height: usize) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{}</title>\n\
         <style>\n\
         text{{font:14px system-ui,'DejaVu Sans',sans-serif;fill:#24292f}}.t{{font-weight:600;font-size:15px}}\n\
         .b{{fill:#fff;stroke:#8888}}.o{{fill:#0969da}}.l{{fill:none;stroke:#0969da;stroke-width:1.5}}.a{{stroke:#8888}}.p{{fill:#8c959f}}\n\
         @media(prefers-color-scheme:dark){{text{{fill:#cdd6f4}}.b{{fill:#1e1e2e}}.o{{fill:#89b4fa}}.l{{stroke:#89b4fa}}.p{{fill:#6c7086}}}}\n\
         </style>\n\
         <rect class=\"b\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
         <text class=\"t\" x=\"{MARGIN}\" y=\"28\">{}</text>\n",
        escaped(title),
        WIDTH - 1,
        height - 1,
        escaped(title)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: f64, is_ours: bool) -> Bar {
        Bar { name: name.to_owned(), value, figure: format!("{value} ms"), is_ours }
    }

    #[test]
    fn lengths_are_in_proportion_and_every_bar_has_its_figure() {
        let picture =
            bars("Start & end", &[bar("a<b", 10.0, true), bar("c", 20.0, false), bar("d", 0.0, false)]);
        let lengths: Vec<f64> = picture
            .split("height=\"18\"")
            .filter_map(|before| before.rsplit("width=\"").next()?.split('"').next()?.parse().ok())
            .take(3)
            .collect();
        assert_eq!(lengths.len(), 3, "{picture}");
        assert!((lengths[1] / lengths[0] - 2.0).abs() < 0.01, "{lengths:?}");
        assert!((lengths[2] - 1.0).abs() < 0.01, "{lengths:?}");
        assert!(picture.contains("Start &amp; end") && picture.contains("a&lt;b"), "{picture}");
        assert!(picture.contains(">10 ms<") && picture.contains("class=\"o\""), "{picture}");
    }

    #[test]
    fn a_line_rises_with_its_values_and_names_the_last() {
        let picture = line("Memory", &[0.0, 5.0, 10.0], |value| format!("{value} MiB"));
        assert!(picture.contains("points=\"16.0,204.0 333.0,124.0 650.0,44.0\""), "{picture}");
        assert!(picture.contains(">10 MiB<"), "{picture}");
        assert!(!line("Nothing", &[], |value| value.to_string()).contains("NaN"));
    }

    #[test]
    fn no_bars_and_only_empty_ones_are_drawn() {
        assert!(bars("Nothing", &[]).ends_with("</svg>\n"));
        assert!(!bars("Zero", &[bar("a", 0.0, true)]).contains("NaN"));
    }
}
