//! Passages that were found.

use std::fmt::Write as _;

use pollux_domain::terminal_text::one_line;

use super::Hit;

/// Characters of a passage that are shown, and how many of them precede the match at most.
const SHOWN: usize = 300;
const LEAD: usize = 100;

pub(super) fn text(query: &str, hits: &[Hit], explain: bool) -> String {
    if hits.is_empty() {
        return format!("No results for: {}\n", one_line(query));
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
        let _ = writeln!(text, "   {}", shortened(&hit.snippet, hit.focus));
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

/// The part of a passage around its match, on one line.
fn shortened(snippet: &str, focus: usize) -> String {
    let plain = |text: &str| one_line(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let whole = plain(snippet);
    if whole.chars().count() <= SHOWN {
        return whole;
    }
    let left: String = snippet.chars().skip(focus).collect();
    // At the end of a passage there is room for more text before the match.
    let lead = LEAD.max(SHOWN.saturating_sub(left.chars().count()));
    let from = focus.saturating_sub(lead);
    let line = plain(&snippet.chars().skip(from).collect::<String>());
    let before = if from > 0 && !line.starts_with('…') { "…" } else { "" };
    match line.char_indices().nth(SHOWN) {
        None => format!("{before}{line}"),
        Some((end, _)) => format!("{before}{}…", line.get(..end).unwrap_or_default()),
    }
}
