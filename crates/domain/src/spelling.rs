//! Edit distance, for "did you mean" suggestions.

/// Suggestions for one mistyped name.
const MAX_SIMILAR: usize = 3;

/// Edit distance: letters changed, added or dropped.
pub fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, left) in one.chars().enumerate() {
        let mut diagonal = line;
        let mut before = line + 1;
        for (right, cell) in other.iter().zip(row.iter_mut().skip(1)) {
            let cost = if left == *right { diagonal } else { 1 + diagonal.min(before).min(*cell) };
            diagonal = *cell;
            *cell = cost;
            before = cost;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// At most three names that a mistyped one may have meant, the nearest first.
pub fn similar<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let most = (typed.chars().count() / 4).clamp(1, 4);
    let mut near: Vec<(usize, &str)> = names.into_iter().map(|name| (distance(typed, name), name)).collect();
    near.retain(|(far, _)| (1..=most).contains(far));
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(MAX_SIMILAR).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        for (a, b, expected) in
            [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("same", "same", 0)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn similar_names_are_few_and_the_nearest_comes_first() {
        let names = ["gemini-2.5-pro", "gemini-2.5-flash", "gemini-3-pro", "gemini-2.5-pro"];
        assert_eq!(similar("gemini-2-pro", names), ["gemini-3-pro", "gemini-2.5-pro"]);
        assert_eq!(similar("gemini-2.5-pr", names), ["gemini-2.5-pro"]);
        assert!(similar("nonsense", names).is_empty());
        assert!(similar("gemini-2.5-pro", ["gemini-2.5-pro"]).is_empty(), "the same name is no suggestion");
    }
}
