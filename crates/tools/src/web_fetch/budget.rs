//! Divides the size limit among several pages.

/// Upstream's words at a cut.
const CUT: &str = "\n\n... [Content truncated due to size limit] ...";

/// Cuts texts to `budget` characters in total; short ones stay complete and leave their share to the others.
pub(super) fn shared(texts: &mut [String], budget: usize) {
    let lengths: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
    let allowance = allowance(&lengths, budget);
    for (text, length) in texts.iter_mut().zip(lengths) {
        if length > allowance {
            let end = text.char_indices().nth(allowance).map_or(text.len(), |(at, _)| at);
            text.truncate(end);
            text.push_str(CUT);
        }
    }
}

/// How long a text may be so that all fit.
fn allowance(lengths: &[usize], budget: usize) -> usize {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let mut left = budget;
    for (at, length) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - at);
        if *length > share {
            return share;
        }
        left -= length;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_leave_their_share_to_long_ones() {
        assert_eq!(allowance(&[], 10), usize::MAX);
        assert_eq!(allowance(&[3, 3], 10), usize::MAX);
        assert_eq!(allowance(&[2, 100, 100], 10), 4);
        assert_eq!(allowance(&[100, 100], 10), 5);
        let mut texts = ["é".repeat(9), "ab".to_owned()];
        shared(&mut texts, 6);
        assert_eq!(texts, [format!("éééé{CUT}"), "ab".to_owned()]);
    }
}
