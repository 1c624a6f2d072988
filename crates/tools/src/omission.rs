//! Finds lines with which models leave out code, such as `// rest of methods ...`.

const PHRASES: &[&str] = &[
    "rest of",
    "rest of method",
    "rest of methods",
    "rest of code",
    "unchanged code",
    "unchanged method",
    "unchanged methods",
];

/// The placeholder lines of a text, trimmed and in lower case.
pub(crate) fn placeholders(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter_map(placeholder)
}

/// Upstream's rule: optional `//`, optional parentheses, a phrase, and then nothing but dots.
fn placeholder(line: &str) -> Option<String> {
    let lower = line.trim().to_lowercase();
    let mut body = lower.strip_prefix("//").unwrap_or(&lower).trim();
    if let Some(inner) = body.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        body = inner.trim();
    }
    let phrase = body.strip_suffix("...")?.trim_end_matches('.').trim();
    let phrase = phrase.split_whitespace().collect::<Vec<_>>().join(" ");
    PHRASES.contains(&phrase.as_str()).then(|| lower.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_told_from_code_and_prose() {
        for line in
            ["// rest of methods ...", "  (unchanged code...)", "Rest of ...", "// (rest of code.....)"]
        {
            assert_eq!(placeholders(line).count(), 1, "{line}");
        }
        for line in [
            "let rest = of();",
            "// rest of methods ... and more",
            "the rest of code",
            "...",
            "# rest of ...",
        ] {
            assert_eq!(placeholders(line).count(), 0, "{line}");
        }
    }
}
