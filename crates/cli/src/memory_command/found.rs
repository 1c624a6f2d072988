//! Passages that were found.

use std::fmt::Write as _;

use pollux_domain::terminal_text::one_line;

use super::Hit;

/// Characters of a passage that are shown.
const SHOWN: usize = 300;

pub(super) fn text(query: &str, hits: &[Hit], explain: bool) -> String {
    if hits.is_empty() {
        return format!("Nothing found for: {}\n", one_line(query));
    }
    let mut text = String::new();
    for (index, hit) in hits.iter().enumerate() {
        let date = hit.date.as_deref().map(|date| format!(", {date}")).unwrap_or_default();
        // The user's own words need no mark.
        let whose = if hit.provenance == "owner" { String::new() } else { format!(", {}", hit.provenance) };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}. {}  ({}{date}{whose}, score {:.3})",
            index + 1,
            one_line(&hit.citation),
            hit.source,
            hit.score
        );
        if explain {
            let _ = writeln!(text, "   {}", explained(hit));
        }
        let _ = writeln!(text, "   {}", shortened(&hit.snippet));
    }
    text
}

/// `0.500 vector + 0.250 text = 0.750; cosine 0.612, keyword 0.800`
fn explained(hit: &Hit) -> String {
    let parts: Vec<String> = hit
        .parts
        .iter()
        .filter(|(_, value)| value.abs() >= 5e-7)
        .map(|(name, value)| format!("{value:.6} {name}"))
        .collect();
    let sum = if parts.is_empty() { "0".to_owned() } else { parts.join(" + ") };
    let mut text = format!("{sum} = {:.6}", hit.score);
    let raw = [("cosine", hit.cosine), ("keyword", hit.keyword)];
    let raw: Vec<String> =
        raw.iter().filter_map(|(name, value)| Some(format!("{name} {:.3}", (*value)?))).collect();
    if !raw.is_empty() {
        let _ = write!(text, "; {}", raw.join(", "));
    }
    text
}

fn shortened(snippet: &str) -> String {
    let line = one_line(snippet);
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}
