//! Edit distance, for "did you mean" suggestions.

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
}
