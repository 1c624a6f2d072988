//! Levenshtein distance.

/// How many insertions, deletions and substitutions turn `a` into `b`; `None` if more than `limit`.
///
/// Only the cells within `limit` of the diagonal are computed.
pub(super) fn bounded(a: &[char], b: &[char], limit: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let far = limit + 1;
    let mut above: Vec<usize> = (0..=b.len()).map(|column| column.min(far)).collect();
    let mut row = vec![far; b.len() + 1];
    for (index, from) in a.iter().enumerate() {
        let line = index + 1;
        let first = line.saturating_sub(limit);
        let last = (line + limit).min(b.len());
        row.fill(far);
        let mut best = far;
        for column in first..=last {
            let cell = if column == 0 {
                line.min(far)
            } else {
                let substituted = cell_at(&above, column - 1) + usize::from(b.get(column - 1) != Some(from));
                let deleted = cell_at(&above, column) + 1;
                let inserted = cell_at(&row, column - 1) + 1;
                substituted.min(deleted).min(inserted).min(far)
            };
            if let Some(place) = row.get_mut(column) {
                *place = cell;
            }
            best = best.min(cell);
        }
        if best > limit {
            return None;
        }
        std::mem::swap(&mut above, &mut row);
    }
    above.last().copied().filter(|distance| *distance <= limit)
}

fn cell_at(row: &[usize], column: usize) -> usize {
    row.get(column).copied().unwrap_or(usize::MAX / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chars(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    /// The textbook way.
    fn full(a: &[char], b: &[char]) -> usize {
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, from) in a.iter().enumerate() {
            let mut diagonal = row[0];
            row[0] = i + 1;
            for (j, to) in b.iter().enumerate() {
                let cell = (diagonal + usize::from(from != to)).min(row[j] + 1).min(row[j + 1] + 1);
                diagonal = row[j + 1];
                row[j + 1] = cell;
            }
        }
        row[b.len()]
    }

    #[test]
    fn known_distances() {
        assert_eq!(bounded(&chars("kitten"), &chars("sitting"), 5), Some(3));
        assert_eq!(bounded(&chars("kitten"), &chars("sitting"), 2), None);
        assert_eq!(bounded(&[], &[], 0), Some(0));
    }

    proptest! {
        #[test]
        fn the_bounded_distance_is_the_distance_or_nothing(a in "[abc]{0,12}", b in "[abc]{0,12}", limit in 0usize..14) {
            let (a, b) = (chars(&a), chars(&b));
            let distance = full(&a, &b);
            prop_assert_eq!(bounded(&a, &b, limit), (distance <= limit).then_some(distance));
        }
    }
}
