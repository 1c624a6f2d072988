//! Finds the lines most similar to a text that was not found, for the error message.

use std::collections::HashSet;

/// More lines than this are not shown.
const MAX_SHOWN: usize = 20;
/// Limits of lines and characters examined, so that the error comes quickly.
const MAX_LINES: usize = 50_000;
const MAX_LINE_CHARS: usize = 200;
/// Less alike than this is of no help.
const LEAST: f64 = 0.5;

/// The nearest lines with their numbers, as a text for the model.
pub(super) fn region(text: &str, old: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
    let wanted: Vec<&str> = old.lines().map(str::trim).collect();
    let height = wanted.len().clamp(1, MAX_SHOWN);
    let (first, last) = window_of_equal_lines(&lines, &wanted)
        .or_else(|| line_like(&lines, wanted.iter().max_by_key(|line| line.len())?, height))?;
    let shown: Vec<String> = (first..last)
        .filter_map(|index| {
            let line: String = lines.get(index)?.chars().take(MAX_LINE_CHARS).collect();
            Some(format!("{}: {line}", index + 1))
        })
        .collect();
    Some(format!("The nearest text in the file is at lines {}-{last}:\n{}", first + 1, shown.join("\n")))
}

/// The window with the most lines that occur in the text, best in the same places; `None` without any.
fn window_of_equal_lines(lines: &[&str], wanted: &[&str]) -> Option<(usize, usize)> {
    // A single bracket is not significant.
    let is_telling = |line: &str| line.chars().count() >= 4;
    let telling: HashSet<&str> = wanted.iter().copied().filter(|line| is_telling(line)).collect();
    let hits: Vec<bool> = lines.iter().map(|line| telling.contains(line.trim())).collect();
    let height = wanted.len().clamp(1, MAX_SHOWN).min(lines.len());
    let mut best = ((0, 0), 0);
    for (start, window) in hits.windows(height.max(1)).enumerate() {
        let count = window.iter().filter(|hit| **hit).count();
        if count == 0 {
            continue;
        }
        let here = lines.iter().skip(start);
        let in_place = here.zip(wanted).take(height).filter(|(line, wanted)| line.trim() == **wanted).count();
        if (count, in_place) > best.0 {
            best = ((count, in_place), start);
        }
    }
    (best.0.0 > 0).then(|| (best.1, best.1 + height))
}

/// A window around the line that shares the most pairs of letters with `wanted`.
fn line_like(lines: &[&str], wanted: &str, height: usize) -> Option<(usize, usize)> {
    let target = pairs(wanted);
    let mut best = (LEAST, None);
    for (index, line) in lines.iter().enumerate() {
        let found = pairs(line.trim());
        let total = target.len() + found.len();
        if total == 0 {
            continue;
        }
        #[expect(clippy::cast_precision_loss, reason = "a line has a few hundred pairs")]
        let score = 2.0 * target.intersection(&found).count() as f64 / total as f64;
        if score > best.0 {
            best = (score, Some(index));
        }
    }
    let middle = best.1?;
    let first = middle.saturating_sub(height / 2);
    Some((first, (first + height).min(lines.len())))
}

fn pairs(line: &str) -> HashSet<(char, char)> {
    let chars = line.chars().take(MAX_LINE_CHARS);
    chars.clone().zip(chars.skip(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_with_equal_lines_wins() {
        let text = "one\nfn alpha() {\n    beta();\n    gamma(1);\n}\nend\n";
        let region = region(text, "fn alpha() {\n    beta();\n    delta();\n}").unwrap();
        assert_eq!(
            region,
            "The nearest text in the file is at lines 2-5:\n2: fn alpha() {\n3:     beta();\n4:     gamma(1);\n5: }"
        );
    }

    #[test]
    fn otherwise_the_most_similar_line_is_shown() {
        let text = "first\nlet total_count = items.len();\nlast\n";
        assert!(
            region(text, "let totalCount = items.length();")
                .unwrap()
                .ends_with("2: let total_count = items.len();")
        );
        assert_eq!(region(text, "§§§§§§"), None);
        assert_eq!(region("", "x"), None);
    }
}
