//! A piece of code and a change in the colours of a theme.

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use crate::theme::Theme;
use crate::wrap::{Margin, chop};
use crate::{code, diff};

const CODE: &str = "\
# the first numbers
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        yield \"%d\" % a
        a, b = b, a + b
";

const CHANGE: &str = "\
--- a/greeting.py
+++ b/greeting.py
@@ -1,2 +1,2 @@
-print(\"Hello, \" + name)
+print(f\"Hello, {name}!\")
 return 0
";

/// The sample, no more than `height` lines.
pub(super) fn lines(theme: &Theme, width: u16, height: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(Span::styled("Preview", theme.text().add_modifier(Modifier::BOLD)))];
    let written = code::highlight("python", CODE, theme);
    lines.extend(written.iter().flat_map(|line| chop(line, width, &Margin::default())));
    lines.push(Line::default());
    lines.extend(diff::render_text(CHANGE, "greeting.py", width, theme));
    lines.truncate(height);
    lines
}
