//! The parts of two lines that differ.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// Words of a line that are compared; longer lines are not.
const MOST_WORDS: usize = 400;

/// The bytes of both lines that are not in the other one. Empty where the lines have little in common: then all of it
/// changed, and marks would only add noise.
pub(super) fn changed(old: &str, new: &str) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let (before, after) = (words(old), words(new));
    if before.len() > MOST_WORDS || after.len() > MOST_WORDS {
        return Default::default();
    }
    let kept = common(&before, &after);
    let length = |words: &[&str]| words.iter().map(|word| word.trim().len()).sum::<usize>();
    let same: Vec<&str> = kept.iter().filter_map(|(place, _)| before.get(*place).copied()).collect();
    if length(&same) * 5 < length(&before).max(length(&after)) * 2 {
        return Default::default();
    }
    let others = |words: &[&str], kept: &dyn Fn(usize) -> bool| {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut start = 0;
        for (place, word) in words.iter().enumerate() {
            let end = start + word.len();
            match ranges.last_mut() {
                _ if kept(place) => {}
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
            start = end;
        }
        ranges
    };
    (
        others(&before, &|place| kept.iter().any(|(old, _)| *old == place)),
        others(&after, &|place| kept.iter().any(|(_, new)| *new == place)),
    )
}

/// Words, blanks and signs, one after the other.
fn words(text: &str) -> Vec<&str> {
    text.split_word_bounds().collect()
}

/// The longest sequence of words that both have, as pairs of places.
fn common(before: &[&str], after: &[&str]) -> Vec<(usize, usize)> {
    let ahead = before.iter().zip(after).take_while(|(old, new)| old == new).count();
    let (old, new) = (before.get(ahead..).unwrap_or_default(), after.get(ahead..).unwrap_or_default());
    let behind = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (rows, columns) = (old.len() - behind, new.len() - behind);
    // How long the sequence is from each place on.
    let wide = columns + 1;
    let mut lengths = vec![0_u16; (rows + 1) * wide];
    let at =
        |lengths: &[u16], row: usize, column: usize| lengths.get(row * wide + column).copied().unwrap_or(0);
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            let length = match old.get(row) == new.get(column) {
                true => at(&lengths, row + 1, column + 1) + 1,
                false => at(&lengths, row + 1, column).max(at(&lengths, row, column + 1)),
            };
            if let Some(cell) = lengths.get_mut(row * wide + column) {
                *cell = length;
            }
        }
    }
    let mut pairs: Vec<(usize, usize)> = (0..ahead).map(|place| (place, place)).collect();
    let (mut row, mut column) = (0, 0);
    while row < rows && column < columns {
        if old.get(row) == new.get(column) {
            pairs.push((ahead + row, ahead + column));
            (row, column) = (row + 1, column + 1);
        } else if at(&lengths, row + 1, column) >= at(&lengths, row, column + 1) {
            row += 1;
        } else {
            column += 1;
        }
    }
    pairs.extend((0..behind).map(|place| (ahead + rows + place, ahead + columns + place)));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(old: &str, new: &str) -> (Vec<String>, Vec<String>) {
        let (in_old, in_new) = changed(old, new);
        let cut = |text: &str, ranges: Vec<Range<usize>>| {
            ranges.into_iter().map(|range| text.get(range).unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        (cut(old, in_old), cut(new, in_new))
    }

    #[test]
    fn only_the_words_that_differ_are_named() {
        let (old, new) = texts("return a + b; // the sum", "return a - b; // the difference");
        assert_eq!((old, new), (vec!["+".into(), "sum".into()], vec!["-".into(), "difference".into()]));
        let (old, new) = texts("数量は三です", "数量は四です");
        assert_eq!((old.concat(), new.concat()), ("三".to_owned(), "四".to_owned()));
    }

    #[test]
    fn lines_with_little_in_common_have_no_marks() {
        assert_eq!(changed("two", "2"), Default::default());
        assert_eq!(changed("fn main() {", "// nothing of this was there before"), Default::default());
        let long = "x ".repeat(MOST_WORDS);
        assert_eq!(changed(&long, &long), Default::default());
    }
}
